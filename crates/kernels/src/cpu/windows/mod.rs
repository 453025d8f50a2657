//! Pools: vectors of channels, one output line (forward) or input line (backward) after the other.
//!
//! Backward passes gather: each element of the input asks which windows hold it. So every element is written once, also where windows overlap
//! or leave gaps, lines can be divided over threads, and the order of a sum is always the same.

mod average;
mod max;

use super::simd::Simd;
use paceline_base::window::PoolDims;
use std::ops::Range;

/// The part of a window that lies within the image, along one axis: window number `o`, in the window's own places.
#[inline(always)]
fn within(d: &PoolDims, axis: usize, o: usize) -> Range<usize> {
    let (size, begin) = ([d.height, d.width][axis], o * d.stride[axis]);
    d.pad[axis].saturating_sub(begin)..d.window[axis].min((size + d.pad[axis]).saturating_sub(begin))
}

/// The windows along one axis that hold place `i`.
#[inline(always)]
fn holding(d: &PoolDims, axis: usize, i: usize) -> Range<usize> {
    let (at, windows) = (i + d.pad[axis], [d.out_height, d.out_width][axis]);
    let first = (at + 1).saturating_sub(d.window[axis]).div_ceil(d.stride[axis]);
    first..windows.min(at / d.stride[axis] + 1)
}

/// Calls `each(output, place of the window's corner, rows, columns)` for the windows of some output lines, counted over all samples; rows and
/// columns are those of the window that lie within the image, and the corner may lie outside (so its place wraps).
#[inline(always)]
fn outputs(d: &PoolDims, lines: Range<usize>, mut each: impl FnMut(usize, usize, Range<usize>, Range<usize>)) {
    for line in lines {
        let (sample, oy) = (line / d.out_height, line % d.out_height);
        let rows = within(d, 0, oy);
        let top = (sample * d.height + oy * d.stride[0]).wrapping_sub(d.pad[0]).wrapping_mul(d.width);
        for ox in 0..d.out_width {
            let corner = top.wrapping_add(ox * d.stride[1]).wrapping_sub(d.pad[1]);
            each(line * d.out_width + ox, corner, rows.clone(), within(d, 1, ox));
        }
    }
}

/// One window that holds an element of the input.
struct Holder {
    /// The window's output.
    output: usize,
    /// Where the element is in the window.
    place: usize,
    /// Whether it is the first of the windows that hold the element.
    first: bool,
}

/// Calls `each(input, holder)` for the elements of some input lines, counted over all samples, and for each window that holds them; without a
/// holder for those that no window holds.
#[inline(always)]
fn inputs(d: &PoolDims, lines: Range<usize>, mut each: impl FnMut(usize, Option<Holder>)) {
    for line in lines {
        let (sample, y) = (line / d.height, line % d.height);
        let rows = holding(d, 0, y);
        let (mut first, mut end) = (0, 0);
        for x in 0..d.width {
            // As `holding` says, but without its divisions: windows come and go one by one.
            while first < d.out_width && first * d.stride[1] + d.window[1] <= x + d.pad[1] {
                first += 1;
            }
            while end < d.out_width && end * d.stride[1] <= x + d.pad[1] {
                end += 1;
            }
            let input = line * d.width + x;
            if rows.is_empty() || first >= end {
                each(input, None);
            }
            for oy in rows.clone() {
                for ox in first..end {
                    let (wy, wx) = (y + d.pad[0] - oy * d.stride[0], x + d.pad[1] - ox * d.stride[1]);
                    let output = (sample * d.out_height + oy) * d.out_width + ox;
                    let first = oy == rows.start && ox == first;
                    each(input, Some(Holder { output, place: wy * d.window[1] + wx, first }));
                }
            }
        }
    }
}

/// Calls `each(first channel, lanes, mask)` for the vectors of all channels.
#[inline(always)]
fn channels<S: Simd>(s: S, channels: usize, mut each: impl FnMut(usize, usize, Option<S::M>)) {
    let full = channels / S::LANES * S::LANES;
    let mut c = 0;
    while c < full {
        each(c, S::LANES, None);
        c += S::LANES;
    }
    if full < channels {
        each(full, channels - full, Some(s.head(channels - full)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_finding_windows_agree() {
        for (height, window, stride, pad) in [(7, 3, 2, 1), (5, 2, 2, 0), (9, 2, 4, 1), (4, 4, 1, 3), (6, 1, 1, 0)] {
            let out = (height + 2 * pad - window) / stride + 1;
            let d = PoolDims {
                samples: 2,
                height,
                width: height,
                channels: 1,
                out_height: out,
                out_width: out,
                window: [window; 2],
                stride: [stride; 2],
                pad: [pad; 2],
            };
            let mut found = vec![Vec::new(); 2 * height * height];
            inputs(&d, 0..2 * height, |input, holder| {
                let before: &mut Vec<(usize, usize)> = &mut found[input];
                if let Some(Holder { output, place, first }) = holder {
                    assert_eq!(first, before.is_empty(), "element {input} of {d:?}");
                    before.push((output, place));
                }
            });
            let mut expected = vec![Vec::new(); 2 * height * height];
            outputs(&d, 0..2 * out, |output, corner, rows, columns| {
                for wy in rows {
                    for wx in columns.clone() {
                        expected[corner.wrapping_add(wy * d.width + wx)].push((output, wy * window + wx));
                    }
                }
            });
            assert_eq!(found, expected, "{d:?}");
        }
    }
}

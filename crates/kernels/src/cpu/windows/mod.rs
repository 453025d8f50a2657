//! Pools: vectors of channels, one output line (forward) or input line (backward) after the other.
//!
//! Backward passes gather: each element of the input asks which windows hold it. So every element is written once, also where windows overlap
//! or leave gaps, lines can be divided over threads, and the order of a sum is always the same.

mod average;
mod max;
mod spread;

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

/// One window.
struct Window {
    /// Its output.
    output: usize,
    /// The place of its corner among all elements, channels apart; it may lie outside the image, so it wraps.
    corner: usize,
    /// The rows and columns of the window that lie within the image.
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Window {
    /// The element of the input at a place of the window that lies within the image.
    #[inline(always)]
    fn input(&self, d: &PoolDims, wy: usize, wx: usize) -> usize {
        self.corner.wrapping_add(wy * d.width + wx)
    }
}

/// What is done with every window. A trait and not a closure, so that it is surely inlined (see [`vectors`](super::simd::vectors)).
trait Outputs {
    /// # Safety
    /// The window must be one of those that the pointers behind it are for.
    unsafe fn window(&mut self, window: Window);
}

/// What is done with every element of the input.
trait Inputs {
    /// Called for each window that holds the element.
    ///
    /// # Safety
    /// As for [`Outputs::window`].
    unsafe fn held(&mut self, input: usize, by: Holder);
    /// Called once if none does.
    ///
    /// # Safety
    /// As for [`Outputs::window`].
    unsafe fn alone(&mut self, input: usize);
}

/// The windows of some output lines, counted over all samples.
///
/// # Safety
/// As for [`Outputs::window`].
#[inline(always)]
unsafe fn outputs(d: &PoolDims, lines: Range<usize>, each: &mut impl Outputs) {
    for line in lines {
        let (sample, oy) = (line / d.out_height, line % d.out_height);
        let rows = within(d, 0, oy);
        let top = (sample * d.height + oy * d.stride[0]).wrapping_sub(d.pad[0]).wrapping_mul(d.width);
        for ox in 0..d.out_width {
            let corner = top.wrapping_add(ox * d.stride[1]).wrapping_sub(d.pad[1]);
            let (rows, columns) = (rows.clone(), within(d, 1, ox));
            // SAFETY: passed on to the caller.
            unsafe { each.window(Window { output: line * d.out_width + ox, corner, rows, columns }) };
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

/// The elements of some input lines, counted over all samples, with the windows that hold them.
///
/// # Safety
/// As for [`Outputs::window`].
#[inline(always)]
unsafe fn inputs(d: &PoolDims, lines: Range<usize>, each: &mut impl Inputs) {
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
                // SAFETY: passed on to the caller.
                unsafe { each.alone(input) };
            }
            for oy in rows.clone() {
                for ox in first..end {
                    let (wy, wx) = (y + d.pad[0] - oy * d.stride[0], x + d.pad[1] - ox * d.stride[1]);
                    let output = (sample * d.out_height + oy) * d.out_width + ox;
                    let first = oy == rows.start && ox == first;
                    // SAFETY: passed on to the caller.
                    unsafe { each.held(input, Holder { output, place: wy * d.window[1] + wx, first }) };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By input: the outputs of the windows that hold it, and its places there.
    struct Found(Vec<Vec<(usize, usize)>>);

    impl Inputs for Found {
        unsafe fn held(&mut self, input: usize, by: Holder) {
            assert_eq!(by.first, self.0[input].is_empty(), "element {input}");
            self.0[input].push((by.output, by.place));
        }
        unsafe fn alone(&mut self, input: usize) {
            assert!(self.0[input].is_empty(), "element {input}");
        }
    }

    /// The same, from the windows' side.
    struct Expected(PoolDims, Vec<Vec<(usize, usize)>>);

    impl Outputs for Expected {
        unsafe fn window(&mut self, window: Window) {
            for wy in window.rows.clone() {
                for wx in window.columns.clone() {
                    let place = wy * self.0.window[1] + wx;
                    self.1[window.input(&self.0, wy, wx)].push((window.output, place));
                }
            }
        }
    }

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
            let (mut found, mut expected) = (Found(vec![Vec::new(); 2 * height * height]), Vec::new());
            expected.resize(2 * height * height, Vec::new());
            let mut expected = Expected(d, expected);
            // SAFETY: nothing here has pointers.
            unsafe {
                inputs(&d, 0..2 * height, &mut found);
                outputs(&d, 0..2 * out, &mut expected);
            }
            let (found, expected) = (found.0, expected.1);
            assert_eq!(found, expected, "{d:?}");
        }
    }
}

//! Samples as images: [height, width, channels], or [height, width] for one channel; and windows that slide over them.
//!
//! A part along height or width reads a halo: its input region is clipped to the image, and what a window reads beyond
//! it is zero only where the image itself ends. Every window reaches at least one row and column of the image (a larger
//! padding is refused), so that no part reads nothing.

use super::SplitDim;
use paceline_base::region::Region;
use paceline_base::{Error, Result};
use std::ops::Range;

/// `28×28` or `192×192×3`, as messages say it.
pub(super) fn sizes(shape: &[usize]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("×")
}

/// Height, width and channels of an image; a shape with two axes has one channel.
pub(super) fn image(what: &str, shape: &[usize]) -> Result<[usize; 3]> {
    match *shape {
        [h, w] => Ok([h, w, 1]),
        [h, w, c] => Ok([h, w, c]),
        _ => Err(Error::user(format!(
            "{what} takes images of shape [height, width, channels], but gets {shape:?}; put it before flatten"
        ))),
    }
}

/// Channels of a sample: the last axis of [channels] and [height, width, channels], one for [height, width].
pub(super) fn channels(shape: &[usize]) -> usize {
    if shape.len() == 2 { 1 } else { shape[shape.len() - 1] }
}

/// Channels in a region whose first axis is the sample, like [`channels`].
pub(super) fn region_channels(region: &Region) -> usize {
    if region.rank() == 3 { 1 } else { region.range(region.rank() - 1).len() }
}

/// The same region with other channels; one without a channel axis stays as it is.
pub(super) fn with_channels(region: &Region, range: Range<usize>) -> Region {
    if region.rank() == 3 { region.clone() } else { region.with(region.rank() - 1, range) }
}

/// `sample, height, width` and, if the image has a channel axis, `out` over that many channels.
pub(super) fn image_dims(batch: usize, [height, width]: [usize; 2], channels: Option<usize>) -> Vec<SplitDim> {
    let mut dims = vec![
        SplitDim { name: "sample", extent: batch },
        SplitDim { name: "height", extent: height },
        SplitDim { name: "width", extent: width },
    ];
    dims.extend(channels.map(|extent| SplitDim { name: "out", extent }));
    dims
}

/// How a window slides over an image, down and across.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slide {
    /// Taps of the window.
    pub window: [usize; 2],
    /// Steps between windows.
    pub stride: [usize; 2],
    /// Zeros on every side.
    pub pad: [usize; 2],
    /// Steps between taps.
    pub dilation: [usize; 2],
}

impl Slide {
    /// The window, and what is not as usual: steps (unless they are `usual`), zeros around, gaps between taps.
    pub(crate) fn words(&self, usual: [usize; 2]) -> String {
        let pair = |[a, b]: [usize; 2]| if a == b { a.to_string() } else { format!("{a}×{b}") };
        let mut words = format!("{}×{}", self.window[0], self.window[1]);
        if self.stride != usual {
            words += &format!(" /{}", pair(self.stride));
        }
        if self.pad != [0, 0] {
            words += &format!(" pad {}", pair(self.pad));
        }
        if self.dilation != [1, 1] {
            words += &format!(" dilation {}", pair(self.dilation));
        }
        words
    }

    /// From the first to behind the last tap.
    fn reach(&self, axis: usize) -> usize {
        self.dilation[axis] * (self.window[axis] - 1) + 1
    }

    /// Rows and columns of the output for an image of this size (only whole windows count, as in PyTorch), or an error
    /// that says what does not fit.
    pub(crate) fn output(&self, what: &str, shape: &[usize]) -> Result<[usize; 2]> {
        let side = [shape[0], shape[1]];
        let name = |n: [usize; 2]| format!("{}×{}", n[0], n[1]);
        for (key, value) in [("window", self.window), ("stride", self.stride), ("dilation", self.dilation)] {
            if value.contains(&0) {
                return Err(Error::user(format!("{what}: its {key} is {}; give at least 1", name(value))));
            }
        }
        let reach = [self.reach(0), self.reach(1)];
        if (0..2).any(|a| self.pad[a] >= reach[a]) {
            return Err(Error::user(format!(
                "{what}: a pad of {} is as large as its {} window, which would see zeros alone; give less, or put a pad \
                 layer before it",
                name(self.pad),
                name(reach)
            )));
        }
        if (0..2).any(|a| side[a] + 2 * self.pad[a] < reach[a]) {
            let padded = if self.pad == [0, 0] { String::new() } else { format!(" padded by {}", name(self.pad)) };
            return Err(Error::user(format!(
                "{what}: a {} window with stride {} does not fit into {}{padded}; give larger images, a smaller window, \
                 or take out an earlier stride or pool",
                name(reach),
                name(self.stride),
                sizes(shape)
            )));
        }
        Ok([0, 1].map(|a| (side[a] + 2 * self.pad[a] - reach[a]) / self.stride[a] + 1))
    }

    /// The input that `out` of the output reads along an axis, clipped to the image. The last part takes the rows behind
    /// its last window too, which nobody else reads: then what is read whole needs no copy of its own.
    pub(crate) fn reads(&self, axis: usize, out: &Range<usize>, extent: usize) -> Range<usize> {
        if out.is_empty() {
            return 0..0;
        }
        let (stride, pad) = (self.stride[axis], self.pad[axis]);
        let start = (out.start * stride).saturating_sub(pad);
        let end = ((out.end - 1) * stride + self.reach(axis)).saturating_sub(pad);
        let last = out.end == (extent + 2 * pad - self.reach(axis)) / stride + 1;
        start..if last { extent } else { end.min(extent) }
    }

    /// The zeros above (or before) what a part reads: none, unless it begins at the edge of the image.
    pub(crate) fn local_pad(&self, out: &Region, input: &Region) -> [usize; 2] {
        [0, 1].map(|a| input.range(1 + a).start + self.pad[a] - out.range(1 + a).start * self.stride[a])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slide(window: usize, stride: usize, pad: usize, dilation: usize) -> Slide {
        Slide { window: [window; 2], stride: [stride; 2], pad: [pad; 2], dilation: [dilation; 2] }
    }

    #[test]
    fn windows_fit_as_in_pytorch_or_both_sizes_are_named() {
        let check = |s: Slide, shape: &[usize], expected: &str| {
            let got = s.output("max-pool", shape).map(|n| format!("{n:?}"));
            let got = got.unwrap_or_else(|e| e.message().into());
            assert!(got.contains(expected), "wanted {expected:?}, got {got:?}");
        };
        check(slide(3, 2, 0, 1), &[7, 8, 3], "[3, 3]");
        check(slide(3, 2, 1, 1), &[7, 8], "[4, 4]");
        check(slide(3, 1, 2, 2), &[5, 6, 1], "[5, 6]");
        check(slide(11, 4, 2, 1), &[224, 224, 3], "[55, 55]");
        check(slide(3, 2, 0, 1), &[2, 2, 8], "a 3×3 window with stride 2×2 does not fit into 2×2×8");
        check(slide(3, 1, 0, 2), &[4, 9, 8], "a 5×5 window");
        check(slide(1, 1, 1, 1), &[4, 4, 8], "zeros alone");
        check(slide(2, 0, 0, 1), &[4, 4, 8], "its stride is 0×0");
    }

    #[test]
    fn parts_read_halos_and_pad_only_at_the_edge() {
        let s = slide(3, 1, 1, 1);
        assert_eq!(s.reads(0, &(0..4), 8), 0..5);
        assert_eq!(s.reads(0, &(4..8), 8), 3..8);
        let whole = |r: Range<usize>| Region::new([0..1, r, 0..8]);
        assert_eq!(s.local_pad(&whole(0..4), &whole(0..5)), [1, 1]);
        assert_eq!(s.local_pad(&whole(4..8), &whole(3..8)), [0, 1]);
        // Nobody else reads what lies behind the last window.
        assert_eq!(slide(1, 2, 0, 1).reads(0, &(0..4), 8), 0..8);
        // Dilated and strided: the second window starts inside the image, with taps 2 apart.
        let s = slide(3, 3, 2, 2);
        assert_eq!(s.reads(0, &(1..2), 9), 1..6);
        assert_eq!(s.local_pad(&whole(1..2), &whole(1..6)), [0, 2]);
    }
}

//! Windows that slide over images: the sizes of a convolution's or a pool's part.
//!
//! Images lie sample by sample as [height, width, channels], channels last: a vector of channels is contiguous for every
//! kernel, a part along any axis is a region like any other, and no layout has to be changed between layers. A part that
//! is cut along height or width reads a halo; zeros are only where the whole image ends, so that each side has its own.

use serde::{Deserialize, Serialize};

/// Sizes of a convolution's part. Weights are [out_channels, channels / groups, kernel height, kernel width], as PyTorch
/// keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConvDims {
    /// Samples of this part of the batch.
    pub samples: usize,
    /// Rows of the input that this part reads.
    pub height: usize,
    /// Columns of the input that this part reads.
    pub width: usize,
    /// Channels of the input that this part reads.
    pub channels: usize,
    /// Rows of the output.
    pub out_height: usize,
    /// Columns of the output.
    pub out_width: usize,
    /// Channels of the output.
    pub out_channels: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Steps between windows, down and across.
    pub stride: [usize; 2],
    /// Steps between the taps of one window, down and across.
    pub dilation: [usize; 2],
    /// Zeros above the first row and before the first column. What a window reads beyond the last ones is zero too.
    pub pad: [usize; 2],
    /// Groups of channels that are convolved apart.
    pub groups: usize,
}

impl ConvDims {
    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.samples * self.height * self.width * self.channels
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.samples * self.out_height * self.out_width * self.out_channels
    }

    /// Elements of the weights.
    pub fn weight_len(&self) -> usize {
        self.out_channels * self.terms()
    }

    /// Products in one element of the output.
    pub fn terms(&self) -> usize {
        self.channels / self.groups * self.kernel[0] * self.kernel[1]
    }

    /// Floating-point operations of one pass by the definition.
    pub fn flops(&self) -> f64 {
        2.0 * self.output_len() as f64 * self.terms() as f64
    }
}

/// Sizes of a pool's part: every channel by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PoolDims {
    /// Samples of this part of the batch.
    pub samples: usize,
    /// Rows of the input that this part reads.
    pub height: usize,
    /// Columns of the input that this part reads.
    pub width: usize,
    /// Channels of this part; as many come out.
    pub channels: usize,
    /// Rows of the output.
    pub out_height: usize,
    /// Columns of the output.
    pub out_width: usize,
    /// Height and width of the window.
    pub window: [usize; 2],
    /// Steps between windows, down and across.
    pub stride: [usize; 2],
    /// Rows above the first and columns before the first that windows reach into; they count as absent (maximum) or as
    /// zeros (average).
    pub pad: [usize; 2],
}

/// The code of a maximum whose gradient is zero: an activation behind which nothing passes.
pub const DEAD: u8 = 255;

impl PoolDims {
    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.samples * self.height * self.width * self.channels
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.samples * self.out_height * self.out_width * self.channels
    }

    /// Bytes of the buffer that keeps where each maximum was: one for each output. It is the place in the window, row by
    /// row, or [`DEAD`]; so a window has at most 255 places.
    pub fn codes_len(&self) -> usize {
        self.output_len()
    }

    /// True if no element lies in two windows.
    pub fn is_disjoint(&self) -> bool {
        self.stride[0] >= self.window[0] && self.stride[1] >= self.window[1]
    }
}

//! Shapes of convolutions and pools: fixed ones that meet every rule, and random ones.

use paceline_base::window::{ConvDims, PoolDims};
use proptest::prelude::*;

/// Windows of `reach` elements that begin `stride` apart over `size` elements with `pad` zeros on both sides.
fn windows(size: usize, reach: usize, stride: usize, pad: usize) -> usize {
    (size + 2 * pad).checked_sub(reach).map_or(0, |rest| rest / stride + 1)
}

/// A convolution of a whole image.
pub(crate) fn conv(
    [samples, height, width, channels]: [usize; 4],
    out_channels: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
    pad: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
) -> ConvDims {
    let reach = |axis: usize| (kernel[axis] - 1) * dilation[axis] + 1;
    ConvDims {
        samples,
        height,
        width,
        channels,
        out_height: windows(height, reach(0), stride[0], pad[0]),
        out_width: windows(width, reach(1), stride[1], pad[1]),
        out_channels,
        kernel,
        stride,
        dilation,
        pad,
        groups,
    }
}

/// A pool of whole windows.
pub(crate) fn pool(
    [samples, height, width, channels]: [usize; 4],
    window: [usize; 2],
    stride: [usize; 2],
    pad: [usize; 2],
) -> PoolDims {
    PoolDims {
        samples,
        height,
        width,
        channels,
        out_height: windows(height, window[0], stride[0], pad[0]),
        out_width: windows(width, window[1], stride[1], pad[1]),
        window,
        stride,
        pad,
    }
}

/// The pool with windows that do not overlap behind a convolution.
pub(crate) fn pool_of(dims: &ConvDims, window: [usize; 2]) -> PoolDims {
    pool([dims.samples, dims.out_height, dims.out_width, dims.out_channels], window, window, [0, 0])
}

/// Small convolutions: padded, strided, dilated, grouped, by channel, of one place, and parts of a larger image.
pub(crate) fn conv_cases() -> Vec<(ConvDims, Option<PoolDims>)> {
    let whole = [
        conv([2, 5, 6, 3], 4, [3, 3], [1, 1], [1, 1], [1, 1], 1),
        conv([1, 7, 7, 2], 3, [3, 2], [2, 3], [0, 1], [1, 1], 1),
        conv([1, 7, 8, 4], 6, [3, 3], [1, 1], [2, 2], [2, 2], 2),
        conv([2, 4, 4, 3], 3, [3, 3], [1, 1], [1, 1], [1, 1], 3),
        conv([2, 3, 2, 5], 2, [1, 1], [1, 1], [0, 0], [1, 1], 1),
        conv([1, 9, 9, 3], 2, [5, 4], [3, 2], [2, 0], [1, 1], 1),
    ];
    let mut cases: Vec<_> = whole.into_iter().map(|dims| (dims, Some(pool_of(&dims, [2, 2])))).collect();
    // Rows of a larger image: a halo above instead of zeros, and zeros only on the right and below.
    let part = ConvDims { pad: [0, 1], out_height: 4, ..conv([1, 5, 4, 2], 3, [3, 3], [1, 1], [1, 1], [1, 1], 1) };
    cases.push((part, None));
    cases
}

/// Small pools: with and without overlap, padded, with windows that reach beyond, and over whole images.
pub(crate) fn pool_cases() -> Vec<PoolDims> {
    let ceiling = PoolDims { out_height: 4, out_width: 3, ..pool([1, 7, 5, 3], [2, 2], [2, 2], [0, 0]) };
    vec![
        pool([2, 4, 6, 3], [2, 2], [2, 2], [0, 0]),
        pool([1, 7, 7, 2], [3, 3], [2, 2], [1, 1]),
        pool([2, 5, 4, 5], [3, 2], [1, 1], [1, 0]),
        pool([1, 8, 9, 1], [2, 3], [3, 4], [0, 0]),
        pool([3, 5, 4, 4], [5, 4], [1, 1], [0, 0]),
        pool([1, 3, 3, 2], [1, 1], [2, 2], [0, 0]),
        ceiling,
    ]
}

/// Any convolution with up to 40 channels and 3 samples, none among them.
pub(crate) fn any_conv() -> impl Strategy<Value = ConvDims> {
    let pair = |most: usize| [1..=most, 1..=most];
    let sizes = (0usize..4, 1usize..12, 1usize..12);
    let channels = (prop_oneof![Just(1usize), Just(2), Just(3), Just(4)], 1usize..20, 1usize..20);
    let window = (pair(5), pair(3), [0usize..4, 0usize..4], pair(2));
    (sizes, channels, window)
        .prop_map(|((n, h, w), (groups, ins, outs), (kernel, stride, pad, dilation))| {
            // Many channels only where there are few groups.
            let (ins, outs) = (ins.div_ceil(groups), outs.div_ceil(groups));
            conv([n, h, w, groups * ins], groups * outs, kernel, stride, pad, dilation, groups)
        })
        .prop_filter("an empty image", |d| d.out_height * d.out_width > 0)
}

/// Any pool with up to 40 channels and 3 samples, none among them.
pub(crate) fn any_pool() -> impl Strategy<Value = PoolDims> {
    let sizes =
        (0usize..4, 1usize..12, 1usize..12, prop_oneof![1usize..6, Just(8), Just(10), Just(16), Just(32), 1usize..41]);
    let pair = |most: usize| [1..=most, 1..=most];
    (sizes, pair(4), pair(4), [0usize..3, 0usize..3], any::<bool>())
        .prop_map(|((n, h, w, c), window, stride, pad, beyond)| {
            let pad = [pad[0].min(window[0] - 1), pad[1].min(window[1] - 1)];
            let mut dims = pool([n, h, w, c], window, stride, pad);
            if beyond {
                // One more row of windows, if its windows still hold something.
                dims.out_height += usize::from(dims.out_height * dims.stride[0] < dims.height + dims.pad[0]);
            }
            dims
        })
        .prop_filter("an empty image", |d| d.out_height * d.out_width > 0)
}

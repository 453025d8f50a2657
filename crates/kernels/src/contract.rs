//! What every kernel demands of its arguments, checked before a device touches memory.
//!
//! Devices work through raw pointers, and `submit` is a safe function: so the number of arguments and the length of
//! each buffer are always checked, in release builds too. A check is a handful of comparisons and allocates nothing.

use paceline_base::kernel::{BufferId, Call, Kernel, LocalResponse};
use paceline_base::region::Strided;
use paceline_base::window::{ConvDims, PoolDims};

/// Panics unless `call` has the right number of arguments and each buffer is long enough; `len` gives their lengths.
pub(crate) fn check(call: &Call, len: impl Fn(BufferId) -> usize) {
    let args = &call.args;
    let mut next = 0;
    let mut need = |what: &str, elements: usize| {
        let Some(&id) = args.get(next) else {
            panic!("{} misses argument {next} ({what})", call.kernel.name());
        };
        let have = len(id);
        assert!(
            have >= elements,
            "{} needs {elements} elements for {what}, but buffer {} has {have}",
            call.kernel.name(),
            id.0
        );
        next += 1;
    };
    match &call.kernel {
        Kernel::DenseForward { dims, bias, .. } => {
            need("x", dims.rows * dims.inputs);
            need("w", dims.outputs * dims.inputs);
            need("y", dims.rows * dims.outputs);
            if *bias {
                need("b", dims.outputs);
            }
        }
        Kernel::DenseBackwardData { dims, through } => {
            need("dy", dims.rows * dims.outputs);
            need("w", dims.outputs * dims.inputs);
            need("dx", dims.rows * dims.inputs);
            if through.is_some() {
                need("the layer's input", dims.rows * dims.inputs);
            }
        }
        Kernel::DenseBackwardWeights { dims, bias } => {
            need("dy", dims.rows * dims.outputs);
            need("x", dims.rows * dims.inputs);
            need("dw", dims.outputs * dims.inputs);
            if *bias {
                need("db", dims.outputs);
            }
        }
        Kernel::DenseBackwardUpdate { dims, bias, rule, .. } => {
            need("dy", dims.rows * dims.outputs);
            need("x", dims.rows * dims.inputs);
            need("w", dims.outputs * dims.inputs);
            for state in rule.states() {
                need(state, dims.outputs * dims.inputs);
            }
            if *bias {
                need("b", dims.outputs);
                for state in rule.states() {
                    need(state, dims.outputs);
                }
            }
        }
        Kernel::ConvForward { dims, bias, pool, codes, .. } => {
            conv(dims);
            need("x", dims.input_len());
            need("w", dims.weight_len());
            need("y", pool.map_or(dims.output_len(), |p| p.output_len()));
            if *bias {
                need("b", dims.out_channels);
            }
            if let Some(pool) = pool {
                after_conv(dims, pool);
                if *codes {
                    need("codes", pool.codes_len());
                }
            }
        }
        Kernel::ConvBackwardData { dims, through, pooled } => {
            conv(dims);
            need("dy", pooled.map_or(dims.output_len(), |p| p.output_len()));
            need("w", dims.weight_len());
            need("dx", dims.input_len());
            if let Some(pool) = pooled {
                after_conv(dims, pool);
                need("codes", pool.codes_len());
            }
            if through.is_some() {
                need("the layer's input", dims.input_len());
            }
        }
        Kernel::ConvBackwardWeights { dims, bias, pooled } => {
            conv(dims);
            need("dy", pooled.map_or(dims.output_len(), |p| p.output_len()));
            need("x", dims.input_len());
            need("dw", dims.weight_len());
            if *bias {
                need("db", dims.out_channels);
            }
            if let Some(pool) = pooled {
                after_conv(dims, pool);
                need("codes", pool.codes_len());
            }
        }
        Kernel::MaxPool { dims, codes } => {
            places(dims);
            need("x", dims.input_len());
            need("y", dims.output_len());
            if *codes {
                need("codes", dims.codes_len());
            }
        }
        Kernel::MaxPoolBackward { dims } => {
            places(dims);
            need("dy", dims.output_len());
            need("codes", dims.codes_len());
            need("dx", dims.input_len());
        }
        Kernel::AveragePool { dims, .. } => {
            need("x", dims.input_len());
            need("y", dims.output_len());
        }
        Kernel::AveragePoolBackward { dims, .. } => {
            need("dy", dims.output_len());
            need("dx", dims.input_len());
        }
        Kernel::BatchSums { rows, channels } => {
            need("x", rows * channels);
            need("running mean", *channels);
            need("sums", 2 * channels);
        }
        Kernel::BatchNormalize { rows, channels, .. } => {
            need("x", rows * channels);
            need("sums", 2 * channels);
            for what in ["running mean", "running variance", "γ", "β"] {
                need(what, *channels);
            }
            need("kept", 2 * channels);
            need("y", rows * channels);
        }
        Kernel::BatchInfer { rows, channels, .. } => {
            need("x", rows * channels);
            for what in ["running mean", "running variance", "γ", "β"] {
                need(what, *channels);
            }
            need("y", rows * channels);
        }
        Kernel::BatchGradientSums { rows, channels, through } => {
            need("dy", rows * channels);
            need("x", rows * channels);
            need("kept", 2 * channels);
            need("sums", 2 * channels);
            if through.is_some() {
                need("y", rows * channels);
            }
        }
        Kernel::BatchBackward { rows, channels, through, .. } => {
            need("dy", rows * channels);
            need("x", rows * channels);
            need("kept", 2 * channels);
            need("γ", *channels);
            need("sums", 2 * channels);
            need("dx", rows * channels);
            if through.is_some() {
                need("y", rows * channels);
            }
        }
        Kernel::LocalResponse(l) => {
            response(l);
            need("x", l.rows * l.channels);
            need("y", l.rows * l.out_channels);
        }
        Kernel::LocalResponseBackward(l) => {
            response(l);
            need("dy", l.rows * l.out_channels);
            need("x", l.rows * l.channels);
            need("dx", l.rows * l.channels);
        }
        Kernel::LayerNorm { rows, channels, .. } => {
            need("x", rows * channels);
            need("γ", *channels);
            need("β", *channels);
            need("y", rows * channels);
            need("kept", 2 * rows);
        }
        Kernel::LayerNormBackwardData { rows, channels } => {
            need("dy", rows * channels);
            need("x", rows * channels);
            need("kept", 2 * rows);
            need("γ", *channels);
            need("dx", rows * channels);
        }
        Kernel::LayerNormBackwardWeights { rows, channels } => {
            need("dy", rows * channels);
            need("x", rows * channels);
            need("kept", 2 * rows);
            need("dγ", *channels);
            need("dβ", *channels);
        }
        Kernel::Sum { inputs, len, .. } => {
            for _ in 0..*inputs {
                need("x", *len);
            }
            need("y", *len);
        }
        Kernel::Activate { len, .. } => {
            need("x", *len);
            need("y", *len);
        }
        Kernel::ActivateBackward { len, .. } => {
            need("dy", *len);
            need("saved", *len);
            need("dx", *len);
        }
        Kernel::Dropout { region, shape, .. } => {
            assert_eq!(region.rank(), shape.len(), "dropout of a region {region} in a tensor of shape {shape:?}");
            need("x", region.len());
            need("y", region.len());
        }
        Kernel::Loss { rows, classes, gradient, .. } => {
            need("outputs", rows * classes);
            need("labels", *rows);
            need("metrics", 3);
            if *gradient {
                need("gradient", rows * classes);
            }
        }
        Kernel::Copy(walk) | Kernel::Add(walk) => {
            let (from, to) = extents(walk);
            need("from", from);
            need("to", to);
        }
        Kernel::Zero { len } => need("to", *len),
        Kernel::Sparsify { len, keep } => {
            assert!(keep <= len, "sparsify keeps {keep} of {len}");
            need("x", *len);
            need("left", *len);
        }
        Kernel::Update { rule, segments } => {
            let end = segments.iter().map(|s| s.start + s.len).max().unwrap_or(0);
            need("w", end);
            need("g", end);
            for state in rule.states() {
                need(state, end);
            }
        }
    }
}

/// Panics unless the sizes of a convolution make sense.
fn conv(dims: &ConvDims) {
    let all = [dims.stride, dims.dilation, dims.kernel];
    assert!(all.iter().flatten().all(|&n| n > 0) && dims.groups > 0, "a convolution with a zero in {dims:?}");
    assert!(
        dims.channels.is_multiple_of(dims.groups) && dims.out_channels.is_multiple_of(dims.groups),
        "channels that do not divide into groups in {dims:?}"
    );
}

/// Panics unless the pool reads what the convolution makes, each element once.
fn after_conv(dims: &ConvDims, pool: &PoolDims) {
    places(pool);
    assert!(
        (pool.samples, pool.height, pool.width, pool.channels)
            == (dims.samples, dims.out_height, dims.out_width, dims.out_channels)
            && pool.is_disjoint()
            && pool.pad == [0, 0],
        "{pool:?} cannot be joined to {dims:?}"
    );
}

/// Panics unless every place of a window has a code.
fn places(dims: &PoolDims) {
    assert!((1..=255).contains(&(dims.window[0] * dims.window[1])), "a window of {:?}", dims.window);
    assert!(dims.stride.iter().all(|&n| n > 0), "a stride of {:?}", dims.stride);
}

/// Panics unless the channels that are made lie within those that are read.
fn response(l: &LocalResponse) {
    assert!(l.first + l.out_channels <= l.channels && l.size > 0, "{l:?}");
}

/// One past the last element that a walk reads and writes.
fn extents(walk: &Strided) -> (usize, usize) {
    if walk.is_empty() {
        return (0, 0);
    }
    let (mut from, mut to) = (walk.from + walk.run, walk.to + walk.run);
    for &(count, source, target) in &walk.loops {
        from += (count - 1) * source;
        to += (count - 1) * target;
    }
    (from, to)
}

/// The class that a label names, if it names one.
#[inline]
pub(crate) fn class_of(label: f64, classes: usize) -> Option<usize> {
    (label >= 0.0 && label < classes as f64).then_some(label as usize)
}

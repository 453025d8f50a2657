//! What every kernel demands of its arguments, checked before a device touches memory.
//!
//! Devices work through raw pointers, and `submit` is a safe function: so the number of arguments and the length of
//! each buffer are always checked, in release builds too. A check is a handful of comparisons and allocates nothing.

use paceline_base::kernel::{BufferId, Call, Kernel};
use paceline_base::region::Strided;

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

//! What every kernel demands of its arguments, checked before a device touches memory.
//!
//! Devices work through raw pointers, and `submit` is a safe function: so all of this is always checked, in release builds
//! too: the number of arguments, the type and length of each buffer, that none of its elements is on loan, and that what is written overlaps
//! nothing else that the kernel reads or writes. A check is a handful of comparisons and allocates nothing.

use crate::loans::{self, Loans};
use paceline_base::kernel::{Arena, BufferId, Call, Elements, EmbeddingDims, Kernel, LocalResponse, Slot};
use paceline_base::region::Strided;
use paceline_base::sample::TargetKind;
use paceline_base::units::DType;
use paceline_base::window::{ConvDims, PoolDims};
use paceline_base::{Error, Result};

/// Most arguments of a kernel, those of sums aside.
const MOST: usize = 12;

/// What a kernel does with an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Reads,
    Writes,
    /// Writes element i after it has read element i of the other arguments, and nothing else of them: it may begin where
    /// one of them begins.
    WritesInPlace,
}
use Access::{Reads, Writes, WritesInPlace};

/// The bytes of the arena that an argument stands for.
#[derive(Clone, Copy)]
struct Used {
    start: usize,
    end: usize,
    access: Access,
}

impl Used {
    /// Whether a kernel may have both.
    fn bears(&self, other: &Self) -> bool {
        let apart = self.end <= other.start || other.end <= self.start;
        let empty = self.start == self.end || other.start == other.end;
        let in_place = (self.access == WritesInPlace && other.access == Reads
            || self.access == Reads && other.access == WritesInPlace)
            && self.start == other.start;
        apart || empty || in_place || (self.access == Reads && other.access == Reads)
    }
}

/// An argument of a call: the bytes of the arena that it stands for.
#[cfg_attr(not(feature = "testing"), allow(dead_code))]
pub(crate) struct Argument<'a> {
    pub(crate) what: &'a str,
    pub(crate) buffer: BufferId,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// False for what is written first; some kernels read it too.
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// An error unless every buffer lies within the arena, where its elements can lie, and floats are of the device's type.
pub(crate) fn check_arena(arena: &Arena, float: DType) -> Result<()> {
    for slot in &arena.slots {
        if slot.end().is_none_or(|end| end > arena.bytes) {
            return Err(Error::internal(format!("{slot:?} exceeds the arena of {} bytes", arena.bytes)));
        }
        if !slot.at.is_multiple_of(slot.dtype.size()) || slot.dtype.is_float() && slot.dtype != float {
            return Err(Error::internal(format!("{slot:?} is nothing for a device that computes in {float:?}")));
        }
    }
    Ok(())
}

/// Panics unless `call` has the right number of arguments, each buffer is of the right type, long enough and not on loan, and what is written
/// overlaps no other argument. [`check_arena`] has seen the slots.
#[inline]
pub(crate) fn check(call: &Call, slots: &[Slot], loans: &Loans) {
    check_each(call, slots, loans, |_| ());
}

/// The same, and calls `seen` for each argument.
pub(crate) fn check_each(call: &Call, slots: &[Slot], loans: &Loans, seen_by: impl Fn(Argument<'_>)) {
    let args = &call.args;
    let name = call.kernel.name();
    let mut next = 0;
    let mut seen = [Used { start: 0, end: 0, access: Reads }; MOST];
    let used = |at: usize, what: &str, elements: usize, access: Access| {
        let Some(&id) = args.get(at) else {
            panic!("{name} misses argument {at} ({what})");
        };
        let slot = &slots[id.0 as usize];
        let (start, have) = (slot.at, slot.len);
        assert!(have >= elements, "{name} needs {elements} elements for {what}, but buffer {} has {have}", id.0);
        let kind = call.kernel.elements(at);
        let fits = if kind == Elements::Float { slot.dtype.is_float() } else { kind.dtype(slot.dtype) == slot.dtype };
        assert!(fits, "{name} needs elements of kind {kind:?} for {what}, but buffer {} holds {:?}", id.0, slot.dtype);
        let end = start + slot.bytes_of(elements);
        if let Some(loan) = loans.conflict(start, end, access != Reads) {
            loans::refuse(name, id, loan);
        }
        seen_by(Argument { what, buffer: id, start, end, reads: access == Reads, writes: access != Reads });
        Used { start, end, access }
    };
    let clash = |at: usize, what: &str, other: usize| {
        panic!(
            "{name} cannot have {what} (argument {at}, buffer {}) where argument {other} (buffer {}) is",
            args[at].0, args[other].0
        )
    };
    let mut have = |what: &str, elements: usize, access: Access| {
        let this = used(next, what, elements, access);
        if let Some(other) = seen[..next].iter().position(|other| !this.bears(other)) {
            clash(next, what, other);
        }
        seen[next] = this;
        next += 1;
    };
    match &call.kernel {
        Kernel::DenseForward { dims, bias, .. } => {
            have("x", area(dims.rows, dims.inputs), Reads);
            have("w", area(dims.outputs, dims.inputs), Reads);
            have("y", area(dims.rows, dims.outputs), Writes);
            if *bias {
                have("b", dims.outputs, Reads);
            }
        }
        Kernel::DenseBackwardData { dims, through } => {
            have("dy", area(dims.rows, dims.outputs), Reads);
            have("w", area(dims.outputs, dims.inputs), Reads);
            have("dx", area(dims.rows, dims.inputs), Writes);
            if through.is_some() {
                have("the layer's input", area(dims.rows, dims.inputs), Reads);
            }
        }
        Kernel::DenseBackwardWeights { dims, bias } => {
            have("dy", area(dims.rows, dims.outputs), Reads);
            have("x", area(dims.rows, dims.inputs), Reads);
            have("dw", area(dims.outputs, dims.inputs), Writes);
            if *bias {
                have("db", dims.outputs, Writes);
            }
        }
        Kernel::DenseBackwardUpdate { dims, bias, rule, .. } => {
            have("dy", area(dims.rows, dims.outputs), Reads);
            have("x", area(dims.rows, dims.inputs), Reads);
            have("w", area(dims.outputs, dims.inputs), Writes);
            for state in rule.states() {
                have(state, area(dims.outputs, dims.inputs), Writes);
            }
            if *bias {
                have("b", dims.outputs, Writes);
                for state in rule.states() {
                    have(state, dims.outputs, Writes);
                }
            }
        }
        Kernel::ConvForward { dims, bias, pool, codes, .. } => {
            conv(dims);
            have("x", dims.input_len(), Reads);
            have("w", dims.weight_len(), Reads);
            have("y", pool.map_or(dims.output_len(), |p| p.output_len()), Writes);
            if *bias {
                have("b", dims.out_channels, Reads);
            }
            if let Some(pool) = pool {
                after_conv(dims, pool);
                if *codes {
                    have("codes", pool.codes_len(), Writes);
                }
            }
        }
        Kernel::ConvBackwardData { dims, through, pooled } => {
            conv(dims);
            have("dy", pooled.map_or(dims.output_len(), |p| p.output_len()), Reads);
            have("w", dims.weight_len(), Reads);
            have("dx", dims.input_len(), Writes);
            if let Some(pool) = pooled {
                after_conv(dims, pool);
                have("codes", pool.codes_len(), Reads);
            }
            if through.is_some() {
                have("the layer's input", dims.input_len(), Reads);
            }
        }
        Kernel::ConvBackwardWeights { dims, bias, pooled } => {
            conv(dims);
            have("dy", pooled.map_or(dims.output_len(), |p| p.output_len()), Reads);
            have("x", dims.input_len(), Reads);
            have("dw", dims.weight_len(), Writes);
            if *bias {
                have("db", dims.out_channels, Writes);
            }
            if let Some(pool) = pooled {
                after_conv(dims, pool);
                have("codes", pool.codes_len(), Reads);
            }
        }
        Kernel::MaxPool { dims, codes } => {
            places(dims);
            have("x", dims.input_len(), Reads);
            have("y", dims.output_len(), Writes);
            if *codes {
                have("codes", dims.codes_len(), Writes);
            }
        }
        Kernel::MaxPoolBackward { dims } => {
            places(dims);
            have("dy", dims.output_len(), Reads);
            have("codes", dims.codes_len(), Reads);
            have("dx", dims.input_len(), Writes);
        }
        Kernel::AveragePool { dims, .. } => {
            sizes(dims);
            have("x", dims.input_len(), Reads);
            have("y", dims.output_len(), Writes);
        }
        Kernel::AveragePoolBackward { dims, .. } => {
            sizes(dims);
            have("dy", dims.output_len(), Reads);
            have("dx", dims.input_len(), Writes);
        }
        Kernel::BatchSums { rows, channels } => {
            have("x", area(*rows, *channels), Reads);
            have("running mean", *channels, Reads);
            have("sums", area(2, *channels), Writes);
        }
        Kernel::BatchNormalize { rows, channels, .. } => {
            have("x", area(*rows, *channels), Reads);
            have("sums", area(2, *channels), Reads);
            for (what, access) in [("running mean", Writes), ("running variance", Writes), ("γ", Reads), ("β", Reads)]
            {
                have(what, *channels, access);
            }
            have("kept", area(2, *channels), Writes);
            have("y", area(*rows, *channels), Writes);
        }
        Kernel::BatchInfer { rows, channels, .. } => {
            have("x", area(*rows, *channels), Reads);
            for what in ["running mean", "running variance", "γ", "β"] {
                have(what, *channels, Reads);
            }
            have("y", area(*rows, *channels), Writes);
        }
        Kernel::BatchGradientSums { rows, channels, through } => {
            have("dy", area(*rows, *channels), Reads);
            have("x", area(*rows, *channels), Reads);
            have("kept", area(2, *channels), Reads);
            have("sums", area(2, *channels), Writes);
            if through.is_some() {
                have("y", area(*rows, *channels), Reads);
            }
        }
        Kernel::BatchBackward { rows, channels, through, .. } => {
            have("dy", area(*rows, *channels), Reads);
            have("x", area(*rows, *channels), Reads);
            have("kept", area(2, *channels), Reads);
            have("γ", *channels, Reads);
            have("sums", area(2, *channels), Reads);
            have("dx", area(*rows, *channels), Writes);
            if through.is_some() {
                have("y", area(*rows, *channels), Reads);
            }
        }
        Kernel::LocalResponse(l) => {
            response(l);
            have("x", area(l.rows, l.channels), Reads);
            have("y", area(l.rows, l.out_channels), Writes);
        }
        Kernel::LocalResponseBackward(l) => {
            response(l);
            have("dy", area(l.rows, l.out_channels), Reads);
            have("x", area(l.rows, l.channels), Reads);
            have("dx", area(l.rows, l.channels), Writes);
        }
        Kernel::LayerNorm { rows, channels, .. } => {
            have("x", area(*rows, *channels), Reads);
            have("γ", *channels, Reads);
            have("β", *channels, Reads);
            have("y", area(*rows, *channels), Writes);
            have("kept", area(2, *rows), Writes);
        }
        Kernel::LayerNormBackwardData { rows, channels } => {
            have("dy", area(*rows, *channels), Reads);
            have("x", area(*rows, *channels), Reads);
            have("kept", area(2, *rows), Reads);
            have("γ", *channels, Reads);
            have("dx", area(*rows, *channels), Writes);
        }
        Kernel::LayerNormBackwardWeights { rows, channels } => {
            have("dy", area(*rows, *channels), Reads);
            have("x", area(*rows, *channels), Reads);
            have("kept", area(2, *rows), Reads);
            have("dγ", *channels, Writes);
            have("dβ", *channels, Writes);
        }
        // Any number of summands, of which none is kept in mind: each is compared with the sum alone.
        Kernel::Sum { inputs, len, .. } => {
            let sum = used(*inputs, "y", *len, WritesInPlace);
            for at in 0..*inputs {
                if !used(at, "x", *len, Reads).bears(&sum) {
                    clash(*inputs, "y", at);
                }
            }
        }
        Kernel::Activate { len, .. } => {
            have("x", *len, Reads);
            have("y", *len, WritesInPlace);
        }
        Kernel::ActivateBackward { len, .. } => {
            have("dy", *len, Reads);
            have("saved", *len, Reads);
            have("dx", *len, WritesInPlace);
        }
        Kernel::Dropout { region, shape, .. } => {
            assert_eq!(region.rank(), shape.len(), "dropout of a region {region} in a tensor of shape {shape:?}");
            let len = (0..region.rank()).map(|axis| region.range(axis).len()).fold(1, area);
            have("x", len, Reads);
            have("y", len, WritesInPlace);
        }
        Kernel::EmbeddingForward(d) => {
            embedding(d);
            have("lists", d.lists_len(), Reads);
            have("w", area(d.table_rows, d.columns), Reads);
            have("y", area(d.rows, d.columns), Writes);
        }
        Kernel::EmbeddingBackward(d) => {
            embedding(d);
            have("dy", area(d.rows, d.columns), Reads);
            have("lists", d.lists_len(), Reads);
            have("dw", area(d.table_rows, d.columns), Writes);
        }
        Kernel::Loss { loss, rows, targets, gradient } => {
            assert!(loss.takes(*targets), "{loss:?} with {targets:?}");
            let (each, classes) = match *targets {
                TargetKind::Classes { classes, each } => (each, classes),
                TargetKind::Numbers { each } => (each, 1),
            };
            let outputs = area(area(*rows, each), classes);
            have("outputs", outputs, Reads);
            have("targets", area(*rows, each), Reads);
            have("metrics", 3, Writes);
            if *gradient {
                have("gradient", outputs, Writes);
            }
        }
        Kernel::Copy(walk) | Kernel::Add(walk) => {
            let (from, to) = extents(walk);
            have("from", from, Reads);
            have("to", to, Writes);
        }
        Kernel::Zero { len } => have("to", *len, Writes),
        Kernel::Sparsify { len, keep } => {
            assert!(keep <= len, "sparsify keeps {keep} of {len}");
            have("x", *len, Writes);
            have("left", *len, Writes);
        }
        Kernel::Update { rule, segments } => {
            let end = segments.iter().map(|s| plus(s.start, s.len)).max().unwrap_or(0);
            have("w", end, Writes);
            have("g", end, Reads);
            for state in rule.states() {
                have(state, end, Writes);
            }
        }
    }
}

/// Panics unless the sizes of a convolution make sense.
fn conv(dims: &ConvDims) {
    let all = [dims.stride, dims.dilation, dims.kernel];
    assert!(all.iter().flatten().all(|&n| n > 0) && dims.groups > 0, "a convolution with a zero in {dims:?}");
    let image = |height, width, channels| [height, width, channels].into_iter().fold(dims.samples, area);
    image(dims.height, dims.width, dims.channels);
    image(dims.out_height, dims.out_width, dims.out_channels);
    [dims.kernel[1], dims.channels, dims.out_channels].into_iter().fold(dims.kernel[0], area);
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
    sizes(dims);
    assert!((1..=255).contains(&area(dims.window[0], dims.window[1])), "a window of {:?}", dims.window);
    assert!(dims.stride.iter().all(|&n| n > 0), "a stride of {:?}", dims.stride);
}

/// Panics unless the images of a pool have as many elements as a number can say.
fn sizes(dims: &PoolDims) {
    let image = |height, width| [height, width, dims.channels].into_iter().fold(dims.samples, area);
    image(dims.height, dims.width);
    image(dims.out_height, dims.out_width);
}

/// Panics unless the rows of a part lie within the table.
fn embedding(d: &EmbeddingDims) {
    assert!(plus(d.first, d.table_rows) <= d.table, "{d:?}");
    plus(plus(d.rows, 1), d.entries);
}

/// Panics unless the channels that are made lie within those that are read.
fn response(l: &LocalResponse) {
    assert!(plus(l.first, l.out_channels) <= l.channels && l.size > 0, "{l:?}");
}

/// One past the last element that a walk reads and writes.
fn extents(walk: &Strided) -> (usize, usize) {
    if walk.is_empty() {
        return (0, 0);
    }
    let (mut from, mut to) = (plus(walk.from, walk.run), plus(walk.to, walk.run));
    for &(count, source, target) in &walk.loops {
        from = plus(from, area(count - 1, source));
        to = plus(to, area(count - 1, target));
    }
    (from, to)
}

/// A product that would be too small where numbers wrap round must not pass for a length.
fn area(a: usize, b: usize) -> usize {
    a.checked_mul(b).unwrap_or_else(|| panic!("{a} × {b} elements are more than memory has"))
}

/// The same for sums.
fn plus(a: usize, b: usize) -> usize {
    a.checked_add(b).unwrap_or_else(|| panic!("{a} + {b} elements are more than memory has"))
}

/// The class that a label names, if it names one.
#[inline]
pub(crate) fn class_of(label: u32, classes: usize) -> Option<usize> {
    ((label as usize) < classes).then_some(label as usize)
}

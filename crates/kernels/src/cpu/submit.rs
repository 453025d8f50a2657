//! From a call to a kernel: looks up buffers, divides the work over threads, and runs the body on the chosen instruction set.

use super::Cpu;
use super::activate::{Activate, ActivateBackward};
use super::dense::{BiasGradient, Finish, Forward, Product};
use super::dropout::{Dropout, Mask};
use super::loss::{Rows, Sums, Targets};
use super::moves::AddRun;
use super::norm::BatchNormPart;
use super::rule::{Constants, Parameters, Update};
use super::sparsify::sparsify;
use crate::contract;
use paceline_base::Result;
use paceline_base::kernel::{BufferId, Call, DenseDims, Kernel, StepArgs};
use paceline_base::op::{Activation, Loss};
use paceline_base::optim::{Rule, Segment};
use paceline_base::region::{Region, Strided, split_range};
use paceline_base::sample::TargetKind;
use std::ptr::{null, null_mut};

/// What the threads of a kernel may be handed a copy of: numbers, pointers into device memory, and references to what is
/// `Sync`. Following the pointers stays `unsafe`; this only says that owning a copy elsewhere does no harm by itself.
///
/// # Safety
/// Nothing in it has interior mutability or belongs to a thread: no `Cell`, no `Rc`.
pub(super) unsafe trait Arguments: Copy {}

// SAFETY: addresses of plain numbers.
unsafe impl<T: Sync> Arguments for *mut T {}
// SAFETY: as above.
unsafe impl<T: Sync> Arguments for *const T {}
// SAFETY: both are.
unsafe impl<A: Arguments, B: Arguments> Arguments for (A, B) {}

/// Lets the parts of a kernel share its arguments: each part writes its own elements only.
#[derive(Clone, Copy)]
pub(super) struct Shared<T>(pub(super) T);

// SAFETY: the promise of `Arguments`; parts of a kernel write disjoint elements.
unsafe impl<T: Arguments> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Arguments> Send for Shared<T> {}

impl<T: Arguments> Shared<T> {
    pub(super) fn get(&self) -> T {
        self.0
    }
}

/// Results are divided between threads at multiples of this many elements: a cache line.
const LINE: usize = 16;

/// Parameters that no cache holds.
const LARGE: usize = 1 << 20;

/// Rows of parameters that are worked on at a time when all of them stream from memory.
const FEW_ROWS: usize = 24;

/// Most chunks that the rows of a loss are divided into.
const CHUNKS: usize = 256;

impl Cpu {
    pub(super) fn execute(&mut self, call: &Call, args: &StepArgs) -> Result<()> {
        contract::check(call, &self.slots, &self.loans);
        let a = &call.args;
        match &call.kernel {
            Kernel::DenseForward { dims, bias, activation } => self.forward(*dims, *bias, *activation, a),
            Kernel::DenseBackwardData { dims, through } => self.backward_data(*dims, *through, a),
            Kernel::DenseBackwardWeights { dims, bias } => self.backward_weights(*dims, *bias, a),
            Kernel::DenseBackwardUpdate { dims, bias, rule, l2 } => {
                self.backward_update(*dims, *bias, rule, *l2, a, args);
            }
            Kernel::MaxPool { dims, codes } => self.max_pool(dims, *codes, a),
            Kernel::MaxPoolBackward { dims } => self.max_pool_backward(dims, a),
            Kernel::AveragePool { dims, divisor } => self.average_pool(dims, *divisor, a),
            Kernel::AveragePoolBackward { dims, divisor } => self.average_pool_backward(dims, *divisor, a),
            &Kernel::BatchSums { rows, channels } => self.batch_sums(BatchNormPart { rows, channels, count: rows }, a),
            &Kernel::BatchNormalize { rows, channels, count, eps, momentum, activation } => {
                self.batch_normalize(BatchNormPart { rows, channels, count }, eps, momentum, activation, a);
            }
            &Kernel::BatchInfer { rows, channels, eps, activation } => {
                self.batch_infer(BatchNormPart { rows, channels, count: rows }, eps, activation, a);
            }
            &Kernel::BatchGradientSums { rows, channels, through } => {
                self.batch_gradient_sums(BatchNormPart { rows, channels, count: rows }, through, a);
            }
            &Kernel::BatchBackward { rows, channels, count, through } => {
                self.batch_backward(BatchNormPart { rows, channels, count }, through, a);
            }
            Kernel::LocalResponse(l) => self.local_response(l, a),
            Kernel::LocalResponseBackward(l) => self.local_response_backward(l, a),
            Kernel::LayerNorm { rows, channels, eps } => self.layer_norm(*rows, *channels, *eps, a),
            Kernel::LayerNormBackwardData { rows, channels } => self.layer_norm_backward_data(*rows, *channels, a),
            Kernel::LayerNormBackwardWeights { rows, channels } => {
                self.layer_norm_backward_weights(*rows, *channels, a);
            }
            Kernel::Sum { inputs, len, activation } => self.sum(*inputs, *len, *activation, a),
            Kernel::Activate { function, len } => self.activate(*function, *len, a),
            Kernel::ActivateBackward { function, len } => self.activate_backward(*function, *len, a),
            Kernel::Dropout { rate, layer, region, shape } => {
                self.dropout(Mask::new(args.seed, *layer, args.step, *rate), region, shape, a);
            }
            Kernel::EmbeddingForward(dims) => self.embedding_forward(dims, a)?,
            Kernel::EmbeddingBackward(dims) => self.embedding_backward(dims, a)?,
            Kernel::Loss { loss, targets, rows, gradient } => self.loss(*loss, *targets, *rows, *gradient, a, args),
            Kernel::Copy(walk) => self.copy(walk, a),
            Kernel::Add(walk) => self.add(walk, a),
            Kernel::Zero { len } => {
                // SAFETY: the contract was checked; zero bytes are zero floats.
                unsafe { std::ptr::write_bytes(self.at(a[0]), 0, *len) }
            }
            Kernel::Sparsify { len, keep } => {
                // SAFETY: the contract was checked; the two buffers do not overlap.
                let (x, left) = unsafe {
                    (
                        std::slice::from_raw_parts_mut(self.at(a[0]), *len),
                        std::slice::from_raw_parts_mut(self.at(a[1]), *len),
                    )
                };
                sparsify(x, left, *keep);
            }
            Kernel::Update { rule, segments } => self.update(rule, segments, a, args),
            Kernel::ConvForward { dims, bias, activation, pool, codes } => {
                self.conv_forward(dims, *bias, *activation, *pool, *codes, a);
            }
            Kernel::ConvBackwardData { dims, through, pooled } => self.conv_backward_data(dims, *through, *pooled, a),
            Kernel::ConvBackwardWeights { dims, bias, pooled } => self.conv_backward_weights(dims, *bias, *pooled, a),
        }
        Ok(())
    }

    /// Divides `0..units` over the threads if the work is worth it; calls `part(thread, first, end)`.
    pub(super) fn divide(&mut self, worth: bool, units: usize, part: impl Fn(usize, usize, usize) + Sync) {
        let threads = self.pool.threads();
        if threads == 1 || !worth {
            part(0, 0, units);
        } else {
            self.pool.run(&|thread| {
                let range = split_range(units, threads, thread);
                if !range.is_empty() {
                    part(thread, range.start, range.end);
                }
            });
        }
    }

    /// Divides `0..len` elements over the threads, at cache lines, if there are enough; calls `part(first, end)`.
    pub(super) fn elements(&mut self, len: usize, part: impl Fn(usize, usize) + Sync) {
        let worth = len >= self.tuning.parallel_elements;
        self.divide(worth, len.div_ceil(LINE), |_, first, end| part(first * LINE, (end * LINE).min(len)));
    }

    fn worth(&self, dims: DenseDims) -> bool {
        2 * dims.rows * dims.outputs * dims.inputs >= self.tuning.parallel_flops
    }

    fn forward(&mut self, dims: DenseDims, bias: bool, activation: Option<Activation>, a: &[BufferId]) {
        let DenseDims { rows, outputs, inputs } = dims;
        let whole = Shared(Forward {
            x: self.at(a[0]),
            w: self.at(a[1]),
            y: self.at(a[2]),
            bias: if bias { self.at(a[3]) } else { null() },
            activation,
            inputs,
            outputs,
            rows: (0, rows),
            columns: (0, outputs),
            blocks: self.tuning.blocks,
            scratch: null_mut(),
        });
        let (scratch, size) = (Shared(self.scratch.as_ptr()), self.tuning.blocks.scratch());
        let isa = self.isa;
        let by_rows = rows >= 4 * self.pool.threads();
        let units = if by_rows { rows } else { outputs.div_ceil(LINE) };
        self.divide(self.worth(dims), units, |thread, first, end| {
            let mut part = whole.get();
            part.scratch = scratch.get().wrapping_add(thread * size);
            if by_rows {
                part.rows = (first, end);
            } else {
                part.columns = (first * LINE, (end * LINE).min(outputs));
            }
            // SAFETY: the contract was checked; parts have their own rows or columns.
            unsafe { isa.run(part) }
        });
    }

    /// Divides a product by rows if there are enough, else by columns.
    fn product(&mut self, dims: DenseDims, whole: Product) {
        let isa = self.isa;
        let (rows, columns) = (whole.rows.1, whole.columns.1);
        // What streams would stream through every thread if these had all columns.
        let by_rows = rows >= 12 * self.pool.threads() && !whole.streams;
        let units = if by_rows { rows } else { columns.div_ceil(LINE) };
        let (scratch, size) = (Shared(self.scratch.as_ptr()), self.tuning.blocks.scratch());
        let whole = Shared(whole);
        self.divide(self.worth(dims), units, |thread, first, end| {
            let mut part = whole.get();
            part.scratch = scratch.get().wrapping_add(thread * size);
            if by_rows {
                part.rows = (first, end);
            } else {
                part.columns = (first * LINE, (end * LINE).min(columns));
            }
            // SAFETY: the contract was checked; parts have their own rows or columns, and scratch of their own.
            unsafe { isa.run(part) }
        });
    }

    fn backward_data(&mut self, dims: DenseDims, through: Option<Activation>, a: &[BufferId]) {
        let DenseDims { rows, outputs, inputs } = dims;
        let finish = through.map_or(Finish::Store, |f| Finish::Through(f, self.at(a[3])));
        let product = Product {
            a: self.at(a[0]),
            a_strides: (outputs, 1),
            b: self.at(a[1]),
            stride: inputs,
            terms: outputs,
            c: self.at(a[2]),
            finish,
            rows: (0, rows),
            columns: (0, inputs),
            backwards: false,
            // Many weights for few samples.
            streams: rows <= 4 * FEW_ROWS && outputs * inputs > LARGE,
            blocks: self.tuning.blocks,
            scratch: null_mut(),
        };
        self.product(dims, product);
    }

    fn weights(&mut self, dims: DenseDims, a: &[BufferId], dw: *mut f32, finish: Finish, backwards: bool) {
        let DenseDims { rows, outputs, inputs } = dims;
        let mut blocks = self.tuning.blocks;
        if rows <= 4 * FEW_ROWS && outputs * inputs > LARGE {
            // Few terms for many parameters, which pass by once: whole rows of them, as they lie in memory.
            blocks.row_block = blocks.row_block.min(FEW_ROWS);
            blocks.pack_rows = blocks.pack_rows.min(FEW_ROWS);
            blocks.pack_terms = blocks.pack_terms.min(FEW_ROWS);
        }
        let product = Product {
            a: self.at(a[0]),
            a_strides: (1, outputs),
            b: self.at(a[1]),
            stride: inputs,
            terms: rows,
            c: dw,
            finish,
            rows: (0, outputs),
            columns: (0, inputs),
            backwards,
            streams: false,
            blocks,
            scratch: null_mut(),
        };
        self.product(dims, product);
    }

    fn backward_weights(&mut self, dims: DenseDims, bias: bool, a: &[BufferId]) {
        self.weights(dims, a, self.at(a[2]), Finish::Store, false);
        if bias {
            let (dy, db) = (self.at(a[0]), self.at(a[3]));
            // SAFETY: the contract was checked.
            unsafe { self.isa.run(BiasGradient { dy, rows: dims.rows, outputs: dims.outputs, db, update: None }) }
        }
    }

    /// Parameters and their states from consecutive arguments.
    fn parameters(&self, rule: &Rule, a: &[BufferId]) -> Parameters {
        let state = |i: usize| if i < rule.states().len() { self.at(a[1 + i]) } else { null_mut() };
        Parameters { w: self.at(a[0]), first: state(0), second: state(1) }
    }

    fn backward_update(&mut self, dims: DenseDims, bias: bool, rule: &Rule, l2: f64, a: &[BufferId], args: &StepArgs) {
        let parameters = self.parameters(rule, &a[2..]);
        let finish = Finish::Update(Constants::new(rule, l2, args), parameters);
        self.weights(dims, a, null_mut(), finish, args.step % 2 == 1);
        if bias {
            let parameters = self.parameters(rule, &a[3 + rule.states().len()..]);
            let update = Some((Constants::new(rule, 0.0, args), parameters));
            let dy = self.at(a[0]);
            let body = BiasGradient { dy, rows: dims.rows, outputs: dims.outputs, db: null_mut(), update };
            // SAFETY: the contract was checked.
            unsafe { self.isa.run(body) }
        }
    }

    pub(super) fn activate(&mut self, f: Activation, len: usize, a: &[BufferId]) {
        let (x, y, isa) = (Shared(self.at(a[0])), Shared(self.at(a[1])), self.isa);
        self.elements(len, |first, end| {
            let (x, y) = (x.get().wrapping_add(first), y.get().wrapping_add(first));
            // SAFETY: the contract was checked; parts have their own elements.
            unsafe { isa.run(Activate { f, x, y, len: end - first }) }
        });
    }

    pub(super) fn activate_backward(&mut self, f: Activation, len: usize, a: &[BufferId]) {
        let (dy, saved, dx) = (Shared(self.at(a[0])), Shared(self.at(a[1])), Shared(self.at(a[2])));
        let isa = self.isa;
        self.elements(len, |first, end| {
            let (dy, saved) = (dy.get().wrapping_add(first), saved.get().wrapping_add(first));
            let dx = dx.get().wrapping_add(first);
            // SAFETY: the contract was checked; parts have their own elements.
            unsafe { isa.run(ActivateBackward { f, dy, saved, dx, len: end - first }) }
        });
    }

    fn dropout(&mut self, mask: Mask, region: &Region, shape: &[usize], a: &[BufferId]) {
        let (x, y, isa) = (Shared(self.at(a[0])), Shared(self.at(a[1])), self.isa);
        // Trailing axes that the region covers whole make one run with the axis before them.
        let mut axis = shape.len().saturating_sub(1);
        while axis > 0 && region.range(axis).len() == shape[axis] {
            axis -= 1;
        }
        let run: usize = (axis..shape.len()).map(|i| region.range(i).len()).product();
        self.elements(region.len(), |first, end| {
            let mut at = first;
            while at < end {
                let (mut rest, within) = (at / run, at % run);
                // The coordinate of the run's first element in the whole tensor, in row-major order.
                let (mut coordinate, mut stride) = (0, 1);
                for i in (0..shape.len()).rev() {
                    let range = region.range(i);
                    let mut place = range.start;
                    if i < axis {
                        place += rest % range.len();
                        rest /= range.len();
                    }
                    coordinate += place * stride;
                    stride *= shape[i];
                }
                let len = (run - within).min(end - at);
                let coordinate = (coordinate + within) as u64;
                let (x, y) = (x.get().wrapping_add(at), y.get().wrapping_add(at));
                // SAFETY: the contract was checked; parts have their own elements.
                unsafe { isa.run(Dropout { mask, coordinate, x, y, len }) }
                at += len;
            }
        });
    }

    fn loss(
        &mut self,
        loss: Loss,
        targets: TargetKind,
        samples: usize,
        gradient: bool,
        a: &[BufferId],
        args: &StepArgs,
    ) {
        // Each target of a sample is a row of its own, with its own outputs; their mean counts.
        let (each, classes) = match targets {
            TargetKind::Classes { classes, each } => (each, classes),
            TargetKind::Numbers { each } => (each, 1),
        };
        let rows = samples * each;
        let whole = Shared(Rows {
            loss,
            rows,
            classes,
            outputs: self.at(a[0]),
            targets: match targets {
                TargetKind::Classes { .. } => Targets::Classes(self.at(a[1]).cast_const().cast()),
                TargetKind::Numbers { .. } => Targets::Numbers(self.at(a[1])),
            },
            gradient: if gradient { self.at(a[3]) } else { null_mut() },
            scale: (args.scale / each.max(1) as f64) as f32,
        });
        let isa = self.isa;
        let size = rows.div_ceil(CHUNKS).max(64);
        let chunks = rows.div_ceil(size);
        let mut sums = [Sums::default(); CHUNKS];
        let out = Shared(sums.as_mut_ptr());
        let worth = chunks > 1 && 8 * rows * classes >= self.tuning.parallel_elements;
        self.divide(worth, chunks, |_, first, end| {
            for chunk in first..end {
                let mut part = whole.get();
                let start = chunk * size;
                part.rows = size.min(rows - start);
                // SAFETY: the contract was checked; each chunk has its own rows and its own place in `sums`.
                unsafe {
                    part.outputs = part.outputs.add(start * classes);
                    part.targets = part.targets.add(start);
                    if gradient {
                        part.gradient = part.gradient.add(start * classes);
                    }
                    *out.get().add(chunk) = isa.run(part);
                }
            }
        });
        let (mut loss, mut second_metric) = (0.0, 0.0);
        for sum in &sums[..chunks] {
            loss += sum.loss;
            second_metric += sum.second_metric;
        }
        let (metrics, each) = (self.at(a[2]), each.max(1) as f64);
        for (i, value) in [loss / each, second_metric / each, samples as f64].into_iter().enumerate() {
            // SAFETY: the contract was checked: three metrics.
            unsafe { *metrics.add(i) = (f64::from(*metrics.add(i)) + value) as f32 };
        }
    }

    fn copy(&mut self, walk: &Strided, a: &[BufferId]) {
        let (source, target) = (self.at(a[0]), self.at(a[1]));
        walk.for_each(|from, to, run| {
            // SAFETY: the contract was checked: all rows of the walk lie within the buffers, which may overlap.
            unsafe { std::ptr::copy(source.add(from), target.add(to), run) }
        });
    }

    fn add(&mut self, walk: &Strided, a: &[BufferId]) {
        let (source, target, isa) = (Shared(self.at(a[0])), Shared(self.at(a[1])), self.isa);
        let row = |from: usize, to: usize, len: usize| {
            let (from, to) = (source.get().wrapping_add(from), target.get().wrapping_add(to));
            // SAFETY: the contract was checked: all rows of the walk lie within the buffers.
            unsafe { isa.run(AddRun { from, to, len }) }
        };
        if walk.loops.is_empty() {
            self.elements(walk.run, |first, end| row(walk.from + first, walk.to + first, end - first));
        } else {
            walk.for_each(row);
        }
    }

    fn update(&mut self, rule: &Rule, segments: &[Segment], a: &[BufferId], args: &StepArgs) {
        let state = |i: usize| if i < rule.states().len() { self.at(a[2 + i]) } else { null_mut() };
        let parameters = Shared(Parameters { w: self.at(a[0]), first: state(0), second: state(1) });
        let (g, isa) = (Shared(self.at(a[1])), self.isa);
        for segment in segments {
            let constants = Constants::new(rule, segment.l2, args);
            self.elements(segment.len, |first, end| {
                let at = segment.start + first;
                let (parameters, g) = (parameters.get().add(at), g.get().wrapping_add(at));
                // SAFETY: the contract was checked; parts have their own elements.
                unsafe {
                    isa.run(Update {
                        constants: &constants,
                        parameters,
                        stride: 0,
                        g,
                        g_stride: 0,
                        rows: 1,
                        len: end - first,
                    })
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shared;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Compiles only where `T` is not `Sync`: else two impls fit, and the compiler cannot choose.
    trait NotSync<Proof> {
        fn holds() {}
    }
    struct ItIs;
    impl<T> NotSync<()> for T {}
    impl<T: Sync> NotSync<ItIs> for T {}

    fn is_sync<T: Sync + Send>() {}

    #[test]
    fn only_arguments_of_kernels_are_shared_between_threads() {
        is_sync::<Shared<*mut f32>>();
        is_sync::<Shared<(*const f32, *mut f64)>>();
        <Shared<&Cell<f32>> as NotSync<_>>::holds();
        <Shared<Rc<f32>> as NotSync<_>>::holds();
        <Shared<*mut Cell<f32>> as NotSync<_>>::holds();
    }
}

//! The obvious device: f64, one loop per formula, opaque memory.
//!
//! Every kernel of every other device is compared with the ones here, so they are written to be read, not to be fast.
//! Buffers cannot be seen from outside: `pack` copies into a staging of its own and `unpack` copies back, as a GPU would.

mod batch_norm;
mod conv;
mod dense;
mod elementwise;
pub mod erf;
mod loss;
mod norm;
mod pool;
mod sparsify;
mod update;

use crate::contract;
use crate::device::{Account, Busy, Device, Event, Put, Work};
use crate::loans::{Loan, Loans};
use batch_norm::BatchNormPart;
use paceline_base::kernel::{Arena, BufferId, Call, Fusion, Kernel, StepArgs, Values};
use paceline_base::op::Activation;
use paceline_base::staging::{Lend, stage, values};
use paceline_base::units::DType;
use paceline_base::{Result, Staging};
use std::time::Instant;

/// All fusions that any device may declare.
const FUSIONS: [Fusion; 18] = [
    Fusion::DenseActivation(Activation::Relu),
    Fusion::DenseActivation(Activation::Tanh),
    Fusion::DenseActivation(Activation::Sigmoid),
    Fusion::DenseActivation(Activation::Gelu),
    Fusion::DenseThrough(Activation::Relu),
    Fusion::DenseThrough(Activation::Tanh),
    Fusion::DenseThrough(Activation::Sigmoid),
    Fusion::DenseUpdate,
    Fusion::ConvActivation(Activation::Relu),
    Fusion::ConvActivation(Activation::Tanh),
    Fusion::ConvActivation(Activation::Sigmoid),
    Fusion::ConvActivation(Activation::Gelu),
    Fusion::ConvThrough(Activation::Relu),
    Fusion::ConvThrough(Activation::Tanh),
    Fusion::ConvThrough(Activation::Sigmoid),
    Fusion::ConvPool(Activation::Relu),
    Fusion::BatchActivation(Activation::Relu),
    Fusion::SumActivation(Activation::Relu),
];

/// The slow, exact twin of every device.
#[derive(Debug, Default)]
pub struct Reference {
    memory: Vec<f64>,
    slots: Vec<(usize, usize)>,
    loans: Loans,
    account: Account,
    fused: bool,
    events: u64,
}

impl Reference {
    /// A device that takes no fused kernels.
    pub fn new() -> Self {
        Self::default()
    }

    /// A device that takes every fused kernel, so that fused plans are tested against unfused ones.
    pub fn with_fusions() -> Self {
        Self { fused: true, ..Self::default() }
    }

    fn span(&self, buffer: BufferId) -> std::ops::Range<usize> {
        let (offset, len) = self.slots[buffer.0 as usize];
        offset..offset + len
    }

    /// A copy of a buffer's first `len` elements: inputs are copied out, so that buffers may overlap.
    fn input(&self, buffer: BufferId, len: usize) -> Vec<f64> {
        self.memory[self.span(buffer)][..len].to_vec()
    }

    fn event(&mut self) -> Event {
        self.events += 1;
        Event(self.events)
    }

    fn output(&mut self, buffer: BufferId, values: &[f64]) {
        let start = self.span(buffer).start;
        self.memory[start..start + values.len()].copy_from_slice(values);
    }
}

impl Device for Reference {
    fn describe(&self) -> String {
        "reference (f64)".into()
    }

    fn dtype(&self) -> DType {
        DType::F64
    }

    fn fusions(&self) -> &[Fusion] {
        if self.fused { &FUSIONS } else { &[] }
    }

    fn allocate(&mut self, arena: &Arena) -> Result<()> {
        contract::check_arena(arena)?;
        self.memory = vec![0.0; arena.len];
        self.slots = arena.slots.clone();
        self.loans = Loans::default();
        Ok(())
    }

    fn reallocate(&mut self, arena: &Arena, _kept: usize) -> Result<()> {
        contract::check_arena(arena)?;
        self.loans.check_none()?;
        self.memory.resize(arena.len.max(self.memory.len()), 0.0);
        self.slots = arena.slots.clone();
        Ok(())
    }

    fn allocated_bytes(&self) -> usize {
        self.memory.len() * size_of::<f64>()
    }

    fn submit(&mut self, call: &Call, args: &StepArgs) -> Result<Event> {
        contract::check(call, &self.slots, &self.loans);
        let a = &call.args;
        match &call.kernel {
            Kernel::DenseForward { dims, bias, activation } => self.forward(*dims, *bias, *activation, a),
            Kernel::DenseBackwardData { dims, through } => self.backward_data(*dims, *through, a),
            Kernel::DenseBackwardWeights { dims, bias } => self.backward_weights(*dims, *bias, a),
            Kernel::DenseBackwardUpdate { dims, bias, rule, l2 } => {
                self.backward_update(*dims, *bias, rule, *l2, a, args);
            }
            Kernel::ConvForward { dims, bias, activation, pool, codes } => {
                self.conv_forward(dims, *bias, *activation, pool.as_ref(), *codes, a);
            }
            Kernel::ConvBackwardData { dims, through, pooled } => {
                self.conv_backward_data(dims, *through, pooled.as_ref(), a);
            }
            Kernel::ConvBackwardWeights { dims, bias, pooled } => {
                self.conv_backward_weights(dims, *bias, pooled.as_ref(), a);
            }
            Kernel::MaxPool { dims, codes } => self.max_pool(dims, *codes, a),
            Kernel::MaxPoolBackward { dims } => self.max_pool_backward(dims, a),
            Kernel::AveragePool { dims, divisor } => self.average_pool(dims, *divisor, a),
            Kernel::AveragePoolBackward { dims, divisor } => self.average_pool_backward(dims, *divisor, a),
            Kernel::BatchSums { rows, channels } => self.batch_sums(BatchNormPart::new(*rows, *channels), a),
            Kernel::BatchNormalize { rows, channels, count, eps, momentum, activation } => {
                let batch = BatchNormPart { count: *count, eps: *eps, ..BatchNormPart::new(*rows, *channels) };
                self.batch_normalize(batch, *momentum, *activation, a);
            }
            Kernel::BatchInfer { rows, channels, eps, activation } => {
                self.batch_infer(BatchNormPart { eps: *eps, ..BatchNormPart::new(*rows, *channels) }, *activation, a);
            }
            Kernel::BatchGradientSums { rows, channels, through } => {
                self.batch_gradient_sums(BatchNormPart::new(*rows, *channels), *through, a);
            }
            Kernel::BatchBackward { rows, channels, count, through } => {
                self.batch_backward(
                    BatchNormPart { count: *count, ..BatchNormPart::new(*rows, *channels) },
                    *through,
                    a,
                );
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
            Kernel::Dropout { rate, layer, region, shape } => self.dropout(*rate, *layer, region, shape, a, args),
            Kernel::Loss { loss, rows, classes, gradient } => self.loss(*loss, *rows, *classes, *gradient, a, args),
            Kernel::Copy(walk) => self.walk(walk, false, a),
            Kernel::Add(walk) => self.walk(walk, true, a),
            Kernel::Zero { len } => self.output(a[0], &vec![0.0; *len]),
            Kernel::Sparsify { len, keep } => self.sparsify(*len, *keep, a),
            Kernel::Update { rule, segments } => self.update(rule, segments, a, args),
        }
        Ok(self.event())
    }

    fn has_fired(&mut self, _event: Event) -> Result<bool> {
        Ok(true)
    }

    fn wait(&mut self, _event: Event) -> Result<()> {
        Ok(())
    }

    fn load_all(&mut self, buffer: BufferId, fill: &mut dyn FnMut(&mut Put<'_>)) -> Result<()> {
        self.loans.check("a load", buffer, self.slots[buffer.0 as usize], true);
        let span = self.span(buffer);
        let all = &mut self.memory[span];
        fill(&mut |at, values| {
            let to = &mut all[at..];
            match values {
                Values::U8 { bytes, scale, offset } => {
                    // In f32, as the data promises: every device then holds the same inputs.
                    for (to, byte) in to[..bytes.len()].iter_mut().zip(bytes) {
                        *to = f64::from(f32::from(*byte) * scale + offset);
                    }
                }
                Values::F32(from) => to[..from.len()].iter_mut().zip(from).for_each(|(to, x)| *to = f64::from(*x)),
                Values::F64(from) => to[..from.len()].copy_from_slice(from),
            }
        });
        Ok(())
    }

    fn read(&mut self, buffer: BufferId, out: &mut [f64]) -> Result<()> {
        self.loans.check("a read", buffer, self.slots[buffer.0 as usize], false);
        let span = self.span(buffer);
        out.copy_from_slice(&self.memory[span][..out.len()]);
        Ok(())
    }

    fn pack(&mut self, buffer: BufferId, lend: Lend) -> Result<Event> {
        let event = self.event();
        self.loans.lend(buffer, self.slots[buffer.0 as usize], lend, event);
        Ok(event)
    }

    fn take_packed(&mut self, event: Event) -> Result<Staging> {
        let Loan { buffer, lend, .. } = self.loans.take(event)?;
        let copy = stage(&self.memory[self.span(buffer)]);
        Ok(if lend.writes() { copy } else { copy.into_read_only() })
    }

    fn unpack(&mut self, buffer: BufferId, staging: Staging) -> Result<()> {
        self.loans.give_back(buffer, staging.is_writable());
        let span = self.span(buffer);
        assert_eq!((staging.dtype(), staging.len()), (DType::F64, span.len()), "a staging of another buffer came back");
        self.memory[span].copy_from_slice(values(&staging));
        Ok(())
    }

    fn turn_to(&mut self, work: Option<Work>, now: Instant) {
        self.account.turn_to(work, now);
    }

    fn busy(&self) -> Busy {
        self.account.busy
    }
}

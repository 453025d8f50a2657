//! The obvious device: f64, one loop per formula, opaque memory.
//!
//! Every kernel of every other device is compared with the ones here, so they are written to be read, not to be fast.
//! Buffers cannot be seen from outside: `pack` copies into a staging of its own and `unpack` copies back, as a GPU would.

mod batch_norm;
mod conv;
mod dense;
mod elementwise;
mod embedding;
pub mod erf;
mod loss;
mod norm;
mod pool;
mod sparsify;
mod update;

use crate::contract;
use crate::device::{Account, Busy, Device, Event, Put, Work, lent_length, returned_length};
use crate::loans::{Loan, Loans};
use batch_norm::BatchNormPart;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use paceline_base::kernel::{Arena, BufferId, Call, Fusion, Kernel, Slot, StepArgs, Values};
use paceline_base::op::Activation;
use paceline_base::staging::{Lend, stage};
use paceline_base::units::DType;
use paceline_base::{Error, Result, Staging};
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
    slots: Vec<Slot>,
    /// By buffer: the elements that it holds.
    lengths: Vec<usize>,
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

    fn slot(&self, buffer: BufferId) -> Slot {
        self.slots[buffer.0 as usize]
    }

    /// The place of a buffer's first element in the memory, of a buffer of floats.
    fn first(&self, buffer: BufferId) -> usize {
        self.slot(buffer).at / size_of::<f64>()
    }

    /// All elements that a buffer holds.
    fn typed<T: Pod>(&self, buffer: BufferId) -> &[T] {
        let (at, size) = (self.slot(buffer).at, size_of::<T>());
        cast_slice(&cast_slice::<f64, u8>(&self.memory)[at..at + size * self.lengths[buffer.0 as usize]])
    }

    /// All that a buffer has room for.
    fn typed_mut<T: Pod>(&mut self, buffer: BufferId) -> &mut [T] {
        let (Slot { at, len, .. }, size) = (self.slot(buffer), size_of::<T>());
        cast_slice_mut(&mut cast_slice_mut::<f64, u8>(&mut self.memory)[at..at + size * len])
    }

    /// A copy of a buffer's first `len` elements: inputs are copied out, so that buffers may overlap.
    fn input(&self, buffer: BufferId, len: usize) -> Vec<f64> {
        self.typed(buffer)[..len].to_vec()
    }

    /// Takes buffers in the place of those there are.
    fn take_slots(&mut self, arena: &Arena) {
        self.slots = arena.slots.clone();
        self.lengths = arena.slots.iter().map(|slot| slot.len).collect();
    }

    fn event(&mut self) -> Event {
        self.events += 1;
        Event(self.events)
    }

    fn output<T: Pod>(&mut self, buffer: BufferId, values: &[T]) {
        self.typed_mut(buffer)[..values.len()].copy_from_slice(values);
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
        contract::check_arena(arena, DType::F64)?;
        self.memory = vec![0.0; arena.bytes.div_ceil(size_of::<f64>())];
        self.take_slots(arena);
        self.loans = Loans::default();
        Ok(())
    }

    fn reallocate(&mut self, arena: &Arena, _kept: usize) -> Result<()> {
        contract::check_arena(arena, DType::F64)?;
        self.loans.check_none()?;
        self.memory.resize(arena.bytes.div_ceil(size_of::<f64>()).max(self.memory.len()), 0.0);
        self.take_slots(arena);
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
            Kernel::EmbeddingForward(dims) => self.embedding_forward(dims, a)?,
            Kernel::EmbeddingBackward(dims) => self.embedding_backward(dims, a)?,
            Kernel::Loss { loss, targets, rows, gradient } => self.loss(*loss, *targets, *rows, *gradient, a, args),
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
        let slot = self.slot(buffer);
        self.loans.check("a load", buffer, slot, true);
        let mut end = 0;
        fill(&mut |at, values| {
            let to = at..at + values.len();
            end = end.max(to.end);
            let of = |dtype| assert_eq!(slot.dtype, dtype, "values of another type than those of buffer {}", buffer.0);
            match values {
                Values::U8 { bytes, scale, offset } => {
                    of(DType::F64);
                    // In f32, as the data promises: every device then holds the same inputs.
                    for (to, byte) in self.typed_mut::<f64>(buffer)[to].iter_mut().zip(bytes) {
                        *to = f64::from(f32::from(*byte) * scale + offset);
                    }
                }
                Values::F32(from) => {
                    of(DType::F64);
                    let to = &mut self.typed_mut::<f64>(buffer)[to];
                    to.iter_mut().zip(from).for_each(|(to, x)| *to = f64::from(*x));
                }
                Values::F64(from) => {
                    of(DType::F64);
                    self.typed_mut(buffer)[to].copy_from_slice(from);
                }
                Values::Bytes(from) => {
                    of(DType::U8);
                    self.typed_mut(buffer)[to].copy_from_slice(from);
                }
                Values::U32(from) => {
                    of(DType::U32);
                    self.typed_mut(buffer)[to].copy_from_slice(from);
                }
                Values::U64(from) => {
                    of(DType::U64);
                    self.typed_mut(buffer)[to].copy_from_slice(from);
                }
            }
        });
        if slot.varies {
            self.lengths[buffer.0 as usize] = end;
        }
        Ok(())
    }

    fn read(&mut self, buffer: BufferId, out: &mut [f64]) -> Result<()> {
        let slot = self.slot(buffer);
        self.loans.check("a read", buffer, slot, false);
        match slot.dtype {
            DType::F32 => return Err(Error::internal("a buffer of f32 on a device that computes in f64")),
            DType::F64 => out.copy_from_slice(&self.typed(buffer)[..out.len()]),
            DType::U8 => out.iter_mut().zip(self.typed::<u8>(buffer)).for_each(|(out, x)| *out = f64::from(*x)),
            DType::U32 => out.iter_mut().zip(self.typed::<u32>(buffer)).for_each(|(out, x)| *out = f64::from(*x)),
            DType::U64 => out.iter_mut().zip(self.typed::<u64>(buffer)).for_each(|(out, x)| *out = *x as f64),
        }
        Ok(())
    }

    fn pack(&mut self, buffer: BufferId, lend: Lend) -> Result<Event> {
        let event = self.event();
        self.loans.lend(buffer, self.slot(buffer), lend, event);
        Ok(event)
    }

    fn take_packed(&mut self, event: Event) -> Result<Staging> {
        let Loan { buffer, lend, .. } = self.loans.take(event)?;
        let slot = self.slot(buffer);
        let copy = match slot.dtype {
            DType::F32 => return Err(Error::internal("a buffer of f32 on a device that computes in f64")),
            DType::F64 => stage(self.typed_mut::<f64>(buffer)),
            DType::U8 => stage(self.typed_mut::<u8>(buffer)),
            DType::U32 => stage(self.typed_mut::<u32>(buffer)),
            DType::U64 => stage(self.typed_mut::<u64>(buffer)),
        };
        let copy = lent_length(copy, &slot, lend, self.lengths[buffer.0 as usize]);
        Ok(if lend.writes() { copy } else { copy.into_read_only() })
    }

    fn unpack(&mut self, buffer: BufferId, staging: Staging) -> Result<()> {
        self.loans.give_back(buffer, staging.is_writable());
        let slot = self.slot(buffer);
        self.lengths[buffer.0 as usize] = returned_length(&staging, &slot);
        let bytes = staging.bytes();
        cast_slice_mut::<f64, u8>(&mut self.memory)[slot.at..slot.at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn turn_to(&mut self, work: Option<Work>, now: Instant) {
        self.account.turn_to(work, now);
    }

    fn busy(&self) -> Busy {
        self.account.busy
    }
}

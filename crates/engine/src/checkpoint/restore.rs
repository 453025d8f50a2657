//! Putting values into a rank's buckets: initial ones, or those of a checkpoint. Each rank takes what it holds.

use super::files::{Checkpoint, Tensor, TensorData};
use super::gather::walk_entry;
use crate::init::initial_values;
use crate::rank::Rank;
use paceline_base::kernel::Values;
use paceline_base::{Error, Result};
use paceline_comm::Comm;
use paceline_graph::Graph;
use paceline_kernels::Device;
use paceline_plan::BufferKey;
use std::ops::Range;

/// Sets all parameters to their initial values.
pub fn initialize<D: Device, C: Comm>(rank: &mut Rank<D, C>, graph: &Graph, seed: u64) -> Result<()> {
    let schedule = rank.schedule.clone();
    let me = rank.number();
    for bucket in &schedule.buckets {
        let Some(member) = bucket.group.iter().position(|&r| r == me) else { continue };
        for entry in &bucket.entries {
            let param = graph
                .params()
                .find(|p| p.id == entry.id)
                .ok_or_else(|| Error::internal(format!("no parameter {}", entry.param)))?;
            let values = initial_values(param, &entry.region, seed);
            let buffer = rank.lasting(bucket.params(member))?;
            rank.device.load(buffer, entry.offset, Values::F64(&values))?;
        }
    }
    Ok(())
}

/// What one of `ranks` gets of what was held back on others: that of the ranks whose number is its own modulo `ranks`, added up in their order.
fn share(held: &[&Tensor], rank: usize, ranks: usize) -> Option<Tensor> {
    let mut mine = held.iter().skip(rank).step_by(ranks.max(1));
    let mut sum = Tensor::clone(mine.next()?);
    for other in mine {
        sum.data.add(&other.data);
    }
    Some(sum)
}

/// Sets parameters and optimiser state to those of a checkpoint. `state` is false for evaluation alone.
pub fn restore<D: Device, C: Comm>(rank: &mut Rank<D, C>, checkpoint: &Checkpoint, state: bool) -> Result<()> {
    let schedule = rank.schedule.clone();
    let me = rank.number();
    for bucket in &schedule.buckets {
        let Some(member) = bucket.group.iter().position(|&r| r == me) else { continue };
        for index in 0..bucket.entries.len() {
            let name = &bucket.entries[index].param;
            let mut put = |buffer: BufferKey, range: &Range<usize>, tensor: &Tensor| -> Result<()> {
                let buffer = rank.lasting(buffer)?;
                rank.device.load_all(buffer, &mut |put| {
                    walk_entry(bucket, index, &tensor.shape, range, |to, from, n| {
                        let values = match &tensor.data {
                            TensorData::F32(v) => Values::F32(&v[from..from + n]),
                            TensorData::F64(v) => Values::F64(&v[from..from + n]),
                        };
                        put(to, values);
                    });
                })
            };
            put(bucket.params(member), &(0..bucket.len), checkpoint.model_tensor(name)?)?;
            if state && bucket.trained {
                for (k, s) in schedule.rule.states().iter().enumerate() {
                    let tensor = checkpoint.optimizer_tensor(&format!("{name}.{s}"))?;
                    put(bucket.state(member, k), &bucket.state_range(member), tensor)?;
                }
                if let Some(held_back) = bucket.held_back(member)
                    && let Some(tensor) = share(&checkpoint.held_back(name), member, bucket.group.len())
                {
                    put(held_back, &(0..bucket.len), &tensor)?;
                }
            }
        }
    }
    Ok(())
}

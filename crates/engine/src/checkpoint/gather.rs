//! From the ranks' buckets to whole tensors on rank 0.

use super::Saver;
use super::files::{Tensor, TensorData, held_back_name, held_back_state};
use crate::rank::Rank;
use crate::state::TrainState;
use paceline_base::region::{Region, Strided};
use paceline_base::staging::Lend;
use paceline_base::units::DType;
use paceline_base::{Error, Result, Staging};
use paceline_comm::{Comm, host};
use paceline_graph::Graph;
use paceline_kernels::Device;
use paceline_plan::{Bucket, BufferKey};
use std::ops::Range;

/// Parameters and optimiser state as whole tensors.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// By parameter name.
    pub model: Vec<Tensor>,
    /// By `parameter.state`; also what compression holds back, by `parameter.held-back.rank`.
    pub optimizer: Vec<Tensor>,
}

/// Brings all pieces to rank 0, which hands them to the saver. Every rank must call it at the same step, and have recorded
/// the steps before it: none is written before all have called.
pub fn save<D: Device, C: Comm>(
    rank: &mut Rank<D, C>,
    graph: &Graph,
    progress: &TrainState,
    best: bool,
    saver: Option<&Saver>,
) -> Result<()> {
    if let Some(saver) = saver {
        saver.check()?;
    }
    let gathered = gather(rank, graph)?;
    all_are_here(rank)?;
    if let Some(snapshot) = gathered {
        if let Some(t) = snapshot.model.iter().find(|t| !t.data.is_finite()) {
            return Err(Error::failure(format!(
                "parameter {} is no longer finite at step {}; the last good checkpoint is kept; lower optimizer.rate",
                t.name, progress.step
            )));
        }
        if let Some(saver) = saver {
            saver.save(snapshot, *progress, best);
        }
    }
    Ok(())
}

/// The whole tensors, on rank 0.
pub fn gather<D: Device, C: Comm>(rank: &mut Rank<D, C>, graph: &Graph) -> Result<Option<Snapshot>> {
    rank.drain()?;
    let schedule = rank.schedule.clone();
    let dtype = rank.device.dtype();
    let mut snapshot = (rank.number() == 0).then(|| Snapshot {
        model: graph.params().map(|p| Tensor::zeros(p.name.clone(), p.spec.shape.clone(), dtype)).collect(),
        optimizer: graph
            .params()
            .filter(|p| p.spec.trained)
            .flat_map(|p| {
                let of = move |s: &&str| Tensor::zeros(format!("{}.{s}", p.name), p.spec.shape.clone(), dtype);
                schedule.rule.states().iter().map(of).collect::<Vec<_>>()
            })
            .collect(),
    });
    if let Some(snapshot) = &mut snapshot {
        let entries = schedule.buckets.iter().filter(|b| b.held_back(0).is_some());
        for (entry, bucket) in entries.flat_map(|bucket| bucket.entries.iter().map(move |e| (e, bucket))) {
            let Some(shape) = graph.params().find(|p| p.id == entry.id).map(|p| p.spec.shape.clone()) else { continue };
            for &member in &bucket.group[..] {
                let name = held_back_name(&entry.param, member);
                if snapshot.optimizer.iter().all(|t| t.name != name) {
                    snapshot.optimizer.push(Tensor::zeros(name, shape.clone(), dtype));
                }
            }
        }
    }
    for bucket in &schedule.buckets {
        let whole = 0..bucket.len;
        let values = bring(rank, bucket.group[0], bucket.params(0), bucket.len)?;
        if let (Some(s), Some(v)) = (&mut snapshot, values) {
            scatter(bucket, &v, &whole, None, &mut s.model);
        }
        if !bucket.trained {
            continue; // no optimiser state
        }
        let holders = if bucket.sharded { bucket.group.len() } else { 1 };
        for member in 0..holders {
            let range = bucket.state_range(member);
            for (k, name) in schedule.rule.states().iter().enumerate() {
                let values = bring(rank, bucket.group[member], bucket.state(member, k), range.len())?;
                if let (Some(s), Some(v)) = (&mut snapshot, values) {
                    scatter(bucket, &v, &range, Some(name), &mut s.optimizer);
                }
            }
        }
        for (number, &member) in bucket.group.iter().enumerate() {
            let Some(held_back) = bucket.held_back(number) else { continue };
            let values = bring(rank, member, held_back, bucket.len)?;
            if let (Some(s), Some(v)) = (&mut snapshot, values) {
                scatter(bucket, &v, &whole, Some(&held_back_state(member)), &mut s.optimizer);
            }
        }
    }
    Ok(snapshot)
}

/// Rank 0 waits until every other rank has come this far. Takes as many sequence numbers as there are ranks.
fn all_are_here<D: Device, C: Comm>(rank: &mut Rank<D, C>) -> Result<()> {
    let ranks = rank.comm.size();
    let seq = rank.take_sequence(ranks as u64);
    let word = || host::stage(&[0f32; 1]);
    let tickets = match rank.number() {
        0 => (1..ranks).map(|from| rank.comm.receive(from, seq + from as u64, word())).collect::<Result<Vec<_>>>()?,
        me => vec![rank.comm.send(0, seq + me as u64, word())?],
    };
    tickets.into_iter().try_for_each(|ticket| rank.comm.wait(ticket).map(drop))
}

/// Brings one buffer to rank 0. Takes one sequence number on every rank.
fn bring<D: Device, C: Comm>(
    rank: &mut Rank<D, C>,
    owner: usize,
    buffer: BufferKey,
    len: usize,
) -> Result<Option<TensorData>> {
    let seq = rank.take_sequence(1);
    let me = rank.number();
    if len == 0 || (me != owner && me != 0) {
        return Ok(None);
    }
    if me == 0 && owner != 0 {
        let room = match rank.device.dtype() {
            DType::F32 => host::stage(&vec![0f32; len]),
            DType::F64 => host::stage(&vec![0f64; len]),
            DType::U8 | DType::U32 | DType::U64 => unreachable!("parameters are floats"),
        };
        let ticket = rank.comm.receive(owner, seq, room)?;
        return Ok(Some(values(&rank.comm.wait(ticket)?)));
    }
    let buffer = rank.lasting(buffer)?;
    let mut staging = rank.device.pack_now(buffer, Lend::Read)?;
    let mut out = None;
    if me == 0 {
        out = Some(values(&staging));
    } else {
        let ticket = rank.comm.send(0, seq, staging)?;
        staging = rank.comm.wait(ticket)?;
    }
    rank.device.unpack(buffer, staging)?;
    Ok(out)
}

fn values(staging: &Staging) -> TensorData {
    match staging.dtype() {
        DType::F32 => TensorData::F32(host::values(staging).to_vec()),
        DType::F64 => TensorData::F64(host::values(staging).to_vec()),
        DType::U8 | DType::U32 | DType::U64 => unreachable!("parameters are floats"),
    }
}

/// Walks the elements of one bucket entry that lie in `range` of the bucket: (place in `range`, place in the whole
/// tensor, run).
pub(super) fn walk_entry(
    bucket: &Bucket,
    entry: usize,
    shape: &[usize],
    range: &Range<usize>,
    mut f: impl FnMut(usize, usize, usize),
) {
    let e = &bucket.entries[entry];
    Strided::between(&e.region, &e.region, &Region::whole(shape)).for_each(|local, global, run| {
        let (start, end) = (e.offset + local, e.offset + local + run);
        let (a, b) = (start.max(range.start), end.min(range.end));
        if a < b {
            f(a - range.start, global + (a - start), b - a);
        }
    });
}

fn scatter(bucket: &Bucket, values: &TensorData, range: &Range<usize>, state: Option<&str>, into: &mut [Tensor]) {
    for (index, entry) in bucket.entries.iter().enumerate() {
        let name = state.map_or(entry.param.clone(), |s| format!("{}.{s}", entry.param));
        if let Some(tensor) = into.iter_mut().find(|t| t.name == name) {
            let shape = tensor.shape.clone();
            walk_entry(bucket, index, &shape, range, |from, to, n| tensor.data.copy_from(to, values, from, n));
        }
    }
}

//! The memory of a rank: from when to when its buffers live, how much that takes at most, and where each of them lies.
//!
//! A buffer lives from the first task of the rank's program that touches it to the last, or to where the rank has waited for a message that it was lent for. Buffers
//! of a step share room when their lives do not overlap.

mod pack;

use crate::hash::HashMap;
use crate::key::BufferKey;
use crate::program::{Item, Placed, Program, programs};
use crate::schedule::{Buffer, Schedule, metrics};
use paceline_base::kernel::{ALIGN, Arena, BufferId, Call, Kernel, Slot};
use paceline_base::units::DType;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where the buffers of a rank lie, and the numbers by which its device knows them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// By number.
    pub arena: Arena,
    /// Bytes that live for the whole run: what is left when no step runs.
    pub lasting_bytes: usize,
    /// Numbers of the buffers that live for the whole run, by name.
    lasting_ids: Vec<(BufferKey, BufferId)>,
    /// By phase, numbers of the buffers that live in a step.
    step_ids: Vec<Vec<(BufferKey, BufferId)>>,
}

impl Memory {
    /// The number of a buffer in a phase, or of one that outlives phases.
    pub fn id(&self, phase: usize, key: BufferKey) -> Option<BufferId> {
        let find = |ids: &[(BufferKey, BufferId)]| ids.binary_search_by_key(&key, |i| i.0).ok().map(|at| ids[at].1);
        self.step_ids.get(phase).and_then(|ids| find(ids)).or_else(|| self.lasting_id(key))
    }

    /// The number of a buffer that lives for the whole run.
    pub fn lasting_id(&self, key: BufferKey) -> Option<BufferId> {
        self.lasting_ids.binary_search_by_key(&key, |i| i.0).ok().map(|at| self.lasting_ids[at].1)
    }

    /// The buffers that live for the whole run, with their numbers and where they lie; they come first in the arena.
    pub fn lasting(&self) -> impl Iterator<Item = (BufferKey, BufferId, Slot)> {
        self.lasting_ids.iter().map(|&(key, id)| (key, id, self.arena.slots[id.0 as usize]))
    }

    /// A kernel launch with buffers by number.
    pub fn call(&self, phase: usize, call: &Call<BufferKey>) -> Option<Call> {
        let args = call.args.iter().map(|&key| self.id(phase, key)).collect::<Option<_>>()?;
        Some(Call { kernel: call.kernel.clone(), args })
    }

    /// Length of a buffer.
    pub fn len(&self, id: BufferId) -> usize {
        self.arena.slots[id.0 as usize].len
    }
}

/// From when to when a buffer lives, by place in the rank's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Life {
    bytes: usize,
    first: usize,
    last: usize,
}

/// The buffers of a rank with their lives, and those that others are ranges of.
struct Buffers {
    /// Of its device.
    float: DType,
    /// All, those for the whole run first.
    all: Vec<Buffer>,
    /// How many live for the whole run, and then, by phase, where its buffers begin.
    begins: Vec<usize>,
    /// By phase and buffer.
    lives: Vec<Vec<Option<Life>>>,
    used: Vec<bool>,
}

/// Lays out the memory of all ranks.
pub(crate) fn lay_out(schedule: &mut Schedule) {
    let mut known = HashMap::default();
    schedule.memory = buffers(schedule, true).iter().map(|of_rank| Arc::new(layout(of_rank, &mut known))).collect();
}

/// Lays out the memory of a schedule that a test has changed.
#[cfg(feature = "testing")]
pub fn lay_out_again(schedule: &mut Schedule) {
    lay_out(schedule);
}

/// Lays out memory as if a loan ended with the task that begins it: what tests must notice.
#[cfg(feature = "testing")]
pub fn lay_out_without_loans(schedule: &mut Schedule) {
    let mut known = HashMap::default();
    schedule.memory = buffers(schedule, false).iter().map(|of_rank| Arc::new(layout(of_rank, &mut known))).collect();
}

/// The buffers of a step whose content nothing reads after a task of a rank's program, with that task's place among those that are done. What
/// lives on behind the last one is not there.
pub fn ends(schedule: &Schedule, phase: usize, rank: usize) -> Vec<(usize, BufferKey)> {
    let of_rank = &buffers(schedule, true)[rank];
    let done = |item: &&Item<'_>| matches!(item, Item::Do(_));
    let tasks = crate::program::program(schedule, phase, rank).items.iter().filter(done).count();
    let lives = of_rank.lives[phase].iter().zip(&of_rank.all);
    let mut ends: Vec<(usize, BufferKey)> =
        lives.filter_map(|(life, buffer)| Some(((*life)?.last, buffer.key))).collect();
    ends.retain(|(last, _)| *last < tasks);
    ends.sort_unstable();
    ends
}

/// Bytes that each rank needs at least: the largest sum of buffers that live at the same time. Where gaps are left between them, it is a little more.
pub fn peaks(schedule: &Schedule) -> Vec<usize> {
    let peak = |of_rank: &Buffers| {
        let step = of_rank.lives.iter().map(|lives| {
            let mut changes: Vec<(usize, isize)> = Vec::new();
            for life in lives.iter().flatten() {
                changes.extend([(life.first, life.bytes as isize), (life.last + 1, -(life.bytes as isize))]);
            }
            changes.sort_unstable();
            let mut now = 0;
            changes
                .iter()
                .map(|change| {
                    now += change.1;
                    now
                })
                .max()
                .unwrap_or(0) as usize
        });
        of_rank.lasting() + step.max().unwrap_or(0)
    };
    buffers(schedule, true).iter().map(peak).collect()
}

impl Buffers {
    /// Room for what lives for the whole run.
    fn lasting(&self) -> usize {
        let there = (0..self.begins[0]).filter(|&b| self.used[b] && self.all[b].within.is_none());
        there.map(|b| self.room(b)).sum()
    }

    /// Bytes of a buffer, whole cache lines.
    fn room(&self, buffer: usize) -> usize {
        self.all[buffer].bytes(self.float).next_multiple_of(ALIGN)
    }
}

/// The buffers of all ranks; they live while they are lent if `loans`, as they must. What no task touches gets no room (a gradient that a fused update never stores), except for what checkpoints read.
fn buffers(schedule: &Schedule, loans: bool) -> Vec<Buffers> {
    let own = |rank: usize| Buffer::floats(metrics(rank), rank, schedule.metrics.len(), None);
    let mut of: Vec<Buffers> = (0..schedule.ranks)
        .map(|rank| Buffers {
            float: schedule.dtypes[rank],
            all: vec![own(rank)],
            begins: Vec::new(),
            lives: Vec::new(),
            used: Vec::new(),
        })
        .collect();
    let mut kept: Vec<Vec<BufferKey>> = vec![Vec::new(); schedule.ranks];
    for bucket in &schedule.buckets {
        for (member, &rank) in bucket.group.iter().enumerate() {
            of[rank].all.extend(bucket.buffers(member, schedule.rule));
            kept[rank].push(bucket.params(member));
            if bucket.trained {
                kept[rank].extend((0..schedule.rule.states().len()).map(|state| bucket.state(member, state)));
            }
        }
    }
    for (rank, buffers) in of.iter_mut().enumerate() {
        buffers.begins.push(buffers.all.len());
        buffers.used = vec![false; buffers.all.len()];
        let lasting = roots(&buffers.all, 0, &HashMap::default());
        for key in &kept[rank] {
            buffers.used[lasting[key]] = true;
        }
    }
    for (number, phase) in schedule.phases.iter().enumerate() {
        for buffer in phase.segments.iter().flat_map(|segment| &segment.buffers) {
            of[buffer.rank].all.push(*buffer);
        }
        for (rank, program) in programs(schedule, number).iter().enumerate() {
            of[rank].add_phase(rank, program, loans);
        }
    }
    of
}

/// The buffer that holds the storage of each, from `begin` on, given those of earlier ones.
fn roots(all: &[Buffer], begin: usize, before: &HashMap<BufferKey, usize>) -> HashMap<BufferKey, usize> {
    let mut roots: HashMap<BufferKey, usize> = HashMap::default();
    for (at, buffer) in all.iter().enumerate().skip(begin) {
        let root = match buffer.within {
            Some((outer, _)) => roots.get(&outer).or(before.get(&outer)).copied().unwrap_or(at),
            None => at,
        };
        roots.insert(buffer.key, root);
    }
    roots
}

impl Buffers {
    /// Finds the lives of the buffers of a phase, which were just added.
    fn add_phase(&mut self, rank: usize, program: &Program<'_>, loans: bool) {
        let (lasting, begin) = (self.begins[0], *self.begins.last().unwrap_or(&0));
        let before = roots(&self.all[..lasting], 0, &HashMap::default());
        let roots = roots(&self.all, begin, &before);
        self.begins.push(self.all.len());
        self.used.resize(self.all.len(), false);
        let mut lives: Vec<Option<Life>> = vec![None; self.all.len()];
        let mut lent: HashMap<u64, usize> = HashMap::default();
        let (all, float) = (&self.all, self.float);
        let used = &mut self.used;
        let mut touch = |placed: &Placed<'_>, at: usize, lent: &mut HashMap<u64, usize>| {
            placed.task.touches(|r, key| {
                if r != rank {
                    return;
                }
                let Some(&root) = roots.get(&key).or(before.get(&key)) else { return };
                used[root] = true;
                if let Some(number) = placed.number {
                    lent.insert(number, root);
                }
                let bytes = all[root].bytes(float).next_multiple_of(ALIGN);
                lives[root].get_or_insert(Life { bytes, first: at, last: at }).last = at;
            });
        };
        let mut at = 0;
        let mut returned: Vec<(usize, usize)> = Vec::new();
        let mut outputs: Vec<usize> = Vec::new();
        for item in &program.items {
            match item {
                Item::Do(placed) => {
                    touch(placed, at, &mut lent);
                    // Predictions read at the end of a step what its loss has read.
                    if let Some(Call { kernel: Kernel::Loss { gradient: false, .. }, args }) = placed.task.call() {
                        outputs.extend(roots.get(&args[0]));
                    }
                    at += 1;
                }
                // It is given back before the task that follows, or at the end.
                Item::Wait(number) => returned.extend(lent.get(number).map(|&root| (root, at))),
                Item::Finish(_) => {}
            }
        }
        for item in program.left_over.iter().flat_map(|(_, items)| items) {
            if let Item::Do(placed) = item {
                touch(placed, at, &mut lent);
            }
        }
        let returned = returned.into_iter().filter(|_| loans);
        for (root, at) in returned.chain(outputs.into_iter().map(|root| (root, at))) {
            if let Some(life) = &mut lives[root] {
                life.last = life.last.max(at);
            }
        }
        lives[..lasting].fill(None); // the whole run
        self.lives.push(lives);
    }
}

/// Places of some lives, from 0 on, and their end.
type Places = Arc<(Vec<usize>, usize)>;

fn layout(of_rank: &Buffers, known: &mut HashMap<Vec<Life>, Places>) -> Memory {
    let Buffers { float, all, begins, lives, used } = of_rank;
    let slot = |b: usize, at: usize| {
        let Buffer { len, elements, varies, .. } = all[b];
        Slot { at, len, dtype: elements.dtype(*float), varies }
    };
    let mut slots = vec![Slot::new(0, 0, *float); all.len()];
    let mut lasting = 0;
    for (b, _) in all[..begins[0]].iter().enumerate().filter(|(b, buffer)| used[*b] && buffer.within.is_none()) {
        slots[b] = slot(b, lasting);
        lasting += of_rank.room(b);
    }
    let mut bytes = lasting;
    for lives in lives {
        // Largest first; ranks that do alike need the same layout.
        let mut there: Vec<(usize, Life)> = lives.iter().enumerate().filter_map(|(b, l)| Some((b, (*l)?))).collect();
        there.sort_by_key(|(b, l)| (std::cmp::Reverse(l.bytes), l.first, *b));
        let sorted: Vec<Life> = there.iter().map(|l| l.1).collect();
        let places = known.entry(sorted).or_insert_with_key(|lives| Arc::new(pack::pack(lives))).clone();
        for ((b, _), offset) in there.iter().zip(&places.0) {
            slots[*b] = slot(*b, lasting + offset);
        }
        bytes = bytes.max(lasting + places.1);
    }
    let mut ids: HashMap<BufferKey, usize> = HashMap::default();
    let mut by_phase: Vec<Vec<(BufferKey, BufferId)>> = Vec::new();
    let mut begin = 0;
    for (phase, &end) in begins.iter().enumerate() {
        let mut named: HashMap<BufferKey, usize> = if phase == 0 { HashMap::default() } else { ids.clone() };
        for b in begin..end {
            if let Some((outer, offset)) = all[b].within {
                let outer = named[&outer];
                if slots[outer].len > 0 {
                    slots[b] = slot(b, slots[outer].at + slots[outer].bytes_of(offset));
                }
            }
            named.insert(all[b].key, b);
        }
        let mut sorted: Vec<_> = (begin..end).map(|b| (all[b].key, BufferId(b as u32))).collect();
        sorted.sort_unstable_by_key(|i| i.0);
        by_phase.push(sorted);
        if phase == 0 {
            ids = named;
        }
        begin = end;
    }
    let lasting_ids = by_phase.remove(0);
    let lasting = lasting_ids
        .iter()
        .filter(|(_, id)| all[id.0 as usize].within.is_none())
        .map(|(_, id)| slots[id.0 as usize])
        .map(|slot| slot.bytes_of(slot.len))
        .sum();
    Memory { arena: Arena { bytes, slots }, lasting_bytes: lasting, lasting_ids, step_ids: by_phase }
}

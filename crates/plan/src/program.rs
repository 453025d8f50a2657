//! A rank's program: its tasks of one kind of step, one after another, with its waits where the schedule has them and what the step before
//! left over where it is due. The engine executes it, the simulator costs it, and memory is laid out by it.

use crate::hash::HashMap;
use crate::key::{SegmentKey, TaskKey};
use crate::schedule::{Await, Schedule, Segment, Task};

/// One entry of a program.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// Do this task; a message is started.
    Do(Placed<'a>),
    /// Wait for a message of this step, by number, and take its buffer back.
    Wait(u64),
    /// Do what the step before left over of this bucket, if it left anything.
    Finish(usize),
}

/// A task, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Its segment.
    pub segment: &'a Segment,
    /// What is done.
    pub task: &'a Task,
    /// Of a message: its number in the step, the same on all ranks.
    pub number: Option<u64>,
}

/// All that one rank does in one kind of step.
#[derive(Clone, Debug, Default)]
pub struct Program<'a> {
    /// In this order.
    pub items: Vec<Item<'a>>,
    /// What is left to the next step: the bucket, and what there is to do.
    pub left_over: Vec<(usize, Vec<Item<'a>>)>,
    /// Messages of the step, over all ranks: their numbers are below this.
    pub messages: u64,
}

/// A rank's program while it is made.
#[derive(Default)]
struct Rank<'a> {
    program: Program<'a>,
    waits: HashMap<TaskKey, Vec<u64>>,
    at_the_end: Vec<u64>,
    /// Buckets by the task that uses them first.
    uses: HashMap<TaskKey, Vec<usize>>,
    /// Buckets that are used, but not by any task of this phase.
    unused: Vec<usize>,
}

/// The program of one rank.
pub fn program(schedule: &Schedule, phase: usize, rank: usize) -> Program<'_> {
    build(schedule, phase, rank, 1).swap_remove(0)
}

/// The programs of all ranks.
pub fn programs(schedule: &Schedule, phase: usize) -> Vec<Program<'_>> {
    build(schedule, phase, 0, schedule.ranks)
}

/// Programs of `count` ranks from `first` on.
fn build(schedule: &Schedule, phase: usize, first: usize, count: usize) -> Vec<Program<'_>> {
    let mut ranks: Vec<Rank<'_>> = (0..count).map(|_| Rank::default()).collect();
    let place = |rank: usize| rank.checked_sub(first).filter(|&at| at < count);
    let number_of: HashMap<SegmentKey, usize> =
        schedule.buckets.iter().enumerate().map(|(i, b)| (SegmentKey::Update(b.key), i)).collect();
    let phase = &schedule.phases[phase];
    for (bucket, uses) in phase.first_uses.iter().enumerate() {
        for (&rank, first_use) in schedule.buckets[bucket].group.iter().zip(uses) {
            let Some(at) = place(rank) else { continue };
            match first_use {
                Some(task) => ranks[at].uses.entry(*task).or_default().push(bucket),
                None => ranks[at].unused.push(bucket),
            }
        }
    }
    let mut messages = 0;
    for segment in &phase.segments {
        for task in &segment.tasks {
            let key = TaskKey { segment: segment.key, index: task.index };
            let number = task.is_message().then(|| {
                messages += 1;
                messages - 1
            });
            for (participant, rank) in task.ranks().enumerate() {
                let Some(rank) = place(rank).map(|at| &mut ranks[at]) else { continue };
                let waits = rank.waits.remove(&key).unwrap_or_default();
                let mut items: Vec<Item<'_>> = waits.into_iter().map(Item::Wait).collect();
                items.push(Item::Do(Placed { segment, task, number }));
                let Program { items: all, left_over, .. } = &mut rank.program;
                if task.stage > 0 {
                    left_over.push((number_of[&segment.key], items));
                } else {
                    all.extend(rank.uses.remove(&key).into_iter().flatten().map(Item::Finish));
                    all.extend(items);
                }
                if let (Some(number), Some(awaited)) = (number, task.awaited.get(participant)) {
                    match awaited {
                        Await::Before(task) => rank.waits.entry(*task).or_default().push(number),
                        Await::StepEnd => rank.at_the_end.push(number),
                    }
                }
            }
        }
    }
    let finished = ranks.into_iter().map(|rank| {
        let Rank { mut program, at_the_end, unused, .. } = rank;
        program.items.extend(at_the_end.into_iter().map(Item::Wait));
        program.items.extend(unused.into_iter().map(Item::Finish));
        program.messages = messages;
        program
    });
    finished.collect()
}

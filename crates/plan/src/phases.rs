//! Kinds of steps that are lowered when they are first needed: batches of sizes that nobody could know before.

use crate::lower::{Batches, Settings, lower};
use crate::plan::Plan;
use crate::schedule::{PhaseKind, Schedule};
use paceline_base::Result;
use paceline_graph::Graph;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Schedules of one model and plan, each with one kind of step or with more room for lists than the one before. Shared by the ranks of a
/// process.
pub struct Phases<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    made: Mutex<Made>,
}

struct Made {
    batches: Batches,
    settings: Settings,
    schedules: Vec<Arc<Schedule>>,
}

impl<'a> Phases<'a> {
    /// Lowers the batches that are known.
    pub fn new(graph: &'a Graph, plan: &'a Plan, batches: Batches, settings: Settings) -> Result<Self> {
        let first = Arc::new(lower(graph, plan, &batches, &settings)?);
        Ok(Self { graph, plan, made: Mutex::new(Made { batches, settings, schedules: vec![first] }) })
    }

    /// The schedule of the batches that are known.
    pub fn first(&self) -> Arc<Schedule> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).schedules[0].clone()
    }

    /// The first schedule that has a step of this kind for so many samples. Ranks that ask for the same, in the same order, get the same,
    /// however far some of them are ahead.
    pub fn with(&self, kind: PhaseKind, samples: usize) -> Result<Arc<Schedule>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = made.schedules.iter().find(|schedule| schedule.phase(kind, samples).is_some()) {
            return Ok(there.clone());
        }
        let mut batches = made.batches.clone();
        match kind {
            PhaseKind::Train => batches.train.push(samples),
            PhaseKind::Evaluate => batches.evaluate.push(samples),
        }
        let schedule = Arc::new(lower(self.graph, self.plan, &batches, &made.settings)?);
        made.schedules.push(schedule.clone());
        made.batches = batches;
        Ok(schedule)
    }

    /// The first schedule with a step of this kind in which no part has lists with more indices than there is room for. `entries` says how many
    /// those of some samples of the batch have: every rank must find the same.
    pub fn with_room(
        &self,
        kind: PhaseKind,
        samples: usize,
        entries: impl Fn(Range<usize>) -> usize,
    ) -> Result<Arc<Schedule>> {
        self.with(kind, samples)?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let lacks = |schedule: &Schedule| {
            let phase = schedule.phase(kind, samples).map(|phase| &schedule.phases[phase]);
            phase.map(|phase| phase.lists_without_room(&entries))
        };
        let enough = |schedule: &&Arc<Schedule>| lacks(schedule).is_some_and(|lists| lists.is_empty());
        if let Some(there) = made.schedules.iter().find(enough) {
            return Ok(there.clone());
        }
        let newest = made.schedules.last().and_then(|schedule| lacks(schedule)).unwrap_or_default();
        for (lists, entries) in newest {
            made.settings.lists.raise(lists, entries);
        }
        let schedule = Arc::new(lower(self.graph, self.plan, &made.batches, &made.settings)?);
        made.schedules.push(schedule.clone());
        Ok(schedule)
    }
}

//! The attempt rule, as a function of lines.
//!
//! A restart does again what came after its checkpoint. So a header drops every step record at or beyond the step it
//! starts from and every epoch that ended later; all that stands before it in the file belongs to earlier attempts.

use crate::line::Line;
use crate::{EpochRecord, StepRecord};

/// What remains of a file's lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CurrentRecords {
    pub steps: Vec<StepRecord>,
    pub epochs: Vec<EpochRecord>,
    pub notes: Vec<String>,
    /// The last attempt; 0 without any header.
    pub attempt: u32,
    /// Each attempt with the step that it starts from.
    starts: Vec<(u32, u64)>,
}

impl CurrentRecords {
    /// Takes the next line of the file.
    pub(crate) fn take(&mut self, line: Line) {
        match line {
            Line::Steps(header) => {
                self.steps.retain(|record| record.step < header.start_step);
                // An epoch's step counts the steps done, so one that ends exactly at the start is complete.
                self.epochs.retain(|record| record.step <= header.start_step);
                self.attempt = header.attempt;
                self.starts.push((header.attempt, header.start_step));
            }
            Line::Step(record) => self.steps.push(record),
            Line::Epoch(record) => {
                self.epochs.retain(|earlier| earlier.epoch != record.epoch);
                self.epochs.push(record);
            }
            Line::Note { text } => self.notes.push(text),
            Line::Unknown => {}
        }
    }

    /// Takes the steps of another process, whose file may lack the later attempts: it was not part of them.
    pub(crate) fn join(&mut self, other: CurrentRecords) {
        let superseded =
            |r: &StepRecord| self.starts.iter().any(|&(attempt, start)| attempt > r.attempt && start <= r.step);
        let steps: Vec<_> = other.steps.into_iter().filter(|r| !superseded(r)).collect();
        self.steps.extend(steps);
        self.notes.extend(other.notes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;
    use proptest::prelude::*;

    fn header(attempt: u32, start_step: u64) -> Line {
        Line::Steps(Header { format: 1, attempt, start_step, started: 0 })
    }

    fn step(attempt: u32, step: u64) -> StepRecord {
        StepRecord {
            attempt,
            step,
            loss: 0.0,
            accuracy: Some(0.0),
            rate: 0.0,
            examples_per_s: 0.0,
            ..StepRecord::default()
        }
    }

    fn epoch(attempt: u32, epoch: u64, step: u64) -> Line {
        Line::Epoch(EpochRecord { attempt, epoch, step, ..EpochRecord::default() })
    }

    #[test]
    fn an_epoch_that_ends_where_the_restart_begins_stays() {
        let mut kept = CurrentRecords::default();
        for line in [header(1, 0), epoch(1, 1, 10), epoch(1, 2, 20), header(2, 10), epoch(2, 2, 20)] {
            kept.take(line);
        }
        let seen: Vec<_> = kept.epochs.iter().map(|e| (e.attempt, e.epoch)).collect();
        assert_eq!(seen, [(1, 1), (2, 2)]);
    }

    #[test]
    fn what_a_process_did_that_was_left_behind_is_superseded_by_the_others() {
        let (mut first, mut second) = (CurrentRecords::default(), CurrentRecords::default());
        for line in [header(1, 0), Line::Step(step(1, 5)), header(2, 4), Line::Step(step(2, 5))] {
            first.take(line);
        }
        for line in [header(1, 0), Line::Step(step(1, 3)), Line::Step(step(1, 5))] {
            second.take(line);
        }
        first.join(second);
        assert_eq!(first.steps, [step(2, 5), step(1, 3)]);
    }

    proptest! {
        /// A record stays if and only if no later attempt begins at or before its step; and then each step has one owner.
        #[test]
        fn the_last_attempt_owns_each_step(lengths in prop::collection::vec((0.0..=1.0f64, 0u64..30), 1..6)) {
            let mut attempts = Vec::new();
            let mut done = 0;
            for (i, (back, length)) in lengths.iter().enumerate() {
                // A restart begins at some checkpoint, so never beyond what was done.
                let start = if i == 0 { 0 } else { (done as f64 * back) as u64 };
                done = start + length;
                attempts.push((i as u32 + 1, start, done));
            }
            let mut kept = CurrentRecords::default();
            for &(attempt, start, end) in &attempts {
                kept.take(header(attempt, start));
                (start..end).for_each(|at| kept.take(Line::Step(step(attempt, at))));
            }
            let mut expected = Vec::new();
            for &(attempt, start, end) in &attempts {
                for at in start..end {
                    if !attempts.iter().any(|&(later, from, _)| later > attempt && from <= at) {
                        expected.push(step(attempt, at));
                    }
                }
            }
            prop_assert_eq!(&kept.steps, &expected);
            let numbers: Vec<u64> = kept.steps.iter().map(|r| r.step).collect();
            prop_assert_eq!(numbers, (0..done).collect::<Vec<_>>(), "no gap and no repetition");
        }
    }
}

//! The test at the end of a run: the best checkpoint on the test part, by one rank of each process.

use super::ranks::OneRun;
use crate::input;
use crate::local_data::Pool;
use crate::process_group::ProcessGroup;
use paceline_base::Result;
use paceline_comm::single;
use paceline_engine::checkpoint::{self, restore};
use paceline_engine::{CheckpointEvery, Rank, Scores, evaluate};
use paceline_kernels::DeviceOptions;
use paceline_plan::{Batches, Plan, Settings, lower};
use std::sync::Arc;

impl OneRun<'_> {
    /// Whether each process tests the best checkpoint on samples of its own.
    pub(super) fn tests_apart(&self) -> bool {
        let r = self.resolved;
        r.options.checkpoint != CheckpointEvery::Never
            && !r.data.validates_on_test
            && r.data.test_pool().is_some_and(|pool| pool.own)
    }

    /// Scores of the best checkpoint, which process 0 knows, on the test samples of all processes.
    pub(super) fn test_together(&self, group: &mut ProcessGroup, best: Option<u64>) -> Result<Option<Scores>> {
        let best = group.tell(&best)?;
        let scores = group.exchange(&self.test_best(best)?)?;
        Ok(scores.into_iter().collect::<Option<Vec<Scores>>>().map(|all| all.into_iter().sum()))
    }

    /// Scores of the best checkpoint on the test part that this process has.
    pub(super) fn test_best(&self, best: Option<u64>) -> Result<Option<Scores>> {
        let r = self.resolved;
        let tested = r.data.test_pool().is_some() && !r.data.validates_on_test;
        let (Some(test), Some(step), true) = (&r.data.set.test, best, tested) else {
            return Ok(None);
        };
        let path = self.dir.checkpoints().join(format!("step-{step}"));
        if !path.exists() {
            return Ok(None);
        }
        let checkpoint = checkpoint::load(&path)?;
        let (size, count) = (r.options.eval_batch, test.len());
        let evaluate_sizes = [size.min(count), count % size].into_iter().filter(|&n| n > 0).collect();
        let batches = Batches { train: Vec::new(), evaluate: evaluate_sizes };
        let device = DeviceOptions { tuning: Some(r.tuning.clone()), ..DeviceOptions::default() };
        let plan = Plan::data_parallel(1);
        let settings = Settings { lists: r.data.list_room(), ..Settings::new(r.schedule.rule, device.kind()) };
        let schedule = Arc::new(lower(&r.graph, &plan, &batches, &settings)?);
        let mut rank = Rank::new(device.make()?, single(), schedule)?;
        restore(&mut rank, &checkpoint, false)?;
        let pool = Pool { pass: count, own: false };
        let fed = input::evaluation(&r.config, test, pool, &r.options, &rank.schedule, &(0..1), 0..1)?;
        evaluate(&mut rank, fed.input()?, 0, &r.options, None).map(Some)
    }
}

//! What a run will need in memory, from the lowered schedule, before anything is allocated; and what follows from it: how
//! many samples are evaluated at once, and the refusal of a run that does not fit.

use crate::devices;
use crate::input::{self, RunData};
use crate::resolve::Layout;
use paceline_base::text::{bytes, counted};
use paceline_base::units::GlobalBatch;
use paceline_base::{Error, Result};
use paceline_config::{Auto, CacheName, Cadence, Config};
use paceline_data::DataPart;
use paceline_kernels::Tuning;
use paceline_plan::{Schedule, TaskKind};
use paceline_prepare::feed::cache;

/// Samples that make evaluating efficient.
const EVALUATED: usize = 500;
/// Evaluating may take this many bytes a rank even where training takes fewer: more steps would cost more than they save.
const SPARE: usize = 16 << 20;
const ELEMENT: u64 = 4;

/// What a run will need, in bytes, over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Parameters, gradients and the state of the optimizer.
    pub lasting: u64,
    /// Activations and what else lives for one step.
    pub step: u64,
    /// Batches that are made ready ahead, and decoded samples that are kept.
    pub input: u64,
    /// Copies of parameters and state on their way into a checkpoint.
    pub checkpoint: u64,
    /// What the devices' kernels need beside the buffers.
    pub working: u64,
}

impl Needs {
    /// Of a run under this layout.
    pub fn of(
        schedule: &Schedule,
        layout: &Layout,
        config: &Config,
        data: &RunData,
        tuning: Option<&Tuning>,
    ) -> Result<Self> {
        let arenas: usize = schedule.memory.iter().map(|memory| memory.arena.bytes).sum();
        let lasting = schedule.memory.iter().map(|memory| memory.lasting_bytes).sum::<usize>().min(arenas);
        let states = schedule.rule.states().len() as u64;
        let parameters: usize = schedule.buckets.iter().map(|bucket| bucket.len).sum();
        // One checkpoint is written while the next one may already wait.
        let copies = if config.checkpoint.every == Cadence::Never { 0 } else { 2 };
        Ok(Self {
            lasting: lasting as u64,
            step: (arenas - lasting) as u64,
            input: input_bytes(config, data, layout.batch) + list_bytes(schedule),
            checkpoint: copies * (1 + states) * parameters as u64 * ELEMENT,
            working: working_bytes(schedule, layout, tuning)?,
        })
    }

    /// The part of `here` ranks of all `ranks`: those of one host.
    #[must_use]
    pub fn of_ranks(&self, here: usize, ranks: usize) -> Self {
        let part = |bytes: u64| (u128::from(bytes) * here as u128 / ranks.max(1) as u128) as u64;
        Self {
            lasting: part(self.lasting),
            step: part(self.step),
            input: part(self.input),
            working: part(self.working),
            ..*self
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.lasting + self.step + self.input + self.checkpoint + self.working
    }

    /// An error if there is not so much; `free` is 0 where the system does not say.
    pub fn check(&self, free: u64, layout: &Layout) -> Result<()> {
        if free == 0 || self.total() <= free {
            return Ok(());
        }
        let (ranks, batch) = (layout.plan.ranks, layout.batch.samples());
        let parts = [
            (self.lasting, "parameters, gradients and optimizer state".to_string()),
            (self.step, format!("activations of {}", counted(batch, "sample"))),
            (self.input, "input".into()),
            (self.working, "the kernels' own work".into()),
            (self.checkpoint, "checkpoints on their way".into()),
        ];
        let list: Vec<String> = parts
            .iter()
            .filter(|(size, _)| *size > self.total() / 50)
            .map(|(size, what)| format!("{} for {what}", bytes(*size)))
            .collect();
        Err(Error::user(format!(
            "this run would need {} of memory on {} ({}), but {} are free; {}",
            bytes(self.total()),
            counted(ranks, "rank"),
            list.join(", "),
            bytes(free),
            self.advice(free, ranks, batch)
        )))
    }

    /// What would help most.
    fn advice(&self, free: u64, ranks: usize, batch: usize) -> String {
        let fixed = self.total() - self.step;
        let mut ways = Vec::new();
        if fixed < free && self.step > 0 {
            // Room for rounding: activations do not shrink to the byte.
            let fits = (batch as u128 * u128::from(free - fixed) * 9 / 10 / u128::from(self.step)) as usize;
            if fits > 0 {
                ways.push(format!("train.batch = {fits} would fit"));
            }
        }
        if ranks > 1 {
            ways.push("use fewer strategy.replicas".into());
        }
        if self.input > self.total() / 4 {
            ways.push("keep decoded samples elsewhere (data.cache = \"disk\" or \"none\")".into());
        }
        if self.checkpoint > self.total() / 4 {
            ways.push("do without checkpoints (checkpoint.every = \"never\")".into());
        }
        if ways.is_empty() || self.lasting > self.total() / 4 {
            ways.push("take a smaller model".into());
        }
        ways.push("or a machine with more memory".into());
        ways.join(", ")
    }
}

/// What the devices will need for these kernels.
fn working_bytes(schedule: &Schedule, layout: &Layout, tuning: Option<&Tuning>) -> Result<u64> {
    let device = devices::of_layout(layout, tuning);
    let mut total = 0;
    for rank in 0..schedule.ranks {
        let tasks = schedule.phases.iter().flat_map(|phase| phase.tasks()).filter(|(_, task)| task.rank == rank);
        total += device.working_bytes(&mut tasks.filter_map(|(_, task)| Some(&task.call()?.kernel)))? as u64;
    }
    Ok(total)
}

/// Host memory in which ranks put lists together, on their way to the device.
fn list_bytes(schedule: &Schedule) -> u64 {
    let mut most = vec![0; schedule.ranks];
    for (_, task) in schedule.phases.iter().flat_map(|phase| phase.tasks()) {
        if let TaskKind::LoadLists { width, .. } = &task.kind {
            most[task.rank] = most[task.rank].max((task.size * width.dtype().size()) as u64);
        }
    }
    most.iter().sum()
}

fn input_bytes(config: &Config, data: &RunData, batch: GlobalBatch) -> u64 {
    let sample = |part: &DataPart| part.shape().iter().product::<usize>() as u64;
    let mut total = 0;
    if let DataPart::Stream(_) = &data.training {
        total += input::rows_ahead(config, batch.samples()) as u64 * sample(&data.training);
    }
    if config.data.cache == CacheName::Memory {
        let parts = [Some(&data.set.train), data.set.validation.as_ref(), data.set.test.as_ref()];
        total += parts.into_iter().flatten().filter_map(input::source).map(|s| cache::decoded_bytes(&**s)).sum::<u64>();
    }
    total
}

/// How many samples are evaluated at once, with `room` bytes on the rank that needs most in training and `needed(n)` in an evaluation of n.
pub(crate) fn eval_batch(
    asked: Auto<usize>,
    batch: GlobalBatch,
    room: usize,
    mut needed: impl FnMut(usize) -> Result<usize>,
) -> Result<usize> {
    if let Auto::Is(n) = asked {
        return Ok(n);
    }
    let room = room.max(SPARE);
    let mut n = EVALUATED;
    while n > batch.samples() && needed(n)? > room {
        n = (n / 2).max(batch.samples());
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(ranks: usize) -> Layout {
        let plan = paceline_plan::Plan::data_parallel(ranks);
        Layout { plan, threads: 1, core: None, batch: GlobalBatch::new(64).unwrap() }
    }

    fn check(needs: Needs, free: u64, ranks: usize, expected: &str) {
        let got = needs.check(free, &layout(ranks)).map_or_else(|e| e.message().to_string(), |()| "fits".into());
        assert!(got.contains(expected), "wanted {expected:?}, got {got:?}");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_figure_and_a_way_out() {
        let needs = Needs { lasting: 4 << 30, step: 16 << 30, ..Needs::default() };
        check(needs, 20 << 30, 1, "fits");
        check(needs, 0, 1, "fits");
        check(needs, 12 << 30, 1, "would need 20.0 GiB of memory on 1 rank (");
        check(
            needs,
            12 << 30,
            1,
            "16.0 GiB for activations of 64 samples), but 12.0 GiB are free; train.batch = 28 would",
        );
        check(needs, 12 << 30, 2, "use fewer strategy.replicas");
        let model = Needs { lasting: 16 << 30, ..Needs::default() };
        check(model, 12 << 30, 1, "free; take a smaller model");
        let kept = Needs { input: 16 << 30, ..Needs::default() };
        check(kept, 12 << 30, 1, "data.cache");
    }

    #[test]
    fn evaluating_takes_no_more_memory_than_training() {
        let of = |asked, batch: usize, room: usize, each: usize| {
            eval_batch(asked, GlobalBatch::new(batch).unwrap(), room, |n| Ok(n * each)).unwrap()
        };
        assert_eq!(of(Auto::Is(7), 32, 0, 1 << 30), 7);
        assert_eq!(of(Auto::Auto, 32, 0, 784), 500, "a small model: the spare room is enough");
        assert_eq!(of(Auto::Auto, 32, 100 << 20, 1 << 20), 62);
        assert_eq!(of(Auto::Auto, 32, 10 << 20, 1 << 20), 32, "never below the training batch");
        assert_eq!(of(Auto::Auto, 600, 0, 1 << 30), 500);
    }
}

//! One rank: its device, its comm, its programs; executes one step at a time and says where the time went. What the schedule leaves to the
//! next step is done there, or by [`Rank::drain`].
//!
//! Nothing here allocates once the rank is made.

use crate::clock::{Clock, Doing};
use crate::load::{BatchRows, IndexScratch, load_numbers, slice};
use crate::metrics::Metrics;
use crate::program::{self, Groups, Instruction, Program};
use paceline_base::collective::Exchange;
use paceline_base::kernel::{BufferId, Call, StepArgs, Values};
use paceline_base::staging::Lend;
use paceline_base::{Error, Result, Staging, TimeSplit};
use paceline_comm::{Collective, Comm, GroupId, Ticket, host};
use paceline_data::{Samples, Supply};
use paceline_kernels::{Busy, Device, Event};
use paceline_plan::{BufferKey, Schedule, metrics};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The samples of a batch.
pub struct Batch<'a> {
    /// Where its rows are.
    pub rows: Rows<'a>,
    /// What an earlier batch announced it by, if one did.
    pub id: Option<u64>,
    /// The batch after this one, if it is known: its samples are fetched into the caches while this one is computed on.
    pub next: Option<Next<'a>>,
}

/// Where the rows of a batch are.
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    /// Decoded and in memory, read at random.
    Memory {
        /// All samples of the set, not only this batch's.
        samples: &'a dyn Samples,
        /// The sample at a row of this batch.
        at: &'a dyn Fn(usize) -> usize,
    },
    /// Made ready by others, ahead of time.
    Supply {
        /// Whoever decodes them; asked by position.
        supply: &'a dyn Supply,
        /// Position of the first row.
        start: u64,
        /// Position after the last row of the whole batch.
        end: u64,
    },
}

/// The batch after a batch that is in memory.
pub struct Next<'a> {
    /// Its phase in the schedule.
    pub phase: usize,
    /// What it will be known by.
    pub id: u64,
    /// The sample at a row of it.
    pub at: &'a dyn Fn(usize) -> usize,
}

impl<'a> Batch<'a> {
    /// A batch in memory, with nothing known of what follows.
    pub fn new(samples: &'a dyn Samples, at: &'a dyn Fn(usize) -> usize) -> Self {
        Self { rows: Rows::Memory { samples, at }, id: None, next: None }
    }

    /// A batch of a supply: `count` rows from position `start` on.
    pub fn supplied(supply: &'a dyn Supply, start: u64, count: usize) -> Self {
        Self { rows: Rows::Supply { supply, start, end: start + count as u64 }, id: None, next: None }
    }
}

/// A message that is due, but whose buffer the device has not yet lent.
struct Due {
    event: Event,
    half: usize,
    slot: usize,
    buffer: BufferId,
    message: Message,
}

#[derive(Clone, Copy)]
enum Message {
    Send { to: usize, seq: u64 },
    Receive { from: usize, seq: u64 },
    Start { what: Exchange, group: GroupId, seq: u64 },
}

impl Message {
    /// What it does with its buffer.
    fn lend(self) -> Lend {
        match self {
            Self::Send { .. } => Lend::Read,
            Self::Receive { .. } => Lend::Overwrite,
            Self::Start { .. } => Lend::Change,
        }
    }
}

/// A step that left something to the next one.
#[derive(Clone, Copy)]
struct EarlierStep {
    phase: usize,
    args: StepArgs,
    half: usize,
}

/// A rank that can execute the phases of a schedule.
pub struct Rank<D: Device, C: Comm> {
    /// Holds this rank's memory and runs its kernels.
    pub device: D,
    /// Connects it to the other ranks.
    pub comm: C,
    /// What is executed.
    pub schedule: Arc<Schedule>,
    groups: Groups,
    programs: Arc<[Program]>,
    /// Two halves, because operations of two steps may be under way.
    pending: [Vec<Option<(Ticket, BufferId)>>; 2],
    /// How many are under way.
    open: usize,
    /// What waits for the device, in the order in which it is issued.
    due: VecDeque<Due>,
    /// The step before, and which of what it left over is done.
    earlier: Option<EarlierStep>,
    finished: Vec<bool>,
    last: Event,
    rows: Vec<usize>,
    /// The rows of the batch that was announced as the next one, if any.
    ahead: Vec<usize>,
    announced: Option<u64>,
    scratch: IndexScratch,
    sequence: u64,
    /// All ranks, if there are several.
    everyone: Option<GroupId>,
    /// What control messages travel in.
    words: Option<Staging>,
    /// The rank's buffer of metrics, and zeros for it.
    metrics: (BufferId, Metrics),
    /// When the last step's metrics can be read, until they are.
    reading: Option<Event>,
    /// The metrics of steps that nobody has taken, oldest first.
    read: VecDeque<Metrics>,
    times: TimeSplit,
    waited: Duration,
    busy: Busy,
}

impl<D: Device, C: Comm> Rank<D, C> {
    /// Plans the rank's memory and programs.
    pub fn new(mut device: D, comm: C, schedule: Arc<Schedule>) -> Result<Self> {
        let rank = comm.rank();
        if comm.size() != schedule.ranks {
            return Err(Error::internal(format!("a schedule of {} ranks on {} ranks", schedule.ranks, comm.size())));
        }
        let (planned, dtype) = (schedule.dtypes[rank], device.dtype());
        if planned != dtype {
            return Err(Error::internal(format!("rank {rank} was planned for {planned:?} and computes in {dtype:?}")));
        }
        device.allocate(&schedule.memory[rank].arena)?;
        let counts = schedule.memory[rank].lasting_id(metrics(rank));
        let counts = counts.ok_or_else(|| Error::internal(format!("rank {rank} has no metrics")))?;
        let metrics = (counts, Metrics::new(schedule.metrics.clone())?);
        let mut rank = Self {
            device,
            comm,
            schedule,
            groups: Groups::new(),
            programs: Arc::new([]),
            pending: Default::default(),
            open: 0,
            due: VecDeque::new(),
            earlier: None,
            finished: Vec::new(),
            last: Event(0),
            rows: Vec::new(),
            ahead: Vec::new(),
            announced: None,
            scratch: IndexScratch::default(),
            sequence: 0,
            everyone: None,
            words: None,
            metrics,
            reading: None,
            read: VecDeque::with_capacity(2),
            times: TimeSplit::default(),
            waited: Duration::ZERO,
            busy: Busy::default(),
        };
        rank.make_programs()?;
        Ok(rank)
    }

    /// Takes a schedule with further kinds of steps in the place of its own, between two steps; parameters stay as they are. Every rank must do
    /// so at the same step.
    pub fn extend(&mut self, schedule: Arc<Schedule>) -> Result<()> {
        self.drain()?;
        if let Some(event) = self.reading {
            self.read_metrics(event)?;
        }
        let rank = self.number();
        let (now, then) = (&self.schedule.memory[rank], &schedule.memory[rank]);
        if !now.lasting().eq(then.lasting()) {
            return Err(Error::internal(format!(
                "what lasts on rank {rank} would lie elsewhere under the other schedule"
            )));
        }
        let kept = then.lasting().map(|(_, _, slot)| slot.at + slot.bytes_of(slot.len)).max().unwrap_or(0);
        self.device.reallocate(&then.arena, kept)?;
        self.schedule = schedule;
        self.make_programs()
    }

    /// Makes the programs of the schedule, and room for what they need.
    fn make_programs(&mut self) -> Result<()> {
        let (schedule, number) = (&self.schedule, self.comm.rank());
        program::groups(schedule, &mut self.comm, &mut self.groups)?;
        self.everyone = self.groups.get(&(0..schedule.ranks).collect::<Vec<_>>()).copied();
        let retires = self.device.wants_retired();
        let programs = (0..schedule.phases.len()).map(|p| program::program(schedule, p, number, &self.groups, retires));
        let programs: Arc<[Program]> = programs.collect::<Result<_>>()?;
        self.device.prepare(&mut programs.iter().flat_map(Program::all).filter_map(Instruction::kernel))?;
        let most = |of: fn(&Program) -> usize| programs.iter().map(of).max().unwrap_or(0);
        let (slots, rows) = (most(|p| p.slots), most(|p| p.rows.len()));
        self.pending = [vec![None; slots], vec![None; slots]];
        self.finished = vec![true; most(|p| p.left_over.len())];
        self.due.reserve(2 * slots);
        for list in [&mut self.rows, &mut self.ahead] {
            list.reserve(rows.saturating_sub(list.len()));
        }
        self.scratch.reserve(most(|p| p.scratch.0), most(|p| p.scratch.1));
        self.programs = programs;
        Ok(())
    }

    /// This rank's number.
    pub fn number(&self) -> usize {
        self.comm.rank()
    }

    /// Samples that this rank handles in a phase (its share of the loss).
    pub fn share(&self, phase: usize) -> usize {
        self.programs[phase].samples
    }

    /// Starts to add these words up over all ranks, which must all do so; none if there is only one rank. Allocates only the first time.
    pub(crate) fn start_words<const N: usize>(&mut self, words: &[f64; N]) -> Result<Option<Ticket>> {
        let Some(group) = self.everyone else { return Ok(None) };
        // Messages go out in one order on all ranks.
        self.issue_all(&mut Clock::start(Doing::Comm))?;
        let mut staging = self.words.take().filter(|s| s.len() == N).unwrap_or_else(|| host::stage(words));
        host::values_mut::<f64>(&mut staging).copy_from_slice(words);
        let seq = self.take_sequence(1);
        self.comm.start(Collective::AllReduce.into(), group, seq, staging).map(Some)
    }

    /// The words, added up.
    pub(crate) fn wait_words<const N: usize>(&mut self, ticket: Ticket) -> Result<[f64; N]> {
        let staging = self.comm.wait(ticket)?;
        let mut words = [0.0; N];
        words.copy_from_slice(host::values::<f64>(&staging));
        self.words = Some(staging);
        Ok(words)
    }

    /// The metrics of the oldest step whose metrics nobody has taken, if the device has come to its end. Never waits.
    pub fn poll_metrics(&mut self) -> Result<Option<Metrics>> {
        if let Some(event) = self.reading
            && self.device.has_fired(event)?
        {
            self.read_metrics(event)?;
        }
        Ok(self.read.pop_front())
    }

    /// The metrics of the oldest step whose metrics nobody has taken; waits for the device. None if all were taken.
    pub fn wait_metrics(&mut self) -> Result<Option<Metrics>> {
        if self.read.is_empty()
            && let Some(event) = self.reading
        {
            self.read_metrics(event)?;
        }
        Ok(self.read.pop_front())
    }

    fn read_metrics(&mut self, event: Event) -> Result<()> {
        self.device.wait(event)?;
        let staging = self.device.take_packed(event)?;
        self.read.push_back(self.metrics.1.with_sums(&staging));
        self.reading = None;
        self.device.unpack(self.metrics.0, staging)
    }

    /// Takes the next `count` sequence numbers, as every rank must do alike.
    pub(crate) fn take_sequence(&mut self, count: u64) -> u64 {
        self.sequence += count;
        self.sequence - count
    }

    /// Where the time went since the last call.
    pub fn take_times(&mut self) -> TimeSplit {
        std::mem::take(&mut self.times)
    }

    /// Executes one step and waits for its metrics. Those of all earlier steps must have been taken.
    pub fn step_now(&mut self, phase: usize, batch: &Batch<'_>, args: &StepArgs) -> Result<Metrics> {
        self.step(phase, batch, args)?;
        self.wait_metrics()?.ok_or_else(|| Error::internal("a step without metrics"))
    }

    /// Executes one step. The device may still be at it when this returns: its metrics are taken by [`poll_metrics`](Self::poll_metrics) or
    /// [`wait_metrics`](Self::wait_metrics), in the order of the steps.
    pub fn step(&mut self, phase: usize, batch: &Batch<'_>, args: &StepArgs) -> Result<()> {
        let programs = self.programs.clone();
        let program = &programs[phase];
        let base = self.sequence;
        self.sequence += program.sequence;
        let first = program.rows.start;
        let mut clock = Clock::start(Doing::Input);
        match batch.rows {
            Rows::Supply { supply, start, .. } => {
                let position = |row: usize| start + row as u64;
                supply.wait(self.comm.rank(), position(program.rows.start)..position(program.rows.end))?;
            }
            Rows::Memory { .. } if self.announced.is_some() && self.announced == batch.id => {
                std::mem::swap(&mut self.rows, &mut self.ahead);
            }
            Rows::Memory { at, .. } => {
                self.rows.clear();
                self.rows.extend(program.rows.clone().map(at));
            }
        }
        self.announced = None;
        let mut next = batch.next.as_ref();
        let half = self.earlier.map_or(0, |earlier| 1 - earlier.half);
        for (number, instruction) in program.instructions.iter().enumerate() {
            clock.turn_to(Doing::of(instruction), &mut self.device);
            match instruction {
                Instruction::ClearMetrics => {
                    if let Some(event) = self.reading {
                        clock.turn_to(Doing::Device, &mut self.device);
                        self.read_metrics(event)?;
                    }
                    let (buffer, zeros) = &self.metrics;
                    self.device.load(*buffer, 0, Values::F64(zeros.sums()))?;
                }
                Instruction::Load { buffer, rows, walk, len } => {
                    let source = BatchRows { rows: batch.rows, samples: &self.rows, first };
                    load_numbers(&mut self.device, *buffer, (source, rows.clone()), (walk, *len))?;
                }
                Instruction::Lists { buffer, rows, entries, width } => {
                    let source = BatchRows { rows: batch.rows, samples: &self.rows, first };
                    self.scratch.lists(&mut self.device, *buffer, (source, rows.clone()), (*entries, *width))?;
                }
                Instruction::Targets { buffer, rows, kind } => {
                    let source = BatchRows { rows: batch.rows, samples: &self.rows, first };
                    self.scratch.targets(&mut self.device, *buffer, (source, rows.clone()), *kind)?;
                }
                Instruction::Run(call) | Instruction::Update(call) => {
                    if let (Some(next), Rows::Memory { samples, .. }) = (next.take(), batch.rows) {
                        self.ahead.clear();
                        self.ahead.extend(programs[next.phase].rows.clone().map(next.at));
                        for &sample in &self.ahead {
                            let features = samples.features(sample);
                            self.device.prefetch(slice(&features, 0, features.len()));
                        }
                        self.announced = Some(next.id);
                    }
                    self.submit(call, args)?;
                }
                Instruction::Send { to, seq, buffer, slot } => {
                    self.start(half, *slot, *buffer, Message::Send { to: *to, seq: base + seq })?;
                }
                Instruction::Receive { from, seq, buffer, slot } => {
                    self.start(half, *slot, *buffer, Message::Receive { from: *from, seq: base + seq })?;
                }
                Instruction::Start { what, group, seq, buffer, slot } => {
                    let message = Message::Start { what: *what, group: *group, seq: base + seq };
                    self.start(half, *slot, *buffer, message)?;
                }
                Instruction::Wait { slot } => self.wait(half, *slot, &mut clock)?,
                Instruction::Retire(buffer) => self.device.retire(*buffer)?,
                Instruction::Finish { bucket } => self.finish(&programs, Some(*bucket), &mut clock)?,
            }
            if let (true, Rows::Supply { supply, end, .. }) = (number == program.loaded, batch.rows) {
                supply.release(self.comm.rank(), end);
            }
        }
        self.earlier = (!program.left_over.is_empty()).then_some(EarlierStep { phase, args: *args, half });
        self.finished[..program.left_over.len()].fill(false);
        self.reading = Some(self.device.pack(self.metrics.0, Lend::Read)?);
        self.count(clock);
        Ok(())
    }

    /// Does what the last step left to the next one. Before it parameters are not what they should be after that step: evaluation,
    /// checkpoints and the end of training begin with it.
    pub fn drain(&mut self) -> Result<()> {
        let programs = self.programs.clone();
        let mut clock = Clock::start(Doing::Comm);
        self.finish(&programs, None, &mut clock)?;
        self.earlier = None;
        self.issue_all(&mut clock)?;
        clock.turn_to(Doing::Device, &mut self.device);
        self.device.wait(self.last)?;
        self.count(clock);
        Ok(())
    }

    /// Does what the step before left over, of one bucket or of all.
    fn finish(&mut self, programs: &[Program], bucket: Option<usize>, clock: &mut Clock) -> Result<()> {
        let Some(earlier) = self.earlier else { return Ok(()) };
        for (number, (of, instructions)) in programs[earlier.phase].left_over.iter().enumerate() {
            if bucket.is_some_and(|bucket| bucket != *of) || std::mem::replace(&mut self.finished[number], true) {
                continue;
            }
            for instruction in instructions {
                clock.turn_to(Doing::of(instruction), &mut self.device);
                match instruction {
                    Instruction::Wait { slot } => self.wait(earlier.half, *slot, clock)?,
                    Instruction::Update(call) => self.submit(call, &earlier.args)?,
                    other => return Err(Error::internal(format!("{other:?} cannot be left to the next step"))),
                }
            }
        }
        Ok(())
    }

    /// The number by which the device knows a buffer that lives for the whole run.
    pub fn lasting(&self, key: BufferKey) -> Result<BufferId> {
        let missing = || Error::internal(format!("rank {} has no buffer {key:?}", self.number()));
        self.schedule.memory[self.number()].lasting_id(key).ok_or_else(missing)
    }

    fn submit(&mut self, call: &Call, args: &StepArgs) -> Result<()> {
        // Before the kernel, which may take long.
        self.issue_ready()?;
        if self.open > 0 {
            self.comm.progress()?;
        }
        self.last = self.device.submit(call, args)?;
        Ok(())
    }

    /// Asks the device for a message's buffer, and issues what can be issued.
    fn start(&mut self, half: usize, slot: usize, buffer: BufferId, message: Message) -> Result<()> {
        let event = self.device.pack(buffer, message.lend())?;
        self.due.push_back(Due { event, half, slot, buffer, message });
        self.issue_ready()
    }

    /// Issues the messages whose buffers are there, up to the first whose is not: all ranks issue in one order.
    fn issue_ready(&mut self) -> Result<()> {
        while let Some(due) = self.due.front()
            && self.device.has_fired(due.event)?
        {
            self.issue()?;
        }
        Ok(())
    }

    /// Issues the next message, which waits for the device if it must.
    fn issue_next(&mut self, clock: &mut Clock) -> Result<()> {
        if let Some(event) = self.due.front().map(|due| due.event)
            && !self.device.has_fired(event)?
        {
            clock.turn_to(Doing::Device, &mut self.device);
            self.device.wait(event)?;
            clock.turn_to(Doing::Comm, &mut self.device);
        }
        self.issue()
    }

    /// Issues all messages that are due, and waits for the device as long as it must.
    fn issue_all(&mut self, clock: &mut Clock) -> Result<()> {
        while !self.due.is_empty() {
            self.issue_next(clock)?;
        }
        Ok(())
    }

    fn issue(&mut self) -> Result<()> {
        let Some(Due { event, half, slot, buffer, message }) = self.due.pop_front() else { return Ok(()) };
        let staging = self.device.take_packed(event)?;
        let ticket = match message {
            Message::Send { to, seq } => self.comm.send(to, seq, staging)?,
            Message::Receive { from, seq } => self.comm.receive(from, seq, staging)?,
            Message::Start { what, group, seq } => self.comm.start(what, group, seq, staging)?,
        };
        self.pending[half][slot] = Some((ticket, buffer));
        self.open += 1;
        Ok(())
    }

    /// Waits for a message, which is issued before, with all that come before it.
    fn wait(&mut self, half: usize, slot: usize, clock: &mut Clock) -> Result<()> {
        while self.due.iter().any(|due| (due.half, due.slot) == (half, slot)) {
            self.issue_next(clock)?;
        }
        if let Some((ticket, buffer)) = self.pending[half][slot].take() {
            let staging = self.comm.wait(ticket)?;
            self.device.unpack(buffer, staging)?;
            self.open -= 1;
        }
        Ok(())
    }

    /// Adds to where the time went: what this thread did by the clock, and what the device did by its own account.
    fn count(&mut self, mut clock: Clock) {
        let now = Instant::now();
        clock.split[clock.doing as usize] += now - clock.since;
        self.device.turn_to(None, now);
        let split = clock.split;
        let waited = self.comm.counters().waiting;
        let waiting = (waited - self.waited).min(split[Doing::Comm as usize]);
        self.waited = waited;
        self.times.input += split[Doing::Input as usize].as_secs_f64();
        let busy = self.device.busy();
        self.times.compute += (busy.compute - self.busy.compute).as_secs_f64();
        self.times.update += (busy.update - self.busy.update).as_secs_f64();
        self.busy = busy;
        self.times.wait += waiting.as_secs_f64();
        self.times.transfer += (split[Doing::Comm as usize] - waiting).as_secs_f64();
    }
}

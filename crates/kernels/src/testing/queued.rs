//! A device that does its work later, on a thread of its own, with memory that nobody else sees: as a device beside the processor would.

use super::{content, copy};
use crate::contract::{self, check_arena};
use crate::device::{Busy, Device, Event, Put, Work};
use crate::loans::Loans;
use paceline_base::kernel::{Arena, BufferId, Call, Fusion, Kernel, Slot, StepArgs, Values};
use paceline_base::staging::Lend;
use paceline_base::units::DType;
use paceline_base::{Error, Result, Staging};
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Work on the inner device.
type Command<D> = Box<dyn FnOnce(&mut D) -> Result<()> + Send>;

/// What both threads see.
struct State<D> {
    /// Not yet begun, oldest first.
    queue: VecDeque<Command<D>>,
    /// Commands that were given in all; the number of the last.
    given: u64,
    /// How many of them may be done …
    due: u64,
    /// … and how many are.
    done: u64,
    failed: Option<Error>,
    stopped: bool,
    /// Copies of what was lent, by event.
    packed: HashMap<u64, Staging>,
    busy: Busy,
}

struct Shared<D> {
    state: Mutex<State<D>>,
    changed: Condvar,
}

impl<D> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wraps a device. A command is begun when `lag` others were given after it, or when somebody waits for it: so nothing is done in time by
/// chance. A failure or a panic of queued work is the error of every call that follows.
pub struct Queued<D> {
    shared: Arc<Shared<D>>,
    thread: Option<JoinHandle<()>>,
    lag: u64,
    about: (String, DType, Vec<Fusion>),
    bytes: (usize, usize),
    slots: Vec<Slot>,
    loans: Loans,
    work: Work,
}

impl<D: Device + 'static> Queued<D> {
    /// Gives a device a thread of its own.
    pub fn new(inner: D, lag: u64) -> Self {
        let about = (format!("queued {}", inner.describe()), inner.dtype(), inner.fusions().to_vec());
        let state = State {
            queue: VecDeque::new(),
            given: 0,
            due: 0,
            done: 0,
            failed: None,
            stopped: false,
            packed: HashMap::new(),
            busy: Busy::default(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let theirs = shared.clone();
        let thread = std::thread::spawn(move || work_off(inner, &theirs));
        Self {
            shared,
            thread: Some(thread),
            lag,
            about,
            bytes: (0, 0),
            slots: Vec::new(),
            loans: Loans::default(),
            work: Work::Compute,
        }
    }

    /// Queues a command, which gets its event.
    fn give(&mut self, command: impl FnOnce(Event) -> Command<D>) -> Result<Event> {
        let mut state = self.shared.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        state.given += 1;
        let event = Event(state.given);
        state.queue.push_back(command(event));
        state.due = state.due.max(state.given.saturating_sub(self.lag));
        self.shared.changed.notify_all();
        Ok(event)
    }

    /// Queues a command and returns what it found, when it is done.
    fn ask<T: Send + 'static>(&mut self, question: impl FnOnce(&mut D) -> Result<T> + Send + 'static) -> Result<T> {
        let (tell, answer) = std::sync::mpsc::channel();
        let event = self.give(|_| {
            Box::new(move |device| {
                let _ = tell.send(question(device)?);
                Ok(())
            })
        })?;
        self.wait(event)?;
        answer.recv().map_err(|_| Error::internal("queued work gave no answer"))
    }
}

/// The thread: one command after another.
fn work_off<D: Device>(mut device: D, shared: &Shared<D>) {
    loop {
        let command = {
            let mut state = shared.lock();
            loop {
                if state.stopped {
                    return;
                }
                if state.done < state.due
                    && let Some(command) = state.queue.pop_front()
                {
                    break command;
                }
                state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let done = catch_unwind(AssertUnwindSafe(|| command(&mut device)));
        let mut state = shared.lock();
        state.done += 1;
        let error = match done {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(panic) => Some(Error::internal(format!("queued work panicked: {}", words(&*panic)))),
        };
        if let Some(error) = error {
            state.failed = Some(error);
            state.queue.clear();
        }
        shared.changed.notify_all();
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(panic.downcast_ref::<&str>().copied())
        .unwrap_or("without words")
}

impl<D> Drop for Queued<D> {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Values of their own, to be loaded later.
enum Kept {
    U8(Vec<u8>, f32, f32),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bytes(Vec<u8>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl Kept {
    fn new(values: Values<'_>) -> Self {
        match values {
            Values::U8 { bytes, scale, offset } => Self::U8(bytes.to_vec(), scale, offset),
            Values::F32(v) => Self::F32(v.to_vec()),
            Values::F64(v) => Self::F64(v.to_vec()),
            Values::Bytes(v) => Self::Bytes(v.to_vec()),
            Values::U32(v) => Self::U32(v.to_vec()),
            Values::U64(v) => Self::U64(v.to_vec()),
        }
    }

    fn values(&self) -> Values<'_> {
        match self {
            Self::U8(bytes, scale, offset) => Values::U8 { bytes, scale: *scale, offset: *offset },
            Self::F32(v) => Values::F32(v),
            Self::F64(v) => Values::F64(v),
            Self::Bytes(v) => Values::Bytes(v),
            Self::U32(v) => Values::U32(v),
            Self::U64(v) => Values::U64(v),
        }
    }
}

impl<D: Device + 'static> Device for Queued<D> {
    fn describe(&self) -> String {
        self.about.0.clone()
    }

    fn dtype(&self) -> DType {
        self.about.1
    }

    fn fusions(&self) -> &[Fusion] {
        &self.about.2
    }

    fn allocate(&mut self, arena: &Arena) -> Result<()> {
        check_arena(arena, self.about.1)?;
        self.slots = arena.slots.clone();
        let arena = arena.clone();
        self.bytes.0 = self.ask(move |device| {
            device.allocate(&arena)?;
            Ok(device.allocated_bytes())
        })?;
        Ok(())
    }

    fn reallocate(&mut self, arena: &Arena, kept: usize) -> Result<()> {
        check_arena(arena, self.about.1)?;
        self.loans.check_none()?;
        self.slots = arena.slots.clone();
        let arena = arena.clone();
        self.bytes.0 = self.ask(move |device| {
            device.reallocate(&arena, kept)?;
            Ok(device.allocated_bytes())
        })?;
        Ok(())
    }

    fn allocated_bytes(&self) -> usize {
        self.bytes.0
    }

    fn prepare(&mut self, kernels: &mut dyn Iterator<Item = &Kernel>) -> Result<()> {
        let kernels: Vec<Kernel> = kernels.cloned().collect();
        self.bytes.1 = self.ask(move |device| {
            device.prepare(&mut kernels.iter())?;
            Ok(device.working_bytes())
        })?;
        Ok(())
    }

    fn working_bytes(&self) -> usize {
        self.bytes.1
    }

    fn submit(&mut self, call: &Call, args: &StepArgs) -> Result<Event> {
        contract::check(call, &self.slots, &self.loans);
        let (call, args, work, shared) = (call.clone(), *args, self.work, self.shared.clone());
        self.give(|_| {
            Box::new(move |device| {
                let begin = Instant::now();
                let event = device.submit(&call, &args)?;
                device.wait(event)?;
                shared.lock().busy.add(work, begin.elapsed());
                Ok(())
            })
        })
    }

    fn has_fired(&mut self, event: Event) -> Result<bool> {
        let state = self.shared.lock();
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(state.done >= event.0),
        }
    }

    fn wait(&mut self, event: Event) -> Result<()> {
        let mut state = self.shared.lock();
        if event.0 > state.given {
            return Err(Error::internal(format!("{event:?} will never come: only {} were given", state.given)));
        }
        state.due = state.due.max(event.0);
        self.shared.changed.notify_all();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.done >= event.0 {
                return Ok(());
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn load_all(&mut self, buffer: BufferId, fill: &mut dyn FnMut(&mut Put<'_>)) -> Result<()> {
        self.loans.check("a load", buffer, self.slots[buffer.0 as usize], true);
        let mut kept = Vec::new();
        fill(&mut |at, values| kept.push((at, Kept::new(values))));
        let load = move |device: &mut D| {
            device.load_all(buffer, &mut |put| kept.iter().for_each(|(at, values)| put(*at, values.values())))
        };
        self.give(|_| Box::new(load)).map(drop)
    }

    fn read(&mut self, buffer: BufferId, out: &mut [f64]) -> Result<()> {
        self.loans.check("a read", buffer, self.slots[buffer.0 as usize], false);
        let mut values = vec![0.0; out.len()];
        let values = self.ask(move |device| device.read(buffer, &mut values).map(|()| values))?;
        out.copy_from_slice(&values);
        Ok(())
    }

    fn pack(&mut self, buffer: BufferId, lend: Lend) -> Result<Event> {
        let shared = self.shared.clone();
        let event = self.give(|event| {
            Box::new(move |device| {
                let staging = device.pack_now(buffer, lend)?;
                let copy = copy(&staging, lend);
                device.unpack(buffer, staging)?;
                shared.lock().packed.insert(event.0, copy);
                Ok(())
            })
        })?;
        self.loans.lend(buffer, self.slots[buffer.0 as usize], lend, event);
        Ok(event)
    }

    fn take_packed(&mut self, event: Event) -> Result<Staging> {
        if !self.has_fired(event)? {
            return Err(Error::internal(format!("{event:?} has not fired: what it lends cannot be taken yet")));
        }
        self.loans.take(event)?;
        let packed = self.shared.lock().packed.remove(&event.0);
        packed.ok_or_else(|| Error::internal(format!("{event:?} lends nothing")))
    }

    fn unpack(&mut self, buffer: BufferId, staging: Staging) -> Result<()> {
        let loan = self.loans.give_back(buffer, staging.is_writable());
        if !loan.lend.writes() {
            return Ok(());
        }
        self.give(|_| Box::new(move |device| device.load(buffer, 0, content(&staging)))).map(drop)
    }

    fn turn_to(&mut self, work: Option<Work>, _now: Instant) {
        self.work = work.unwrap_or(self.work);
    }

    fn busy(&self) -> Busy {
        self.shared.lock().busy
    }
}

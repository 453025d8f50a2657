//! Control messages: what rank 0 wishes for all ranks and what any of them has found, and after which step it takes effect.
//!
//! They are messages of their own, not part of a step: ranks talk during the steps that the message before named, rarely enough to
//! cost nothing and often enough that nobody waits for a stop. A message is under way while its step is computed; between two of them a
//! rank asks nobody.

use crate::rank::Rank;
use paceline_base::Result;
use paceline_comm::{Comm, Ticket};
use paceline_kernels::Device;
use std::time::Instant;

/// What rank 0 wishes for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// End after this step, with a checkpoint.
    pub stop: bool,
    /// Write a checkpoint after this step.
    pub checkpoint: bool,
}

/// What all ranks do after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// End, with a checkpoint.
    pub stop: bool,
    /// Write a checkpoint.
    pub checkpoint: bool,
    /// Give up: on some rank the loss of a step was not finite.
    pub not_finite: bool,
}

/// Seconds between messages, as far as steps allow.
const PAUSE: f64 = 0.02;
/// Steps between messages at most: a guess from steps that were quick must not bind for long.
const MOST: f64 = 256.0;
/// Stop, checkpoint, not finite, steps until the next message.
type Words = [f64; 4];

/// When the ranks talk. Every rank has one, and asks it before and after every step.
pub struct Agreement {
    /// During this step.
    next: u64,
    /// The last message: during which step, and when.
    last: (u64, Instant),
    /// What this rank said during the step that is under way, if it said anything; with a ticket if others did too.
    said: Option<(u64, Words, Option<Ticket>)>,
}

impl Agreement {
    /// The first message is due during this step.
    pub fn new(step: u64) -> Self {
        Self { next: step, last: (step, Instant::now()), said: None }
    }

    /// Says what there is to say, if a message is due. `wish` is asked on rank 0, and only then; `not_finite` counts on every rank.
    pub fn before_step<D: Device, C: Comm>(
        &mut self,
        rank: &mut Rank<D, C>,
        step: u64,
        not_finite: bool,
        wish: impl FnOnce() -> Control,
    ) -> Result<()> {
        if step < self.next {
            return Ok(());
        }
        let flag = |said: bool| f64::from(u8::from(said));
        let mut words = [0.0, 0.0, flag(not_finite), 0.0];
        if rank.number() == 0 {
            let Control { stop, checkpoint } = wish();
            words = [flag(stop), flag(checkpoint), flag(not_finite), self.pause(step)];
        }
        let ticket = rank.start_words(&words)?;
        self.said = Some((step, words, ticket));
        Ok(())
    }

    /// What all ranks do now that the step is done; nothing unless a message was due.
    pub fn after_step<D: Device, C: Comm>(&mut self, rank: &mut Rank<D, C>) -> Result<Agreed> {
        let Some((step, own, ticket)) = self.said.take() else { return Ok(Agreed::default()) };
        let [stop, checkpoint, not_finite, pause] = match ticket {
            Some(ticket) => rank.wait_words(ticket)?,
            None => own,
        };
        self.next = step + pause as u64;
        Ok(Agreed { stop: stop > 0.0, checkpoint: checkpoint > 0.0, not_finite: not_finite > 0.0 })
    }

    /// Steps until the next message.
    fn pause(&mut self, step: u64) -> f64 {
        let (steps, seconds) = (step - self.last.0, self.last.1.elapsed().as_secs_f64());
        self.last = (step, Instant::now());
        if steps == 0 { 1.0 } else { (PAUSE * steps as f64 / seconds.max(1e-9)).floor().clamp(1.0, MOST) }
    }
}

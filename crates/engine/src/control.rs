//! Control messages: what rank 0 wishes for all ranks, and after which step it takes effect.
//!
//! They are messages of their own, not part of a step: ranks talk before the steps that the message before named, rarely enough to
//! cost nothing and often enough that nobody waits for a stop. Between them a rank asks nobody.

use crate::rank::Rank;
use paceline_base::Result;
use paceline_comm::Comm;
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

/// Seconds between messages, as far as steps allow.
const PAUSE: f64 = 0.02;
/// Steps between messages at most: a guess from steps that were quick must not bind for long.
const MOST: f64 = 256.0;

/// When the ranks talk. Every rank has one, and asks it before every step.
pub struct Agreement {
    /// Before this step.
    next: u64,
    /// The last message: before which step, and when.
    last: (u64, Instant),
}

impl Agreement {
    /// The first message is due before this step.
    pub fn new(step: u64) -> Self {
        Self { next: step, last: (step, Instant::now()) }
    }

    /// What all ranks do after this step. `wish` is asked on rank 0, and only when a message is due.
    pub fn before_step<D: Device, C: Comm>(
        &mut self,
        rank: &mut Rank<D, C>,
        step: u64,
        wish: impl FnOnce() -> Control,
    ) -> Result<Control> {
        if step < self.next {
            return Ok(Control::default());
        }
        let mut words = [0.0; 3];
        if rank.number() == 0 {
            let Control { stop, checkpoint } = wish();
            words = [f64::from(u8::from(stop)), f64::from(u8::from(checkpoint)), self.pause(step)];
        }
        rank.add_up(&mut words)?;
        let [stop, checkpoint, pause] = words;
        self.next = step + pause as u64;
        Ok(Control { stop: stop > 0.0, checkpoint: checkpoint > 0.0 })
    }

    /// Steps until the next message.
    fn pause(&mut self, step: u64) -> f64 {
        let (steps, seconds) = (step - self.last.0, self.last.1.elapsed().as_secs_f64());
        self.last = (step, Instant::now());
        if steps == 0 { 1.0 } else { (PAUSE * steps as f64 / seconds.max(1e-9)).floor().clamp(1.0, MOST) }
    }
}

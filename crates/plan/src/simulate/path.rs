//! The critical path: which events a step's length is made of, each begun when the one before it ended.

use std::fmt;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// What the loop does between steps.
    Step,
    /// Samples are brought to the device.
    Input,
    /// A kernel of the forward or backward pass, by its name.
    Compute(&'static str),
    /// The optimiser's update.
    Update,
    /// Numbers pass between ranks: which operation.
    Communicate(&'static str),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            What::Step => "the loop between steps",
            What::Input => "loading samples",
            What::Compute(name) | What::Communicate(name) => name,
            What::Update => "updates",
        })
    }
}

/// All of one kind on the critical path, of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Whose it is; of a message, that of the rank that came last to it.
    pub rank: usize,
    /// What is done.
    pub what: What,
    /// Seconds of the step.
    pub seconds: f64,
}

/// Something that took time, and what it had to wait for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub rank: usize,
    pub what: What,
    pub begin: f64,
    pub end: f64,
    /// The event whose end let it begin; none at the beginning of time.
    pub after: Option<usize>,
}

/// What the time from `from` to the end of the event `last` was spent on, longest first.
pub(super) fn critical(events: &[Event], last: Option<usize>, from: f64) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut at = last;
    while let Some(event) = at.map(|at| &events[at]).filter(|event| event.end > from) {
        let seconds = event.end - event.begin.max(from);
        match found.iter_mut().find(|s| (s.rank, s.what) == (event.rank, event.what)) {
            Some(stretch) => stretch.seconds += seconds,
            None => found.push(Stretch { rank: event.rank, what: event.what, seconds }),
        }
        at = event.after;
    }
    found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    found
}

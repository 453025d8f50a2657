//! What the time of a rank's thread goes into.

use crate::program::Instruction;
use paceline_kernels::{Device, Work};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Input,
    Compute,
    Comm,
    Update,
    /// Nothing but waiting for the device, which tells itself what it does.
    Device,
}

impl Doing {
    pub(crate) fn of(instruction: &Instruction) -> Self {
        match instruction {
            Instruction::ClearMetrics
            | Instruction::Load { .. }
            | Instruction::Lists { .. }
            | Instruction::Targets { .. } => Self::Input,
            Instruction::Run(_) => Self::Compute,
            Instruction::Update(_) => Self::Update,
            Instruction::Retire(_) => Self::Device,
            _ => Self::Comm,
        }
    }

    /// What the device is asked for meanwhile.
    fn work(self) -> Option<Work> {
        match self {
            Self::Compute => Some(Work::Compute),
            Self::Update => Some(Work::Update),
            Self::Input | Self::Comm | Self::Device => None,
        }
    }
}

/// Tells what the time of the rank's thread goes into.
pub(crate) struct Clock {
    pub(crate) doing: Doing,
    pub(crate) since: Instant,
    pub(crate) split: [Duration; 5],
}

impl Clock {
    pub(crate) fn start(doing: Doing) -> Self {
        Self { doing, since: Instant::now(), split: [Duration::ZERO; 5] }
    }

    /// Every other activity begins here; the device hears of it.
    pub(crate) fn turn_to(&mut self, doing: Doing, device: &mut impl Device) {
        if doing != self.doing {
            let now = Instant::now();
            self.split[self.doing as usize] += now - self.since;
            (self.since, self.doing) = (now, doing);
            device.turn_to(doing.work(), now);
        }
    }
}

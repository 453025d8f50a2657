//! The stages of a pipeline: the words for them, and what every pipeline counts of each for reports to read.

use serde::{Deserialize, Serialize};

/// A step on the way from a stored image to a batch or to a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Getting the stored bytes.
    #[default]
    Read = 0,
    /// Bytes to pixels.
    Decode = 1,
    /// Pixels to the wanted size.
    Resize = 2,
    /// Pixels to a record.
    Encode = 3,
    /// Keeping decoded samples, and getting them again.
    Cache = 4,
    /// Flip, crop and colours.
    Augment = 5,
    /// Handing rows to the ranks that train.
    Deliver = 6,
    /// Records to a shard.
    Write = 7,
    /// Syncing a shard and giving it its name.
    Seal = 8,
}

impl Stage {
    /// All stages, in the order in which an image passes those of its pipeline.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Decode,
        Self::Resize,
        Self::Encode,
        Self::Cache,
        Self::Augment,
        Self::Deliver,
        Self::Write,
        Self::Seal,
    ];

    /// The word for it, in tables and in the files of a run.
    pub const fn name(self) -> &'static str {
        ["read", "decode", "resize", "encode", "cache", "augment", "deliver", "write", "seal"][self as usize]
    }
}

/// One stage in figures; times are seconds, summed over its threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageFigures {
    /// [`Stage::name`]; text, because a newer Paceline may know more stages.
    pub name: String,
    /// Threads that work on it (stages of one pool share their threads).
    pub threads: usize,
    /// Items that came out of it.
    pub items: u64,
    /// Bytes of the results.
    pub bytes: u64,
    /// Seconds of working, over all threads.
    pub busy: f64,
    /// Seconds of waiting for input.
    pub starved: f64,
    /// Seconds of waiting for room at the output.
    pub blocked: f64,
}

impl StageFigures {
    /// Which stage they are of; none if only a newer Paceline knows it.
    pub fn stage(&self) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.name() == self.name)
    }

    /// Whether they are of this stage.
    pub fn is(&self, stage: Stage) -> bool {
        self.stage() == Some(stage)
    }

    /// Adds the counts of the same stage elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.bytes += other.bytes;
        self.busy += other.busy;
        self.starved += other.starved;
        self.blocked += other.blocked;
    }
}

#[cfg(test)]
mod tests {
    use super::Stage;

    #[test]
    fn every_stage_is_at_its_number() {
        for (number, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, number, "{}", stage.name());
        }
    }
}

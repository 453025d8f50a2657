//! What samples are for, by the words that people use for it: in names of folders and shards, in a column of a table.

use serde::Serialize;
use std::fmt;

/// What the samples of a part are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// To train on.
    Train,
    /// To validate on while training.
    Validation,
    /// To test on at the end.
    Test,
}

impl Role {
    /// All of them, in the order of a set's parts.
    pub(crate) const ALL: [Role; 3] = [Role::Train, Role::Validation, Role::Test];

    /// `train`, `validation` or `test`: as in an index of shards.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }

    /// What a word says, in any case: train, training; val, valid, validation; test, testing.
    pub fn of_word(word: &str) -> Option<Self> {
        let is = |words: &[&str]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
        match () {
            () if is(&["train", "training"]) => Some(Self::Train),
            () if is(&["val", "valid", "validation"]) => Some(Self::Validation),
            () if is(&["test", "testing"]) => Some(Self::Test),
            () => None,
        }
    }

    /// What the name of a shard says: `train-00000-of-00016.tfrec`, `val00-230.tfrec`, `cats-test.tfrecord-00000-of-00004`.
    ///
    /// # Errors
    /// The two that it says, if it says two.
    pub(crate) fn of_shard(file: &str) -> Result<Option<Self>, (Self, Self)> {
        let mut found = None;
        for role in file.split(|c: char| !c.is_alphabetic()).filter_map(Self::of_word) {
            match found {
                Some(other) if other != role => return Err((other, role)),
                _ => found = Some(role),
            }
        }
        Ok(found)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_shards() {
        let (train, val, test) = (Ok(Some(Role::Train)), Ok(Some(Role::Validation)), Ok(Some(Role::Test)));
        for (name, expected) in [
            ("train-00000-of-00016.tfrec", train),
            ("Training_3.tfrecord", train),
            ("val00-230.tfrec", val),
            ("validation-00000-of-00002", val),
            ("cats_vs_dogs-test.tfrecord-00000-of-00004", test),
            ("ld_train00-1338.tfrec", train),
            ("flowers00-230.tfrec", Ok(None)),
            ("trainval.tfrec", Ok(None)),
            ("latest-0.tfrec", Ok(None)),
            ("train-test-0.tfrec", Err((Role::Train, Role::Test))),
        ] {
            assert_eq!(Role::of_shard(name), expected, "{name}");
        }
    }
}

//! What a user can set, by type, and what is wrong with it. The words for a setting are whoever's who asked for the job: the
//! command line calls them by its flags, a program by its fields.

use paceline_base::{Error, setting};
use paceline_data::DataError;
use std::fmt;
use std::path::PathBuf;

/// Something that a user sets of a preparation and that an error may speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Width and height of every image.
    Size,
    /// JPEG quality.
    Quality,
    /// Number of shards.
    Shards,
    /// Share of the images that is set aside for validation.
    Validation,
    /// That images of one class are meant.
    OneClass,
    /// How many bad images may be left out.
    SkipBad,
    /// Threads that decode, resize and encode.
    Threads,
    /// Threads that read files.
    Readers,
}

impl setting::Setting for Setting {
    fn field(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Quality => "quality",
            Self::Shards => "shards",
            Self::Validation => "validation",
            Self::OneClass => "one_class",
            Self::SkipBad => "skip_bad",
            Self::Threads => "threads",
            Self::Readers => "readers",
        }
    }
}

/// What the user calls each setting: in errors and notes.
pub type SettingNames = setting::SettingNames<Setting>;

/// A setting that cannot be, or that would have to be another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SettingError {
    /// A side that no image has.
    Size {
        /// The width asked for.
        width: usize,
        /// The height asked for.
        height: usize,
    },
    /// A quality beyond 1 to 100.
    Quality(u8),
    /// No shards at all.
    NoShards,
    /// A fraction below 0, or of 1 or more.
    Validation(f64),
    /// A fraction, where the images have a validation part of their own.
    ValidationIsThere(f64),
    /// Shards that would be empty.
    MoreShardsThanImages {
        /// The shards asked for.
        shards: usize,
        /// The images that there are.
        images: usize,
    },
    /// Parts that would have no shard.
    FewerShardsThanParts {
        /// The shards asked for.
        shards: usize,
        /// The parts that there are, by name.
        parts: Vec<&'static str>,
    },
    /// All images are of one class, and nobody said that this is meant.
    OneClass {
        /// Where the images are.
        source: PathBuf,
        /// The class; none if there is none.
        class: Option<String>,
    },
    /// A bad image, and no more may be left out.
    BadImage {
        /// What is wrong with it.
        why: String,
    },
    /// Shards of an earlier run, or of other tasks, leave out more images than may be.
    TooManySkipped {
        /// Images that are left out.
        skipped: usize,
        /// Images that may be.
        allowed: usize,
        /// What is wrong with the first.
        first: String,
    },
    /// The system starts no more threads: a failure, not a wrong setting.
    Threads {
        /// What the system said.
        why: String,
    },
}

impl SettingError {
    /// Which setting it is about.
    pub(crate) fn setting(&self) -> Setting {
        match self {
            Self::Size { .. } => Setting::Size,
            Self::Quality(_) => Setting::Quality,
            Self::NoShards | Self::MoreShardsThanImages { .. } | Self::FewerShardsThanParts { .. } => Setting::Shards,
            Self::Validation(_) | Self::ValidationIsThere(_) => Setting::Validation,
            Self::OneClass { .. } => Setting::OneClass,
            Self::BadImage { .. } | Self::TooManySkipped { .. } => Setting::SkipBad,
            Self::Threads { .. } => Setting::Threads,
        }
    }

    /// What is wrong and what to do, in the user's words for settings.
    pub(crate) fn message(&self, names: SettingNames) -> String {
        let name = names.of(self.setting());
        match self {
            Self::Size { width, height } => {
                format!("{name} {width}x{height}: give sides from 1 to {}", super::settings::LONGEST)
            }
            Self::Quality(quality) => format!("{name} {quality}: give a number from 1 (smallest) to 100 (best)"),
            Self::NoShards => format!("{name} 0: give at least 1"),
            Self::Validation(fraction) => {
                format!("{name} {fraction}: give a fraction of at least 0 and below 1, such as 0.2")
            }
            Self::ValidationIsThere(fraction) => format!(
                "{name} {fraction}: the images have a validation part of their own; leave {name} out to use it, or merge that part with the training part"
            ),
            Self::MoreShardsThanImages { shards, images } => {
                format!("{name} {shards} is more than there are images ({images}); give at most that")
            }
            Self::FewerShardsThanParts { shards, parts } => format!(
                "{name} {shards}: the parts {} need {name} of at least {}, one for each",
                parts.join(", "),
                parts.len()
            ),
            Self::OneClass { source, class } => format!(
                "{}: all images are of one class ({}); give a folder with a folder for each class, or say {name} if that is meant",
                source.display(),
                class.as_deref().unwrap_or("none")
            ),
            Self::BadImage { why } => {
                format!("{why}; mend or remove the file, or leave up to N bad images out with {name} N")
            }
            Self::TooManySkipped { skipped, allowed, first } => format!(
                "{skipped} bad images are left out of the shards that are there, and {name} allows {allowed}; the first: {first}; mend \
                 or remove them, or give {name} {skipped}"
            ),
            Self::Threads { why } => format!("a thread cannot start: {why}; give fewer with {name}"),
        }
    }

    /// The error to show to whoever calls settings by these names.
    pub(crate) fn named(&self, names: SettingNames) -> Error {
        let message = self.message(names);
        if let Self::Threads { .. } = self { Error::failure(message) } else { Error::user(message) }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message(SettingNames::default()))
    }
}

impl std::error::Error for SettingError {}

/// Why a job ends, before it is known what its user calls things.
#[derive(Debug)]
pub(super) enum JobError {
    Setting(SettingError),
    Other(Error),
}

impl JobError {
    /// In the user's words.
    pub(super) fn named(self, names: SettingNames) -> Error {
        match self {
            Self::Setting(error) => error.named(names),
            Self::Other(error) => error,
        }
    }
}

impl From<SettingError> for JobError {
    fn from(error: SettingError) -> Self {
        Self::Setting(error)
    }
}

impl From<Error> for JobError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<DataError> for JobError {
    fn from(error: DataError) -> Self {
        Self::Other(error.into())
    }
}

//! What a user can set of a study and what errors and reasons may speak of.

use paceline_base::setting::{self, Setting};

/// A setting of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudySetting {
    /// How many bad images of a source may be left out.
    SkipBad,
    /// Whether files come from the disk or from the page cache.
    PageCache,
    /// That all conditions are measured over the whole grid.
    Full,
    /// Threads that work on partitions.
    Threads,
    /// Seconds after which measuring ends.
    TimeLimit,
}

impl Setting for StudySetting {
    fn field(self) -> &'static str {
        match self {
            Self::SkipBad => "skip_bad",
            Self::PageCache => "page_cache",
            Self::Full => "full",
            Self::Threads => "threads",
            Self::TimeLimit => "time_limit",
        }
    }
}

/// What the user calls each setting of a study.
pub type StudySettingNames = setting::SettingNames<StudySetting>;

//! What users call the settings of a library. Errors and notes speak of settings, but only whoever took them from the user
//! knows their names: the command line has flags, a program has fields.
//!
//! ```
//! use paceline_base::setting::{Setting, SettingNames};
//! #[derive(Clone, Copy, Debug)]
//! enum Copying {
//!     Threads,
//! }
//! impl Setting for Copying {
//!     fn field(self) -> &'static str {
//!         "threads"
//!     }
//! }
//! let flags = SettingNames(|_: Copying| "--threads");
//! assert_eq!(flags.of(Copying::Threads), "--threads");
//! assert_eq!(SettingNames::default().of(Copying::Threads), "threads");
//! ```

/// The settings of one library call that its errors may speak of.
pub trait Setting: Copy {
    /// As the field is called.
    fn field(self) -> &'static str;
}

/// The user's word for each setting; by default that of the field.
#[derive(Clone, Copy, Debug)]
pub struct SettingNames<S>(pub fn(S) -> &'static str);

impl<S> SettingNames<S> {
    /// The user's word for a setting.
    pub fn of(self, setting: S) -> &'static str {
        (self.0)(setting)
    }
}

impl<S: Setting> Default for SettingNames<S> {
    fn default() -> Self {
        Self(S::field)
    }
}

//! Panics on worker threads. A panic is a bug of ours; it must not become a job that waits for ever for a thread that is
//! gone. So the work on each item is wrapped: a panic becomes an internal error that names the stage and the item, and
//! whoever caught it ends the job.

use paceline_base::Error;
use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; a panic becomes its message. What `work` leaves half done must be given up by the caller.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(&*panic))
}

/// What a panic said.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_string()
}

/// The error for a panic of a stage while it was at an item.
pub(crate) fn error(stage: &str, item: impl Display, why: &str) -> Error {
    Error::internal(format!("{item}: the stage `{stage}` panicked: {why}"))
}

/// Where tests make a stage panic; nothing outside of tests.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn point(_stage: &str, _item: impl Display) {}

#[cfg(test)]
pub(crate) use inject::point;

#[cfg(test)]
pub(crate) mod inject {
    use std::fmt::Display;
    use std::sync::{Mutex, PoisonError};

    static FAULTS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

    fn faults() -> std::sync::MutexGuard<'static, Vec<(String, String)>> {
        FAULTS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a stage panic at items with `part` in their names, until it is dropped. Tests run side by side: the part is
    /// to be one that no other test has, such as its folder.
    pub(crate) struct Fault(String, String);

    impl Fault {
        pub(crate) fn new(stage: &str, part: impl Into<String>) -> Self {
            let fault = Self(stage.into(), part.into());
            faults().push((fault.0.clone(), fault.1.clone()));
            fault
        }
    }

    impl Drop for Fault {
        fn drop(&mut self) {
            faults().retain(|(stage, part)| (stage, part) != (&self.0, &self.1));
        }
    }

    pub(crate) fn point(stage: &str, item: impl Display) {
        let item = item.to_string();
        let found = faults().iter().any(|(s, part)| s == stage && item.contains(part.as_str()));
        assert!(!found, "a bug that a test put into `{stage}`");
    }
}

//! Finding bad samples before training, so that they can be left out without changing the order of the others later.

use crate::panic::{self, caught};
use paceline_base::stage::Stage;
use paceline_base::{Error, Result};
use paceline_data::{DataError, Scratch, Source};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Samples that can be decoded, ascending.
    pub good: Vec<usize>,
    /// What is wrong with the others, in the order of the set.
    pub bad: Vec<String>,
}

/// Fetches every sample once.
///
/// # Errors
/// The first bad sample, if there are more than `limit`; a panic of a decoder, which is a bug and no bad sample, as an
/// internal error.
pub fn check(source: &dyn Source, threads: usize, limit: usize) -> Result<Checked> {
    let next = AtomicUsize::new(0);
    let bad: Mutex<Vec<(usize, DataError)>> = Mutex::default();
    let bug: Mutex<Option<Error>> = Mutex::default();
    let lock = || bad.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut scratch = Scratch::default();
                let mut row = vec![0; source.shape().iter().product()];
                loop {
                    let index = next.fetch_add(1, Relaxed);
                    // Beyond the limit nothing is gained by going on.
                    if index >= source.len() || lock().len() > limit {
                        return;
                    }
                    match caught(|| source.fetch(index, &mut scratch, &mut row)) {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => lock().push((index, error)),
                        Err(why) => {
                            let place = caught(|| source.place(index)).unwrap_or_else(|_| format!("sample {index}"));
                            let error = panic::error(Stage::Decode.name(), place, &why);
                            bug.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                            next.store(source.len(), Relaxed); // the others end too
                            return;
                        }
                    }
                }
            });
        }
    });
    if let Some(bug) = bug.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(bug);
    }
    let mut bad = bad.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    bad.sort_by_key(|(index, _)| *index);
    if bad.len() > limit {
        let (_, error) = bad.swap_remove(0);
        return Err(error.into());
    }
    let is_bad = |index: &usize| bad.binary_search_by_key(index, |(bad, _)| *bad).is_ok();
    let good = (0..source.len()).filter(|index| !is_bad(index)).collect();
    Ok(Checked { good, bad: bad.into_iter().map(|(_, error)| error.to_string()).collect() })
}

//! Bad samples that may be left out: counted, listed, and refused when they are too many.

use crate::{DataError, Result};

/// What was left out so far, and how much may be.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    limit: usize,
    list: Vec<String>,
}

impl Skipped {
    /// Up to `limit` bad samples may be left out; 0 is none.
    pub(crate) fn up_to(limit: usize) -> Self {
        Self { limit, list: Vec::new() }
    }

    /// Leaves one out.
    ///
    /// # Errors
    /// The error itself, when no more may be left out.
    pub(crate) fn skip(&mut self, error: DataError) -> Result<()> {
        if self.list.len() >= self.limit {
            return Err(error);
        }
        self.list.push(error.to_string());
        Ok(())
    }

    /// What was left out, in words.
    pub(crate) fn list(&self) -> &[String] {
        &self.list
    }
}

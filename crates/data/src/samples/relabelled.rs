//! The samples of one set under the class numbers of another: a validation set of its own has its own list of classes.

use super::{Labelled, Source, as_bytes, fingerprint_of};
use crate::forward_to;
use std::sync::Arc;

/// A source whose classes are those of another list.
pub(crate) struct Relabelled {
    of: Arc<dyn Source>,
    /// By the number that a class has in `of`.
    to: Vec<u32>,
    class_names: Vec<String>,
}

impl Relabelled {
    /// `of`, with classes numbered as in `class_names`.
    ///
    /// # Errors
    /// The name of a class with samples that is not in that list.
    pub(crate) fn new(of: Arc<dyn Source>, class_names: &[String]) -> std::result::Result<Self, String> {
        let mut used = vec![false; of.classes()];
        (0..of.len()).for_each(|index| used[of.label(index) as usize] = true);
        let mut to = Vec::with_capacity(used.len());
        for (class, used) in of.class_names().iter().zip(used) {
            match class_names.iter().position(|name| name == class) {
                Some(place) => to.push(place as u32),
                None if used => return Err(class.clone()),
                None => to.push(u32::MAX), // no sample has it
            }
        }
        Ok(Self { of, to, class_names: class_names.to_vec() })
    }
}

impl Labelled for Relabelled {
    forward_to!(of: len, shape);

    fn class_names(&self) -> &[String] {
        &self.class_names
    }

    fn label(&self, index: usize) -> u32 {
        self.to[self.of.label(index) as usize]
    }

    /// Of the samples and of what their classes became.
    fn fingerprint(&self) -> String {
        let to: Vec<usize> = self.to.iter().map(|&class| class as usize).collect();
        fingerprint_of([b"relabelled" as &[u8], self.of.fingerprint().as_bytes(), &as_bytes(&to)])
    }
}

impl Source for Relabelled {
    // Also the key: what is kept of samples does not depend on their classes.
    forward_to!(of: place, stored, fetch, cache_key);
}

//! Inputs as the model's batches take them: bad ones keep their place, and labels are those of the model.

use paceline_data::{DataError, Features, Labelled, Samples, Scratch, Source, Target, forward_to};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A source that never fails: what cannot be fetched becomes a sample of zeros, whose error is kept until it is asked for.
pub(crate) struct Kept {
    source: Arc<dyn Source>,
    labels: Relabel,
    errors: Mutex<BTreeMap<usize, DataError>>,
}

/// From the numbers of a set's classes to those of a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relabel(pub Vec<Option<u32>>);

impl Relabel {
    /// The model's number for a label of the data; a label that the model does not know is beyond all of its classes.
    fn apply(&self, label: u32) -> u32 {
        self.0.get(label as usize).copied().flatten().unwrap_or(u32::MAX)
    }
}

impl Kept {
    pub(crate) fn new(source: Arc<dyn Source>, labels: Relabel) -> Self {
        Self { source, labels, errors: Mutex::default() }
    }

    /// What was wrong with a sample that was fetched; told once, so that a million of them take no room.
    pub(crate) fn take_error(&self, index: usize) -> Option<DataError> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).remove(&index)
    }
}

impl Labelled for Kept {
    forward_to!(source: len, shape, class_names, fingerprint);

    fn label(&self, index: usize) -> u32 {
        self.labels.apply(self.source.label(index))
    }
}

impl Source for Kept {
    forward_to!(source: place, stored);

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), DataError> {
        if let Err(error) = self.source.fetch(index, scratch, out) {
            out.fill(0);
            self.errors.lock().unwrap_or_else(PoisonError::into_inner).insert(index, error);
        }
        Ok(())
    }
}

/// Samples in memory under the model's labels.
pub(crate) struct WithModelLabels {
    pub samples: Arc<dyn Samples>,
    pub labels: Relabel,
}

impl Labelled for WithModelLabels {
    forward_to!(samples: len, shape, class_names, feature_kind, target_kind, fingerprint);

    fn label(&self, index: usize) -> u32 {
        self.labels.apply(self.samples.label(index))
    }

    fn target(&self, index: usize) -> Target<'_> {
        match self.samples.target(index) {
            Target::Class(class) => Target::Class(self.labels.apply(class)),
            // Numbers are what they are, and several classes were read by the model's own names.
            target @ (Target::Classes(_) | Target::Numbers(_)) => target,
        }
    }
}

impl Samples for WithModelLabels {
    fn features(&self, index: usize) -> Features<'_> {
        self.samples.features(index)
    }
}

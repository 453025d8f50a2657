//! Inputs as the model's batches take them: bad ones keep their place, and labels are those of the model.

use paceline_data::{DataError, Features, Labelled, Samples, Scratch, Source, Target, TargetKind, forward_to};
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

/// Samples in memory with targets as the model has them.
pub(crate) struct WithModelLabels {
    samples: Arc<dyn Samples>,
    labels: Relabel,
    /// What the model's targets are.
    kind: TargetKind,
    /// Stand for targets of samples that have none of the model's kind.
    zeros: Vec<f32>,
}

impl WithModelLabels {
    pub(crate) fn new(samples: Arc<dyn Samples>, labels: Relabel, kind: TargetKind) -> Self {
        Self { samples, labels, kind, zeros: vec![0.0; kind.each()] }
    }
}

impl Labelled for WithModelLabels {
    forward_to!(samples: len, shape, class_names, feature_kind, fingerprint);

    fn target_kind(&self) -> TargetKind {
        self.kind
    }

    fn label(&self, index: usize) -> u32 {
        self.labels.apply(self.samples.label(index))
    }

    fn target(&self, index: usize) -> Target<'_> {
        match (self.samples.target(index), self.kind) {
            (Target::Class(class), TargetKind::Classes { .. }) => Target::Class(self.labels.apply(class)),
            (Target::Numbers(numbers), TargetKind::Numbers { each }) if numbers.len() == each => {
                Target::Numbers(numbers)
            }
            // Data of another kind can be predicted all the same: nobody compares with these.
            (_, TargetKind::Numbers { .. }) => Target::Numbers(&self.zeros),
            (_, TargetKind::Classes { .. }) => Target::Class(u32::MAX),
        }
    }
}

impl Samples for WithModelLabels {
    fn features(&self, index: usize) -> Features<'_> {
        self.samples.features(index)
    }
}

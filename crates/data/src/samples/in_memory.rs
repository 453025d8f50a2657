//! What sets in memory have in common: values of one shape one after another, a label for each, names of classes.

/// Values and labels of samples of one shape. `V` is what a value is stored as, `L` what a label is.
#[derive(Debug)]
pub(super) struct InMemory<V, L> {
    shape: Vec<usize>,
    /// Values of one sample.
    size: usize,
    pub(super) values: Vec<V>,
    pub(super) labels: Vec<L>,
    class_names: Vec<String>,
}

impl<V, L: Copy + Into<u32>> InMemory<V, L> {
    /// Samples of `shape`, one after another in `values`; the caller has checked that there are as many as labels.
    pub(super) fn new(shape: Vec<usize>, values: Vec<V>, labels: Vec<L>, class_names: Vec<String>) -> Self {
        let size = shape.iter().product();
        debug_assert_eq!(size * labels.len(), values.len());
        Self { shape, size, values, labels, class_names }
    }

    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(super) fn class_names(&self) -> &[String] {
        &self.class_names
    }

    #[inline]
    pub(super) fn label(&self, index: usize) -> u32 {
        self.labels[index].into()
    }

    /// The values of one sample.
    #[inline]
    pub(super) fn row(&self, index: usize) -> &[V] {
        &self.values[index * self.size..][..self.size]
    }
}

//! Methods of [`Labelled`](super::Labelled) and [`Source`](super::Source) that are those of something within.
//!
//! Most sets of samples are others in another light: some of them, under other labels, kept in memory. What they do not change,
//! they hand on, and say so in one line.

/// Within an `impl` of `Labelled` or `Source`: makes the methods named those of a field.
///
/// ```
/// use paceline_data::{Labelled, Samples, Table, forward_to};
/// use std::sync::Arc;
///
/// /// Samples of one class.
/// struct OfClassZero(Arc<dyn Samples>);
///
/// impl Labelled for OfClassZero {
///     forward_to!(0: len, shape, class_names, fingerprint);
///
///     fn label(&self, _: usize) -> u32 {
///         0
///     }
/// }
///
/// let table = Table::new(vec![1], vec![0.5, 0.25], vec![0, 1], 2)?;
/// let zero = OfClassZero(Arc::new(table));
/// assert_eq!((zero.len(), zero.shape(), zero.label(1)), (2, &[1][..], 0));
/// # Ok::<(), paceline_data::DataError>(())
/// ```
#[macro_export]
macro_rules! forward_to {
    ($within:tt: $($method:ident),+ $(,)?) => { $($crate::forward_to!(@$method $within);)+ };
    (@len $within:tt) => {
        fn len(&self) -> usize {
            self.$within.len()
        }
    };
    (@shape $within:tt) => {
        fn shape(&self) -> &[usize] {
            self.$within.shape()
        }
    };
    (@class_names $within:tt) => {
        fn class_names(&self) -> &[String] {
            self.$within.class_names()
        }
    };
    (@label $within:tt) => {
        #[inline]
        fn label(&self, index: usize) -> u32 {
            self.$within.label(index)
        }
    };
    (@feature_kind $within:tt) => {
        fn feature_kind(&self) -> $crate::FeatureKind {
            self.$within.feature_kind()
        }
    };
    (@target_kind $within:tt) => {
        fn target_kind(&self) -> $crate::TargetKind {
            self.$within.target_kind()
        }
    };
    (@target $within:tt) => {
        #[inline]
        fn target(&self, index: usize) -> $crate::Target<'_> {
            self.$within.target(index)
        }
    };
    (@fingerprint $within:tt) => {
        fn fingerprint(&self) -> String {
            self.$within.fingerprint()
        }
    };
    (@place $within:tt) => {
        fn place(&self, index: usize) -> String {
            self.$within.place(index)
        }
    };
    (@stored $within:tt) => {
        fn stored(&self) -> &'static str {
            self.$within.stored()
        }
    };
    (@fetch $within:tt) => {
        fn fetch(&self, index: usize, scratch: &mut $crate::Scratch, out: &mut [u8]) -> $crate::Result<()> {
            self.$within.fetch(index, scratch, out)
        }
    };
    (@cache_key $within:tt) => {
        fn cache_key(&self) -> String {
            self.$within.cache_key()
        }
    };
}

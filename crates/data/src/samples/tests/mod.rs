//! Samples in memory and the split: what the engine and the configuration rely on.

mod identity;

use crate::split::{Indices, stratified};
use crate::{
    Catalogue, DataError, DataSet, Fake, FakeSpec, Features, Labelled, Options, Samples, Split, Subset, Table,
};
use proptest::prelude::*;
use std::sync::Arc;

fn spec(text: &str) -> FakeSpec {
    text.parse().unwrap()
}

fn values(samples: &dyn Samples, index: usize) -> Vec<f32> {
    let features = samples.features(index);
    let mut out = vec![0.0; features.len()];
    features.copy_to(&mut out);
    out
}

#[test]
fn features_are_scaled_as_they_say() {
    let mut out = [0.0; 3];
    Features::U8 { bytes: &[0, 128, 255], scale: 2.0 / 255.0, offset: -1.0 }.copy_to(&mut out);
    assert!(out[0] == -1.0 && out[1].abs() < 0.01 && (out[2] - 1.0).abs() < 1e-6);
    Features::F32(&[1.0, 2.0, 3.0]).copy_to(&mut out);
    assert_eq!(out, [1.0, 2.0, 3.0]);
}

#[test]
fn fake_is_repeatable_and_its_parts_differ() {
    let spec = spec("fake:8x8x3:5:100");
    let (a, b, other) = (Fake::train(&spec, 1), Fake::train(&spec, 1), Fake::train(&spec, 2));
    let test = Fake::test(&spec, 1);
    assert_eq!((a.len(), test.len(), a.shape(), a.classes()), (100, 16, &[8, 8, 3][..], 5));
    assert!((0..100).all(|i| a.features(i) == b.features(i) && a.label(i) == b.label(i)));
    assert_eq!(a.fingerprint(), b.fingerprint());
    for different in [&other, &test] {
        assert_ne!(a.features(0), different.features(0));
        assert_ne!(a.fingerprint(), different.fingerprint());
    }
}

#[test]
fn fake_does_not_depend_on_threads_or_count() {
    // Large enough for several threads; the first samples must be those of a small set.
    let (large, small) = (Fake::train(&spec("fake:28x28x1:10:20000"), 7), Fake::train(&spec("fake:28x28x1:10:50"), 7));
    assert!((0..50).all(|i| large.features(i) == small.features(i)));
}

#[test]
fn fake_never_changes() {
    let set = Fake::train(&spec("fake:6:3:3"), 42);
    assert_eq!(
        set.features(2),
        Features::U8 { bytes: &[162, 247, 81, 236, 139, 168], scale: 1.0 / 255.0, offset: 0.0 }
    );
}

/// The mean of each class in the training part is a good classifier of the test part: there is something to learn.
#[test]
fn fake_can_be_learned() {
    for text in ["fake:28x28x1:10:2000", "fake:16x16x3:10:2000", "fake:64:10:2000"] {
        let spec = spec(text);
        let (train, test) = (Fake::train(&spec, 3), Fake::test(&spec, 3));
        let size = values(&train, 0).len();
        let mut means = vec![vec![0.0; size]; 10];
        for i in 0..train.len() {
            for (m, v) in means[train.label(i) as usize].iter_mut().zip(values(&train, i)) {
                *m += v / 200.0;
            }
        }
        let distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f32>();
        let right = (0..test.len())
            .filter(|&i| {
                let v = values(&test, i);
                let best = (0..10).min_by(|&a, &b| distance(&means[a], &v).total_cmp(&distance(&means[b], &v)));
                best == Some(test.label(i) as usize)
            })
            .count();
        assert!(right * 10 > test.len() * 8, "{text}: {right} of {}", test.len());
    }
}

#[test]
fn wrong_fakes_are_answered_with_the_grammar() {
    for (text, reason) in [
        ("fake:", "2 parts instead of 4"),
        ("fake:28x28:10", "3 parts"),
        ("fake:28x28:10:100:1", "5 parts"),
        ("fake:28xx28:10:100", "a size in SHAPE must be a whole number, not ``"),
        ("fake:28x-1:10:100", "not `-1`"),
        ("fake:28x0:10:100", "a size in SHAPE must be at least 1"),
        ("fake:28:ten:100", "CLASSES must be a whole number, not `ten`"),
        ("fake:28:10:0", "COUNT must be at least 1"),
        ("fake:99999999x99999999x99999999:10:1", "at most"),
        ("fake:28:99999999:1", "at most 65536 classes"),
    ] {
        let error = text.parse::<FakeSpec>().unwrap_err().to_string();
        assert!(error.contains(reason) && error.ends_with("such as fake:28x28x1:10:60000"), "{text}: {error}");
    }
    assert_eq!(spec("fake").to_string(), "fake:28x28x1:10:60000");
}

#[test]
fn tables_check_their_lengths() {
    let table = Table::new(vec![2], vec![1.0, 2.0, 3.0, 4.0], vec![0, 1], 2).unwrap();
    assert_eq!(values(&table, 1), [3.0, 4.0]);
    assert!(matches!(Table::new(vec![2], vec![1.0], vec![0], 2), Err(DataError::LengthMismatch { .. })));
    assert!(matches!(Table::new(vec![1], vec![1.0], vec![2], 2), Err(DataError::LabelOutOfRange { .. })));
}

#[test]
fn subsets_are_views() {
    let all: Arc<dyn Samples> = Arc::new(Fake::train(&spec("fake:4:3:10"), 0));
    let list = Subset::new(all.clone(), vec![3, 4, 5]).unwrap();
    let range = Subset::range(all.clone(), 3..6).unwrap();
    assert_eq!((list.len(), list.label(2), list.origin(0)), (3, all.label(5), 3));
    assert!((0..3).all(|i| list.features(i) == range.features(i) && list.features(i) == all.features(3 + i)));
    assert_eq!(list.fingerprint(), range.fingerprint());
    assert_ne!(list.fingerprint(), Subset::range(all.clone(), 3..7).unwrap().fingerprint());
    assert!(Subset::range(all.clone(), 5..5).unwrap().is_empty());
    assert!(matches!(Subset::new(all.clone(), vec![10]), Err(DataError::IndexOutOfRange { index: 10, len: 10 })));
    assert!(matches!(Subset::range(all, 0..11), Err(DataError::IndexOutOfRange { .. })));
}

fn labelled(labels: Vec<u32>, classes: usize) -> Table {
    Table::new(vec![1], vec![0.0; labels.len()], labels, classes).unwrap()
}

proptest! {
    #[test]
    fn a_split_is_disjoint_complete_and_stratified(
        labels in prop::collection::vec(0u32..5, 2..300), fraction in 0.01f64..0.99, seed in any::<u64>()
    ) {
        let table = labelled(labels.clone(), 5);
        match stratified(&table, fraction, seed) {
            Ok(Indices { train, validation }) => {
                let mut all = [&train[..], &validation[..]].concat();
                all.sort_unstable();
                prop_assert_eq!(all, (0..labels.len()).collect::<Vec<_>>());
                prop_assert_eq!(validation.len(), (fraction * labels.len() as f64).round() as usize);
                for class in 0..5 {
                    let total = labels.iter().filter(|&&l| l == class).count() as f64;
                    let share = validation.iter().filter(|&&i| labels[i] == class).count() as f64;
                    let exact = total * validation.len() as f64 / labels.len() as f64;
                    prop_assert!((share - exact).abs() < 1.0, "class {}: {} for {}", class, share, exact);
                }
                prop_assert_eq!(stratified(&table, fraction, seed).unwrap(), Indices { train, validation });
            }
            Err(DataError::EmptyPart { .. }) => {
                let wanted = (fraction * labels.len() as f64).round() as usize;
                prop_assert!(wanted == 0 || wanted == labels.len());
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
fn splits_follow_the_seed_and_refuse_nonsense() {
    let table = labelled((0..100).map(|i| i % 10).collect(), 10);
    assert_ne!(stratified(&table, 0.2, 1).unwrap(), stratified(&table, 0.2, 2).unwrap());
    for fraction in [0.0, 1.0, -0.1, 1.5, f64::NAN, f64::INFINITY] {
        assert!(matches!(stratified(&table, fraction, 0), Err(DataError::BadSplit { .. })), "{fraction}");
    }
    for (n, fraction, part) in
        [(0, 0.5, "validation"), (1, 0.4, "validation"), (1, 0.6, "training"), (3, 0.9, "training")]
    {
        let error = stratified(&labelled(vec![0; n], 1), fraction, 0).unwrap_err().to_string();
        assert!(error.contains(&format!("leaves the {part} part empty")), "{error}");
    }
    for (text, split) in [
        ("0.1", Some(Split::Fraction(0.1))),
        ("test", Some(Split::Test)),
        ("own", Some(Split::Own)),
        ("auto", Some(Split::Auto)),
        ("0", None),
        ("x", None),
    ] {
        assert_eq!(text.parse::<Split>().ok(), split);
        assert_eq!(split.as_ref().map(|s| s.to_string()), split.as_ref().map(|_| text.to_string()));
    }
}

#[test]
fn split_applies_to_a_set() {
    let set = Catalogue::with_cache("/nowhere").open("fake:4:3:60", &Options::default()).unwrap();
    let parts = Split::Test.apply(&set, 0).unwrap();
    assert_eq!((parts.train.len(), parts.validation.len()), (60, 10));
    assert_eq!(Split::Test.indices(&set, 0).unwrap().validation.len(), 10);
    let parts = Split::Fraction(0.25).apply(&set, 0).unwrap();
    assert_eq!((parts.train.len(), parts.validation.len()), (45, 15));
    let own = DataSet { validation: set.test.clone(), ..set.clone() };
    assert_eq!((Split::Auto.resolved(&own), Split::Auto.resolved(&set)), (Split::Own, Split::Fraction(0.1)));
    let parts = Split::Auto.apply(&own, 0).unwrap();
    assert_eq!((parts.train.len(), parts.validation.len()), (60, 10));
    assert!(Split::Own.apply(&set, 0).err().unwrap().to_string().contains("no validation part of its own"));
    let set = DataSet { test: None, ..set };
    let error = Split::Test.indices(&set, 0).unwrap_err().to_string();
    assert!(error.contains("has no test part") && error.contains("such as 0.1"), "{error}");
}

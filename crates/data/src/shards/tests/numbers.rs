//! Records whose images are lists of numbers and whose classes are one-hot, and features by other names.

use crate::example::{self, Value};
use crate::shards::{Encoding, FeatureNames, Records, ShardOptions};
use crate::tfrecord::{Packing, Writer};
use crate::{Catalogue, DataError, DataPart, Labelled, Options, RecordImages, Scratch, ShardError, Source};
use paceline_image::Fit;
use std::path::{Path, PathBuf};

fn record(features: &[(&str, Value<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    example::write(features, &mut out);
    out
}

fn write(folder: &Path, records: &[Vec<u8>]) -> PathBuf {
    let mut writer = Writer::new(Vec::new(), Packing::Plain);
    records.iter().for_each(|record| writer.write(record).unwrap());
    let path = folder.join("mnist.tfrecord");
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    path
}

/// 4×4 grey pixels that tell the record.
fn bytes(number: usize) -> Vec<u8> {
    (0..16).map(|at| ((number * 53 + at * 17) % 256) as u8).collect()
}

fn check(path: &Path, open: &ShardOptions, count: usize) {
    let records = open.records(path).unwrap();
    assert_eq!(records.encoding(), Encoding::Numbers([4, 4, 1]));
    let images = RecordImages::new(records, None, Fit::Crop).unwrap();
    assert_eq!((images.len(), images.shape()), (count, &[4, 4, 1][..]));
    let (mut scratch, mut out) = (Scratch::default(), vec![0; 16]);
    for number in 0..count {
        images.fetch(number, &mut scratch, &mut out).unwrap();
        assert_eq!(out, bytes(number), "record {number}");
        assert_eq!(images.label(number), (number % 3) as u32);
    }
}

#[test]
fn lists_of_floats_as_tfx_writes_them() {
    let temp = tempfile::tempdir().unwrap();
    for (scale, offset) in [(1.0 / 255.0, 0.0), (2.0 / 255.0, -1.0), (1.0, 0.0)] {
        let records: Vec<_> = (0..20)
            .map(|number| {
                let floats: Vec<f32> = bytes(number).iter().map(|&b| f32::from(b) * scale + offset).collect();
                record(&[
                    ("image_floats", Value::Floats(&floats)),
                    ("image_class", Value::Ints(&[(number % 3) as i64])),
                ])
            })
            .collect();
        check(&write(temp.path(), &records), &ShardOptions::default(), 20);
    }
}

#[test]
fn lists_of_integers_and_classes_that_are_one_hot() {
    let temp = tempfile::tempdir().unwrap();
    let records: Vec<_> = (0..20)
        .map(|number| {
            let ints: Vec<i64> = bytes(number).iter().map(|&b| i64::from(b)).collect();
            let mut class = [0.0; 5];
            class[number % 3] = 1.0;
            record(&[("image", Value::Ints(&ints)), ("label", Value::Floats(&class))])
        })
        .collect();
    let path = write(temp.path(), &records);
    check(&path, &ShardOptions::default(), 20);
    // Two classes have no record here, but are there.
    assert_eq!(Records::open(&path, None, true).unwrap().class_names(), ["0", "1", "2", "3", "4"]);
}

#[test]
fn features_by_names_of_their_own() {
    let temp = tempfile::tempdir().unwrap();
    let records: Vec<_> = (0..20)
        .map(|number| {
            let floats: Vec<f32> = bytes(number).iter().map(|&b| f32::from(b) / 255.0).collect();
            let class = [(number % 3) as i64];
            record(&[("x", Value::Floats(&floats)), ("y", Value::Ints(&class)), ("label", Value::Ints(&[7]))])
        })
        .collect();
    let path = write(temp.path(), &records);
    let named = |image: &str, label: &str| ShardOptions {
        names: FeatureNames { image: Some(image.into()), label: Some(label.into()) },
        ..ShardOptions::default()
    };
    check(&path, &named("x", "y"), 20);
    let error = Records::open(&path, None, true).err().unwrap();
    assert!(error.to_string().contains("data.image=NAME"), "{error}");
    let error = named("x", "z").records(&path).err().unwrap();
    assert!(matches!(error, DataError::Shards(ShardError::NoSuchFeatures { .. })), "{error}");
    assert!(error.to_string().contains("label, x, y") || error.to_string().contains("x, y, label"), "{error}");
    // The whole set, as training opens it.
    let names = FeatureNames { image: Some("x".into()), label: Some("y".into()) };
    let set = Catalogue::with_cache(temp.path()).open(path.to_str().unwrap(), &Options { names, ..Options::default() });
    assert!(matches!(set.unwrap().train, DataPart::Stream(source) if source.len() == 20));
}

#[test]
fn what_has_no_meaning_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let refused = |floats: &[f32], class: &[f32]| {
        let good = record(&[("image", Value::Floats(&[0.5; 16])), ("label", Value::Floats(&[0.0, 1.0]))]);
        let bad = record(&[("image", Value::Floats(floats)), ("label", Value::Floats(class))]);
        match Records::open(&write(temp.path(), &[good, bad]), None, true).err().unwrap() {
            DataError::Shards(error) => error,
            other => panic!("{other}"),
        }
    };
    let one = [1.0, 0.0];
    assert!(matches!(refused(&[300.0; 16], &one), ShardError::Numbers { .. }));
    assert!(matches!(refused(&[-2.0; 16], &one), ShardError::Numbers { .. }));
    assert!(matches!(refused(&[f32::NAN; 16], &one), ShardError::NotFinite { .. }));
    assert!(matches!(refused(&[0.5; 15], &one), ShardError::RawSize { .. }));
    for class in [[0.0, 0.0], [1.0, 1.0], [0.5, 0.5], [0.0, 2.0]] {
        assert!(matches!(refused(&[0.5; 16], &class), ShardError::OneHot { .. }), "{class:?}");
    }
}

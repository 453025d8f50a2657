//! Records and Examples against files that TensorFlow wrote, and back.

mod hostile;
mod speed;

use crate::example::{self, Example, Feature, FeatureKind, Sequence, Value};
use crate::not_run::not_run;
use crate::tfrecord::{File, Packing, Reader, Writer};
use paceline_system::hex;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Larger files of the same making, used where they are there: beside the repository.
fn shared(name: &str) -> Option<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2);
    crates.map(|dir| dir.join("shared/data/tfrecord").join(name)).find(|path| path.exists())
}

/// All records, by the reader of streams and by the file in memory, which must agree.
fn records(path: &Path) -> Vec<Vec<u8>> {
    let file = File::open(path, true).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&bytes[..], "stream", true).unwrap();
    let (mut record, mut all) = (Vec::new(), Vec::new());
    while let Some(offset) = reader.next(&mut record).unwrap() {
        assert_eq!(file.offset(all.len()), offset);
        assert_eq!(file.get(all.len()), record);
        all.push(record.clone());
    }
    assert_eq!(file.len(), all.len());
    assert_eq!(file.contents().packing(), reader.packing());
    all
}

/// A feature as the fixture shows it.
fn shown(feature: &Feature<'_, '_>) -> (&'static str, Vec<Json>) {
    match feature.kind() {
        FeatureKind::None => ("none", vec![]),
        FeatureKind::Bytes => ("bytes", feature.byte_strings().map(|b| hex(b).into()).collect()),
        FeatureKind::Floats => ("floats", feature.floats().map(|f| f.to_bits().into()).collect()),
        FeatureKind::Ints => ("ints", feature.ints().map(|i| i.to_string().into()).collect()),
    }
}

#[test]
fn examples_of_tensorflow_are_read_to_the_bit() {
    let expected: Json = serde_json::from_slice(&std::fs::read(fixture("tfrecords.json")).unwrap()).unwrap();
    let expected = expected["examples"].as_array().unwrap();
    let packings = [("plain", Packing::Plain), ("gzip", Packing::Gzip), ("zlib", Packing::Zlib)];
    for (name, packing) in packings {
        let path = fixture(&format!("{name}.tfrecord"));
        assert_eq!(File::open(&path, true).unwrap().contents().packing(), packing);
        let records = records(&path);
        assert_eq!(records.len(), expected.len());
        for (record, expected) in records.iter().zip(expected) {
            let example = Example::parse(record).unwrap();
            let expected = expected.as_object().unwrap();
            assert_eq!(example.len(), expected.len());
            for (name, value) in expected {
                let feature = example.feature(name).unwrap();
                let (kind, values) = shown(&feature);
                assert_eq!((kind, &Json::Array(values)), (value["kind"].as_str().unwrap(), &value["values"]), "{name}");
                assert_eq!(feature.len(), value["values"].as_array().unwrap().len());
            }
        }
    }
}

#[test]
fn what_tensorflow_wrote_is_written_the_same() {
    // Numbers packed, names in order: as TensorFlow serialises deterministically. Only a feature without a kind is not
    // something that we write.
    for record in records(&fixture("plain.tfrecord")) {
        let example = Example::parse(&record).unwrap();
        if example.features().any(|f| f.kind() == FeatureKind::None) {
            continue;
        }
        let strings: Vec<Vec<&[u8]>> = example.features().map(|f| f.byte_strings().collect()).collect();
        let floats: Vec<Vec<f32>> = example.features().map(|f| f.floats().collect()).collect();
        let ints: Vec<Vec<i64>> = example.features().map(|f| f.ints().collect()).collect();
        let features: Vec<(&str, Value<'_>)> = example
            .features()
            .enumerate()
            .map(|(i, f)| match f.kind() {
                FeatureKind::Bytes => (f.name(), Value::Bytes(&strings[i])),
                FeatureKind::Floats => (f.name(), Value::Floats(&floats[i])),
                _ => (f.name(), Value::Ints(&ints[i])),
            })
            .collect();
        let mut out = Vec::new();
        example::write(&features, &mut out);
        // An Example without features may also be no bytes at all.
        assert!(out == record || (record.is_empty() && out == [0x0a, 0]), "{features:?}");
    }
}

#[test]
fn records_of_tensorflow_are_written_the_same() {
    let path = fixture("lengths.tfrecord");
    let records = records(&path);
    assert_eq!(records.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 7, 8, 9, 255, 256, 1023]);
    let mut writer = Writer::new(Vec::new(), Packing::Plain);
    for record in &records {
        assert!(record.iter().enumerate().all(|(k, &byte)| byte == (k % 251) as u8));
        writer.write(record).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), std::fs::read(path).unwrap());
}

#[test]
fn packed_files_are_read_back_and_always_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let data: Vec<Vec<u8>> = (0..300).map(|n| (0..n * 7).map(|k| (k * n) as u8).collect()).collect();
    for packing in [Packing::Plain, Packing::Gzip, Packing::Zlib] {
        let write = || {
            let mut writer = Writer::new(Vec::new(), packing);
            data.iter().for_each(|record| writer.write(record).unwrap());
            writer.finish().unwrap()
        };
        let path = dir.path().join(packing.name());
        std::fs::write(&path, write()).unwrap();
        assert_eq!(write(), std::fs::read(&path).unwrap());
        assert_eq!(records(&path), data);
        assert_eq!(File::open(&path, true).unwrap().contents().packing(), packing);
    }
}

#[test]
fn a_file_without_records_is_read_whatever_its_packing() {
    let dir = tempfile::tempdir().unwrap();
    for packing in [Packing::Plain, Packing::Gzip, Packing::Zlib] {
        let path = dir.path().join(packing.name());
        std::fs::write(&path, Writer::new(Vec::new(), packing).finish().unwrap()).unwrap();
        assert_eq!(records(&path), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn a_plain_file_may_begin_like_a_packed_one() {
    // 0x1f 0x8b 0x08: a record of 559,903 bytes; 0x78 0x9c: one of 40,056.
    for length in [0x08_8b1f_usize, 0x9c78] {
        let mut writer = Writer::new(Vec::new(), Packing::Plain);
        writer.write(&vec![5; length]).unwrap();
        let bytes = writer.finish().unwrap();
        let mut reader = Reader::new(&bytes[..], "plain", true).unwrap();
        let mut record = Vec::new();
        assert_eq!(reader.packing(), Packing::Plain);
        assert_eq!(reader.next(&mut record).unwrap(), Some(0));
        assert_eq!(record.len(), length);
    }
}

#[test]
fn sequences_are_told_from_examples() {
    let records = records(&fixture("sequence.tfrecord"));
    let steps: Vec<(usize, usize, Option<i64>)> = records
        .iter()
        .map(|record| {
            let sequence = Sequence::parse(record).unwrap().unwrap();
            assert_eq!(sequence.lists[0].name, "tok");
            (sequence.lists[0].steps, sequence.lists[0].values, Example::parse(record).unwrap().int("n"))
        })
        .collect();
    assert_eq!(steps, [(0, 0, Some(0)), (1, 2, Some(1)), (3, 6, Some(3))]);
    assert!(Sequence::parse(&self::records(&fixture("plain.tfrecord"))[1]).unwrap().is_none());
}

#[test]
fn the_larger_files_of_tensorflow_are_read_where_they_are() {
    let Some(path) = shared("examples.expected.json") else {
        let why = "there is no folder shared/data/tfrecord beside the repository";
        return not_run("the_larger_files_of_tensorflow_are_read_where_they_are", why);
    };
    let expected: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for name in ["examples.tfrecord", "examples.tfrecord.gz", "examples.tfrecord.zlib"] {
        let records = records(&shared(name).unwrap());
        assert_eq!(records.len(), expected.as_array().unwrap().len());
        for (record, expected) in records.iter().zip(expected.as_array().unwrap()) {
            let example = Example::parse(record).unwrap();
            assert_eq!(example.len(), expected.as_object().unwrap().len());
            for (name, value) in expected.as_object().unwrap() {
                let feature = example.feature(name).unwrap();
                let strings = |list: &str| -> Vec<String> {
                    value[list].as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_string()).collect()
                };
                match feature.kind() {
                    FeatureKind::None => assert!(value.is_null()),
                    FeatureKind::Ints => {
                        assert_eq!(feature.ints().map(|i| i.to_string()).collect::<Vec<_>>(), strings("int64_list"));
                    }
                    FeatureKind::Floats => {
                        // Written as the shortest f64 of the f32: parsed and narrowed, the same bits.
                        let bits: Vec<u32> = strings("float_list")
                            .iter()
                            .map(|s| (s.parse::<f64>().unwrap() as f32).to_bits())
                            .collect();
                        assert_eq!(feature.floats().map(f32::to_bits).collect::<Vec<_>>(), bits);
                    }
                    FeatureKind::Bytes => {
                        let found: Vec<String> = feature.byte_strings().map(base64).collect();
                        assert_eq!(found, strings("bytes_list"));
                    }
                }
            }
        }
    }
    let lengths = records(&shared("raw_lengths.tfrecord").unwrap());
    assert!(lengths.iter().flat_map(|r| r.iter().enumerate()).all(|(k, &byte)| byte == (k % 251) as u8));
    assert_eq!(lengths.iter().map(Vec::len).max(), Some(65_537));
    assert!(records(&shared("empty.tfrecord").unwrap()).is_empty());
    assert_eq!(records(&shared("sequence_examples.tfrecord").unwrap()).len(), 3);
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .flat_map(|three| {
            let n = three.iter().fold(0u32, |n, &b| n << 8 | u32::from(b)) << (8 * (3 - three.len()));
            (0..4).map(move |i| match i <= three.len() {
                true => DIGITS[(n >> (18 - 6 * i) & 63) as usize] as char,
                false => '=',
            })
        })
        .collect()
}

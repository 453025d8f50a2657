//! Shards with and without an index, whole and damaged.

mod numbers;

use crate::example::{self, Value};
use crate::shards::{Encoding, FORMAT, Index, Records, Shard, ShardOptions, is_record_name};
use crate::tfrecord::{Packing, Writer};
use crate::{DataError, RecordError, ShardError};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const JPEG: &[u8] = &[0xff, 0xd8, 0xff, 0xe0];

impl Records {
    /// Every shard of one part (`train`, `validation`), or all where the folder has no index.
    fn open(path: &Path, part: Option<&str>, verify: bool) -> crate::Result<Self> {
        ShardOptions { part: part.map(String::from), verify, ..ShardOptions::default() }.records(path)
    }

    /// How many records of each class.
    fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.class_names().len()];
        let labels = (0..self.len()).map(|index| self.label(index)).filter(|&label| label != crate::UNLABELLED);
        labels.for_each(|label| counts[label as usize] += 1);
        counts
    }
}

fn image(n: usize) -> Vec<u8> {
    [JPEG, &vec![n as u8; n]].concat()
}

/// A record as ours are.
fn ours(n: usize, class: i64, label: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let features = [
        ("image", Value::Bytes(&[&image(n)])),
        ("class", Value::Ints(&[class])),
        ("label", Value::Bytes(&[label.as_bytes()])),
    ];
    example::write(&features, &mut out);
    out
}

fn file(path: &Path, records: &[Vec<u8>], packing: Packing) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), packing);
    records.iter().for_each(|record| writer.write(record).unwrap());
    let bytes = writer.finish().unwrap();
    fs::write(path, &bytes).unwrap();
    bytes
}

/// Two shards of 5 and 3 records, classes 0 to 2.
fn two(dir: &Path) -> [Vec<u8>; 2] {
    let record = |n: usize| ours(n, (n % 3) as i64, ["daisy", "rose", "tulip"][n % 3]);
    [
        file(&dir.join("a-00000-of-00002"), &(0..5).map(record).collect::<Vec<_>>(), Packing::Plain),
        file(&dir.join("b.tfrecord.gz"), &(5..8).map(record).collect::<Vec<_>>(), Packing::Gzip),
    ]
}

fn index(dir: &Path, bytes: &[Vec<u8>; 2]) -> Index {
    let sha = |bytes: &[u8]| {
        use sha2::{Digest, Sha256};
        paceline_system::hex(&Sha256::digest(bytes))
    };
    let shard = |file: &str, part: &str, records, bytes: &[u8]| Shard {
        file: file.into(),
        part: part.into(),
        records,
        bytes: bytes.len() as u64,
        sha256: sha(bytes),
        per_class: vec![],
    };
    let index = Index {
        format: FORMAT,
        encoding: "jpeg".into(),
        shape: [192, 192, 3],
        classes: ["daisy", "rose", "tulip", "unseen"].map(String::from).to_vec(),
        shards: vec![
            shard("a-00000-of-00002", "train", 5, &bytes[0]),
            shard("b.tfrecord.gz", "validation", 3, &bytes[1]),
        ],
        settings: BTreeMap::from([("quality".into(), 90.into())]),
        skipped: vec![],
    };
    index.write(dir).unwrap();
    index
}

fn refused(path: &Path, open: &ShardOptions) -> DataError {
    open.records(path).err().unwrap()
}

fn check(records: &Records, numbers: std::ops::Range<usize>) {
    assert_eq!(records.len(), numbers.len());
    for (i, n) in numbers.enumerate() {
        assert_eq!(records.image(i), image(n));
        assert_eq!(records.label(i) as usize, n % 3);
        assert_eq!(records.get(i), ours(n, (n % 3) as i64, ["daisy", "rose", "tulip"][n % 3]));
    }
}

#[test]
fn records_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Records>();
}

#[test]
fn a_folder_without_an_index_tells_its_classes() {
    let dir = tempfile::tempdir().unwrap();
    two(dir.path());
    let records = Records::open(dir.path(), None, true).unwrap();
    check(&records, 0..8);
    assert_eq!(records.class_names(), ["daisy", "rose", "tulip"]);
    assert_eq!(records.counts(), [3, 3, 2]);
    assert_eq!(records.layout().words(), "image from `image`, class from `class`, its name from `label`");
    let place = format!("b.tfrecord.gz record 1 (byte {})", ours(5, 2, "tulip").len() + 16);
    assert!(records.place(6).ends_with(&place), "{}", records.place(6));
    check(&Records::open(dir.path(), Some("train"), true).unwrap(), 0..8);
    let error = refused(dir.path(), &ShardOptions { part: Some("validation".into()), ..ShardOptions::default() });
    assert!(matches!(error, DataError::Shards(ShardError::NoPart { .. })));
    check(&Records::open(&dir.path().join("a-00000-of-00002"), None, true).unwrap(), 0..5);
}

#[test]
fn an_index_tells_parts_and_classes() {
    let dir = tempfile::tempdir().unwrap();
    let written = index(dir.path(), &two(dir.path()));
    assert_eq!(Index::read(dir.path()).unwrap().unwrap(), written);
    let open = |part: Option<&str>| Records::open(dir.path(), part, true).unwrap();
    check(&open(None), 0..8);
    check(&open(Some("train")), 0..5);
    check(&open(Some("validation")), 5..8);
    assert_eq!(open(None).class_names().len(), 4);
    let error = refused(dir.path(), &ShardOptions { part: Some("test".into()), ..ShardOptions::default() });
    assert!(error.to_string().contains("it has train, validation"), "{error}");
}

#[test]
fn an_index_that_is_wrong_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = two(dir.path());
    let good = index(dir.path(), &bytes);
    let refused = |index: &Index| {
        index.write(dir.path()).unwrap();
        match refused(dir.path(), &ShardOptions::default()) {
            DataError::Shards(error) => error,
            error => panic!("{error}"),
        }
    };
    let changed = |change: &dyn Fn(&mut Index)| {
        let mut index = good.clone();
        change(&mut index);
        index
    };
    assert!(matches!(refused(&changed(&|i| i.format = 2)), ShardError::NewerIndex { found: 2, .. }));
    assert!(matches!(refused(&changed(&|i| i.shards[0].bytes += 1)), ShardError::Size { .. }));
    assert!(matches!(refused(&changed(&|i| i.shards[1].records += 1)), ShardError::Count { found: 3, .. }));
    assert!(matches!(refused(&changed(&|i| i.classes.truncate(2))), ShardError::Class { class: 2, max: 1, .. }));
    for name in ["../b", "/etc/passwd", "", ".", "..", "a/b", "./a"] {
        assert!(
            matches!(refused(&changed(&|i| i.shards[0].file = name.into())), ShardError::FileName { .. }),
            "{name}"
        );
    }
    assert!(matches!(refused(&changed(&|i| i.shards.clear())), ShardError::NoShards { .. }));
    fs::write(dir.path().join("index.json"), b"{\"format\": 1, ").unwrap();
    let error = Records::open(dir.path(), None, true).err().unwrap();
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn digests_are_compared_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let mut index = index(dir.path(), &two(dir.path()));
    let open = ShardOptions { digests: true, ..ShardOptions::default() };
    check(&open.records(dir.path()).unwrap(), 0..8);
    index.shards[1].sha256 = "0".repeat(64);
    index.write(dir.path()).unwrap();
    check(&Records::open(dir.path(), None, true).unwrap(), 0..8);
    assert!(matches!(refused(dir.path(), &open), DataError::WrongDigest { .. }));
}

#[test]
fn other_names_of_the_same_features_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tfrecord");
    let write = |records: &[&[(&str, Value<'_>)]]| {
        let records: Vec<Vec<u8>> = records
            .iter()
            .map(|features| {
                let mut out = Vec::new();
                example::write(features, &mut out);
                out
            })
            .collect();
        file(&path, &records, Packing::Plain);
        Records::open(&path, None, true)
    };
    let jpeg = Value::Bytes(&[JPEG]);
    let records = write(&[
        &[
            ("image/encoded", jpeg),
            ("image/class/label", Value::Ints(&[2])),
            ("image/class/text", Value::Bytes(&[b"owl"])),
        ],
        &[
            ("image/encoded", jpeg),
            ("image/class/label", Value::Ints(&[1])),
            ("image/class/text", Value::Bytes(&[b"elk"])),
        ],
    ])
    .unwrap();
    assert_eq!(records.class_names(), ["0", "elk", "owl"]);
    assert_eq!((records.label(0), records.label(1)), (2, 1));

    // As TensorFlow Datasets writes: `label` is the number.
    let records = write(&[&[("image", jpeg), ("label", Value::Ints(&[1]))]]).unwrap();
    assert_eq!(records.class_names(), ["0", "1"]);

    // Names alone.
    let of = |name: &'static [u8]| name;
    let records = write(&[
        &[("image", jpeg), ("label", Value::Bytes(&[of(b"rose")]))],
        &[("image", jpeg), ("label", Value::Bytes(&[of(b"daisy")]))],
    ])
    .unwrap();
    assert_eq!(records.class_names(), ["daisy", "rose"]);
    assert_eq!((records.label(0), records.label(1)), (1, 0));

    // Raw pixels with their shape.
    let pixels = [7; 24];
    let raw: &[(&str, Value<'_>)] = &[
        ("height", Value::Ints(&[2])),
        ("width", Value::Ints(&[4])),
        ("depth", Value::Ints(&[3])),
        ("label", Value::Ints(&[0])),
        ("image_raw", Value::Bytes(&[&pixels])),
    ];
    let records = write(&[raw]).unwrap();
    assert_eq!(records.encoding(), Encoding::Raw([2, 4, 3]));
    assert_eq!(records.image(0), pixels);
    let short: Vec<(&str, Value<'_>)> =
        raw.iter().map(|&(n, v)| (n, if n == "image_raw" { Value::Bytes(&[b"xyz"]) } else { v })).collect();
    assert!(matches!(write(&[raw, &short]), Err(DataError::Shards(ShardError::RawSize { found: 3, .. }))));

    let wrong = |records: &[&[(&str, Value<'_>)]]| match write(records).err().unwrap() {
        DataError::Shards(error) => error,
        error => panic!("{error}"),
    };
    assert!(matches!(wrong(&[&[("text", Value::Bytes(&[b"hello"]))]]), ShardError::NoImage { .. }));
    assert!(matches!(wrong(&[&[("image", jpeg)]]), ShardError::MissingClass { .. }));
    assert!(matches!(wrong(&[&[("image", jpeg), ("class", Value::Ints(&[-1]))]]), ShardError::Class { class: -1, .. }));
    assert!(matches!(wrong(&[&[("image", jpeg), ("class", Value::Ints(&[1 << 40]))]]), ShardError::Class { .. }));
    let named = |class, name| [("image", jpeg), ("class", Value::Ints(class)), ("label", Value::Bytes(name))];
    assert!(matches!(wrong(&[&named(&[0], &[b"a"]), &named(&[0], &[b"b"])]), ShardError::Names { class: 0, .. }));
    assert!(matches!(wrong(&[&named(&[0], &[b"\xff"])]), ShardError::ClassName { .. }));
}

#[test]
fn bad_records_are_left_out_up_to_a_limit_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = two(dir.path());
    let path = dir.path().join("a-00000-of-00002");
    let starts: Vec<usize> = {
        let file = crate::tfrecord::File::open(&path, true).unwrap();
        (0..file.len()).map(|i| file.offset(i) as usize).collect()
    };
    let open = |skip_bad| ShardOptions { skip_bad, ..ShardOptions::default() };
    let left = |records: &Records| (0..records.len()).map(|i| records.image(i).len() - 4).collect::<Vec<_>>();

    // Data of record 1, length of record 3.
    let mut damaged = bytes[0].clone();
    damaged[starts[1] + 20] ^= 1;
    damaged[starts[3]] ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert!(
        matches!(refused(dir.path(), &open(0)), DataError::Record(RecordError::DataChecksum { offset, .. }) if offset == starts[1] as u64)
    );
    assert!(
        matches!(refused(dir.path(), &open(1)), DataError::Record(RecordError::LengthChecksum { offset, .. }) if offset == starts[3] as u64)
    );
    let records = open(2).records(dir.path()).unwrap();
    assert_eq!(left(&records), [0, 2, 4, 5, 6, 7]);
    assert_eq!(records.skipped().list().len(), 2);
    assert!(records.skipped().list()[0].contains(&format!("byte {}", starts[1])));

    // The limit is for all files together.
    let garbage = [ours(5, 2, "tulip"), b"no example".to_vec(), ours(7, 1, "rose")];
    file(&dir.path().join("b.tfrecord.gz"), &garbage, Packing::Gzip);
    assert!(matches!(refused(dir.path(), &open(2)), DataError::Example { .. }));
    let records = open(3).records(dir.path()).unwrap();
    assert_eq!(left(&records), [0, 2, 4, 5, 7]);
    assert!(records.skipped().list()[2].contains("b.tfrecord.gz record 1 (byte "));

    // Truncated: the rest is left out, as one.
    fs::write(&path, &bytes[0][..bytes[0].len() - 1]).unwrap();
    assert_eq!(left(&open(2).records(dir.path()).unwrap()), [0, 1, 2, 3, 5, 7]);
}

#[test]
fn nothing_to_read_is_said() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(refused(dir.path(), &ShardOptions::default()), DataError::Shards(ShardError::NoShards { .. })));
    fs::write(dir.path().join("a.tfrec"), b"").unwrap();
    assert!(matches!(
        refused(dir.path(), &ShardOptions::default()),
        DataError::Shards(ShardError::Empty { files: 1, .. })
    ));
    assert!(matches!(refused(&dir.path().join("b"), &ShardOptions::default()), DataError::Io { .. }));
}

#[test]
fn files_of_records_are_known_by_their_names() {
    for name in ["a.tfrec", "a.tfrecord", "A.TFRecords", "a.tfrecord.gz", "train-00000-of-01024", "x-1-of-2.gz"] {
        assert!(is_record_name(name), "{name}");
    }
    for name in ["a.txt", "index.json", "index.tsv", "one-of-two", "a-of-2", "x-1-of-", "tfrecord"] {
        assert!(!is_record_name(name), "{name}");
    }
}

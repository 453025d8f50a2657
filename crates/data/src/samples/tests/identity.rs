//! What stands for a set is its content: sets that differ in any pixel differ, copies do not.

use crate::example::{self, Value};
use crate::photos::Photos;
use crate::shards::{FORMAT, Index, Shard, ShardOptions};
use crate::tfrecord::{Packing, Writer};
use crate::{FileImages, Labelled, RecordImages, Source, Subset, fingerprint_version};
use paceline_image::{Chroma, Encoder, Fit, Pixels};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const SIDE: usize = 24;

/// A grey ramp within a black border of four pixels, or its inversion: the first and last 32 bytes are equal, and more.
fn raw(number: usize, inverted: bool) -> Vec<u8> {
    let within = |at: usize| (4..SIDE - 4).contains(&at);
    let pixel = |row: usize, column: usize| match (row * 9 + column * 5 + number) as u8 {
        _ if !within(row) || !within(column) => 0,
        value if inverted => 255 - value,
        value => value,
    };
    (0..SIDE * SIDE).map(|at| pixel(at / SIDE, at % SIDE)).collect()
}

/// The bytes of a shard of eight raw images.
fn shard(first: usize, image: impl Fn(usize) -> Vec<u8>, packing: Packing) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), packing);
    for number in first..first + 8 {
        let (image, mut bytes) = (image(number), Vec::new());
        let shape = [SIDE as i64, SIDE as i64, 1];
        let features = [
            ("image", Value::Bytes(&[&image])),
            ("class", Value::Ints(&[(number % 2) as i64])),
            ("shape", Value::Ints(&shape)),
        ];
        example::write(&features, &mut bytes);
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap()
}

fn write_set(folder: &Path, inverted: bool, packing: Packing) {
    fs::create_dir_all(folder).unwrap();
    for part in 0..2 {
        let bytes = shard(8 * part, |number| raw(number, inverted), packing);
        fs::write(folder.join(format!("part-{part}.tfrec")), bytes).unwrap();
    }
}

/// An index that is true of what lies in the folder now.
fn write_index(folder: &Path) {
    let shards = (0..2).map(|part| {
        let file = format!("part-{part}.tfrec");
        let bytes = fs::read(folder.join(&file)).unwrap();
        let sha256 = paceline_system::hex(&Sha256::digest(&bytes));
        Shard { file, part: "train".into(), records: 8, bytes: bytes.len() as u64, sha256, per_class: vec![4, 4] }
    });
    let index = Index {
        format: FORMAT,
        encoding: "raw".into(),
        shape: [SIDE, SIDE, 1],
        classes: vec!["even".into(), "odd".into()],
        shards: shards.collect(),
        settings: BTreeMap::new(),
        skipped: Vec::new(),
    };
    index.write(folder).unwrap();
}

fn records_of(folder: &Path, verify: bool) -> RecordImages {
    let records = ShardOptions { verify, ..ShardOptions::default() }.records(folder).unwrap();
    RecordImages::new(records, None, Fit::Crop).unwrap()
}

fn fingerprint(folder: &Path) -> String {
    records_of(folder, true).fingerprint()
}

#[test]
fn records_that_differ_only_within_their_borders_differ() {
    let temp = tempfile::tempdir().unwrap();
    for packing in [Packing::Plain, Packing::Gzip] {
        let (a, b) = (temp.path().join(format!("a{packing:?}")), temp.path().join(format!("b{packing:?}")));
        write_set(&a, false, packing);
        write_set(&b, true, packing);
        let (one, two) = (records_of(&a, true), records_of(&b, true));
        assert!(
            (0..16)
                .all(|i| one.label(i) == two.label(i) && one.records().image(i)[..32] == two.records().image(i)[..32])
        );
        assert_ne!(one.fingerprint(), two.fingerprint(), "{packing:?}");
        assert_ne!(one.cache_key(), two.cache_key());
        // One byte of one record.
        let copy = temp.path().join(format!("c{packing:?}"));
        write_set(&copy, false, packing);
        assert_eq!(fingerprint(&copy), one.fingerprint(), "a copy is the same");
        let changed = |number: usize| {
            let mut image = raw(number, false);
            image[200] ^= u8::from(number == 11);
            image
        };
        fs::write(copy.join("part-1.tfrec"), shard(8, changed, packing)).unwrap();
        assert_ne!(fingerprint(&copy), one.fingerprint());
    }
}

#[test]
fn an_index_beside_replaced_shards_does_not_lend_its_identity() {
    let temp = tempfile::tempdir().unwrap();
    let (a, b) = (temp.path().join("a"), temp.path().join("b"));
    for (folder, inverted) in [(&a, false), (&b, true)] {
        write_set(folder, inverted, Packing::Plain);
        write_index(folder);
    }
    let (one, two) = (fingerprint(&a), fingerprint(&b));
    assert_ne!(one, two);
    // The index of a, the shards of b: as long, as many records of the same classes.
    fs::copy(a.join("index.json"), b.join("index.json")).unwrap();
    let mixed = fingerprint(&b);
    assert!(mixed != one && mixed != two);
    fs::copy(b.join("part-0.tfrec"), a.join("part-0.tfrec")).unwrap();
    assert_ne!(fingerprint(&a), one);
}

#[test]
fn checksums_that_nobody_compared_do_not_name_a_cache() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("set");
    write_set(&folder, false, Packing::Plain);
    let (checked, unchecked) = (records_of(&folder, true), records_of(&folder, false));
    assert_eq!(checked.fingerprint(), unchecked.fingerprint(), "data.verify does not make other data");
    // A writer that leaves the checksums at zero, and a pixel that no piece covers.
    let unsummed = |value: u8| {
        let image = |number| {
            let mut image = raw(number, false);
            image[150] = value;
            image
        };
        let mut bytes = shard(0, image, Packing::Plain);
        let mut at = 0;
        while at < bytes.len() {
            let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
            bytes[at + 12 + length..at + 16 + length].fill(0);
            at += 16 + length;
        }
        bytes
    };
    fs::remove_file(folder.join("part-1.tfrec")).unwrap();
    let place = |value| {
        fs::write(folder.join("new"), unsummed(value)).unwrap();
        fs::rename(folder.join("new"), folder.join("part-0.tfrec")).unwrap();
        records_of(&folder, false).cache_key()
    };
    assert_ne!(place(1), place(2));
}

/// A JPEG of 16 × 16 pixels, with bytes behind its end up to `length`.
fn photo(number: usize, length: usize) -> Vec<u8> {
    let data = (0..16 * 16 * 3).map(|at| (number * 40 + at) as u8).collect();
    let mut bytes = Vec::new();
    Encoder::new(90, Chroma::Full).encode(&Pixels { width: 16, height: 16, channels: 3, data }, &mut bytes).unwrap();
    bytes.resize(length, 7);
    bytes
}

fn photos_of(folder: &Path) -> FileImages {
    FileImages::new(Photos::list(folder).unwrap(), None, Fit::Crop).unwrap()
}

/// Writes photos of a length; the byte `at` of one is another if asked for.
fn write_photos(folder: &Path, length: usize, changed: Option<usize>) {
    for number in 0..6 {
        let class = folder.join(["day", "night"][number % 2]);
        fs::create_dir_all(&class).unwrap();
        let mut bytes = photo(number, length);
        if let (3, Some(at)) = (number, changed) {
            bytes[at] ^= 0x55;
        }
        // Beside the old one, so that it gets an inode of its own.
        fs::write(folder.join("new"), bytes).unwrap();
        fs::rename(folder.join("new"), class.join(format!("{number}.jpg"))).unwrap();
    }
}

#[test]
fn photos_of_the_same_names_and_lengths_differ_by_their_bytes() {
    let temp = tempfile::tempdir().unwrap();
    // Read whole; and of those that are not, both ends and blocks between.
    for (length, seen) in [(4_000, vec![10, 2_000, 3_999]), (100_000, vec![10, 33_000, 66_000, 99_999])] {
        let folder = temp.path().join(length.to_string());
        write_photos(&folder, length, None);
        let plain = photos_of(&folder).fingerprint();
        for at in seen {
            write_photos(&folder, length, Some(at));
            assert_ne!(photos_of(&folder).fingerprint(), plain, "byte {at} of {length}");
        }
        write_photos(&folder, length, None);
        assert_eq!(photos_of(&folder).fingerprint(), plain);
    }
}

#[test]
fn a_change_between_the_blocks_makes_another_cache_and_a_copy_the_same_set() {
    let temp = tempfile::tempdir().unwrap();
    let (folder, copy) = (temp.path().join("photos"), temp.path().join("copy"));
    write_photos(&folder, 100_000, None);
    let (before, again) = (photos_of(&folder), photos_of(&folder));
    assert_eq!((before.fingerprint(), before.cache_key()), (again.fingerprint(), again.cache_key()));
    assert_ne!(before.fingerprint(), before.cache_key());
    write_photos(&folder, 100_000, Some(20_000));
    let after = photos_of(&folder);
    assert_ne!(after.cache_key(), before.cache_key(), "the middle of a file changed");
    // Elsewhere: a resume and other hosts see the same set, a cache does not rely on it.
    write_photos(&copy, 100_000, None);
    let elsewhere = photos_of(&copy);
    assert_eq!(elsewhere.fingerprint(), before.fingerprint());
    assert_ne!(elsewhere.cache_key(), before.cache_key());
    // A choice of a set is another in both.
    let choice = |set: FileImages| Subset::new(Arc::new(set), vec![0, 1]).unwrap();
    let (a, b) = (choice(elsewhere), choice(before));
    assert_eq!(a.fingerprint(), b.fingerprint());
    assert_ne!(a.cache_key(), b.cache_key());
}

#[test]
fn a_pipe_named_like_a_photo_keeps_nobody_waiting() {
    let temp = tempfile::tempdir().unwrap();
    write_photos(temp.path(), 4_000, None);
    let plain = photos_of(temp.path());
    let expected = plain.fingerprint();
    let listed = photos_of(temp.path());
    fs::remove_file(temp.path().join("day/0.jpg")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(temp.path().join("day/0.jpg")).status().unwrap().success());
    assert_ne!(listed.fingerprint(), expected);
}

#[test]
fn fingerprints_say_by_which_rule_they_were_made() {
    let temp = tempfile::tempdir().unwrap();
    write_set(temp.path(), false, Packing::Plain);
    let text = fingerprint(temp.path());
    let digits = text.strip_prefix("2-").unwrap();
    assert!(digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{text}");
    assert_eq!(fingerprint_version(&text), 2);
    assert_eq!(fingerprint_version("0123456789abcdef"), 1);
    assert_eq!(fingerprint_version("3-x"), 3);
}

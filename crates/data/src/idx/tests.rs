//! The IDX reader at its boundary: round trips, files of every wrong kind, and headers that lie.

use crate::idx::{self, Element, Idx, Packing};
use crate::{DataError, ImageSet};
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use std::io::Write;
use std::path::Path;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

/// A header and `content` zero bytes.
fn file(magic: [u8; 4], dims: &[u32], content: usize) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    dims.iter().for_each(|d| bytes.extend(d.to_be_bytes()));
    bytes.resize(bytes.len() + content, 0);
    bytes
}

const U8_1: [u8; 4] = [0, 0, 8, 1];
const U8_3: [u8; 4] = [0, 0, 8, 3];

#[test]
fn attacks_are_refused_each_by_its_own_error() {
    let whole = file(U8_3, &[2, 3, 4], 24);
    let mut bad_checksum = gzip(&whole);
    let n = bad_checksum.len();
    bad_checksum[n - 6] ^= 1;
    let mut garbage_after = gzip(&whole);
    garbage_after.extend(b"garbage");
    let cut = |bytes: &[u8], n: usize| bytes[..n].to_vec();

    #[rustfmt::skip]
    let table: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty",                     vec![],                                        "begins with nothing"),
        ("three bytes",               vec![0, 0, 8],                                 "begins with 00 00 08"),
        ("text",                      b"<html>".to_vec(),                            "not an IDX file: it begins with 3c 68 74 6d"),
        ("png",                       b"\x89PNG\r\n".to_vec(),                       "not an IDX file"),
        ("little endian",             file([3, 8, 0, 0], &[1], 1),                   "not an IDX file"),
        ("unknown type",              file([0, 0, 0x0A, 1], &[1], 1),                "unsupported element type 0x0a (unknown)"),
        ("floats",                    file([0, 0, 0x0D, 1], &[1], 4),                "unsupported element type 0x0d (32-bit float)"),
        ("no dimensions",             cut(&whole, 4),                                "needs 16 bytes (unpacked) and it has 4"),
        ("half a dimension",          cut(&whole, 9),                                "needs 16 bytes (unpacked) and it has 9"),
        ("no content",                cut(&whole, 16),                               "needs 40 bytes (unpacked) and it has 16"),
        ("one byte short",            cut(&whole, 39),                               "needs 40 bytes (unpacked) and it has 39"),
        ("one byte long",             file(U8_3, &[2, 3, 4], 25),                    "bytes after the end: its header needs 40"),
        ("terabytes promised",        file(U8_3, &[u32::MAX, 1000, 1], 10),          "and it has 26"),
        ("terabytes promised, gz",    gzip(&file(U8_3, &[u32::MAX, 1000, 1], 10)),   "and it has 26"),
        ("overflowing product",       file(U8_3, &[u32::MAX; 3], 10),                "more than this machine can address"),
        ("255 dimensions",            file([0, 0, 8, 255], &[u32::MAX; 255], 0),     "more than this machine can address"),
        ("zero hides an overflow",    file([0, 0, 8, 4], &[u32::MAX, u32::MAX, u32::MAX, 0], 1), "bytes after the end"),
        ("scalar without value",      file([0, 0, 8, 0], &[], 0),                    "needs 5 bytes (unpacked) and it has 4"),
        ("gz of nothing",             gzip(b""),                                     "begins with nothing"),
        ("gz one byte short",         gzip(&whole[..39]),                            "needs 40 bytes (unpacked) and it has 39"),
        ("gz one byte long",          gzip(&file(U8_3, &[2, 3, 4], 25)),             "bytes after the end"),
        ("gz magic alone",            vec![0x1f, 0x8b],                              "damaged gzip data"),
        ("gz cut",                    cut(&gzip(&whole), 15),                        "damaged gzip data"),
        ("gz without its trailer",    cut(&gzip(&whole), n - 8),                     "damaged gzip data"),
        ("gz with a wrong checksum",  bad_checksum,                                  "damaged gzip data"),
        ("gz with garbage after",     garbage_after,                                 "damaged gzip data"),
        ("gz within gz",              gzip(&gzip(&whole)),                           "begins with 1f 8b"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (what, bytes, expected) in table {
        let error = idx::decode(&bytes, "attack.idx").expect_err(what).to_string();
        assert!(error.starts_with("attack.idx: ") && error.contains(expected), "{what}: {error}");
        // From a file: the same, whatever the name says.
        let path = dir.path().join("attack.gz");
        std::fs::write(&path, &bytes).unwrap();
        let error = idx::read(&path).expect_err(what).to_string();
        assert!(error.contains("attack.gz") && error.contains(expected), "{what}: {error}");
    }
}

#[test]
fn a_bomb_stops_at_what_the_header_promises() {
    // 64 MiB of zeros behind a header for ten bytes: reading must stop after eleven, so this test is quick.
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(&file(U8_1, &[10], 0)).unwrap();
    let block = vec![0; 1 << 20];
    for _ in 0..64 {
        gz.write_all(&block).unwrap();
    }
    let bomb = gz.finish().unwrap();
    assert!(matches!(idx::decode(&bomb, "bomb"), Err(DataError::TrailingBytes { expected: 18, .. })));
}

#[test]
fn missing_file_and_folder_are_named() {
    let error = idx::read(Path::new("/nowhere/at/all")).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    let base: paceline_base::Error = error.into();
    assert_eq!(base.kind(), paceline_base::Kind::User);
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(idx::read(dir.path()), Err(DataError::Io { .. })));
}

#[test]
fn headers_of_every_type_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    for element in [Element::U8, Element::I8, Element::I16, Element::I32, Element::F32, Element::F64] {
        assert_eq!(Element::from_code(element.code()), Some(element));
        std::fs::write(&path, gzip(&file([0, 0, element.code(), 2], &[3, 5], 15 * element.size()))).unwrap();
        let header = idx::read_header(&path).unwrap();
        assert_eq!((header.element, header.dims, header.gzip), (element, vec![3, 5], true));
    }
}

#[test]
fn images_and_labels_must_fit() {
    let array = |dims: &[usize], value: u8| Idx::new(dims.to_vec(), vec![value; dims.iter().product()]).unwrap();
    let names = |n: usize| (0..n).map(|c| c.to_string()).collect::<Vec<_>>();
    let join = |images, labels, classes| ImageSet::new(images, "images", labels, "labels", names(classes));

    assert!(join(array(&[4, 2, 2], 0), array(&[4], 1), 2).is_ok());
    assert!(join(array(&[4, 2, 2, 3], 0), array(&[4], 1), 2).is_ok());
    assert!(matches!(join(array(&[4], 0), array(&[4], 0), 2), Err(DataError::WrongRank { found: 1, .. })));
    assert!(matches!(join(array(&[4, 2, 2], 0), array(&[4, 1], 0), 2), Err(DataError::WrongRank { found: 2, .. })));
    assert!(matches!(join(array(&[0, 2, 2], 0), array(&[0], 0), 2), Err(DataError::Empty { .. })));
    assert!(matches!(join(array(&[4, 0, 2], 0), array(&[4], 0), 2), Err(DataError::Empty { .. })));
    assert!(matches!(
        join(array(&[4, 2, 2], 0), array(&[5], 0), 2),
        Err(DataError::CountMismatch { images: 4, labels: 5, .. })
    ));
    let labels = Idx::new(vec![4], vec![0, 1, 2, 1]).unwrap();
    let error = join(array(&[4, 2, 2], 0), labels, 2).unwrap_err().to_string();
    assert_eq!(
        error,
        "labels: label 2 at index 2 is out of range: the set has 2 classes (0 to 1); correct the label or the list of classes"
    );
    assert!(matches!(Idx::new(vec![2, 3], vec![0; 5]), Err(DataError::LengthMismatch { expected: 6, found: 5, .. })));
}

fn arrays() -> impl Strategy<Value = Idx> {
    prop::collection::vec(0usize..6, 0..5).prop_flat_map(|dims| {
        let n = dims.iter().product::<usize>();
        prop::collection::vec(any::<u8>(), n).prop_map(move |data| Idx::new(dims.clone(), data).unwrap())
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(array in arrays(), gz in any::<bool>()) {
        let mut bytes = Vec::new();
        array.write_to(&mut bytes, if gz { Packing::Gzip } else { Packing::Plain }).unwrap();
        prop_assert_eq!(bytes.starts_with(&[0x1f, 0x8b]), gz);
        prop_assert_eq!(idx::decode(&bytes, "memory").unwrap(), array);
    }

    #[test]
    fn every_prefix_is_refused(array in arrays(), gz in any::<bool>(), at in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        array.write_to(&mut bytes, if gz { Packing::Gzip } else { Packing::Plain }).unwrap();
        bytes.truncate(at.index(bytes.len()));
        prop_assert!(idx::decode(&bytes, "memory").is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64), head in 0usize..3) {
        let mut file = [&[][..], &[0, 0, 8], &[0x1f, 0x8b, 8]][head].to_vec();
        file.extend(bytes);
        let _ = idx::decode(&file, "memory");
    }
}

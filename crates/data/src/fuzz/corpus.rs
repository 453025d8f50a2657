//! Valid inputs, small and of every kind, and how their checksums are made right again.

use crate::example::{self, Value};
use crate::idx::{self, Idx};
use crate::tfrecord::{Packing, Writer, masked_crc};
use paceline_image::{Chroma, Encoder, Pixels, encode_png};

fn file(records: &[Vec<u8>], packing: Packing) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), packing);
    records.iter().for_each(|record| writer.write(record).expect("memory"));
    writer.finish().expect("memory")
}

/// Files of records that are not packed.
pub(crate) fn plain_records() -> Vec<Vec<u8>> {
    let short: Vec<Vec<u8>> = (0..6).map(|n| vec![n; usize::from(n) * 5]).collect();
    vec![file(&short, Packing::Plain), file(&examples(), Packing::Plain), file(&[vec![]], Packing::Plain)]
}

/// Files of records, packed and not.
pub(crate) fn records() -> Vec<Vec<u8>> {
    let packed = |packing| file(&examples(), packing);
    [plain_records(), vec![packed(Packing::Gzip), packed(Packing::Zlib)]].concat()
}

/// Makes the checksums of plain records right, as far as the lengths go.
pub(crate) fn repair_records(bytes: &mut [u8]) {
    let mut at = 0;
    while bytes.len() - at >= 12 {
        let length = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let sum = masked_crc(&bytes[at..at + 8]);
        bytes[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
        let left = (bytes.len() - at - 12) as u64;
        if length.saturating_add(4) > left {
            return;
        }
        let end = at + 12 + length as usize;
        let sum = masked_crc(&bytes[at + 12..end]);
        bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        at = end + 4;
    }
}

/// Examples and a SequenceExample.
pub(crate) fn examples() -> Vec<Vec<u8>> {
    let write = |features: &[(&str, Value<'_>)]| {
        let mut out = Vec::new();
        example::write(features, &mut out);
        out
    };
    vec![
        write(&[
            ("image", Value::Bytes(&[&[0xff, 0xd8, 0xff, 0xe0, 1, 2, 3]])),
            ("class", Value::Ints(&[3])),
            ("label", Value::Bytes(&[b"rose"])),
            ("size", Value::Ints(&[192, 192])),
            ("one_hot_class", Value::Floats(&[0.0, 1.0, 0.0])),
        ]),
        write(&[("i", Value::Ints(&[i64::MIN, -1, 0, 300])), ("b", Value::Bytes(&[])), ("f", Value::Floats(&[f32::NAN]))]),
        // Unpacked numbers, a list in two pieces, an unknown field.
        b"\x0a\x1a\x0a\x0b\x0a\x01a\x12\x06\x1a\x04\x08\x05\x08\x06\x0a\x0b\x0a\x01b\x12\x06\x12\x04\x7a\x02hi".to_vec(),
        b"\x0a\x10\x0a\x0e\x0a\x01f\x12\x09\x12\x05\x0d\0\0\x80\x3f\x12\0".to_vec(),
        b"\x0a\x0c\x0a\x0a\x0a\x01n\x12\x05\x1a\x03\x0a\x01\x01\x12\x11\x0a\x0f\x0a\x03tok\x12\x08\x0a\x06\x1a\x04\x0a\x02\0\x01".to_vec(),
    ]
}

/// IDX files.
pub(crate) fn idx() -> Vec<Vec<u8>> {
    let write = |dims: &[usize], packing| {
        let array = Idx::new(dims.to_vec(), vec![7; dims.iter().product()]).expect("the right length");
        let mut out = Vec::new();
        array.write_to(&mut out, packing).expect("memory");
        out
    };
    vec![
        write(&[3, 4, 5], idx::Packing::Plain),
        write(&[10], idx::Packing::Plain),
        write(&[3, 4, 5], idx::Packing::Gzip),
        write(&[0, 9], idx::Packing::Plain),
    ]
}

/// Indexes of shards.
pub(crate) fn index() -> Vec<Vec<u8>> {
    let full = r#"{"format": 1, "encoding": "jpeg", "shape": [192, 192, 3], "classes": ["a", "b"],
        "shards": [{"file": "train-00000-of-00001.tfrec", "part": "train", "records": 3, "bytes": 99,
        "sha256": "00ff", "per_class": [1, 2]}], "settings": {"size": 192, "fit": "crop", "deep": [{"x": null}]},
        "skipped": ["a/1.jpg: empty"]}"#;
    let least = r#"{"format":1,"encoding":"raw","shape":[1,1,1],"classes":[],"shards":[],"settings":{}}"#;
    // Deeper than a parser that recurses can bear.
    let deep = format!(r#"{{"format":1,"settings":{}{}"#, "[".repeat(20_000), "]".repeat(20_000));
    vec![full.into(), least.into(), deep.into()]
}

/// Tables of path and label.
pub(crate) fn tables() -> Vec<Vec<u8>> {
    vec![
        b"a/1.jpg,cat\n\"b, c.jpg\",dog\r\n".to_vec(),
        b"\xef\xbb\xbfpath,label\r\n\"quo\"\"te.jpg\",\"two\nlines\"\r\n\r\nx,y".to_vec(),
        b"label\tsplit\tfile\ncat\ttrain\t1.png\n".to_vec(),
        b"caf\xe9.jpg,x\n".to_vec(),
    ]
}

/// Csv files of values.
pub(crate) fn values() -> Vec<Vec<u8>> {
    vec![
        b"a,b,y\n1,-2.5,0.5\n3,1e-3,7\n".to_vec(),
        b"\xef\xbb\xbf\"items\",y\r\n3 17 9,\"red, or not\"\r\n\r\n,blue\r\n4294967296,red".to_vec(),
        b"x,y\n1,0\n2,1\n3,2\n".to_vec(),
    ]
}

/// Extensions of the fixtures that are taken.
const KINDS: [&str; 5] = ["jpg", "png", "webp", "bmp", "gif"];

/// Image files: our own, and those of other programs among the fixtures of the image crate.
pub(crate) fn images() -> Vec<Vec<u8>> {
    let picture = |width: usize, height: usize, channels: usize| {
        let data = (0..width * height * channels).map(|i| (i * 37 / (1 + i % 5)) as u8).collect();
        Pixels { width, height, channels, data }
    };
    let jpeg = |pixels: &Pixels, chroma| {
        let mut out = Vec::new();
        Encoder::new(80, chroma).encode(pixels, &mut out).expect("an image");
        out
    };
    let mut all = vec![
        jpeg(&picture(33, 18, 3), Chroma::Half),
        jpeg(&picture(16, 16, 3), Chroma::Full),
        jpeg(&picture(9, 30, 1), Chroma::Full),
        encode_png(&picture(13, 7, 3)).expect("an image"),
        encode_png(&picture(8, 8, 1)).expect("an image"),
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../image/tests/fixtures");
    let mut others: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    others.sort();
    let others = others.iter().filter(|path| KINDS.iter().any(|kind| path.extension().is_some_and(|e| e == *kind)));
    all.extend(others.filter_map(|path| std::fs::read(path).ok()).filter(|bytes| bytes.len() < 16_384));
    all
}

/// Makes the checksums of the chunks of a PNG right.
pub(crate) fn repair_png(bytes: &mut [u8]) {
    let mut at = 8;
    while bytes.starts_with(b"\x89PNG") && bytes.len() >= at + 12 {
        let length = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
        let Some(end) = at.checked_add(8 + length).filter(|&end| end + 4 <= bytes.len()) else { return };
        let mut sum = flate2::Crc::new();
        sum.update(&bytes[at + 4..end]);
        bytes[end..end + 4].copy_from_slice(&sum.sum().to_be_bytes());
        at = end + 4;
    }
}

//! Fuzzing of everything that reads a file. Two seconds for each target here; as long as you like by hand:
//!
//!     PACELINE_FUZZ_SECONDS=600 cargo test --release -p paceline-data --lib fuzz -- --nocapture
//!
//! No input may panic, overflow the stack or take more memory than a bound that grows with its length.

mod corpus;
mod engine;
pub(crate) mod memory;

use self::engine::Target;
use crate::example::{self, Example, FeatureKind, Sequence, Value};
use crate::shards::Index;
use crate::tfrecord::{Contents, File, Limits, Packing, Reader, Writer};
use crate::{DataError, RecordError, csv, idx, photos};
use paceline_image::{Colour, Decoder, Fit, ImageError, Pixels, Resizer, Target as ImageTarget};

const LIMITS: Limits = Limits { record: 8 << 20, unpacked: 16 << 20 };

fn no_repair(_: &mut [u8]) {}

/// The kind of an error: its variant.
fn kind(error: &DataError) -> String {
    format!("{error:?}").chars().take_while(|&c| c != '{').collect()
}

/// How many, roughly: exact numbers would make every input a new behaviour.
fn about(n: usize) -> u32 {
    usize::BITS - n.leading_zeros()
}

#[test]
fn record_stream() {
    let run = |input: &[u8]| {
        let mut said = String::new();
        for verify in [true, false] {
            let mut reader = match Reader::with_limits(input, "f", verify, LIMITS) {
                Ok(reader) => reader,
                Err(error) => return kind(&error),
            };
            let (mut record, mut count) = (Vec::new(), 0);
            loop {
                match reader.next(&mut record) {
                    Ok(Some(_)) => count += 1,
                    Ok(None) => break,
                    Err(error) => {
                        said += &kind(&error);
                        if !matches!(error, DataError::Record(RecordError::DataChecksum { .. })) {
                            break;
                        }
                    }
                }
            }
            said += &format!("{:?} {}", reader.packing(), about(count));
        }
        said.chars().take(400).collect()
    };
    Target { name: "record_stream", corpus: corpus::records(), repair: corpus::repair_records, run }.fuzz();
}

#[test]
fn record_file() {
    let run = |input: &[u8]| {
        let strict = Contents::decode(input, "f", &LIMITS, false).and_then(|c| File::index(c, true, None));
        // To the end, over all damage.
        let contents = match Contents::decode(input, "f", &LIMITS, true) {
            Ok(contents) => contents,
            Err(error) => return kind(&error),
        };
        let (mut good, mut bad) = (0usize, 0usize);
        for record in contents.scan(true) {
            match record {
                Ok((offset, record)) => {
                    assert!(offset as usize + 16 + record.len() <= contents.bytes().len());
                    good += 1;
                }
                Err(_) => bad += 1,
            }
        }
        assert_eq!(strict.is_ok(), bad == 0, "{:?}", strict.err());
        if let Ok(file) = &strict {
            assert_eq!(file.len(), good);
        }
        let strict = strict.map_or_else(|e| kind(&e), |_| String::new());
        format!("{strict} {:?} {} {}", contents.packing(), about(good), about(bad))
    };
    Target { name: "record_file", corpus: corpus::records(), repair: corpus::repair_records, run }.fuzz();
}

#[test]
fn example() {
    let run = |input: &[u8]| {
        let sequence = Sequence::parse(input);
        let example = match Example::parse(input) {
            Ok(example) => example,
            Err(error) => {
                assert!(!matches!(sequence, Ok(Some(_))));
                return format!("{error:?}").chars().filter(|c| !c.is_ascii_digit()).collect();
            }
        };
        // What was read can be written, and is then read the same.
        let strings: Vec<Vec<&[u8]>> = example.features().map(|f| f.byte_strings().collect()).collect();
        let floats: Vec<Vec<f32>> = example.features().map(|f| f.floats().collect()).collect();
        let ints: Vec<Vec<i64>> = example.features().map(|f| f.ints().collect()).collect();
        let mut features = Vec::new();
        for (i, feature) in example.features().enumerate() {
            assert_eq!(feature.len(), strings[i].len() + floats[i].len() + ints[i].len());
            match feature.kind() {
                FeatureKind::None => {}
                FeatureKind::Bytes => features.push((feature.name(), Value::Bytes(&strings[i]))),
                FeatureKind::Floats => features.push((feature.name(), Value::Floats(&floats[i]))),
                FeatureKind::Ints => features.push((feature.name(), Value::Ints(&ints[i]))),
            }
        }
        let mut written = Vec::new();
        example::write(&features, &mut written);
        let again = Example::parse(&written).expect("what we write");
        assert_eq!(again.len(), features.len());
        for (name, value) in &features {
            let feature = again.feature(name).expect("what we wrote");
            match value {
                Value::Bytes(strings) => assert!(feature.byte_strings().eq(strings.iter().copied())),
                Value::Floats(floats) => {
                    assert!(feature.floats().map(f32::to_bits).eq(floats.iter().map(|f| f.to_bits())));
                }
                Value::Ints(ints) => assert!(feature.ints().eq(ints.iter().copied())),
            }
        }
        let kinds: Vec<(FeatureKind, u32)> = example.features().map(|f| (f.kind(), about(f.len()))).take(6).collect();
        format!("{kinds:?} {}", sequence.map_or(9, |s| s.map_or(0, |s| about(s.lists.len()) + 1)))
    };
    Target { name: "example", corpus: corpus::examples(), repair: no_repair, run }.fuzz();
}

#[test]
fn idx_file() {
    let run = |input: &[u8]| match idx::decode(input, "f") {
        Ok(array) => {
            // A zero anywhere makes it empty, even where the others alone would overflow.
            let product = array.dims().iter().try_fold(1usize, |n, &d| n.checked_mul(d));
            assert_eq!(if array.dims().contains(&0) { 0 } else { product.expect("in memory") }, array.data().len());
            format!("{} {}", array.dims().len(), about(array.data().len()))
        }
        Err(error) => kind(&error),
    };
    Target { name: "idx_file", corpus: corpus::idx(), repair: no_repair, run }.fuzz();
}

#[test]
fn index_json() {
    let run = |input: &[u8]| match Index::parse(input, "f") {
        Ok(index) => {
            let again = serde_json::to_vec(&index).expect("what we write");
            assert_eq!(Index::parse(&again, "f").expect("what we wrote"), index);
            format!("{} {}", about(index.shards.len()), about(index.classes.len()))
        }
        Err(error) => kind(&error),
    };
    Target { name: "index_json", corpus: corpus::index(), repair: no_repair, run }.fuzz();
}

#[test]
fn photo_table() {
    let run = |input: &[u8]| {
        let mut said = String::new();
        for tabs in [false, true] {
            let (mut lines, mut last) = (0, 0);
            let result = photos::parse_table(input, "f", tabs, |line, path, label, _role| {
                assert!(line > last && !path.is_empty() && !label.is_empty());
                (lines, last) = (lines + 1, line);
                Ok(())
            });
            said += &result.map_or_else(|error| kind(&error), |()| String::new());
            said += &about(lines).to_string();
        }
        said
    };
    Target { name: "photo_table", corpus: corpus::tables(), repair: no_repair, run }.fuzz();
}

#[test]
fn csv_values() {
    let run = |input: &[u8]| {
        let mut said = String::new();
        for are in [csv::TargetsAre::Auto, csv::TargetsAre::Classes] {
            let options = csv::TargetOptions { columns: Vec::new(), are };
            said += &match csv::of_bytes(input, &options) {
                Ok(set) => {
                    let samples = set.train.memory().expect("a csv is in memory");
                    let values: usize = (0..samples.len()).map(|index| samples.features(index).len()).sum();
                    format!("{:?} {}", std::mem::discriminant(&samples.target_kind()), about(values))
                }
                Err(error) => kind(&error),
            };
        }
        said
    };
    Target { name: "csv_values", corpus: corpus::values(), repair: no_repair, run }.fuzz();
}

#[test]
fn packed_records() {
    // Mutated before they are packed: the damage is behind the decoder, where `record_stream` seldom gets.
    let run = |input: &[u8]| {
        use std::io::Write;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(input).expect("memory");
        let packed = gzip.finish().expect("memory");
        let plain = Contents::decode(input, "f", &LIMITS, true).expect("small");
        let contents = Contents::decode(&packed, "f", &LIMITS, true).expect("small");
        if plain.packing() == Packing::Plain {
            assert!(plain.scan(true).eq(contents.scan(true)));
        }
        let mut writer = Writer::new(Vec::new(), Packing::Zlib);
        let mut good = 0;
        for (_, record) in contents.scan(true).flatten() {
            writer.write(record).expect("memory");
            good += 1;
        }
        let file = Contents::decode(&writer.finish().expect("memory"), "f", &LIMITS, false).expect("what we write");
        assert_eq!(File::index(file, true, None).expect("what we wrote").len(), good);
        about(good).to_string()
    };
    let corpus = corpus::plain_records();
    Target { name: "packed_records", corpus, repair: corpus::repair_records, run }.fuzz();
}

const PIXELS: paceline_image::Limits = paceline_image::Limits { pixels: 1 << 20 };

/// The variant and the first words of what is wrong, without numbers.
fn image_kind(error: &ImageError) -> String {
    match error {
        ImageError::Unknown { .. } => "unknown".into(),
        error => format!("{error:?}").chars().filter(|c| c.is_alphabetic()).take(40).collect(),
    }
}

#[test]
fn image_decode() {
    let run = |input: &[u8]| {
        let header = paceline_image::header(input, &PIXELS);
        let (mut decoder, mut pixels) = (Decoder::new(PIXELS), Pixels::default());
        let mut said = header.as_ref().map_or_else(image_kind, |h| format!("{:?} {}", h.format, h.channels));
        for colour in [Colour::Stored, Colour::Rgb, Colour::Grey] {
            match decoder.decode(input, colour, &mut pixels) {
                Ok(decoded) => {
                    assert_eq!(header.as_ref().ok(), Some(&decoded));
                    assert_eq!((pixels.width, pixels.height), (decoded.width, decoded.height));
                    assert_eq!(pixels.data.len(), pixels.width * pixels.height * pixels.channels);
                    said += &format!(" {} {}", about(pixels.width), about(pixels.height));
                }
                Err(error) => said += &image_kind(&error),
            }
        }
        said
    };
    Target { name: "image_decode", corpus: corpus::images(), repair: corpus::repair_png, run }.fuzz();
}

#[test]
fn image_decode_for() {
    let run = |input: &[u8]| {
        let (mut decoder, mut resizer) = (Decoder::new(PIXELS), Resizer::default());
        let (mut pixels, mut small) = (Pixels::default(), Pixels::default());
        let mut said = String::new();
        for (width, height, fit) in [(5, 3, Fit::Crop), (24, 24, Fit::Pad), (9, 40, Fit::Stretch), (1, 1, Fit::Crop)] {
            let target = ImageTarget { width, height, fit, full: false };
            match decoder.decode_for(input, Colour::Rgb, &target, &mut pixels) {
                Ok((_, window)) => {
                    assert!(window.left >= 0.0 && window.left + window.width <= pixels.width as f64 + 1e-6);
                    assert!(window.top >= 0.0 && window.top + window.height <= pixels.height as f64 + 1e-6);
                    resizer.resize(&pixels, &window, &target, &mut small);
                    assert_eq!((small.width, small.height, small.data.len()), (width, height, width * height * 3));
                    said += &format!(" {}", about(pixels.width * pixels.height));
                }
                Err(error) => return image_kind(&error),
            }
        }
        said
    };
    Target { name: "image_decode_for", corpus: corpus::images(), repair: corpus::repair_png, run }.fuzz();
}

//! Attacks on the readers of records and Examples, by name. Each must end in an error that says where, in little memory.

use crate::example::{Example, Sequence};
use crate::fuzz::memory::peak;
use crate::tfrecord::{Contents, File, Limits, Packing, Reader, Writer, masked_crc};
use crate::{DataError, ExampleError, RecordError, Result};

const MIB: i64 = 1 << 20;

/// A frame that promises `length` bytes and keeps `data`.
fn promise(length: u64, data: &[u8]) -> Vec<u8> {
    let head = length.to_le_bytes();
    [&head[..], &masked_crc(&head).to_le_bytes(), data].concat()
}

fn file(packing: Packing) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), packing);
    for record in [&b"first"[..], b"", b"the third record"] {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap()
}

/// Everything that a stream gives.
fn stream(bytes: &[u8], verify: bool) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader::new(bytes, "hostile", verify)?;
    let (mut record, mut all) = (Vec::new(), Vec::new());
    while reader.next(&mut record)?.is_some() {
        all.push(record.clone());
    }
    Ok(all)
}

/// Everything that a file in memory gives.
fn in_memory(bytes: &[u8], verify: bool) -> Result<Vec<Vec<u8>>> {
    let file = File::index(Contents::decode(bytes, "hostile", &Limits::default(), false)?, verify, None)?;
    Ok((0..file.len()).map(|i| file.get(i).to_vec()).collect())
}

fn record_error<T>(result: Result<T>) -> RecordError {
    match result {
        Err(DataError::Record(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("accepted"),
    }
}

#[test]
fn a_length_of_4_gb_or_of_all_that_there_is() {
    let good = file(Packing::Plain);
    for length in [1 << 32, (1 << 32) - 1, u64::MAX, u64::MAX - 15, i64::MAX as u64, 1 << 29] {
        let bytes = [&good[..], &promise(length, b"short")].concat();
        let at = good.len() as u64;
        let (result, held) = peak(|| record_error(in_memory(&bytes, true)));
        assert!(matches!(result, RecordError::Truncated { offset, left: 17, .. } if offset == at), "{result}");
        assert!(held < MIB, "{held}");
        let (result, held) = peak(|| record_error(stream(&bytes, true)));
        match result {
            RecordError::TooLong { offset, .. } => assert!(offset == at && length > 1 << 30),
            RecordError::Truncated { offset, left: 17, .. } => assert!(offset == at && length <= 1 << 30),
            error => panic!("{error}"),
        }
        assert!(held < 2 * MIB, "{held}");
        assert!(result_names_the_file(&bytes));
    }
}

fn result_names_the_file(bytes: &[u8]) -> bool {
    let text = record_error(in_memory(bytes, true)).to_string();
    text.starts_with("hostile: ") && text.contains("at byte")
}

#[test]
fn a_flipped_bit_anywhere() {
    let bytes = file(Packing::Plain);
    let whole = in_memory(&bytes, true).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        for read in [stream, in_memory] {
            record_error(read(&flipped, true));
            // Without verification damage to data or its checksum goes unseen; the frames still hold.
            match read(&flipped, false) {
                Ok(records) => assert!(records.iter().map(Vec::len).eq(whole.iter().map(Vec::len))),
                Err(error) => drop(record_error::<()>(Err(error))),
            }
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_in_a_packed_file() {
    for packing in [Packing::Gzip, Packing::Zlib] {
        let bytes = file(packing);
        let whole = in_memory(&bytes, true).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            for read in [stream, in_memory] {
                // Some bits of a packed file mean nothing, such as the time in gzip.
                match read(&flipped, true) {
                    Ok(records) => assert_eq!(records, whole),
                    Err(error) => drop(record_error::<()>(Err(error))),
                }
            }
        }
    }
}

#[test]
fn cut_off_anywhere() {
    for packing in [Packing::Plain, Packing::Gzip, Packing::Zlib] {
        let bytes = file(packing);
        for length in 1..bytes.len() {
            for read in [stream, in_memory] {
                match read(&bytes[..length], true) {
                    // The format has no end mark: between two records a plain file may end.
                    Ok(records) => {
                        assert_eq!(packing, Packing::Plain);
                        assert!([(21, 1), (37, 2)].contains(&(length, records.len())), "{length}");
                    }
                    Err(error) => {
                        let error = record_error::<()>(Err(error));
                        let truncated = matches!(error, RecordError::Truncated { .. });
                        // A zlib stream of one byte is not known for one.
                        assert!(truncated || packing != Packing::Plain, "{error}");
                    }
                }
            }
        }
    }
}

#[test]
fn bytes_after_a_packed_file() {
    for packing in [Packing::Gzip, Packing::Zlib] {
        let bytes = [file(packing), b"more".to_vec()].concat();
        for read in [stream, in_memory] {
            assert!(matches!(record_error(read(&bytes, true)), RecordError::Unpacking { .. }));
        }
    }
    // Two gzip files one after the other are one, as gzip says.
    let twice = [file(Packing::Gzip), file(Packing::Gzip)].concat();
    assert_eq!(stream(&twice, true).unwrap().len(), 6);
    assert_eq!(in_memory(&twice, true).unwrap().len(), 6);
}

#[test]
fn a_bomb_of_gzip() {
    use std::io::Write;
    let gzip = |bytes: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        bytes.for_each(|part| out.write_all(&part).unwrap());
        out.finish().unwrap()
    };
    let zeros = || std::iter::repeat_n(vec![0; 1 << 20], 64);
    let limits = Limits { record: 1 << 30, unpacked: 8 << 20 };

    // Nothing but zeros is no record: refused after the first step.
    let nothing = gzip(&mut zeros());
    let (error, held) = peak(|| record_error(Contents::decode(&nothing, "bomb", &Limits::default(), false)));
    assert_eq!(error, RecordError::LengthChecksum { file: "bomb".into(), offset: 0 });
    assert!(held < 4 * MIB, "{held}");
    let (_, held) = peak(|| record_error(stream(&nothing, true)));
    assert!(held < 4 * MIB, "{held}");

    // A record that is really as long as it says: refused at the limit.
    let record = gzip(&mut std::iter::once(promise(64 << 20, &[])).chain(zeros()));
    assert!(record.len() < 200_000);
    let (error, held) = peak(|| record_error(Contents::decode(&record, "bomb", &limits, false)));
    assert_eq!(error, RecordError::TooLarge { file: "bomb".into(), limit: 8 << 20 });
    assert!(held < 24 * MIB, "{held}");
    let small = Limits { record: 1 << 20, ..limits };
    let (error, held) = peak(|| record_error(Contents::decode(&record, "bomb", &small, false)));
    assert!(matches!(error, RecordError::TooLong { offset: 0, length, .. } if length == 64 << 20));
    assert!(held < 4 * MIB, "{held}");
}

#[test]
fn a_million_nested_fields() {
    // From the inside: each field is within field 1 of another one.
    let mut nested = Vec::new(); // backwards
    for _ in 0..1_000_000 {
        let mut length = nested.len();
        let mut varint = Vec::new();
        while length >= 0x80 {
            varint.push(length as u8 | 0x80);
            length >>= 7;
        }
        varint.push(length as u8);
        nested.extend(varint.iter().rev());
        nested.push(0x0a);
    }
    nested.reverse();
    let ((example, sequence), held) = peak(|| (Example::parse(&nested).err(), Sequence::parse(&nested).err()));
    // The name of the only feature is all the rest, and no text.
    assert!(matches!(example, Some(ExampleError::Name { offset }) if offset < 20), "{example:?}");
    assert_eq!(sequence, None);
    assert!(held < MIB, "{held}");

    // The same in field 2 of an entry, where a Feature has no field 1 that nests.
    let groups = [0x0b].repeat(1_000_000);
    assert_eq!(Example::parse(&groups).unwrap_err(), ExampleError::Group { offset: 0 });
    assert_eq!(Sequence::parse(&groups).unwrap_err(), ExampleError::Group { offset: 0 });

    // A million features side by side, all of one name: the last counts, and nothing takes a square of a million.
    let entry = b"\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x05";
    let features: Vec<u8> = entry.repeat(1_000_000);
    let mut record = vec![0x0a];
    let mut length = features.len();
    while length >= 0x80 {
        record.push(length as u8 | 0x80);
        length >>= 7;
    }
    record.push(length as u8);
    record.extend(features);
    let (count, held) = peak(|| Example::parse(&record).unwrap().len());
    assert_eq!(count, 1);
    assert!(held < 32 * record.len() as i64, "{held}");
}

#[test]
fn wrong_examples_say_where() {
    let check = |bytes: &[u8], expected: ExampleError| {
        assert_eq!(Example::parse(bytes).unwrap_err(), expected, "{bytes:x?}");
        let text = expected.at("x.tfrec record 3").to_string();
        assert!(text.starts_with("x.tfrec record 3: not a tf.train.Example: byte "), "{text}");
    };
    check(b"\x80", ExampleError::Varint { offset: 0 });
    check(&[0xff; 12], ExampleError::Varint { offset: 0 });
    check(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ExampleError::Varint { offset: 1 });
    let all = u64::MAX;
    check(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ExampleError::Length { offset: 1, length: all, left: 0 });
    check(b"\x0a\x05abc", ExampleError::Length { offset: 1, length: 5, left: 3 });
    check(b"\x00\x00", ExampleError::FieldNumber { offset: 0, number: 0 });
    check(b"\x0e", ExampleError::WireType { offset: 0, wire: 6 });
    check(b"\x13", ExampleError::Group { offset: 0 });
    check(b"\x0a\x02\x0c\x00", ExampleError::Group { offset: 2 });
    check(b"\x0a\x05\x0a\x03\x0a\x01\xff", ExampleError::Name { offset: 6 });
    check(b"\x0a\x0a\x0a\x08\x12\x06\x12\x04\x0a\x02ab", ExampleError::PackedFloats { offset: 10, length: 2 });
    check(b"\x0a\x0a\x0a\x08\x12\x06\x1a\x04\x0a\x02\x80\x80", ExampleError::Varint { offset: 10 });
    check(b"\x09abc", ExampleError::Length { offset: 1, length: 8, left: 3 });
}

#[test]
fn examples_are_read_as_protobuf_demands() {
    let ints = |bytes: &[u8]| Example::parse(bytes).unwrap().feature("a").map(|f| f.ints().collect::<Vec<_>>());
    // Not packed; in two lists; in two values; packed after not packed.
    assert_eq!(ints(b"\x0a\x0d\x0a\x0b\x0a\x01a\x12\x06\x1a\x04\x08\x05\x08\x06").unwrap(), [5, 6]);
    assert_eq!(ints(b"\x0a\x0f\x0a\x0d\x0a\x01a\x12\x08\x1a\x02\x08\x05\x1a\x02\x08\x06").unwrap(), [5, 6]);
    assert_eq!(ints(b"\x0a\x11\x0a\x0f\x0a\x01a\x12\x04\x1a\x02\x08\x05\x12\x04\x1a\x02\x08\x06").unwrap(), [5, 6]);
    assert_eq!(ints(b"\x0a\x10\x0a\x0e\x0a\x01a\x12\x09\x1a\x07\x08\x05\x0a\x03\x06\xac\x02").unwrap(), [5, 6, 300]);
    // Two kinds in one feature: the last; the same name twice, in two messages: the last.
    assert_eq!(ints(b"\x0a\x0f\x0a\x0d\x0a\x01a\x12\x08\x1a\x02\x08\x05\x12\x02\x08\x06").unwrap(), [0i64; 0]);
    let one = b"\x0a\x0b\x0a\x09\x0a\x01a\x12\x04\x1a\x02\x08";
    let twice = [&one[..], b"\x05", one, b"\x07"].concat();
    assert_eq!(ints(&twice).unwrap(), [7]);
    assert_eq!(Example::parse(&twice).unwrap().len(), 1);
    // Unknown fields of every type, and a known number of another type, are skipped.
    let unknown = [b"\x10\x05\x19abcdefgh\x22\x02hi\x2dabcd\x08\x01", &one[..], b"\x05"].concat();
    assert_eq!(ints(&unknown).unwrap(), [5]);
}

/// Each file is within its own limit, all of them together are not.
#[test]
fn packed_files_have_a_limit_for_the_whole_set() {
    use crate::example::{self, Value};
    use crate::shards::ShardOptions;
    use crate::tfrecord::Memory;
    use std::sync::Arc;
    let dir = tempfile::tempdir().unwrap();
    let mut record = Vec::new();
    let empty = vec![0; 1 << 20];
    example::write(&[("image", Value::Bytes(&[&empty])), ("class", Value::Ints(&[0]))], &mut record);
    for number in 0..8 {
        let packing = if number % 2 == 0 { Packing::Gzip } else { Packing::Zlib };
        let mut writer = Writer::new(Vec::new(), packing);
        writer.write(&record).unwrap();
        let bytes = writer.finish().unwrap();
        assert!(bytes.len() < 5_000, "a bomb is small: {}", bytes.len());
        std::fs::write(dir.path().join(format!("a-{number:05}-of-00008.tfrecord")), bytes).unwrap();
    }
    let open = |limit: u64| {
        ShardOptions { memory: Arc::new(Memory::up_to(limit)), ..ShardOptions::default() }.records(dir.path())
    };
    assert_eq!(open(9 << 20).unwrap().len(), 8);
    let (error, held) = peak(|| record_error(open(4 << 20)));
    assert!(matches!(error, RecordError::NoMemory { limit, .. } if limit == 4 << 20), "{error}");
    assert!(held < 10 * MIB, "{held}");
}

/// Records without content cost more in memory than on disk.
#[test]
fn records_by_the_million_have_a_limit() {
    use crate::shards::ShardOptions;
    use crate::tfrecord::Memory;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.tfrec");
    let mut writer = Writer::new(Vec::new(), Packing::Plain);
    // An Example with an empty image and class 0.
    let mut record = Vec::new();
    let features = [("class", crate::example::Value::Ints(&[0])), ("image", crate::example::Value::Bytes(&[b""]))];
    crate::example::write(&features, &mut record);
    (0..20_000).for_each(|_| writer.write(&record).unwrap());
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    let open = |limit: u64| {
        ShardOptions { memory: std::sync::Arc::new(Memory::up_to(limit)), ..ShardOptions::default() }.records(&path)
    };
    assert_eq!(open(1 << 20).unwrap().len(), 20_000);
    assert!(matches!(record_error(open(100_000)), RecordError::NoMemory { .. }));
}

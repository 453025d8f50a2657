//! What `info` says of every kind of file and folder, and the images it writes.

use crate::example::{self, FeatureKind, Value};
use crate::info::{Content, InfoOptions, PhotosInfo, RecordsInfo};
use crate::tfrecord::{Packing, Writer};
use crate::{Catalogue, DataError, Info};
use paceline_image::{Chroma, Colour, Decoder, Encoder, Limits, Pixels, encode_png};
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn catalogue() -> Catalogue {
    Catalogue::with_cache("nowhere")
}

fn records(path: &Path) -> RecordsInfo {
    match catalogue().info(path.to_str().unwrap()).unwrap() {
        Info::Records(info) => *info,
        info => panic!("{info:?}"),
    }
}

fn photos(path: &Path) -> PhotosInfo {
    match catalogue().info(path.to_str().unwrap()).unwrap() {
        Info::Photos(info) => *info,
        info => panic!("{info:?}"),
    }
}

fn picture(width: usize, height: usize) -> Pixels {
    Pixels { width, height, channels: 3, data: (0..width * height * 3).map(|i| (i * 7) as u8).collect() }
}

fn jpeg(width: usize, height: usize) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(90, Chroma::Full).encode(&picture(width, height), &mut out).unwrap();
    out
}

fn write(path: &Path, records: &[&[(&str, Value<'_>)]]) {
    let mut writer = Writer::new(Vec::new(), Packing::Plain);
    for features in records {
        let mut record = Vec::new();
        example::write(features, &mut record);
        writer.write(&record).unwrap();
    }
    fs::write(path, writer.finish().unwrap()).unwrap();
}

#[test]
fn files_of_tensorflow() {
    for (name, packing) in [("plain", Packing::Plain), ("gzip", Packing::Gzip), ("zlib", Packing::Zlib)] {
        let info = records(&fixture(&format!("{name}.tfrecord")));
        assert_eq!((info.content, info.records, info.files[0].packing), (Content::Example, 6, packing));
        let feature = |name: &str| info.features.iter().find(|f| f.name == name).unwrap();
        assert_eq!((feature("i").kind, feature("i").records, feature("i").values.max), (FeatureKind::Ints, 3, 6));
        let bytes = feature("b").bytes.unwrap();
        assert_eq!((feature("b").kind, feature("b").values.sum, bytes.min, bytes.max), (FeatureKind::Bytes, 4, 0, 7));
        assert_eq!(feature("none").kind, FeatureKind::None);
        assert_eq!(info.first.len(), 3);
        assert_eq!(info.first[0].features, [("i".to_string(), "7".to_string())]);
        assert!(info.first[1].features[0].1.starts_with("[\"\", \"abc\", 00 ff fe, 3 bytes, … 4 in all]"));
        assert!(info.layout.is_none() && info.classes.is_empty());
    }
    let info = records(&fixture("sequence.tfrecord"));
    assert_eq!((info.content, info.records), (Content::Sequence, 3));
    assert_eq!((info.steps[0].steps.min, info.steps[0].steps.max, info.steps[0].values.sum), (0, 3, 8));
    let info = records(&fixture("lengths.tfrecord"));
    // An empty record is an Example without features; the others are nothing.
    assert_eq!((info.content, info.records, info.data.max), (Content::Mixed, 8, 1023));
}

#[test]
fn shards_of_images_and_the_images_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let photo = jpeg(20, 10);
    let image = [&photo[..]];
    let image = ("image", Value::Bytes(&image));
    let rose = [image, ("class", Value::Ints(&[0])), ("label", Value::Bytes(&[b"rose"]))];
    let tulip = [image, ("class", Value::Ints(&[1])), ("label", Value::Bytes(&[b"tulip"]))];
    write(&dir.path().join("a.tfrec"), &[&rose, &tulip]);
    write(&dir.path().join("b.tfrec"), &[&tulip]);
    let info = records(dir.path());
    assert_eq!((info.records, info.files.len()), (3, 2));
    let counts: Vec<(String, usize)> = info.classes.iter().map(|c| (c.name.clone(), c.count)).collect();
    assert_eq!(counts, [("0 rose".to_string(), 1), ("1 tulip".to_string(), 2)]);
    assert_eq!(info.layout.unwrap().words(), "image from `image`, class from `class`, its name from `label`");
    let shown = &info.first[0].features;
    assert_eq!(shown[1], ("image".to_string(), format!("JPEG 20×10 colour, {} bytes", photo.len())));

    let out = dir.path().join("png/deep");
    let look = InfoOptions { first: 2, ..InfoOptions::default() };
    let saved = catalogue().save_images(dir.path().to_str().unwrap(), &look, &out).unwrap().files;
    assert_eq!(saved.len(), 2);
    let (mut png, mut expected) = (Pixels::default(), Pixels::default());
    let mut decoder = Decoder::new(Limits::default());
    decoder.decode(&fs::read(&saved[0]).unwrap(), Colour::Stored, &mut png).unwrap();
    decoder.decode(&photo, Colour::Stored, &mut expected).unwrap();
    assert_eq!(png, expected);

    // Raw pixels too.
    let raw = picture(4, 2);
    let size = [2, 4];
    write(
        &dir.path().join("raw.tfrec"),
        &[&[("image", Value::Bytes(&[&raw.data])), ("size", Value::Ints(&size)), ("class", Value::Ints(&[0]))]],
    );
    let path = dir.path().join("raw.tfrec");
    let saved = catalogue().save_images(path.to_str().unwrap(), &look, &dir.path().join("raw")).unwrap().files;
    decoder.decode(&fs::read(&saved[0]).unwrap(), Colour::Stored, &mut png).unwrap();
    assert_eq!(png, raw);
}

#[test]
fn damaged_records_are_an_error_or_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tfrecord");
    let mut bytes = fs::read(fixture("plain.tfrecord")).unwrap();
    bytes[14] ^= 1;
    fs::write(&path, bytes).unwrap();
    let name = path.to_str().unwrap();
    let error = catalogue().info(name).unwrap_err();
    assert!(error.to_string().contains("record at byte 0"), "{error}");
    let Info::Records(info) = catalogue().look(name, &InfoOptions { skip_bad: 1, ..InfoOptions::default() }).unwrap()
    else {
        panic!("records")
    };
    assert_eq!((info.records, info.skipped.len()), (5, 1));
    let Info::Records(info) = catalogue().look(name, &InfoOptions { verify: false, ..InfoOptions::default() }).unwrap()
    else {
        panic!("records")
    };
    assert_eq!((info.records, info.content, info.verified), (6, Content::Mixed, false));
    let pictures =
        catalogue().save_images(fixture("plain.tfrecord").to_str().unwrap(), &InfoOptions::default(), dir.path());
    assert!(matches!(pictures, Err(DataError::NoPictures { .. })));
}

#[test]
fn photos_tables_and_single_images() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    for class in ["a", "b"] {
        fs::create_dir_all(set.join(class)).unwrap();
        fs::write(set.join(class).join("1.jpg"), jpeg(8, 6)).unwrap();
    }
    fs::write(set.join("a/2.png"), encode_png(&picture(3, 5)).unwrap()).unwrap();
    fs::write(set.join("a/notes.txt"), "x").unwrap();
    fs::write(set.join("b/broken.jpg"), "").unwrap();
    let info = photos(&set);
    assert_eq!((info.images, info.left_out.count(), info.unreadable, info.classes.len()), (4, 1, 0, 2));
    let shown: Vec<&str> = info.first.iter().map(|photo| &photo.image[..]).collect();
    assert_eq!(shown, ["JPEG 8×6 colour", "JPEG 8×6 colour", "PNG 3×5 colour"]);
    let table = dir.path().join("list.csv");
    fs::write(&table, "set/a/1.jpg,x\nset/b/1.jpg,y\nset/a/2.png,y\n").unwrap();
    assert_eq!(photos(&table).classes.iter().map(|c| c.count).collect::<Vec<_>>(), [1, 2]);

    let saved = catalogue()
        .save_images(table.to_str().unwrap(), &InfoOptions::default(), &dir.path().join("out"))
        .unwrap()
        .files;
    assert_eq!(saved.len(), 3);
    // A file of another name is known by its content.
    let odd = dir.path().join("picture");
    fs::copy(set.join("a/2.png"), &odd).unwrap();
    let Info::Image(image) = catalogue().info(odd.to_str().unwrap()).unwrap() else { panic!("an image") };
    assert_eq!((image.format, image.width, image.height, image.channels), ("png", 3, 5, 3));
    let error = catalogue().info(set.join("b/broken.jpg").to_str().unwrap()).unwrap_err();
    assert!(matches!(error, DataError::BadImage { .. }), "{error}");
    let unknown = dir.path().join("text");
    fs::write(&unknown, "hello, world").unwrap();
    let error = catalogue().info(unknown.to_str().unwrap()).unwrap_err();
    assert!(matches!(error, DataError::UnknownContent { .. }), "{error}");
    // A TFRecord file of any name is known by its first checksum.
    let odd = dir.path().join("records");
    fs::copy(fixture("plain.tfrecord"), &odd).unwrap();
    assert_eq!(records(&odd).records, 6);
    fs::copy(fixture("zlib.tfrecord"), &odd).unwrap();
    assert_eq!(records(&odd).records, 6);
}

#[test]
fn images_of_sets() {
    let dir = tempfile::tempdir().unwrap();
    let look = InfoOptions { first: 2, ..InfoOptions::default() };
    let saved = catalogue().save_images("fashion-sample", &look, dir.path()).unwrap().files;
    assert_eq!(saved.len(), 2);
    let header = paceline_image::header(&fs::read(&saved[0]).unwrap(), &Limits::default()).unwrap();
    assert_eq!((header.width, header.height, header.channels), (28, 28, 1));
    assert!(matches!(catalogue().save_images("fake:7:2:10", &look, dir.path()), Err(DataError::NoPictures { .. })));
}

#[test]
fn bad_pictures_are_passed_over_and_listed_as_far_as_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    let pixels = Pixels { width: 8, height: 6, channels: 3, data: vec![90; 144] };
    for (class, name, bytes) in [
        ("a", "0.png", vec![1, 2, 3]),
        ("a", "1.png", encode_png(&pixels).unwrap()),
        ("b", "0.png", encode_png(&pixels).unwrap()),
    ] {
        std::fs::create_dir_all(photos.join(class)).unwrap();
        std::fs::write(photos.join(class).join(name), bytes).unwrap();
    }
    let save = |skip_bad| {
        let look = InfoOptions { first: 2, skip_bad, ..InfoOptions::default() };
        catalogue().save_images(photos.to_str().unwrap(), &look, &dir.path().join("out"))
    };
    assert!(matches!(save(0), Err(DataError::BadImage { .. })));
    let saved = save(1).unwrap();
    assert_eq!(saved.files.len(), 2);
    assert!(saved.skipped[0].contains("0.png"), "{:?}", saved.skipped);
}

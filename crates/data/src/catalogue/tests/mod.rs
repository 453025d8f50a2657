//! Sets by name and by path, what `info` says of them, and the embedded sample.

mod make_sample;
mod parts;

use crate::idx::{self, Idx, Packing};
use crate::not_run::not_run;
use crate::{Catalogue, DataError, DataPart, Features, Info, Options};
use sha2::{Digest, Sha256};
use std::path::Path;

const SYSTEM: &str = "/usr/share/datasets/fashion-mnist";

fn open(name: &str) -> Result<crate::DataSet, DataError> {
    Catalogue::with_cache("/nowhere").open(name, &Options::default())
}

/// A folder with a set of 6 + 3 images of 2×2 in 3 classes.
fn small_set(dir: &Path, packing: Packing, name: impl Fn(&str) -> String) {
    for (file, dims) in [
        ("train-images-idx3-ubyte", vec![6, 2, 2]),
        ("train-labels-idx1-ubyte", vec![6]),
        ("t10k-images-idx3-ubyte", vec![3, 2, 2]),
        ("t10k-labels-idx1-ubyte", vec![3]),
    ] {
        let n: usize = dims.iter().product();
        let array = Idx::new(dims, (0..n).map(|k| (k % 3) as u8).collect()).unwrap();
        idx::write(&dir.join(name(file)), &array, packing).unwrap();
    }
}

#[test]
fn the_sample_is_the_beginning_of_fashion_mnist() {
    let set = open("fashion-sample").unwrap();
    let test = set.test.clone().unwrap();
    assert_eq!((set.train.len(), test.len(), set.train.shape(), set.train.classes()), (8000, 2000, &[28, 28][..], 10));
    assert_eq!(set.class_names[0], "T-shirt/top");
    assert_eq!(set.licence.as_deref(), Some("MIT, © 2017 Zalando SE"));
    let memory = |part: &DataPart| part.memory().unwrap().clone();
    for (part, digest) in [(memory(&set.train), TRAIN_PIXELS), (memory(&test), TEST_PIXELS)] {
        let mut hash = Sha256::new();
        for i in 0..part.len() {
            let Features::U8 { bytes, .. } = part.features(i) else { panic!("bytes") };
            hash.update(bytes);
            hash.update([part.label(i) as u8]);
        }
        let found = paceline_system::hex(&hash.finalize());
        assert_eq!(found, digest);
    }
    if Path::new(SYSTEM).is_dir() {
        let (full, part) = (memory(&open(SYSTEM).unwrap().train), memory(&set.train));
        assert!((0..8000).all(|i| full.features(i) == part.features(i)));
    }
}

#[test]
fn folders_are_sets_under_any_of_the_usual_names() {
    type Naming = fn(&str) -> String;
    let names: [(Packing, Naming); 3] = [
        (Packing::Plain, str::to_string),
        (Packing::Gzip, |name| format!("{name}.gz")),
        (Packing::Gzip, |name| name.replace("-idx", ".idx")), // packed, though the name does not say so
    ];
    for (packing, name) in names {
        let dir = tempfile::tempdir().unwrap();
        small_set(dir.path(), packing, name);
        let set = open(dir.path().to_str().unwrap()).unwrap();
        assert_eq!((set.train.len(), set.test.unwrap().len(), set.class_names.len()), (6, 3, 3));
        assert_eq!(set.origin, dir.path().display().to_string());
    }
}

#[test]
fn incomplete_and_mixed_folders_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().to_str().unwrap();
    assert!(matches!(open(name), Err(DataError::MissingFile { file: "train-images-idx3-ubyte", .. })));
    small_set(dir.path(), Packing::Plain, str::to_string);
    std::fs::remove_file(dir.path().join("t10k-labels-idx1-ubyte")).unwrap();
    assert!(matches!(open(name), Err(DataError::MissingFile { file: "t10k-labels-idx1-ubyte", .. })));
    std::fs::remove_file(dir.path().join("t10k-images-idx3-ubyte")).unwrap();
    assert!(open(name).unwrap().test.is_none());

    let write = |file: &str, dims: Vec<usize>, value: u8| {
        let n = dims.iter().product();
        idx::write(&dir.path().join(file), &Idx::new(dims, vec![value; n]).unwrap(), Packing::Plain).unwrap();
    };
    write("t10k-images-idx3-ubyte", vec![3, 2, 3], 0);
    write("t10k-labels-idx1-ubyte", vec![3], 0);
    assert!(matches!(open(name), Err(DataError::ShapeMismatch { .. })));
    write("t10k-images-idx3-ubyte", vec![3, 2, 2], 0);
    write("t10k-labels-idx1-ubyte", vec![3], 3);
    assert!(matches!(open(name), Err(DataError::LabelOutOfRange { index: 0, label: 3, classes: 3, .. })));
}

#[test]
fn absent_and_unknown_names_say_what_to_do() {
    let error = open("mnist").unwrap_err().to_string();
    assert!(error.contains("/nowhere/data/mnist") && error.contains("run `paceline data get mnist`"), "{error}");
    let error = open("fashion-mnits").unwrap_err().to_string();
    assert!(error.ends_with("did you mean fashion-mnist?"), "{error}");
    assert!(
        open("/no/such/folder")
            .unwrap_err()
            .to_string()
            .contains("a folder of record shards, of class folders with images or of IDX files")
    );
    let base: paceline_base::Error = open("nothing").unwrap_err().into();
    assert_eq!(base.kind(), paceline_base::Kind::User);
}

#[test]
fn the_list_tells_what_is_here() {
    let cache = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::with_cache(cache.path());
    let present = |catalogue: &Catalogue| {
        catalogue.list().into_iter().map(|entry| (entry.name, entry.present)).collect::<Vec<_>>()
    };
    let expected = |mnist| {
        [("mnist", mnist), ("fashion-mnist", false), ("cifar10", false), ("fashion-sample", true), ("fake", true)]
            .map(|(name, here)| (name.to_string(), here))
    };
    assert_eq!(present(&catalogue), expected(false));
    let dir = cache.path().join("data/mnist");
    std::fs::create_dir_all(&dir).unwrap();
    small_set(&dir, Packing::Gzip, |name| format!("{name}.gz"));
    assert_eq!(present(&catalogue), expected(true));
    assert_eq!(catalogue.list()[0].place, dir.display().to_string());
    assert!(serde_json::to_string(&catalogue.list()).unwrap().contains("\"licence\":\"CC BY-SA 3.0"));
}

#[test]
fn the_best_fashion_says_which_and_why() {
    let cache = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::with_cache(cache.path());
    let (set, why) = catalogue.fashion_best(&Options::default()).unwrap();
    assert_eq!(set.name, "fashion-sample");
    assert!(why.contains("because the full set is not in") && why.contains("paceline data get fashion-mnist"), "{why}");
    // A full set that is there but damaged is an error, not a reason to take the sample.
    let dir = cache.path().join("data/fashion-mnist");
    std::fs::create_dir_all(&dir).unwrap();
    small_set(&dir, Packing::Plain, str::to_string);
    let (set, why) = catalogue.fashion_best(&Options::default()).unwrap();
    assert!(set.name == "fashion-mnist" && why.contains("all 6 images"), "{why}");
    std::fs::write(dir.join("train-images-idx3-ubyte"), b"damaged").unwrap();
    assert!(matches!(catalogue.fashion_best(&Options::default()), Err(DataError::NotIdx { .. })));
}

#[test]
fn info_of_sets_and_files() {
    let catalogue = Catalogue::with_cache("/nowhere");
    let dir = tempfile::tempdir().unwrap();
    small_set(dir.path(), Packing::Plain, str::to_string);
    let Info::Set(info) = catalogue.info(dir.path().to_str().unwrap()).unwrap() else { panic!("a set") };
    assert_eq!(
        (info.train.count, info.test.as_ref().unwrap().count, &info.shape[..], info.classes),
        (6, 3, &[2, 2][..], 3)
    );
    assert_eq!(info.train.classes.iter().map(|c| c.count).collect::<Vec<_>>(), [2, 2, 2]);
    // 24 pixels, eight each of 0, 1 and 2.
    let v = info.train.values;
    assert_eq!((v.min, (v.max * 255.0).round()), (0.0, 2.0));
    assert!((v.mean * 255.0 - 1.0).abs() < 1e-6 && (v.std * 255.0 - (2.0f64 / 3.0).sqrt()).abs() < 1e-6, "{v:?}");
    assert_eq!((info.files.len(), info.bytes), (4, 40 + 14 + 28 + 11));

    let images = dir.path().join("train-images-idx3-ubyte");
    let json = serde_json::to_value(catalogue.info(images.to_str().unwrap()).unwrap()).unwrap();
    assert_eq!(json["kind"], "file");
    assert_eq!(json["dims"], serde_json::json!([6, 2, 2]));
    assert_eq!((&json["element"], &json["bytes"], &json["values"]["max"]), (&"u8".into(), &40.into(), &2.0.into()));
    let Info::Set(fake) = catalogue.info("fake:4:2:10").unwrap() else { panic!("a set") };
    assert_eq!((fake.train.count, fake.bytes), (10, 0));
    std::fs::write(&images, b"nonsense").unwrap();
    assert!(matches!(catalogue.info(images.to_str().unwrap()), Err(DataError::NotIdx { .. })));
}

/// The mean and deviation that everyone who trains on Fashion-MNIST knows. Only where Debian's package is installed.
#[test]
fn the_full_set_has_its_well_known_statistics() {
    if !Path::new(SYSTEM).is_dir() {
        return not_run(
            "the_full_set_has_its_well_known_statistics",
            "Debian's package dataset-fashion-mnist is missing",
        );
    }
    let cache = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::with_cache(cache.path());
    let got = catalogue.get("fashion-mnist", Some(Path::new(SYSTEM)), None, &mut |_| {}).unwrap();
    assert_eq!(got.bytes, 47_040_016 + 60_008 + 7_840_016 + 10_008);
    let Info::Set(info) = catalogue.info("fashion-mnist").unwrap() else { panic!("a set") };
    assert!((info.train.values.mean - 0.2860).abs() < 1e-4 && (info.train.values.std - 0.3530).abs() < 1e-4);
    assert!(info.train.classes.iter().all(|class| class.count == 6000));
}

/// Of pixels and label of each sample in turn, taken from the full set by another program.
const TRAIN_PIXELS: &str = "fa63b17b79b9901869b5706a732a1d9ef0414e96f30cd64cc3dfc650b6f0955e";
const TEST_PIXELS: &str = "fbce07199ba16cd88bf6141127ffa75b92f6d7e27b053d9efb43dfdd6e33ac54";

/// By headers alone: nothing of the samples is read.
#[test]
fn what_does_not_fit_into_memory_is_refused_before_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    small_set(dir.path(), Packing::Gzip, |file| format!("{file}.gz"));
    let path = dir.path().to_str().unwrap();
    let open = |name: &str, memory| {
        let options = Options { memory: Some(memory), ..Options::default() };
        Catalogue::with_cache("/nowhere").open(name, &options).map(drop)
    };
    let refused = |name: &str, memory: u64, needs_of: u64| match open(name, memory) {
        Err(DataError::DoesNotFit { what, needs, free }) => {
            assert_eq!((what.as_str(), needs, free), (name, needs_of, memory));
        }
        other => panic!("{name}: {other:?}"),
    };
    // 6 + 3 images of 4 bytes, and their labels.
    refused(path, 44, 45);
    open(path, 45).unwrap();
    refused("fake:10x10:2:60", 6_999, 7_000);
    open("fake:10x10:2:60", 7_000).unwrap();
    let cifar = tempfile::tempdir().unwrap();
    for name in ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"] {
        std::fs::write(cifar.path().join(format!("{name}.bin")), vec![0; 2 * 3073]).unwrap();
    }
    // All six, and one of them once more while it is unpacked.
    refused(cifar.path().to_str().unwrap(), 7 * 2 * 3073 - 1, 7 * 2 * 3073);
    open(cifar.path().to_str().unwrap(), 7 * 2 * 3073).unwrap();
    // A small file that promises everything is damaged, and not large.
    let mut huge = vec![0, 0, 8, 3];
    huge.extend([0xff; 12]);
    std::fs::remove_file(dir.path().join("train-images-idx3-ubyte.gz")).unwrap();
    std::fs::write(dir.path().join("train-images-idx3-ubyte"), huge).unwrap();
    assert!(matches!(open(path, 1000), Err(DataError::TooLarge { .. })));
}

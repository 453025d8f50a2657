//! Sets that come in parts: folders `train` and `val`, shards named so, tables with a column `split`, a validation set of
//! its own. What is ambiguous is refused.

use crate::example::{self, Value};
use crate::photos::Listing;
use crate::tfrecord::{Packing, Writer};
use crate::{Catalogue, DataError, DataPart, DataSet, Options, PhotoError, Result, Role, ShardError, Split};
use paceline_image::{Pixels, encode_png};
use std::fs;
use std::path::Path;

/// A picture of 2×2 pixels of one shade.
fn png(shade: u8) -> Vec<u8> {
    encode_png(&Pixels { width: 2, height: 2, channels: 1, data: vec![shade; 4] }).unwrap()
}

fn photos(root: &Path, files: &[&str]) {
    for (number, file) in files.iter().enumerate() {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, png(number as u8)).unwrap();
    }
}

fn open(path: &Path) -> Result<DataSet> {
    Catalogue::with_cache(path).open(path.to_str().unwrap(), &Options::default())
}

fn refused(path: &Path) -> PhotoError {
    match Listing::of(path) {
        Err(DataError::Photos(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(listing) => panic!("{:?}", listing.notes()),
    }
}

/// How many samples of each class a part has.
fn counts(part: &DataPart) -> Vec<usize> {
    let mut counts = vec![0; part.classes()];
    (0..part.len()).for_each(|index| counts[part.label(index) as usize] += 1);
    counts
}

#[test]
fn folders_train_and_val_are_parts_and_not_classes() {
    let words = [("train", "val", "test"), ("Training", "VALID", "Testing"), ("TRAIN", "validation", "Test")];
    for (train, val, test) in words {
        let dir = tempfile::tempdir().unwrap();
        let file = |part: &str, rest: &str| format!("{part}/{rest}");
        let files = [
            file(train, "cats/1.png"),
            file(train, "cats/deep/2.png"),
            file(train, "dogs/3.png"),
            file(train, "birds/4.png"),
            file(val, "dogs/5.png"),
            file(val, "cats/6.png"),
            file(test, "dogs/7.png"),
        ];
        photos(dir.path(), &files.each_ref().map(|f| &f[..]));
        let set = open(dir.path()).unwrap();
        assert_eq!(set.class_names, ["birds", "cats", "dogs"]);
        assert_eq!(counts(&set.train), [1, 2, 1]);
        // Numbered as in the training part, though a class is missing.
        assert_eq!(counts(set.validation.as_ref().unwrap()), [0, 1, 1]);
        assert_eq!(counts(set.test.as_ref().unwrap()), [0, 0, 1]);
        assert_eq!(Split::Auto.resolved(&set), Split::Own);
        assert!(set.notes[0].contains("4 train, 2 validation, 1 test"), "{:?}", set.notes);
    }
}

#[test]
fn a_training_folder_alone_is_a_set_without_validation() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path(), &["train/a/1.png", "train/b/2.png"]);
    let set = open(dir.path()).unwrap();
    assert_eq!((set.train.len(), set.validation.is_none(), set.test.is_none()), (2, true, true));
    assert_eq!(set.class_names, ["a", "b"]);
}

#[test]
fn ambiguous_folders_are_refused() {
    let check = |files: &[&str], folders: &[&str], expected: fn(&PhotoError) -> bool, words: &str| {
        let dir = tempfile::tempdir().unwrap();
        photos(dir.path(), files);
        folders.iter().for_each(|folder| fs::create_dir_all(dir.path().join(folder)).unwrap());
        let error = refused(dir.path());
        assert!(expected(&error), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    use PhotoError::*;
    check(&["train/1.png", "cats/1.png"], &[], |e| matches!(e, Mixed { .. }), "rename what is a class");
    check(&["train/a/1.png", "cats/1.png"], &[], |e| matches!(e, Mixed { .. }), "beside cats");
    check(&["val/a/1.png", "a/1.png", "b/1.png"], &[], |e| matches!(e, Mixed { .. }), "beside a, b");
    check(&["val/a/1.png", "val/b/1.png"], &[], |e| matches!(e, NoTraining { .. }), "none to train on");
    check(&["train/1.png", "val/2.png"], &[], |e| matches!(e, NoClass { .. }), "train: 1 image lies directly in it");
    check(&["train/a/1.png", "val/2.png"], &[], |e| matches!(e, NoClass { .. }), "val: 1 image lies");
    check(&["train/a/1.png"], &["val"], |e| matches!(e, PartWithoutClasses { .. }), "val: named like a part");
    check(
        &["train/a/1.png", "val/a/1.png", "validation/a/2.png"],
        &[],
        |e| matches!(e, TwoFolders { .. }),
        "validation",
    );
    check(&["train/a/1.png", "val/b/1.png"], &[], |e| matches!(e, ExtraClass { .. }), "class `b`");
    check(&["train/a/1.png", "val/a/1.png"], &["train/b"], |e| matches!(e, ClassWithoutImages { .. }), "train/b");
    check(&["train/a/1.png"], &["test/a"], |e| matches!(e, NoImages { .. }), "test: no images");
    check(&["train/a/1.png", "stray.png"], &[], |e| matches!(e, NoClass { .. }), "stray.png");
}

#[test]
fn an_empty_class_folder_to_validate_on_is_said() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path(), &["train/a/1.png", "train/b/2.png", "val/a/3.png"]);
    fs::create_dir(dir.path().join("val/b")).unwrap();
    let set = open(dir.path()).unwrap();
    assert!(set.notes.iter().any(|note| note.contains("empty class folders: val/b")), "{:?}", set.notes);
}

#[test]
fn the_split_of_a_table_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path(), &["1.png", "2.png", "3.png", "4.png"]);
    let table = dir.path().join("t.csv");
    let write = |text: &str| fs::write(&table, text).unwrap();
    write("split,path,label\ntrain,1.png,b\nTRAINING, 2.png,a\n".replace(", ", ",").as_str());
    assert!(open(&table).unwrap().validation.is_none());
    write("path,label,Split\n1.png,b,train\n2.png,a,train\n3.png,b,Val\n4.png,b, test\n");
    let set = open(&table).unwrap();
    assert_eq!((counts(&set.train), set.class_names), (vec![1, 1], vec!["a".to_string(), "b".to_string()]));
    assert_eq!(counts(set.validation.as_ref().unwrap()), [0, 1]);
    assert_eq!(counts(set.test.as_ref().unwrap()), [0, 1]);

    use PhotoError::*;
    write("path,label,split\n1.png,b,train\n2.png,a,\n");
    assert!(matches!(refused(&table), EmptySplit { line: 3, .. }));
    write("path,label,split\n1.png,b,train\n2.png,a,fold3\n");
    let error = refused(&table);
    assert!(matches!(&error, SplitWord { line: 3, word, .. } if word == "fold3"), "{error}");
    assert!(error.to_string().contains("t.csv:3"), "{error}");
    write("path,label,split\n1.png,b,val\n");
    assert!(matches!(refused(&table), NoTraining { .. }));
    write("path,label,split\n1.png,b,train\n2.png,c,val\n");
    assert!(matches!(refused(&table), ExtraClass { class, .. } if class == "c"));
    write("path,label,split\n1.png,b,train\n2.png,b,train\n1.png,b,val\n");
    assert!(
        matches!(refused(&table), InTwoParts { path, first: "train", second: "validation", .. } if path == "1.png")
    );
}

/// Records with images of these classes; by name alone, as numbers would hide a wrong numbering.
fn shard(path: &Path, classes: &[&str], packing: Packing) {
    let mut writer = Writer::new(Vec::new(), packing);
    for (number, class) in classes.iter().enumerate() {
        let mut record = Vec::new();
        let image = png(number as u8);
        example::write(
            &[("image", Value::Bytes(&[&image])), ("label", Value::Bytes(&[class.as_bytes()]))],
            &mut record,
        );
        writer.write(&record).unwrap();
    }
    fs::write(path, writer.finish().unwrap()).unwrap();
}

#[test]
fn shards_are_in_parts_by_their_names() {
    for [train, validation, test] in [
        ["train-00000-of-00001.tfrec", "validation-00000-of-00001.tfrec", "test-00000-of-00001.tfrec"],
        ["pets-train.tfrecord-00000-of-00001", "pets-val.tfrecord-00000-of-00001", "pets-test.tfrecord-00000-of-00001"],
        ["train00-3.tfrec", "val00-1.tfrec", "test00-1.tfrec"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        shard(&dir.path().join(train), &["b", "a", "b"], Packing::Plain);
        shard(&dir.path().join(validation), &["b"], Packing::Plain);
        shard(&dir.path().join(test), &["b"], Packing::Gzip);
        let set = open(dir.path()).unwrap();
        assert_eq!(set.class_names, ["a", "b"], "{train}");
        assert_eq!(counts(&set.train), [1, 2]);
        assert_eq!(counts(set.validation.as_ref().unwrap()), [0, 1]);
        assert_eq!(counts(set.test.as_ref().unwrap()), [0, 1]);
        assert!(set.notes[0].contains("3 train, 1 validation, 1 test"), "{:?}", set.notes);
    }
}

#[test]
fn ambiguous_shards_are_refused() {
    let check = |files: &[(&str, &[&str])], expected: fn(&ShardError) -> bool| {
        let dir = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, classes)| shard(&dir.path().join(name), classes, Packing::Plain));
        match open(dir.path()) {
            Err(DataError::Shards(error)) => assert!(expected(&error), "{error}"),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("{files:?} are accepted"),
        }
    };
    use ShardError::*;
    check(&[("train-0.tfrec", &["a"]), ("more-0.tfrec", &["a"])], |e| matches!(e, NoPartName { .. }));
    check(&[("val-0.tfrec", &["a"]), ("test-0.tfrec", &["a"])], |e| matches!(e, NoTraining { .. }));
    check(&[("test-train-0.tfrec", &["a"])], |e| matches!(e, TwoParts { .. }));
    check(
        &[("train-0.tfrec", &["a"]), ("val-0.tfrec", &["b"])],
        |e| matches!(e, ExtraClass { class, .. } if class == "b"),
    );
}

#[test]
fn a_validation_set_of_its_own_is_numbered_as_the_training_set() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path(), &["photos/a/1.png", "photos/b/2.png", "photos/c/3.png", "held/c/4.png", "held/a/5.png"]);
    fs::write(dir.path().join("held.csv"), "held/c/4.png,c\n").unwrap();
    fs::create_dir(dir.path().join("shards")).unwrap();
    shard(&dir.path().join("shards/val-0.tfrec"), &["c", "b"], Packing::Plain);
    let catalogue = Catalogue::with_cache(dir.path());
    let set = open(&dir.path().join("photos")).unwrap();
    let held = |name: &str| catalogue.open_validation(&dir.path().join(name), &Options::default(), &set);
    assert_eq!(counts(&held("held").unwrap().part), [1, 0, 1]);
    assert_eq!(counts(&held("held.csv").unwrap().part), [0, 0, 1]);
    assert_eq!(counts(&held("shards").unwrap().part), [0, 1, 1]);
    assert_eq!(held("shards").unwrap().part.shape(), set.train.shape());

    let check = |name: &str, words: &str| {
        let error = held(name).err().unwrap().to_string();
        assert!(error.contains(words) && error.contains(name), "{error}");
    };
    check("photos", "the training set itself");
    check("nowhere", "no such folder or file");
    photos(dir.path(), &["other/d/1.png", "split/train/a/1.png", "split/val/a/2.png"]);
    check("other", "class `d`");
    check("split", "parts of its own");
    shard(&dir.path().join("shards/train-0.tfrec"), &["c"], Packing::Plain);
    check("shards", "parts train, validation");
}

#[test]
fn roles_have_their_words() {
    for (word, role) in [("Train", Role::Train), ("VAL", Role::Validation), ("testing", Role::Test)] {
        assert_eq!(Role::of_word(word), Some(role));
    }
    assert_eq!(Role::of_word("trains"), None);
}

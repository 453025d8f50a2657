//! Parts of a csv: files of a folder, fractions, a file of its own to validate on, inputs to be predicted; and what stands for
//! the content.

use super::{TargetsAre, auto, open, open_at};
use crate::csv::CsvKind;
use crate::{
    Catalogue, CsvError, DataError, DataPart, FeatureKind, Group, InputOptions, Labelled, Lists, Options, Role, Split,
    Table, Target, TargetKind, Targets,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn write(dir: &Path, name: &str, content: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn class_of(part: &DataPart, index: usize) -> &str {
    &part.class_names()[part.label(index) as usize]
}

#[test]
fn files_of_a_folder_are_parts_under_the_columns_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let folder = |files: &[(&str, &str)]| {
        let dir = tempfile::tempdir_in(dir.path()).unwrap();
        files.iter().for_each(|(name, content)| drop(write(dir.path(), name, content)));
        open_at(dir.path(), &Options::default())
    };
    let train = ("train.csv", "a,b,y\n1,2,x\n3,4,z\n5,6,x\n");
    let set = folder(&[train, ("validation.csv", "y,b,a\nz,20,10\n"), ("test.csv", "a,b,y\n7,8,x\n")]).unwrap();
    let (validation, test) = (set.validation.clone().unwrap(), set.test.clone().unwrap());
    assert_eq!((set.train.len(), validation.len(), test.len()), (3, 1, 1));
    // Columns go by name, classes by those of the training part.
    assert_eq!(validation.memory().unwrap().features(0), crate::Features::F32(&[10.0, 20.0]));
    assert_eq!((class_of(&validation, 0), class_of(&test, 0)), ("z", "x"));
    assert!(set.notes.iter().any(|note| note.contains("3 train, 1 validation, 1 test")), "{:?}", set.notes);
    assert_eq!(Split::Auto.resolved(&set), Split::Own);

    let error = |files: &[(&str, &str)]| folder(files).unwrap_err().to_string();
    let text = error(&[train, ("test.csv", "a,c,y\n7,8,x\n")]);
    assert!(text.contains("test.csv: no column `b`, which the training data has"), "{text}");
    let text = error(&[train, ("test.csv", "a,b,c,y\n7,8,9,x\n")]);
    assert!(text.contains("test.csv: a column `c`"), "{text}");
    let text = error(&[train, ("test.csv", "a,b,y\n7,8,w\n")]);
    assert!(text.contains("test.csv: line 2: column `y`: the class `w` is none that the training data has"), "{text}");
    let text = error(&[train, ("test.csv", "a,b,y\n")]);
    assert!(text.contains("test.csv") && text.contains("no samples"), "{text}");
    let text = error(&[("test.csv", "a,b,y\n7,8,x\n")]);
    assert!(text.contains("no train.csv"), "{text}");
    let text = error(&[train, ("val.csv", "a,b,y\n7,8,x\n"), ("valid.csv", "a,b,y\n7,8,x\n")]);
    assert!(text.contains("val.csv") && text.contains("valid.csv") && text.contains("validation part"), "{text}");
    // Indices of all parts are below one bound, so that one table does for all.
    let set = folder(&[("train.csv", "i,y\n1 2,0\n3,1\n"), ("test.csv", "i,y\n9,0\n")]).unwrap();
    let bound = |part: &DataPart| match part.feature_kind() {
        FeatureKind::Lists { bound, .. } => bound,
        FeatureKind::Dense => panic!("lists"),
    };
    assert_eq!((bound(&set.train), bound(&set.test.unwrap())), (10, 10));
}

#[test]
fn a_fraction_of_samples_without_classes_is_a_function_of_the_seed() {
    let lines: String = (0..40).map(|n| format!("{n},{}.5\n", n * 10)).collect();
    let set = auto(format!("x,y\n{lines}"));
    let split = |seed| {
        let parts = Split::Fraction(0.25).apply(&set, seed).unwrap();
        assert_eq!((parts.train.len(), parts.validation.len()), (30, 10));
        for part in [&parts.train, &parts.validation] {
            assert_eq!((part.target_kind(), part.classes()), (TargetKind::Numbers { each: 1 }, 0));
        }
        let value = |part: &DataPart, index: usize| match part.target(index) {
            Target::Numbers(&[value]) => value as usize,
            other => panic!("{other:?}"),
        };
        let all = |part: &DataPart| (0..part.len()).map(|index| value(part, index)).collect::<BTreeSet<_>>();
        assert!(all(&parts.train).is_disjoint(&all(&parts.validation)));
        // A target goes with its features.
        let samples = parts.validation.memory().unwrap().clone();
        for index in 0..samples.len() {
            let crate::Features::F32(&[x]) = samples.features(index) else { panic!("one number") };
            assert_eq!(x as usize * 10, value(&parts.validation, index));
        }
        all(&parts.validation)
    };
    assert_eq!(split(1), split(1));
    assert_ne!(split(1), split(2));
    // Classes are still mixed alike in both parts.
    let lines: String = (0..40).map(|n| format!("{n},{}\n", n % 2)).collect();
    let parts = Split::Fraction(0.25).apply(&auto(format!("x,y\n{lines}")), 1).unwrap();
    assert_eq!((0..10).filter(|&index| parts.validation.label(index) == 1).count(), 5);
}

#[test]
fn subsets_of_lists_are_lists() {
    let set = open("i,y,z\n1 2,0.5,1\n,1.5,2\n7,2.5,3.5\n", "y,z", TargetsAre::Numbers).unwrap();
    let some = set.train.subset(vec![2, 0, 2]).unwrap();
    assert_eq!(some.sample_kind(), set.train.sample_kind());
    let samples = some.memory().unwrap();
    assert_eq!(samples.features(1), crate::Features::U32(&[1, 2]));
    assert_eq!((some.target(0), some.target(1)), (Target::Numbers(&[2.5, 3.5]), Target::Numbers(&[0.5, 1.0])));
}

#[test]
fn a_validation_file_goes_by_the_training_data() {
    let dir = tempfile::tempdir().unwrap();
    let set = open_at(&write(dir.path(), "a.csv", "i,y\n1 2,cat\n3,dog\n"), &Options::default()).unwrap();
    let catalogue = Catalogue::with_cache("/nowhere");
    let held = |content: &str| {
        let path = write(dir.path(), "held.csv", content);
        catalogue.open_validation(&path, &Options::default(), &set).map(|held| held.part)
    };
    let part = held("y,i\ndog,2\n").unwrap();
    assert_eq!((part.sample_kind(), class_of(&part, 0)), (set.train.sample_kind(), "dog"));
    let error = held("i,y\n1 4,dog\n").err().unwrap().to_string();
    assert!(error.contains("held.csv: line 2: column `i`: index 4 is not below 4"), "{error}");
    let error = held("i,y\n1,dogs\n").err().unwrap().to_string();
    assert!(error.contains("the class `dogs`") && error.ends_with("did you mean dog?"), "{error}");
    let error = catalogue.open_validation(dir.path(), &Options::default(), &set).err().unwrap();
    assert!(matches!(error, DataError::ValidationSet { .. }), "{error}");
}

#[test]
fn inputs_need_the_columns_of_the_model_and_perhaps_no_targets() {
    let dir = tempfile::tempdir().unwrap();
    let set = open("a,b,y\n1,2,cat\n3,4,dog\n", "", TargetsAre::Auto).unwrap();
    let kind = CsvKind { columns: set.columns.clone().unwrap(), features: set.train.feature_kind() };
    let given = |csv: Option<CsvKind>, content: &str, labels: bool| -> Result<Group, DataError> {
        let path = write(dir.path(), "in.csv", content);
        let options = InputOptions { image: None, csv, labels, seed: 0, memory: None };
        Catalogue::with_cache("/nowhere").open_inputs(&[path], &options).map(|mut groups| groups.remove(0))
    };
    let with = |content: &str, labels| given(Some(kind.clone()), content, labels);
    let group = with("id,b,a\n77,20,10\n", false).unwrap();
    assert_eq!(group.part.memory().unwrap().features(0), crate::Features::F32(&[10.0, 20.0]));
    assert_eq!((group.label(0), group.has_targets(), group.role), (None, false, None));
    assert!(group.notes[0].contains("not used: `id`"), "{:?}", group.notes);
    assert!(group.name(0).ends_with("in.csv:0"));
    let group = with("y,b,a\ndog,20,10\n", false).unwrap();
    assert_eq!((group.label(0), group.has_targets()), (Some(1), true));
    assert!(matches!(with("b,a\n20,10\n", true), Err(DataError::Csv(CsvError::MissingColumn { .. }))));
    assert!(matches!(with("a,y\n20,cat\n", false), Err(DataError::Csv(CsvError::MissingColumn { .. }))));
    assert!(matches!(given(None, "a,y\n20,cat\n", false), Err(DataError::Csv(CsvError::NoCsvModel { .. }))));
    // Lists alone: an empty line may be a sample or not.
    let lists = open("i,y\n1 2,0.5\n3,1.5\n", "", TargetsAre::Auto).unwrap();
    let lists = CsvKind { columns: lists.columns.clone().unwrap(), features: lists.train.feature_kind() };
    let group = given(Some(lists.clone()), "i\n1\n\"\"\n2 3\n\n", false).unwrap();
    let lengths: Vec<usize> = (0..3).map(|index| group.part.memory().unwrap().features(index).len()).collect();
    assert_eq!((lengths, group.label(0)), (vec![1, 0, 2], None));
    let error = given(Some(lists), "i\n1\n\n2 3\n", false).err().unwrap();
    assert!(matches!(error, DataError::Csv(CsvError::BlankLine { line: 3, .. })), "{error}");
    // Parts of a folder are groups with a role.
    let folder = tempfile::tempdir_in(dir.path()).unwrap();
    write(folder.path(), "train.csv", "a,b\n1,2\n");
    write(folder.path(), "test.csv", "a,b\n1,2\n");
    let options = InputOptions { image: None, csv: Some(kind), labels: false, seed: 0, memory: None };
    let groups = Catalogue::with_cache("/nowhere").open_inputs(&[folder.path().into()], &options).unwrap();
    assert_eq!(groups.iter().map(|group| group.role).collect::<Vec<_>>(), [Some(Role::Train), Some(Role::Test)]);
}

#[test]
fn fingerprints_are_content() {
    let print = |content: &str, are| open(content, "", are).unwrap().train.fingerprint();
    let all = [
        print("x,y\n1,0\n2,1\n", TargetsAre::Classes),
        print("x,y\n1,0\n2,1\n", TargetsAre::Numbers),
        print("x,y\n1,0\n2,0.5\n", TargetsAre::Numbers),
        print("x,y\n1,1\n2,0\n", TargetsAre::Numbers),
        print("x,y\n1,0\n3,1\n", TargetsAre::Classes),
        print("x,y\n1,a\n2,b\n", TargetsAre::Auto),
        print("x,y\n1,a\n2,c\n", TargetsAre::Auto),
        print("x,y\n1 2,0\n2,1\n", TargetsAre::Auto),
        print("x,y\n1,0\n2 2,1\n", TargetsAre::Auto),
        print("x,y\n1 2,0\n3,1\n", TargetsAre::Auto),
        print("x,y\n1 2,0\n3,1\n", TargetsAre::Numbers),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    // Not of the place, nor of how it is written.
    assert_eq!(print("x,y\n1,0\n2,1\n", TargetsAre::Classes), print("x,y\r\n1.0,\"0\"\r\n2e0,1\r\n", TargetsAre::Auto));
    // And of one class for each sample as it always was.
    let table = Table::new(vec![1], vec![1.0, 2.0], vec![0, 1], 2).unwrap();
    assert_eq!(print("x,y\n1,0\n2,1\n", TargetsAre::Classes), table.fingerprint());
    assert_eq!(table.fingerprint(), TABLE);
}

/// The fingerprint of the table above, by the program before there were other targets.
const TABLE: &str = "2-b801c3ef00cda6834efd22152c327df2";

#[test]
fn tables_and_lists_that_the_caller_has() {
    let lists = |bound, targets| Lists::new([vec![3, 1], vec![]], bound, targets);
    let classes = || Targets::classes(vec![1, 0], 2).unwrap();
    assert_eq!(lists(4, classes()).unwrap().target(0), Target::Class(1));
    assert!(matches!(lists(3, classes()), Err(DataError::IndexBeyond { sample: 0, index: 3, bound: 3 })));
    let one = Targets::numbers(vec![0.5], 1).unwrap();
    assert!(matches!(lists(4, one), Err(DataError::LengthMismatch { expected: 1, found: 2, .. })));
    assert!(matches!(Targets::numbers(vec![0.5, f32::NAN], 2), Err(DataError::NotFinite { index: 0, .. })));
    assert!(matches!(Targets::numbers(vec![0.5; 3], 2), Err(DataError::LengthMismatch { expected: 4, found: 3, .. })));
    assert!(matches!(Targets::numbers(vec![], 0), Err(DataError::LengthMismatch { .. })));
    assert!(matches!(Targets::several(vec![0, 1, 2, 0], 2, 2), Err(DataError::LabelOutOfRange { index: 1, .. })));
    let table = Table::with_numbers(vec![2], vec![0.0; 4], vec![1.0, 2.0, 3.0, 4.0], 2).unwrap();
    assert_eq!((table.len(), table.classes(), table.target(1)), (2, 0, Target::Numbers(&[3.0, 4.0])));
    assert!(Table::with_numbers(vec![2], vec![0.0; 4], vec![1.0], 1).is_err());
}

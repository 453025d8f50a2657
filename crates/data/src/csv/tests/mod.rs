//! Csv files as other programs write them, what columns are taken for, and rows that come back as they were written.

mod malformed;
mod parts;

use super::{TargetOptions, TargetsAre};
use crate::{Catalogue, DataError, DataSet, FeatureKind, Features, Info, Options, Samples, Target, TargetKind};
use paceline_base::sample::IndexWidth;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

fn options(target: &str, are: TargetsAre) -> Options {
    let columns = target.split(',').filter(|name| !name.is_empty()).map(String::from).collect();
    Options { targets: TargetOptions { columns, are }, ..Options::default() }
}

fn open_at(path: &Path, options: &Options) -> Result<DataSet, DataError> {
    Catalogue::with_cache("/nowhere").open(path.to_str().unwrap(), options)
}

/// Opens a file of this content with these targets.
fn open(content: impl AsRef<[u8]>, target: &str, are: TargetsAre) -> Result<DataSet, DataError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    std::fs::write(&path, content).unwrap();
    open_at(&path, &options(target, are))
}

fn auto(content: impl AsRef<[u8]>) -> DataSet {
    open(content, "", TargetsAre::Auto).unwrap()
}

fn samples(set: &DataSet) -> Arc<dyn Samples> {
    set.train.memory().unwrap().clone()
}

/// All values and targets, as text.
fn shown(set: &DataSet) -> String {
    let samples = samples(set);
    let row = |index: usize| {
        let features = match samples.features(index) {
            Features::F32(values) => format!("{values:?}"),
            Features::U32(indices) => format!("{indices:?}"),
            Features::U64(indices) => format!("{indices:?}"),
            Features::U8 { .. } => panic!("no bytes in a csv"),
        };
        let targets = match samples.target(index) {
            Target::Class(class) => format!("{class}"),
            Target::Classes(classes) => format!("{classes:?}"),
            Target::Numbers(numbers) => format!("{numbers:?}"),
        };
        format!("{features}→{targets}")
    };
    (0..samples.len()).map(row).collect::<Vec<_>>().join(" ")
}

#[test]
fn files_as_other_programs_write_them() {
    let expected = "[1.0, -2.5]→[0.5] [3.0, 0.001]→[7.0]";
    for (who, content) in [
        ("plain", "a,b,y\n1,-2.5,0.5\n3,1e-3,7\n"),
        ("no line end at the end", "a,b,y\n1,-2.5,0.5\n3,1e-3,7"),
        ("windows", "a,b,y\r\n1,-2.5,0.5\r\n3,1E-03,7\r\n"),
        ("excel", "\u{feff}\"a\",\"b\",\"y\"\r\n\"1\",\"-2.5\",\"0.5\"\r\n\"3\",\"0.001\",\"7\"\r\n"),
        ("spaces around cells", "a, b , y\n 1 , -2.5,0.5 \n3,\t0.001, 7.0\n"),
        ("plus signs and bare points", "a,b,y\n+1,-2.5,.5\n3.,1e-3,7\n"),
        ("empty lines", "\na,b,y\n\n1,-2.5,0.5\n\n\n3,1e-3,7\n\n"),
        ("old macs", "a,b,y\r1,-2.5,0.5\r3,1e-3,7\r"),
    ] {
        let set = auto(content);
        assert_eq!(shown(&set), expected, "{who}");
        assert_eq!((set.train.shape(), set.train.classes()), (&[2][..], 0), "{who}");
        assert_eq!(set.train.target_kind(), TargetKind::Numbers { each: 1 }, "{who}");
        let columns = set.columns.unwrap();
        assert_eq!(
            (&columns.features[..], &columns.targets[0].name[..]),
            (&["a".into(), "b".into()][..], "y"),
            "{who}"
        );
    }
    let quoted = auto("\"size, in m\",\"the \"\"kind\"\"\"\n1,\"a, b\"\n2,\"say \"\"c\"\"\"\n");
    assert_eq!(quoted.class_names, ["a, b", "say \"c\""]);
    assert_eq!(quoted.columns.unwrap().features, ["size, in m"]);
}

#[test]
fn targets_are_what_their_values_say() {
    let check = |content: &str, target: &str, are: TargetsAre, kind: TargetKind, names: &[&str], reason: &str| {
        let set = open(content, target, are).unwrap();
        assert_eq!(set.train.target_kind(), kind, "{content}");
        assert_eq!(set.class_names, names, "{content}");
        assert!(set.notes.iter().any(|note| note.contains(reason)), "{content}: {:?}", set.notes);
    };
    let classes = |classes, each| TargetKind::Classes { classes, each };
    let numbers = |each| TargetKind::Numbers { each };
    use TargetsAre::{Auto, Classes, Numbers};
    check("x,y\n1,b\n2,a\n3,b\n", "", Auto, classes(2, 1), &["a", "b"], "`y` are classes: `b` is no number (line 2)");
    check("x,y\n1,1\n2,0\n3,2\n", "", Auto, classes(3, 1), &["0", "1", "2"], "whole numbers from 0 to 2 without gaps");
    check("x,y\n1,1.0\n2,0.0\n", "", Auto, classes(2, 1), &["0", "1"], "without gaps");
    check("x,y\n1,0\n2,2\n", "", Auto, numbers(1), &[], "numbers to be met: 1 does not occur");
    check("x,y\n1,1\n2,2\n", "", Auto, numbers(1), &[], "0 does not occur");
    check("x,y\n1,0\n2,-1\n", "", Auto, numbers(1), &[], "`-1` is not from 0 to 999 (line 3)");
    check("x,y\n1,0\n2,0.5\n", "", Auto, numbers(1), &[], "`0.5` is not whole (line 3)");
    check("x,y\n1,0\n2,1\n", "", Numbers, numbers(1), &[], "data.targets says so");
    check("x,y\n1,7\n2,10\n3,9\n", "", Classes, classes(3, 1), &["7", "9", "10"], "data.targets says so");
    check("x,y\n1,7\n2,none\n", "", Auto, classes(2, 1), &["7", "none"], "`none` is no number");
    check("x,y\n1,1.5\n2,none\n", "", Classes, classes(2, 1), &["1.5", "none"], "data.targets says so");
    check("y,x\n0.5,1\n1.5,2\n", "y", Auto, numbers(1), &[], "targets in `y`");
    check("x,y,z\n1,0.5,3\n2,1.5,4\n", "z,y", Auto, numbers(2), &[], "targets in `z`, `y` are numbers");
    check(
        "x,y,z\n1,a,0\n2,b,1\n3,c,1\n",
        "y,z",
        Auto,
        classes(3, 2),
        &["0", "1", "2"],
        "y: `a` is no number (line 2); z: all",
    );

    let set = open("x,y,z\n1,a,0\n2,b,1\n3,c,1\n", "z,y", Auto).unwrap();
    assert_eq!(shown(&set), "[1.0]→[0, 0] [2.0]→[1, 1] [3.0]→[1, 2]");
    assert_eq!(set.columns.unwrap().targets[1].classes, ["a", "b", "c"]);
    let thousand: String = (0..=1000).map(|n| format!("{n},{n}\n")).collect();
    assert_eq!(auto(format!("x,y\n{thousand}")).train.target_kind(), numbers(1));
}

#[test]
fn one_column_with_several_entries_in_a_cell_is_lists() {
    let set = auto("items,y\n3 17 9,0\n,1\n  5   5 ,0\n");
    assert_eq!(shown(&set), "[3, 17, 9]→0 []→1 [5, 5]→0");
    assert_eq!(set.train.feature_kind(), FeatureKind::Lists { width: IndexWidth::Bits32, bound: 18 });
    assert!(set.train.shape().is_empty());
    assert!(set.notes[0].contains("lists of indices in `items`: line 2 has several"), "{:?}", set.notes);
    // A list for each, of one entry or none.
    assert_eq!(shown(&auto("items,y\n3,0\n,1\n")), "[3]→0 []→1");
    // Numbers, if no cell says otherwise.
    assert_eq!(shown(&auto("items,y\n3,0\n4,1\n")), "[3.0]→0 [4.0]→1");
    assert_eq!(auto("items,y\n3,0\n4,1\n").train.feature_kind(), FeatureKind::Dense);
    let wide = auto(format!("items,y\n1 {},0.5\n,1.5\n", u64::MAX - 1));
    assert_eq!(shown(&wide), format!("[1, {}]→[0.5] []→[1.5]", u64::MAX - 1));
    assert_eq!(wide.train.feature_kind(), FeatureKind::Lists { width: IndexWidth::Bits64, bound: u64::MAX });
    // The widest that 32 bits hold, and one more.
    let width = |largest: u64| auto(format!("items,y\n1 {largest},0\n,1\n")).train.feature_kind();
    assert!(matches!(width(u32::MAX.into()), FeatureKind::Lists { width: IndexWidth::Bits32, .. }));
    assert!(matches!(width(1 << 32), FeatureKind::Lists { width: IndexWidth::Bits64, .. }));
    // Nothing at all in any list.
    assert_eq!(
        auto("items,y\n,0\n,1\n").train.feature_kind(),
        FeatureKind::Lists { width: IndexWidth::Bits32, bound: 0 }
    );
}

#[test]
fn a_list_of_a_million_entries() {
    let entries: Vec<String> = (0..1_000_000).map(|n| (n * 7 % 999_983).to_string()).collect();
    let set = auto(format!("items,y\n{},0\n1,1\n", entries.join(" ")));
    let samples = samples(&set);
    assert_eq!((samples.features(0).len(), samples.features(1).len()), (1_000_000, 1));
    let Features::U32(indices) = samples.features(0) else { panic!("32 bits do") };
    assert!(indices.iter().zip(&entries).all(|(index, entry)| index.to_string() == *entry));
}

#[test]
fn info_says_what_is_in_it_and_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    let info = |content: &str| {
        std::fs::write(&path, content).unwrap();
        match Catalogue::with_cache("/nowhere").info(path.to_str().unwrap()).unwrap() {
            Info::Csv(info) => serde_json::to_value(info).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let dense = info("a,b,y\n1,2,red\n3,4,blue\n5,6,red\n");
    let part = &dense["parts"][0];
    assert_eq!((&part["role"], &part["rows"]), (&"train".into(), &3.into()));
    assert_eq!((&part["features"]["kind"], &part["features"]["columns"]), (&"dense".into(), &2.into()));
    assert_eq!(part["features"]["values"]["max"], 6.0);
    assert_eq!(part["targets"][0]["classes"][1], serde_json::json!({"name": "red", "count": 2}));
    assert!(dense["notes"][1].as_str().unwrap().contains("`red` is no number (line 2)"));
    let lists = info("items,y\n3 17 9,0.5\n,1.5\n");
    let part = &lists["parts"][0];
    let expected = serde_json::json!({"kind": "lists", "shortest": 0, "mean": 1.5, "longest": 3, "largest": 17});
    assert_eq!(part["features"], expected);
    assert_eq!(
        (&part["targets"][0]["values"]["min"], &part["targets"][0]["values"]["mean"]),
        (&0.5.into(), &1.0.into())
    );
    let images = Catalogue::with_cache("/nowhere").save_images(
        path.to_str().unwrap(),
        &crate::info::InfoOptions::default(),
        dir.path(),
    );
    assert!(matches!(images, Err(DataError::NoPictures { .. })));
}

/// A number as someone may write it.
fn written(value: f32, style: u8) -> String {
    match style % 4 {
        0 => format!("{value}"),
        1 => format!("\"{value}\""),
        2 => format!(" {value:e} "),
        _ => format!("{value:?}"),
    }
}

proptest! {
    /// Rows come back as they were written, in bits.
    #[test]
    fn rows_are_read_as_they_were_written(
        rows in proptest::collection::vec((proptest::collection::vec(-1e30f32..1e30, 3), -1e3f32..1e3, any::<u8>()), 1..20),
        crlf in any::<bool>(),
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = format!("a,b,c,y{end}");
        for (values, target, style) in &rows {
            let cells: Vec<String> = values.iter().chain([target]).map(|&value| written(value, *style)).collect();
            text += &format!("{}{end}", cells.join(","));
        }
        let set = open(&text, "", TargetsAre::Numbers).unwrap();
        let samples = samples(&set);
        prop_assert_eq!(samples.len(), rows.len());
        for (index, (values, target, _)) in rows.iter().enumerate() {
            prop_assert_eq!(samples.features(index), Features::F32(values));
            prop_assert_eq!(samples.target(index), Target::Numbers(&[*target]));
        }
    }

    /// So do lists, of any width.
    #[test]
    fn lists_are_read_as_they_were_written(
        rows in proptest::collection::vec((proptest::collection::vec(0u64..1 << 34, 0..6), 0u32..3), 1..20),
        shift in 0u32..30,
    ) {
        let rows: Vec<(Vec<u64>, u32)> =
            rows.into_iter().map(|(list, class)| (list.into_iter().map(|index| index >> shift).collect(), class)).collect();
        let line = |(list, class): &(Vec<u64>, u32)| {
            let list: Vec<String> = list.iter().map(u64::to_string).collect();
            format!("{},c{class}\n", list.join(" "))
        };
        // A first row that makes them lists, whatever the others are.
        let text = format!("items,y\n1 2,c0\n{}", rows.iter().map(line).collect::<String>());
        let set = auto(&text);
        let samples = samples(&set);
        for (index, (list, class)) in rows.iter().enumerate() {
            let found: Vec<u64> = match samples.features(index + 1) {
                Features::U32(indices) => indices.iter().map(|&index| index.into()).collect(),
                Features::U64(indices) => indices.to_vec(),
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(&found, list);
            let Target::Class(found) = samples.target(index + 1) else { panic!("a class") };
            prop_assert_eq!(&set.class_names[found as usize], &format!("c{class}"));
        }
    }

    /// Whatever the bytes are, they are read or refused.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::sample::select(b"ay,1. \"\r\n-e9\xff\0".to_vec()), 0..60)) {
        let mut text = b"x,y\n".to_vec();
        text.extend(&bytes);
        let _ = open(&text, "", TargetsAre::Auto);
        let _ = open(&bytes, "", TargetsAre::Classes);
    }
}

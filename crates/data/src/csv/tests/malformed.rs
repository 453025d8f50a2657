//! Every way in which a csv can be wrong: named with file, line and column, and with what to do.

use super::{TargetsAre, auto, open};
use crate::{CsvError, DataError};

/// The error of a file, which names it, in the variant and with the words that are wanted.
macro_rules! check {
    ($content:expr, $target:expr, $are:ident, $variant:ident, $($words:expr),+) => {{
        let error = open($content, $target, TargetsAre::$are).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, DataError::Csv(CsvError::$variant { .. })), "{error:?}");
        assert!(text.contains("t.csv"), "{text}");
        $(assert!(text.contains($words), "{text}");)+
        assert_eq!(paceline_base::Error::from(error).kind(), paceline_base::Kind::User);
    }};
}

#[test]
fn first_lines() {
    check!("", "", Auto, Empty, "is empty");
    check!("\n\n", "", Auto, Empty, "is empty");
    check!("1,2,3\n4,5,6\n", "", Auto, NoHeader, "`1,2,3`", "names them");
    check!("3 17 9,1\n5,0\n", "", Auto, NoHeader, "not the names of the columns");
    check!("a,b,y\n", "", Auto, NoRows, "no samples");
    check!("a,b,y", "", Auto, NoRows, "no samples");
    check!(",a,y\n0,1,2\n", "", Auto, NamelessColumn, "column 1 has no name", "index=False");
    check!("a,b,a\n0,1,2\n", "", Auto, SameName, "columns 1 and 3", "`a`");
    check!(b"a,\xff\n0,1\n", "", Auto, NotUtf8, "line 1", "column `2`");
    check!("a;b;y\n1;2;3\n", "", Auto, NoFeatures, "separated by commas");
    check!("y\n1\n2\n", "", Auto, NoFeatures, "1 target column");
}

#[test]
fn target_columns() {
    check!(
        "size,price\n1,2\n",
        "prize",
        Auto,
        UnknownTarget,
        "no column `prize`",
        "size, price",
        "did you mean price?"
    );
    check!("a,b,c\n1,2,3\n", "b,b", Auto, TargetTwice, "`b` twice");
    check!("a,b\n1,2\n", "a,b", Auto, NoFeatures, "2 target columns");
}

#[test]
fn lines_and_quotes() {
    check!("a,b,y\n1,2,3\n1,2\n", "", Auto, Cells, "line 3", "2 cells instead of 3");
    check!("a,b,y\n1,2,3,4\n", "", Auto, Cells, "line 2", "4 cells instead of 3");
    check!("a,b,y\r\n\r\n1,2,3\r\n\r\n1,2,3,4\r\n", "", Auto, Cells, "line 5", "4 cells");
    check!("a,b,y\n\"1\n\",2,3\n1,2\n", "", Auto, Cells, "line 4", "2 cells");
    check!("a,y\n1,\"x\n2,y\n3,z\n", "", Auto, Quotes, "line 2", "not closed");
    check!("a,y\n1,x\n2,\"y", "", Auto, Quotes, "line 3", "not closed");
}

#[test]
fn cells_of_features() {
    check!("a,b,y\n1,2,3\n1,,3\n", "", Auto, EmptyCell, "line 3", "column `b`");
    check!("a,b,y\n1,2,3\nabc,2,3\n", "", Auto, NotANumber, "line 3", "column `a`", "`abc`", "data.target");
    check!("a,b,y\n1,1 2,3\n", "", Auto, NotANumber, "`1 2`");
    for value in ["NaN", "inf", "-Infinity", "1e39"] {
        check!(format!("a,b,y\n1,{value},3\n"), "", Auto, NotFinite, "line 2", "column `b`", value);
    }
    check!("a,y\n1.5,0\n,1\n", "", Auto, EmptyCell, "line 3", "column `a`");
    check!("i,y\n1 2,0\n3 -4,1\n", "", Auto, NotAnIndex, "line 3", "column `i`", "`-4`", "whole numbers");
    check!("i,y\n1 2,0\n3 x,1\n", "", Auto, NotAnIndex, "`x`");
    check!("i,y\n1 2.5,0\n3,1\n", "", Auto, NotAnIndex, "`2.5`");
    for large in ["18446744073709551615", "18446744073709551616", "99999999999999999999999"] {
        check!(format!("i,y\n1 {large},0\n"), "", Auto, NotAnIndex, large, "18446744073709551614");
    }
    // A cell of any length is shown by its beginning.
    let long = "x".repeat(1 << 20);
    let error = open(format!("a,b,y\n1,{long},2\n"), "", TargetsAre::Auto).unwrap_err().to_string();
    assert!(error.len() < 400 && error.contains("xxx…"), "{error}");
}

#[test]
fn cells_of_targets() {
    check!("x,y\n1,0.5\n2,\n", "", Auto, EmptyCell, "line 3", "column `y`");
    check!("x,y\n1,0.5\n2,nan\n", "", Auto, NotFinite, "line 3", "column `y`");
    check!("x,y\n1,0.5\n2,1e39\n", "", Auto, NotFinite, "line 3", "column `y`");
    check!("x,y\n1,0.5\n2,abc\n", "", Numbers, NotANumber, "line 3", "`abc`", "data.targets = \"classes\"");
    check!(b"x,y\n1,a\n2,\xff\n", "", Auto, NotUtf8, "line 3", "column `y`");
    // A column of both kinds, and columns of different kinds.
    check!(
        "x,y\n1,a\n2,b\n3,0.5\n",
        "",
        Auto,
        MixedTargets,
        "`y` holds `a` in line 2",
        "`0.5` in line 4",
        "data.targets"
    );
    check!(
        "x,y,z\n1,0.5,a\n",
        "y,z",
        Auto,
        MixedTargets,
        "`y` holds `0.5` in line 2, which is a number",
        "`z` holds `a`"
    );
    check!(
        "x,y,z\n1,0,0.5\n2,1,1\n",
        "y,z",
        Auto,
        MixedTargets,
        "`y` holds `0` in line 2, which is the number of a class"
    );
    // What the user says holds.
    open("x,y,z\n1,0,0.5\n2,1,1\n", "y,z", TargetsAre::Numbers).unwrap();
    open("x,y,z\n1,0.5,a\n", "y,z", TargetsAre::Classes).unwrap();
}

#[test]
fn what_lists_images_is_still_a_table_of_photos() {
    for content in ["path,label\na.jpg,x\n", "a.jpg,x\n", "label,file\nx,a.jpg\n"] {
        let error = open(content, "", TargetsAre::Auto).unwrap_err();
        assert!(matches!(error, DataError::Photos(_)), "{error:?}");
    }
    auto("x,label\n1,a\n");
}

//! A table of path and label: comma- or tab-separated, quoted as RFC 4180 says.
//!
//! Without a header there are two columns, path and label. A first line that names them is a header: then the columns
//! may stand in any order, among others; one called `split` says which lines are for training, validation and test.

use super::{Listing, MAX_CLASSES, Photos, from_bytes};
use crate::regular::{self, read_regular};
use crate::{DataError, PhotoError, Result, Role, UNLABELLED};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

/// What the columns may be called in a header.
const PATHS: [&str; 7] = ["path", "file", "filename", "file_name", "image", "image_path", "filepath"];
const LABELS: [&str; 5] = ["label", "class", "category", "class_name", "target"];
const SPLIT: [&str; 1] = ["split"];

/// The files of one part as they are found.
struct Found {
    photos: Photos,
    classes: HashMap<String, usize>,
}

impl Found {
    fn below(root: &Path) -> Self {
        Self { photos: Photos { root: root.to_path_buf(), ..Photos::default() }, classes: HashMap::new() }
    }

    /// The number of a class, in the order in which they are found.
    fn class(&mut self, label: &str, table: &str) -> Result<usize> {
        if let Some(&class) = self.classes.get(label) {
            return Ok(class);
        }
        let class = self.classes.len();
        if class == MAX_CLASSES {
            return Err(PhotoError::TooManyClasses { folder: table.into(), limit: MAX_CLASSES }.into());
        }
        self.classes.insert(label.to_string(), class);
        self.photos.classes.push(label.to_string());
        Ok(class)
    }
}

/// Lists a table; every file must be there.
pub(super) fn list(path: &Path, tabs: bool) -> Result<Listing> {
    let bytes = read_regular(path)?;
    let table = path.display().to_string();
    let root = path.parent().unwrap_or(Path::new(""));
    let mut parts: [Option<Found>; 3] = [None, None, None];
    parse_table(&bytes, &table, tabs, |line, file, label, role| {
        check(root, &table, line, file)?;
        let found = parts[role.unwrap_or(Role::Train) as usize].get_or_insert_with(|| Found::below(root));
        let class = found.class(label, &table)?;
        found.photos.push(file, class);
        Ok(())
    })?;
    if parts.iter().all(Option::is_none) {
        return Err(PhotoError::EmptyTable { table }.into());
    }
    let lists = parts.map(|found| {
        found.map(|mut found| {
            found.photos.sort();
            found.photos
        })
    });
    let listing = Listing::join(path, lists)?;
    in_one_part(&listing, &table)?;
    Ok(listing)
}

/// A line's file must be there, and be one that can be read to its end.
fn check(root: &Path, table: &str, line: usize, file: &[u8]) -> Result<()> {
    let shown = || String::from_utf8_lossy(file).into_owned();
    match std::fs::metadata(root.join(from_bytes(file))) {
        Ok(meta) if meta.is_file() => Ok(()),
        Ok(meta) => {
            let (table, what) = (table.to_string(), regular::words(meta.file_type()));
            Err(PhotoError::NotRegular { table, line, path: shown(), what }.into())
        }
        Err(_) => Err(PhotoError::Missing { table: table.to_string(), line, path: shown() }.into()),
    }
}

/// What is trained on is not validated or tested on: no file may be in two parts.
fn in_one_part(listing: &Listing, table: &str) -> Result<()> {
    if !listing.is_split() {
        return Ok(());
    }
    let mut seen: HashMap<&[u8], Role> = HashMap::new();
    for (role, photos) in listing.parts() {
        for file in &photos.files {
            let path = photos.bytes(file);
            if let Some(&first) = seen.get(path).filter(|&&first| first != role) {
                let (path, first, second) = (String::from_utf8_lossy(path).into_owned(), first.name(), role.name());
                return Err(PhotoError::InTwoParts { table: table.into(), path, first, second }.into());
            }
            seen.insert(path, role);
        }
    }
    Ok(())
}

/// The cells of the first line of a table, to see what kind it is; none of a line that cannot be read.
pub(crate) fn first_line(path: &Path) -> Result<Vec<Vec<u8>>> {
    /// No line that names columns is longer.
    const MOST: u64 = 1 << 20;
    let mut bytes = Vec::new();
    let read = regular::open_regular(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
    read.map_err(DataError::io("read", path))?;
    let rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut fields = Vec::new();
    // What is wrong with it is found by whoever reads all of it.
    let _ = Lines { rest, delimiter: b',', line: 1, name: "" }.next(&mut fields);
    Ok(fields)
}

/// Whether a first line names a column of paths.
pub(crate) fn names_paths(fields: &[Vec<u8>]) -> bool {
    Columns::of(fields, false).is_some()
}

/// A path as it stands in a cell.
pub(crate) fn file_name(cell: &[u8]) -> OsString {
    from_bytes(cell.trim_ascii())
}

/// The files of a table in its order, whether they are there or not, by part; labels where there are any.
pub(crate) fn given(path: &Path, tabs: bool) -> Result<[Option<Photos>; 3]> {
    let bytes = read_regular(path)?;
    let table = path.display().to_string();
    let root = path.parent().unwrap_or(Path::new(""));
    let mut parts: [Option<Found>; 3] = [None, None, None];
    parse(&bytes, &table, tabs, false, |_, file, label, role| {
        let found = parts[role.unwrap_or(Role::Train) as usize].get_or_insert_with(|| Found::below(root));
        let class = label.map(|label| found.class(label, &table)).transpose()?;
        found.photos.push(file, class.unwrap_or(UNLABELLED as usize));
        Ok(())
    })?;
    match parts.iter().all(Option::is_none) {
        true => Err(PhotoError::EmptyTable { table }.into()),
        false => Ok(parts.map(|found| found.map(|found| found.photos))),
    }
}

/// Reads a table; `each` hears line, path, label, and what the column `split` says if there is one. `name` stands for the
/// table in errors.
///
/// # Errors
/// [`PhotoError`] with the line, and what `each` returns.
pub(crate) fn parse_table(
    bytes: &[u8],
    name: &str,
    tabs: bool,
    mut each: impl FnMut(usize, &[u8], &str, Option<Role>) -> Result<()>,
) -> Result<()> {
    parse(bytes, name, tabs, true, |line, path, label, role| each(line, path, label.unwrap_or_default(), role))
}

/// The same; where labels are not `required`, there may be none on some lines, or no column of them.
fn parse(
    bytes: &[u8],
    name: &str,
    tabs: bool,
    required: bool,
    mut each: impl FnMut(usize, &[u8], Option<&str>, Option<Role>) -> Result<()>,
) -> Result<()> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines = Lines { rest: bytes, delimiter: if tabs { b'\t' } else { b',' }, line: 1, name };
    let mut fields = Vec::new();
    let mut columns = Columns { path: 0, label: Some(1), split: None, count: 2 };
    let mut first = true;
    while let Some(line) = lines.next(&mut fields)? {
        if fields.len() == 1 && fields[0].is_empty() {
            continue;
        }
        if std::mem::take(&mut first) {
            if let Some(stated) = Columns::of(&fields, required) {
                columns = stated;
                continue;
            }
            if !required && fields.len() == 1 {
                columns = Columns { path: 0, label: None, split: None, count: 1 };
            }
        }
        let Columns { path, label, split, count } = columns;
        let table = || name.to_string();
        if fields.len() != count {
            return Err(PhotoError::Columns { table: table(), line, found: fields.len() }.into());
        }
        for (column, field) in [("path", Some(path)), ("label", label.filter(|_| required))] {
            if field.is_some_and(|field| fields[field].is_empty()) {
                return Err(PhotoError::EmptyField { table: table(), line, column }.into());
            }
        }
        let label = label.map(|label| std::str::from_utf8(&fields[label])).transpose();
        let label = label.map_err(|_| PhotoError::Label { table: table(), line })?.filter(|label| !label.is_empty());
        let role = split.map(|split| role(&fields[split], table, line)).transpose()?;
        each(line, &fields[path], label, role)?;
    }
    Ok(())
}

/// What a field of the column `split` says.
fn role(field: &[u8], table: impl Fn() -> String, line: usize) -> Result<Role, PhotoError> {
    let word = String::from_utf8_lossy(field.trim_ascii());
    match Role::of_word(&word) {
        Some(role) => Ok(role),
        None if word.is_empty() => Err(PhotoError::EmptySplit { table: table(), line }),
        None => Err(PhotoError::SplitWord { table: table(), line, word: word.chars().take(40).collect() }),
    }
}

/// Where path, label and split stand, and how many columns there are.
#[derive(Clone, Copy)]
struct Columns {
    path: usize,
    label: Option<usize>,
    split: Option<usize>,
    count: usize,
}

impl Columns {
    /// As stated by a line, if it is a header; one that names no label is none where labels are required.
    fn of(fields: &[Vec<u8>], required: bool) -> Option<Self> {
        let find = |names: &[&str]| {
            fields
                .iter()
                .position(|field| names.iter().any(|name| field.trim_ascii().eq_ignore_ascii_case(name.as_bytes())))
        };
        let label = find(&LABELS);
        if required && label.is_none() {
            return None;
        }
        Some(Self { path: find(&PATHS)?, label, split: find(&SPLIT), count: fields.len() })
    }
}

/// The lines of a table; a quoted field may hold line ends.
struct Lines<'a> {
    rest: &'a [u8],
    delimiter: u8,
    line: usize,
    name: &'a str,
}

impl Lines<'_> {
    /// The fields of the next line and its number, or none at the end.
    fn next(&mut self, fields: &mut Vec<Vec<u8>>) -> Result<Option<usize>> {
        fields.clear();
        if self.rest.is_empty() {
            return Ok(None);
        }
        let line = self.line;
        loop {
            let field = self.field()?;
            fields.push(field);
            match self.rest {
                [b, rest @ ..] if *b == self.delimiter => self.rest = rest,
                [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => {
                    self.rest = rest;
                    self.line += 1;
                    return Ok(Some(line));
                }
                // A lone carriage return at the very end.
                [b'\r'] | [] => {
                    self.rest = &[];
                    return Ok(Some(line));
                }
                _ => return Err(self.quotes("text after the closing quote")),
            }
        }
    }

    /// The next field, without its quotes.
    fn field(&mut self) -> Result<Vec<u8>> {
        let Some(mut rest) = self.rest.strip_prefix(b"\"") else {
            let end = |(i, &b): (usize, &u8)| {
                b == self.delimiter || b == b'\n' || b == b'\r' && matches!(self.rest.get(i + 1), Some(b'\n') | None)
            };
            let end = self.rest.iter().enumerate().position(end).unwrap_or(self.rest.len());
            let (field, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Ok(field.to_vec());
        };
        let mut field = Vec::new();
        let start = self.line;
        loop {
            match rest {
                [b'"', b'"', more @ ..] => {
                    field.push(b'"');
                    rest = more;
                }
                [b'"', more @ ..] => {
                    self.rest = more;
                    return Ok(field);
                }
                [byte, more @ ..] => {
                    self.line += usize::from(*byte == b'\n');
                    field.push(*byte);
                    rest = more;
                }
                [] => {
                    self.line = start;
                    return Err(self.quotes("a quoted field that does not end"));
                }
            }
        }
    }

    fn quotes(&self, reason: &'static str) -> DataError {
        PhotoError::Quotes { table: self.name.into(), line: self.line, reason }.into()
    }
}

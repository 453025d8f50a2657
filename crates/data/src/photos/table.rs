//! A table of path and label: comma- or tab-separated, quoted as RFC 4180 says.
//!
//! Without a header there are two columns, path and label. A first line that names them is a header: then the columns
//! may stand in any order, among others.

use super::{MAX_CLASSES, Photos, from_bytes};
use crate::{DataError, PhotoError, Result};
use std::collections::HashMap;
use std::path::Path;

/// What the columns may be called in a header.
const PATHS: [&str; 7] = ["path", "file", "filename", "file_name", "image", "image_path", "filepath"];
const LABELS: [&str; 5] = ["label", "class", "category", "class_name", "target"];

/// Lists a table; every file must be there.
pub(super) fn list(path: &Path, tabs: bool) -> Result<Photos> {
    let bytes = std::fs::read(path).map_err(DataError::io("read", path))?;
    let table = path.display().to_string();
    let root = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut photos = Photos { root, ..Photos::default() };
    let mut classes: HashMap<String, usize> = HashMap::new();
    parse_table(&bytes, &table, tabs, |line, file, label| {
        if !photos.root.join(from_bytes(file)).is_file() {
            let path = String::from_utf8_lossy(file).into_owned();
            return Err(PhotoError::Missing { table: table.clone(), line, path }.into());
        }
        let class = match classes.get(label) {
            Some(&class) => class,
            None if classes.len() == MAX_CLASSES => {
                return Err(PhotoError::TooManyClasses { folder: table.clone(), limit: MAX_CLASSES }.into());
            }
            None => {
                let class = classes.len();
                classes.insert(label.to_string(), class);
                photos.classes.push(label.to_string());
                class
            }
        };
        photos.push(file, class);
        Ok(())
    })?;
    if photos.is_empty() {
        return Err(PhotoError::EmptyTable { table }.into());
    }
    photos.sort();
    Ok(photos)
}

/// Reads a table; `each` hears line, path and label. `name` stands for it in errors.
///
/// # Errors
/// [`PhotoError`] with the line, and what `each` returns.
pub fn parse_table(
    bytes: &[u8],
    name: &str,
    tabs: bool,
    mut each: impl FnMut(usize, &[u8], &str) -> Result<()>,
) -> Result<()> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines = Lines { rest: bytes, delimiter: if tabs { b'\t' } else { b',' }, line: 1, name };
    let mut fields = Vec::new();
    // Columns of path and label, and how many there are, where a header says so.
    let mut header: Option<(usize, usize, usize)> = None;
    let mut first = true;
    while let Some(line) = lines.next(&mut fields)? {
        if fields.len() == 1 && fields[0].is_empty() {
            continue;
        }
        if std::mem::take(&mut first)
            && let Some((path, label)) = columns(&fields)
        {
            header = Some((path, label, fields.len()));
            continue;
        }
        let (path, label, count) = header.unwrap_or((0, 1, 2));
        let table = || name.to_string();
        if fields.len() != count {
            return Err(PhotoError::Columns { table: table(), line, found: fields.len() }.into());
        }
        for (column, field) in [("path", path), ("label", label)] {
            if fields[field].is_empty() {
                return Err(PhotoError::EmptyField { table: table(), line, column }.into());
            }
        }
        let label = std::str::from_utf8(&fields[label]).map_err(|_| PhotoError::Label { table: table(), line })?;
        each(line, &fields[path], label)?;
    }
    Ok(())
}

/// The columns of path and label, if the line is a header.
fn columns(fields: &[Vec<u8>]) -> Option<(usize, usize)> {
    let find = |names: &[&str]| {
        fields
            .iter()
            .position(|field| names.iter().any(|name| field.trim_ascii().eq_ignore_ascii_case(name.as_bytes())))
    };
    Some((find(&PATHS)?, find(&LABELS)?))
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

//! The text of a csv: its first line, its rows, and on which line something stands.

use crate::error::{CsvError, Result};
use crate::regular::read_regular;
use ::csv::{ByteRecord, Reader, ReaderBuilder};
use std::path::Path;

/// A csv in memory, whose first line names the columns.
pub(super) struct Text {
    /// The file, for errors.
    pub file: String,
    bytes: Vec<u8>,
    /// Names of the columns: not empty, each once.
    pub header: Vec<String>,
}

/// A row and where it begins.
pub(super) struct Row<'a> {
    pub at: u64,
    cells: &'a ByteRecord,
}

impl Row<'_> {
    /// A cell without the spaces around it.
    #[inline]
    pub(super) fn cell(&self, column: usize) -> &[u8] {
        self.cells.get(column).unwrap_or_default().trim_ascii()
    }
}

impl Text {
    /// Reads a file and its first line.
    pub(super) fn read(path: &Path) -> Result<Self> {
        Self::of(path.display().to_string(), read_regular(path)?)
    }

    /// The same of bytes.
    pub(super) fn of(file: String, mut bytes: Vec<u8>) -> Result<Self> {
        if bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        let mut text = Self { file, bytes, header: Vec::new() };
        text.check_quotes()?;
        text.header = text.read_header()?;
        text.check_blank_lines()?;
        Ok(text)
    }

    fn reader(&self) -> Reader<&[u8]> {
        // Lines of any length are read, so that what is wrong with them can be said in our words.
        ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&self.bytes[..])
    }

    /// Calls `each` for every record, the first line included, until it says false.
    fn records(&self, mut each: impl FnMut(u64, &ByteRecord) -> Result<bool>) -> Result<()> {
        let mut reader = self.reader();
        let mut record = ByteRecord::new();
        loop {
            let at = reader.position().byte();
            let read = reader.read_byte_record(&mut record);
            // Memory does not fail, and flexible records are of any length: nothing else can be wrong.
            let read = read.map_err(|e| crate::DataError::io("read", Path::new(&self.file))(e.into()))?;
            if !read || !each(at, &record)? {
                return Ok(());
            }
        }
    }

    /// Calls `each` for every row below the first line; all have as many cells as that.
    pub(super) fn rows(&self, mut each: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let (mut first, expected) = (true, self.header.len());
        self.records(|at, cells| {
            if std::mem::take(&mut first) {
                return Ok(true);
            }
            if cells.len() != expected {
                let (file, line, found) = (self.file.clone(), self.line(at), cells.len());
                return Err(CsvError::Cells { file, line, found, expected }.into());
            }
            each(Row { at, cells })?;
            Ok(true)
        })
    }

    /// The line of a record that begins here, or after the line ends that follow; the first is 1.
    pub(super) fn line(&self, at: u64) -> usize {
        let at = (at as usize).min(self.bytes.len());
        let ends = self.bytes[at..].iter().take_while(|&&byte| byte == b'\n' || byte == b'\r').count();
        let before = &self.bytes[..at + ends];
        let alone = |(i, &byte): (usize, &u8)| byte == b'\n' || byte == b'\r' && self.bytes.get(i + 1) != Some(&b'\n');
        1 + before.iter().enumerate().filter(|&place| alone(place)).count()
    }

    fn read_header(&self) -> Result<Vec<String>> {
        let mut cells: Option<Vec<Vec<u8>>> = None;
        self.records(|_, record| {
            cells = Some(record.iter().map(|cell| cell.trim_ascii().to_vec()).collect());
            Ok(false)
        })?;
        let file = || self.file.clone();
        let cells = cells.filter(|cells| cells.iter().any(|cell| !cell.is_empty()));
        let cells = cells.ok_or_else(|| CsvError::Empty { file: file() })?;
        if cells.iter().all(|cell| is_value(cell)) {
            let found: Vec<String> = cells.iter().map(|cell| shown(cell)).collect();
            return Err(CsvError::NoHeader { file: file(), found: shown(found.join(",").as_bytes()) }.into());
        }
        let mut names: Vec<String> = Vec::with_capacity(cells.len());
        let mut places = std::collections::HashMap::new();
        for (place, cell) in cells.into_iter().enumerate() {
            let column = place + 1;
            let name = String::from_utf8(cell);
            let name = name.map_err(|_| CsvError::NotUtf8 { file: file(), line: 1, column: column.to_string() })?;
            if name.is_empty() {
                return Err(CsvError::NamelessColumn { file: file(), column }.into());
            }
            if let Some(first) = places.insert(name.clone(), column) {
                return Err(CsvError::SameName { file: file(), name, first, second: column }.into());
            }
            names.push(name);
        }
        Ok(names)
    }

    /// Quotes come in pairs. The reader would take all that follows an open one as a part of its cell.
    fn check_quotes(&self) -> Result<()> {
        let odd = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'"').count() % 2 == 1;
        if !odd(&self.bytes) {
            return Ok(());
        }
        let mut begins = Vec::new();
        self.records(|at, _| {
            begins.push(at as usize);
            Ok(true)
        })?;
        let ends = begins.iter().skip(1).copied().chain([self.bytes.len()]);
        let open = begins.iter().copied().zip(ends).find(|&(from, to)| odd(&self.bytes[from..to]));
        let line = self.line(open.map_or(0, |(from, _)| from) as u64);
        Err(CsvError::Quotes { file: self.file.clone(), line }.into())
    }

    /// The reader passes over empty lines. Where there is one column alone, such a line may have been meant as a sample.
    fn check_blank_lines(&self) -> Result<()> {
        if self.header.len() > 1 {
            return Ok(());
        }
        let mut lines = self.bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).enumerate();
        let Some((blank, _)) = lines.find(|(_, line)| line.is_empty()) else { return Ok(()) };
        match lines.any(|(_, line)| !line.is_empty()) {
            true => Err(CsvError::BlankLine { file: self.file.clone(), line: blank + 1 }.into()),
            false => Ok(()), // the end of the file
        }
    }
}

/// Whether a cell may be a value, so that it is no name: a number, or a list of whole numbers.
fn is_value(cell: &[u8]) -> bool {
    let list = || cell.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace());
    let number = || std::str::from_utf8(cell).is_ok_and(|text| text.parse::<f64>().is_ok());
    list() || number()
}

/// A cell as errors show it: its beginning.
pub(super) fn shown(cell: &[u8]) -> String {
    const MOST: usize = 40;
    let text = String::from_utf8_lossy(&cell[..cell.len().min(4 * MOST)]).into_owned();
    match text.chars().count() > MOST || cell.len() > 4 * MOST {
        true => text.chars().take(MOST).chain(['…']).collect(),
        false => text,
    }
}

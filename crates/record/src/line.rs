//! The lines of `steps.jsonl`, and how its tail is made clean before something is appended.
//!
//! Each line is one JSON object whose `kind` says what it is: `steps` (a header), `step`, `epoch` or `note`. Readers
//! skip kinds that they do not know, so that a later version may add some without a new format.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use paceline_base::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::{EpochRecord, StepRecord, check_format};

/// Begins an attempt: the first line of the file, and one more for each restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Format of the lines that follow.
    pub format: u32,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The first step that this attempt does, which is also how many steps were done before it.
    #[serde(default)]
    pub start_step: u64,
    /// When it began, in Unix seconds.
    #[serde(default)]
    pub started: u64,
}

/// One line, as read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Line {
    Steps(Header),
    Step(StepRecord),
    Epoch(EpochRecord),
    Note {
        text: String,
    },
    /// Written by a later version.
    #[serde(other)]
    Unknown,
}

impl Line {
    /// Reads one line. The format of a header is looked at before anything else in it.
    pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Option<Line>> {
        #[derive(Deserialize)]
        struct Peek {
            format: Option<u64>,
        }
        match serde_json::from_slice::<Line>(text) {
            Ok(Line::Steps(header)) => {
                check_format(path, u64::from(header.format))?;
                Ok(Some(Line::Steps(header)))
            }
            Ok(line) => Ok(Some(line)),
            Err(_) => {
                // A header of a later format need not look like ours; it still says its number.
                if let Ok(Peek { format: Some(format) }) = serde_json::from_slice(text) {
                    check_format(path, format)?;
                }
                Ok(None)
            }
        }
    }
}

/// Makes the end of the file a line end: a last line that was torn by a kill is cut off, a whole one without its line
/// end gets it. Returns how many bytes were cut.
pub(crate) fn mend_tail(path: &Path) -> Result<u64> {
    let fail = |doing: &str, e: &std::io::Error| Error::io(doing, path, e);
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(|e| fail("open", &e))?;
    let length = file.metadata().map_err(|e| fail("read", &e))?.len();
    let tail_start = last_line_start(&mut file, length).map_err(|e| fail("read", &e))?;
    if tail_start == length {
        return Ok(0);
    }
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(tail_start)).map_err(|e| fail("read", &e))?;
    file.read_to_end(&mut tail).map_err(|e| fail("read", &e))?;
    if Line::parse(path, &tail)?.is_some() {
        file.write_all(b"\n").map_err(|e| fail("write", &e))?;
        return Ok(0);
    }
    file.set_len(tail_start).map_err(|e| fail("shorten", &e))?;
    file.sync_all().map_err(|e| fail("write", &e))?;
    Ok(length - tail_start)
}

/// The position after the last line end, found from the back: the file may be large.
fn last_line_start(file: &mut std::fs::File, length: u64) -> std::io::Result<u64> {
    let mut block = [0u8; 4096];
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, cut: u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps.jsonl");
        std::fs::write(&path, before).unwrap();
        assert_eq!(mend_tail(&path).unwrap(), cut);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
    }

    #[test]
    fn tails_are_mended() {
        let header = r#"{"kind":"steps","format":1,"attempt":1}"#;
        check("", "", 0);
        check(&format!("{header}\n"), &format!("{header}\n"), 0);
        check(header, &format!("{header}\n"), 0);
        check(&format!("{header}\n{{\"kind\":\"st"), &format!("{header}\n"), 11);
        check("{\"kind\":\"steps\",\"for", "", 20);
        let long = "x".repeat(10_000);
        check(&format!("{header}\n{long}"), &format!("{header}\n"), 10_000);
    }

    #[test]
    fn a_later_format_is_refused_however_it_looks() {
        let path = Path::new("steps.jsonl");
        for text in [r#"{"kind":"steps","format":2,"attempt":1}"#, r#"{"kind":"columns","format":3}"#] {
            // An unknown kind alone is skipped; with a header of ours it must be refused.
            let read = Line::parse(path, text.as_bytes());
            if text.contains("steps") {
                assert!(read.unwrap_err().message().contains("format 2"));
            } else {
                assert_eq!(read.unwrap(), Some(Line::Unknown));
            }
        }
        let shapeless = r#"{"kind":"steps","format":2,"attempt":"second"}"#;
        assert!(Line::parse(path, shapeless.as_bytes()).is_err());
    }
}

//! Only regular files are read. A pipe or a socket that is named like an image would be waited for until somebody writes
//! to it, and a device may never end.

use crate::{DataError, Result};
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Opens a file to read it, through links; what is no regular file is refused without waiting for it.
///
/// # Errors
/// Of the system; [`io::ErrorKind::InvalidInput`] for a folder, a pipe, a socket or a device.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Before it is opened, since opening some devices does something, and afterwards, since names change hands.
    check(std::fs::metadata(path)?.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Without this the opening itself waits for a pipe's other end. For a regular file it means nothing.
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// Reads a regular file.
///
/// # Errors
/// [`DataError::Io`].
pub(crate) fn read_regular(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open_regular(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(DataError::io("read", path))?;
    Ok(bytes)
}

/// An image file larger than this is refused: no photo is.
pub const LARGEST_IMAGE: u64 = 512 << 20;

/// Reads an image file into `bytes` (cleared first).
///
/// # Errors
/// [`DataError::Io`], and [`DataError::BadImage`] for one that is too large.
pub(crate) fn read_image(path: &Path, bytes: &mut Vec<u8>) -> Result<()> {
    bytes.clear();
    let read = open_regular(path).and_then(|file| file.take(LARGEST_IMAGE + 1).read_to_end(bytes));
    read.map_err(DataError::io("read", path))?;
    if bytes.len() as u64 > LARGEST_IMAGE {
        let reason = format!("larger than {}, which no photo is", paceline_base::text::bytes(LARGEST_IMAGE));
        return Err(DataError::BadImage { place: path.display().to_string(), reason });
    }
    Ok(())
}

fn check(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {}, not a regular file", words(kind))))
}

/// What something is that is no regular file.
pub(crate) fn words(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a pipe (FIFO)";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    if kind.is_dir() { "a folder" } else { "something else" }
}

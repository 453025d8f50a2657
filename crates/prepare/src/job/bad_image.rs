//! An image that cannot be made into a record, and how an index writes it down.

use paceline_base::text;
use paceline_data::LARGEST_IMAGE;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why an image has no record. Its text is what the index lists of images that were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BadImage {
    /// The file cannot be read: what the system said.
    Unreadable { path: PathBuf, why: String },
    /// The file is no image, or a damaged one.
    Undecodable { path: PathBuf, why: String },
    /// The list of images cannot be read where this one should stand.
    NotListed { why: String },
}

impl BadImage {
    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self::Unreadable { path: path.into(), why: error.to_string() }
    }

    pub(super) fn empty(path: &Path) -> Self {
        Self::undecodable(path, "an empty file")
    }

    pub(super) fn too_large(path: &Path) -> Self {
        Self::undecodable(path, format!("larger than {}, which no photo is", text::bytes(LARGEST_IMAGE)))
    }

    pub(super) fn undecodable(path: &Path, why: impl fmt::Display) -> Self {
        Self::Undecodable { path: path.into(), why: why.to_string() }
    }

    /// Reads what an index says, if it is about the image at `path`. (The path alone cannot be read from the text: names of files
    /// may hold what separates them from the reason.)
    pub(super) fn parse(text: &str, path: &Path) -> Option<Self> {
        let why = |rest: &str| {
            let rest = rest.strip_prefix(&*path.to_string_lossy())?;
            rest.strip_prefix(": ").map(String::from)
        };
        let unreadable = || Some(Self::Unreadable { path: path.into(), why: why(text.strip_prefix(UNREADABLE)?)? });
        let undecodable = || Some(Self::Undecodable { path: path.into(), why: why(text)? });
        unreadable().or_else(undecodable)
    }
}

/// What the text of a file that cannot be read begins with.
const UNREADABLE: &str = "cannot read ";

impl fmt::Display for BadImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => write!(f, "{UNREADABLE}{}: {why}", path.display()),
            Self::Undecodable { path, why } => write!(f, "{}: {why}", path.display()),
            Self::NotListed { why } => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_an_image_is_read_for_it_and_for_no_other() {
        let path = Path::new("/photos/a/4.png");
        for bad in [
            BadImage::undecodable(path, "neither JPEG nor PNG"),
            BadImage::unreadable(path, &std::io::Error::other("permission denied")),
            BadImage::empty(path),
            BadImage::too_large(path),
        ] {
            let text = bad.to_string();
            assert_eq!(BadImage::parse(&text, path).as_ref(), Some(&bad), "{text}");
            for other in ["/photos/a/4.png.png", "/photos/a/44.png", "/photos/a/4"] {
                assert_eq!(BadImage::parse(&text, Path::new(other)), None, "{text}");
            }
        }
        assert_eq!(BadImage::parse("/photos/a/4.png.png: an empty file", path), None);
        assert_eq!(BadImage::parse("cannot read /photos/a/44.png: permission denied", path), None);
    }
}

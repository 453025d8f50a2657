//! What is in a folder of photos, a table of them, or one image file.

use super::{ClassCount, InfoOptions, disk_file, shown};
use crate::photos::{LeftOut, Listing, Photos};
use crate::{DataError, Result, Role};
use paceline_image::{Header, Limits};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A list of photos.
#[derive(Clone, Debug, Serialize)]
pub struct PhotosInfo {
    /// The folder or table.
    pub path: PathBuf,
    /// How many images.
    pub images: usize,
    /// Their size, as far as they can be read.
    pub bytes: u64,
    /// Images that cannot be read, such as links to nowhere.
    pub unreadable: usize,
    /// Files that were left out: hidden, not named like images, or no regular files; by kind.
    pub left_out: LeftOut,
    /// That in words, with the parts that there are.
    pub notes: Vec<String>,
    /// How many of each class, over all parts.
    pub classes: Vec<ClassCount>,
    /// How many of each class in each part, where the photos are in parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PhotoPart>,
    /// The first images, taken from the classes in turn.
    pub first: Vec<PhotoShown>,
}

/// A part of a list of photos.
#[derive(Clone, Debug, Serialize)]
pub struct PhotoPart {
    /// What it is for.
    pub role: Role,
    /// How many images.
    pub images: usize,
    /// How many of each class.
    pub classes: Vec<ClassCount>,
}

/// One of the first photos.
#[derive(Clone, Debug, Serialize)]
pub struct PhotoShown {
    /// The file.
    pub path: PathBuf,
    /// The name of its class.
    pub class: String,
    /// What it is, or what is wrong with it.
    pub image: String,
}

/// One image file.
#[derive(Clone, Debug, Serialize)]
pub struct ImageInfo {
    /// The file.
    pub path: PathBuf,
    /// Size of the file.
    pub bytes: u64,
    /// `jpeg`, `png`, `webp`, `bmp` or `gif`.
    pub format: &'static str,
    /// Width, as it is to be seen.
    pub width: usize,
    /// Height, as it is to be seen.
    pub height: usize,
    /// Components as stored, 1 to 4; alpha counts.
    pub channels: usize,
    /// The EXIF orientation, 1 to 8.
    pub orientation: u8,
    /// A progressive JPEG or an interlaced PNG.
    pub progressive: bool,
    /// All that in words.
    pub words: String,
}

/// Lists the photos and looks at the first of them.
pub(super) fn look(path: &Path, look: &InfoOptions) -> Result<PhotosInfo> {
    let listing = Listing::of(path)?;
    let notes = listing.notes();
    let parts = match listing.is_split() {
        true => {
            listing.parts().map(|(role, part)| PhotoPart { role, images: part.len(), classes: classes(part) }).collect()
        }
        false => Vec::new(),
    };
    let photos = listing.into_one();
    let (mut bytes, mut unreadable) = (0, 0);
    for index in 0..photos.len() {
        match std::fs::metadata(photos.path(index)) {
            Ok(meta) => bytes += meta.len(),
            Err(_) => unreadable += 1,
        }
    }
    let first = first(&photos, look.first).map(|index| {
        let path = photos.path(index);
        let image = match header(&path) {
            Ok((header, _)) => shown::image(&header),
            Err(error) => error.to_string(),
        };
        PhotoShown { class: photos.class_names()[photos.label(index) as usize].clone(), path, image }
    });
    Ok(PhotosInfo {
        path: path.to_path_buf(),
        images: photos.len(),
        bytes,
        unreadable,
        left_out: photos.left_out().clone(),
        notes,
        classes: classes(&photos),
        parts,
        first: first.collect(),
    })
}

fn classes(photos: &Photos) -> Vec<ClassCount> {
    let classes = photos.class_names().iter().zip(photos.counts());
    classes.map(|(name, count)| ClassCount { name: name.clone(), count }).collect()
}

/// The first photos of the classes in turn: those of one class alone would say little.
pub(super) fn first(photos: &Photos, count: usize) -> impl Iterator<Item = usize> {
    let counts = photos.counts();
    let starts: Vec<usize> = counts.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect();
    let rounds = counts.iter().copied().max().unwrap_or(0);
    (0..rounds)
        .flat_map(move |round| {
            let classes: Vec<usize> =
                counts.iter().zip(&starts).filter(|(n, _)| **n > round).map(|(_, start)| start + round).collect();
            classes
        })
        .take(count)
}

/// The header of an image file, and its bytes.
pub(super) fn header(path: &Path) -> Result<(Header, Vec<u8>)> {
    let mut bytes = Vec::new();
    crate::regular::read_image(path, &mut bytes)?;
    let header = paceline_image::header(&bytes, &Limits::default()).map_err(|source| bad(path, source))?;
    Ok((header, bytes))
}

/// An image that cannot be read.
pub(super) fn bad(path: &Path, source: paceline_image::ImageError) -> DataError {
    DataError::BadImage { place: path.display().to_string(), reason: source.to_string() }
}

/// Looks at one image file.
pub(super) fn image(path: &Path) -> Result<ImageInfo> {
    let file = disk_file(path.to_path_buf())?;
    let (header, _) = header(path)?;
    Ok(ImageInfo {
        path: file.path,
        bytes: file.bytes,
        format: match header.format {
            paceline_image::Format::Jpeg => "jpeg",
            paceline_image::Format::Png => "png",
            paceline_image::Format::WebP => "webp",
            paceline_image::Format::Bmp => "bmp",
            paceline_image::Format::Gif => "gif",
        },
        width: header.width,
        height: header.height,
        channels: header.channels,
        orientation: header.orientation,
        progressive: header.progressive,
        words: shown::image(&header),
    })
}

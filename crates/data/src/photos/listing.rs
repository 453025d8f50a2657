//! A list of photos by what they are for. All parts have one list of classes, that of the training part: what is
//! validated or tested must have been learned.

use super::{LeftOut, Photos, folder, table, table_kind};
use crate::{DataError, PhotoError, Result, Role};
use std::path::Path;

/// Photos in parts.
#[derive(Debug)]
pub struct Listing {
    /// To train on: all of them, where nothing says otherwise.
    pub train: Photos,
    /// To validate on, if some are set aside for that.
    pub validation: Option<Photos>,
    /// To test on, if some are set aside for that.
    pub test: Option<Photos>,
    /// What was left out.
    pub left_out: LeftOut,
    /// Class folders of validation and test parts in which nothing lies.
    pub(super) empty: Vec<String>,
}

impl Listing {
    /// Lists `path`: a folder of class folders (searched in depth), a folder of `train`, `val` and `test` folders of class
    /// folders, or a `csv` or `tsv` file, by its column `split` if it has one.
    ///
    /// # Errors
    /// [`DataError::Io`] and [`DataError::Photos`]; also for what can be read in two ways.
    pub fn of(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return folder::list(path);
        }
        if !path.exists() {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(DataError::Io { doing: "read", path: path.to_path_buf(), source });
        }
        match table_kind(path) {
            Some(tabs) => table::list(path, tabs),
            None => Err(PhotoError::NotPhotos { path: path.display().to_string() }.into()),
        }
    }

    /// Of lists for training, validation and test, whose classes are brought into line; `place` stands for them in errors.
    pub(super) fn join(place: &Path, [train, validation, test]: [Option<Photos>; 3]) -> Result<Self> {
        let place = || place.display().to_string();
        let train = train.ok_or_else(|| PhotoError::NoTraining { place: place() })?;
        let fit = |role: Role, part: Option<Photos>| -> Result<Option<Photos>> {
            let Some(mut part) = part else { return Ok(None) };
            let mut to = Vec::with_capacity(part.classes.len());
            for class in &part.classes {
                let found = train.classes.binary_search(class).map_err(|_| PhotoError::ExtraClass {
                    place: place(),
                    part: role.name(),
                    class: class.clone(),
                })?;
                to.push(found as u32);
            }
            // Both lists are sorted: the files stay in order.
            part.files.iter_mut().for_each(|file| file.class = to[file.class as usize]);
            part.classes.clone_from(&train.classes);
            Ok(Some(part))
        };
        let (validation, test) = (fit(Role::Validation, validation)?, fit(Role::Test, test)?);
        Ok(Self { train, validation, test, left_out: LeftOut::default(), empty: Vec::new() })
    }

    /// The parts that there are, training first.
    pub fn parts(&self) -> impl Iterator<Item = (Role, &Photos)> {
        let all = [Some(&self.train), self.validation.as_ref(), self.test.as_ref()];
        Role::ALL.into_iter().zip(all).filter_map(|(role, part)| part.map(|part| (role, part)))
    }

    /// Whether the photos are in parts, and not all for training.
    pub fn is_split(&self) -> bool {
        self.validation.is_some() || self.test.is_some()
    }

    /// What a person should know of the list: its parts, what was left out, which classes have nothing in a part.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_split() {
            let parts: Vec<String> = self.parts().map(|(role, part)| format!("{} {role}", part.len())).collect();
            notes.push(format!("the photos are in parts of their own: {}", parts.join(", ")));
        }
        if !self.left_out.is_empty() {
            notes.push(format!("left out, as no images: {}", self.left_out.words()));
        }
        if !self.empty.is_empty() {
            notes.push(format!("empty class folders: {}", self.empty.join(", ")));
        }
        notes
    }

    /// All photos in one list, whatever they are for.
    pub(crate) fn into_one(self) -> Photos {
        let Self { train: mut all, validation, test, left_out, .. } = self;
        for part in [validation, test].into_iter().flatten() {
            for file in &part.files {
                all.push(part.bytes(file), file.class as usize);
            }
        }
        all.sort();
        all.left_out = left_out;
        all
    }
}

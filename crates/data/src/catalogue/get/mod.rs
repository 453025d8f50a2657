//! Getting a published set into the cache, from a folder or from the web.
//!
//! 1. If the cache already holds it, and every digest is right, nothing is done.
//! 2. The four files are unpacked (CIFAR-10: made of its batches) into a hidden folder beside the destination, hashed on the way, and synced.
//! 3. Only when all four are right is that folder renamed to its final name. A kill at any moment leaves the old state or
//!    the new one, and at most a hidden folder that a later `get` removes.

mod staging_folder;
#[cfg(test)]
mod tests;
mod unpack;

use super::known::{self, Form, KnownFile, KnownSet};
use super::{Catalogue, fetch, folder, sample, unknown};
use crate::{DataError, Result, cifar};
use serde::Serialize;
use staging_folder::StagingFolder;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use unpack::{Failure, unpack};

/// How far a `get` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetProgress<'a> {
    /// The file that is being got.
    pub file: &'a str,
    /// Unpacked bytes of the whole set so far.
    pub done: u64,
    /// Unpacked bytes of the whole set.
    pub total: u64,
}

/// What a `get` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Got {
    /// Name of the set.
    pub name: String,
    /// Where it is now.
    pub folder: PathBuf,
    /// Its size there.
    pub bytes: u64,
    /// Where it came from; nothing if it was there already, whole and right.
    pub from: Option<String>,
}

/// Where the files come from.
#[derive(Clone, Debug)]
enum Source<'a> {
    Folder(&'a Path),
    Web(Vec<&'a str>),
}

impl Catalogue {
    /// Copies a published set from a folder (`from`), or downloads it from its well-known addresses or from another one
    /// (`url`, a folder on the web), into the cache. What was read is compared with the published digests.
    ///
    /// # Errors
    /// [`DataError::UnknownSet`] or [`DataError::NothingToGet`] for the name; [`DataError::NoCache`] or
    /// [`DataError::Io`] for the destination; [`DataError::MissingFile`], [`DataError::CorruptGzip`],
    /// [`DataError::WrongDigest`], [`DataError::Unreachable`], [`DataError::HttpStatus`], [`DataError::DownloadCut`] or
    /// [`DataError::NotPlainHttp`] for the source.
    pub fn get(
        &self,
        name: &str,
        from: Option<&Path>,
        url: Option<&str>,
        progress: &mut dyn FnMut(GetProgress<'_>),
    ) -> Result<Got> {
        let nothing = |reason| Err(DataError::NothingToGet { name: name.into(), reason });
        if name == sample::NAME {
            return nothing("it is part of the program");
        }
        if name == "fake" || name.starts_with("fake:") {
            return nothing("it is made up when it is opened");
        }
        let set = known::by_name(name).ok_or_else(|| unknown(name))?;
        self.get_set(set, from, url, progress)
    }

    fn get_set(
        &self,
        set: &KnownSet,
        from: Option<&Path>,
        url: Option<&str>,
        progress: &mut dyn FnMut(GetProgress<'_>),
    ) -> Result<Got> {
        let data = self.cache.as_ref().ok_or(DataError::NoCache)?.join("data");
        let destination = data.join(set.name);
        let bytes = set.files.iter().map(|file| file.bytes).sum();
        let got = |from| Got { name: set.name.into(), folder: destination.clone(), bytes, from };
        if is_right(set, &destination) {
            return Ok(got(None));
        }
        let system = set.system.filter(|_| self.system && from.is_none() && url.is_none()).map(PathBuf::from);
        if let Some(folder) = system.filter(|folder| is_right(set, folder)) {
            // A package of the system has it: nothing to fetch.
            return Ok(Got { name: set.name.into(), folder, bytes, from: None });
        }
        let source = match (from, url) {
            (Some(folder), _) => Source::Folder(folder),
            (None, Some(url)) => Source::Web(vec![url]),
            (None, None) => Source::Web(set.addresses.to_vec()),
        };
        let staging = StagingFolder::new(&data, set.name)?;
        if set.form == Form::Cifar {
            let origin = convert(&source, set, staging.path(), progress)?;
            staging.publish(&destination)?;
            return Ok(got(Some(origin)));
        }
        let mut before = 0;
        let mut origin = String::new();
        for file in &set.files {
            let target = staging.path().join(file.name);
            let mut tell = |done: u64| progress(GetProgress { file: file.name, done: before + done, total: bytes });
            origin = match &source {
                Source::Folder(folder) => copy(folder, file, &target, &mut tell)?,
                Source::Web(addresses) => download(addresses, file, &target, &mut tell)?,
            };
            before += file.bytes;
        }
        staging.publish(&destination)?;
        Ok(got(Some(origin)))
    }
}

/// Reads the batches of CIFAR-10 from a folder or an archive and writes them as the four files; returns where they came from.
/// What is compared with the digests are the pictures themselves, whatever form they came in.
fn convert(
    source: &Source<'_>,
    set: &KnownSet,
    staging: &Path,
    progress: &mut dyn FnMut(GetProgress<'_>),
) -> Result<String> {
    let total = set.files.iter().map(|file| file.bytes).sum();
    progress(GetProgress { file: cifar::ARCHIVE, done: 0, total });
    let (both, origin) = match source {
        Source::Folder(folder) => (cifar::read(folder)?, folder.display().to_string()),
        Source::Web(addresses) => first_that_has_it(addresses, cifar::ARCHIVE, |address| {
            let url = format!("{}/{}", address.trim_end_matches('/'), cifar::ARCHIVE);
            cifar::read_archive(fetch::open(&url)?, Path::new(&url))
        })?,
    };
    let mut arrays = Vec::new();
    for part in both {
        arrays.extend(part.into_arrays()?);
    }
    let mut before = 0;
    for (file, array) in set.files.iter().zip(arrays) {
        let mut bytes = Vec::new();
        let target = staging.join(file.name);
        array.write_plain(&mut bytes).map_err(DataError::io("write", &target))?;
        let mut tell = |done: u64| progress(GetProgress { file: file.name, done: before + done, total });
        write(&bytes[..], file, &target, &mut tell).map_err(|failure| match failure {
            Failure::Content { found } => {
                let name = format!("{origin} ({})", file.name);
                DataError::WrongDigest { file: name, expected: file.sha256.into(), found }
            }
            Failure::Write(source) | Failure::Read { source, .. } => {
                DataError::Io { doing: "write", path: target.clone(), source }
            }
        })?;
        before += file.bytes;
    }
    Ok(origin)
}

/// Whether a folder holds exactly the published files.
fn is_right(set: &KnownSet, dir: &Path) -> bool {
    set.files.iter().all(|file| {
        folder::find(dir, file.name)
            .and_then(|path| File::open(path).ok())
            .is_some_and(|f| unpack(BufReader::new(f), file, &mut io::sink(), &mut |_| {}).is_ok())
    })
}

/// Unpacks a file of a folder to `target`; returns the folder.
fn copy(dir: &Path, file: &KnownFile, target: &Path, tell: &mut dyn FnMut(u64)) -> Result<String> {
    if !dir.is_dir() {
        return Err(DataError::Io { doing: "read", path: dir.into(), source: io::ErrorKind::NotFound.into() });
    }
    let path = folder::require(dir, file.name)?;
    let name = path.display().to_string();
    let input = File::open(&path).map_err(DataError::io("read", &path))?;
    write(BufReader::new(input), file, target, tell).map_err(|failure| match failure {
        Failure::Write(source) => DataError::Io { doing: "write", path: target.into(), source },
        Failure::Read { source, gzip: true, .. } if source.raw_os_error().is_none() => {
            DataError::CorruptGzip { file: name, reason: source.to_string() }
        }
        Failure::Read { source, .. } => DataError::Io { doing: "read", path, source },
        Failure::Content { found } => DataError::WrongDigest { file: name, expected: file.sha256.into(), found },
    })?;
    Ok(dir.display().to_string())
}

/// Downloads a file from the first address that has it; returns that address.
fn download(addresses: &[&str], file: &KnownFile, target: &Path, tell: &mut dyn FnMut(u64)) -> Result<String> {
    first_that_has_it(addresses, file.name, |address| download_from(address, file, target, tell)).map(|(_, from)| from)
}

/// What the first address gives that has it, and that address. If none has it, the error that says most is returned: a
/// wrong answer rather than none.
fn first_that_has_it<T>(addresses: &[&str], what: &str, mut get: impl FnMut(&str) -> Result<T>) -> Result<(T, String)> {
    let mut silent = None;
    let mut telling = None;
    for address in addresses {
        match get(address) {
            Ok(got) => return Ok((got, (*address).to_string())),
            Err(error @ DataError::Io { .. }) => return Err(error), // our disk: another address would not help
            Err(error @ DataError::Unreachable { .. }) => silent = Some(error),
            Err(error) => telling = telling.or(Some(error)),
        }
    }
    Err(telling.or(silent).unwrap_or(DataError::Unreachable { url: what.into(), reason: "no address".into() }))
}

fn download_from(address: &str, file: &KnownFile, target: &Path, tell: &mut dyn FnMut(u64)) -> Result<()> {
    let url = format!("{}/{}.gz", address.trim_end_matches('/'), file.name);
    let body = fetch::open(&url)?;
    write(BufReader::with_capacity(1 << 16, body), file, target, tell).map_err(|failure| match failure {
        Failure::Write(source) => DataError::Io { doing: "write", path: target.into(), source },
        Failure::Read { source, found, .. } => {
            DataError::DownloadCut { url, expected: file.bytes, found, reason: source.to_string() }
        }
        Failure::Content { found } => DataError::WrongDigest { file: url, expected: file.sha256.into(), found },
    })
}

/// Unpacks into a new file and syncs it.
fn write(
    input: impl io::BufRead,
    file: &KnownFile,
    target: &Path,
    tell: &mut dyn FnMut(u64),
) -> std::result::Result<(), Failure> {
    let mut out = File::create(target).map_err(Failure::Write)?;
    unpack(input, file, &mut out, tell)?;
    out.sync_all().map_err(Failure::Write)
}

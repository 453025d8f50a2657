//! The folder of disk caches: what is in it, and clearing it.
//!
//! A file that somebody reads or writes is never removed. Where that cannot be known (another host, a file system without
//! locks) a file that shows signs of life is left alone unless the caller insists.

use super::disk::WHOLE;
use super::file::{Head, Unfit};
use super::owner::{ABANDONED, Lock, Owner, PART, SIGN, idle, is_dead, try_lock};
use paceline_base::{Error, Result, text};
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// What a file of the folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All samples are in it.
    Whole,
    /// It is being written, or its writer died.
    Partial,
    /// An older version wrote it; this one makes its own.
    Older,
    /// A newer version wrote it; this one cannot read it.
    Newer,
    /// It cannot be read.
    Damaged,
}

/// A file of the folder.
#[derive(Clone, Debug, Serialize)]
pub struct CacheFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub state: State,
    /// Bytes that it takes on the disk; fewer than its length while it is being written.
    pub bytes: u64,
    /// Samples that it holds, or is to hold.
    pub samples: Option<usize>,
    /// Bytes of a decoded sample.
    pub sample_bytes: Option<usize>,
    /// What data it is made of.
    pub data: Option<String>,
    /// Seconds since 1970 at which it was last used or written, to the hour.
    pub last_used: u64,
    /// The same as seconds before now.
    pub idle: u64,
    /// Whether somebody reads or writes it; none where that cannot be seen from here.
    pub in_use: Option<bool>,
    /// Who writes it, or did, if it is partial.
    pub owner: Option<Owner>,
}

impl CacheFile {
    /// What it is called on the command line.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Looks at a file; none if it is gone or no cache.
    fn look(path: PathBuf) -> Option<Self> {
        let partial = match path.extension() {
            Some(end) if end == PART => true,
            Some(end) if end == WHOLE => false,
            _ => return None,
        };
        // Not for longer than this look: the lock goes when the file is closed.
        let (file, lock) = try_lock(&path).ok()?;
        let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let head = Head::look(&file);
        let state = match &head {
            _ if partial => State::Partial,
            Ok(Ok(head)) if head.file_len() == meta.len() => State::Whole,
            Ok(Err(Unfit::Older(_))) => State::Older,
            Ok(Err(Unfit::Newer(_))) => State::Newer,
            Ok(_) | Err(_) => State::Damaged,
        };
        let head = head.ok().and_then(std::result::Result::ok);
        let owner = Owner::of(&path).filter(|_| partial);
        let idle = idle(&meta);
        Some(Self {
            in_use: in_use(partial, owner.as_ref(), lock, idle),
            state,
            bytes: meta.blocks() * 512,
            samples: head.as_ref().map(|head| head.samples),
            sample_bytes: head.as_ref().map(|head| head.size),
            data: head.map(|head| head.what),
            last_used: meta
                .modified()
                .ok()
                .and_then(|t| t.duration_since(UNIX_EPOCH).ok())
                .unwrap_or_default()
                .as_secs(),
            idle: idle.as_secs(),
            owner,
            path,
        })
    }

    /// Why it is not removed, if it is not.
    fn protected(&self, force: bool) -> Option<Protected> {
        let used = Duration::from_secs(self.idle);
        match (self.state, self.in_use) {
            (State::Partial, Some(true)) => Some(Protected::InUse(format!("{} is writing it", self.writer()))),
            (_, Some(true)) => Some(Protected::InUse("a running process reads it".into())),
            (State::Partial, None) if !force && used <= ABANDONED => Some(Protected::Unseen(format!(
                "whether {} still writes it cannot be seen from here (last sign of life {} ago); use force if it does not",
                self.writer(),
                text::duration(self.idle as f64)
            ))),
            // Whoever reads a file touches it every hour.
            (_, None) if !force && used <= 2 * SIGN => Some(Protected::Unseen(format!(
                "whether it is in use cannot be seen on this file system (last used {} ago); use force if it is not",
                text::duration(self.idle as f64)
            ))),
            _ => None,
        }
    }

    /// Who writes a partial file, in words.
    fn writer(&self) -> String {
        match &self.owner {
            Some(owner) => format!("process {} on {}", owner.process, owner.host),
            None => "its writer".into(),
        }
    }
}

/// Whether somebody reads or writes a file, as far as its lock says.
fn in_use(partial: bool, owner: Option<&Owner>, lock: Lock, idle: Duration) -> Option<bool> {
    match lock {
        Lock::Held => Some(true),
        Lock::Free if !partial || is_dead(owner, &Owner::here(), lock, idle) => Some(false),
        Lock::Free | Lock::Unknown => None,
    }
}

/// The caches of a folder, those used last first. A folder that does not exist has none.
///
/// # Errors
/// If the folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<CacheFile>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("read", folder, &e)),
    };
    let mut files: Vec<CacheFile> = entries.flatten().filter_map(|entry| CacheFile::look(entry.path())).collect();
    files.sort_by(|a, b| b.last_used.cmp(&a.last_used).then_with(|| a.path.cmp(&b.path)));
    Ok(files)
}

/// Which caches are cleared.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// File names, or how they begin; all if empty.
    pub names: Vec<String>,
    /// Only those that were not used for so long.
    pub older_than: Option<Duration>,
    /// Also those of which it cannot be seen whether they are in use. Those that are seen to be are left in any case.
    pub force: bool,
}

/// Why a file is not removed, with the words.
enum Protected {
    /// It is seen to be in use.
    InUse(String),
    /// Whether it is in use cannot be seen.
    Unseen(String),
}

/// What became of a cache that was chosen.
#[derive(Clone, Debug, Serialize)]
pub struct Cleared {
    /// The cache, as it was when the folder was listed.
    #[serde(flatten)]
    pub file: CacheFile,
    /// Why it was left where it is; none if it was removed.
    pub kept: Option<String>,
    /// Left only because it cannot be seen whether it is in use: [`Selection::force`] removes it.
    #[serde(skip)]
    pub needs_force: bool,
}

/// Removes caches that nobody uses.
///
/// # Errors
/// If the folder cannot be read, or a name stands for no file or for several. A file that is left in place is no error: see
/// [`Cleared::kept`].
pub fn clear(folder: &Path, which: &Selection) -> Result<Vec<Cleared>> {
    let files = list(folder)?;
    let chosen = if which.names.is_empty() {
        files
    } else {
        let find = |name: &String| find(&files, folder, name);
        let mut places: Vec<usize> = which.names.iter().map(find).collect::<Result<_>>()?;
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| files[place].clone()).collect()
    };
    let old = |file: &CacheFile| which.older_than.is_none_or(|age| Duration::from_secs(file.idle) > age);
    Ok(chosen.into_iter().filter(old).filter_map(|file| remove(file, which.force)).collect())
}

/// Removes a file unless it is in use; none if it is gone already.
fn remove(file: CacheFile, force: bool) -> Option<Cleared> {
    // The lock is tried again and held until the file is gone: nobody can begin to read it between.
    let (held, lock) = try_lock(&file.path).ok()?;
    let (partial, idle) = (file.state == State::Partial, Duration::from_secs(file.idle));
    let file = CacheFile { in_use: in_use(partial, file.owner.as_ref(), lock, idle), ..file };
    let protected = file.protected(force);
    let needs_force = matches!(protected, Some(Protected::Unseen(_)));
    let why = protected.map(|p| match p {
        Protected::InUse(why) | Protected::Unseen(why) => why,
    });
    let kept = why.or_else(|| match fs::remove_file(&file.path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Some(e.to_string()),
        _ => None,
    });
    drop(held);
    Some(Cleared { file, kept, needs_force })
}

/// The one file that a name stands for.
fn find(files: &[CacheFile], folder: &Path, name: &str) -> Result<usize> {
    let wanted = Path::new(name).file_name().and_then(|n| n.to_str()).unwrap_or(name);
    if let Some(at) = files.iter().position(|file| file.name() == wanted) {
        return Ok(at);
    }
    let mut begin = files.iter().enumerate().filter(|(_, file)| file.name().starts_with(wanted)).map(|(at, _)| at);
    match (begin.next(), begin.count()) {
        (Some(at), 0) => Ok(at),
        (Some(_), more) => Err(Error::user(format!(
            "`{name}` stands for {} files in {}; give more of the name, as paceline data cache shows it",
            more + 1,
            folder.display()
        ))),
        (None, _) => Err(Error::user(format!(
            "no cache in {} begins with `{name}`; paceline data cache lists them",
            folder.display()
        ))),
    }
}

//! What a fingerprint is made of: marks of the content that can be had without reading a whole set.
//!
//! Two values stand for a set. The *fingerprint* is its content and nothing else, so that it is the same on another host
//! and after a copy: a resume, and processes that train together, compare it. The *key of a cache*
//! ([`Source::cache_key`](super::Source::cache_key)) adds where the content lies, which tells files apart that differ
//! between the places that were looked at.

use sha2::{Digest, Sha256};
use std::fs::Metadata;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How fingerprints are made; it stands in front of each. 1 (without a number in front) knew records by their ends and
/// files by their names and lengths alone.
pub(super) const VERSION: u32 = 2;

/// A file of up to `BLOCKS` blocks is read whole; of a longer one so many blocks, spread evenly, both ends among them.
const BLOCK: usize = 4096;
const BLOCKS: u64 = 4;
/// Bytes of a piece of a mapped image; there are three of them. They stand beside a checksum of all of it.
const PIECE: usize = 64;
/// Threads that look at files: more than cores, because a disk that is asked for several things is faster.
const THREADS: usize = 8;
/// Files that are worth a thread.
const PER_THREAD: usize = 32;

/// The version of the program's rules by which a fingerprint was made. Those of different versions cannot be compared.
pub fn fingerprint_version(fingerprint: &str) -> u32 {
    fingerprint.split_once('-').and_then(|(version, _)| version.parse().ok()).unwrap_or(1)
}

/// The beginning, the middle and the end of an image that is in memory; all of a short one.
pub(super) fn pieces(image: &[u8]) -> [&[u8]; 3] {
    if image.len() <= 3 * PIECE {
        return [image, &[], &[]];
    }
    let middle = (image.len() - PIECE) / 2;
    [&image[..PIECE], &image[middle..middle + PIECE], &image[image.len() - PIECE..]]
}

/// Where the content of a file lies, as the system has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Nanoseconds since 1970 at which it was last written.
    modified: i128,
    inode: u64,
}

impl Stamp {
    pub(crate) fn of(meta: &Metadata) -> Self {
        let since = meta.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        Self { modified: since.map_or(-1, |since| since.as_nanos() as i128), inode: inode(meta) }
    }

    pub(crate) fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.modified.to_le_bytes());
        bytes[16..].copy_from_slice(&self.inode.to_le_bytes());
        bytes
    }
}

#[cfg(unix)]
fn inode(meta: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

/// What was seen of a file.
pub(super) struct Seen {
    pub length: u64,
    /// Of the blocks that were read.
    pub digest: [u8; 32],
    pub stamp: Stamp,
}

/// Looks at files; none for one that cannot be read: whoever wants its content hears why.
pub(super) fn look(count: usize, path: impl Fn(usize) -> PathBuf + Sync) -> Vec<Option<Seen>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.max(THREADS).min(count.div_ceil(PER_THREAD)).max(1);
    let mut seen: Vec<Option<Seen>> = (0..count).map(|_| None).collect();
    let share = count.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (part, seen) in seen.chunks_mut(share).enumerate() {
            let path = &path;
            scope.spawn(move || {
                let mut buffer = Vec::new();
                for (at, seen) in seen.iter_mut().enumerate() {
                    *seen = look_at(&path(part * share + at), &mut buffer).ok();
                }
            });
        }
    });
    seen
}

fn look_at(path: &Path, buffer: &mut Vec<u8>) -> io::Result<Seen> {
    let mut file = crate::open_regular(path)?;
    let meta = file.metadata()?;
    let length = meta.len();
    let mut hash = Sha256::new();
    if length <= BLOCKS * BLOCK as u64 {
        buffer.resize(length as usize, 0);
        file.read_exact(buffer)?;
        hash.update(&buffer);
    } else {
        buffer.resize(BLOCK, 0);
        for block in 0..BLOCKS {
            // Divided first: the product of a hostile length would overflow.
            let at = (length - BLOCK as u64) / (BLOCKS - 1) * block;
            let at = if block + 1 == BLOCKS { length - BLOCK as u64 } else { at };
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(buffer)?;
            hash.update(&buffer);
        }
    }
    Ok(Seen { length, digest: hash.finalize().into(), stamp: Stamp::of(&meta) })
}

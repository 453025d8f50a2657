//! The file of a disk cache.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `PLDECODE` |
//! | 4 | format, little-endian, 2 |
//! | 4 | length of the key |
//! | 8 | number of samples |
//! | 8 | bytes of a sample |
//! | 4 | length of the description |
//! | … | the key: what the samples are decoded from, and how |
//! | … | the description: what data it is, for people |
//! | 4 | CRC-32C of everything before |
//! | 4 × samples | CRC-32C of each sample |
//! | 4 | CRC-32C of everything before |
//! | … | the samples, one after another |
//!
//! What stands before the first checksum is written first, so that a file under way can be told; the table comes last. The head
//! is checked when the file is opened, a sample when it is first read. Format 1 had no description and one checksum.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8; 8] = b"PLDECODE";
const FORMAT: u32 = 2;
const FIXED: usize = 36;
/// Longer ones than that were not written by this program.
const MAX_TEXT: usize = 1 << 16;

/// What a file must hold to be the right one.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub key: String,
    pub samples: usize,
    pub size: usize,
    /// For people; another description does not make another file.
    pub what: String,
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    Older(u32),
    Newer(u32),
    Damaged(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Older(format) => write!(f, "it has format {format}, which an older version wrote"),
            Self::Newer(format) => write!(f, "it has format {format}, which a newer version wrote"),
            Self::Damaged(why) => f.write_str(why),
        }
    }
}

impl Head {
    /// A head; a description that is too long is cut.
    pub(super) fn new(key: String, samples: usize, size: usize, what: &str) -> Self {
        let mut what = what.to_string();
        let end = (0..=what.len().min(MAX_TEXT)).rev().find(|&at| what.is_char_boundary(at)).unwrap_or(0);
        what.truncate(end);
        Self { key, samples, size, what }
    }

    /// Where the table of checksums begins.
    fn table(&self) -> usize {
        FIXED + self.key.len() + self.what.len() + 4
    }

    /// Where the samples begin.
    fn len(&self) -> u64 {
        (self.table() + 4 * self.samples + 4) as u64
    }

    /// Where a sample begins.
    pub(super) fn at(&self, index: usize) -> u64 {
        self.len() + index as u64 * self.size as u64
    }

    /// Length of the whole file.
    pub(crate) fn file_len(&self) -> u64 {
        self.at(self.samples)
    }

    /// What stands before the table.
    pub(crate) fn front(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.table());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.samples as u64).to_le_bytes());
        bytes.extend_from_slice(&(self.size as u64).to_le_bytes());
        bytes.extend_from_slice(&(self.what.len() as u32).to_le_bytes());
        bytes.extend_from_slice(self.key.as_bytes());
        bytes.extend_from_slice(self.what.as_bytes());
        with_sum(bytes)
    }

    /// All that stands before the samples.
    pub(super) fn bytes(&self, sums: &[u32]) -> Vec<u8> {
        let mut bytes = self.front();
        bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        with_sum(bytes)
    }

    /// The head of any such file, whole or under way.
    pub(crate) fn look(file: &File) -> io::Result<Result<Self, Unfit>> {
        let damaged = |why: &str| Ok(Err(Unfit::Damaged(why.into())));
        let found = file.metadata()?.len();
        if found < FIXED as u64 {
            return damaged("it is too short");
        }
        let mut fixed = [0; FIXED];
        file.read_exact_at(&mut fixed, 0)?;
        if fixed[..8] != *MAGIC {
            return damaged("it is no cache");
        }
        match word(&fixed, 8) {
            FORMAT => {}
            newer if newer > FORMAT => return Ok(Err(Unfit::Newer(newer))),
            older => return Ok(Err(Unfit::Older(older))),
        }
        let (key, what) = (word(&fixed, 12) as usize, word(&fixed, 32) as usize);
        let long = |at: usize| u64::from(word(&fixed, at)) | u64::from(word(&fixed, at + 4)) << 32;
        let (samples, size) = (long(16), long(24));
        // In u128: hostile numbers may not overflow what is computed of them later.
        let bytes = u128::from(samples) * (u128::from(size) + 4) + (FIXED + key + what + 8) as u128;
        if key > MAX_TEXT || what > MAX_TEXT || bytes > u128::from(found) {
            return damaged("its head is damaged, or its end is missing");
        }
        let mut front = vec![0; FIXED + key + what + 4];
        file.read_exact_at(&mut front, 0)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let (Some(key), Some(what)) = (text(&front[FIXED..][..key]), text(&front[FIXED + key..][..what])) else {
            return damaged("its head is damaged");
        };
        let head = Self { key, samples: samples as usize, size: size as usize, what };
        if head.front() != front { damaged("its head is damaged") } else { Ok(Ok(head)) }
    }

    /// The head and the checksums of a whole file that holds what this head says, or why it does not.
    pub(super) fn read(&self, file: &File) -> io::Result<Result<(Self, Vec<u32>), Unfit>> {
        let head = match Self::look(file)? {
            Ok(head) => head,
            Err(why) => return Ok(Err(why)),
        };
        if (&head.key, head.samples, head.size) != (&self.key, self.samples, self.size) {
            return Ok(Err(Unfit::Damaged("it holds other samples".into())));
        }
        let found = file.metadata()?.len();
        if found != head.file_len() {
            return Ok(Err(Unfit::Damaged(format!("it has {found} bytes and should have {}", head.file_len()))));
        }
        let mut bytes = vec![0; head.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let sums: Vec<u32> = (head.table()..bytes.len() - 4).step_by(4).map(|at| word(&bytes, at)).collect();
        if head.bytes(&sums) != bytes {
            return Ok(Err(Unfit::Damaged("its head is damaged".into())));
        }
        Ok(Ok((head, sums)))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn with_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

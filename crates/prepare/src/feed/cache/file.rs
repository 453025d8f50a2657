//! The file of a disk cache.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `PLDECODE` |
//! | 4 | format, little-endian, 1 |
//! | 4 | length of the key |
//! | 8 | number of samples |
//! | 8 | bytes of a sample |
//! | … | the key: what the samples are decoded from, and how |
//! | 4 × samples | CRC-32C of each sample |
//! | 4 | CRC-32C of everything before |
//! | … | the samples, one after another |
//!
//! The head is checked when the file is opened, a sample when it is first read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8; 8] = b"PLDECODE";
const FORMAT: u32 = 1;
const FIXED: usize = 32;

/// What a file must hold to be the right one.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub key: String,
    pub samples: usize,
    pub size: usize,
}

impl Head {
    /// Where the samples begin.
    pub fn len(&self) -> u64 {
        (FIXED + self.key.len() + 4 * self.samples + 4) as u64
    }

    /// Where a sample begins.
    pub fn at(&self, index: usize) -> u64 {
        self.len() + index as u64 * self.size as u64
    }

    /// Length of the whole file.
    pub fn file_len(&self) -> u64 {
        self.at(self.samples)
    }

    /// The head in bytes.
    pub fn bytes(&self, sums: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len() as usize);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.samples as u64).to_le_bytes());
        bytes.extend_from_slice(&(self.size as u64).to_le_bytes());
        bytes.extend_from_slice(self.key.as_bytes());
        bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        let all = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&all.to_le_bytes());
        bytes
    }

    /// The checksums of a file that is what this head says, or why it is not.
    pub fn read(&self, file: &File) -> io::Result<Result<Vec<u32>, String>> {
        let found = file.metadata()?.len();
        if found != self.file_len() {
            return Ok(Err(format!("it has {found} bytes and should have {}", self.file_len())));
        }
        let mut bytes = vec![0; self.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let table = FIXED + self.key.len()..bytes.len() - 4;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let sums: Vec<u32> = table.clone().step_by(4).map(word).collect();
        if bytes[..8] == *MAGIC && word(8) > FORMAT {
            return Ok(Err(format!("it has format {}, which a newer version wrote", word(8))));
        }
        Ok(if self.bytes(&sums) == bytes { Ok(sums) } else { Err("its head is damaged".into()) })
    }
}

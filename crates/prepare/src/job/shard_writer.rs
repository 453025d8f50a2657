//! One shard being written: under a temporary name, with its digest, and seen only when it is whole.

use super::manifest::PlannedShard;
use super::output_directory::{self, FinishedShard};
use paceline_base::{Error, Result};
use paceline_data::shards::Shard;
use paceline_data::tfrecord::{Packing, Writer};
use paceline_system::{hex, host_name};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes on their way to a file: counted and digested.
struct Digested {
    out: BufWriter<File>,
    hash: Sha256,
    bytes: u64,
}

impl Write for Digested {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// A shard that is not finished. Dropped before it is, it leaves nothing.
pub(super) struct ShardWriter {
    writer: Option<Writer<Digested>>,
    temporary: PathBuf,
    work: PathBuf,
    shard: Shard,
    skipped: Vec<String>,
    bytes_read: u64,
}

impl ShardWriter {
    /// Begins a shard. Its temporary name is this process's own: under Spark two tasks may make the same shard.
    pub(crate) fn begin(work: &Path, planned: &PlannedShard, classes: usize, packing: Packing) -> Result<Self> {
        let temporary =
            output_directory::temporary_path(work, &planned.file, &format!("{}.{}", std::process::id(), host()));
        let file = File::create(&temporary).map_err(|e| Error::io("create", &temporary, &e))?;
        let out = Digested { out: BufWriter::with_capacity(1 << 18, file), hash: Sha256::new(), bytes: 0 };
        Ok(Self {
            writer: Some(Writer::new(out, packing)),
            temporary,
            work: work.to_path_buf(),
            shard: Shard {
                file: planned.file.clone(),
                part: planned.part.clone(),
                records: 0,
                bytes: 0,
                sha256: String::new(),
                per_class: vec![0; classes],
            },
            skipped: Vec::new(),
            bytes_read: 0,
        })
    }

    /// Where it is written until it is whole.
    pub(crate) fn name(&self) -> std::path::Display<'_> {
        self.temporary.display()
    }

    /// Appends a record.
    pub(super) fn push(&mut self, record: &[u8], class: usize, bytes_read: u64) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.write(record).map_err(|e| lost(&self.temporary, &e))?;
        }
        self.shard.records += 1;
        self.shard.per_class[class] += 1;
        self.bytes_read += bytes_read;
        Ok(())
    }

    /// Notes an image that is left out.
    pub(crate) fn skip(&mut self, why: String) {
        self.skipped.push(why);
    }

    /// Syncs the file, notes what is in it, and gives it its name.
    pub(crate) fn seal(mut self) -> Result<FinishedShard> {
        let failed = |e: std::io::Error| lost(&self.temporary, &e);
        let Some(writer) = self.writer.take() else { return Err(Error::internal("a shard was sealed twice")) };
        let Digested { out, hash, bytes } = writer.finish().map_err(failed)?;
        out.into_inner().map_err(|e| e.into_error()).and_then(|file| file.sync_all()).map_err(failed)?;
        self.shard.bytes = bytes;
        self.shard.sha256 = hex(&hash.finalize());
        let path = output_directory::shard_path(&self.work, &self.shard.file);
        let done = FinishedShard {
            shard: self.shard.clone(),
            skipped: std::mem::take(&mut self.skipped),
            bytes_read: self.bytes_read,
        };
        // The file first: a note without its file is a shard that is made again, never one that is believed.
        output_directory::publish(&self.temporary, &path).map_err(|e| Error::io("rename", &path, &e))?;
        output_directory::note_finished(&self.work, &done)?;
        Ok(done)
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// A shard that could not be written: what is finished stays.
fn lost(path: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::FileTooLarge | std::io::ErrorKind::QuotaExceeded => {
            Error::failure(format!(
                "cannot write {}: {error}; finished shards are kept: free some space and run the same command again, it continues",
                path.display()
            ))
        }
        _ => Error::io("write", path, error),
    }
}

/// The name of this host, so that temporary names of two hosts differ on a shared file system.
fn host() -> String {
    host_name().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
}

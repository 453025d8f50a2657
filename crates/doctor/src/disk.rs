//! How fast the disk is where runs are written: a checkpoint's worth of bytes, and the time until a small write is safe.

use paceline_prepare::speedtest::can_drop;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes that are written at most, and for how long.
const BYTES: usize = 128 << 20;
const LONGEST: Duration = Duration::from_secs(3);

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    /// Bytes per second, synced.
    pub write: f64,
    /// Bytes per second, not from the page cache.
    pub read: Option<f64>,
    /// Seconds of a small synced write.
    pub sync: f64,
    /// Why reading was not measured.
    pub no_read: Option<String>,
}

/// The nearest folder above `folder` that exists: where it would be made.
pub(crate) fn existing(folder: &Path) -> PathBuf {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
    let mut at = absolute.as_path();
    while !at.is_dir() {
        match at.parent() {
            Some(parent) => at = parent,
            None => break,
        }
    }
    at.to_path_buf()
}

/// Removes the file whatever happens.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Measures in a temporary file of `folder`. An error says in words why it cannot be written to.
pub(crate) fn measure(folder: &Path) -> Result<Disk, String> {
    // Hosts that share a folder may have the same process numbers.
    let name = format!(".paceline-doctor.{}.{}.tmp", paceline_system::host_name(), std::process::id());
    let scratch = Scratch(folder.join(name));
    let fail = |e: std::io::Error| format!("cannot write to {}: {e}", folder.display());
    let mut file = File::create(&scratch.0).map_err(fail)?;
    // Bytes that no disk can fold away.
    let mut state = 1u64;
    let chunk: Vec<u8> = (0..4 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    let begin = Instant::now();
    let mut written = 0;
    while written < BYTES && begin.elapsed() < LONGEST {
        file.write_all(&chunk).map_err(fail)?;
        written += chunk.len();
    }
    file.sync_all().map_err(fail)?;
    let write = written as f64 / begin.elapsed().as_secs_f64();

    let mut no_read = None;
    let read = match can_drop(std::slice::from_ref(&scratch.0)) {
        Ok(()) => {
            let mut file = File::open(&scratch.0).map_err(fail)?;
            let mut room = vec![0; chunk.len()];
            let begin = Instant::now();
            let mut read = 0;
            while begin.elapsed() < LONGEST {
                match file.read(&mut room).map_err(fail)? {
                    0 => break,
                    n => read += n,
                }
            }
            Some(read as f64 / begin.elapsed().as_secs_f64())
        }
        Err(why) => {
            no_read = Some(format!("reading from the disk is not measured: {why}"));
            None
        }
    };
    let mut times: Vec<f64> = Vec::new();
    let begin = Instant::now();
    while times.len() < 15 && (times.len() < 3 || begin.elapsed() < Duration::from_secs(1)) {
        let from = Instant::now();
        file.write_all(&chunk[..4096]).and_then(|()| file.sync_all()).map_err(fail)?;
        times.push(from.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(Disk { write, read, sync: times[times.len() / 2].max(1e-9), no_read })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_measured_where_it_would_be() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        assert_eq!(existing(&root.join("a/b/c")), root);
        assert_eq!(existing(&root), root);
        let error = measure(&root.join("absent")).unwrap_err();
        assert!(error.contains("absent"), "{error}");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }
}

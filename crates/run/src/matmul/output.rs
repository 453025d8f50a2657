//! The file of a product that many processes write: under a temporary name until it is complete.

use super::{MatmulOptions, Npy};
use crate::agree::agree;
use paceline_base::{Error, Result};
use paceline_comm::World;
use std::path::{Path, PathBuf};

/// The file of the product, under a temporary name until it is complete.
pub struct Output {
    /// To be written to by all ranks.
    pub npy: Npy,
    temporary: PathBuf,
    path: PathBuf,
    done: bool,
}

impl Output {
    /// Process 0 makes it, and all open it.
    pub fn prepare(options: &MatmulOptions, n: usize, world: &mut World) -> Result<Option<Self>> {
        let Some(path) = &options.out else { return Ok(None) };
        let made = if world.process() == 0 { Self::create(path, n) } else { Ok(PathBuf::new()) };
        let made = agree(world, made)?;
        let told = world.broadcast(made.to_string_lossy().into_owned().into_bytes())?;
        let temporary = PathBuf::from(String::from_utf8_lossy(&told).into_owned());
        let npy = Npy::open_to_write(&temporary)
            .map_err(|e| e.context(format!("the folder of {} must be the same on all hosts", path.display())));
        let opened = agree(world, npy);
        if opened.is_err() && world.process() == 0 {
            let _ = std::fs::remove_file(&temporary);
        }
        Ok(Some(Self { npy: opened?, temporary, path: path.clone(), done: world.process() != 0 }))
    }

    fn create(path: &Path, n: usize) -> Result<PathBuf> {
        if path.exists() {
            return Err(Error::user(format!("{} exists; give another --out, or move it away", path.display())));
        }
        let name = path
            .file_name()
            .ok_or_else(|| Error::user(format!("cannot write {}: it does not end in a file name", path.display())))?;
        let temporary = path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
        Npy::create(&temporary, (n, n)).map(|_| temporary)
    }

    /// Gives it its name.
    pub fn finish(mut self, world: &mut World) -> Result<()> {
        let renamed = if world.process() == 0 {
            std::fs::rename(&self.temporary, &self.path).map_err(|e| Error::io("write", &self.path, &e))
        } else {
            Ok(())
        };
        self.done |= renamed.is_ok();
        agree(world, renamed)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.done {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

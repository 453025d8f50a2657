//! Images to shards: `paceline prepare`.
//!
//! The list of images, the settings and the seed decide every byte: which image stands where (`assign.rs`), what its
//! record holds (`record_maker.rs`). How many threads, or whether Spark runs the parts, does not.

mod assign;
mod bad_image;
mod manifest;
mod output_directory;
mod pipeline;
mod record_maker;
mod setting;
pub mod settings;
mod shard_writer;
mod task;
#[cfg(test)]
mod tests;

pub use manifest::{Manifest, PlannedShard};
pub(crate) use output_directory::FinishedShard;
pub use pipeline::{JobProgress, Threads};
pub(crate) use setting::SettingError;
pub use setting::{Setting, SettingNames};
pub use settings::{ImageFormat, Settings};
pub use task::{ShardTask, TaskFigures};

use assign::assign;
use bad_image::BadImage;
use output_directory::OutputDirectory;
use paceline_base::{Error, Result};
use paceline_data::shards::{Index, Shard};
use setting::JobError;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// What to prepare, and how.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// A folder with a folder for each class, or a table of paths and labels.
    pub source: PathBuf,
    /// Where the shards go.
    pub destination: PathBuf,
    /// What decides their bytes.
    pub settings: Settings,
    /// How many bad images may be left out.
    pub skip_bad: usize,
    /// Images of one class only are meant.
    pub one_class: bool,
    /// What whoever asked calls the settings, for errors and notes.
    pub names: SettingNames,
}

/// Shards that are there.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The index, as written.
    pub index: Index,
    /// Shards that an earlier run had finished.
    pub kept: usize,
    /// Bytes of the image files that the shards were made from.
    pub bytes_read: u64,
}

impl Prepared {
    /// Records in all shards.
    pub fn records(&self) -> usize {
        self.index.shards.iter().map(|s| s.records).sum()
    }
}

/// A job that has been begun: the destination is taken, the list is made, finished shards are known.
pub struct Job {
    output: OutputDirectory,
    manifest: Manifest,
    done: Vec<FinishedShard>,
    pending: Vec<usize>,
    skip_bad: usize,
    names: SettingNames,
}

/// What a destination turns out to be.
pub enum Begun {
    /// There is work to do.
    Job(Box<Job>),
    /// These shards were all made before, with these settings from these images, and are whole.
    Complete(Box<Prepared>),
}

/// Takes the destination and finds out what is to be done there.
pub fn begin(spec: &JobSpec) -> Result<Begun> {
    spec.settings.check().map_err(|e| e.named(spec.names))?;
    if !spec.source.exists() {
        return Err(Error::user(format!(
            "{}: no such folder or table; give a folder with a folder of images for each class, or a csv or tsv of path and label",
            spec.source.display()
        )));
    }
    let output = OutputDirectory::take(&spec.destination)?;
    match begin_at(&output, spec) {
        Ok((manifest, _, Some(prepared))) => {
            drop(manifest);
            output.leave_untouched();
            Ok(Begun::Complete(Box::new(prepared)))
        }
        Ok((manifest, done, None)) => {
            let is_done = |shard: &PlannedShard| done.iter().any(|d: &FinishedShard| d.shard.file == shard.file);
            let pending = (0..manifest.shards.len()).filter(|&i| !is_done(&manifest.shards[i])).collect();
            Ok(Begun::Job(Box::new(Job {
                output,
                manifest,
                done,
                pending,
                skip_bad: spec.skip_bad,
                names: spec.names,
            })))
        }
        Err(e) => {
            output.leave_untouched();
            Err(e.named(spec.names))
        }
    }
}

fn begin_at(
    output: &OutputDirectory,
    spec: &JobSpec,
) -> Result<(Manifest, Vec<FinishedShard>, Option<Prepared>), JobError> {
    let (work, folder) = (output.work(), output.folder().display());
    let other = |what: String| {
        Error::user(format!(
            "{folder} holds shards that are not these: {what}; give another folder, or remove that one to begin anew"
        ))
    };
    let index = output.index()?;
    let begun = output.begun()?;
    // The new list goes beside the old one until they are known to be the same.
    let scratch = output.new_manifest();
    std::fs::create_dir_all(&scratch).map_err(|e| Error::io("create", &scratch, &e))?;
    let manifest = Manifest::write(&spec.source, &spec.settings, spec.one_class, &scratch);
    let manifest = match manifest {
        Ok(manifest) => manifest,
        Err(e) => {
            let _ = std::fs::remove_dir_all(&scratch);
            return Err(e);
        }
    };
    if let Some(index) = index {
        let wanted = serde_json::Value::Object(job_table(&manifest));
        let there = index.settings.get("job").cloned().unwrap_or_default();
        if there != wanted {
            let _ = std::fs::remove_dir_all(&scratch);
            return Err(other(differences(&there, &wanted)).into());
        }
        let whole = |shard: &Shard| shard.check_digest(output.folder()).is_ok();
        if index.shards.iter().all(whole) {
            let _ = std::fs::remove_dir_all(&scratch);
            let kept = index.shards.len();
            return Ok((manifest, Vec::new(), Some(Prepared { index, kept, bytes_read: 0 })));
        }
        // A damaged or missing shard is made again; the others are noted before the index goes, each with the images that
        // it was made without: those of the damaged one will be met, and counted, again.
        for (shard, skipped) in left_out(&manifest, &index, &scratch)? {
            if whole(shard) {
                output_directory::note_finished(
                    &work,
                    &FinishedShard { shard: shard.clone(), skipped, bytes_read: 0 },
                )?;
            }
        }
        let path = output.folder().join(paceline_data::shards::INDEX);
        std::fs::remove_file(&path).map_err(|e| Error::io("remove", &path, &e))?;
    }
    if let Some(begun) = &begun
        && let Some(what) = begun.differences(&manifest)
    {
        let _ = std::fs::remove_dir_all(&scratch);
        return Err(other(what).into());
    }
    output.accept_manifest()?;
    let done = manifest.shards.iter().filter_map(|shard| output_directory::finished(&work, &shard.file)).collect();
    Ok((manifest, done, None))
}

/// The shards of an index, each with what was said of the images that were left out of it. The index has these in one list;
/// whose they are follows from the lists of images, in `folder`. None, if that does not fit the numbers of records: then
/// all shards are made again.
fn left_out<'a>(manifest: &Manifest, index: &'a Index, folder: &Path) -> Result<Vec<(&'a Shard, Vec<String>)>> {
    let mut said: Vec<&String> = index.skipped.iter().collect();
    said.sort_unstable();
    said.dedup();
    let mut items = manifest::Items::open(folder)?;
    let mut all = Vec::with_capacity(index.shards.len());
    for planned in &manifest.shards {
        let Some(shard) = index.shards.iter().find(|shard| shard.file == planned.file) else { return Ok(Vec::new()) };
        let mut skipped = Vec::new();
        if !said.is_empty() {
            items.seek(planned)?;
            for _ in 0..planned.images {
                let item = items.next()?;
                skipped
                    .extend(said.iter().find_map(|said| BadImage::parse(said, &item.path)).map(|bad| bad.to_string()));
            }
        }
        if planned.images != shard.records + skipped.len() {
            return Ok(Vec::new());
        }
        all.push((shard, skipped));
    }
    Ok(all)
}

/// What makes two jobs the same, as it stands in the index.
fn job_table(manifest: &Manifest) -> serde_json::Map<String, serde_json::Value> {
    let mut table = manifest.settings.table();
    table.insert("source".into(), manifest.source.to_string_lossy().into());
    table.insert("images".into(), manifest.digest.clone().into());
    table
}

fn differences(there: &serde_json::Value, wanted: &serde_json::Value) -> String {
    let differs = |key: &str| there.get(key) != wanted.get(key);
    let keys: Vec<&str> = wanted.as_object().into_iter().flatten().map(|(k, _)| k.as_str()).collect();
    let mut words: Vec<String> = keys
        .into_iter()
        .filter(|key| differs(key) && *key != "images")
        .map(|key| {
            let show = |v: &serde_json::Value| v.get(key).map_or("none".into(), ToString::to_string);
            format!("{key} {} instead of {}", show(there), show(wanted))
        })
        .collect();
    if words.is_empty() {
        words.push("the images have changed since (other names, sizes or times)".into());
    }
    words.join(", ")
}

impl Job {
    /// What is to be made.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Shards that an earlier run has finished.
    pub fn kept(&self) -> usize {
        self.done.len()
    }

    /// Shards that are still to be made, by number.
    pub fn pending(&self) -> &[usize] {
        &self.pending
    }

    fn work(&self) -> PathBuf {
        self.output.work()
    }

    /// What each task of other processes is told that make the pending shards, on so many threads.
    ///
    /// # Errors
    /// If the folder cannot be found from elsewhere.
    pub fn task(&self, threads: Threads) -> Result<ShardTask> {
        let work = std::path::absolute(self.work()).map_err(|e| Error::io("find", &self.work(), &e))?;
        let Threads { readers, workers } = threads;
        Ok(ShardTask { work, readers: readers.min(workers), workers, skip_bad: self.skip_bad })
    }

    /// Images of the pending shards, and how many of them are in shards that other processes have finished since.
    pub fn images_pending_and_finished(&self) -> (u64, u64) {
        let work = self.work();
        let shards = self.pending.iter().map(|&shard| &self.manifest.shards[shard]);
        shards.fold((0, 0), |(all, finished), shard| {
            let is_there = output_directory::is_noted(&work, &shard.file);
            (all + shard.images as u64, finished + if is_there { shard.images as u64 } else { 0 })
        })
    }

    fn skips_left(&self) -> usize {
        self.skip_bad.saturating_sub(self.done.iter().map(|d| d.skipped.len()).sum())
    }

    /// Makes the pending shards on this machine's threads, then writes the index.
    pub fn run(
        mut self,
        threads: Threads,
        watch: &mut dyn FnMut(&JobProgress),
        stop: &AtomicBool,
    ) -> Result<(Prepared, JobProgress)> {
        self.check_skipped()?;
        let work = self.work();
        let skips = self.skips_left();
        let made = pipeline::run(&work, &self.manifest, &self.pending, threads, skips, watch, stop);
        let (mut made, live) = made.map_err(|e| e.named(self.names))?;
        let kept = self.done.len();
        self.done.append(&mut made);
        Ok((self.finish(kept)?, live))
    }

    /// Collects what others (Spark's tasks) have made, then writes the index.
    ///
    /// # Errors
    /// If a shard is missing or more images were left out than may be.
    pub fn collect(mut self) -> Result<Prepared> {
        let (work, kept) = (self.work(), self.done.len());
        for &index in &self.pending {
            let file = &self.manifest.shards[index].file;
            let done = output_directory::finished(&work, file).ok_or_else(|| {
                Error::failure(format!(
                    "{file} was not made; is {} a folder that this machine and all workers share? finished shards are kept: run the same command again",
                    self.output.folder().display()
                ))
            })?;
            self.done.push(done);
        }
        self.check_skipped()?;
        self.finish(kept)
    }

    /// Refuses shards that leave out more images than may be: those of an earlier run, which was allowed more, or of tasks,
    /// each of which counts its own.
    fn check_skipped(&self) -> Result<()> {
        let skipped: Vec<&String> = self.done.iter().flat_map(|d| &d.skipped).collect();
        match skipped.first() {
            Some(&first) if skipped.len() > self.skip_bad => {
                let (skipped, allowed, first) = (skipped.len(), self.skip_bad, first.clone());
                Err(SettingError::TooManySkipped { skipped, allowed, first }.named(self.names))
            }
            _ => Ok(()),
        }
    }

    fn finish(mut self, kept: usize) -> Result<Prepared> {
        let place = |file: &str| self.manifest.shards.iter().position(|s| s.file == file);
        self.done.sort_by_key(|done| place(&done.shard.file));
        let settings = &self.manifest.settings;
        let index = Index {
            format: 1,
            encoding: if settings.encoding == ImageFormat::Raw { "raw".into() } else { "jpeg".into() },
            shape: [settings.height, settings.width, settings.channels()],
            classes: self.manifest.classes.clone(),
            shards: self.done.iter().map(|d| d.shard.clone()).collect(),
            settings: [("job".to_string(), serde_json::Value::Object(job_table(&self.manifest)))].into(),
            skipped: self.done.iter().flat_map(|d| d.skipped.clone()).collect(),
        };
        let bytes_read = self.done.iter().map(|d| d.bytes_read).sum();
        self.output.finish(&index)?;
        Ok(Prepared { index, kept, bytes_read })
    }
}

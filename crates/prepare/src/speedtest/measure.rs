//! Measuring: cells in, measurements out.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use paceline_base::{Error, Result};
use paceline_record::{Cell, Form, Measurement, PageCache, Variant};

use super::page_cache;
use super::partition::{Interruption, KeptImages, Share, Tally, Worker, deal};
use super::source::ListedSource;
use super::{StudySetting, StudySettingNames};
use crate::panic;

/// Measures cells, one after another, and keeps between them what caching variants keep.
pub struct Measurer {
    engine: String,
    names: StudySettingNames,
    host: String,
    sources: HashMap<PathBuf, ListedSource>,
    kept: HashMap<(PathBuf, Variant), Arc<KeptImages>>,
    /// For each source and number of partitions the largest data set that is in the page cache.
    warm: HashMap<(PathBuf, usize), usize>,
    /// How many of a source's files are known to be on the disk.
    synced: HashMap<PathBuf, usize>,
}

/// Measures a list of cells and hands each measurement over as soon as it is there; ends early when `enough` says so. This
/// is all that a worker of any engine does. Errors call settings by `names`.
///
/// # Errors
/// What cannot be read, or an error of `take`.
pub fn measure_cells(
    cells: impl IntoIterator<Item = Cell>,
    engine: &str,
    names: StudySettingNames,
    enough: &dyn Fn() -> bool,
    take: &mut dyn FnMut(Measurement) -> Result<()>,
) -> Result<()> {
    let mut measurer = Measurer::new(engine).naming(names);
    for cell in cells {
        if enough() {
            break;
        }
        take(measurer.measure(&cell)?)?;
    }
    Ok(())
}

impl Measurer {
    /// A measurer that has seen nothing yet; `engine` is what schedules it.
    pub fn new(engine: &str) -> Self {
        Self {
            engine: engine.into(),
            names: StudySettingNames::default(),
            host: paceline_system::host_name(),
            sources: HashMap::new(),
            kept: HashMap::new(),
            warm: HashMap::new(),
            synced: HashMap::new(),
        }
    }

    /// The same measurer for a user who calls settings by these names.
    #[must_use]
    pub fn naming(mut self, names: StudySettingNames) -> Self {
        self.names = names;
        self
    }

    /// Measures a cell. A bad image is left out of the source, if the cell allows it, and the cell is begun again.
    ///
    /// # Errors
    /// A source that cannot be read; more bad images than may be left out; a page cache that cannot be dropped.
    pub fn measure(&mut self, cell: &Cell) -> Result<Measurement> {
        if cell.batch == 0 || cell.batches == 0 || cell.partitions == 0 || cell.threads == 0 || cell.size == 0 {
            return Err(Error::user(format!(
                "cell {}: batch, batches, partitions, threads and size must be at least 1",
                cell.id
            )));
        }
        if !self.sources.contains_key(&cell.path) {
            let source = ListedSource::open(&cell.path, cell.form, cell.seed, cell.skip_bad)?;
            self.sources.insert(cell.path.clone(), source);
        }
        loop {
            match self.attempt(cell)? {
                Ok(measurement) => return Ok(measurement),
                Err(Interruption::Bad { sample, why, ends }) => match self.sources.get_mut(&cell.path) {
                    Some(source) => {
                        source.skip(sample, why, self.names)?;
                        if ends {
                            source.set_end(sample.file, sample.record);
                        }
                    }
                    None => return Err(Error::internal("a source that was listed is gone")),
                },
                Err(Interruption::Panicked { place, why }) => return Err(panic::error("measure", place, &why)),
                Err(Interruption::Empty) => {
                    return Err(Error::user(format!("{}: there are no images that can be read", cell.path.display())));
                }
            }
        }
    }

    fn attempt(&mut self, cell: &Cell) -> Result<std::result::Result<Measurement, Interruption>> {
        let Some(source) = self.sources.get(&cell.path) else {
            return Err(Error::internal("a source that was not listed"));
        };
        let shares = deal(cell, source);
        let warm_key = (cell.path.clone(), shares.len());
        let resident = match cell.page_cache {
            PageCache::Cold => {
                let files = touched(cell, source);
                let failed = |e: std::io::Error| {
                    Error::failure(format!(
                        "cannot drop the page cache of {}: {e}; leave out `cold` of {}",
                        cell.path.display(),
                        self.names.of(StudySetting::PageCache)
                    ))
                };
                let synced = self.synced.entry(cell.path.clone()).or_default();
                page_cache::drop_pages(files, *synced).map_err(failed)?;
                *synced = files.len().max(*synced);
                self.warm.retain(|(path, _), _| *path != cell.path);
                Some(page_cache::resident(&files[..files.len().min(cell.images())]).map_err(failed)?)
            }
            PageCache::Warm => {
                if self.warm.get(&warm_key).is_none_or(|&images| images < cell.images()) {
                    let reading = Cell { decode: false, verify: false, caching: false, ..cell.clone() };
                    if let Err(stopped) = run(&reading, source, None, &shares) {
                        return Ok(Err(stopped));
                    }
                    self.warm.insert(warm_key, cell.images());
                }
                None
            }
        };
        let kept = cell.caching.then(|| self.kept.entry((cell.path.clone(), cell.variant())).or_default().clone());
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let disk = page_cache::read_from_disk();
        let begin = Instant::now();
        let tally = match run(cell, source, kept.as_deref(), &shares) {
            Ok(tally) => tally,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let seconds = begin.elapsed().as_secs_f64();
        let from_disk = disk.zip(page_cache::read_from_disk()).map(|(before, after)| after.saturating_sub(before));
        let not_cold = resident.and_then(|left| page_cache::was_cold(left, from_disk, tally.bytes).err());
        Ok(Ok(Measurement {
            cell: cell.clone(),
            engine: self.engine.clone(),
            host: self.host.clone(),
            started,
            seconds,
            images: tally.images,
            from_cache: tally.from_cache,
            bytes: tally.bytes,
            partitions_used: shares.len(),
            resident,
            not_cold,
            skipped: source.skipped.clone(),
        }))
    }
}

/// The files that a cell may read.
fn touched<'a>(cell: &Cell, source: &'a ListedSource) -> &'a [PathBuf] {
    let files = source.files();
    match source.form {
        // Bad ones in between move the end.
        Form::Files => &files[..files.len().min(cell.images() + source.skipped.len())],
        Form::Records => files,
    }
}

/// All partitions of a cell, on as many threads as it says.
fn run(
    cell: &Cell,
    source: &ListedSource,
    kept: Option<&KeptImages>,
    shares: &[Share],
) -> std::result::Result<Tally, Interruption> {
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Ok(Tally::default()));
    let work = || {
        let mut worker = Worker::new(cell, source, kept);
        while let Some(&share) = shares.get(next.fetch_add(1, Ordering::Relaxed)) {
            let done = worker.run(share);
            let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match (done, total.as_mut()) {
                (Ok(tally), Ok(sum)) => {
                    sum.images += tally.images;
                    sum.from_cache += tally.from_cache;
                    sum.bytes += tally.bytes;
                }
                (Ok(_), Err(_)) => return,
                (Err(stopped), _) => {
                    *total = Err(stopped);
                    next.store(shares.len(), Ordering::Relaxed);
                    return;
                }
            }
        }
    };
    let threads = cell.threads.min(shares.len());
    if threads <= 1 {
        work();
    } else {
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    }
    total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panic::inject::Fault;
    use paceline_image::{Pixels, encode_png};

    #[test]
    fn a_panic_ends_the_study_with_the_image_at_hand() {
        let folder = tempfile::tempdir().unwrap();
        let png = encode_png(&Pixels { width: 4, height: 4, channels: 1, data: vec![9; 16] }).unwrap();
        for i in 0..8 {
            let class = folder.path().join(["a", "b"][i % 2]);
            std::fs::create_dir_all(&class).unwrap();
            std::fs::write(class.join(format!("{i}.png")), &png).unwrap();
        }
        let cell = Cell {
            id: 0,
            source: "data".into(),
            path: folder.path().into(),
            form: Form::Files,
            batch: 2,
            batches: 4,
            repetition: 1,
            page_cache: PageCache::Warm,
            caching: false,
            partitions: 4,
            threads: 3,
            decode: true,
            size: 4,
            verify: true,
            seed: 1,
            skip_bad: 3,
        };
        let bad = folder.path().join("b/5.png").display().to_string();
        let fault = Fault::new("measure", bad.clone());
        let error = Measurer::new("local").measure(&cell).unwrap_err();
        drop(fault);
        assert_eq!(error.kind(), paceline_base::Kind::Internal);
        assert!(error.message().contains(&bad), "{error}");
        assert_eq!(Measurer::new("local").measure(&cell).unwrap().images, 8);
    }
}

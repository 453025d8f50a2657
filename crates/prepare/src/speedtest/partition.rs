//! One partition of a cell: its share of the batches, read, decoded and put together one after another.

use std::collections::HashMap;
use std::io::Read;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use paceline_data::example::Example;
use paceline_data::shards::{Encoding, FeatureNames, Layout};
use paceline_data::tfrecord::Reader;
use paceline_data::{DataError, RecordError, Scratch};
use paceline_image::{Colour, Fit, Target};
use paceline_record::{Cell, Form};

use super::source::{ListedSource, Sample};
use crate::panic::{caught, point};

/// What caching variants may keep, each.
const KEPT_BYTES: u64 = 2 << 30;
/// Bytes around the data of a record.
const FRAME: u64 = 16;

/// Images that a caching variant keeps between measurements.
#[derive(Default)]
pub(super) struct KeptImages {
    images: RwLock<HashMap<Sample, Box<[u8]>>>,
    bytes: AtomicU64,
}

impl KeptImages {
    /// Appends a kept image to the batch; false if it is not there.
    fn copy(&self, sample: Sample, batch: &mut Vec<u8>) -> bool {
        let images = self.images.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        images.get(&sample).is_some_and(|image| {
            batch.extend_from_slice(image);
            true
        })
    }

    fn keep(&self, sample: Sample, image: &[u8]) {
        if self.bytes.fetch_add(image.len() as u64, Ordering::Relaxed) > KEPT_BYTES {
            return;
        }
        self.images.write().unwrap_or_else(std::sync::PoisonError::into_inner).insert(sample, image.into());
    }
}

/// What came of a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub images: u64,
    pub from_cache: u64,
    pub bytes: u64,
}

/// Why a partition stopped.
pub(super) enum Interruption {
    /// An image that cannot be read or decoded.
    Bad {
        sample: Sample,
        why: String,
        /// Nothing of this shard can be read beyond it.
        ends: bool,
    },
    /// Nothing can be read at all.
    Empty,
    /// A bug: what a worker panicked with, and where.
    Panicked { place: String, why: String },
}

/// The share of one partition: which batches, by number, and which stream of shards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub number: usize,
    pub of: usize,
    pub first_batch: usize,
    pub batches: usize,
}

/// Deals the batches to the partitions, in order and as evenly as possible. Partitions without work are left out; of
/// records there are not more than shards, since a shard is read from its beginning.
pub(super) fn deal(cell: &Cell, source: &ListedSource) -> Vec<Share> {
    let files = if source.form == Form::Records { source.files().len() } else { usize::MAX };
    let of = cell.partitions.min(cell.batches).min(files).max(1);
    (0..of)
        .map(|number| {
            let (from, to) = (number * cell.batches / of, (number + 1) * cell.batches / of);
            Share { number, of, first_batch: from, batches: to - from }
        })
        .collect()
}

/// A worker: its scratch memory.
pub(super) struct Worker<'a> {
    cell: &'a Cell,
    source: &'a ListedSource,
    kept: Option<&'a KeptImages>,
    scratch: Scratch,
    bytes: Vec<u8>,
    batch: Vec<u8>,
    tally: Tally,
    /// The image at hand.
    at: Option<Sample>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(cell: &'a Cell, source: &'a ListedSource, kept: Option<&'a KeptImages>) -> Self {
        Self {
            cell,
            source,
            kept,
            scratch: Scratch::default(),
            bytes: Vec::new(),
            batch: Vec::new(),
            tally: Tally::default(),
            at: None,
        }
    }

    /// Does one partition. A panic stops it with the place that it had come to.
    pub(super) fn run(&mut self, share: Share) -> Result<Tally, Interruption> {
        let done = caught(|| self.partition(share));
        done.unwrap_or_else(|why| {
            let file = self.at.and_then(|sample| Some((self.source.files().get(sample.file as usize)?, sample.record)));
            let place = match (file, self.source.form) {
                (Some((file, record)), Form::Records) => format!("{} record {record}", file.display()),
                (Some((file, _)), Form::Files) => file.display().to_string(),
                (None, _) => self.source.path.display().to_string(),
            };
            Err(Interruption::Panicked { place, why })
        })
    }

    fn partition(&mut self, share: Share) -> Result<Tally, Interruption> {
        self.tally = Tally::default();
        match self.source.form {
            Form::Files => self.files(share)?,
            Form::Records => self.records(share)?,
        }
        Ok(self.tally)
    }

    /// Ends a batch after its last image.
    fn count(&mut self) {
        self.tally.images += 1;
        if self.tally.images.is_multiple_of(self.cell.batch as u64) {
            std::hint::black_box(&self.batch);
            self.batch.clear();
        }
    }

    fn cached(&mut self, sample: Sample) -> bool {
        self.at = Some(sample);
        point("measure", self.source.files()[sample.file as usize].display());
        let found = self.kept.is_some_and(|kept| kept.copy(sample, &mut self.batch));
        self.tally.from_cache += u64::from(found);
        found
    }

    fn files(&mut self, share: Share) -> Result<(), Interruption> {
        let (first, count) = (share.first_batch * self.cell.batch, share.batches * self.cell.batch);
        let good: Vec<u32> = (0..self.source.files().len() as u32)
            .filter(|&file| !self.source.is_bad(Sample { file, record: 0 }))
            .take(first + count)
            .collect();
        if good.is_empty() {
            return Err(Interruption::Empty);
        }
        for position in first..first + count {
            let sample = Sample { file: good[position % good.len()], record: 0 };
            if !self.cached(sample) {
                let path = &self.source.files()[sample.file as usize];
                let mut bytes = std::mem::take(&mut self.bytes);
                bytes.clear();
                let read = paceline_data::open_regular(path).and_then(|mut file| file.read_to_end(&mut bytes));
                let bad = |why: String| {
                    let why = format!("{}: {why}", path.display());
                    Interruption::Bad { sample, why, ends: false }
                };
                read.map_err(|e| bad(e.to_string()))?;
                self.tally.bytes += bytes.len() as u64;
                self.image(sample, &bytes, None).map_err(bad)?;
                self.bytes = bytes;
            }
            self.count();
        }
        Ok(())
    }

    /// Reads the shards `number`, `number + of`, … from their beginnings, and again from the first when all are done.
    fn records(&mut self, share: Share) -> Result<(), Interruption> {
        let wanted = (share.batches * self.cell.batch) as u64;
        let mine: Vec<u32> = (share.number..self.source.files().len()).step_by(share.of).map(|f| f as u32).collect();
        loop {
            let before = self.tally.images;
            for &file in &mine {
                self.shard(file, wanted)?;
                if self.tally.images == wanted {
                    return Ok(());
                }
            }
            if self.tally.images == before {
                return Err(Interruption::Empty);
            }
        }
    }

    fn shard(&mut self, file: u32, wanted: u64) -> Result<(), Interruption> {
        let path = &self.source.files()[file as usize];
        let name = path.display().to_string();
        let mut reader: Option<Reader<std::fs::File>> = None;
        let mut next = 0; // the record that the reader comes to
        let mut layout: Option<Layout> = None;
        let mut record = 0;
        while self.tally.images < wanted && record < self.source.end(file) {
            let sample = Sample { file, record };
            record += 1;
            if self.source.is_bad(sample) {
                continue;
            }
            if self.cached(sample) {
                self.count();
                continue;
            }
            let bad = |why: String, ends: bool| Interruption::Bad { sample, why, ends };
            if reader.is_none() {
                let file = paceline_data::open_regular(path).map_err(|e| bad(format!("{name}: {e}"), true))?;
                reader = Some(Reader::new(file, &name, self.cell.verify).map_err(|e| bad(e.to_string(), true))?);
            }
            let Some(open) = &mut reader else { return Err(Interruption::Empty) };
            let mut bytes = std::mem::take(&mut self.bytes);
            let found = loop {
                let found = open.next(&mut bytes);
                next += 1;
                // What is passed over was kept or is bad already.
                match found {
                    Ok(None) => break Ok(false),
                    Ok(Some(_)) => self.tally.bytes += bytes.len() as u64 + FRAME,
                    Err(error) if next > sample.record => break Err(error),
                    Err(_) => {}
                }
                if next > sample.record {
                    break Ok(true);
                }
            };
            let goes_on = |e: &DataError| matches!(e, DataError::Record(RecordError::DataChecksum { .. }));
            if !found.map_err(|e| bad(e.to_string(), !goes_on(&e)))? {
                self.source.set_end(file, sample.record);
                self.bytes = bytes;
                break;
            }
            let place = |why: String| bad(format!("{name} record {}: {why}", sample.record), false);
            let example = Example::parse(&bytes).map_err(|e| place(e.to_string()))?;
            if layout.is_none() {
                layout = Layout::of(&example, &FeatureNames::default());
            }
            let Some(layout) = &layout else { return Err(place("it has no image".into())) };
            let image = example.bytes(&layout.image);
            let image = image.ok_or_else(|| place(format!("it has no feature `{}`", layout.image)))?;
            let raw = match layout.encoding {
                Encoding::File => None,
                Encoding::Raw(shape) => Some(shape),
                Encoding::Numbers(_) => {
                    return Err(place("its images are lists of numbers, which are not studied".into()));
                }
            };
            self.image(sample, image, raw).map_err(place)?;
            self.bytes = bytes;
            self.count();
        }
        Ok(())
    }

    /// Appends an image to the batch: decoded and brought to size, or its bytes as they are.
    fn image(&mut self, sample: Sample, bytes: &[u8], raw: Option<[usize; 3]>) -> Result<(), String> {
        let start = self.batch.len();
        if self.cell.decode {
            let size = self.cell.size;
            let target = Target { width: size, height: size, fit: Fit::Crop, full: false };
            let pixels = match raw {
                None => self.scratch.decode_to(bytes, Colour::Rgb, &target).map_err(|e| e.to_string())?,
                Some([height, width, channels]) => {
                    if bytes.len() != height * width * channels || ![1, 3].contains(&channels) {
                        return Err(format!("{} bytes are no image of {height}×{width}×{channels}", bytes.len()));
                    }
                    self.scratch.place_to(bytes, [height, width, channels], &target)
                }
            };
            self.batch.extend_from_slice(&pixels.data);
        } else {
            self.batch.extend_from_slice(bytes);
        }
        if let Some(kept) = self.kept {
            kept.keep(sample, &self.batch[start..]);
        }
        Ok(())
    }
}

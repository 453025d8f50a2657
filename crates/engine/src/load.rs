//! What a step reads of its batch, on the way to the device.

use crate::rank::Rows;
use paceline_base::kernel::{BufferId, Values};
use paceline_base::region::Strided;
use paceline_base::sample::{IndexWidth, TargetKind};
use paceline_base::text::counted;
use paceline_base::{Error, Result};
use paceline_data::{Features, Target};
use paceline_kernels::Device;
use std::ops::Range;

/// Where the rows of a batch are, as one rank sees them.
#[derive(Clone, Copy)]
pub(crate) struct BatchRows<'a> {
    /// Where the samples are.
    pub rows: Rows<'a>,
    /// In memory: the samples of the rows that this rank reads …
    pub samples: &'a [usize],
    /// … and the first of these rows.
    pub first: usize,
}

impl BatchRows<'_> {
    fn features(&self, row: usize, at: &mut dyn FnMut(Features<'_>)) {
        match self.rows {
            Rows::Memory { samples, .. } => at(samples.features(self.samples[row - self.first])),
            Rows::Supply { supply, start, .. } => supply.look(start + row as u64, at),
        }
    }

    fn target(&self, row: usize) -> Target<'_> {
        match self.rows {
            Rows::Memory { samples, .. } => samples.target(self.samples[row - self.first]),
            Rows::Supply { supply, start, .. } => supply.target(start + row as u64),
        }
    }
}

/// Loads a region of every sample's numbers.
pub(crate) fn load_numbers(
    device: &mut dyn Device,
    buffer: BufferId,
    (source, rows): (BatchRows<'_>, Range<usize>),
    (walk, len): (&Strided, usize),
) -> Result<()> {
    device.load_all(buffer, &mut |put| {
        for (i, row) in rows.clone().enumerate() {
            source.features(row, &mut |features| {
                walk.for_each(|from, to, run| put(i * len + to, slice(&features, from, run)));
            });
        }
    })
}

/// Host memory in which classes and lists are put together before they go to the device; it grows to the largest.
#[derive(Debug, Default)]
pub(crate) struct IndexScratch {
    narrow: Vec<u32>,
    wide: Vec<u64>,
}

impl IndexScratch {
    /// Makes room for so many indices of 32 and of 64 bits.
    pub(crate) fn reserve(&mut self, narrow: usize, wide: usize) {
        self.narrow.reserve(narrow.saturating_sub(self.narrow.len()));
        self.wide.reserve(wide.saturating_sub(self.wide.len()));
    }

    /// Loads the targets of samples.
    ///
    /// # Errors
    /// If a sample has targets of another kind.
    pub(crate) fn targets(
        &mut self,
        device: &mut dyn Device,
        buffer: BufferId,
        (source, rows): (BatchRows<'_>, Range<usize>),
        kind: TargetKind,
    ) -> Result<()> {
        let mixed = |row| {
            let wanted = match kind {
                TargetKind::Classes { each: 1, .. } => "a class".to_string(),
                TargetKind::Classes { each, .. } => format!("{each} classes"),
                TargetKind::Numbers { each } => counted(each, "number"),
            };
            Error::user(format!(
                "row {row} of the batch has targets of another kind than the model was built for, {wanted} for each sample; give it such data"
            ))
        };
        if let TargetKind::Numbers { each } = kind {
            let fits = |row: usize| matches!(source.target(row), Target::Numbers(numbers) if numbers.len() == each);
            if let Some(row) = rows.clone().find(|row| !fits(*row)) {
                return Err(mixed(row));
            }
            return device.load_all(buffer, &mut |put| {
                for (i, row) in rows.clone().enumerate() {
                    if let Target::Numbers(numbers) = source.target(row) {
                        put(i * each, Values::F32(numbers));
                    }
                }
            });
        }
        self.narrow.clear();
        for row in rows {
            match source.target(row) {
                Target::Class(class) if kind.each() == 1 => self.narrow.push(class),
                Target::Classes(classes) if classes.len() == kind.each() => self.narrow.extend_from_slice(classes),
                _ => return Err(mixed(row)),
            }
        }
        device.load(buffer, 0, Values::U32(&self.narrow))
    }

    /// Loads lists of indices: offsets, then the indices.
    ///
    /// # Errors
    /// If they are more than there is room for, or a sample is no list.
    pub(crate) fn lists(
        &mut self,
        device: &mut dyn Device,
        buffer: BufferId,
        (source, rows): (BatchRows<'_>, Range<usize>),
        (entries, width): (usize, IndexWidth),
    ) -> Result<()> {
        match width {
            IndexWidth::Bits32 => {
                gather(&mut self.narrow, source, rows, entries)?;
                device.load(buffer, 0, Values::U32(&self.narrow))
            }
            IndexWidth::Bits64 => {
                gather(&mut self.wide, source, rows, entries)?;
                device.load(buffer, 0, Values::U64(&self.wide))
            }
        }
    }
}

/// Puts offsets and indices of all rows into one list.
fn gather<I: Copy + Default + TryFrom<u64>>(
    all: &mut Vec<I>,
    source: BatchRows<'_>,
    rows: Range<usize>,
    room: usize,
) -> Result<()> {
    let index = |index: u64, row: usize| {
        I::try_from(index).map_err(|_| {
            Error::user(format!("row {row} of the batch holds index {index}, which is beyond the table; mend the data"))
        })
    };
    let offsets = rows.len() + 1;
    all.clear();
    all.resize(offsets, I::default());
    for (i, row) in rows.enumerate() {
        let mut failed = None;
        source.features(row, &mut |features| {
            let more = features.len();
            let have = all.len() - offsets;
            if more > room.saturating_sub(have) {
                failed = Some(Error::internal(format!(
                    "the lists of a batch hold {} indices up to row {row}, and there is room for {room}: plan for the longest lists, or with \
                     phases that grow",
                    have + more
                )));
                return;
            }
            let added = match features {
                Features::U32(list) => list.iter().try_for_each(|&n| index(u64::from(n), row).map(|n| all.push(n))),
                Features::U64(list) => list.iter().try_for_each(|&n| index(n, row).map(|n| all.push(n))),
                Features::U8 { .. } | Features::F32(_) => Err(Error::user(format!(
                    "row {row} of the batch holds numbers, not a list of indices; mend the data"
                ))),
            };
            failed = added.err();
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let end = (all.len() - offsets) as u64;
        all[i + 1] = I::try_from(end).map_err(|_| {
            Error::user(format!("the lists of a batch hold {end} indices up to row {row}, more than 32 bits count; use a smaller train.batch"))
        })?;
    }
    Ok(())
}

/// Some values of a sample, as a device takes them.
pub(crate) fn slice<'a>(features: &Features<'a>, from: usize, run: usize) -> Values<'a> {
    match *features {
        Features::U8 { bytes, scale, offset } => Values::U8 { bytes: &bytes[from..from + run], scale, offset },
        Features::F32(values) => Values::F32(&values[from..from + run]),
        Features::U32(indices) => Values::U32(&indices[from..from + run]),
        Features::U64(indices) => Values::U64(&indices[from..from + run]),
    }
}

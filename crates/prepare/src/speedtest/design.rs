//! Which cells are measured, and in which order.
//!
//! Crossing everything with everything would take long, so by default only the first condition (page cache and variant)
//! is measured over the whole grid of batch size × number of batches; the others over a part of it in the middle. All
//! cells and repetitions are then shuffled together.

use std::path::PathBuf;

use paceline_base::random::{Stream, Use};
use paceline_base::text::counted;
use paceline_record::{Cell, Form, PageCache, Variant};
use serde::Serialize;

use super::{StudySetting, StudySettingNames};

/// Values of each parameter in the part of the grid that the other conditions get.
const PART: (usize, usize) = (3, 2);

/// A source, as the design needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudiedSource {
    /// What it is called in tables.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What it holds.
    pub form: Form,
    /// How many images it has (or at least as many as the largest data set needs).
    pub images: usize,
    /// Why its page cache cannot be dropped, if so.
    pub stays_warm: Option<String>,
}

/// What is to be studied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Design {
    /// Images in a batch: one side of the grid.
    pub batch: Vec<usize>,
    /// Numbers of batches.
    pub batches: Vec<usize>,
    /// How often each cell is measured.
    pub repetitions: usize,
    /// The first is that of the grid.
    pub page_cache: Vec<PageCache>,
    /// The first is that of the grid.
    pub variants: Vec<Variant>,
    /// Measure all conditions over the whole grid.
    pub full: bool,
    /// Partitions of the partitioning variants.
    pub partitions: usize,
    /// Threads that work on them.
    pub threads: usize,
    /// Decode the images.
    pub decode: bool,
    /// Their size in the end.
    pub size: usize,
    /// Check the checksums of records.
    pub verify: bool,
    /// Decides the order and which images are taken.
    pub seed: u64,
    /// Bad images that may be left out of each source.
    pub skip_bad: usize,
}

/// The cells in the order of measuring, and what the user should know about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Designed {
    /// The cells.
    pub cells: Vec<Cell>,
    /// Why cells are as they are, in sentences for the user.
    pub reasons: Vec<String>,
    /// What was asked for and is not measured.
    pub warnings: Vec<String>,
}

impl Design {
    /// The largest data-set size.
    pub fn largest(&self) -> usize {
        let most = |values: &[usize]| values.iter().copied().max().unwrap_or(0);
        most(&self.batch).saturating_mul(most(&self.batches))
    }

    /// Lists the cells of these sources. The reasons call settings by `names`.
    pub fn cells(&self, sources: &[StudiedSource], names: StudySettingNames) -> Designed {
        let mut designed = Designed { cells: Vec::new(), reasons: Vec::new(), warnings: Vec::new() };
        for source in sources {
            self.add(source, &mut designed);
        }
        let caching: Vec<&str> = self.variants.iter().filter(|v| v.caching()).map(|v| v.name()).collect();
        if self.page_cache.contains(&PageCache::Cold) && !caching.is_empty() {
            designed.warnings.push(format!(
                "the variants {} are not measured cold: what they keep comes from memory",
                caching.join(" and ")
            ));
        }
        // Fisher–Yates by a counter-based stream: the order is a function of the seed alone.
        let random = Stream::new(self.seed, Use::Data, 0x5eed, 0);
        let cells = &mut designed.cells;
        for last in (1..cells.len()).rev() {
            let bits = u64::from(random.bits(last as u64));
            cells.swap(last, ((bits * (last as u64 + 1)) >> 32) as usize);
        }
        cells.iter_mut().zip(0..).for_each(|(cell, id)| cell.id = id);
        let conditions = self.page_cache.len() * self.variants.len();
        if let (false, true, Some(&variant), Some(&page_cache)) =
            (self.full, conditions > 1, self.variants.first(), self.page_cache.first())
        {
            let (batch, batches) = (middle(&self.batch, PART.0), middle(&self.batches, PART.1));
            if (batch.len(), batches.len()) == (self.batch.len(), self.batches.len()) {
                return designed; // the grid is no larger
            }
            designed.reasons.push(format!(
                "{}, {} is measured over the whole grid, the other conditions at batch {} with {} batches, to save time ({}: all)",
                page_cache.name(),
                variant.name(),
                words(&batch),
                words(&batches),
                names.of(StudySetting::Full)
            ));
        }
        designed
    }

    fn add(&self, source: &StudiedSource, designed: &mut Designed) {
        let (mut wrapped, mut left_out) = (0, 0);
        for (p, &page_cache) in self.page_cache.iter().enumerate() {
            if page_cache == PageCache::Cold
                && let Some(why) = &source.stays_warm
            {
                designed.warnings.push(format!("{} is not measured cold: {why}", source.name));
                continue;
            }
            for (v, &variant) in self.variants.iter().enumerate() {
                if page_cache == PageCache::Cold && variant.caching() {
                    continue; // said once for all sources
                }
                let whole = self.full || (p, v) == (0, 0);
                let pick = |values: &[usize], count| if whole { values.to_vec() } else { middle(values, count) };
                for &batch in &pick(&self.batch, PART.0) {
                    for &batches in &pick(&self.batches, PART.1) {
                        if batch * batches > source.images {
                            // A second visit to an image is like the first only if neither leaves a trace.
                            if page_cache == PageCache::Cold || variant.caching() {
                                left_out += 1;
                                continue;
                            }
                            wrapped += 1;
                        }
                        for repetition in 1..=self.repetitions {
                            designed.cells.push(self.cell(source, batch, batches, repetition, page_cache, variant));
                        }
                    }
                }
            }
        }
        if wrapped > 0 {
            designed.reasons.push(format!(
                "{} has {}; in {} with larger data sets they are read again from the first",
                source.name,
                counted(source.images, "image"),
                counted(wrapped, "cell")
            ));
        }
        if left_out > 0 {
            designed.warnings.push(format!(
                "{} has {}: {} with larger data sets {} left out, since reading an image again would not be like reading it",
                source.name,
                counted(source.images, "image"),
                counted(left_out, "cold or caching cell"),
                if left_out == 1 { "is" } else { "are" }
            ));
        }
    }

    fn cell(
        &self,
        source: &StudiedSource,
        batch: usize,
        batches: usize,
        repetition: usize,
        page_cache: PageCache,
        variant: Variant,
    ) -> Cell {
        let many = variant.partitioning();
        Cell {
            id: 0,
            source: source.name.clone(),
            path: source.path.clone(),
            form: source.form,
            batch,
            batches,
            repetition,
            page_cache,
            caching: variant.caching(),
            partitions: if many { self.partitions } else { 1 },
            threads: if many { self.threads } else { 1 },
            decode: self.decode,
            size: self.size,
            verify: self.verify,
            seed: self.seed,
            skip_bad: self.skip_bad,
        }
    }
}

/// So many of the values, evenly spread and off the ends.
fn middle(values: &[usize], count: usize) -> Vec<usize> {
    if values.len() <= count {
        return values.to_vec();
    }
    (0..count).map(|i| values[(2 * i + 1) * values.len() / (2 * count)]).collect()
}

fn words(values: &[usize]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn design() -> Design {
        Design {
            batch: vec![2, 4, 6, 8, 12, 16, 24, 32],
            batches: vec![2, 4, 8, 12, 16, 24],
            repetitions: 3,
            page_cache: vec![PageCache::Warm, PageCache::Cold],
            variants: vec![Variant::Partitioning, Variant::Neither, Variant::Caching, Variant::Both],
            full: false,
            partitions: 6,
            threads: 2,
            decode: true,
            size: 192,
            verify: true,
            seed: 7,
            skip_bad: 0,
        }
    }

    fn source(images: usize) -> StudiedSource {
        StudiedSource { name: "photos".into(), path: "photos".into(), form: Form::Files, images, stays_warm: None }
    }

    #[test]
    fn the_grid_is_whole_and_the_rest_is_its_middle() {
        let designed = design().cells(&[source(1000)], StudySettingNames::default());
        let grid = designed
            .cells
            .iter()
            .filter(|c| c.page_cache == PageCache::Warm && c.variant() == Variant::Partitioning)
            .count();
        // Of the eight conditions two, caching and cold, would be read from memory.
        assert_eq!((grid, designed.cells.len()), (8 * 6 * 3, 8 * 6 * 3 + 5 * 3 * 2 * 3));
        assert!(designed.reasons[0].contains("batch 4, 12, 24 with 4, 16 batches"), "{:?}", designed.reasons);
        assert_eq!(
            Design { full: true, ..design() }.cells(&[source(1000)], StudySettingNames::default()).cells.len(),
            8 * 6 * 3 * 6
        );
    }

    #[test]
    fn the_order_mixes_everything_and_is_a_function_of_the_seed() {
        let cells = design().cells(&[source(1000)], StudySettingNames::default()).cells;
        assert_eq!(cells, design().cells(&[source(1000)], StudySettingNames::default()).cells);
        assert_ne!(cells, Design { seed: 8, ..design() }.cells(&[source(1000)], StudySettingNames::default()).cells);
        assert!(cells.iter().zip(0..).all(|(cell, id)| cell.id == id));
        // No cell is lost, none is there twice.
        let keys: BTreeSet<String> =
            cells.iter().map(|c| serde_json::to_string(&Cell { id: 0, ..c.clone() }).unwrap()).collect();
        assert_eq!(keys.len(), cells.len());
        // Each parameter's mean place is near the middle of the order.
        let half = cells.len() as f64 / 2.0;
        for batch in design().batch {
            let places: Vec<f64> = cells.iter().filter(|c| c.batch == batch).map(|c| c.id as f64).collect();
            let mean = places.iter().sum::<f64>() / places.len() as f64;
            assert!((mean - half).abs() < half * 0.5, "batch {batch}: {mean} of {half}");
        }
    }

    #[test]
    fn too_few_images_are_read_again_or_left_out_and_said() {
        let designed = design().cells(&[source(100)], StudySettingNames::default());
        assert!(designed.reasons.iter().any(|r| r.contains("read again from the first")), "{:?}", designed.reasons);
        assert!(designed.warnings.iter().any(|w| w.contains("left out")), "{:?}", designed.warnings);
        let second_visit = |c: &Cell| c.images() > 100 && (c.caching || c.page_cache == PageCache::Cold);
        assert!(!designed.cells.iter().any(second_visit));
    }

    #[test]
    fn what_cannot_be_cold_is_said() {
        let designed = design().cells(
            &[StudiedSource { stays_warm: Some("it is in memory".into()), ..source(1000) }],
            StudySettingNames::default(),
        );
        assert!(designed.cells.iter().all(|c| c.page_cache == PageCache::Warm));
        assert_eq!(designed.warnings[0], "photos is not measured cold: it is in memory");
    }

    /// Before, images that a caching variant had kept counted as read cold: 123 times as fast as without.
    #[test]
    fn what_is_kept_in_memory_is_not_called_cold() {
        let designed = design().cells(&[source(1000)], StudySettingNames::default());
        assert!(!designed.cells.iter().any(|c| c.page_cache == PageCache::Cold && c.caching));
        assert!(designed.cells.iter().any(|c| c.page_cache == PageCache::Warm && c.caching));
        let said = "the variants caching and both are not measured cold: what they keep comes from memory";
        assert_eq!(designed.warnings, [said]);
        let none = Design { page_cache: vec![PageCache::Cold], variants: vec![Variant::Caching], ..design() };
        assert!(none.cells(&[source(1000)], StudySettingNames::default()).cells.is_empty());
    }
}

//! From measurements to figures: series, means per parameter value, fits, conditions.
//!
//! A *series* is one source of one study. Its *grid* is the condition (page cache and variant) with the most
//! measurements; the effects of the parameters are taken from it, so that nothing else varies. The other conditions are
//! compared with it on those cells that all of them have.

use std::collections::{BTreeMap, BTreeSet};

use paceline_record::{Form, Measurement, PageCache, Study, Variant};
use serde::Serialize;

use super::stats::{self, Linear, Quadratic};

/// A parameter that throughput is studied against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// Images in a batch.
    BatchSize,
    /// Number of batches.
    BatchNumber,
    /// Images read: batch size times number of batches.
    DataSize,
    /// Which repetition of a cell it is, from 1.
    Repetition,
}

impl Parameter {
    /// All of them.
    pub const ALL: [Parameter; 4] =
        [Parameter::BatchSize, Parameter::BatchNumber, Parameter::DataSize, Parameter::Repetition];

    /// The words for it.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::BatchSize => "batch size",
            Parameter::BatchNumber => "number of batches",
            Parameter::DataSize => "data-set size",
            Parameter::Repetition => "repetition",
        }
    }

    /// Its value in a measurement.
    pub fn of(self, m: &Measurement) -> usize {
        match self {
            Parameter::BatchSize => m.cell.batch,
            Parameter::BatchNumber => m.cell.batches,
            Parameter::DataSize => m.cell.images(),
            Parameter::Repetition => m.cell.repetition,
        }
    }

    /// What else must be equal for two values of it to be compared.
    fn others(self, m: &Measurement) -> (usize, usize) {
        match self {
            Parameter::BatchSize => (0, m.cell.batches),
            Parameter::BatchNumber => (m.cell.batch, 0),
            Parameter::DataSize => (0, 0),
            Parameter::Repetition => (m.cell.batch, m.cell.batches),
        }
    }
}

/// Throughput at one value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Of the parameter.
    pub value: usize,
    /// Mean images a second.
    pub mean: f64,
    /// Number of measurements.
    pub count: usize,
    /// Standard deviation ÷ mean, over all that was measured at this value.
    pub variation: Option<f64>,
}

/// How throughput depends on one parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Over which the levels go.
    pub parameter: Parameter,
    /// Means per value, ascending.
    pub levels: Vec<Level>,
    /// The straight line.
    pub linear: Option<Linear>,
    /// The parabola of least squares, where there are three levels.
    pub quadratic: Option<Quadratic>,
    /// Spearman's rank correlation.
    pub spearman: Option<f64>,
}

/// What is set when something is measured, besides the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Condition {
    /// The page cache before.
    pub page_cache: PageCache,
    /// Caching and partitioning.
    pub variant: Variant,
}

impl Condition {
    /// Of a measurement.
    pub fn of(m: &Measurement) -> Self {
        Self { page_cache: m.cell.page_cache, variant: m.cell.variant() }
    }

    /// In words: "warm, partitioning".
    pub fn name(self) -> String {
        format!("{}, {}", self.page_cache.name(), self.variant.name())
    }
}

/// Throughput under one condition, over the cells that all conditions of the series have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UnderCondition {
    /// State of the page cache and way of reading.
    pub condition: Condition,
    /// Mean images a second.
    pub images_per_s: f64,
    /// Mean megabytes a second.
    pub mb_per_s: f64,
    /// Coefficient of variation between repetitions of a cell, pooled over cells.
    pub noise: Option<f64>,
    /// How many times as fast as `neither` under the same page cache: the geometric mean over the cells that both have. It
    /// is the one figure for that, in tables, plots and words; the quotient of the means above it is another, in which
    /// fast cells outweigh the others.
    pub against_neither: Option<f64>,
    /// Share of the images that came from memory.
    pub from_cache: f64,
    /// Number of measurements.
    pub count: usize,
}

/// One source of one study.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Number of the study.
    pub study: usize,
    /// What it is called: the source, with engine or study where needed to tell series apart.
    pub name: String,
    /// As the command named it.
    pub source: String,
    /// How the images are stored.
    pub form: Form,
    /// What scheduled the measurements.
    pub engine: String,
    /// The condition of the grid.
    pub grid: Condition,
    /// Mean images a second over the grid.
    pub images_per_s: f64,
    /// Mean megabytes a second over the grid.
    pub mb_per_s: f64,
    /// Bytes of an image as stored, on average.
    pub bytes_per_image: f64,
    /// The effects of the parameters over the grid.
    pub effects: Vec<Effect>,
    /// All conditions; none if they have no cell in common.
    pub conditions: Vec<UnderCondition>,
    /// Coefficient of variation between repetitions of a cell, pooled over cells (conditions without caching).
    pub noise: Option<f64>,
    /// Everything that was measured.
    #[serde(skip)]
    pub measurements: Vec<Measurement>,
}

impl Series {
    /// How its images were read, in words: series that differ in it do not measure the same work.
    pub fn reading(&self) -> String {
        let Some(Measurement { cell, .. }) = self.measurements.first() else { return String::new() };
        let unchecked = if cell.form == Form::Records && !cell.verify { ", not verified" } else { "" };
        format!("{}{unchecked}", self.decoding())
    }

    /// What was made of the bytes, in words.
    fn decoding(&self) -> String {
        match self.measurements.first() {
            Some(Measurement { cell, .. }) if cell.decode => format!("decoded to {}", cell.size),
            Some(_) => "not decoded".into(),
            None => String::new(),
        }
    }

    /// The measurements under a condition.
    pub fn under(&self, condition: Condition) -> impl Iterator<Item = &Measurement> {
        self.measurements.iter().filter(move |m| Condition::of(m) == condition)
    }

    /// The effect of a parameter.
    pub fn effect(&self, parameter: Parameter) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.parameter == parameter)
    }

    /// Images a second of the grid, by cell.
    pub(crate) fn cells_of_grid(&self) -> Vec<Vec<f64>> {
        let mut cells: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for m in self.under(self.grid) {
            cells.entry((m.cell.batch, m.cell.batches)).or_default().push(m.images_per_s());
        }
        cells.into_values().collect()
    }

    /// The measurements at two values of a parameter over the grid, in blocks of equal other parameters.
    pub(crate) fn at_values(&self, parameter: Parameter, a: usize, b: usize) -> Vec<(Vec<f64>, Vec<f64>)> {
        let at = |value| self.under(self.grid).filter(move |m| parameter.of(m) == value);
        matched(at(a), at(b), |m| parameter.others(m))
    }
}

/// Images a second of two groups of measurements, in blocks of equal batch size and number of batches.
pub(crate) fn blocks<'a>(
    a: impl Iterator<Item = &'a Measurement>,
    b: impl Iterator<Item = &'a Measurement>,
) -> Vec<(Vec<f64>, Vec<f64>)> {
    matched(a, b, |m| (m.cell.batch, m.cell.batches))
}

fn matched<'a>(
    a: impl Iterator<Item = &'a Measurement>,
    b: impl Iterator<Item = &'a Measurement>,
    key: impl Fn(&Measurement) -> (usize, usize),
) -> Vec<(Vec<f64>, Vec<f64>)> {
    let mut blocks: BTreeMap<(usize, usize), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    a.for_each(|m| blocks.entry(key(m)).or_default().0.push(m.images_per_s()));
    b.for_each(|m| blocks.entry(key(m)).or_default().1.push(m.images_per_s()));
    blocks.into_values().filter(|(a, b)| !a.is_empty() && !b.is_empty()).collect()
}

/// The series of these studies, in the order of the studies and of their sources.
pub fn series(studies: &[Study]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for (number, study) in studies.iter().enumerate() {
        let mut sources: Vec<(&str, &str)> = Vec::new();
        let mut by_id: Vec<&Measurement> = study.measurements.iter().filter(|m| counts(m)).collect();
        by_id.sort_by_key(|m| (m.cell.form, m.cell.source.clone()));
        for m in &by_id {
            let key = (m.cell.source.as_str(), m.engine.as_str());
            if !sources.contains(&key) {
                sources.push(key);
            }
        }
        for (source, engine) in sources {
            let measurements: Vec<Measurement> = study
                .measurements
                .iter()
                .filter(|m| counts(m) && m.cell.source == source && m.engine == engine)
                .cloned()
                .collect();
            all.push(one(number, source, engine, measurements));
        }
    }
    name_apart(&mut all, studies);
    all
}

/// Whether a measurement is one: it took time, and was cold if it was to be.
fn counts(m: &Measurement) -> bool {
    m.seconds > 0.0 && m.not_cold.is_none()
}

/// Adds how it was read, engine, then study, to names that would be the same; how it was read also where some were decoded and some
/// were not, since they stand in one table and decoding takes most of the time.
fn name_apart(all: &mut [Series], studies: &[Study]) {
    let readings: Vec<(String, String)> = all.iter().map(|s| (s.name.clone(), s.reading())).collect();
    let mixed = all.iter().any(|s| s.decoding() != all[0].decoding());
    for series in all.iter_mut() {
        let mine = series.reading();
        if mixed || readings.iter().any(|(name, reading)| *name == series.name && *reading != mine) {
            series.name = format!("{}, {mine}", series.name);
        }
    }
    let twice = |all: &[Series], name: &str| all.iter().filter(|s| s.name == name).count() > 1;
    for step in [
        |s: &Series, _: &[Study]| s.engine.clone(),
        |s: &Series, studies: &[Study]| studies.get(s.study).map_or(String::new(), |study| study.name.clone()),
    ] {
        let clash: Vec<bool> = all.iter().map(|s| twice(all, &s.name)).collect();
        for (series, clash) in all.iter_mut().zip(clash) {
            if clash {
                let more = step(series, studies);
                series.name = format!("{}, {more}", series.name);
            }
        }
    }
}

fn one(study: usize, source: &str, engine: &str, measurements: Vec<Measurement>) -> Series {
    let mut counts: BTreeMap<Condition, usize> = BTreeMap::new();
    measurements.iter().for_each(|m| *counts.entry(Condition::of(m)).or_default() += 1);
    // Of equals the warm one, and of these the one that the tool itself measures the grid with.
    let rank = |c: &Condition| (c.page_cache == PageCache::Warm, c.variant == Variant::Partitioning);
    let grid = counts
        .iter()
        .max_by_key(|(condition, count)| (**count, rank(condition)))
        .map_or(Condition { page_cache: PageCache::Warm, variant: Variant::Neither }, |(condition, _)| *condition);
    let of_grid: Vec<&Measurement> = measurements.iter().filter(|m| Condition::of(m) == grid).collect();
    let read: Vec<&Measurement> = measurements.iter().filter(|m| m.images > m.from_cache).collect();
    let (bytes, images) =
        read.iter().fold((0.0, 0.0), |(b, i), m| (b + m.bytes as f64, i + (m.images - m.from_cache) as f64));
    let plain: Vec<&Measurement> = measurements.iter().filter(|m| !m.cell.caching).collect();
    Series {
        study,
        name: source.to_string(),
        source: source.to_string(),
        form: measurements.first().map_or(Form::Files, |m| m.cell.form),
        engine: engine.to_string(),
        grid,
        images_per_s: mean_of(&of_grid, Measurement::images_per_s),
        mb_per_s: mean_of(&of_grid, Measurement::mb_per_s),
        bytes_per_image: bytes / images,
        effects: Parameter::ALL.iter().map(|&parameter| effect(parameter, &of_grid)).collect(),
        conditions: conditions(&measurements, &counts),
        noise: noise(&plain),
        measurements,
    }
}

fn mean_of(measurements: &[&Measurement], value: fn(&Measurement) -> f64) -> f64 {
    stats::mean(&measurements.iter().map(|m| value(m)).collect::<Vec<_>>())
}

/// The coefficient of variation between repetitions of a cell, pooled over cells (root mean square: the mean or median of
/// few repetitions' deviations would be too small).
fn noise(measurements: &[&Measurement]) -> Option<f64> {
    let mut cells: BTreeMap<(Condition, usize, usize), Vec<f64>> = BTreeMap::new();
    for m in measurements {
        cells.entry((Condition::of(m), m.cell.batch, m.cell.batches)).or_default().push(m.images_per_s());
    }
    let squares: Vec<f64> = cells.values().filter_map(|values| Some(stats::variation(values)?.powi(2))).collect();
    (!squares.is_empty()).then(|| stats::mean(&squares).sqrt())
}

fn effect(parameter: Parameter, measurements: &[&Measurement]) -> Effect {
    let mut levels: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for m in measurements {
        levels.entry(parameter.of(m)).or_default().push(m.images_per_s());
    }
    let points: Vec<(f64, f64)> = measurements.iter().map(|m| (parameter.of(m) as f64, m.images_per_s())).collect();
    let varies = levels.len() > 1;
    Effect {
        parameter,
        levels: levels
            .iter()
            .map(|(&value, values)| Level {
                value,
                mean: stats::mean(values),
                count: values.len(),
                variation: stats::variation(values),
            })
            .collect(),
        linear: stats::linear(&points),
        quadratic: stats::quadratic(&points),
        spearman: if varies { stats::spearman(&points) } else { None },
    }
}

fn conditions(measurements: &[Measurement], counts: &BTreeMap<Condition, usize>) -> Vec<UnderCondition> {
    let cells_of = |condition: Condition| -> BTreeSet<(usize, usize)> {
        let of = measurements.iter().filter(|m| Condition::of(m) == condition);
        of.map(|m| (m.cell.batch, m.cell.batches)).collect()
    };
    let common = counts.keys().map(|&c| cells_of(c)).reduce(|a, b| a.intersection(&b).copied().collect());
    let common = common.unwrap_or_default();
    if common.is_empty() {
        return Vec::new(); // a study that was stopped early: there is nothing to set side by side
    }
    let compared = |m: &&Measurement| common.contains(&(m.cell.batch, m.cell.batches));
    let under = |&condition: &Condition| {
        let of: Vec<&Measurement> =
            measurements.iter().filter(|m| Condition::of(m) == condition).filter(compared).collect();
        let (images, cached) = of.iter().fold((0, 0), |(i, c), m| (i + m.images, c + m.from_cache));
        UnderCondition {
            condition,
            images_per_s: mean_of(&of, Measurement::images_per_s),
            mb_per_s: mean_of(&of, Measurement::mb_per_s),
            noise: noise(&of),
            against_neither: {
                let neither = Condition { variant: Variant::Neither, ..condition };
                let under = |condition| measurements.iter().filter(move |m| Condition::of(m) == condition);
                stats::ratio_value(&blocks(under(condition), under(neither)))
            },
            from_cache: cached as f64 / images as f64,
            count: of.len(),
        }
    };
    counts.keys().map(under).collect()
}

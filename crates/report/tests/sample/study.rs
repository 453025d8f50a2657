//! Made-up studies: throughput is a known function of the parameters, times noise of a known size.

use paceline_record::{Cell, Form, Measurement, PageCache, Study, Variant};

/// What is true of a made-up machine.
pub(crate) struct Made {
    pub engine: &'static str,
    /// Images a second from files, at its best, under `neither`.
    pub base: f64,
    /// Records against files.
    pub records_gain: f64,
    /// Throughput rises up to this batch size; 0: it does not depend on it.
    pub saturates_at: usize,
    /// How many times slower cold reading is.
    pub cold: f64,
    pub caching: f64,
    pub partitioning: f64,
    pub both: f64,
    /// Standard deviation of the noise.
    pub noise: f64,
    /// Change of throughput from the first to the last measurement.
    pub drift: f64,
    pub batch: Vec<usize>,
    pub batches: Vec<usize>,
    pub repetitions: usize,
    pub seed: u64,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            engine: "local",
            base: 100.0,
            records_gain: 9.0,
            saturates_at: 24,
            cold: 2.0,
            caching: 1.0,
            partitioning: 2.0,
            both: 6.0,
            noise: 0.02,
            drift: 0.0,
            batch: vec![2, 4, 6, 8, 12, 16, 24, 32],
            batches: vec![2, 8, 24],
            repetitions: 3,
            seed: 1,
        }
    }
}

impl Made {
    /// The study: all cells warm with partitions, some under the other conditions.
    pub(crate) fn study(&self, name: &str) -> Study {
        let mut cells = Vec::new();
        for (form, source) in [(Form::Files, "photos"), (Form::Records, "shards")] {
            for page_cache in [PageCache::Warm, PageCache::Cold] {
                for variant in Variant::ALL {
                    let grid = page_cache == PageCache::Warm && variant == Variant::Partitioning;
                    for (i, &batch) in self.batch.iter().enumerate() {
                        for &batches in &self.batches {
                            for repetition in 1..=self.repetitions {
                                if grid || (self.repetitions > 1 && i % 3 == 0) {
                                    cells.push((form, source, page_cache, variant, batch, batches, repetition));
                                }
                            }
                        }
                    }
                }
            }
        }
        let mut state = self.seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1u32 << 31)
        };
        for i in (1..cells.len()).rev() {
            cells.swap(i, (random() * (i + 1) as f64) as usize);
        }
        let count = cells.len();
        let mut normal = || (0..12).map(|_| random()).sum::<f64>() - 6.0;
        let measurements = cells
            .into_iter()
            .enumerate()
            .map(|(id, (form, source, page_cache, variant, batch, batches, repetition))| {
                let mut rate = self.base;
                if form == Form::Records {
                    rate *= self.records_gain;
                }
                if self.saturates_at > 0 {
                    // 95 % of the best exactly at the wanted size.
                    let share = batch as f64 / self.saturates_at as f64;
                    rate *= 1.0 - 0.05f64.powf(share.max(0.1));
                }
                if page_cache == PageCache::Cold {
                    rate /= self.cold;
                }
                rate *= match variant {
                    Variant::Neither => 1.0,
                    Variant::Caching => self.caching,
                    Variant::Partitioning => self.partitioning,
                    Variant::Both => self.both,
                };
                rate *= (1.0 + self.noise * normal()).max(0.05);
                rate *= 1.0 + self.drift * id as f64 / count as f64;
                let images = (batch * batches) as u64;
                Measurement {
                    cell: Cell {
                        id: id as u64,
                        source: source.into(),
                        path: format!("/data/{source}").into(),
                        form,
                        batch,
                        batches,
                        repetition,
                        page_cache,
                        caching: variant.caching(),
                        partitions: if variant.partitioning() { 6 } else { 1 },
                        threads: if variant.partitioning() { 2 } else { 1 },
                        decode: true,
                        size: 192,
                        verify: true,
                        seed: 1,
                        skip_bad: 0,
                    },
                    engine: self.engine.into(),
                    host: "made-up".into(),
                    started: 1.7e9 + id as f64,
                    seconds: images as f64 / rate,
                    images,
                    from_cache: if variant.caching() { images * 3 / 4 } else { 0 },
                    bytes: images * if form == Form::Files { 210_000 } else { 11_000 },
                    partitions_used: 6,
                    resident: (page_cache == PageCache::Cold).then_some(0.0),
                    not_cold: None,
                    skipped: Vec::new(),
                }
            })
            .collect();
        Study { name: name.into(), measurements, ..Study::default() }
    }
}

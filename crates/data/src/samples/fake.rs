//! Made-up samples of any shape: for tests, for throughput studies, and for machines without a network.
//!
//! They can be learned, so that a loss goes down for the right reason. Each class has a coarse random pattern (at most
//! 8 × 8 cells for each channel); a sample is its class's pattern with up to 40 % of another class's pattern blended in, plus
//! noise for each value. All of it is a function of (seed, sample, value), so any machine makes the same bytes.
//!
//! At most [`Fake::MAX_BYTES`] are kept. Beyond that samples repeat with a fixed period ([`Fake::distinct`]), which is
//! right for what large made-up sets are for (measuring speed) and keeps an "ImageNet" within a laptop's memory.

use super::{Features, Labelled, Samples, fingerprint_of};
use crate::{DataError, Result};
use paceline_base::random::{Stream, Use};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Cells along a side of the pattern of a class.
const CELLS: usize = 8;
/// Below this many bytes another thread is not worth its start.
const PER_THREAD: usize = 4 << 20;
/// Streams of random numbers: patterns, blends and noise are kept apart by their layer number.
const PATTERN: u32 = 0;
const BLEND: u32 = 1;
const NOISE: u32 = 2;

/// What to make up. Its text form is `fake:SHAPE:CLASSES:COUNT`, where SHAPE is one or more sizes joined by `x`:
/// `fake:28x28x1:10:60000`. Plain `fake` is that very example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FakeSpec {
    /// Shape of one sample.
    pub shape: Vec<usize>,
    /// Number of classes.
    pub classes: usize,
    /// Number of training samples; the test part has a sixth of it, at least one.
    pub count: usize,
}

impl FakeSpec {
    /// How many samples the test part has: a sixth of the training part, as in MNIST.
    pub(crate) fn test_count(&self) -> usize {
        (self.count / 6).max(1)
    }
}

impl Default for FakeSpec {
    fn default() -> Self {
        Self { shape: vec![28, 28, 1], classes: 10, count: 60_000 }
    }
}

impl fmt::Display for FakeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = self.shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
        write!(f, "fake:{shape}:{}:{}", self.classes, self.count)
    }
}

impl FromStr for FakeSpec {
    type Err = DataError;

    fn from_str(spec: &str) -> Result<Self> {
        if spec == "fake" {
            return Ok(Self::default());
        }
        let bad = |reason: String| DataError::BadFake { spec: spec.into(), reason };
        let number = |text: &str, what: &str| match text.parse::<usize>() {
            Ok(0) => Err(bad(format!("{what} must be at least 1"))),
            Ok(n) => Ok(n),
            Err(_) => Err(bad(format!("{what} must be a whole number, not `{text}`"))),
        };
        let parts: Vec<&str> = spec.split(':').collect();
        let ["fake", shape, classes, count] = parts[..] else {
            return Err(bad(format!("{} parts instead of 4", parts.len())));
        };
        let shape = shape.split('x').map(|size| number(size, "a size in SHAPE")).collect::<Result<Vec<_>>>()?;
        let (classes, count) = (number(classes, "CLASSES")?, number(count, "COUNT")?);
        let size = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if size.is_none_or(|n| n > Fake::MAX_VALUES) {
            return Err(bad(format!("a sample may have at most {} values", Fake::MAX_VALUES)));
        }
        if classes > 1 << 16 {
            return Err(bad("at most 65536 classes".into()));
        }
        Ok(Self { shape, classes, count })
    }
}

/// Made-up samples. Cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct Fake(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shape: Vec<usize>,
    size: usize,
    class_names: Vec<String>,
    count: usize,
    /// How many samples differ; sample `i` is sample `i % distinct`.
    distinct: usize,
    first: u64,
    bytes: Vec<u8>,
    description: String,
}

impl Fake {
    /// How many bytes are kept at most.
    pub(crate) const MAX_BYTES: usize = 512 << 20;

    /// How many values a sample has at most.
    pub(crate) const MAX_VALUES: usize = 1 << 24;

    /// The training part.
    pub(crate) fn train(spec: &FakeSpec, seed: u64) -> Self {
        Self::part(spec, seed, 0, spec.count, Self::MAX_BYTES)
    }

    /// The test part: the same classes, other samples.
    pub(crate) fn test(spec: &FakeSpec, seed: u64) -> Self {
        Self::part(spec, seed, spec.count as u64, spec.test_count(), Self::MAX_BYTES)
    }

    /// Bytes that both parts of a set take.
    pub(crate) fn bytes(spec: &FakeSpec) -> u64 {
        let size: usize = spec.shape.iter().product();
        let part = |count: usize| (size * Self::distinct_of(count, size, Self::MAX_BYTES)) as u64;
        part(spec.count) + part(spec.test_count())
    }

    fn distinct_of(count: usize, size: usize, max_bytes: usize) -> usize {
        count.min((max_bytes / size).max(1))
    }

    fn part(spec: &FakeSpec, seed: u64, first: u64, count: usize, max_bytes: usize) -> Self {
        let size: usize = spec.shape.iter().product();
        let distinct = Self::distinct_of(count, size, max_bytes);
        let bytes = Painter::new(&spec.shape, spec.classes, seed).paint(first, distinct, size);
        Self(Arc::new(Inner {
            shape: spec.shape.clone(),
            size,
            class_names: (0..spec.classes).map(|c| c.to_string()).collect(),
            count,
            distinct,
            first,
            bytes,
            description: format!("fake 1 {spec} seed {seed} first {first} count {count}"),
        }))
    }
}

impl Labelled for Fake {
    fn len(&self) -> usize {
        self.0.count
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn class_names(&self) -> &[String] {
        &self.0.class_names
    }

    #[inline]
    fn label(&self, index: usize) -> u32 {
        let set = &*self.0;
        assert!(index < set.count, "index {index} of {} samples", set.count);
        class_of(set.first + (index % set.distinct) as u64, set.class_names.len()) as u32
    }

    /// Of the description: the content follows from it.
    fn fingerprint(&self) -> String {
        fingerprint_of([self.0.description.as_bytes()])
    }
}

impl Samples for Fake {
    #[inline]
    fn features(&self, index: usize) -> Features<'_> {
        let set = &*self.0;
        assert!(index < set.count, "index {index} of {} samples", set.count);
        let at = index % set.distinct * set.size;
        Features::pixels(&set.bytes[at..at + set.size])
    }
}

/// Classes take turns, so that they are balanced whatever the count.
fn class_of(sample: u64, classes: usize) -> usize {
    (sample % classes as u64) as usize
}

/// Turns random numbers into samples.
struct Painter {
    seed: u64,
    classes: usize,
    cells: usize,
    /// The cell of each value of a sample.
    cell_of: Vec<u32>,
}

impl Painter {
    fn new(shape: &[usize], classes: usize, seed: u64) -> Self {
        // The first two sizes are rows and columns, what follows are channels; a vector is one row.
        let (rows, columns, channels) = match shape {
            [n] => (1, *n, 1),
            [rows, columns, rest @ ..] => (*rows, *columns, rest.iter().product()),
            [] => (1, 1, 1),
        };
        let across = columns.min(if rows == 1 { CELLS * CELLS } else { CELLS });
        let down = rows.min(CELLS);
        let mut cell_of = Vec::with_capacity(rows * columns * channels);
        for row in 0..rows {
            for column in 0..columns {
                let cell = (row * down / rows) * across + column * across / columns;
                cell_of.extend((0..channels).map(|channel| (cell * channels + channel) as u32));
            }
        }
        Self { seed, classes, cells: down * across * channels, cell_of }
    }

    /// `count` samples from `first` on. Every value is a function of its sample, so the threads share nothing.
    fn paint(&self, first: u64, count: usize, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; count * size];
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(1 + bytes.len() / PER_THREAD);
        let share = count.div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            for (part, bytes) in bytes.chunks_mut(share * size).enumerate() {
                scope.spawn(move || self.paint_part(first + (part * share) as u64, bytes, size));
            }
        });
        bytes
    }

    fn paint_part(&self, first: u64, bytes: &mut [u8], size: usize) {
        let mut base = vec![0; self.cells];
        for (index, sample) in (first..).zip(bytes.chunks_exact_mut(size)) {
            self.blend(index, &mut base);
            let noise = Stream::new(self.seed, Use::Data, NOISE, index);
            for (block, (values, cells)) in (0..).zip(sample.chunks_mut(8).zip(self.cell_of.chunks(8))) {
                let random = noise.block(block);
                for (k, (value, &cell)) in values.iter_mut().zip(cells).enumerate() {
                    // The sum of two random bytes: a triangle around 255, halved to ±127.
                    let bits = random[k / 2] >> (16 * (k % 2));
                    let triangle = (bits & 0xFF) as i32 + (bits >> 8 & 0xFF) as i32 - 255;
                    *value = (base[cell as usize] + triangle / 2).clamp(0, 255) as u8;
                }
            }
        }
    }

    /// The pattern of the sample's class with some of another class's.
    fn blend(&self, index: u64, base: &mut [i32]) {
        let class = class_of(index, self.classes);
        let random = Stream::new(self.seed, Use::Data, BLEND, index).block(0);
        let other = random[0] as usize % self.classes;
        let weight = (random[1] % 103) as i32; // of 256: up to 40 %
        let pattern = |class: usize| Stream::new(self.seed, Use::Data, PATTERN, class as u64);
        let (own, foreign) = (pattern(class), pattern(other));
        for (block, cells) in base.chunks_mut(4).enumerate() {
            let (a, b) = (own.block(block as u64), foreign.block(block as u64));
            for (k, cell) in cells.iter_mut().enumerate() {
                let level = |bits: u32| 64 + (bits >> 25) as i32; // 64…191: noise clips little
                *cell = (level(a[k]) * (256 - weight) + level(b[k]) * weight) >> 8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_limit_samples_repeat_with_their_labels() {
        let spec: FakeSpec = "fake:8x8:3:1000000000000".parse().unwrap();
        let set = Fake::part(&spec, 1, 5, spec.count, 64 * 10);
        assert_eq!((set.len(), set.0.distinct, set.0.bytes.len()), (1_000_000_000_000, 10, 640));
        for i in [0, 1, 9] {
            assert_eq!(set.features(i), set.features(i + 10_000_000));
            assert_eq!(set.label(i), set.label(i + 10_000_000));
            assert_eq!(set.label(i), (5 + i as u32) % 3);
        }
    }
}

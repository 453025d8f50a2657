//! What a kernel costs on one host: the time that was measured for its kind and shape, or what kernels of the same kind, else of the same class,
//! were measured to make of the host's speed.
//!
//! A measured kernel is compared with its *bound*: the time in which the host's product speed would do its operations, or its copy speed move its
//! bytes, whichever is longer. Between measured shapes it is the ratio to the bound that is interpolated, by how far sizes are apart in logarithms, since
//! it changes slowly where times change by orders of magnitude.

use super::shape::{KernelShape, base};
use std::collections::BTreeMap;

/// Measured shapes that are taken into account, the nearest ones.
const NEAREST: usize = 3;

/// What was measured of one kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelTime {
    /// Floating-point operations by the definition.
    pub flops: f64,
    /// Bytes read and written by the definition.
    pub bytes: f64,
    /// Seconds on one core while the others are idle.
    pub alone: f64,
    /// Seconds on one core while every other core does the same for itself.
    pub crowded: f64,
    /// Seconds on all cores together.
    pub together: f64,
}

impl KernelTime {
    /// As it stands in a cluster file.
    pub fn figures(&self) -> [f64; 5] {
        [self.flops, self.bytes, self.alone, self.crowded, self.together]
    }

    /// Of the figures in a cluster file.
    pub fn of(figures: [f64; 5]) -> Self {
        let [flops, bytes, alone, crowded, together] = figures;
        Self { flops, bytes, alone, crowded, together }
    }
}

/// How a rank computes: what its kernels' time depends on beside their shapes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Crowd {
    /// Threads of the rank.
    pub threads: usize,
    /// Threads of all ranks of its host.
    pub all: usize,
    /// Cores of the host.
    pub cores: usize,
}

impl Crowd {
    /// The time of a kernel of which these were measured, in this crowd.
    fn seconds(&self, time: &KernelTime) -> f64 {
        let others = (self.cores - 1).max(1) as f64;
        let share = |n: usize| (n.min(self.cores) - 1) as f64 / others;
        // Threads of a rank make it shorter, those of other ranks longer; cores that are shared are shared in turns.
        let team = time.alone + (time.together - time.alone) * share(self.threads);
        let strangers = self.all.saturating_sub(self.threads) + 1;
        let slower = (time.crowded / time.alone).max(1.0);
        let turns = (self.all as f64 / self.cores as f64).max(1.0);
        team * (1.0 + (slower - 1.0) * share(strangers)) * turns
    }
}

/// The kernels that were measured on one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KernelCosts {
    measured: BTreeMap<KernelShape, KernelTime>,
    /// Operations and bytes per second of one core: the bound.
    flops: f64,
    memory: f64,
}

impl KernelCosts {
    /// Of a host's product and copy speed (one core alone) and the kernels that were measured there, by name.
    pub(crate) fn new<'a>(
        flops: f64,
        memory: f64,
        kernels: impl Iterator<Item = (&'a String, &'a [f64; 5])>,
    ) -> Result<Self, String> {
        let measured = kernels.map(|(name, &figures)| {
            let time = KernelTime::of(figures);
            let parts = [time.bytes, time.alone, time.crowded, time.together];
            let wrong = parts.iter().any(|v| !v.is_finite() || *v <= 0.0) || !time.flops.is_finite() || time.flops < 0.0;
            match wrong {
                true => Err(format!("kernel {name:?}: its figures are {figures:?}; give operations, bytes and three times, none of them negative")),
                false => Ok((KernelShape::parse(name)?, time)),
            }
        });
        Ok(Self { measured: measured.collect::<Result<_, _>>()?, flops, memory })
    }

    /// Whether anything was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.measured.is_empty()
    }

    fn bound(&self, flops: f64, bytes: f64) -> f64 {
        (flops / self.flops).max(bytes / self.memory)
    }

    /// Seconds of a kernel that does so many operations and moves so many bytes, in a crowd.
    pub(crate) fn seconds(&self, shape: &KernelShape, flops: f64, bytes: f64, crowd: Crowd) -> f64 {
        if let Some(time) = self.measured.get(shape) {
            return crowd.seconds(time);
        }
        let bound = self.bound(flops, bytes);
        let mut near: Vec<(f64, f64)> = self.of(|other| other.kind == shape.kind, shape, crowd);
        if near.is_empty() {
            near = self.of(|other| base(other.kind) == base(shape.kind), shape, crowd);
        }
        if near.is_empty() {
            // A class's efficiency: sizes of different kinds are not compared.
            near = self.of(|other| other.class() == shape.class(), shape, crowd);
            near.iter_mut().for_each(|(distance, _)| *distance = 1.0);
        } else {
            near.sort_by(|a, b| a.0.total_cmp(&b.0));
            near.truncate(NEAREST);
        }
        if near.is_empty() {
            let turns = (crowd.all as f64 / crowd.cores as f64).max(1.0);
            return bound * shape.class().usual() * turns / crowd.threads.min(crowd.cores) as f64;
        }
        let weights: f64 = near.iter().map(|(distance, _)| 1.0 / (distance + 0.01)).sum();
        let ratio: f64 = near.iter().map(|(distance, ratio)| ratio.ln() / (distance + 0.01)).sum();
        bound * (ratio / weights).exp()
    }

    /// Distance to a shape, and time over bound, of measured kernels.
    fn of(&self, which: impl Fn(&KernelShape) -> bool, shape: &KernelShape, crowd: Crowd) -> Vec<(f64, f64)> {
        let some = self.measured.iter().filter(|(other, _)| which(other));
        some.map(|(other, time)| {
            let bound = self.bound(time.flops, time.bytes).max(1e-12);
            (shape.distance(other), (crowd.seconds(time) / bound).max(1e-9))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_base::kernel::{DenseDims, Kernel};

    fn costs(entries: &[(&str, [f64; 5])]) -> KernelCosts {
        let named: Vec<(String, [f64; 5])> = entries.iter().map(|(n, f)| (n.to_string(), *f)).collect();
        KernelCosts::new(100.0, 10.0, named.iter().map(|(n, f)| (n, f))).unwrap()
    }

    const ALONE: Crowd = Crowd { threads: 1, all: 1, cores: 2 };

    #[test]
    fn what_was_measured_costs_what_it_did() {
        let costs = costs(&[("dense-forward 4 5 10", [400.0, 40.0, 8.0, 10.0, 5.0])]);
        let dims = DenseDims { rows: 4, outputs: 5, inputs: 10 };
        let shape = KernelShape::of(&Kernel::DenseForward { dims, bias: true, activation: None });
        assert_eq!(costs.seconds(&shape, 400.0, 40.0, ALONE), 8.0);
        assert_eq!(costs.seconds(&shape, 400.0, 40.0, Crowd { all: 2, ..ALONE }), 10.0);
        assert_eq!(costs.seconds(&shape, 400.0, 40.0, Crowd { threads: 2, all: 2, cores: 2 }), 5.0);
        // Four threads take turns on two cores.
        assert_eq!(costs.seconds(&shape, 400.0, 40.0, Crowd { all: 4, ..ALONE }), 20.0);
    }

    #[test]
    fn between_shapes_it_is_the_ratio_to_the_bound_that_is_interpolated() {
        // Both take twice their bound (400 / 100 and 4000 / 100), so that what lies between does too.
        let costs = costs(&[
            ("dense-forward 4 5 10", [400.0, 1.0, 8.0, 8.0, 4.0]),
            ("dense-forward 4 5 100", [4000.0, 1.0, 80.0, 80.0, 40.0]),
        ]);
        let shape = KernelShape::parse("dense-forward 4 5 30").unwrap();
        assert!((costs.seconds(&shape, 1200.0, 1.0, ALONE) - 24.0).abs() < 1e-9);
        // Another kind of the class: its efficiency.
        let other = KernelShape::parse("dense-backward-data 9 9 9").unwrap();
        assert!((costs.seconds(&other, 500.0, 1.0, ALONE) - 10.0).abs() < 1e-9);
        // No convolution was measured: twice the bound is usual.
        let conv = KernelShape::parse("conv-forward 1 8 8 3 4 3 3 1 1").unwrap();
        assert_eq!(costs.seconds(&conv, 1000.0, 1.0, ALONE), 20.0);
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        let named = [("copy 5".to_string(), [0.0, 1.0, -2.0, 1.0, 1.0])];
        let error = KernelCosts::new(1.0, 1.0, named.iter().map(|(n, f)| (n, f))).unwrap_err();
        assert!(error.contains("copy 5"), "{error}");
    }
}

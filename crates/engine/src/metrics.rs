//! What a step counted, over all ranks.

use paceline_base::metric::{Metric, Reduction, SAMPLES};
use paceline_base::staging::values;
use paceline_base::units::DType;
use paceline_base::{Error, Result, Staging};
use std::sync::Arc;

/// As many as a loss may have; so many need no memory of their own.
const MOST: usize = 16;

/// The metrics of one step, by name: those of [`Schedule::metrics`](paceline_plan::Schedule::metrics).
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    named: Arc<[Metric]>,
    sums: [f64; MOST],
}

impl Metrics {
    /// All zero.
    pub(crate) fn new(named: Arc<[Metric]>) -> Result<Self> {
        if named.len() > MOST {
            return Err(Error::internal(format!("a loss with {} metrics; at most {MOST} are known", named.len())));
        }
        Ok(Self { named, sums: [0.0; MOST] })
    }

    /// The same metrics with other sums, as they lie in host memory.
    pub(crate) fn with_sums(&self, staging: &Staging) -> Self {
        let mut sums = [0.0; MOST];
        let to = &mut sums[..self.named.len()];
        match staging.dtype() {
            DType::F32 => to.iter_mut().zip(values::<f32>(staging)).for_each(|(to, &from)| *to = f64::from(from)),
            DType::F64 => to.copy_from_slice(&values::<f64>(staging)[..self.named.len()]),
            DType::U8 | DType::U32 | DType::U64 => unreachable!("metrics are floats"),
        }
        Self { named: self.named.clone(), sums }
    }

    /// The sums, in the order of the schedule.
    pub fn sums(&self) -> &[f64] {
        &self.sums[..self.named.len()]
    }

    /// The sum over the samples.
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.named.iter().position(|metric| metric.name == name).map(|at| self.sums[at])
    }

    /// What the sum stands for; NaN for the mean of no samples.
    pub fn value(&self, name: &str) -> Option<f64> {
        let at = self.named.iter().position(|metric| metric.name == name)?;
        match self.named[at].reduction {
            Reduction::Sum => Some(self.sums[at]),
            Reduction::Mean => Some(self.sums[at] / self.sum(SAMPLES)?),
        }
    }
}

//! Initial parameter values: functions of (seed, parameter, global coordinate), so that they are the same under any plan.

use paceline_base::op::Init;
use paceline_base::random::{Stream, Use};
use paceline_base::region::{Region, Strided};
use paceline_graph::Param;

/// The values of `region` of a parameter, row-major.
pub(crate) fn initial_values(param: &Param, region: &Region, seed: u64) -> Vec<f64> {
    let stream = Stream::new(seed, Use::Init, param.id, 0);
    let (fan_in, fan_out) = (param.spec.fans.0 as f64, param.spec.fans.1 as f64);
    let value = |coordinate: u64| match param.spec.init {
        Init::Zeros => 0.0,
        Init::Ones => 1.0,
        Init::He => stream.normal(coordinate) * (2.0 / fan_in).sqrt(),
        Init::HeUniform => (2.0 * stream.uniform(coordinate) - 1.0) * (6.0 / fan_in).sqrt(),
        Init::Normal => stream.normal(coordinate),
        Init::GlorotNormal => stream.normal(coordinate) * (2.0 / (fan_in + fan_out)).sqrt(),
        Init::Glorot => (2.0 * stream.uniform(coordinate) - 1.0) * (6.0 / (fan_in + fan_out)).sqrt(),
    };
    let mut values = vec![0.0; region.len()];
    Strided::between(region, &Region::whole(&param.spec.shape), region).for_each(|from, to, run| {
        for i in 0..run {
            values[to + i] = value((from + i) as u64);
        }
    });
    values
}

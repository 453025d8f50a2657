//! The plots of speed studies: one per parameter with points, mean curve and both fits; and the noise by order.

use super::axis::Scale;
use super::chart::{Chart, Curve, Stroke};
use crate::format;
use crate::study::{Effect, Parameter, Series, relative_to_cell};

/// Series that differ by more than this are drawn by powers of ten: on a linear axis the slow one would be a flat line.
const LOG_FROM: f64 = 3.0;
/// Points of a drawn fit.
const STEPS: usize = 60;

/// The plots for these series.
pub(crate) fn charts(series: &[Series]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Parameter::ALL.iter().map(|&parameter| by_parameter(series, parameter)).collect();
    charts.push(by_order(series));
    charts
}

fn by_parameter(series: &[Series], parameter: Parameter) -> Chart {
    let rates = || series.iter().flat_map(|s| s.under(s.grid).map(|m| m.images_per_s())).filter(|r| r.is_finite());
    let low = rates().fold(f64::INFINITY, f64::min);
    let high = rates().fold(0.0, f64::max);
    let means = || series.iter().map(|s| s.images_per_s).filter(|m| m.is_finite());
    let apart = means().fold(0.0, f64::max) / means().fold(f64::INFINITY, f64::min);
    let log = low > 0.0 && apart > LOG_FROM;
    let (mut clouds, mut fits, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for (number, s) in series.iter().enumerate() {
        let Some(effect) = s.effect(parameter) else { continue };
        let curve =
            |what, stroke, silent, points| Curve { run: number, name: s.name.clone(), what, stroke, silent, points };
        let points = s.under(s.grid).map(|m| (parameter.of(m) as f64, m.images_per_s())).collect();
        clouds.push(curve("measured", Stroke::Points, true, points));
        let within = |y: f64| if (low * 0.9..=high * 1.1).contains(&y) { y } else { f64::NAN };
        if let Some(line) = effect.linear {
            fits.push(curve("line", Stroke::Dashed, true, drawn(effect, |x| within(line.at(x)))));
        }
        if let Some(parabola) = effect.quadratic {
            fits.push(curve("parabola", Stroke::Dotted, true, drawn(effect, |x| within(parabola.at(x)))));
        }
        let means = effect.levels.iter().map(|level| (level.value as f64, level.mean)).collect();
        lines.push(curve("mean", Stroke::Solid, false, means));
    }
    let (title, x_name): (&'static str, fn(f64) -> String) = match parameter {
        Parameter::BatchSize => ("Images per second by batch size", |x| format!("batch size {x}")),
        Parameter::BatchNumber => ("Images per second by number of batches", |x| format!("{x} batches")),
        Parameter::DataSize => ("Images per second by data-set size", |x| format!("{x} images")),
        Parameter::Repetition => ("Images per second by repetition", |x| format!("repetition {x}")),
    };
    clouds.extend(fits);
    clouds.extend(lines);
    Chart {
        title,
        x_title: parameter.name().into(),
        x_scale: Scale::Whole,
        y_scale: if log { Scale::Log } else { Scale::Linear },
        percent: false,
        room: 0.04,
        x_name,
        y_name: format::rate,
        curves: clouds,
    }
}

fn drawn(effect: &Effect, value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (effect.levels.first(), effect.levels.last()) else { return Vec::new() };
    let (from, to) = (first.value as f64, last.value as f64);
    (0..=STEPS).map(|i| from + (to - from) * i as f64 / STEPS as f64).map(|x| (x, value(x))).collect()
}

/// Every measurement relative to the mean of its cell, in the order of measuring: noise, drift, bad moments.
fn by_order(series: &[Series]) -> Chart {
    let cloud = |(run, s): (usize, &Series)| Curve {
        run,
        name: s.name.clone(),
        what: "measured",
        stroke: Stroke::Points,
        silent: true,
        points: relative_to_cell(&[s]),
    };
    Chart {
        title: "Noise: each measurement relative to the mean of its cell, in the order of measuring",
        x_title: "order of measuring".into(),
        x_scale: Scale::Tight,
        y_scale: Scale::Linear,
        percent: false,
        room: 0.0,
        x_name: |x| format!("measurement {x}"),
        y_name: |y| format!("{y:.2}"),
        curves: series.iter().enumerate().map(cloud).collect(),
    }
}

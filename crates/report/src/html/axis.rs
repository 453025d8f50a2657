//! Axes: from data to a range with round ticks.
//!
//! Ticks are multiples of 1, 2 or 5 times a power of ten (Heckbert, "Nice numbers for graph labels", Graphics Gems, 1990).

/// How an axis maps values to lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Evenly, with the range widened to ticks.
    Linear,
    /// Evenly, from the first to the last value.
    Tight,
    /// As `Tight`, with ticks at whole numbers only.
    Whole,
    /// By powers of ten.
    Log,
}

/// A range with its ticks, and how values map to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub from: f64,
    pub to: f64,
    pub ticks: Vec<f64>,
    log: bool,
    decimals: usize,
}

impl Axis {
    /// The axis for these values with about `count` ticks; values that are not finite are left out. `limits` are never
    /// passed by widening.
    pub(crate) fn new(
        values: impl Iterator<Item = f64>,
        scale: Scale,
        count: usize,
        limits: (f64, f64),
    ) -> Option<Axis> {
        let usable = values.filter(|v| v.is_finite() && (scale != Scale::Log || *v > 0.0));
        let (low, high) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        if low > high {
            return None;
        }
        Some(match scale {
            Scale::Log => Self::log(low, high),
            _ => Self::linear(low, high, scale, count, limits),
        })
    }

    fn linear(low: f64, high: f64, scale: Scale, count: usize, limits: (f64, f64)) -> Axis {
        let (mut from, mut to) = (low, high);
        if to - from <= f64::EPSILON * to.abs().max(from.abs()) {
            // One value only: make room around it.
            let room = if scale == Scale::Whole { 1.0 } else { (low.abs() * 0.1).max(1e-3) };
            (from, to) = ((low - room).max(limits.0), (high + room).min(limits.1));
        }
        let mut step = nice_step((to - from) / count.max(1) as f64);
        if scale == Scale::Whole {
            step = step.max(1.0);
        }
        if scale == Scale::Linear {
            from = ((from / step + 1e-9).floor() * step).max(limits.0);
            to = ((to / step - 1e-9).ceil() * step).min(limits.1);
        }
        let (first, last) = ((from / step - 1e-9).ceil() as i64, (to / step + 1e-9).floor() as i64);
        let ticks = (first..=last).map(|i| i as f64 * step).collect();
        let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
        Axis { from, to, ticks, log: false, decimals }
    }

    fn log(low: f64, high: f64) -> Axis {
        let (mut from, mut to) = (low, high);
        if to / from < 2.0 {
            (from, to) = (from / 1.5, to * 1.5);
        }
        let decades = (to / from).log10();
        let digits: &[f64] = match decades {
            d if d < 1.5 => &[1.0, 2.0, 3.0, 5.0, 7.0],
            d if d < 3.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let stride = (decades / 8.0).ceil().max(1.0) as usize;
        let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
        let ticks = (first..=last)
            .step_by(stride)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
            .filter(|tick| (from * 0.999..=to * 1.001).contains(tick))
            .collect();
        Axis { from, to, ticks, log: true, decimals: 0 }
    }

    /// Where a value lies, 0 to 1; none for what cannot be drawn.
    pub(crate) fn position(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.log && value <= 0.0) {
            return None;
        }
        Some(if self.log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        })
    }

    /// The text at a tick.
    pub(crate) fn label(&self, tick: f64) -> String {
        let size = tick.abs();
        if size != 0.0 && !(1e-4..1e7).contains(&size) {
            return format!("{tick:.0e}");
        }
        if self.log {
            let decimals = (-(size.log10() + 1e-9).floor()).max(0.0) as usize;
            return format!("{tick:.decimals$}");
        }
        if size >= 10_000.0 && self.decimals == 0 {
            // 20 000 takes more room than it tells.
            let (unit, name) = if size >= 1e6 { (1e6, "M") } else { (1e3, "k") };
            let scaled = tick / unit;
            return if (scaled - scaled.round()).abs() < 1e-9 {
                format!("{scaled:.0} {name}")
            } else {
                format!("{scaled:.1} {name}")
            };
        }
        format!("{tick:.*}", self.decimals)
    }

    /// The text at a tick of a share, in percent.
    pub(crate) fn percent(&self, tick: f64) -> String {
        format!("{:.*} %", self.decimals.saturating_sub(2), tick * 100.0)
    }
}

/// The round step at or above `rough`.
fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let digit = rough / power;
    let nice = [1.0, 2.0, 5.0].into_iter().find(|n| digit <= n * 1.000_001).unwrap_or(10.0);
    nice * power
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

    #[track_caller]
    fn check(values: &[f64], scale: Scale, limits: (f64, f64), expected: &str) {
        let axis = Axis::new(values.iter().copied(), scale, 5, limits).unwrap();
        let labels: Vec<String> = axis.ticks.iter().map(|&tick| axis.label(tick)).collect();
        assert_eq!(labels.join(" "), expected);
        for &value in values {
            if let Some(at) = axis.position(value) {
                assert!((-1e-9..=1.0 + 1e-9).contains(&at), "{value} lies at {at}");
            }
        }
    }

    #[test]
    fn ticks_are_round() {
        check(&[0.13, 0.87], Scale::Linear, FREE, "0.0 0.2 0.4 0.6 0.8 1.0");
        check(&[0.61, 0.97], Scale::Linear, (0.0, 1.0), "0.6 0.7 0.8 0.9 1.0");
        check(&[1.0, 25.0], Scale::Whole, FREE, "5 10 15 20 25");
        check(&[1.0, 3.0], Scale::Whole, FREE, "1 2 3");
        check(&[1.0], Scale::Whole, FREE, "0 1 2");
        check(&[0.002, 2.3], Scale::Log, FREE, "0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2");
        check(&[0.0, 46_900.0], Scale::Tight, FREE, "0 10 k 20 k 30 k 40 k");
        check(&[0.5, f64::NAN, f64::INFINITY], Scale::Linear, FREE, "0.44 0.46 0.48 0.50 0.52 0.54 0.56");
    }

    #[test]
    fn nothing_to_draw_has_no_axis() {
        assert_eq!(Axis::new([f64::NAN].into_iter(), Scale::Linear, 5, FREE), None);
        assert_eq!(Axis::new([-1.0, 0.0].into_iter(), Scale::Log, 5, FREE), None);
        assert_eq!(Axis::new(std::iter::empty(), Scale::Tight, 5, FREE), None);
    }

    #[test]
    fn strange_values_end() {
        for value in [0.0, 1.0, 1e-300, 1e300, -5.0] {
            let axis = Axis::new([value].into_iter(), Scale::Linear, 5, FREE).unwrap();
            assert!(axis.from < axis.to && axis.ticks.len() < 30, "{value}: {axis:?}");
        }
    }
}

//! Numbers as people write them. What needs a unit is in `paceline_base::text`; here are the figures of tables.

use paceline_base::text;
use paceline_record::{PartialEpoch, Summary};

/// The sign for "not known".
pub(crate) const NONE: &str = "–";

/// `0.88431` → `"88.4 %"`.
pub(crate) fn percent(value: f64) -> String {
    if value.is_finite() { format!("{:.1} %", value * 100.0) } else { NONE.into() }
}

/// An accuracy in percent without the sign, for columns that have it in their title.
pub(crate) fn accuracy(value: Option<f64>) -> String {
    value.filter(|v| v.is_finite()).map_or_else(|| NONE.into(), |v| format!("{:.2}", v * 100.0))
}

/// A share of the time: whole percent, and something always shows as something.
pub(crate) fn share(value: f64) -> String {
    let percent = value * 100.0;
    match percent {
        p if !p.is_finite() => NONE.into(),
        p if p <= 0.0 => "0".into(),
        p if p < 0.95 => "<1".into(),
        p => format!("{p:.0}"),
    }
}

/// A loss, to four figures; what is not finite is said, since it is the news.
pub(crate) fn loss(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "NaN".into(),
        _ if value.is_infinite() => if value > 0.0 { "∞" } else { "-∞" }.into(),
        0.0 => "0".into(),
        x if !(1e-3..1e5).contains(&x) => format!("{value:.2e}"),
        x if x < 1.0 => format!("{value:.4}"),
        x if x < 100.0 => format!("{value:.3}"),
        _ => format!("{value:.1}"),
    }
}

/// An optional loss, or an absolute error, which has as little of a unit.
pub(crate) fn maybe_loss(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.into(), loss)
}

/// Seconds as a plain number, for a column whose title has the unit.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        v if !v.is_finite() => NONE.into(),
        v if v >= 1000.0 => count(v.round() as u64),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A throughput, in as many digits as can be meant.
pub(crate) fn rate(value: f64) -> String {
    match value {
        v if !v.is_finite() || v < 0.0 => NONE.into(),
        v if v >= 1e7 => paceline_base::text::si(v),
        v if v >= 100.0 => count(v.round() as u64),
        v => format!("{v:.1}"),
    }
}

/// `60000` → `"60,000"`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// "accuracy 31.2 %, loss 1.0523" or "loss 1.0523, absolute error 0.8310": those that are known; none if none is.
pub(crate) fn result(accuracy: Option<f64>, loss: Option<f64>, absolute_error: Option<f64>) -> Option<String> {
    let parts = [
        accuracy.filter(|a| !a.is_nan()).map(|a| format!("accuracy {}", percent(a))),
        loss.map(|l| format!("loss {}", self::loss(l))),
        absolute_error.map(|e| format!("absolute error {}", self::loss(e))),
    ];
    let known: Vec<String> = parts.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// "accuracy 31.2 %, loss 1.0523 (5 of 12 steps of epoch 1)"
pub(crate) fn partial(partial: &PartialEpoch) -> String {
    let counted = |steps: u64| paceline_base::text::counted(steps as usize, "step");
    let steps = match partial.of_steps {
        0 => format!("{} of epoch {}", counted(partial.steps), partial.epoch),
        of => format!("{} of {} of epoch {}", partial.steps, counted(of), partial.epoch),
    };
    let reached = result(partial.train_accuracy, Some(partial.train_loss), partial.train_absolute_error);
    format!("{} ({steps})", reached.unwrap_or_default())
}

/// A name as it may be shown: it must not move the cursor of who reads it.
pub(crate) fn plain(text: &str) -> String {
    paceline_base::text::visible(text).into_owned()
}

/// "a", "a and b", "a, b and c".
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// What a step took, and what it was predicted to take, if both are known.
pub(crate) fn step_times(summary: &Summary) -> Option<(String, String)> {
    let times = summary.step_times.as_ref()?;
    Some((text::duration(times.measured_s?), text::duration(times.predicted_s)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!(
            [loss(0.33012), loss(2.51258), loss(123.45), loss(1e-7), loss(f64::NAN)].join(" "),
            "0.3301 2.513 123.5 1.00e-7 NaN"
        );
        assert_eq!([seconds(1.234), seconds(12.34), seconds(261.4), seconds(5241.0)].join(" "), "1.23 12.3 261 5,241");
        assert_eq!([rate(42.34), rate(60_000.4), rate(f64::NAN)].join(" "), "42.3 60,000 –");
        assert_eq!([share(0.0), share(0.005), share(0.256)].join(" "), "0 <1 26");
        assert_eq!(accuracy(Some(0.66111)), "66.11");
        assert_eq!((count(7), count(1_234_567)), ("7".into(), "1,234,567".into()));
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}

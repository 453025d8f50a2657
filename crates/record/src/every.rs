//! How often a step is recorded, decided from measurements as a pure function.
//!
//! A softmax regression does thousands of steps a second; recording each of them would cost more than it tells. The
//! interval is the smallest of 1, 2, 5, 10, 20, 50, … that keeps recording under 1 % of the time and 200 records a second.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use paceline_base::Error;
use serde::{Deserialize, Serialize};

/// The share of the time that recording may take.
const LARGEST_SHARE: f64 = 0.01;
/// Records per second beyond which nobody could look at them.
const LARGEST_RATE: f64 = 200.0;
/// Beyond this the measurement is not to be believed.
const LARGEST_INTERVAL: u64 = 1_000_000;

/// The setting `record.every`: `"auto"` or a number of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Raw", into = "Raw")]
pub enum Every {
    /// Chosen from the first measured steps.
    #[default]
    Auto,
    /// One record for so many steps.
    Steps(NonZeroU64),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Raw {
    Word(String),
    Number(u64),
}

impl From<Every> for Raw {
    fn from(every: Every) -> Raw {
        match every {
            Every::Auto => Raw::Word("auto".into()),
            Every::Steps(steps) => Raw::Number(steps.get()),
        }
    }
}

impl TryFrom<Raw> for Every {
    type Error = Error;

    fn try_from(raw: Raw) -> Result<Every, Error> {
        match raw {
            Raw::Word(word) => word.parse(),
            Raw::Number(number) => number.to_string().parse(),
        }
    }
}

impl FromStr for Every {
    type Err = Error;

    fn from_str(text: &str) -> Result<Every, Error> {
        if text == "auto" {
            return Ok(Every::Auto);
        }
        text.parse().map(Every::Steps).map_err(|_| {
            Error::user(format!(
                "record.every = {text:?} is neither \"auto\" nor a number of steps from 1; write one of these"
            ))
        })
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Every::Auto => f.write_str("auto"),
            Every::Steps(steps) => steps.fmt(f),
        }
    }
}

/// A chosen interval and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// One record for so many steps.
    pub every: u64,
    /// The reason in words.
    pub reason: String,
}

/// Chooses the interval. `records_per_step` is how many records each recorded step gives: one per rank.
///
/// ```
/// use paceline_record::choose_every;
/// assert_eq!(choose_every(0.1, 2e-6, 1).every, 1);
/// assert_eq!(choose_every(100e-6, 2e-6, 1).every, 50); // 10 000 steps a second
/// ```
pub fn choose_every(seconds_per_step: f64, seconds_per_record: f64, records_per_step: usize) -> Interval {
    if !(seconds_per_step.is_finite() && seconds_per_step > 0.0) {
        return Interval { every: 1, reason: "every step is recorded: the time of a step is not known yet".into() };
    }
    let records = records_per_step.max(1) as f64;
    let cost = if seconds_per_record.is_finite() { seconds_per_record.max(0.0) } else { 0.0 };
    let share = |every: u64| records * cost / (every as f64 * seconds_per_step);
    let rate = |every: u64| records / (every as f64 * seconds_per_step);
    let every = intervals()
        .find(|&every| (share(every) <= LARGEST_SHARE && rate(every) <= LARGEST_RATE) || every >= LARGEST_INTERVAL)
        .unwrap_or(LARGEST_INTERVAL);
    let what = if every == 1 { "every step is recorded".into() } else { format!("one record for {every} steps") };
    let reason = format!(
        "{what}: at {:.3} ms a step that is {:.1} records/s and {:.2} % of the time (limits {LARGEST_RATE} and {} %)",
        seconds_per_step * 1e3,
        rate(every),
        share(every) * 100.0,
        LARGEST_SHARE * 100.0,
    );
    Interval { every, reason }
}

/// 1, 2, 5, 10, 20, 50, …
fn intervals() -> impl Iterator<Item = u64> {
    (0..=6).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u64.pow(power)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn settings_read_and_write() {
        assert_eq!("auto".parse::<Every>().unwrap(), Every::Auto);
        assert_eq!("20".parse::<Every>().unwrap().to_string(), "20");
        assert!("0".parse::<Every>().unwrap_err().message().contains("record.every"));
        assert_eq!(serde_json::to_string(&Every::Auto).unwrap(), "\"auto\"");
        assert_eq!(serde_json::from_str::<Every>("5").unwrap().to_string(), "5");
        assert!(serde_json::from_str::<Every>("0").is_err());
    }

    #[test]
    fn strange_measurements_do_no_harm() {
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(choose_every(seconds, 1e-6, 1).every, 1);
        }
        assert_eq!(choose_every(0.1, f64::NAN, 0).every, 1);
        assert_eq!(choose_every(1e-300, 1.0, 64).every, LARGEST_INTERVAL);
    }

    proptest! {
        /// The limits are kept, and the next smaller interval would break one.
        #[test]
        fn smallest_interval_within_the_limits(step in 1e-5..1.0f64, record in 1e-8..1e-5f64, ranks in 1usize..9) {
            let every = choose_every(step, record, ranks).every;
            let fits = |n: u64| {
                let time = n as f64 * step;
                ranks as f64 * record / time <= 0.01 && ranks as f64 / time <= 200.0
            };
            prop_assert!(fits(every));
            if let Some(smaller) = intervals().take_while(|&n| n < every).last() {
                prop_assert!(!fits(smaller));
            }
        }
    }
}

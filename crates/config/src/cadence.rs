//! Settings with a small grammar of their own: how often to save, which core, what size, which samples to
//! validate on.

use crate::setting::{Setting, Wrong};
use paceline_data::Split;
use paceline_record::Every;
use std::fmt;
use std::time::Duration;
use toml::Value;

/// How often a checkpoint is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// At the end of every epoch.
    Epoch,
    /// Every so many steps, at least 1.
    Steps(u64),
    /// When this much time has passed, at the next step; whole milliseconds, more than 0.
    Time(Duration),
    /// Not at all.
    Never,
}

/// Units of time in milliseconds; `ms` before `s`, because it ends in it.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("min", 60_000), ("ms", 1), ("s", 1000)];

fn parse_time(text: &str) -> Option<Duration> {
    let (unit, millis) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?.trim_end();
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let millis = (number.parse::<f64>().ok()? * *millis as f64).round();
    // A hundred years: beyond it, the sum with a clock could overflow.
    (1.0..=3.2e12).contains(&millis).then(|| Duration::from_millis(millis as u64))
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cadence::Epoch => f.write_str("epoch"),
            Cadence::Never => f.write_str("never"),
            Cadence::Steps(steps) => write!(f, "{steps}"),
            Cadence::Time(time) => {
                let millis = time.as_millis() as u64;
                let fits =
                    |wanted: &&str| UNITS.iter().find(|(unit, size)| unit == wanted && millis.is_multiple_of(*size));
                let (unit, size) = ["h", "min", "s"].iter().find_map(fits).unwrap_or(&("ms", 1));
                write!(f, "{}{unit}", millis / size)
            }
        }
    }
}

impl Setting for Cadence {
    fn kind() -> String {
        "\"epoch\", \"never\", a number of steps (at least 1) or a time such as \"30s\", \"5min\" or \"1h\"".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::Integer(n) if *n > 0 => Ok(Cadence::Steps(*n as u64)),
            Value::Integer(_) => Err(Wrong::Range),
            Value::String(text) => match &text[..] {
                "epoch" => Ok(Cadence::Epoch),
                "never" => Ok(Cadence::Never),
                time => parse_time(time).map(Cadence::Time).ok_or_else(|| Wrong::Because("is not understood".into())),
            },
            _ => Err(Wrong::Type),
        }
    }
    fn write(&self) -> Option<Value> {
        match self {
            Cadence::Steps(steps) => steps.write(),
            word => Some(Value::String(word.to_string())),
        }
    }
}

/// A core of this machine's processor: `cpu:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCore(
    /// Its number, from 0.
    pub usize,
);

impl fmt::Display for CpuCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu:{}", self.0)
    }
}

impl Setting for CpuCore {
    fn kind() -> String {
        "\"cpu:N\" with the number of a core, such as \"cpu:0\"".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        let number = value.as_str().ok_or(Wrong::Type)?.strip_prefix("cpu:");
        let digits = number.filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        let core = digits.and_then(|n| n.parse().ok());
        core.map(CpuCore).ok_or_else(|| Wrong::Because("is not a device".into()))
    }
    fn write(&self) -> Option<Value> {
        Some(Value::String(self.to_string()))
    }
}

/// Width and height of an image: `96` or `128x96`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Width.
    pub width: usize,
    /// Height.
    pub height: usize,
}

/// Sides beyond this are slips of the finger.
const MAX_SIDE: usize = 16_384;

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.width == self.height {
            write!(f, "{}", self.width)
        } else {
            write!(f, "{}x{}", self.width, self.height)
        }
    }
}

impl Setting for Size {
    fn kind() -> String {
        format!("a side in pixels, such as 96, or \"WIDTHxHEIGHT\", such as \"128x96\" (at most {MAX_SIDE})")
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        let text = match value {
            Value::Integer(side) => side.to_string(),
            Value::String(text) => text.clone(),
            _ => return Err(Wrong::Type),
        };
        let (width, height) = text.split_once('x').unwrap_or((&text, &text));
        let side = |text: &str| text.parse::<usize>().map_err(|_| Wrong::Because("is not a size".into()));
        let size = Size { width: side(width)?, height: side(height)? };
        let fits = |side: usize| (1..=MAX_SIDE).contains(&side);
        if fits(size.width) && fits(size.height) { Ok(size) } else { Err(Wrong::Range) }
    }
    fn write(&self) -> Option<Value> {
        Some(if self.width == self.height {
            Value::Integer(self.width as i64)
        } else {
            Value::String(self.to_string())
        })
    }
}

impl Setting for Split {
    fn kind() -> String {
        "\"auto\", \"own\", \"test\", a path such as \"./val\" or a fraction".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::String(word) => match &word[..] {
                "test" => Ok(Split::Test),
                "own" => Ok(Split::Own),
                "auto" => Ok(Split::Auto),
                // A word alone is rather a mistyped one than a folder.
                path if path.contains(['/', '.']) && path.parse::<f64>().is_err() => Ok(Split::Path(path.into())),
                _ => Err(Wrong::Because("is not understood".into())),
            },
            number => f64::read(number).map(Split::Fraction),
        }
    }
    fn write(&self) -> Option<Value> {
        match self {
            Split::Fraction(fraction) => fraction.write(),
            word => Some(Value::String(word.to_string())),
        }
    }
}

impl Setting for Every {
    fn kind() -> String {
        "\"auto\" or a number of steps of at least 1".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::Integer(n) => {
                u64::try_from(*n).ok().and_then(std::num::NonZeroU64::new).map(Every::Steps).ok_or(Wrong::Range)
            }
            Value::String(word) if word == "auto" => Ok(Every::Auto),
            _ => Err(Wrong::Type),
        }
    }
    fn write(&self) -> Option<Value> {
        match self {
            Every::Auto => Some(Value::String("auto".into())),
            Every::Steps(steps) => steps.get().write(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let value = Value::String(text.into());
        let got = Cadence::read(&value).ok();
        assert_eq!(got.map(|c| c.to_string()).as_deref(), expected, "{text}");
        if let Some(cadence) = got {
            assert_eq!(Cadence::read(&cadence.write().unwrap()), Ok(cadence), "{text}");
        }
    }

    #[test]
    fn cadences_are_read_and_written() {
        check("epoch", Some("epoch"));
        check("never", Some("never"));
        check("30s", Some("30s"));
        check("90 s", Some("90s"));
        check("5min", Some("5min"));
        check("0.5h", Some("30min"));
        check("120min", Some("2h"));
        check("250ms", Some("250ms"));
        check("1.5s", Some("1500ms"));
        for wrong in ["0s", "-5s", "s", "5", "5 m", "infs", "nans", "1e99h", "epochs", "", "0.0001ms"] {
            check(wrong, None);
        }
        assert_eq!(Cadence::read(&Value::Integer(100)), Ok(Cadence::Steps(100)));
        assert_eq!(Cadence::read(&Value::Integer(0)), Err(Wrong::Range));
    }
}

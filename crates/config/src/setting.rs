//! What a key can hold: how a value is read from TOML, written back and named in messages.

use crate::elsewhere;
use paceline_base::text::did_you_mean;
use std::path::PathBuf;
use toml::Value;

/// Why a value does not fit; the caller adds the place, the key, the value and what would fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wrong {
    /// Another TOML type than the key takes.
    Type,
    /// Right type, outside the limits.
    Range,
    /// Anything else, as the end of the sentence "key = value …".
    Because(String),
}

/// A type that a key can have.
pub(super) trait Setting: Sized {
    /// In words, with article: "a whole number".
    fn kind() -> String;
    /// From TOML.
    fn read(value: &Value) -> Result<Self, Wrong>;
    /// To TOML; `None` leaves the key out.
    fn write(&self) -> Option<Value>;
}

/// What holds for a key beyond its type. Numbers within lists are checked one by one; words such as "auto" are not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    /// Nothing more.
    None,
    /// x ≥ bound
    AtLeast(f64),
    /// x > bound
    Above(f64),
    /// low ≤ x < high
    Below(f64, f64),
    /// low < x ≤ high
    UpTo(f64, f64),
    /// low < x < high
    Between(f64, f64),
    /// low ≤ x ≤ high
    From(f64, f64),
    /// A string with something in it.
    NotEmpty,
    /// A string that can be the name of a folder.
    FolderName,
}

impl Limit {
    /// " of at least 1": what follows the kind.
    pub(super) fn words(self) -> String {
        match self {
            Limit::None => String::new(),
            Limit::AtLeast(x) => format!(" of at least {x}"),
            Limit::Above(x) => format!(" above {x}"),
            Limit::Below(low, high) => format!(" from {low} to below {high}"),
            Limit::UpTo(low, high) => format!(" above {low}, at most {high}"),
            Limit::Between(low, high) => format!(" above {low} and below {high}"),
            Limit::From(low, high) => format!(" from {low} to {high}"),
            Limit::NotEmpty => ", not empty".into(),
            Limit::FolderName => " without /, \\ or control characters, not beginning with a dot".into(),
        }
    }

    fn holds(self, x: f64) -> bool {
        match self {
            Limit::None | Limit::NotEmpty | Limit::FolderName => true,
            Limit::AtLeast(bound) => x >= bound,
            Limit::Above(bound) => x > bound,
            Limit::Below(low, high) => low <= x && x < high,
            Limit::UpTo(low, high) => low < x && x <= high,
            Limit::Between(low, high) => low < x && x < high,
            Limit::From(low, high) => low <= x && x <= high,
        }
    }

    /// Checks a value that already has the right type.
    pub(super) fn check(self, value: &Value) -> Result<(), Wrong> {
        let fits = match value {
            Value::Integer(n) => self.holds(*n as f64),
            Value::Float(x) => self.holds(*x),
            Value::Array(items) => return items.iter().try_for_each(|item| self.check(item)),
            Value::String(text) => match self {
                Limit::NotEmpty => !text.is_empty(),
                Limit::FolderName => {
                    !text.starts_with('.')
                        && !text.contains(['/', '\\'])
                        && !text.contains(paceline_base::text::is_unseen)
                }
                _ => true,
            },
            _ => true,
        };
        if fits { Ok(()) } else { Err(Wrong::Range) }
    }
}

impl Setting for bool {
    fn kind() -> String {
        "true or false".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        value.as_bool().ok_or(Wrong::Type)
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Boolean(*self))
    }
}

impl Setting for u64 {
    fn kind() -> String {
        "a whole number".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        value.as_integer().ok_or(Wrong::Type)?.try_into().map_err(|_| Wrong::Range)
    }
    fn write(&self) -> Option<Value> {
        // TOML's integers end at 2⁶³ − 1, and so does what can be read; a larger number could only come from a program.
        Some(Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX)))
    }
}

impl Setting for usize {
    fn kind() -> String {
        u64::kind()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        u64::read(value)?.try_into().map_err(|_| Wrong::Range)
    }
    fn write(&self) -> Option<Value> {
        (*self as u64).write()
    }
}

impl Setting for f64 {
    fn kind() -> String {
        "a number".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        let x = match value {
            Value::Integer(n) => *n as f64,
            Value::Float(x) => *x,
            _ => return Err(Wrong::Type),
        };
        if x.is_finite() { Ok(x) } else { Err(Wrong::Because("is not finite".into())) }
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Float(*self))
    }
}

impl Setting for String {
    fn kind() -> String {
        "a string".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        value.as_str().map(Into::into).ok_or(Wrong::Type)
    }
    fn write(&self) -> Option<Value> {
        Some(Value::String(self.clone()))
    }
}

impl Setting for PathBuf {
    fn kind() -> String {
        "a path".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        String::read(value).map(Into::into)
    }
    fn write(&self) -> Option<Value> {
        Some(Value::String(self.to_string_lossy().into_owned()))
    }
}

impl Setting for Vec<usize> {
    fn kind() -> String {
        "a list of whole numbers".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        value.as_array().ok_or(Wrong::Type)?.iter().map(usize::read).collect()
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Array(self.iter().filter_map(usize::write).collect()))
    }
}

/// Names: one, several separated by commas, or a list (for names with a comma in them). The empty string is none.
impl Setting for Vec<String> {
    fn kind() -> String {
        "a name, names separated by commas, or a list of names".into()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        let name = |value: &Value| match value {
            Value::String(name) => Ok(name.trim().to_string()),
            Value::Integer(number) => Ok(number.to_string()), // `--set` reads a name of digits as a number
            _ => Err(Wrong::Type),
        };
        let names: Vec<String> = match value {
            Value::Array(items) => items.iter().map(name).collect::<Result<_, _>>()?,
            Value::String(text) if text.trim().is_empty() => Vec::new(),
            Value::String(text) => text.split(',').map(|name| name.trim().to_string()).collect(),
            _ => vec![name(value)?],
        };
        match names.iter().any(String::is_empty) {
            true => Err(Wrong::Because("has an empty name in it".into())),
            false => Ok(names),
        }
    }
    fn write(&self) -> Option<Value> {
        match &self[..] {
            [] => None,
            [name] if !name.contains(',') => name.write(),
            names => Some(Value::Array(names.iter().filter_map(String::write).collect())),
        }
    }
}

/// A key that may be absent. The empty string takes back what a file gave: `--set model.file=`.
impl<T: Setting> Setting for Option<T> {
    fn kind() -> String {
        T::kind()
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        if value.as_str() == Some("") { Ok(None) } else { T::read(value).map(Some) }
    }
    fn write(&self) -> Option<Value> {
        self.as_ref().and_then(T::write)
    }
}

/// A value, or `"auto"`: chosen when the run is resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auto<T> {
    /// To be chosen.
    #[default]
    Auto,
    /// Chosen by the user.
    Is(T),
}

impl<T: Copy> Auto<T> {
    /// The user's value, if there is one.
    pub fn chosen(self) -> Option<T> {
        match self {
            Auto::Auto => None,
            Auto::Is(value) => Some(value),
        }
    }
}

impl<T: Setting> Setting for Auto<T> {
    fn kind() -> String {
        format!("\"auto\" or {}", T::kind())
    }
    fn read(value: &Value) -> Result<Self, Wrong> {
        match value.as_str() {
            Some("auto") => Ok(Auto::Auto),
            _ => T::read(value).map(Auto::Is),
        }
    }
    fn write(&self) -> Option<Value> {
        match self {
            Auto::Auto => Some(Value::String("auto".into())),
            Auto::Is(value) => value.write(),
        }
    }
}

/// A choice among names.
pub(super) trait Named: Sized + Copy + PartialEq + 'static {
    /// Every choice with its name.
    fn all() -> Vec<(&'static str, Self)>;
}

/// Reads a choice by its name, or suggests the nearest.
pub(super) fn read_name<T: Named>(value: &Value) -> Result<T, Wrong> {
    let word = value.as_str().ok_or(Wrong::Type)?;
    let all = T::all();
    all.iter().find(|(name, _)| *name == word).map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        let hint = match elsewhere::value(word, &names) {
            Some(name) => format!("; did you mean {name}?"),
            None => did_you_mean(word, names),
        };
        Wrong::Because(format!("is not known{hint}"))
    })
}

/// The name of a choice.
pub(super) fn name_of<T: Named>(choice: T) -> &'static str {
    T::all().into_iter().find(|(_, other)| *other == choice).map_or("?", |(name, _)| name)
}

/// "one of a, b, c".
pub(super) fn one_of<T: Named>() -> String {
    format!("one of {}", T::all().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
}

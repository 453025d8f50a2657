//! Floating-point fields that survive JSON.
//!
//! JSON has no NaN or infinity, and a diverged run is exactly the one that will be looked at: they are written as the
//! strings `"NaN"`, `"inf"` and `"-inf"`. A `null` is read as NaN. For `#[serde(with = "number")]`.

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};
use std::fmt;

/// A number, or the word for what JSON has no number for.
pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        to.serialize_f64(*value)
    } else if value.is_nan() {
        to.serialize_str("NaN")
    } else if *value > 0.0 {
        to.serialize_str("inf")
    } else {
        to.serialize_str("-inf")
    }
}

/// What [`serialize`] wrote; `null` is NaN.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    from.deserialize_any(Number).map(|value| value.unwrap_or(f64::NAN))
}

/// For figures that may not be known: NaN is `null`.
pub mod known {
    use serde::{Deserializer, Serializer};

    /// As the module's, but NaN is `null`.
    pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        if value.is_nan() { to.serialize_none() } else { super::serialize(value, to) }
    }

    /// What [`serialize`] wrote.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        super::deserialize(from)
    }
}

/// The same for optional fields; here `null` is `None`.
pub mod option {
    use super::Number;
    use serde::{Deserializer, Serializer};

    /// As the module's, and `None` is `null`.
    pub fn serialize<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    /// What [`serialize`] wrote.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        from.deserialize_any(Number)
    }
}

struct Number;

impl<'de> Visitor<'de> for Number {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"NaN\", \"inf\", \"-inf\" or null")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(value as f64))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(value as f64))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text {
            "NaN" | "nan" => Ok(Some(f64::NAN)),
            "inf" | "Infinity" => Ok(Some(f64::INFINITY)),
            "-inf" | "-Infinity" => Ok(Some(f64::NEG_INFINITY)),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

#[cfg(test)]
mod tests {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Both {
        #[serde(with = "super")]
        plain: f64,
        #[serde(with = "super::option")]
        maybe: Option<f64>,
    }

    #[track_caller]
    fn check(plain: f64, maybe: Option<f64>, text: &str) {
        let written = serde_json::to_string(&Both { plain, maybe }).unwrap();
        assert_eq!(written, text);
        let read: Both = serde_json::from_str(text).unwrap();
        assert_eq!(read.plain.to_bits(), plain.to_bits());
        assert_eq!(read.maybe.map(f64::to_bits), maybe.map(f64::to_bits));
    }

    #[test]
    fn every_value_comes_back() {
        check(0.1, Some(1.0), r#"{"plain":0.1,"maybe":1.0}"#);
        check(f64::NAN, Some(f64::NAN), r#"{"plain":"NaN","maybe":"NaN"}"#);
        check(f64::INFINITY, Some(f64::NEG_INFINITY), r#"{"plain":"inf","maybe":"-inf"}"#);
        check(-0.0, None, r#"{"plain":-0.0,"maybe":null}"#);
    }

    #[test]
    fn a_word_is_refused() {
        assert!(serde_json::from_str::<Both>(r#"{"plain":"much","maybe":null}"#).is_err());
    }
}

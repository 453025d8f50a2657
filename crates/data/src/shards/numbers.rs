//! Images that are lists of numbers, and classes that are lists with one 1: how TFX and many scripts write them.
//!
//! Samples are bytes. Which range of numbers stands for black to white is that of the whole set: 0 to 1, -1 to 1, or 0 to 255. Numbers
//! between two bytes are rounded; those that were bytes once come out as they were.

use crate::example::{Example, Feature, FeatureKind};

/// The least and the greatest number seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub least: f64,
    pub most: f64,
}

impl Default for Range {
    fn default() -> Self {
        Self { least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl Range {
    /// Both ranges together.
    pub(super) fn join(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// The range of a list; none if a number in it is not finite.
    pub(crate) fn of(feature: &Feature<'_, '_>) -> Option<Self> {
        let mut range = Self::default();
        values(feature).all(|value| {
            range = range.join(Self { least: value, most: value });
            value.is_finite()
        });
        (range.least.is_finite() && range.most.is_finite()).then_some(range)
    }

    /// What the numbers mean; none if no meaning fits.
    pub(crate) fn scale(self) -> Option<Scale> {
        // A rounding error beyond the end is none of ours.
        const SLACK: f64 = 1e-4;
        match (self.least, self.most) {
            (least, most) if least > most => None, // nothing was seen
            (least, most) if least >= -SLACK && most <= 1.0 + SLACK => Some(Scale::Unit),
            (least, most) if least >= -1.0 - SLACK && most <= 1.0 + SLACK => Some(Scale::Signed),
            (least, most) if least >= -SLACK && most <= 255.0 + SLACK => Some(Scale::Bytes),
            _ => None,
        }
    }
}

/// Which numbers stand for black and white.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// 0 and 1.
    Unit,
    /// -1 and 1.
    Signed,
    /// 0 and 255.
    Bytes,
}

impl Scale {
    fn byte(self, value: f64) -> u8 {
        let value = match self {
            Self::Unit => value * 255.0,
            Self::Signed => (value + 1.0) * 127.5,
            Self::Bytes => value,
        };
        value.round() as u8 // saturates
    }

    /// Replaces `out` by the image in a feature.
    pub(crate) fn bytes(self, feature: &Feature<'_, '_>, out: &mut Vec<u8>) {
        out.clear();
        out.extend(values(feature).map(|value| self.byte(value)));
    }
}

fn values<'a, 'e>(feature: &Feature<'a, 'e>) -> impl Iterator<Item = f64> + use<'a, 'e> {
    feature.floats().map(f64::from).chain(feature.ints().map(|value| value as f64))
}

/// Whether a feature may be an image of numbers.
pub(super) fn is_list(feature: &Feature<'_, '_>) -> bool {
    matches!(feature.kind(), FeatureKind::Floats | FeatureKind::Ints) && feature.len() > 1
}

/// The class in a list with one 1 among zeros; none if it is no such list.
pub(crate) fn one_hot(example: &Example<'_>, name: &str) -> Option<u32> {
    let feature = example.feature(name)?;
    let mut place = None;
    for (number, value) in values(&feature).enumerate() {
        match value {
            0.0 => {}
            1.0 if place.is_none() => place = Some(number as u32),
            _ => return None,
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(least: f64, most: f64) -> Option<Scale> {
        Range { least, most }.scale()
    }

    #[test]
    fn the_range_of_a_set_says_what_its_numbers_mean() {
        assert_eq!(scale(0.0, 1.0), Some(Scale::Unit));
        assert_eq!(scale(0.2, 0.9), Some(Scale::Unit));
        assert_eq!(scale(-1.0, 1.000_01), Some(Scale::Signed));
        assert_eq!(scale(0.0, 1.5), Some(Scale::Bytes));
        assert_eq!(scale(0.0, 255.0), Some(Scale::Bytes));
        assert_eq!((scale(-2.1, 2.6), scale(0.0, 256.0), Range::default().scale()), (None, None, None));
    }

    #[test]
    fn bytes_come_back_from_every_scale() {
        for byte in 0..=255u8 {
            let value = f64::from(byte);
            assert_eq!(Scale::Bytes.byte(value), byte);
            assert_eq!(Scale::Unit.byte(f64::from((value / 255.0) as f32)), byte);
            assert_eq!(Scale::Signed.byte(f64::from((value / 127.5 - 1.0) as f32)), byte);
        }
    }
}

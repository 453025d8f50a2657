//! Numbers of 16 bits that keep the range of `f32` and 8 bits of its precision: half the bytes on the wire.

/// Rounds to the nearest, ties to even; what is no number stays none.
#[inline(always)]
fn bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits.wrapping_add(0x7fff + (bits >> 16 & 1))) >> 16) as u16
}

#[inline(always)]
fn value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds in place.
pub(crate) fn round(values: &mut [f32]) {
    values.iter_mut().for_each(|v| *v = value(bits(*v)));
}

/// Rounds into 16 bits.
#[cfg(feature = "mpi")]
pub(crate) fn narrow(values: &[f32], into: &mut [u16]) {
    values.iter().zip(into).for_each(|(v, b)| *b = bits(*v));
}

/// Back to 32 bits.
#[cfg(feature = "mpi")]
pub(crate) fn widen(from: &[u16], into: &mut [f32]) {
    from.iter().zip(into).for_each(|(b, v)| *v = value(*b));
}

/// Adds numbers of 16 bits.
#[cfg(feature = "mpi")]
pub(crate) fn add(sum: &mut [f32], x: &[u16]) {
    sum.iter_mut().zip(x).for_each(|(s, b)| *s += value(*b));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_the_nearest_and_ties_to_even() {
        for (v, expected) in [(1.0, 0x3f80), (-2.0, 0xc000), (0.0, 0), (f32::INFINITY, 0x7f80)] {
            assert_eq!(bits(v), expected);
        }
        assert_eq!(bits(f32::from_bits(0x3f80_8000)), 0x3f80, "a tie goes to the even one");
        assert_eq!(bits(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(bits(f32::from_bits(0x3f80_8001)), 0x3f81);
        assert!(value(bits(f32::NAN)).is_nan());
    }
}

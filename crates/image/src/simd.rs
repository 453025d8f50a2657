//! Which instructions this machine has. Every vector routine has a portable twin that gives the same bits: what is
//! prepared on one machine equals what is prepared on another.

/// The instructions that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Simd {
    /// What every machine has.
    Portable,
    /// AVX2 with BMI1, BMI2 and LZCNT. Made only by [`Simd::detect`], after it has seen that they are there.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Simd {
    /// The best that this machine has.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
        {
            return Self::Avx2;
        }
        Self::Portable
    }
}

impl Default for Simd {
    fn default() -> Self {
        Self::detect()
    }
}

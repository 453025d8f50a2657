//! Dropout: a mask that is a function of (seed, step, layer, global coordinate), sixteen Philox blocks at a time.
//!
//! The random numbers are those of [`paceline_base::random::Stream`]; here the rounds run over lanes, so that the compiler turns them into
//! vector multiplications.

use super::isa::Body;
use super::simd::Simd;
use paceline_base::random::{Stream, Use};

/// Blocks computed together: 64 values.
const BLOCKS: usize = 16;

/// The random stream of one mask, with what `Stream` mixes into its counters.
#[derive(Clone, Copy)]
pub(crate) struct Mask {
    stream: Stream,
    key: [u32; 2],
    step: [u32; 2],
    tag: u32,
    /// An element is kept if its 24 random bits reach this.
    threshold: u32,
    /// 1 / (1 − rate)
    scale: f32,
}

impl Mask {
    /// The mask of one layer at one step.
    pub(crate) fn new(seed: u64, layer: u32, step: u64, rate: f64) -> Self {
        Self {
            stream: Stream::new(seed, Use::Dropout, layer, step),
            key: [seed as u32, (seed >> 32) as u32],
            step: [step as u32, (step >> 32) as u32],
            tag: (Use::Dropout as u32) << 24 | (layer & 0x00FF_FFFF),
            // uniform ≥ rate, both times 2²⁴; exact, as that is a power of two.
            threshold: (rate * f64::from(1u32 << 24)).ceil() as u32,
            scale: (1.0 / (1.0 - rate)) as f32,
        }
    }

    #[inline(always)]
    fn keeps(&self, bits: u32) -> bool {
        bits >> 8 >= self.threshold
    }

    /// The bits of the 64 coordinates from `4·block` on.
    #[inline(always)]
    fn lanes(&self, block: u64, out: &mut [u32; 4 * BLOCKS]) {
        let (m0, m1) = (0xD251_1F53_u64, 0xCD9E_8D57_u64);
        let mut c0: [u32; BLOCKS] = [0; BLOCKS];
        let mut c1 = [0; BLOCKS];
        let (mut c2, mut c3) = ([self.step[0]; BLOCKS], [self.tag; BLOCKS]);
        for i in 0..BLOCKS {
            let block = block + i as u64;
            c0[i] = block as u32;
            c1[i] = (block >> 32) as u32 ^ self.step[1].rotate_left(16);
        }
        let mut key = self.key;
        for _ in 0..10 {
            for i in 0..BLOCKS {
                let p0 = m0 * u64::from(c0[i]);
                let p1 = m1 * u64::from(c2[i]);
                c0[i] = (p1 >> 32) as u32 ^ c1[i] ^ key[0];
                c1[i] = p1 as u32;
                c2[i] = (p0 >> 32) as u32 ^ c3[i] ^ key[1];
                c3[i] = p0 as u32;
            }
            key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        }
        for i in 0..BLOCKS {
            out[4 * i] = c0[i];
            out[4 * i + 1] = c1[i];
            out[4 * i + 2] = c2[i];
            out[4 * i + 3] = c3[i];
        }
    }
}

/// `y = x · mask / (1 − rate)` over a run whose first element has global coordinate `coordinate`.
pub(crate) struct Dropout {
    pub mask: Mask,
    pub coordinate: u64,
    pub x: *const f32,
    pub y: *mut f32,
    pub len: usize,
}

impl Body for Dropout {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, _s: S) {
        let Self { mask, coordinate, x, y, len } = self;
        let width = 4 * BLOCKS;
        let mut bits = [0; 4 * BLOCKS];
        // The run may begin within a block: take single values up to the next border of four.
        let head = ((4 - coordinate % 4) % 4).min(len as u64) as usize;
        // SAFETY: all accesses lie below `len`; the caller vouches for the pointers.
        unsafe {
            for i in 0..head {
                let keep = mask.keeps(mask.stream.bits(coordinate + i as u64));
                *y.add(i) = if keep { *x.add(i) * mask.scale } else { 0.0 };
            }
            let mut at = head;
            while at < len {
                mask.lanes((coordinate + at as u64) / 4, &mut bits);
                let n = width.min(len - at);
                if n == width {
                    for (i, bits) in bits.iter().enumerate() {
                        let kept = *x.add(at + i) * mask.scale;
                        *y.add(at + i) = if mask.keeps(*bits) { kept } else { 0.0 };
                    }
                } else {
                    for (i, bits) in bits.iter().enumerate().take(n) {
                        *y.add(at + i) = if mask.keeps(*bits) { *x.add(at + i) * mask.scale } else { 0.0 };
                    }
                }
                at += n;
            }
        }
    }
}

//! Pixels to baseline JPEG: libjpeg's quality scale, its standard tables, its accurate integer transform, its rounding.
//! The same pixels give the same bytes as libjpeg's defaults, and the same on every machine.

mod bits;
mod forward;
mod rows;
mod tables;

use crate::error::{ImageError, Result};
use crate::simd::Simd;
use crate::{Chroma, Pixels};
use bits::Writer;
use forward::Quantiser;
use rows::Strips;
use tables::Codes;

/// Encodes baseline JPEG. The same pixels give the same bytes, on every machine.
#[derive(Debug)]
pub struct Encoder {
    chroma: Chroma,
    pub(crate) simd: Simd,
    /// Of luma and of chroma.
    quantisers: [Quantiser; 2],
    codes: [Codes; 2],
    strips: Strips,
    /// The coded picture before stuffing.
    coded: Vec<u8>,
}

impl Encoder {
    /// An encoder of a quality from 1 to 100 (the scale of libjpeg).
    pub fn new(quality: u8, chroma: Chroma) -> Self {
        Self {
            chroma,
            simd: Simd::detect(),
            quantisers: tables::quantisation(quality).map(|table| Quantiser::new(&table)),
            codes: [Codes::luma(), Codes::chroma()],
            strips: Strips::default(),
            coded: Vec::new(),
        }
    }

    /// Appends a JPEG file to `out`. Fails, with `out` as it was, if a side is 0 or beyond 65,535, if there are neither
    /// 1 nor 3 channels, or if bytes are missing.
    pub fn encode(&mut self, pixels: &Pixels, out: &mut Vec<u8>) -> Result<()> {
        let Pixels { width, height, channels, .. } = *pixels;
        let sides = 1..=65535;
        let whole = sides.contains(&width)
            && sides.contains(&height)
            && matches!(channels, 1 | 3)
            && pixels.data.len() == width * height * channels;
        if !whole {
            return Err(ImageError::Unstorable { width, height, channels, bytes: pixels.data.len(), format: "JPEG" });
        }
        let factor = if channels == 3 && self.chroma == Chroma::Half { 2 } else { 1 };
        out.reserve(width * height / 2 + 1024);
        tables::headers(width, height, channels, factor, &self.quantisers, out);
        let mut coded = std::mem::take(&mut self.coded);
        let mut writer = Writer::new(&mut coded);
        self.scan(pixels, factor, &mut writer);
        writer.finish(out);
        self.coded = coded;
        out.extend([0xFF, 0xD9]);
        Ok(())
    }

    fn scan(&mut self, pixels: &Pixels, factor: usize, writer: &mut Writer) {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
        fn avx2(encoder: &mut Encoder, pixels: &Pixels, factor: usize, writer: &mut Writer) {
            encoder.scan_body(pixels, factor, writer)
        }
        match self.simd {
            Simd::Portable => self.scan_body(pixels, factor, writer),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 => {
                // SAFETY: `Simd::Avx2` is made only where these instructions were found.
                unsafe { avx2(self, pixels, factor, writer) }
            }
        }
    }

    #[inline(always)]
    fn scan_body(&mut self, pixels: &Pixels, factor: usize, writer: &mut Writer) {
        let side = 8 * factor;
        let (across, down) = (pixels.width.div_ceil(side), pixels.height.div_ceil(side));
        // Blocks that hold pixels; what fills up the last MCUs repeats the mean before it.
        let luma = (pixels.width.div_ceil(8), pixels.height.div_ceil(8));
        let mut before = [0i16; 3];
        let mut block = [0i16; 64];
        for mcu_row in 0..down {
            self.strips.fill(self.simd, pixels, mcu_row * side, factor);
            for mcu_column in 0..across {
                for (component, before) in before.iter_mut().enumerate().take(pixels.channels) {
                    let (h, v) = if component == 0 { (factor, factor) } else { (1, 1) };
                    let kind = usize::from(component > 0);
                    for row in 0..v {
                        for column in 0..h {
                            let x = mcu_column * h + column;
                            if component == 0 && (x >= luma.0 || mcu_row * v + row >= luma.1) {
                                // Nothing has changed since the block before.
                                writer.block_of_mean(&self.codes[0], 0);
                                continue;
                            }
                            let (samples, stride) = self.strips.block(component, x, row);
                            self.quantisers[kind].block(self.simd, samples, stride, &mut block);
                            let mean = block[0];
                            writer.block(self.simd, &self.codes[kind], mean.wrapping_sub(*before), &block);
                            *before = mean;
                        }
                    }
                }
            }
        }
    }
}

//! Augmentation: the same image, seen a little differently in every epoch.
//!
//! What happens to a sample is a function of (seed, epoch, sample), in whole numbers and in floats that every machine
//! computes alike (no library sine, no fused multiply-add), so that all machines train on the same bytes. The order is
//! crop, flip, colours; the four colour changes are one affine map of (r, g, b), rounded and clamped once.

use paceline_base::random::{Stream, Use};

/// What may be done to a training image; the default is nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Augment {
    /// Mirror every other image, left to right.
    pub flip: bool,
    /// Cut out a part of at least this share of the area (sides between 3:4 and 4:3 of each other) and scale it back to
    /// the whole; 1 for no cut.
    pub crop: f64,
    /// Shift by up to so many pixels in both directions, black coming in.
    pub pad: usize,
    /// All values by a factor of up to 1 ± this.
    pub brightness: f64,
    /// The distance from the mean by a factor of up to 1 ± this.
    pub contrast: f64,
    /// The distance from grey by a factor of up to 1 ± this.
    pub saturation: f64,
    /// Colours turned by up to this part of the circle, at most 0.5.
    pub hue: f64,
}

impl Default for Augment {
    fn default() -> Self {
        Self { flip: false, crop: 1.0, pad: 0, brightness: 0.0, contrast: 0.0, saturation: 0.0, hue: 0.0 }
    }
}

impl Augment {
    /// Whether nothing is ever done.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    fn changes_colours(&self) -> bool {
        self.brightness > 0.0 || self.contrast > 0.0 || self.saturation > 0.0 || self.hue > 0.0
    }
}

/// Augments images one after another, keeping its tables.
#[derive(Debug, Default)]
pub(crate) struct Augmenter {
    columns: Vec<(usize, usize, u32)>,
    upper: Vec<u16>,
    lower: Vec<u16>,
}

/// The random numbers of one sample, by what they are for.
struct Draws([[u32; 4]; 3]);

impl Draws {
    fn new(seed: u64, epoch: u64, sample: u64) -> Self {
        let stream = Stream::new(seed, Use::Augment, 0, epoch);
        Self([stream.block(4 * sample), stream.block(4 * sample + 1), stream.block(4 * sample + 2)])
    }

    /// In [0, 1).
    fn unit(&self, number: usize) -> f64 {
        f64::from(self.0[number / 4][number % 4]) / 4_294_967_296.0
    }

    /// A whole number up to and including `most`.
    fn up_to(&self, number: usize, most: usize) -> usize {
        ((u64::from(self.0[number / 4][number % 4]) * (most as u64 + 1)) >> 32) as usize
    }

    /// In [-1, 1).
    fn sway(&self, number: usize) -> f64 {
        2.0 * self.unit(number) - 1.0
    }
}

impl Augmenter {
    /// Writes the sample as it looks in this epoch. `shape` is height, width and perhaps channels (1 or 3).
    #[allow(clippy::too_many_arguments)] // the sample's name (seed, epoch, number) and its bytes
    pub(crate) fn apply(
        &mut self,
        augment: &Augment,
        seed: u64,
        epoch: u64,
        sample: u64,
        shape: &[usize],
        from: &[u8],
        to: &mut [u8],
    ) {
        let (height, width, channels) = match *shape {
            [h, w] => (h, w, 1),
            [h, w, c] => (h, w, c),
            _ => (1, 1, from.len()),
        };
        let draws = Draws::new(seed, epoch, sample);
        if augment.crop < 1.0 {
            let (x, y, w, h) = window(augment.crop, width, height, &draws);
            match channels {
                1 => self.zoom::<1>(from, (width, height), (x, y, w, h), to),
                _ => self.zoom::<3>(from, (width, height), (x, y, w, h), to),
            }
        } else if augment.pad > 0 {
            let shift = |number| draws.up_to(number, 2 * augment.pad) as isize - augment.pad as isize;
            shifted(from, (width, height, channels), (shift(0), shift(1)), to);
        } else {
            to.copy_from_slice(from);
        }
        if augment.flip && draws.0[1][0] >> 31 == 1 {
            mirror(to, width, channels);
        }
        if augment.changes_colours() {
            recolour(to, channels, augment, &draws);
        }
    }

    /// Scales a window to the whole image: bilinear, in 8-bit fractions, columns first.
    fn zoom<const CHANNELS: usize>(
        &mut self,
        from: &[u8],
        (width, height): (usize, usize),
        (x, y, w, h): (usize, usize, usize, usize),
        to: &mut [u8],
    ) {
        let stride = width * CHANNELS;
        self.columns.clear();
        self.columns.extend((0..width).map(|out| {
            let (a, b, weight) = taps(out, width, w);
            (x + a, x + b, weight)
        }));
        self.upper.resize(stride, 0);
        self.lower.resize(stride, 0);
        let columns = &self.columns;
        let sample_row = |row: usize, out: &mut [u16]| {
            let (line, _) = from[(y + row) * stride..][..stride].as_chunks::<CHANNELS>();
            for (out, &(a, b, weight)) in out.as_chunks_mut::<CHANNELS>().0.iter_mut().zip(columns) {
                let (left, right) = (line[a], line[b]);
                for channel in 0..CHANNELS {
                    let (left, right) = (u32::from(left[channel]), u32::from(right[channel]));
                    out[channel] = (left * (256 - weight) + right * weight) as u16;
                }
            }
        };
        let (mut above, mut below) = (usize::MAX, usize::MAX);
        for (out_row, out) in to.chunks_exact_mut(stride).enumerate() {
            let (a, b, weight) = taps(out_row, height, h);
            if a == below {
                std::mem::swap(&mut self.upper, &mut self.lower);
                (above, below) = (below, above);
            }
            if a != above {
                sample_row(a, &mut self.upper);
                above = a;
            }
            if b != below {
                sample_row(b, &mut self.lower);
                below = b;
            }
            for ((out, &up), &low) in out.iter_mut().zip(&self.upper).zip(&self.lower) {
                *out = ((u32::from(up) * (256 - weight) + u32::from(low) * weight + (1 << 15)) >> 16) as u8;
            }
        }
    }
}

/// The two pixels of a window of `inner` that output pixel `out` of `outer` lies between, and the weight of the second of
/// 256. Pixel centres correspond.
fn taps(out: usize, outer: usize, inner: usize) -> (usize, usize, u32) {
    let place = ((2 * out + 1) * inner * 128 / outer).saturating_sub(128);
    let (first, weight) = (place / 256, (place % 256) as u32);
    (first, (first + 1).min(inner - 1), weight)
}

/// Left, top, width and height of a random window.
fn window(least: f64, width: usize, height: usize, draws: &Draws) -> (usize, usize, usize, usize) {
    let area = least + (1.0 - least) * draws.unit(2);
    let longer = 1.0 + draws.unit(3) / 3.0;
    let ratio = if draws.0[1][1] >> 31 == 1 { longer } else { 1.0 / longer };
    let side = |of: usize, share: f64| ((of as f64 * share + 0.5) as usize).clamp(1, of);
    let (w, h) = (side(width, (area * ratio).sqrt()), side(height, (area / ratio).sqrt()));
    (draws.up_to(0, width - w), draws.up_to(1, height - h), w, h)
}

/// Moves the image by (right, down).
fn shifted(
    from: &[u8],
    (width, height, channels): (usize, usize, usize),
    (right, down): (isize, isize),
    to: &mut [u8],
) {
    to.fill(0);
    let stride = width * channels;
    let (right, down) = (right.clamp(-(width as isize), width as isize), down);
    let columns = width - right.unsigned_abs();
    let (from_x, to_x) = ((-right).max(0) as usize * channels, right.max(0) as usize * channels);
    for row in 0..height {
        let Some(source) = row.checked_add_signed(-down).filter(|&source| source < height) else { continue };
        to[row * stride + to_x..][..columns * channels]
            .copy_from_slice(&from[source * stride + from_x..][..columns * channels]);
    }
}

/// Left to right.
fn mirror(image: &mut [u8], width: usize, channels: usize) {
    for row in image.chunks_exact_mut(width * channels) {
        match channels {
            1 => row.reverse(),
            _ => row.as_chunks_mut::<3>().0.reverse(),
        }
    }
}

/// Rec. 601 luma, as JPEG has it.
const LUMA: [f64; 3] = [0.299, 0.587, 0.114];
/// Bits of the fraction of the affine map.
const BITS: u32 = 14;

fn recolour(image: &mut [u8], channels: usize, augment: &Augment, draws: &Draws) {
    let factor = |strength: f64, number: usize| 1.0 + strength * draws.sway(number);
    let (bright, contrast) = (factor(augment.brightness, 8), factor(augment.contrast, 9));
    let one = f64::from(1u32 << BITS);
    // Only a change of contrast needs the mean: otherwise it is multiplied by nothing.
    let mean = if augment.contrast == 0.0 { 0.0 } else { mean_luma(image, channels) };
    let lift = ((1.0 - contrast) * bright * mean * one).round() as i32 + (1 << (BITS - 1));
    if channels != 3 || (augment.saturation == 0.0 && augment.hue == 0.0) {
        let gain = (bright * contrast * one).round() as i32;
        let table: [u8; 256] = std::array::from_fn(|v| ((v as i32 * gain + lift) >> BITS).clamp(0, 255) as u8);
        image.iter_mut().for_each(|v| *v = table[usize::from(*v)]);
        return;
    }
    let saturation = factor(augment.saturation, 10);
    let turn = turned(augment.hue * draws.sway(11));
    // Saturation, then hue, then brightness and contrast: all linear but for the mean that contrast keeps.
    let mut matrix = [[0i32; 3]; 3];
    for (row, out) in matrix.iter_mut().enumerate() {
        for (column, out) in out.iter_mut().enumerate() {
            let saturated = |k: usize| {
                let own = if k == column { saturation } else { 0.0 };
                own + (1.0 - saturation) * LUMA[column]
            };
            let value: f64 = (0..3).map(|k| turn[row][k] * saturated(k)).sum();
            *out = (value * bright * contrast * one).round() as i32;
        }
    }
    // By blocks of planes: the sums of products then are vector operations.
    let (pixels, _) = image.as_chunks_mut::<3>();
    for block in pixels.chunks_mut(BLOCK) {
        let mut planes = [[0i32; BLOCK]; 3];
        for (at, pixel) in block.iter().enumerate() {
            for channel in 0..3 {
                planes[channel][at] = i32::from(pixel[channel]);
            }
        }
        for (channel, m) in matrix.iter().enumerate() {
            let mut out = [0u8; BLOCK];
            for (at, out) in out.iter_mut().enumerate() {
                let sum = m[0] * planes[0][at] + m[1] * planes[1][at] + m[2] * planes[2][at] + lift;
                *out = (sum >> BITS).clamp(0, 255) as u8;
            }
            block.iter_mut().zip(&out).for_each(|(pixel, &value)| pixel[channel] = value);
        }
    }
}

/// Pixels that are recoloured at once.
const BLOCK: usize = 64;

fn mean_luma(image: &[u8], channels: usize) -> f64 {
    if channels != 3 {
        return image.iter().map(|&v| u64::from(v)).sum::<u64>() as f64 / image.len() as f64;
    }
    let mut sums = [0u64; 3];
    let (pixels, _) = image.as_chunks::<3>();
    for block in pixels.chunks(1 << 16) {
        let mut part = [0u32; 3];
        block.iter().for_each(|pixel| (0..3).for_each(|c| part[c] += u32::from(pixel[c])));
        (0..3).for_each(|c| sums[c] += u64::from(part[c]));
    }
    (0..3).map(|c| LUMA[c] * sums[c] as f64).sum::<f64>() / pixels.len() as f64
}

/// The turn of (r, g, b) by a part of the circle around the grey axis.
fn turned(part: f64) -> [[f64; 3]; 3] {
    let (sine, cosine) = sine_and_cosine(part * std::f64::consts::TAU);
    let (even, third) = ((1.0 - cosine) / 3.0, sine / 3f64.sqrt());
    let (own, after, before) = (cosine + even, even - third, even + third);
    [[own, after, before], [before, own, after], [after, before, own]]
}

/// By their series, because library functions differ from system to system in the last bit. |x| ≤ π.
fn sine_and_cosine(x: f64) -> (f64, f64) {
    let (mut sine, mut cosine, mut term) = (0.0, 1.0, 1.0);
    for k in 1..=28 {
        term *= x / f64::from(k);
        match k % 4 {
            1 => sine += term,
            2 => cosine -= term,
            3 => sine -= term,
            _ => cosine += term,
        }
    }
    (sine, cosine)
}

#[cfg(test)]
mod tests;

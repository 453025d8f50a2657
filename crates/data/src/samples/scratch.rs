//! What a worker keeps between images, and the way from an image file to pixels of a wanted size: for samples, for records and for
//! speed studies alike.

use paceline_base::stage::Stage;
use paceline_image::{Colour, Decoder, ImageError, Pixels, Resizer, Target, Window};
use std::time::{Duration, Instant};

/// How long each stage was busy and how many samples passed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Time, by the number of the stage.
    pub busy: [Duration; Stage::ALL.len()],
    /// Samples, by the number of the stage.
    pub count: [u64; Stage::ALL.len()],
}

impl StageTimes {
    /// Counts the time since `since` for a stage, and gives the time now.
    pub fn add(&mut self, stage: Stage, since: Instant) -> Instant {
        let now = Instant::now();
        self.busy[stage as usize] += now - since;
        self.count[stage as usize] += 1;
        now
    }

    /// Time of a stage since these times were `before`.
    pub fn since(&self, before: &Self, stage: Stage) -> Duration {
        self.busy[stage as usize].saturating_sub(before.busy[stage as usize])
    }
}

/// What a worker keeps between samples, so that it allocates only for the largest.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) decoder: Decoder,
    resizer: Resizer,
    pub(super) pixels: Pixels,
    resized: Pixels,
    /// A file; empty between samples.
    pub(super) bytes: Vec<u8>,
    /// What was done so far.
    pub times: StageTimes,
    stage: Stage,
}

impl Scratch {
    /// Decodes an image file and brings it to the target: the stages [`Stage::Decode`] and, unless it has that size already,
    /// [`Stage::Resize`].
    ///
    /// ```
    /// use paceline_base::stage::Stage;
    /// use paceline_data::Scratch;
    /// use paceline_image::{Colour, Fit, Pixels, Target, encode_png};
    ///
    /// let file = encode_png(&Pixels { width: 6, height: 4, channels: 1, data: vec![7; 24] })?;
    /// let target = Target { width: 2, height: 2, fit: Fit::Crop, full: false };
    /// let mut scratch = Scratch::default();
    /// let pixels = scratch.decode_to(&file, Colour::Grey, &target)?;
    /// assert_eq!((pixels.width, pixels.height, &pixels.data[..]), (2, 2, &[7; 4][..]));
    /// assert_eq!(scratch.times.count[Stage::Resize as usize], 1);
    /// # Ok::<(), paceline_image::ImageError>(())
    /// ```
    ///
    /// # Errors
    /// If it is no image, or a damaged one.
    pub fn decode_to(&mut self, bytes: &[u8], colour: Colour, target: &Target) -> Result<&Pixels, ImageError> {
        self.stage = Stage::Decode;
        let begin = Instant::now();
        let (_, window) = self.decoder.decode_for(bytes, colour, target, &mut self.pixels)?;
        let begin = self.times.add(Stage::Decode, begin);
        Ok(self.bring_to(&window, target, begin))
    }

    /// Brings stored pixels (height, width, channels) to the target: [`Stage::Read`], then [`Stage::Resize`] as above.
    pub fn place_to(&mut self, bytes: &[u8], [height, width, channels]: [usize; 3], target: &Target) -> &Pixels {
        self.stage = Stage::Read;
        let begin = Instant::now();
        let Pixels { data, .. } = &mut self.pixels;
        data.clear();
        data.extend_from_slice(bytes);
        (self.pixels.width, self.pixels.height, self.pixels.channels) = (width, height, channels);
        let begin = self.times.add(Stage::Read, begin);
        self.bring_to(&target.window_of_raw(width, height), target, begin)
    }

    fn bring_to(&mut self, window: &Window, target: &Target, begin: Instant) -> &Pixels {
        if target.is_met_by(&self.pixels, window) {
            return &self.pixels;
        }
        self.stage = Stage::Resize;
        self.resizer.resize(&self.pixels, window, target, &mut self.resized);
        self.times.add(Stage::Resize, begin);
        &self.resized
    }

    /// Bytes of the last image as it was decoded, before it was resized.
    pub fn decoded_bytes(&self) -> usize {
        self.pixels.data.len()
    }

    /// The stage that the last image came to: where a panic was, if there was one.
    pub fn stage(&self) -> Stage {
        self.stage
    }
}

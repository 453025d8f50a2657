//! libjpeg (the C code of libjpeg-turbo, as mozjpeg keeps it) behind two safe functions: decode and encode.
//!
//! An error of libjpeg unwinds through its C frames, which the crate compiles for that, and is caught here.

use mozjpeg_sys::*;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::mem::{self, MaybeUninit};
use std::os::raw::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What libjpeg made of a file.
pub(crate) struct Decoded {
    pub width: usize,
    pub height: usize,
    /// 1 grey, 3 RGB, 4 ink.
    pub channels: usize,
    pub data: Vec<u8>,
    /// Damage that it went over, in its words; each once.
    pub warnings: BTreeSet<&'static str>,
}

/// An error of libjpeg on its way up.
struct Exit(&'static str);

/// The text of the message at hand, with its placeholders.
fn message(err: &jpeg_error_mgr) -> &'static str {
    if err.msg_code <= 0 || err.msg_code > err.last_jpeg_message {
        return "a message without a text";
    }
    // SAFETY: libjpeg's own table of static strings, within its bounds.
    let text = unsafe { CStr::from_ptr((*err.jpeg_message_table.add(err.msg_code as usize)).cast()) };
    text.to_str().unwrap_or("a message that is no text")
}

unsafe extern "C-unwind" fn error_exit(cinfo: &mut jpeg_common_struct) {
    // SAFETY: set by `with`, which outlives the call.
    let text = message(unsafe { &*cinfo.err });
    resume_unwind(Box::new(Exit(text)));
}

unsafe extern "C-unwind" fn emit_message(cinfo: &mut jpeg_common_struct, level: c_int) {
    if level < 0 {
        // SAFETY: both are set by `decompress`, which outlives the call.
        let (err, warnings) = unsafe { (&mut *cinfo.err, &mut *cinfo.client_data.cast::<BTreeSet<&'static str>>()) };
        err.num_warnings += 1;
        warnings.insert(message(err));
    }
}

fn errors() -> Box<jpeg_error_mgr> {
    // SAFETY: plain data; `jpeg_std_error` fills it in.
    let mut err: Box<jpeg_error_mgr> = Box::new(unsafe { mem::zeroed() });
    // SAFETY: as above.
    unsafe { jpeg_std_error(&mut err) };
    err.error_exit = Some(error_exit);
    err.emit_message = Some(emit_message);
    err
}

/// Runs `work` on a decompressor that has read the header of `bytes`.
fn decompress<T>(
    bytes: &[u8],
    warnings: &mut BTreeSet<&'static str>,
    work: impl FnOnce(&mut jpeg_decompress_struct) -> T,
) -> Result<T, &'static str> {
    let mut err = errors();
    let mut cinfo: Box<MaybeUninit<jpeg_decompress_struct>> = Box::new(MaybeUninit::zeroed());
    // SAFETY: the struct is created before it is used and destroyed after; it points to `err`, `warnings` and `bytes`,
    // which outlive it. An unwinding error leaves it in a state that may only be destroyed, which is what happens.
    unsafe {
        let cinfo = &mut *cinfo.as_mut_ptr();
        cinfo.common.err = &mut *err;
        jpeg_CreateDecompress(cinfo, JPEG_LIB_VERSION, mem::size_of::<jpeg_decompress_struct>());
        cinfo.common.client_data = std::ptr::from_mut(warnings).cast();
        let result = catch_unwind(AssertUnwindSafe(|| {
            jpeg_mem_src(cinfo, bytes.as_ptr(), bytes.len() as _);
            jpeg_read_header(cinfo, 1);
            work(cinfo)
        }));
        jpeg_destroy_decompress(cinfo);
        result.map_err(|panic| match panic.downcast::<Exit>() {
            Ok(exit) => exit.0,
            Err(other) => resume_unwind(other),
        })
    }
}

/// Decodes a file of at most `most` pixels: none, if it has more. Smoothing of what an unfinished progressive file lacks is
/// off: it is a guess at detail, and ours makes none.
pub(crate) fn decode(bytes: &[u8], most: usize) -> Result<Option<Decoded>, &'static str> {
    let mut warnings = BTreeSet::new();
    let decoded = decompress(bytes, &mut warnings, |cinfo| {
        let (width, height) = (cinfo.image_width as usize, cinfo.image_height as usize);
        if width * height > most {
            return None;
        }
        cinfo.dct_method = J_DCT_METHOD::JDCT_ISLOW;
        cinfo.do_fancy_upsampling = 1;
        cinfo.do_block_smoothing = 0;
        cinfo.out_color_space = match cinfo.num_components {
            1 => J_COLOR_SPACE::JCS_GRAYSCALE,
            3 => J_COLOR_SPACE::JCS_RGB,
            4 => J_COLOR_SPACE::JCS_CMYK,
            _ => cinfo.out_color_space,
        };
        // SAFETY: the calls in the order that libjpeg asks for; each row has the room that it says.
        unsafe {
            jpeg_start_decompress(cinfo);
            let channels = cinfo.output_components as usize;
            let mut data = vec![0; width * height * channels];
            while (cinfo.output_scanline as usize) < height {
                let at = cinfo.output_scanline as usize * width * channels;
                let mut row = data[at..].as_mut_ptr();
                jpeg_read_scanlines(cinfo, &raw mut row, 1);
            }
            Some((width, height, channels, data))
        }
    })?;
    Ok(decoded.map(|(width, height, channels, data)| Decoded { width, height, channels, data, warnings }))
}

/// The largest sample, measured from the middle grey, that the blocks of a file would give before anything is clamped, by
/// the definition of the transform in f64.
pub(crate) fn amplitude(bytes: &[u8]) -> Result<f64, &'static str> {
    let mut warnings = BTreeSet::new();
    decompress(bytes, &mut warnings, |cinfo| {
        let mut most = 0.0f64;
        // SAFETY: the arrays that libjpeg gives, within the numbers of blocks that it states.
        unsafe {
            let arrays = jpeg_read_coefficients(cinfo);
            let access = (*cinfo.common.mem).access_virt_barray.expect("libjpeg's own memory");
            for index in 0..cinfo.num_components as usize {
                let component = &*cinfo.comp_info.add(index);
                if component.quant_table.is_null() {
                    continue;
                }
                let table = (*component.quant_table).quantval;
                for row in 0..component.height_in_blocks {
                    let blocks = *access(&mut cinfo.common, *arrays.add(index), row, 1, 0);
                    for column in 0..component.width_in_blocks as usize {
                        // Tables of 16 bits wrap in both.
                        let block = &*blocks.add(column);
                        let dequantised: [f64; 64] =
                            std::array::from_fn(|k| f64::from(block[k]) * f64::from(table[k] as i16));
                        most = most.max(largest_sample(&dequantised));
                    }
                }
            }
        }
        most
    })
}

/// The inverse transform, as it is defined, one dimension after the other.
fn largest_sample(block: &[f64; 64]) -> f64 {
    let basis = |x: usize, u: usize| {
        let scale = if u == 0 { (1.0f64 / 8.0).sqrt() } else { 0.5 };
        scale * ((2 * x + 1) as f64 * u as f64 * std::f64::consts::PI / 16.0).cos()
    };
    let table: [[f64; 8]; 8] = std::array::from_fn(|x| std::array::from_fn(|u| basis(x, u)));
    let mut half = [0.0; 64];
    for (v, x) in (0..8).flat_map(|v| (0..8).map(move |x| (v, x))) {
        half[v * 8 + x] = (0..8).map(|u| table[x][u] * block[v * 8 + u]).sum();
    }
    let mut most = 0.0f64;
    for (y, x) in (0..8).flat_map(|y| (0..8).map(move |x| (y, x))) {
        most = most.max((0..8).map(|v| table[y][v] * half[v * 8 + x]).sum::<f64>().abs());
    }
    most
}

/// How a seed is coded.
#[derive(Clone, Copy)]
pub(crate) enum Coding {
    Baseline,
    Progressive,
    /// Sequential, with a scan for each component.
    Separate,
}

/// Encodes RGB (or grey) pixels as libjpeg-turbo does; `sampling` are the factors of the first component.
pub(crate) fn encode(
    data: &[u8],
    (width, height, channels): (usize, usize, usize),
    sampling: (c_int, c_int),
    coding: Coding,
    restart: u32,
) -> Vec<u8> {
    let mut err = errors();
    let mut cinfo: Box<MaybeUninit<jpeg_compress_struct>> = Box::new(MaybeUninit::zeroed());
    let (mut out, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: the struct is created before it is used; what it points to outlives it. `out` is libjpeg's until the end,
    // when it is copied and freed.
    unsafe {
        let cinfo = &mut *cinfo.as_mut_ptr();
        cinfo.common.err = &mut *err;
        jpeg_CreateCompress(cinfo, JPEG_LIB_VERSION, mem::size_of::<jpeg_compress_struct>());
        jpeg_mem_dest(cinfo, &mut out, &mut length);
        (cinfo.image_width, cinfo.image_height) = (width as u32, height as u32);
        cinfo.input_components = channels as c_int;
        cinfo.in_color_space = if channels == 1 { J_COLOR_SPACE::JCS_GRAYSCALE } else { J_COLOR_SPACE::JCS_RGB };
        let fastest = JINT_COMPRESS_PROFILE_VALUE::JCP_FASTEST as c_int;
        jpeg_c_set_int_param(cinfo, J_INT_PARAM::JINT_COMPRESS_PROFILE, fastest);
        jpeg_set_defaults(cinfo);
        jpeg_set_quality(cinfo, 80, 1);
        ((*cinfo.comp_info).h_samp_factor, (*cinfo.comp_info).v_samp_factor) = sampling;
        cinfo.restart_interval = restart;
        let scans: Vec<jpeg_scan_info> = (0..channels)
            .map(|index| {
                let mut scan: jpeg_scan_info = mem::zeroed();
                scan.comps_in_scan = 1;
                scan.component_index[0] = index as c_int;
                scan.Se = 63;
                scan
            })
            .collect();
        match coding {
            Coding::Baseline => {}
            Coding::Progressive => jpeg_simple_progression(cinfo),
            Coding::Separate => (cinfo.scan_info, cinfo.num_scans) = (scans.as_ptr(), scans.len() as c_int),
        }
        jpeg_start_compress(cinfo, 1);
        while (cinfo.next_scanline as usize) < height {
            let row = data[cinfo.next_scanline as usize * width * channels..].as_ptr();
            jpeg_write_scanlines(cinfo, &raw const row, 1);
        }
        jpeg_finish_compress(cinfo);
        let bytes = std::slice::from_raw_parts(out, length as usize).to_vec();
        jpeg_destroy_compress(cinfo);
        free(out.cast());
        bytes
    }
}

unsafe extern "C" {
    fn free(at: *mut std::ffi::c_void);
}

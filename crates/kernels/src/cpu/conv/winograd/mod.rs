//! Convolutions of stride 1 by Winograd's transforms, a block of tiles at a time: the transformed patches, their products and the
//! sums stay in the second-level cache, and only finished results go to memory.
//!
//! 1. Weights are transformed once per call ([`Pack`]): `u[place][panel][channel][output]`.
//! 2. Each thread takes blocks of tiles, from any sample ([`Forward`]): patches → `v[place][tile][channel]`, one product per place
//!    → `m[place][tile][output]`, then back to pixels with bias, activation and maximum on the way out.
//! 3. The data gradient is the same with the kernel turned round; the weight gradient ([`Weights`]) multiplies transformed
//!    patches with transformed gradients.

mod finish;
mod forward;
mod pack;
mod transform;
mod weights;
mod zeros;

pub(super) use forward::Forward;
pub(super) use pack::{Gather, Pack};
pub(super) use weights::Weights;

use super::scheme::Scheme;
use super::source::{Image, Rectangle};

/// Tiles of a block at most.
pub(super) const MOST_TILES: usize = 512;

/// Elements between the ends and beginnings of places, so that they do not all fall into the same sets of a cache.
const STAGGER: usize = 16;

/// The sizes of a problem: images in, images out, and zeros before the first row and column (fewer than none if rows are left out).
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub samples: usize,
    pub input: Image,
    pub output: Image,
    pub pad: [isize; 2],
}

impl Shape {
    pub(super) fn tiles<C: Scheme>(&self) -> usize {
        self.samples * self.output.height.div_ceil(C::TILE) * self.output.width.div_ceil(C::TILE)
    }

    /// Sample, row and column of a tile's first pixel.
    #[inline(always)]
    fn place<C: Scheme>(&self, tile: usize) -> (usize, usize, usize) {
        let across = self.output.width.div_ceil(C::TILE);
        let down = self.output.height.div_ceil(C::TILE);
        (tile / (across * down), tile / across % down * C::TILE, tile % across * C::TILE)
    }

    /// What the tile with this first pixel reads of the input.
    #[inline(always)]
    fn patch<C: Scheme>(&self, sample: usize, row: usize, column: usize) -> Rectangle {
        Rectangle {
            sample,
            top: row as isize - self.pad[0],
            left: column as isize - self.pad[1],
            rows: C::PATCH,
            columns: C::PATCH,
            channels: (0, self.input.channels),
        }
    }
}

fn padded(channels: usize, lanes: usize) -> usize {
    channels.next_multiple_of(lanes)
}

/// Elements of the transformed weights.
pub(super) fn weights_len<C: Scheme>(terms: usize, outputs: usize, lanes: usize) -> usize {
    C::PATCH * C::PATCH * terms * padded(outputs, lanes)
}

/// Elements of scratch for a block of `tiles` tiles between images of so many channels.
pub(super) fn block_len<C: Scheme>(tiles: usize, channels: usize, outputs: usize, lanes: usize) -> usize {
    let places = C::PATCH * C::PATCH;
    let wide = padded(channels, lanes) + padded(outputs, lanes);
    places * (tiles * wide + 2 * STAGGER) + places * (channels + outputs) + 2 * STAGGER
}

/// One of the two arrays of a block: `[place][tile][channel]`.
#[derive(Clone, Copy)]
struct Half {
    at: *mut f32,
    /// Elements of a tile: its channels in whole vectors.
    wide: usize,
    /// How far places are apart.
    place: usize,
}

/// How a block lies in scratch: transformed patches, beside them the sums or the transformed gradients, and room for one patch.
#[derive(Clone, Copy)]
struct Block {
    first: Half,
    second: Half,
    patch: *mut f32,
}

impl Block {
    /// In [`block_len`] elements of scratch.
    #[inline(always)]
    fn new<C: Scheme>(tiles: usize, channels: usize, outputs: usize, lanes: usize, scratch: *mut f32) -> Self {
        let half = |channels: usize, at: *mut f32| {
            let wide = padded(channels, lanes);
            Half { at, wide, place: tiles * wide + STAGGER }
        };
        let behind = |half: Half| half.at.wrapping_add(C::PATCH * C::PATCH * half.place);
        let first = half(channels, scratch);
        let second = half(outputs, behind(first));
        Self { first, second, patch: behind(second) }
    }
}

//! The coefficients of a whole image, for files that come in several scans.

use super::entropy::Entropy;
use super::markers::Scan;
use super::planes::{Plane, Planes};
use crate::error::{ImageError, Result};

/// What a scan does with each block.
pub(super) trait Coder {
    /// Predictions start afresh.
    fn restart(&mut self);
    /// The next block, of the scan's component number `slot`.
    fn block(&mut self, entropy: &mut Entropy, slot: usize, block: &mut [i16; 64]) -> Result<()>;
}

/// Coefficients and which bits of them have come so far.
pub(super) struct Store<'a> {
    planes: Vec<Plane>,
    mcus: (usize, usize),
    blocks: &'a mut [Vec<[i16; 64]>; 4],
    /// Per component and coefficient: the lowest bit that has come, if any.
    low: [[Option<u32>; 64]; 4],
}

impl<'a> Store<'a> {
    /// All zero. The memory is bounded by the limit on pixels, which was checked.
    pub(super) fn new(planes: &Planes, blocks: &'a mut [Vec<[i16; 64]>; 4]) -> Self {
        for (plane, blocks) in planes.planes.iter().zip(blocks.iter_mut()) {
            blocks.clear();
            blocks.resize(plane.padded.0 * plane.padded.1, [0; 64]);
        }
        Self { planes: planes.planes.clone(), mcus: planes.mcus, blocks, low: [[None; 64]; 4] }
    }

    /// Notes what a scan brings. Each bit of each coefficient comes once, from high to low; so the number of scans, and
    /// with it the work that a small file can ask for, is bounded.
    pub(super) fn note(&mut self, scan: &Scan, progressive: bool) -> Result<()> {
        let band = if progressive { scan.first..=scan.last } else { 0..=63 };
        let (high, low) = if progressive { (scan.high, scan.low) } else { (0, 0) };
        for c in scan.components() {
            for k in band.clone() {
                let before = &mut self.low[c.index][k];
                if *before != (high > 0).then_some(high) {
                    let what = format!("a scan of bits {high} to {low} of coefficient {k}, out of turn,");
                    return Err(ImageError::malformed(what, scan.offset));
                }
                *before = Some(low);
            }
            if self.low[c.index][0].is_none() {
                return Err(ImageError::malformed("details of a component before its means", scan.offset));
            }
        }
        Ok(())
    }

    /// Every component has come, so far as its means.
    pub(super) fn begun(&self) -> bool {
        self.low[..self.planes.len()].iter().all(|low| low[0].is_some())
    }

    /// Every component has come in full.
    pub(super) fn complete(&self) -> bool {
        self.low[..self.planes.len()].iter().all(|low| low.iter().all(|&bit| bit == Some(0)))
    }

    /// Runs a coder over all blocks of a scan.
    pub(super) fn each_block(&mut self, scan: &Scan, entropy: &mut Entropy, coder: &mut impl Coder) -> Result<()> {
        if let [c] = scan.components() {
            let plane = &self.planes[c.index];
            for row in self.blocks[c.index].chunks_exact_mut(plane.padded.0).take(plane.blocks.1) {
                for block in &mut row[..plane.blocks.0] {
                    if entropy.restarts()? {
                        coder.restart();
                    }
                    coder.block(entropy, 0, block)?;
                }
                entropy.check()?;
            }
            return Ok(());
        }
        for mcu_row in 0..self.mcus.1 {
            for mcu_column in 0..self.mcus.0 {
                if entropy.restarts()? {
                    coder.restart();
                }
                for (slot, c) in scan.components().iter().enumerate() {
                    let plane = &self.planes[c.index];
                    for row in mcu_row * plane.v..(mcu_row + 1) * plane.v {
                        for column in mcu_column * plane.h..(mcu_column + 1) * plane.h {
                            coder.block(entropy, slot, &mut self.blocks[c.index][row * plane.padded.0 + column])?;
                        }
                    }
                }
            }
            entropy.check()?;
        }
        Ok(())
    }

    /// Turns everything into pixels.
    pub(super) fn into_pixels(self, planes: &mut Planes) {
        for mcu_row in 0..self.mcus.1 {
            for (index, plane) in self.planes.iter().enumerate() {
                let rows = (mcu_row * plane.v).max(plane.rows.start)..((mcu_row + 1) * plane.v).min(plane.rows.end);
                for row in rows {
                    for column in plane.columns.clone() {
                        let block = &self.blocks[index][row * plane.padded.0 + column];
                        let flat = block[1..].iter().fold(0, |any, &c| any | c) == 0;
                        planes.put(index, column, row, mcu_row, flat, block);
                    }
                }
            }
            planes.finish(mcu_row);
        }
    }
}

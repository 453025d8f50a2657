//! Baseline and extended sequential scans. A scan of all components goes straight into the strips, without the
//! coefficients of more than one block in memory; others are collected like progressive ones.

use super::entropy::Entropy;
use super::huffman::Huffman;
use super::markers::{Scan, Tables};
use super::planes::Planes;
use super::store::{Coder, Store};
use crate::cosine::ORDER;
use crate::error::Result;
use crate::simd::Simd;

/// Decodes a scan of all components into pixels.
pub(super) fn direct(
    simd: Simd,
    scan: &Scan,
    tables: &Tables,
    entropy: &mut Entropy,
    planes: &mut Planes,
) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    fn avx2(scan: &Scan, tables: &Tables, entropy: &mut Entropy, planes: &mut Planes) -> Result<()> {
        direct_body(scan, tables, entropy, planes)
    }
    match simd {
        Simd::Portable => direct_body(scan, tables, entropy, planes),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            // SAFETY: `Simd::Avx2` is made only where these instructions were found.
            unsafe { avx2(scan, tables, entropy, planes) }
        }
    }
}

#[inline(always)]
fn direct_body(scan: &Scan, tables: &Tables, entropy: &mut Entropy, planes: &mut Planes) -> Result<()> {
    let mut coders = Vec::with_capacity(4);
    for c in scan.components() {
        coders.push((c.index, tables.dc(c.dc, scan.offset)?, tables.ac(c.ac, scan.offset)?, 0i32));
    }
    let mut block = [0i16; 64];
    for mcu_row in 0..planes.mcus.1 {
        for mcu_column in 0..planes.mcus.0 {
            if entropy.restarts()? {
                for coder in &mut coders {
                    coder.3 = 0;
                }
            }
            for (index, dc, ac, before) in &mut coders {
                let (h, v) = (planes.planes[*index].h, planes.planes[*index].v);
                for row in mcu_row * v..(mcu_row + 1) * v {
                    for column in mcu_column * h..(mcu_column + 1) * h {
                        let wanted = planes.planes[*index].wants(column, row);
                        let last = if wanted {
                            one_block::<true>(entropy, dc, ac, before, &mut block)?
                        } else {
                            one_block::<false>(entropy, dc, ac, before, &mut block)?
                        };
                        if wanted {
                            block[0] = *before as i16;
                            planes.put(*index, column, row, mcu_row, last == 0, &block);
                            if last > 0 {
                                block = [0; 64];
                            }
                        }
                    }
                }
            }
        }
        entropy.check()?;
        planes.finish(mcu_row);
    }
    Ok(())
}

/// Reads a block (without its details, unless `STORE`); returns the index of the last coefficient.
#[inline(always)]
fn one_block<const STORE: bool>(
    entropy: &mut Entropy,
    dc: &Huffman,
    ac: &Huffman,
    before: &mut i32,
    block: &mut [i16; 64],
) -> Result<usize> {
    let mut bits = entropy.bits.cursor();
    let last = match dc.difference(&mut bits) {
        Ok(difference) => {
            *before = before.wrapping_add(difference);
            ac.coefficients::<STORE>(&mut bits, &ORDER, block)
        }
        Err(bad) => Err(bad.into()),
    };
    let state = bits.state();
    entropy.bits.keep(state);
    last.map_err(|fault| entropy.fault(fault))
}

/// Decodes a scan of some components into the store of coefficients.
pub(super) fn stored(scan: &Scan, tables: &Tables, entropy: &mut Entropy, store: &mut Store) -> Result<()> {
    let mut coders = Vec::with_capacity(4);
    for c in scan.components() {
        coders.push((tables.dc(c.dc, scan.offset)?, tables.ac(c.ac, scan.offset)?, 0i32));
    }
    store.each_block(scan, entropy, &mut Collect { coders })
}

struct Collect<'a> {
    coders: Vec<(&'a Huffman, &'a Huffman, i32)>,
}

impl Coder for Collect<'_> {
    fn restart(&mut self) {
        for coder in &mut self.coders {
            coder.2 = 0;
        }
    }

    fn block(&mut self, entropy: &mut Entropy, slot: usize, block: &mut [i16; 64]) -> Result<()> {
        let (dc, ac, before) = &mut self.coders[slot];
        one_block::<true>(entropy, dc, ac, before, block)?;
        block[0] = *before as i16;
        Ok(())
    }
}

//! The product of two large matrices on one core: `c += a·b`, all of them row by row.
//!
//! The blocking of Goto and van de Geijn ("Anatomy of high-performance matrix multiplication", 2008): a panel of `b` is
//! packed strip by strip and stays in the last-level cache, a block of `a` is packed row by row and stays in the second
//! level, and the tile of `c` stays in registers. The innermost loop is the one of the dense layers' backward passes.
//!
//! A panel's terms are added up from zero in their order, and the sum is added to `c`: an element of a sum of n products is rounded
//! some n / 256 + 256 times instead of n times.

use super::dense::{Outer, Pieces, tiles};
use super::isa::{Body, Detected, Isa};
use super::memory::Memory;
use super::simd::Simd;
use paceline_base::{Error, Result};

/// Terms of a panel.
const TERMS: usize = 256;
/// Rows of a packed block of `a`: with their terms half a megabyte.
const ROWS: usize = 480;
/// From one packed row of `a` to the next.
const STRIDE: usize = TERMS + 16;
/// Columns of a packed panel of `b`.
const COLUMNS: usize = 4096;

/// Room for packed panels, and the instruction set. One value belongs to one thread.
///
/// ```
/// use paceline_kernels::cpu::Gemm;
/// let mut gemm = Gemm::new()?;
/// let mut c = [1.0; 4];
/// gemm.add_product([2, 3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], &mut c);
/// assert_eq!(c, [5.0, 6.0, 11.0, 12.0]);
/// # Ok::<(), paceline_base::Error>(())
/// ```
pub struct Gemm {
    isa: Detected,
    room: Memory,
}

impl Gemm {
    /// On the best instruction set that the processor has.
    pub fn new() -> Result<Self> {
        Self::with_isa(Isa::detect())
    }

    /// On this instruction set.
    pub fn with_isa(isa: Isa) -> Result<Self> {
        let isa = Detected::new(isa).ok_or_else(|| Error::user(format!("this processor has no {isa}")))?;
        Ok(Self { isa, room: Memory::new(PANEL + ROWS * STRIDE)? })
    }

    /// Bytes that the packed panels take.
    pub fn working_bytes() -> usize {
        (PANEL + ROWS * STRIDE) * size_of::<f32>()
    }

    /// Roundings that a product meets at most, when so many products are added to an element by one call after the other.
    pub fn roundings(calls: impl IntoIterator<Item = usize>) -> usize {
        let of = |(panels, longest): (usize, usize), terms: usize| {
            (panels + terms.div_ceil(TERMS), longest.max(terms.min(TERMS)))
        };
        let (panels, longest) = calls.into_iter().fold((0, 0), of);
        panels + longest
    }

    /// `c += a·b`, with `a` of rows × terms, `b` of terms × columns and `c` of rows × columns.
    ///
    /// # Panics
    /// If a slice has another length than `[rows, terms, columns]` say.
    pub fn add_product(&mut self, [rows, terms, columns]: [usize; 3], a: &[f32], b: &[f32], c: &mut [f32]) {
        assert_eq!(
            (a.len(), b.len(), c.len()),
            (rows * terms, terms * columns, rows * columns),
            "matrices of other sizes than {rows}×{terms}×{columns}"
        );
        let [a, b, c] = [a.as_ptr().cast_mut(), b.as_ptr().cast_mut(), c.as_mut_ptr()];
        let product = Product { a, b, c, rows, terms, columns, room: self.room.as_ptr() };
        // SAFETY: the lengths were compared, `c` is exclusive, and so is the room.
        unsafe { self.isa.run(product) }
    }
}

/// Elements of a packed panel of `b`. All strips are given the same room, at most 64 columns each; they are of nearly equal width, so that
/// little of it is lost: at most one vector of each, when there are few.
const PANEL: usize = TERMS * (COLUMNS + COLUMNS / 3);

struct Product {
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    rows: usize,
    terms: usize,
    columns: usize,
    room: *mut f32,
}

impl Body for Product {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        for (column, columns) in Pieces::new(0, self.columns, COLUMNS) {
            for (term, terms) in Pieces::new(0, self.terms, TERMS) {
                // SAFETY: pieces lie within the matrices.
                unsafe {
                    self.pack_b(s, (term, terms), (column, columns));
                    for (row, rows) in Pieces::new(0, self.rows, ROWS) {
                        self.pack_a((row, rows), (term, terms));
                        self.block(s, (row, rows), terms, (column, columns));
                    }
                }
            }
        }
    }
}

impl Product {
    /// Where packed rows lie.
    #[inline(always)]
    fn factor(&self) -> *mut f32 {
        self.room.wrapping_add(PANEL)
    }

    /// Copies a panel of `b`, strip by strip; each strip's columns of one term lie side by side.
    ///
    /// # Safety
    /// The panel lies within `b`, and is no larger than `TERMS` × `COLUMNS`.
    #[inline(always)]
    unsafe fn pack_b<S: Simd>(&self, s: S, (term, terms): (usize, usize), (column, columns): (usize, usize)) {
        let (width, whole) = (S::TILES.outer.1 * S::LANES, columns / S::LANES);
        let rest = columns - whole * S::LANES;
        // Term by term: the rows of `b` are read as they lie in memory.
        for t in 0..terms {
            // SAFETY: within `b`, and within the room for a panel.
            unsafe {
                let from = self.b.add((term + t) * self.columns + column);
                for (strip, (v, vectors)) in Pieces::new(0, whole, S::TILES.outer.1).enumerate() {
                    let to = self.room.add((strip * TERMS + t) * width);
                    for i in 0..vectors {
                        s.store(to.add(i * S::LANES), s.load(from.add((v + i) * S::LANES)));
                    }
                }
                if rest > 0 {
                    let strip = whole.div_ceil(S::TILES.outer.1);
                    let mask = s.head(rest);
                    let to = self.room.add((strip * TERMS + t) * width);
                    s.store_head(to, mask, s.load_head(from.add(whole * S::LANES), mask));
                }
            }
        }
    }

    /// Copies a block of rows of `a`. They stay rows: the innermost loop takes single values of a few of them, and each is a stream. Packed rows
    /// are a cache line longer than they need be, so that they do not all begin in the same set.
    ///
    /// # Safety
    /// The block lies within `a`, and is no larger than `ROWS` × `TERMS`.
    #[inline(always)]
    unsafe fn pack_a(&self, (row, rows): (usize, usize), (term, terms): (usize, usize)) {
        for i in 0..rows {
            // SAFETY: within `a`, and within the room for a block.
            unsafe {
                let from = self.a.add((row + i) * self.terms + term);
                std::ptr::copy_nonoverlapping(from, self.factor().add(i * STRIDE), terms);
            }
        }
    }

    /// Multiplies a packed block and a packed panel.
    ///
    /// # Safety
    /// Both were packed just now, with these extents.
    #[inline(always)]
    unsafe fn block<S: Simd>(
        &self,
        s: S,
        (row, rows): (usize, usize),
        terms: usize,
        (column, columns): (usize, usize),
    ) {
        let (width, whole) = (S::TILES.outer.1 * S::LANES, columns / S::LANES);
        let rest = columns - whole * S::LANES;
        let strips = Pieces::new(0, whole, S::TILES.outer.1)
            .map(|(v, vectors)| (v * S::LANES, vectors, vectors * S::LANES))
            .chain((rest > 0).then_some((whole * S::LANES, 0, rest)));
        for (strip, (at, vectors, len)) in strips.enumerate() {
            for (i, tile_rows, count) in Pieces::new(0, rows, S::TILES.outer.0).runs() {
                if count == 0 {
                    continue;
                }
                // SAFETY: within the packed operands and within `c`.
                unsafe {
                    let outer = Outer {
                        a: self.factor().add(i * STRIDE),
                        a_i: STRIDE,
                        a_j: 1,
                        a_next: tile_rows * STRIDE,
                        b: self.room.add(strip * TERMS * width),
                        b_stride: width,
                        j: terms,
                        c: self.c.add((row + i) * self.columns + column + at),
                        c_stride: self.columns,
                        add: true,
                        last: true,
                        count,
                    };
                    tiles(s, tile_rows, vectors, len, &outer);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, salt: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7919 + salt * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
    }

    #[test]
    fn products_agree_with_f64_whatever_the_extents() {
        let extents =
            [[1, 1, 1], [7, 300, 33], [130, 17, 200], [500, 257, 70], [3, 520, 4200], [0, 5, 3], [5, 0, 3], [6, 6, 0]];
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let mut gemm = Gemm::with_isa(isa).unwrap();
            for [rows, terms, columns] in extents {
                let (a, b) = (numbers(rows * terms, 1), numbers(terms * columns, 2));
                let mut c = numbers(rows * columns, 3);
                let before = c.clone();
                gemm.add_product([rows, terms, columns], &a, &b, &mut c);
                for i in 0..rows {
                    for j in (0..columns).step_by(1 + columns / 40) {
                        let exact: f64 = f64::from(before[i * columns + j])
                            + (0..terms)
                                .map(|t| f64::from(a[i * terms + t]) * f64::from(b[t * columns + j]))
                                .sum::<f64>();
                        let got = f64::from(c[i * columns + j]);
                        assert!((got - exact).abs() < 1e-6 * (2 + terms) as f64, "{isa} {i} {j}: {got} {exact}");
                    }
                }
            }
        }
    }

    #[test]
    fn long_sums_are_rounded_as_rarely_as_is_said() {
        // Sums that only grow, of products that are all rounded the same way.
        let (rows, terms) = (7, 5000);
        let (a, b) = (vec![1.1; rows * terms], vec![1.1; terms * 20]);
        let mut c = vec![0.0; rows * 20];
        Gemm::new().unwrap().add_product([rows, terms, 20], &a, &b, &mut c);
        let exact = terms as f64 * f64::from(1.1f32).powi(2);
        let bound = Gemm::roundings([terms]) as f64 * f64::from(f32::EPSILON) / 2.0 * exact;
        assert!(c.iter().all(|&c| (f64::from(c) - exact).abs() < bound), "{} {exact} {bound}", c[0]);
    }
}

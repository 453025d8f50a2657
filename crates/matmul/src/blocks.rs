//! How a square matrix is cut into blocks, who holds which, and what each step moves and multiplies.
//!
//! A *placement* says who holds block (i, j) of every matrix. The rest follows: the holder of C(i, j) computes it, as
//! Σₖ A(i, k)·B(k, j), one `k` in each step, and gets the blocks that it does not hold from those who do.
//!
//! **`summa`** (van de Geijn and Watts, 1997): the ranks form a grid of r × c, and block (i, j) lies on rank
//! (i mod r, j mod c). In a step a column of blocks of A travels along the rows of the grid and a row of blocks of B along its columns:
//! each rank receives about n²/r + n²/c elements in all, 2·n²/√p on a square grid.
//!
//! **`diagonal`**: block (i, j) lies on rank (i + j) mod p. Whatever lies across from each other, A(i, j) and A(j, i), is
//! on one rank, so that the trace of A·A, Σ A(i, j)·A(j, i), is computed where both factors are and *nothing moves*. The
//! factors of A(i, k)·B(k, j) are on one rank only where i ≡ j mod p; for a whole product every rank needs nearly all of A and of B,
//! 2·n²·(p − 1)/p elements. A step's blocks come from all ranks alike.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;

/// A square matrix in square blocks; those at the far edges may be smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Rows and columns.
    pub n: usize,
    /// Rows and columns of a block.
    pub block: usize,
}

impl Blocks {
    /// Blocks in a row or column.
    pub fn count(&self) -> usize {
        self.n.div_ceil(self.block)
    }

    /// The first row of block row `i`.
    pub fn start(&self, i: usize) -> usize {
        i * self.block
    }

    /// Rows of block row `i`.
    pub fn extent(&self, i: usize) -> usize {
        self.block.min(self.n - self.start(i))
    }

    /// Elements of block (i, j).
    pub fn len(&self, (i, j): (usize, usize)) -> usize {
        self.extent(i) * self.extent(j)
    }
}

/// Who holds which block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// A grid of ranks.
    Summa,
    /// (i + j) mod p.
    Diagonal,
}

impl Layout {
    /// All of them.
    pub const ALL: [Layout; 2] = [Layout::Summa, Layout::Diagonal];
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Summa => "summa",
            Layout::Diagonal => "diagonal",
        })
    }
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    /// A·B
    Ab,
    /// A·A
    Aa,
    /// The trace of A·A, without the product.
    Trace,
}

/// A factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Matrix {
    /// The left one.
    A,
    /// The right one.
    B,
}

/// A block of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Of which.
    pub matrix: Matrix,
    /// Block row and column.
    pub at: (usize, usize),
}

/// A block on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which.
    pub piece: Piece,
    /// Its holder.
    pub from: usize,
    /// Who needs it.
    pub to: usize,
}

/// What a rank does with two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The left block.
    pub left: Piece,
    /// The right one.
    pub right: Piece,
    /// The block of C that their product is added to; none if only its trace is wanted.
    pub to: Option<(usize, usize)>,
}

/// Which rank holds what, for one product, and the steps that follow from it.
#[derive(Clone, Debug)]
pub struct Placement {
    /// How the matrices are cut.
    pub blocks: Blocks,
    /// What is computed.
    pub product: Product,
    /// Who holds which block.
    pub layout: Layout,
    /// Number of ranks.
    pub ranks: usize,
    /// Rows and columns of the grid.
    pub grid: (usize, usize),
    /// The ranks that hold blocks of C in each block row, and in each block column.
    row_holders: Vec<Vec<usize>>,
    column_holders: Vec<Vec<usize>>,
    held: Vec<Vec<(usize, usize)>>,
}

impl Placement {
    /// The placement of `ranks` ranks.
    pub fn new(layout: Layout, product: Product, blocks: Blocks, ranks: usize) -> Self {
        let rows = (1..=ranks).filter(|r| ranks.is_multiple_of(*r) && r * r <= ranks).max().unwrap_or(1);
        let mut placement = Self {
            blocks,
            product,
            layout,
            ranks,
            grid: (rows, ranks / rows),
            row_holders: Vec::new(),
            column_holders: Vec::new(),
            held: vec![Vec::new(); ranks],
        };
        let holders = |holder: &dyn Fn(usize) -> usize| {
            let mut all: Vec<usize> = (0..blocks.count().min(ranks)).map(holder).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        placement.row_holders = (0..blocks.count()).map(|i| holders(&|j| placement.holder((i, j)))).collect();
        placement.column_holders = (0..blocks.count()).map(|j| holders(&|i| placement.holder((i, j)))).collect();
        let count = blocks.count();
        for at in (0..count * count).map(|at| (at / count, at % count)) {
            let holder = placement.holder(at);
            placement.held[holder].push(at);
        }
        placement
    }

    /// Who holds block (i, j) of every matrix.
    pub fn holder(&self, (i, j): (usize, usize)) -> usize {
        let (rows, columns) = self.grid;
        match self.layout {
            Layout::Summa => i % rows * columns + j % columns,
            Layout::Diagonal => (i + j) % self.ranks,
        }
    }

    /// The blocks of one matrix that a rank holds, row by row.
    pub fn held(&self, rank: usize) -> &[(usize, usize)] {
        &self.held[rank]
    }

    /// The factors that there are.
    pub fn factors(&self) -> &'static [Matrix] {
        if self.product == Product::Ab { &[Matrix::A, Matrix::B] } else { &[Matrix::A] }
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.blocks.count()
    }

    fn right(&self) -> Matrix {
        if self.product == Product::Ab { Matrix::B } else { Matrix::A }
    }

    /// The blocks of step `k` with the ranks that need them, holders included; no block twice.
    fn needed(&self, k: usize) -> Vec<(Piece, Vec<usize>)> {
        let count = self.blocks.count();
        if self.product == Product::Trace {
            // The pairs of row k: A(k, j) stays, and A(j, k) comes to it.
            return (k..count)
                .flat_map(|j| [(k, j), (j, k)].map(|at| (at, j)))
                .filter(|&(at, j)| at == (k, j) || j != k)
                .map(|(at, j)| (Piece { matrix: Matrix::A, at }, vec![self.holder((k, j))]))
                .collect();
        }
        let left = (0..count).map(|i| (Piece { matrix: Matrix::A, at: (i, k) }, self.row_holders[i].clone()));
        let right = (0..count).map(|j| (Piece { matrix: self.right(), at: (k, j) }, self.column_holders[j].clone()));
        let mut all: Vec<(Piece, Vec<usize>)> = left.collect();
        for (j, (piece, ranks)) in right.enumerate() {
            if self.right() == Matrix::A && j == k {
                // In A·A, block (k, k) is both a left and a right factor.
                let others = &mut all[k].1;
                let known: HashSet<usize> = others.iter().copied().collect();
                others.extend(ranks.into_iter().filter(|r| !known.contains(r)));
            } else {
                all.push((piece, ranks));
            }
        }
        all
    }

    /// The blocks that one rank needs in step `k`.
    pub fn needs(&self, k: usize, rank: usize) -> Vec<Piece> {
        self.needed(k).into_iter().filter(|(_, ranks)| ranks.contains(&rank)).map(|(piece, _)| piece).collect()
    }

    /// What moves for step `k`, in the order in which all ranks issue it.
    pub fn moves(&self, k: usize) -> Vec<Move> {
        let moves = self.needed(k).into_iter().flat_map(|(piece, ranks)| {
            let from = self.holder(piece.at);
            ranks.into_iter().filter(move |&to| to != from).map(move |to| Move { piece, from, to })
        });
        moves.collect()
    }

    /// What one rank computes in step `k`.
    pub fn work(&self, k: usize, rank: usize) -> Vec<Work> {
        let piece = |matrix, at| Piece { matrix, at };
        if self.product == Product::Trace {
            let pairs = (k..self.blocks.count()).filter(|&j| self.holder((k, j)) == rank);
            return pairs
                .map(|j| Work { left: piece(Matrix::A, (k, j)), right: piece(Matrix::A, (j, k)), to: None })
                .collect();
        }
        let products = self.held[rank].iter();
        products
            .map(|&(i, j)| Work {
                left: piece(Matrix::A, (i, k)),
                right: piece(self.right(), (k, j)),
                to: Some((i, j)),
            })
            .collect()
    }

    /// Floating-point operations of some work.
    pub fn flops(&self, work: &Work) -> f64 {
        let ((i, k), (_, j)) = (work.left.at, work.right.at);
        let [rows, terms] = [i, k].map(|at| self.blocks.extent(at) as f64);
        2.0 * rows * terms * work.to.map_or(1.0, |_| self.blocks.extent(j) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placements() -> impl Iterator<Item = Placement> {
        let products = [Product::Ab, Product::Aa, Product::Trace];
        (1..=7).flat_map(move |ranks| {
            [(1, 1), (5, 2), (9, 2), (12, 1)].into_iter().flat_map(move |(n, block)| {
                let with = move |layout| products.map(|p| Placement::new(layout, p, Blocks { n, block }, ranks));
                Layout::ALL.into_iter().flat_map(with)
            })
        })
    }

    #[test]
    fn every_block_is_held_once_and_every_factor_is_there_when_it_is_used() {
        for p in placements() {
            let count = p.blocks.count();
            assert_eq!((0..p.ranks).map(|r| p.held(r).len()).sum::<usize>(), count * count);
            let mut flops = 0.0;
            for k in 0..p.steps() {
                let moves = p.moves(k);
                for rank in 0..p.ranks {
                    let came: Vec<_> = moves.iter().filter(|m| m.to == rank).map(|m| m.piece).collect();
                    assert_eq!(came.iter().collect::<HashSet<_>>().len(), came.len(), "nothing comes twice");
                    let needs = p.needs(k, rank);
                    for work in p.work(k, rank) {
                        flops += p.flops(&work);
                        for piece in [work.left, work.right] {
                            assert!(p.holder(piece.at) == rank || came.contains(&piece));
                            assert!(needs.contains(&piece));
                        }
                    }
                }
            }
            let n = p.blocks.n as f64;
            let all = if p.product == Product::Trace { n * n } else { 2.0 * n * n * n };
            assert!(flops >= all && flops <= 2.0 * all, "{flops} of {all}");
        }
    }

    #[test]
    fn on_diagonals_the_trace_moves_nothing() {
        let p = Placement::new(Layout::Diagonal, Product::Trace, Blocks { n: 100, block: 7 }, 5);
        assert!((0..p.steps()).all(|k| p.moves(k).is_empty()));
        let p = Placement::new(Layout::Summa, Product::Trace, Blocks { n: 100, block: 7 }, 5);
        assert!((0..p.steps()).any(|k| !p.moves(k).is_empty()));
    }

    #[test]
    fn a_grid_moves_less_than_diagonals() {
        let moved = |layout| {
            let p = Placement::new(layout, Product::Ab, Blocks { n: 160, block: 10 }, 16);
            (0..p.steps()).map(|k| p.moves(k).len()).sum::<usize>()
        };
        // Of 2 · 16² blocks each goes to 3 others on a grid of 4 × 4, and to 15 on diagonals.
        assert_eq!((moved(Layout::Summa), moved(Layout::Diagonal)), (2 * 256 * 3, 2 * 256 * 15));
    }
}

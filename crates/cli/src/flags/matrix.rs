//! The flags of `paceline matmul`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  paceline matmul --n 20000 --block 2000                        A·B of made matrices, a rank for each core
  paceline matmul --n 8000 --product aa --layout both           both placements, side by side
  paceline matmul --n 20000 --product trace                     the trace of A·A, without the product
  paceline matmul --a a.npy --b b.npy --out c.npy               files as numpy.save writes them
  paceline launch --hosts a:2,b:2 -- matmul --n 20000           a rank in each of four processes

Elements are f32. Made ones are functions of the seed and their place, so that any number of ranks multiplies the same matrices. Every
product is checked with random vectors (Freivalds). Placements: summa is a grid of ranks; diagonal puts block (i, j)
on rank (i + j) mod p, where the trace of A·A needs no transfer. The one that is not run is costed.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Matmul {
    /// Rows and columns of the matrices; those of the files, if given
    #[arg(long, value_name = "N")]
    pub n: Option<usize>,
    /// Rows and columns of a block [default: 1000]
    #[arg(long, value_name = "N")]
    pub block: Option<usize>,
    /// What to compute
    #[arg(long, value_enum, default_value = "ab", value_name = "WHICH")]
    pub product: WhichProduct,
    /// Who holds which block
    #[arg(long, value_enum, default_value = "summa", value_name = "WHICH")]
    pub layout: WhichLayout,
    /// What becomes of the factors
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    pub factors: WhichFactors,
    /// Ranks of each process, of one thread each [default: one for each core; 1 if there are several processes]
    #[arg(long, value_name = "N")]
    pub ranks: Option<usize>,
    /// Read A from this .npy file (two-dimensional, <f4 or <f8, row by row)
    #[arg(long, value_name = "FILE")]
    pub a: Option<PathBuf>,
    /// Read B from this .npy file
    #[arg(long, value_name = "FILE")]
    pub b: Option<PathBuf>,
    /// Write the product to this .npy file; it must not exist
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Most memory of each process, such as 4GB [default: 90 % of what is free, shared by the processes of a host]
    #[arg(long, value_name = "SIZE", value_parser = paceline::text::parse_bytes)]
    pub memory: Option<u64>,
    /// Decides the elements of made matrices
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Add this to one element of the product before it is checked
    #[arg(long, hide = true, value_name = "X")]
    pub inject_error: Option<f32>,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum WhichProduct {
    /// A·B
    Ab,
    /// A·A
    Aa,
    /// The trace of A·A, without the product
    Trace,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum WhichLayout {
    /// A grid of ranks
    Summa,
    /// Block (i, j) on rank (i + j) mod p
    Diagonal,
    /// One after the other
    Both,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum WhichFactors {
    /// Stored, if memory allows
    Auto,
    /// Kept by their holders, and sent
    Stored,
    /// Made or read by whoever needs them
    Fresh,
}

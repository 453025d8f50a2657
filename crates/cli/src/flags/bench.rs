//! The flags of `paceline bench`.

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub command: BenchCommand,
}

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Each kernel of a training step: time, GFLOP/s and share of the peak
    #[command(after_help = "\
Examples:
  paceline bench kernels
  paceline bench kernels --model alexnet --batch 128 --threads 2
  paceline bench kernels --model my-model.toml --input 64x64x3 --classes 10
  paceline bench kernels --forget                   what was measured while the machine was busy

Floating-point operations are counted by the definition of a layer. Winograd's transforms need fewer, so that a
convolution may show more than the peak.")]
    Kernels(BenchKernels),
}

#[derive(Args)]
pub(crate) struct BenchKernels {
    /// A preset, or a model file
    #[arg(long, default_value = "flowers-cnn", value_name = "NAME|FILE")]
    pub model: String,
    /// Shape of a sample; what the preset is known for, if not given
    #[arg(long, value_name = "HxWxC", value_parser = shape)]
    pub input: Option<Shape>,
    /// Number of classes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub classes: Option<u32>,
    /// Samples of a step
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,
    /// Threads of the kernels
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Steps that are timed; medians are shown
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// Remove the kept choices of convolution kernels and measure nothing: those of this kind of processor, or of all
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "this")]
    pub forget: Option<Forget>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Whose kernel choices are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Forget {
    /// Those of this kind of processor
    This,
    /// All of them
    All,
}

/// A sample's shape, as typed.
#[derive(Clone, Debug)]
pub(crate) struct Shape(pub Vec<usize>);

fn shape(text: &str) -> Result<Shape, String> {
    let axes: Option<Vec<usize>> = text.split('x').map(|n| n.parse().ok().filter(|&n| n > 0)).collect();
    axes.map(Shape).ok_or_else(|| "give positive numbers with x between them, such as 192x192x3".into())
}

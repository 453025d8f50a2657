//! Devices and their kernels: the fast [`Cpu`] and the obvious f64 [`Reference`].
//!
//! A [`Device`] owns memory and executes [`Call`](paceline_base::kernel::Call)s on buffers known by number. It knows
//! nothing of graphs, ranks or files. `Reference` is the twin of every kernel: slow, in f64, with opaque buffers, so that a test on it
//! proves that the engine assumes no host memory.

mod contract;
pub mod cpu;
pub mod device;
pub mod reference;
pub mod tuning;

pub use cpu::{Cpu, CpuOptions, Isa};
pub use device::{Device, Event, Staging};
pub use reference::Reference;
pub use tuning::Tuning;

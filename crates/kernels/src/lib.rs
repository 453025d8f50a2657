//! Devices and their kernels: the fast [`Cpu`] and the obvious f64 [`Reference`].
//!
//! A [`Device`] owns memory and executes [`Call`](paceline_base::kernel::Call)s on buffers known by number. It knows
//! nothing of graphs, ranks or files. `Reference` is the twin of every kernel: slow, in f64, with opaque buffers, so that a test on it
//! proves that the engine assumes no host memory.
//!
//! ```
//! use paceline_base::kernel::{Arena, BufferId, Call, Kernel, StepArgs, Values};
//! use paceline_base::op::Activation;
//! use paceline_kernels::{Cpu, CpuOptions, Device, Reference};
//!
//! // Two buffers of three elements, and one kernel on them: y = max(x, 0).
//! let arena = |device: &dyn Device| Arena::of(device.dtype(), 32, &[(0, 3), (16, 3)]);
//! let (x, y) = (BufferId(0), BufferId(1));
//! let call = Call { kernel: Kernel::Activate { function: Activation::Relu, len: 3 }, args: vec![x, y] };
//! let devices: [Box<dyn Device>; 2] = [Box::new(Cpu::new(CpuOptions::default())?), Box::new(Reference::new())];
//! for mut device in devices {
//!     device.allocate(&arena(&device))?;
//!     device.prepare(&mut std::iter::once(&call.kernel))?;
//!     device.load(x, 0, Values::F64(&[-1.0, 0.5, 2.0]))?;
//!     let done = device.submit(&call, &StepArgs { seed: 0, step: 0, rate: 0.0, scale: 1.0 })?;
//!     device.wait(done)?;
//!     let mut result = [0.0; 3];
//!     device.read(y, &mut result)?;
//!     assert_eq!(result, [0.0, 0.5, 2.0]);
//! }
//! # Ok::<(), paceline_base::Error>(())
//! ```

mod contract;
pub mod cpu;
mod device;
mod devices;
mod lists;
mod loans;
pub mod reference;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tuning;

pub use cpu::{Cpu, CpuOptions, Isa};
pub use device::{Busy, Device, Event, Put, Work};
pub use devices::DeviceOptions;
pub use reference::Reference;
pub use tuning::Tuning;

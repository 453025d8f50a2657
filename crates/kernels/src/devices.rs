//! The one place where devices are made, and where questions about them are answered without making one.

use crate::cpu::{self, Cpu, CpuOptions, Isa};
use crate::device::Device;
use crate::tuning::Tuning;
use paceline_base::Result;
use paceline_base::kernel::{DeviceKind, Kernel};

/// Which device a rank gets.
///
/// ```
/// use paceline_kernels::{Device, DeviceOptions};
/// let options = DeviceOptions { threads: 2, ..DeviceOptions::default() };
/// let device = options.make()?;
/// assert_eq!(device.describe(), options.describe()?);
/// assert_eq!(device.kind(), options.kind());
/// # Ok::<(), paceline_base::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// Threads per kernel, the rank's own included; 0 means 1.
    pub threads: usize,
    /// The core that the rank's thread is bound to, if it is.
    pub core: Option<usize>,
    /// The instruction set; the best that the processor has if none is given.
    pub isa: Option<Isa>,
    /// Kernel choices from an earlier run; heuristics if none are given. `isa` must then be absent or the same.
    pub tuning: Option<Tuning>,
}

impl DeviceOptions {
    fn cpu(&self) -> CpuOptions {
        let Self { threads, core, isa, tuning } = self.clone();
        CpuOptions { threads, cores: core.map(|core| vec![core]), isa, tuning }
    }

    /// The device. With a core it binds the calling thread when it allocates: only the rank's own thread may call that.
    pub fn make(&self) -> Result<Box<dyn Device>> {
        Ok(Box::new(Cpu::new(self.cpu())?))
    }

    /// The kernel choices that it will use: save them, and give them to the device that resumes the run.
    pub fn tuning(&self) -> Result<Tuning> {
        cpu::choose(self.isa, self.tuning.clone())
    }

    /// What lowering has to know of it.
    pub fn kind(&self) -> DeviceKind {
        DeviceKind::new(cpu::DTYPE, &cpu::FUSIONS)
    }

    /// For people, as [`Device::describe`].
    pub fn describe(&self) -> Result<String> {
        Ok(cpu::describe(self.tuning()?.isa, self.threads))
    }

    /// Bytes of working memory, beside the arena, that it will need for these kernels.
    pub fn working_bytes(&self, kernels: &mut dyn Iterator<Item = &Kernel>) -> Result<usize> {
        cpu::working_bytes(&self.tuning()?, self.threads, kernels)
    }
}

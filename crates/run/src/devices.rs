//! The devices of a run's ranks.

use crate::resolve::Layout;
use paceline_kernels::{DeviceOptions, Tuning};

/// The device that each rank of a layout gets. Ranks are not bound to cores unless one is named: on a machine where anything else runs, a bound
/// rank waits for its core while the other is free, and all ranks wait for it (beside a compiler, 2 to 14 times slower; not compared on an idle
/// machine).
pub(crate) fn of_layout(layout: &Layout, tuning: Option<&Tuning>) -> DeviceOptions {
    DeviceOptions { threads: layout.threads, core: layout.core, tuning: tuning.cloned(), isa: None }
}

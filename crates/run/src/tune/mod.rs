//! What is found out on this machine before the first step: how many replicas and threads are fastest, which convolution kernels, how
//! large buckets should be, and whether the run fits into memory. Each answer comes with its reason, and none is sought twice in one run.

pub(crate) mod bucket;
pub(crate) mod kernels;
pub(crate) mod memory;
pub(crate) mod trial;

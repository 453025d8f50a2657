//! Devices and their kernels: the fast Cpu and the obvious f64 Reference

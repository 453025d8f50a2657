//! The name of this host.

/// The name that this host gives itself; `localhost` where the system does not say. It need not be one that other hosts resolve.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".into(),
        name => name.into(),
    }
}

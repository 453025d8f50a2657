//! `cluster.toml`: what hosts and the links between them were measured to do. `paceline doctor` writes it, planning reads it.
//!
//! ```toml
//! format = 1
//!
//! [[host]]
//! name = "a"
//! cpu = "Xeon"                        # the processor's model
//! isa = "avx512"                      # the instruction set of the kernels
//! cores = 2                           # that a process may use
//! flops_per_core = 1.2e11             # f32 operations per second of a product of large matrices, one core alone
//! flops = 2.3e11                      # the same, all cores at once
//! memory_bytes = 16_000_000_000
//! memory_bandwidth_per_core = 1.1e10  # bytes per second read and written by a large copy, one core alone
//! memory_bandwidth = 1.6e10           # all cores at once
//! disk_write = 4.0e8                  # bytes per second, brought to the disk
//! disk_read = 1.5e9                   # bytes per second, from the disk
//! disk_sync_s = 0.002                 # seconds until a small write is on the disk
//!
//! [[host]]
//! # … b, with the same keys
//! # [[link]]                          # one for each pair of hosts
//! # hosts = ["a", "b"]
//! # latency_s = 0.00005               # seconds until a small message arrives
//! # bandwidth = 2.2e8                 # bytes per second of large messages, in the slower direction
//! ```
//!
//! Optional keys: `peak_flops_per_core` (multiply-adds on registers only), and those of the disk. Files of format 1 have no others; since format 2 there are, for
//! predicted times:
//!
//! ```toml
//! # of a host
//! step_s = 0.000002                                   # seconds of a step beside its kernels and messages
//! threads_exchange = [[64, 1.0e-6], [1e6, 2.0e-4]]    # all-reduce of two threads: bytes, seconds
//! [host.processes]                                    # two processes of this host
//! latency_s = 0.000001
//! bandwidth = 4.0e9
//! exchange = [[64, 2.0e-6], [1e6, 8.0e-4]]            # all-reduce of two processes: bytes, seconds
//! slows = 0.3                                         # seconds of computing lost for each second of it
//! [host.kernels]                                      # by kind and sizes: operations, bytes, and seconds: one core alone,
//! "dense-forward 32 128 784" = [6.4e6, 5.2e5, 8.0e-5, 8.1e-5, 5.0e-5]    # each core for itself, all cores together
//! # of a link: `exchange` and `slows`
//! ```

mod check;
#[cfg(test)]
mod tests;

use paceline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was measured of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterFile {
    format: u32,
    /// One for each host that was measured.
    #[serde(rename = "host")]
    pub hosts: Vec<Host>,
    /// The links, one for each pair of hosts.
    #[serde(rename = "link", default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
}

/// One host with its measured speeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// As it calls itself.
    pub name: String,
    /// The processor's model.
    pub cpu: String,
    /// The instruction set of the kernels.
    pub isa: String,
    /// Cores that a process may use.
    pub cores: usize,
    /// Multiply-adds on registers, counted as two operations, of one core alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_flops_per_core: Option<f64>,
    /// Operations per second of a product of large matrices, one core alone.
    pub flops_per_core: f64,
    /// The same, all cores at once.
    pub flops: f64,
    /// Memory of the host.
    pub memory_bytes: u64,
    /// Bytes per second of a large copy, read and written, one core alone.
    pub memory_bandwidth_per_core: f64,
    /// The same, all cores at once.
    pub memory_bandwidth: f64,
    /// Bytes per second that reach the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_write: Option<f64>,
    /// Bytes per second that come from the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_read: Option<f64>,
    /// Seconds until a small write is on the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_sync_s: Option<f64>,
    /// Seconds of a training step beside its kernels and messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_s: Option<f64>,
    /// All-reduces of two threads: bytes that each brings, and seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads_exchange: Option<Vec<[f64; 2]>>,
    /// Between two processes of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessLink>,
    /// Kernels by kind and sizes ([`KernelShape`](crate::KernelShape)): operations, bytes and three times ([`KernelTime`](crate::KernelTime)).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, [f64; 5]>,
}

/// Between two processes of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessLink {
    /// Seconds until a small message arrives.
    pub latency_s: f64,
    /// Bytes per second of large messages, in the slower direction.
    pub bandwidth: f64,
    /// All-reduces of two processes: bytes that each brings, and seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Vec<[f64; 2]>>,
    /// Seconds of computing that a rank loses for each second of an exchange meanwhile; 1 and more where moving numbers takes a core's whole time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slows: Option<f64>,
}

/// The link between two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// The names of the two, in any order.
    pub hosts: [String; 2],
    /// Seconds until a small message arrives.
    pub latency_s: f64,
    /// Bytes per second of large messages, in the slower direction.
    pub bandwidth: f64,
    /// All-reduces of two processes, one on each host: bytes that each brings, and seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Vec<[f64; 2]>>,
    /// Seconds of computing that a rank loses for each second of an exchange meanwhile; 1 and more where moving numbers takes a core's whole time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slows: Option<f64>,
}

/// The newest format, which is written. Format 1 has no kernels and no exchanges.
const FORMAT: u32 = 2;

impl ClusterFile {
    /// Of hosts and links that were measured.
    ///
    /// # Errors
    /// If they contradict one another, or a figure is none.
    pub fn new(hosts: Vec<Host>, links: Vec<Link>) -> Result<Self> {
        let file = Self { format: FORMAT, hosts, links };
        file.check().map_err(Error::user)?;
        Ok(file)
    }

    /// Reads the text of a file; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Self> {
        let fail = |e: String| Error::user(format!("cluster file {path}: {}", e.trim().replace('\n', " ")));
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| fail(e.to_string()))?;
        match table.get("format").and_then(toml::Value::as_integer) {
            Some(1..=2) => {}
            Some(n) => {
                return Err(fail(format!("format {n} is not one that this program reads (1 and 2); update paceline")));
            }
            None => return Err(fail("the line `format = 2` is missing".into())),
        }
        check::keys(&table).map_err(fail)?;
        let file: Self = toml::Value::Table(table).try_into().map_err(|e: toml::de::Error| fail(e.to_string()))?;
        file.check().map_err(fail)?;
        Ok(file)
    }

    /// The text of a file.
    pub fn to_toml(&self) -> String {
        let body = toml::to_string(self).expect("plain data");
        format!(
            "# What hosts and links were measured to do. Written by `paceline doctor`; units are bytes and seconds.\n# Kernels: operations, bytes, then seconds: \
             one core alone, each core for itself, all cores together. Exchanges: bytes, seconds.\n{body}"
        )
    }

    /// The link between two hosts.
    pub fn link(&self, a: &str, b: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.joins(a, b))
    }
}

impl Link {
    /// Whether it joins these two.
    pub fn joins(&self, a: &str, b: &str) -> bool {
        let [x, y] = &self.hosts;
        (x == a && y == b) || (x == b && y == a)
    }
}

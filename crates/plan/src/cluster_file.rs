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
//! Optional keys: `peak_flops_per_core` (multiply-adds on registers only), and those of the disk.

use crate::simulate::Cluster;
use paceline_base::text::did_you_mean;
use paceline_base::{Error, Result};
use serde::{Deserialize, Serialize};

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
}

const KEYS: [&str; 3] = ["format", "host", "link"];
const HOST_KEYS: [&str; 13] = [
    "name",
    "cpu",
    "isa",
    "cores",
    "peak_flops_per_core",
    "flops_per_core",
    "flops",
    "memory_bytes",
    "memory_bandwidth_per_core",
    "memory_bandwidth",
    "disk_write",
    "disk_read",
    "disk_sync_s",
];
const LINK_KEYS: [&str; 3] = ["hosts", "latency_s", "bandwidth"];

impl ClusterFile {
    /// Of hosts and links that were measured.
    ///
    /// # Errors
    /// If they contradict one another, or a figure is none.
    pub fn new(hosts: Vec<Host>, links: Vec<Link>) -> Result<Self> {
        let file = Self { format: 1, hosts, links };
        file.check().map_err(Error::user)?;
        Ok(file)
    }

    /// Reads the text of a file; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Self> {
        let fail = |e: String| Error::user(format!("cluster file {path}: {}", e.trim().replace('\n', " ")));
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| fail(e.to_string()))?;
        match table.get("format").and_then(toml::Value::as_integer) {
            Some(1) => {}
            Some(n) => return Err(fail(format!("format {n} is newer than this program reads (1); update paceline"))),
            None => return Err(fail("the line `format = 1` is missing".into())),
        }
        known(&table, "", &KEYS).map_err(fail)?;
        for (section, keys) in [("host", &HOST_KEYS[..]), ("link", &LINK_KEYS[..])] {
            let entries = table.get(section).and_then(toml::Value::as_array);
            for entry in entries.into_iter().flatten().filter_map(toml::Value::as_table) {
                known(entry, &format!(" in [[{section}]]"), keys).map_err(fail)?;
            }
        }
        let file: Self = toml::Value::Table(table).try_into().map_err(|e: toml::de::Error| fail(e.to_string()))?;
        file.check().map_err(fail)?;
        Ok(file)
    }

    /// The text of a file.
    pub fn to_toml(&self) -> String {
        let body = toml::to_string(self).expect("plain data");
        format!(
            "# What hosts and links were measured to do. Written by `paceline doctor`; units are bytes and seconds.\n{body}"
        )
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.hosts.is_empty() {
            return Err("there is no [[host]]; paceline doctor writes them".into());
        }
        let positive = |who: &str, key: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                return Ok(());
            }
            Err(format!("{who}: {key} is {value}; give a positive number"))
        };
        for (i, host) in self.hosts.iter().enumerate() {
            let who = format!("host {}", host.name);
            if host.name.trim().is_empty() {
                return Err(format!("host {} has no name", i + 1));
            }
            if self.hosts[..i].iter().any(|other| other.name == host.name) {
                return Err(format!("{who} is there twice; give every host its own name"));
            }
            positive(&who, "cores", host.cores as f64)?;
            positive(&who, "flops_per_core", host.flops_per_core)?;
            positive(&who, "flops", host.flops)?;
            positive(&who, "memory_bytes", host.memory_bytes as f64)?;
            positive(&who, "memory_bandwidth_per_core", host.memory_bandwidth_per_core)?;
            positive(&who, "memory_bandwidth", host.memory_bandwidth)?;
            let optional = [
                ("peak_flops_per_core", host.peak_flops_per_core),
                ("disk_write", host.disk_write),
                ("disk_read", host.disk_read),
                ("disk_sync_s", host.disk_sync_s),
            ];
            optional.into_iter().try_for_each(|(key, value)| value.map_or(Ok(()), |v| positive(&who, key, v)))?;
        }
        for link in &self.links {
            let [a, b] = &link.hosts;
            let who = format!("link {a} – {b}");
            if let Some(unknown) = link.hosts.iter().find(|name| self.hosts.iter().all(|h| h.name != **name)) {
                let names = self.hosts.iter().map(|h| &h.name[..]);
                return Err(format!("{who}: there is no [[host]] {unknown}{}", did_you_mean(unknown, names)));
            }
            if a == b {
                return Err(format!("{who}: a link needs two hosts"));
            }
            if self.links.iter().filter(|other| other.joins(a, b)).count() > 1 {
                return Err(format!("{who} is there twice; keep one"));
            }
            positive(&who, "latency_s", link.latency_s)?;
            positive(&who, "bandwidth", link.bandwidth)?;
        }
        for (i, a) in self.hosts.iter().enumerate() {
            if let Some(b) = self.hosts[..i].iter().find(|b| self.link(&a.name, &b.name).is_none()) {
                return Err(format!("no [[link]] joins {} and {}; measure again with all hosts", b.name, a.name));
            }
        }
        Ok(())
    }

    /// The link between two hosts.
    pub fn link(&self, a: &str, b: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.joins(a, b))
    }

    /// What the simulator takes, with a rank on every core: the slowest host and the slowest link stand for all. On one host ranks
    /// are threads, and a message is a copy.
    pub fn cluster(&self) -> Cluster {
        let least = |of: &dyn Fn(&Host) -> f64| self.hosts.iter().map(of).fold(f64::INFINITY, f64::min);
        let memory = least(&|h| h.memory_bandwidth / h.cores as f64);
        let threads = Cluster::threads();
        // A copy reads and writes, so that a byte that moves is two of memory.
        let link = self.links.iter().map(|l| l.bandwidth).fold(memory / 2.0, f64::min);
        let latency = self.links.iter().map(|l| l.latency_s).fold(threads.latency, f64::max);
        Cluster { flops: least(&|h| h.flops / h.cores as f64), memory, link, latency, ..threads }
    }
}

impl Link {
    /// Whether it joins these two.
    pub fn joins(&self, a: &str, b: &str) -> bool {
        let [x, y] = &self.hosts;
        (x == a && y == b) || (x == b && y == a)
    }
}

fn known(table: &toml::Table, place: &str, keys: &[&str]) -> std::result::Result<(), String> {
    match table.keys().find(|key| !keys.contains(&&key[..])) {
        Some(key) => Err(format!("unknown key {key}{place}{}", did_you_mean(key, keys.iter().copied()))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(name: &str, speed: f64) -> Host {
        Host {
            name: name.into(),
            cpu: "Xeon \"2\"".into(),
            isa: "avx512".into(),
            cores: 2,
            peak_flops_per_core: Some(2e11),
            flops_per_core: 1.3e11 * speed,
            flops: 2.4e11 * speed,
            memory_bytes: 16_000_000_000,
            memory_bandwidth_per_core: 1.1e10,
            memory_bandwidth: 1.6e10,
            disk_write: Some(4e8),
            disk_read: None,
            disk_sync_s: Some(0.002),
        }
    }

    fn link(a: &str, b: &str, bandwidth: f64) -> Link {
        Link { hosts: [a.into(), b.into()], latency_s: 5e-5, bandwidth }
    }

    fn three() -> ClusterFile {
        let hosts = vec![host("a", 1.0), host("b", 0.5), host("c", 1.0)];
        ClusterFile::new(hosts, vec![link("a", "b", 2e8), link("b", "c", 1e8), link("c", "a", 2e8)]).unwrap()
    }

    #[test]
    fn the_slowest_stands_for_all() {
        let cluster = three().cluster();
        assert_eq!((cluster.flops, cluster.link, cluster.latency), (0.6e11, 1e8, 5e-5));
        let alone = ClusterFile::new(vec![host("a", 1.0)], vec![]).unwrap().cluster();
        assert_eq!((alone.flops, alone.memory, alone.link), (1.2e11, 8e9, 4e9));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let text = three().to_toml();
        let refused = |from: &str, to: &str, expected: &str| {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            let error = ClusterFile::parse(&changed, "c.toml").expect_err(expected);
            assert!(error.message().contains(expected) && error.message().contains("c.toml"), "{error}");
        };
        refused("format = 1", "format = 2", "newer than this program reads");
        refused("format = 1\n", "", "`format = 1` is missing");
        refused("cores = 2", "cores = 0", "cores is 0");
        refused("cores = 2", "cores = -2", "c.toml");
        refused("cores = 2", "coers = 2", "unknown key coers in [[host]]; did you mean cores?");
        refused("[[link]]", "[[lnik]]", "unknown key lnik; did you mean link?");
        refused("name = \"a\"", "name = \"b\"", "host b is there twice");
        refused("name = \"a\"", "name = \" \"", "has no name");
        refused("hosts = [\"b\", \"c\"]", "hosts = [\"b\", \"d\"]", "no [[host]] d");
        refused("hosts = [\"b\", \"c\"]", "hosts = [\"b\", \"b\"]", "needs two hosts");
        refused("hosts = [\"b\", \"c\"]", "hosts = [\"b\", \"a\"]", "is there twice");
        refused("hosts = [\"b\", \"c\"]", "hosts = [\"b\"]", "c.toml");
        refused("latency_s = 0.00005", "latency_s = nan", "latency_s is NaN");
        refused("bandwidth = 200000000.0", "bandwidth = -1.0", "bandwidth is -1");
        refused("flops = ", "# flops = ", "missing field `flops`");
        let last = text.rfind("[[link]]").unwrap();
        let error = ClusterFile::parse(&text[..last], "c.toml").unwrap_err();
        assert!(error.message().contains("no [[link]] joins a and c"), "{error}");
        assert!(ClusterFile::parse("format = 1\nhost = []", "c.toml").is_err());
        assert!(ClusterFile::parse("format = 1", "c.toml").is_err());
        assert!(ClusterFile::parse("host = 7\nformat = 1", "c.toml").is_err());
        assert!(ClusterFile::parse("\u{0}", "c.toml").is_err());
    }

    proptest! {
        #[test]
        fn files_come_back_as_they_were_written(
            figures in prop::collection::vec((1e-9f64..1e15, 1usize..1000, prop::option::of(1e-9f64..1e15)), 1..5),
            bandwidth in 1e-6f64..1e12,
        ) {
            let hosts: Vec<Host> = figures
                .iter()
                .enumerate()
                .map(|(i, &(flops, cores, disk))| Host { cores, flops, disk_read: disk, ..host(&format!("h{i}\"\\"), 1.0) })
                .collect();
            let pairs = (0..hosts.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
            let links = pairs.map(|(i, j)| link(&hosts[i].name, &hosts[j].name, bandwidth)).collect();
            let file = ClusterFile::new(hosts, links).unwrap();
            prop_assert_eq!(ClusterFile::parse(&file.to_toml(), "c.toml").unwrap(), file);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(format = 1\n)?[\\[\\]a-z0-9=\" .\n]{0,80}") {
            let _ = ClusterFile::parse(&text, "c.toml");
        }
    }
}

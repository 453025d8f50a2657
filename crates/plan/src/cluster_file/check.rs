//! What is wrong with a cluster file, in words: keys that do not exist, figures that are none or cannot be.

use super::{ClusterFile, ProcessLink};
use crate::cost::{ExchangeCosts, KernelCosts};
use paceline_base::text::did_you_mean;
use std::ops::RangeInclusive;

const KEYS: [&str; 3] = ["format", "host", "link"];
const HOST_KEYS: [&str; 17] = [
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
    "step_s",
    "threads_exchange",
    "processes",
    "kernels",
];
const LINK_KEYS: [&str; 5] = ["hosts", "latency_s", "bandwidth", "exchange", "slows"];
const PROCESS_KEYS: [&str; 4] = ["latency_s", "bandwidth", "exchange", "slows"];

type Checked = Result<(), String>;

/// Beyond these a figure is a slip: wrong by the factor of a unit, or a word for "unknown".
const FLOPS: RangeInclusive<f64> = 1e5..=1e18;
const BYTES_PER_SECOND: RangeInclusive<f64> = 1e2..=1e15;
const LATENCY: RangeInclusive<f64> = 1e-9..=60.0;
const SECONDS: RangeInclusive<f64> = 1e-10..=1e4;

/// Keys that nobody knows.
pub(super) fn keys(table: &toml::Table) -> Checked {
    known(table, "", &KEYS)?;
    for (section, keys) in [("host", &HOST_KEYS[..]), ("link", &LINK_KEYS[..])] {
        let entries = table.get(section).and_then(toml::Value::as_array);
        for entry in entries.into_iter().flatten().filter_map(toml::Value::as_table) {
            known(entry, &format!(" in [[{section}]]"), keys)?;
            if let Some(processes) = entry.get("processes").and_then(toml::Value::as_table) {
                known(processes, " in [host.processes]", &PROCESS_KEYS)?;
            }
        }
    }
    Ok(())
}

fn known(table: &toml::Table, place: &str, keys: &[&str]) -> Checked {
    match table.keys().find(|key| !keys.contains(&&key[..])) {
        Some(key) => Err(format!("unknown key {key}{place}{}", did_you_mean(key, keys.iter().copied()))),
        None => Ok(()),
    }
}

/// A figure that is a number, positive, and possible.
fn figure(who: &str, key: &str, value: f64, possible: &RangeInclusive<f64>) -> Checked {
    if !value.is_finite() || value <= 0.0 {
        return Err(format!("{who}: {key} is {value}; give a positive number"));
    }
    if !possible.contains(&value) {
        return Err(format!(
            "{who}: {key} is {value:e}, which cannot be (expected {:e} to {:e}); units are bytes and seconds, without prefixes",
            possible.start(),
            possible.end()
        ));
    }
    Ok(())
}

/// What was measured of exchanges over a connection.
fn exchange(who: &str, points: Option<&[[f64; 2]]>, slows: Option<f64>) -> Checked {
    if let Some(problem) = points.and_then(ExchangeCosts::problem) {
        return Err(format!("{who}: exchange {problem}"));
    }
    match slows {
        Some(lost) if !(0.0..=100.0).contains(&lost) => {
            Err(format!("{who}: slows is {lost}; give seconds lost for each second, from 0 to 100"))
        }
        _ => Ok(()),
    }
}

impl ClusterFile {
    pub(super) fn check(&self) -> Checked {
        if self.hosts.is_empty() {
            return Err("there is no [[host]]; paceline doctor writes them".into());
        }
        for (i, host) in self.hosts.iter().enumerate() {
            let who = format!("host {}", host.name);
            if host.name.trim().is_empty() {
                return Err(format!("host {} has no name", i + 1));
            }
            if self.hosts[..i].iter().any(|other| other.name == host.name) {
                return Err(format!("{who} is there twice; give every host its own name"));
            }
            let figures = [
                ("cores", Some(host.cores as f64), &(1.0..=1e6)),
                ("flops_per_core", Some(host.flops_per_core), &FLOPS),
                ("flops", Some(host.flops), &FLOPS),
                ("memory_bytes", Some(host.memory_bytes as f64), &(1.0..=1e16)),
                ("memory_bandwidth_per_core", Some(host.memory_bandwidth_per_core), &BYTES_PER_SECOND),
                ("memory_bandwidth", Some(host.memory_bandwidth), &BYTES_PER_SECOND),
                ("peak_flops_per_core", host.peak_flops_per_core, &FLOPS),
                ("disk_write", host.disk_write, &BYTES_PER_SECOND),
                ("disk_read", host.disk_read, &BYTES_PER_SECOND),
                ("disk_sync_s", host.disk_sync_s, &SECONDS),
                ("step_s", host.step_s, &SECONDS),
            ];
            for (key, value, possible) in figures {
                value.map_or(Ok(()), |value| figure(&who, key, value, possible))?;
            }
            exchange(&format!("{who}, threads_exchange"), host.threads_exchange.as_deref(), None)?;
            if let Some(ProcessLink { latency_s, bandwidth, exchange: points, slows }) = &host.processes {
                let who = format!("{who}, processes");
                figure(&who, "latency_s", *latency_s, &LATENCY)?;
                figure(&who, "bandwidth", *bandwidth, &BYTES_PER_SECOND)?;
                exchange(&who, points.as_deref(), *slows)?;
            }
            KernelCosts::new(host.flops_per_core, host.memory_bandwidth_per_core, host.kernels.iter())
                .map_err(|e| format!("{who}: {e}"))?;
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
            figure(&who, "latency_s", link.latency_s, &LATENCY)?;
            figure(&who, "bandwidth", link.bandwidth, &BYTES_PER_SECOND)?;
            exchange(&who, link.exchange.as_deref(), link.slows)?;
        }
        for (i, a) in self.hosts.iter().enumerate() {
            if let Some(b) = self.hosts[..i].iter().find(|b| self.link(&a.name, &b.name).is_none()) {
                return Err(format!("no [[link]] joins {} and {}; measure again with all hosts", b.name, a.name));
            }
        }
        Ok(())
    }
}

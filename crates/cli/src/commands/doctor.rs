//! `paceline doctor`

use crate::flags::doctor::Doctor;
use crate::flags::{Cli, Command};
use crate::screen::{self, say};
use crate::signals::End;
use clap::Parser;
use paceline::comm::World;
use paceline::doctor::{Diagnosis, HostReport, Warning, doctor, warnings, write_cluster_file};
use paceline::text::{bytes, duration, si};
use paceline::{Error, Result};
use serde::Serialize;
use std::fmt::Write;

#[derive(Serialize)]
struct Output<'a> {
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    warnings: &'a [Warning],
}

/// Runs the command.
pub fn run(flags: &Doctor, log: &str) -> Result<End> {
    if flags.out.is_dir() {
        return Err(Error::user(format!("--out {} is a folder; give the name of a file", flags.out.display())));
    }
    match &flags.hosts {
        Some(hosts) => over(hosts, flags, log),
        None => {
            let mut world = World::from_env()?;
            let result = examine(flags, &mut world);
            if result.is_err() {
                world.abandon();
            }
            result.map(End::from)
        }
    }
}

/// The same through `paceline launch`: one process on each host.
fn over(hosts: &str, flags: &Doctor, log: &str) -> Result<End> {
    let [out, dir] = [&flags.out, &flags.dir].map(|path| path.display().to_string());
    let mut words =
        vec!["paceline", "launch", "--quiet", "--hosts", hosts, "--", "doctor", "--out", &out, "--dir", &dir];
    words.extend(
        [(flags.json, "--json"), (flags.quiet, "--quiet")].iter().filter(|(given, _)| *given).map(|(_, flag)| flag),
    );
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Launch(launch)) => super::launch::run(&launch, log),
        Ok(_) => Err(Error::internal("launch is not launch")),
        Err(e) => Err(Error::user(e.to_string().lines().next().unwrap_or("").trim_start_matches("error: "))),
    }
}

fn examine(flags: &Doctor, world: &mut World) -> Result<()> {
    let shows = world.process() == 0;
    let tell = |what: &str| {
        if shows && !flags.quiet {
            eprintln!("measuring: {what}");
        }
    };
    let diagnosis = doctor(&flags.dir, world, &tell)?;
    if !shows {
        return Ok(());
    }
    let kept = write_cluster_file(&flags.out, &diagnosis.cluster_file()?)?;
    let warnings = warnings(&diagnosis);
    if flags.json {
        let output = Output { diagnosis: &diagnosis, warnings: &warnings };
        let text = serde_json::to_string_pretty(&output).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&text);
        return Ok(());
    }
    screen::print(&table(&diagnosis, &warnings));
    say!("written to {}", flags.out.display());
    if let Some(kept) = kept {
        say!("the one before is kept as {}", kept.display());
    }
    Ok(())
}

fn table(diagnosis: &Diagnosis, warnings: &[Warning]) -> String {
    let mut head: Vec<String> = vec![String::new()];
    head.extend(diagnosis.hosts.iter().map(|h| h.host.name.clone()));
    let mut rows = vec![head];
    let mut line = |name: &str, cell: &dyn Fn(&HostReport) -> String| {
        let mut row = vec![name.to_string()];
        row.extend(diagnosis.hosts.iter().map(cell));
        rows.push(row);
    };
    let none = || "–".to_string();
    let speed = |value: Option<f64>| value.map_or_else(none, |v| format!("{}B/s", si(v)));
    line("processor", &|h| h.host.cpu.clone());
    line("cores", &|h| format!("{} ({})", h.host.cores, h.host.isa));
    line("peak of a core", &|h| h.host.peak_flops_per_core.map_or_else(none, |v| format!("{}FLOP/s", si(v))));
    line("product, one core", &|h| format!("{}FLOP/s", si(h.host.flops_per_core)));
    line("product, all cores", &|h| format!("{}FLOP/s", si(h.host.flops)));
    line("memory", &|h| bytes(h.host.memory_bytes));
    line("free, swap in use", &|h| format!("{}, {}", bytes(h.free_memory_bytes), bytes(h.swap_used_bytes)));
    line("copy, one core", &|h| speed(Some(h.host.memory_bandwidth_per_core)));
    line("copy, all cores", &|h| speed(Some(h.host.memory_bandwidth)));
    line("disk", &|h| h.disk_folder.display().to_string());
    line("written, read", &|h| format!("{}, {}", speed(h.host.disk_write), speed(h.host.disk_read)));
    line("small write safe in", &|h| h.host.disk_sync_s.map_or_else(none, duration));
    line("load before", &|h| format!("{:.2}", h.load));
    if diagnosis.hosts.len() > 1 {
        line("clock", &|h| format!("{:+.1} ms", 1e3 * h.clock_skew_s));
    }
    let mut out = screen::columns(&rows, 1);
    if !diagnosis.links.is_empty() {
        let mut rows = vec![["link", "latency", "bandwidth"].map(String::from).to_vec()];
        rows.extend(diagnosis.links.iter().map(|l| {
            let [a, b] = &l.hosts;
            vec![format!("{a} – {b}"), duration(l.latency_s), format!("{}bit/s", si(8.0 * l.bandwidth))]
        }));
        out.push('\n');
        out += &screen::columns(&rows, 1);
    }
    for host in &diagnosis.hosts {
        if let Some(problem) = host.disk_problem.as_ref().filter(|_| host.host.disk_write.is_some()) {
            let _ = writeln!(out, "\n{}: {problem}", host.host.name);
        }
    }
    out.push('\n');
    for warning in warnings {
        let _ = writeln!(out, "warning: {}", warning.words);
    }
    if warnings.is_empty() {
        out += "nothing here will hurt\n";
    }
    out
}

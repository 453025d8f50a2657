//! `paceline doctor`

use crate::flags::doctor::Doctor;
use crate::flags::{Cli, Command};
use crate::screen::{self, say};
use crate::signals::End;
use clap::Parser;
use paceline::base::layout::{self, Column, Style};
use paceline::comm::World;
use paceline::doctor::{Diagnosis, HostReport, Warning, doctor, keep, warnings, write_cluster_file};
use paceline::text::{bytes, duration, si, visible};
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
pub(crate) fn run(flags: &Doctor, log: &str) -> Result<End> {
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
    // Before half a minute is spent on it.
    if let (true, Some(folder)) = (shows, flags.out.parent().filter(|f| !f.as_os_str().is_empty() && !f.is_dir())) {
        return Err(Error::user(format!(
            "--out {}: no such file or folder: {}; make it, or give another name",
            flags.out.display(),
            folder.display()
        )));
    }
    let diagnosis = doctor(&flags.dir, world, &tell)?;
    if !shows {
        return Ok(());
    }
    let file = diagnosis.cluster_file()?;
    let kept = write_cluster_file(&flags.out, &file)?;
    let catalogue = paceline::data::Catalogue::from_env();
    let last = catalogue.cache().map(|cache| keep(cache, &file)).transpose()?;
    let warnings = warnings(&diagnosis);
    if flags.json {
        let output = Output { diagnosis: &diagnosis, warnings: &warnings };
        let text = serde_json::to_string_pretty(&output).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&text);
        return Ok(());
    }
    screen::print_table(&table(&diagnosis, &warnings, screen::style()));
    say!("written to {}", flags.out.display());
    if let Some(last) = last {
        say!("and kept for predictions as {}", last.display());
    }
    if let Some(kept) = kept {
        say!("the one before is kept as {}", kept.display());
    }
    Ok(())
}

fn table(diagnosis: &Diagnosis, warnings: &[Warning], style: Style) -> String {
    let mut out = hosts(diagnosis, style);
    if !diagnosis.links.is_empty() {
        let cells =
            |text: &dyn Fn(&paceline::plan::Link) -> String| diagnosis.links.iter().map(text).collect::<Vec<_>>();
        out.push('\n');
        out += &layout::table(
            &[
                Column::left("link", cells(&|l| format!("{} – {}", l.hosts[0], l.hosts[1]))).shrinking(12),
                Column::right("latency", cells(&|l| duration(l.latency_s))),
                Column::right("bandwidth", cells(&|l| format!("{}bit/s", si(8.0 * l.bandwidth)))),
            ],
            style,
        );
    }
    let mut words = String::new();
    for host in &diagnosis.hosts {
        if let Some(problem) = host.disk_problem.as_ref().filter(|_| host.host.disk_write.is_some()) {
            let _ = writeln!(words, "\n{}: {problem}", host.host.name);
        }
    }
    words.push('\n');
    for warning in warnings {
        let _ = writeln!(words, "warning: {}", warning.words);
    }
    if warnings.is_empty() {
        words += "nothing here will hurt\n";
    }
    out + &layout::paragraphs(&words, style.width)
}

/// A column for each host, or where these have no room one host below the other.
fn hosts(diagnosis: &Diagnosis, style: Style) -> String {
    let names: Vec<&str> = LINES.iter().map(|(name, _)| *name).filter(|name| shown(diagnosis, name)).collect();
    let cells = |host: &HostReport| -> Vec<String> {
        LINES.iter().filter(|(name, _)| shown(diagnosis, name)).map(|(_, cell)| cell(host)).collect()
    };
    let mut columns = vec![Column::left("", names.iter().map(ToString::to_string))];
    columns.extend(diagnosis.hosts.iter().map(|host| Column::right(&host.host.name, cells(host))));
    let text = layout::table(&columns, Style { width: usize::MAX, ..style });
    if text.lines().all(|line| layout::columns(line) <= style.width) {
        return text;
    }
    let mut out = String::new();
    for host in &diagnosis.hosts {
        let gap = if out.is_empty() { "" } else { "\n" };
        let lines = names.iter().copied().zip(cells(host));
        out += &format!("{gap}{}\n\n{}", visible(&host.host.name), layout::labelled(lines, style.width));
    }
    out
}

/// Figures of a host, with their names.
type Cell = fn(&HostReport) -> String;

const LINES: [(&str, Cell); 14] = [
    ("processor", |h| h.host.cpu.clone()),
    ("cores", |h| format!("{} ({})", h.host.cores, h.host.isa)),
    ("peak of a core", |h| h.host.peak_flops_per_core.map_or_else(none, |v| format!("{}FLOP/s", si(v)))),
    ("product, one core", |h| format!("{}FLOP/s", si(h.host.flops_per_core))),
    ("product, all cores", |h| format!("{}FLOP/s", si(h.host.flops))),
    ("memory", |h| bytes(h.host.memory_bytes)),
    ("free, swap in use", |h| format!("{}, {}", bytes(h.free_memory_bytes), bytes(h.swap_used_bytes))),
    ("copy, one core", |h| speed(Some(h.host.memory_bandwidth_per_core))),
    ("copy, all cores", |h| speed(Some(h.host.memory_bandwidth))),
    ("disk", |h| h.disk_folder.display().to_string()),
    ("written, read", |h| format!("{}, {}", speed(h.host.disk_write), speed(h.host.disk_read))),
    ("small write safe in", |h| h.host.disk_sync_s.map_or_else(none, duration)),
    ("load before", |h| format!("{:.2}", h.load)),
    (CLOCK, |h| format!("{:+.1} ms", 1e3 * h.clock_skew_s)),
];

/// Beside those of other hosts only.
const CLOCK: &str = "clock";

fn shown(diagnosis: &Diagnosis, name: &str) -> bool {
    name != CLOCK || diagnosis.hosts.len() > 1
}

fn none() -> String {
    "–".into()
}

fn speed(value: Option<f64>) -> String {
    value.map_or_else(none, |v| format!("{}B/s", si(v)))
}

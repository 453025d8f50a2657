//! `paceline matmul`

use crate::flags::matrix::{Matmul, WhichFactors, WhichLayout, WhichProduct};
use crate::screen;
use crate::signals::stop_on_signal;
use indicatif::{ProgressBar, ProgressStyle};
use paceline::base::layout::{self, Column, Style};
use paceline::base::setting::SettingNames;
use paceline::comm::World;
use paceline::launch::LaunchClient;
use paceline::matmul::{
    Keeping, Layout, LayoutReport, MatmulOptions, MatmulReport, MatmulSetting, Product, RunReport, matmul,
};
use paceline::text::{bytes, counted, duration, si, time_left};
use paceline::{Error, Result};
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Runs the command.
pub(crate) fn run(flags: &Matmul, client: Option<&LaunchClient>) -> Result<()> {
    let options = MatmulOptions {
        n: flags.n,
        block: flags.block,
        product: match flags.product {
            WhichProduct::Ab => Product::Ab,
            WhichProduct::Aa => Product::Aa,
            WhichProduct::Trace => Product::Trace,
        },
        layouts: match flags.layout {
            WhichLayout::Summa => vec![Layout::Summa],
            WhichLayout::Diagonal => vec![Layout::Diagonal],
            WhichLayout::Both => Layout::ALL.to_vec(),
        },
        keeping: match flags.factors {
            WhichFactors::Auto => None,
            WhichFactors::Stored => Some(Keeping::Stored),
            WhichFactors::Fresh => Some(Keeping::Fresh),
        },
        a: flags.a.clone(),
        b: flags.b.clone(),
        out: flags.out.clone(),
        ranks: flags.ranks,
        memory: flags.memory,
        seed: flags.seed,
        inject: flags.inject_error,
        names: SettingNames(flag),
    };
    let mut world = World::from_env()?;
    let result = multiply(flags, &options, &mut world, client);
    if result.is_err() {
        world.abandon();
    }
    result
}

/// The flag of a setting.
fn flag(setting: MatmulSetting) -> &'static str {
    match setting {
        MatmulSetting::N => "--n",
        MatmulSetting::Block => "--block",
        MatmulSetting::Product => "--product",
        MatmulSetting::Factors => "--factors",
        MatmulSetting::A => "--a",
        MatmulSetting::B => "--b",
        MatmulSetting::Out => "--out",
        MatmulSetting::Ranks => "--ranks",
        MatmulSetting::Memory => "--memory",
    }
}

fn multiply(flags: &Matmul, options: &MatmulOptions, world: &mut World, client: Option<&LaunchClient>) -> Result<()> {
    let shows = world.process() == 0;
    let stop = client.map_or_else(
        || stop_on_signal("ending: nothing is kept").heard_from_the_start().clone(),
        LaunchClient::stop_flag,
    );
    let progress = Progress::new(flags.quiet || !shows);
    let (line, products) = (client.map(LaunchClient::connection), AtomicU64::new(0));
    let tell = |done: f64, all: f64| {
        if let Some(line) = &line {
            line.step(1 + products.fetch_add(1, Relaxed));
        }
        progress.tell(done, all);
    };
    let report = matmul(options, world, &tell, &stop)?;
    progress.end();
    if shows && flags.json {
        let text = serde_json::to_string_pretty(&report).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&text);
    } else if shows {
        screen::print_table(&table(&report, screen::style()));
        if let Some(out) = flags.out.as_ref().filter(|out| out.exists()) {
            screen::print(&format!("written to {}", out.display()));
        }
    }
    let runs = report.layouts.iter().filter_map(|l| l.run.as_ref().map(|run| (l.layout, run)));
    for (layout, run) in runs {
        if let Some(v) = run.verified.as_ref().filter(|v| !v.right) {
            let place = match v.column {
                Some(column) => format!("element ({}, {column}), computed again, has another value", v.row),
                None => format!("row {} is off by {:.3} of what rounding explains", v.row, v.worst),
            };
            let unwritten = flags.out.as_ref().filter(|out| !out.exists());
            let unwritten = unwritten.map(|out| format!("; {} was not written", out.display())).unwrap_or_default();
            return Err(Error::failure(format!(
                "the product under {layout} is wrong: {place}{unwritten}; if the matrices are finite, suspect memory or \
                 processor, and run again"
            )));
        }
    }
    Ok(())
}

/// A bar on a terminal; elsewhere a line every ten seconds.
struct Progress {
    bar: ProgressBar,
    lines: Option<Mutex<Instant>>,
    /// When the first product of this placement was done, and the operations done then and last.
    begin: Mutex<Option<(Instant, f64, f64)>>,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = if quiet || !terminal { ProgressBar::hidden() } else { ProgressBar::new(1000) };
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3}%") {
            bar.set_style(style);
        }
        let lines = (!quiet && !terminal).then(|| Mutex::new(Instant::now()));
        Self { bar, lines, begin: Mutex::new(None) }
    }

    fn tell(&self, done: f64, all: f64) {
        let mut begin = self.begin.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &mut *begin {
            Some((_, _, last)) if *last < done => *last = done,
            other => *other = Some((Instant::now(), done, done)), // the first product of a placement
        }
        let Some((since, first, _)) = *begin else { return };
        let seconds = since.elapsed().as_secs_f64();
        let rate = (done - first) / seconds.max(1e-9);
        if rate == 0.0 {
            return; // one product tells nothing
        }
        let left = time_left((all - done) / rate).map_or(String::new(), |left| format!(", {left} left"));
        let words = format!("{:.1} GFLOP/s a rank{left}", rate / 1e9);
        self.bar.set_position((1000.0 * done / all) as u64);
        if seconds > 0.5 {
            self.bar.set_message(words.clone());
        }
        if let Some(lines) = &self.lines {
            let mut last = lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if last.elapsed() > Duration::from_secs(10) {
                *last = Instant::now();
                eprintln!("{:.0} %, {words}", 100.0 * done / all);
            }
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn row(report: &MatmulReport, layout: &LayoutReport) -> Vec<String> {
    let most = |what: fn(&paceline::matmul::Burden) -> u64| layout.ranks.iter().map(what).max().unwrap_or(0);
    let name = match layout.layout {
        Layout::Summa => format!("summa {}×{}", layout.grid.0, layout.grid.1),
        Layout::Diagonal => "diagonal".into(),
    };
    let mut row = vec![
        name,
        most(|b| b.blocks as u64).to_string(),
        bytes(most(|b| b.memory_bytes)),
        bytes(most(|b| b.received_bytes)),
        duration(layout.predicted_seconds),
    ];
    match &layout.run {
        Some(run) => row.extend([
            duration(run.seconds),
            format!("{:.1}", mean(&run.flops) / 1e9),
            format!("{:.0} %", 100.0 * mean(&run.flops) / report.speeds.flops),
            percent(mean(&run.waiting)),
            percent(mean(&run.copying)),
        ]),
        None => row.extend(["not run".into(), String::new(), String::new(), String::new(), String::new()]),
    }
    row
}

fn table(report: &MatmulReport, style: Style) -> String {
    let what = match report.product {
        Product::Ab => "A·B",
        Product::Aa => "A·A",
        Product::Trace => "trace of A·A",
    };
    let blocks = report.n.div_ceil(report.block);
    let mut hosts = report.hosts.clone();
    hosts.sort();
    hosts.dedup();
    let title = format!(
        "{what}, n = {} in {blocks}×{blocks} blocks of {}, f32, {} rank{} on {}\n\n",
        report.n,
        report.block,
        report.ranks,
        if report.ranks == 1 { "" } else { "s" },
        if hosts.len() == 1 { hosts[0].clone() } else { format!("{} hosts", hosts.len()) }
    );
    let width = style.width;
    let head = [
        "layout",
        "blocks",
        "memory",
        "received",
        "predicted",
        "measured",
        "GFLOP/s",
        "of alone",
        "waiting",
        "copying",
    ];
    let rows: Vec<Vec<String>> = report.layouts.iter().map(|layout| row(report, layout)).collect();
    let columns = head.iter().enumerate().map(|(i, title)| {
        let column = if i == 0 { Column::left } else { Column::right }(title, rows.iter().map(|row| row[i].clone()));
        match *title {
            "copying" => column.minor(4),
            "blocks" => column.minor(3),
            "received" => column.minor(2),
            "of alone" => column.minor(1),
            _ => column,
        }
    });
    let table = layout::table(&columns.collect::<Vec<_>>(), style);
    let mut out = String::from(
        "Blocks, memory and received: of the rank that has most. Of alone: beside one rank's product without transfers.\n\n",
    );
    for reason in &report.reasons {
        let _ = writeln!(out, "{reason}");
    }
    let _ = writeln!(
        out,
        "measured before: {} of a rank, {}{} elements/s made or read",
        if report.product == Product::Trace {
            format!("{}FLOP/s", si(report.speeds.flops))
        } else {
            format!("product {}FLOP/s", si(report.speeds.flops))
        },
        if report.ranks > 1 { format!("{}B/s between ranks, ", si(report.speeds.link)) } else { String::new() },
        si(report.speeds.make)
    );
    for layout in &report.layouts {
        if let Some(run) = &layout.run {
            out += &findings(report, layout.layout, run);
        }
    }
    layout::paragraphs(&title, width) + &table + &layout::paragraphs(&out, width)
}

fn findings(report: &MatmulReport, layout: Layout, run: &RunReport) -> String {
    let mut out = format!("{layout}: trace {:.9e}", run.trace);
    if run.made_seconds > 0.1 * run.seconds && report.keeping == Keeping::Stored {
        let _ = write!(out, "; factors were there after {}", duration(run.made_seconds));
    }
    out.push('\n');
    if let Some(v) = &run.verified {
        let _ = writeln!(
            out,
            "{layout}: {} by {} random vectors in {}: largest difference {:.3} of what rounding explains; an error is missed with a chance of \
             {:.1e}, if it exceeds {:.2e} (a typical element is {:.2e})",
            if v.right { "checked" } else { "WRONG" },
            v.vectors,
            duration(run.check_seconds),
            v.worst,
            v.missed,
            v.tolerance,
            v.typical
        );
        if v.computed_again > 0 && v.right {
            let rows = counted(v.computed_again, "row");
            let _ = writeln!(
                out,
                "{layout}: these matrices round worse than most; {rows} computed again had the same bits"
            );
        }
    }
    out
}

//! `paceline bench kernels`

use crate::flags::{Bench, BenchCommand, BenchKernels, Forget};
use crate::screen::{self, say};
use paceline::{Error, KernelBench, KernelReport, Result, Rule, bench_kernels, bench_model, forget_kernels};
use std::fmt::Write;

/// Runs the command.
pub fn run(flags: &Bench) -> Result<()> {
    let BenchCommand::Kernels(flags) = &flags.command;
    kernels(flags)
}

fn kernels(flags: &BenchKernels) -> Result<()> {
    if let Some(which) = flags.forget {
        return forget(which, flags.json);
    }
    let input = flags.input.as_ref().map(|s| &s.0[..]);
    let graph = bench_model(&flags.model, input, flags.classes.map(|n| n as usize))?;
    let report = bench_kernels(&KernelBench {
        graph: &graph,
        batch: flags.batch as usize,
        threads: flags.threads as usize,
        rule: Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 },
        repeats: flags.repeats as usize,
    })?;
    if flags.json {
        let text = serde_json::to_string_pretty(&report).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&(text + "\n"));
    } else {
        screen::print(&table(&report));
    }
    Ok(())
}

fn forget(which: Forget, json: bool) -> Result<()> {
    let (path, gone) = forget_kernels(which == Forget::All)?;
    if json {
        let value = serde_json::json!({ "file": path.display().to_string(), "removed": gone });
        let text = serde_json::to_string_pretty(&value).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&(text + "\n"));
        return Ok(());
    }
    if gone.is_empty() {
        let whose = if which == Forget::All { "" } else { " for this kind of processor" };
        say!("nothing to remove: no kernel choices are kept{whose} in {}", path.display());
    }
    for f in &gone {
        let (convs, threads) = (f.convs, f.threads);
        say!("removed {convs} convolution(s) for {}, {}, {threads} thread(s), version {}", f.cpu, f.isa, f.version);
    }
    if !gone.is_empty() {
        say!("from {}; later runs measure anew", path.display());
    }
    Ok(())
}

fn table(report: &KernelReport) -> String {
    let mut rows =
        vec![["layer", "kernel", "shape", "algorithm", "ms", "%", "GFLOP/s", "of peak"].map(String::from).to_vec()];
    rows.extend(report.lines.iter().map(|line| {
        let counts = line.flops > 0.0 && line.kernel != "update";
        vec![
            if line.layer.is_empty() { "all".into() } else { line.layer.clone() },
            line.kernel.into(),
            line.shape.clone(),
            line.algorithm.clone().unwrap_or_default(),
            format!("{:.3}", line.seconds * 1e3),
            format!("{:.1}", 100.0 * line.seconds / report.seconds),
            if counts { format!("{:.1}", line.flops / 1e9) } else { String::new() },
            line.of_peak.filter(|_| counts).map_or(String::new(), |p| format!("{:.0} %", p * 100.0)),
        ]
    }));
    let peak = report.peak_flops.map_or(String::new(), |p| format!(", one core's peak {:.0} GFLOP/s", p / 1e9));
    let mut out = format!("{}, batch {}, {}{peak}\n\n", report.model, report.batch, report.device);
    out += &screen::columns(&rows, 4);
    let _ = writeln!(
        out,
        "\none step {:.1} ms, {:.1} samples/s; {} of device memory",
        report.seconds * 1e3,
        report.samples_per_second,
        paceline::text::bytes(report.bytes as u64)
    );
    for reason in &report.reasons {
        let _ = writeln!(out, "{reason}");
    }
    out
}

//! `paceline bench kernels`

use crate::flags::{Bench, BenchCommand, BenchKernels, Forget};
use crate::screen::{self, say};
use paceline::base::layout::{self, Column, Style};
use paceline::base::setting::SettingNames;
use paceline::text::counted;
use paceline::{
    BenchSetting, Error, KernelBench, KernelLine, KernelReport, Result, Rule, bench_kernels, bench_model,
    forget_kernels,
};
use std::fmt::Write;

/// Runs the command.
pub(crate) fn run(flags: &Bench) -> Result<()> {
    let BenchCommand::Kernels(flags) = &flags.command;
    kernels(flags)
}

fn kernels(flags: &BenchKernels) -> Result<()> {
    if let Some(which) = flags.forget {
        return forget(which, flags.json);
    }
    let input = flags.input.as_ref().map(|s| &s.0[..]);
    let names = SettingNames(|setting| match setting {
        BenchSetting::Input => "--input",
        BenchSetting::Threads => "--threads",
    });
    let graph = bench_model(&flags.model, input, flags.classes.map(|n| n as usize), names)?;
    let report = bench_kernels(&KernelBench {
        graph: &graph,
        batch: flags.batch as usize,
        threads: flags.threads as usize,
        rule: Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 },
        repeats: flags.repeats as usize,
        names,
    })?;
    if flags.json {
        let text = serde_json::to_string_pretty(&report).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&(text + "\n"));
    } else {
        screen::print_table(&table(&report, screen::style_in_full()));
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
        let (convs, threads) = (counted(f.convs, "convolution"), counted(f.threads, "thread"));
        say!("removed {convs} for {}, {}, {threads}, version {}", f.cpu, f.isa, f.version);
    }
    if !gone.is_empty() {
        say!("from {}; later runs measure anew", path.display());
    }
    Ok(())
}

fn table(report: &KernelReport, style: Style) -> String {
    let counts = |line: &KernelLine| line.flops > 0.0 && line.kernel != "update";
    let texts = |text: &dyn Fn(&KernelLine) -> String| report.lines.iter().map(text).collect::<Vec<_>>();
    let columns = [
        Column::left("layer", texts(&|l| if l.layer.is_empty() { "all".into() } else { l.layer.clone() })).shrinking(8),
        Column::left("kernel", texts(&|l| l.kernel.into())),
        Column::left("shape", texts(&|l| l.shape.clone())).minor(3),
        Column::left("algorithm", texts(&|l| l.algorithm.clone().unwrap_or_default())).minor(2),
        Column::right("ms", texts(&|l| format!("{:.3}", l.seconds * 1e3))),
        Column::right("%", texts(&|l| format!("{:.1}", 100.0 * l.seconds / report.seconds))),
        Column::right("GFLOP/s", texts(&|l| if counts(l) { format!("{:.1}", l.flops / 1e9) } else { String::new() })),
        Column::right(
            "of peak",
            texts(&|l| l.of_peak.filter(|_| counts(l)).map_or(String::new(), |p| format!("{:.0} %", p * 100.0))),
        )
        .minor(1),
    ];
    let peak = report.peak_flops.map_or(String::new(), |p| format!(", one core's peak {:.0} GFLOP/s", p / 1e9));
    let title = format!("{}, batch {}, {}{peak}\n\n", report.model, report.batch, report.device);
    let mut words = String::new();
    let _ = writeln!(
        words,
        "\none step {:.1} ms, {:.1} samples/s; {} of device memory",
        report.seconds * 1e3,
        report.samples_per_second,
        paceline::text::bytes(report.bytes as u64)
    );
    for reason in &report.reasons {
        let _ = writeln!(words, "{reason}");
    }
    let width = style.width;
    layout::paragraphs(&title, width) + &layout::table(&columns, style) + &layout::paragraphs(&words, width)
}

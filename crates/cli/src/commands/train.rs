//! `paceline train`

use crate::flags::Train;
use crate::screen::{self, Screen, say};
use crate::signals::{End, forward_to, stop_on_signal};
use paceline::launch::{LaunchClient, VARIABLE};
use paceline::{Config, Error, Kind, Place, Recorded, Result, config};
use std::path::Path;

/// Runs the command.
pub(crate) fn run(flags: &Train) -> Result<End> {
    let started = paceline::comm::Started::from_env();
    let several = started.is_some_and(|s| s.processes > 1);
    if flags.summary || flags.explain {
        let (config, recorded) = configuration(flags, several)?;
        return describe(flags, &config, recorded.as_deref()).map(End::from);
    }
    let stop = stop_on_signal("stopping after this step, with a checkpoint");
    // Then, before all else: `launch` is to hear of everything that goes wrong from here on.
    let mut group = paceline::ProcessGroup::from_env(crate::launched::end_process)?;
    group.set_cluster_file(flags.cluster.clone());
    let (config, recorded) = configuration(flags, several).inspect_err(|e| group.failed(e))?;
    let line = group.client().map(LaunchClient::connection);
    line.iter().cloned().for_each(forward_to);
    let screen = Screen::new(flags.quiet || flags.json || !group.leads()).through(line.clone()).beginning(stop.begun());
    let place = match (&flags.resume, recorded, &flags.run_dir) {
        (Some(dir), ..) => Place::Resume(dir.clone()),
        (None, Some(recorded), dir) => Place::Repeat(recorded, dir.clone()),
        (None, None, Some(dir)) => Place::New(dir.clone()),
        (None, None, None) => Place::Auto,
    };
    let result = paceline::train_among(&mut group, &config, &place, &screen, &stop);
    let Some(finished) = result.map_err(|e| with_resume(e, &screen, line.is_some()))? else {
        return Ok(End::Done); // the first process shows and records for all, and has the exit code
    };
    if flags.json {
        let text = serde_json::to_string_pretty(&finished.summary).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&text);
    } else if !flags.quiet {
        say!("");
        screen::print_table(&paceline::report::closing_table(
            &finished.summary,
            finished.checkpoints.as_deref(),
            screen::style(),
        ));
        say!("run: {}", finished.dir.display());
        // `launch` says so itself: it knows how it was called.
        if finished.ended == paceline::engine::Ended::Stopped && line.is_none() {
            say!("stopped on request; go on with: {}", resume_line(&finished.dir));
        }
    }
    Ok(finished.ended.into())
}

/// "paceline train --resume DIR"
fn resume_line(dir: &Path) -> String {
    format!("paceline train --resume {}", screen::shell_word(&dir.display().to_string()))
}

/// An error of a run that had begun and can be resumed, with how.
fn with_resume(error: Error, screen: &Screen, under_launch: bool) -> Error {
    let dir = screen.run_dir().filter(|_| !under_launch && matches!(error.kind(), Kind::Failure | Kind::Internal));
    match dir {
        Some(dir) => {
            let words = format!("{}\ngo on with: {}", error.message(), resume_line(&dir));
            error.with_message(words)
        }
        None => error,
    }
}

/// What a configuration file says, its paths as seen from here. To be checked when the flags are in it: these, and being one of
/// several processes, may yet make it fit together.
pub(crate) fn from_file(path: &Path) -> Result<Config> {
    let text = paceline_run::read_text("read the configuration", path)?;
    let mut config = Config::read(&text, &path.display().to_string())?;
    config.beside(path.parent().unwrap_or(Path::new("")));
    Ok(config)
}

/// The file, or what a resumed or repeated run had, then `--set`, then the flags; with the run that is repeated. `several` processes have a
/// strategy of their own.
pub(crate) fn configuration(flags: &Train, several: bool) -> Result<(Config, Option<Box<Recorded>>)> {
    let recorded = match (&flags.resume, &flags.config) {
        (None, Some(path)) => Recorded::at(path)?.map(Box::new),
        _ => None,
    };
    let mut config = match (&flags.resume, &flags.config) {
        (Some(_), Some(file)) => {
            return Err(Error::user(format!(
                "--resume takes the configuration of the run; leave {} out, or change keys by --set",
                file.display()
            )));
        }
        (Some(dir), None) => paceline::saved(dir)?.0,
        (None, Some(_)) if recorded.is_some() => recorded.as_ref().map(|r| r.config.clone()).unwrap_or_default(),
        (None, Some(path)) => from_file(path)?,
        (None, None) => Config::default(),
    };
    let file = flags.config.as_ref().filter(|_| recorded.is_none()).map(|path| (path, config.clone()));
    config.set_all_by("--set ", &flags.sets)?;
    if (flags.resume.is_some() || recorded.is_some())
        && flags.plan.is_none()
        && (flags.strategy.is_some() || flags.replicas.is_some())
    {
        config.set("strategy.plan", "")?; // a run under a plan goes on without it
    }
    let plan = flags.plan.as_ref().map(|p| p.display().to_string());
    for (flag, key, value) in [
        ("--strategy", "strategy.name", &flags.strategy),
        ("--replicas", "strategy.replicas", &flags.replicas),
        ("--threads", "strategy.threads", &flags.threads),
        ("--device", "strategy.device", &flags.device),
        ("--plan", "strategy.plan", &plan),
        ("--cache", "data.cache", &flags.cache),
    ] {
        if let Some(value) = value {
            config.set_by(&format!("{flag} {value}"), key, value)?;
        }
    }
    // One process of launch is a worker too, if it is to hold several replicas.
    let launched = std::env::var_os(VARIABLE).is_some();
    let several = several || (launched && config.strategy.replicas.chosen().is_some_and(|n| n > 1));
    if several {
        config.spread_over_processes()?;
    }
    config.check().map_err(|e| match &file {
        // Where the file alone contradicts itself, it is what to correct.
        Some((path, alone)) if alone.check().is_err_and(|own| own.message() == e.message()) => {
            e.context(path.display())
        }
        _ => e,
    })?;
    Ok((config, recorded))
}

fn describe(flags: &Train, config: &config::Config, recorded: Option<&Recorded>) -> Result<()> {
    let mut config = config.clone();
    let mut untried = Vec::new();
    if !config.is_given("strategy.threads") {
        config.set("strategy.threads", "1")?; // no trial: what is shown hardly depends on it
        untried.push("threads");
    }
    let whole = config.strategy.compression() == paceline::plan::Compression::None;
    if flags.explain && !config.is_given("strategy.update") && config.strategy.plan.is_none() && whole {
        config.set("strategy.update", "sharded")?;
        untried.push("update");
    }
    if flags.explain && flags.json {
        return Err(Error::user("--explain is for people to read; leave --json out, or give --summary --json"));
    }
    let tuning = recorded.filter(|r| r.fits()).map(|r| r.tuning.clone());
    let measured = if flags.explain { paceline::Measured::find(flags.cluster.as_deref())? } else { None };
    let (run, processes) = match &measured {
        Some(measured) => paceline::resolve_on(&config, tuning, measured).map(|(run, p)| (run, Some(p)))?,
        None => (paceline::resolve(&config, tuning)?, None),
    };
    if flags.json {
        let (ranks, batch) = (run.layout.plan.ranks, run.layout.batch.samples());
        let value = serde_json::json!({
            "model": run.graph.name,
            "layers": paceline::graph::summary::lines(&run.graph),
            "parameters": run.graph.parameter_count(),
            "flops_per_sample": paceline::graph::summary::flops_per_sample(&run.graph),
            "batch": batch,
            "ranks": ranks,
            "arena_bytes": run.schedule.largest_memory() as u64,
            "needed_bytes": run.needs.total(),
        });
        let text = serde_json::to_string_pretty(&value).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&text);
        return Ok(());
    }
    if flags.summary {
        let share = run.layout.batch.samples().div_ceil(run.layout.plan.ranks);
        let states = run.schedule.rule.states().len();
        screen::print(&paceline::graph::summary::table(&run.graph, share, states, screen::style()));
        let arena = run.schedule.largest_memory() as u64;
        let (ranks, needs) = (run.layout.plan.ranks, paceline::text::bytes(run.needs.total()));
        let ranks = paceline::text::counted(ranks, "rank");
        say!("planned for this run: {} a rank, on {ranks}; {needs} in all", paceline::text::bytes(arena));
    }
    if flags.explain {
        let samples = run.schedule.phases[0].samples;
        screen::tell(&paceline::plan::placements(&run.graph, &run.layout.plan, samples)?);
        screen::tell(&paceline::plan::explain(&run.schedule, &run.graph, 0));
        match measured.as_ref().zip(processes) {
            Some((measured, processes)) => predicted(&paceline::Forecast::new(&run, measured, &processes)?, samples),
            None => {
                let ranks = run.layout.plan.ranks;
                let prediction = paceline::plan::simulate(&run.schedule, 0, &paceline::plan::Cluster::guess(ranks));
                moved(&prediction);
                say!(
                    "how long a step takes is not predicted: no paceline doctor has measured this machine; run it once, or give --cluster FILE"
                );
            }
        }
        for reason in &run.reasons {
            say!("why: {reason}");
        }
        if !untried.is_empty() {
            say!("not tried here: strategy.{}, which a run chooses by a short trial", untried.join(" and strategy."));
        }
    }
    Ok(())
}

fn moved(prediction: &paceline::plan::Prediction) {
    let bytes: u64 = prediction.bytes.iter().flatten().sum();
    say!("{} pass between ranks in a step", paceline::text::bytes(bytes));
}

/// Ranks that are shown one by one.
const RANKS: usize = 16;

/// What a step will take, of what it is made, and where the time of each rank goes.
fn predicted(forecast: &paceline::Forecast, samples: usize) {
    use paceline::base::layout::{Column, paragraphs, table};
    use paceline::text::{duration, si};
    let (step, style) = (&forecast.step, screen::style());
    moved(step);
    say!(
        "predicted from {}: {} a step, {} examples/s",
        forecast.path.display(),
        duration(step.seconds),
        si(samples as f64 / step.seconds)
    );
    screen::tell(&paragraphs(&paceline::plan::critical_path(step), style.width));
    let shown = &step.split[..step.split.len().min(RANKS)];
    let cells =
        |of: &dyn Fn(&paceline::base::TimeSplit) -> f64| shown.iter().map(|s| duration(of(s))).collect::<Vec<_>>();
    let columns = [
        Column::right("rank", (0..shown.len()).map(|rank| rank.to_string())),
        Column::right("compute", cells(&|s| s.compute)),
        Column::right("update", cells(&|s| s.update)),
        Column::right("communication", cells(&|s| s.wait + s.transfer)),
        Column::right("input", cells(&|s| s.input)),
    ];
    screen::print_table(&table(&columns, style));
    if step.split.len() > RANKS {
        say!("and {} more", paceline::text::counted(step.split.len() - RANKS, "rank"));
    }
    for note in &forecast.notes {
        say!("note: {note}");
    }
}

//! What the split of the time says, per rank: averages over all ranks hide the one that all others wait for.

use paceline_base::{Activity, TimeSplit};
use paceline_record::CpuUse;

use super::{Level, Topic, Verdict};
use crate::compare::{Comparison, Row, SPEED_NOISE};
use crate::format::{list, share};
use paceline_base::text;

/// A rank that waits for more than this share of its time is idle too much.
const WAIT: f64 = 0.25;
/// Input or transfer of more than this share bound the run.
pub(super) const BOUND: f64 = 0.25;
/// Checkpoints should be a small part.
const CHECKPOINT: f64 = 0.10;
/// Computing for this share of the time is as good as it gets.
const BUSY: f64 = 0.85;

/// Other programs that took more than this share are named.
const TAKEN: f64 = 0.10;
/// The same for a hypervisor and for a container's limit.
const HELD_BACK: f64 = 0.05;

/// All verdicts on where the time went.
pub(crate) fn verdicts(split: &[TimeSplit], cpu: &[CpuUse]) -> Vec<Verdict> {
    let shortage = shortage(split, cpu);
    // Kernels whose cores others had are not what bounds a run, though a clock on the wall says so.
    let compute_bound = compute_bound(split).filter(|_| shortage.is_empty());
    let waiting = waiting(split).map(|verdict| match shortage.is_empty() {
        true => verdict,
        false => {
            Verdict { advice: "a rank whose core others have keeps all waiting: see what took it".into(), ..verdict }
        }
    });
    let bounds = [waiting, input_bound(split), transfer_bound(split), checkpoint_bound(split), compute_bound];
    shortage.into_iter().chain(bounds.into_iter().flatten()).collect()
}

/// The share of the time in which threads of a run were ready to run that other programs had, if that is known.
pub(crate) fn taken(cpu: &[CpuUse]) -> Option<f64> {
    let taken = cpu.iter().map(CpuUse::taken).sum::<Option<f64>>()?;
    let wanted: f64 = cpu.iter().map(CpuUse::wanted).sum();
    (wanted > 0.0).then(|| taken / wanted)
}

/// Cores that a run was not given: by other programs, a hypervisor, or a container's limit. Where the system does not say how long
/// threads were kept waiting, the time of kernels that was no CPU time is the least that is missing.
pub(crate) fn shortage(split: &[TimeSplit], cpu: &[CpuUse]) -> Vec<Verdict> {
    let sum = |value: fn(&CpuUse) -> f64| cpu.iter().map(value).sum::<f64>();
    let had = sum(|c| c.cpu);
    let mut out = Vec::new();
    let mut say = |title: String, reason: String, advice: &str| {
        out.push(Verdict::new(Topic::Shortage, Level::Warning, title, reason, advice));
    };
    let kernels: f64 = split.iter().map(|s| s.compute + s.update).sum();
    let least = (kernels - had) / kernels;
    match taken(cpu) {
        Some(share_taken) if share_taken > TAKEN => say(
            format!("other programs took {} %", share(share_taken)),
            format!(
                "threads of this run were ready to run for {} and had a core for {}; other programs used {:.1} of the {} cores \
                 meanwhile",
                text::duration(sum(CpuUse::wanted)),
                text::duration(had),
                sum(|c| c.others.unwrap_or(0.0) / c.wall),
                cpu.iter().map(|c| c.cores).sum::<usize>()
            ),
            "the figures of speed hold for a busy machine only: end the others, or run with fewer threads than cores",
        ),
        None if !cpu.is_empty() && least > TAKEN => say(
            format!("other programs took at least {} %", share(least)),
            format!("kernels took {}, of which {} were CPU time", text::duration(kernels), text::duration(had)),
            "the figures of speed hold for a busy machine only: end the others, or run with fewer threads than cores",
        ),
        _ => {}
    }
    let stolen = sum(|c| c.stolen) / sum(|c| c.wall * c.cores as f64);
    if stolen > HELD_BACK {
        say(
            format!("the hypervisor took {} %", share(stolen)),
            "the cores of this virtual machine had no processor for that share of the time".into(),
            "other virtual machines are busy on the same host: measure again, or choose a machine of one's own",
        );
    }
    let worst = cpu.iter().filter(|c| c.periods > 0).max_by(|a, b| throttling(a).total_cmp(&throttling(b)));
    if let Some(worst) = worst.filter(|c| throttling(c) > HELD_BACK) {
        let limit = worst.limit.map_or(String::new(), |cores| format!(" of {cores:.1} cores"));
        say(
            "throttled by the container's CPU limit".into(),
            format!("the limit{limit} was used up in {} % of its periods", share(throttling(worst))),
            "raise the limit (cpu.max), or use as many threads as it allows",
        );
    }
    out
}

fn throttling(cpu: &CpuUse) -> f64 {
    cpu.throttled as f64 / cpu.periods as f64
}

/// Ranks that wait for others, and for whom.
pub(crate) fn waiting(split: &[TimeSplit]) -> Option<Verdict> {
    let waits: Vec<(usize, f64)> =
        split.iter().enumerate().map(|(rank, s)| (rank, s.fractions().wait)).filter(|&(_, wait)| wait > WAIT).collect();
    let most = waits.iter().map(|&(_, wait)| wait).fold(0.0, f64::max);
    let least = waits.iter().map(|&(_, wait)| wait).fold(1.0, f64::min);
    if waits.is_empty() {
        return None;
    }
    let span = if share(most) == share(least) { share(most) } else { format!("{} to {}", share(least), share(most)) };
    if waits.len() == split.len() {
        let who = if split.len() == 1 { "the rank waits".into() } else { format!("all {} ranks wait", split.len()) };
        return Some(Verdict::new(
            Topic::Waiting,
            Level::Warning,
            "ranks idle",
            format!("{who} for {span} % of the time"),
            "each has too little work between two exchanges: use a larger batch or fewer replicas",
        ));
    }
    let names: Vec<String> = waits.iter().take(6).map(|(rank, _)| rank.to_string()).collect();
    let names =
        if waits.len() > 6 { format!("{} and {} more", names.join(", "), waits.len() - 6) } else { list(&names) };
    let work = |s: &TimeSplit| s.total() - s.wait;
    let slowest = (0..split.len()).max_by(|&a, &b| work(&split[a]).total_cmp(&work(&split[b])))?;
    let activity = Activity::ALL
        .into_iter()
        .filter(|&activity| activity != Activity::Wait)
        .max_by(|&a, &b| split[slowest].get(a).total_cmp(&split[slowest].get(b)))?;
    let (who, verb) = if waits.len() == 1 { ("rank", "waits") } else { ("ranks", "wait") };
    Some(Verdict::new(
        Topic::Waiting,
        Level::Warning,
        "ranks idle",
        format!(
            "{who} {names} {verb} for {span} % of the time, for rank {slowest}, which spends {} % on {}",
            share(split[slowest].fractions().get(activity)),
            activity.name()
        ),
        format!("rank {slowest} is slower or has more to do: give it less, or look at what else runs there"),
    ))
}

/// Training waits for samples.
pub(crate) fn input_bound(split: &[TimeSplit]) -> Option<Verdict> {
    over(split, Activity::Input, BOUND).map(|input| {
        Verdict::new(
            Topic::InputBound,
            Level::Warning,
            "input bound",
            format!("{} % of the time goes into loading samples", share(input)),
            "a faster model would not help; more replicas share the loading too",
        )
    })
}

/// Training waits for bytes between ranks.
pub(crate) fn transfer_bound(split: &[TimeSplit]) -> Option<Verdict> {
    over(split, Activity::Transfer, BOUND).map(|transfer| {
        Verdict::new(
            Topic::TransferBound,
            Level::Warning,
            "transfer bound",
            format!("{} % of the time is spent moving bytes between ranks", share(transfer)),
            "use a larger batch, so that there are fewer exchanges, or another plan",
        )
    })
}

/// Checkpoints take a large part of the time.
pub(crate) fn checkpoint_bound(split: &[TimeSplit]) -> Option<Verdict> {
    over(split, Activity::Checkpoint, CHECKPOINT).map(|checkpoint| {
        Verdict::new(
            Topic::CheckpointBound,
            Level::Warning,
            "slow checkpoints",
            format!("{} % of the time is spent writing checkpoints", share(checkpoint)),
            "write them less often, or to a faster disk",
        )
    })
}

/// Nearly all time is computing: only faster kernels, more cores or fewer operations help.
pub(crate) fn compute_bound(split: &[TimeSplit]) -> Option<Verdict> {
    let fractions = split.iter().copied().sum::<TimeSplit>().fractions();
    let busy = fractions.compute + fractions.update;
    (busy >= BUSY).then(|| {
        Verdict::new(
            Topic::ComputeBound,
            Level::Good,
            "compute bound",
            format!("{} % of the time is computing", share(busy)),
            "",
        )
    })
}

fn over(split: &[TimeSplit], activity: Activity, limit: f64) -> Option<f64> {
    Some(split.iter().copied().sum::<TimeSplit>().fractions().get(activity)).filter(|&value| value > limit)
}

/// What more replicas and cores gained, against the first run with the same work: a verdict for each run where they gained
/// little. The number is the row's.
pub(crate) fn scaling(comparison: &Comparison) -> Vec<(usize, Verdict)> {
    let mut out = Vec::new();
    for (i, row) in comparison.rows.iter().enumerate() {
        let Some(first) = row.baseline.map(|first| &comparison.rows[first]) else { continue };
        let (Some(speed_up), Some(efficiency)) = (row.speed_up, row.efficiency) else { continue };
        let more_cores = row.cores > first.cores;
        if !more_cores && row.replicas <= first.replicas {
            continue;
        }
        let layout = |row: &Row| {
            let cores = if row.cores == 1 { "core" } else { "cores" };
            format!("{} {cores} ({} × {})", row.cores, row.replicas, row.threads)
        };
        let reason = format!(
            "{} give {speed_up:.2} times the throughput of {} on {}: {} % of it for each core",
            layout(row),
            first.name,
            layout(first),
            share(efficiency)
        );
        let what = if more_cores { "more cores" } else { "more replicas" };
        if speed_up < 1.0 + SPEED_NOISE {
            let how = if speed_up < 1.0 - SPEED_NOISE { "but slower" } else { "no faster" };
            let advice = "use fewer replicas, or a larger batch so that each has enough to do";
            out.push((i, Verdict::new(Topic::Scaling, Level::Warning, format!("{what}, {how}"), reason, advice)));
        } else if efficiency < 0.5 {
            let advice = "compare the price: half the cores may do nearly as well";
            out.push((i, Verdict::new(Topic::Scaling, Level::Note, "cores gain little", reason, advice)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare_summaries;
    use paceline_record::Summary;

    fn split(input: f64, compute: f64, wait: f64, transfer: f64) -> TimeSplit {
        TimeSplit { input, compute, wait, transfer, ..TimeSplit::default() }
    }

    #[test]
    fn the_slow_rank_is_named() {
        let ranks = [split(0.0, 5.0, 5.0, 0.0), split(0.0, 9.5, 0.5, 0.0), split(0.0, 6.0, 4.0, 0.0)];
        let verdict = waiting(&ranks).unwrap();
        assert_eq!(
            verdict.reason,
            "ranks 0 and 2 wait for 40 to 50 % of the time, for rank 1, which spends 95 % on compute"
        );
        assert_eq!(waiting(&[split(0.0, 9.0, 1.0, 0.0); 2]), None);
    }

    #[test]
    fn when_all_wait_nobody_is_blamed() {
        assert!(waiting(&[split(0.0, 5.0, 5.0, 0.0); 4]).unwrap().reason.contains("all 4 ranks wait for 50 %"));
    }

    #[test]
    fn bounds() {
        let title = |s: TimeSplit| verdicts(&[s], &[]).iter().map(|v| v.title.clone()).collect::<Vec<_>>();
        assert_eq!(title(split(4.0, 6.0, 0.0, 0.0)), ["input bound"]);
        assert_eq!(title(split(0.0, 6.0, 0.0, 4.0)), ["transfer bound"]);
        assert_eq!(title(split(0.0, 9.0, 1.0, 0.0)), ["compute bound"]);
        assert_eq!(title(TimeSplit { checkpoint: 3.0, ..split(0.0, 7.0, 0.0, 0.0) }), ["slow checkpoints"]);
        assert!(title(TimeSplit::default()).is_empty());
        assert!(verdicts(&[], &[]).is_empty());
    }

    #[test]
    fn a_core_that_others_had_is_not_computing() {
        let titles = |cpu: CpuUse| {
            let found = verdicts(&[split(0.0, 9.9, 0.1, 0.0)], &[cpu]);
            found.iter().map(|v| v.title.clone()).collect::<Vec<_>>()
        };
        let quiet =
            CpuUse { wall: 10.0, cpu: 9.9, delayed: Some(0.1), others: Some(1.0), cores: 2, ..CpuUse::default() };
        assert_eq!(titles(quiet), ["compute bound"]);
        // A third of a core: the rest went to others.
        let busy = CpuUse { cpu: 3.6, delayed: Some(6.4), others: Some(15.0), ..quiet };
        assert_eq!(titles(busy), ["other programs took 64 %"]);
        let found = shortage(&[], &[busy]);
        assert!(
            found[0].reason.contains("for 10.0 s and had a core for 3.6 s; other programs used 1.5 of the 2 cores"),
            "{found:?}"
        );
        // More threads than cores wait for each other: nobody took anything.
        assert_eq!(titles(CpuUse { others: Some(0.2), ..busy }), ["compute bound"]);
        // Where delays are not counted, wall and CPU time tell.
        let unknown = CpuUse { delayed: None, others: None, ..busy };
        assert_eq!(titles(unknown), ["other programs took at least 64 %"]);
        assert_eq!(titles(CpuUse { cpu: 19.0, ..unknown }), ["compute bound"], "two threads");
        let waits = verdicts(&[split(0.0, 3.0, 7.0, 0.0); 2], &[busy]);
        assert!(waits[1].title == "ranks idle" && !waits[1].advice.contains("larger batch"), "{waits:?}");
        assert_eq!(titles(CpuUse { stolen: 3.0, ..quiet }), ["the hypervisor took 15 %"]);
        let limited = CpuUse { throttled: 62, periods: 100, limit: Some(0.5), ..quiet };
        assert_eq!(titles(limited), ["throttled by the container's CPU limit"]);
        assert!(shortage(&[], &[limited])[0].reason.contains("of 0.5 cores was used up in 62 % of its periods"));
    }

    #[test]
    fn replicas_that_gain_nothing_are_said() {
        let run = |replicas, examples_per_s| Summary { replicas, examples_per_s, ..Summary::default() };
        let found = scaling(&compare_summaries(
            &[run(1, 100.0), run(8, 101.0), run(4, 350.0), run(4, 150.0), run(2, 80.0)],
            &[],
        ));
        let titles: Vec<_> = found.iter().map(|(row, v)| (*row, v.title.as_str())).collect();
        assert_eq!(titles, [(1, "more cores, no faster"), (3, "cores gain little"), (4, "more cores, but slower")]);
        // As many cores, cut otherwise.
        let demo = [Summary { threads: 2, ..run(1, 100.0) }, run(2, 46.0)];
        let found = scaling(&compare_summaries(&demo, &[]));
        assert_eq!(found[0].1.title, "more replicas, but slower");
        assert!(found[0].1.reason.ends_with("on 2 cores (1 × 2): 46 % of it for each core"), "{}", found[0].1);
    }
}

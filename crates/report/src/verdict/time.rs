//! What the split of the time says, per rank: averages over all ranks hide the one that all others wait for.

use paceline_record::{Part, TimeSplit};

use super::{Level, Topic, Verdict};
use crate::compare::{Comparison, Row};
use crate::format::{list, share};

/// A rank that waits for more than this share of its time is idle too much.
const WAIT: f64 = 0.25;
/// Input or transfer of more than this share bound the run.
pub(super) const BOUND: f64 = 0.25;
/// Checkpoints should be a small part.
const CHECKPOINT: f64 = 0.10;
/// Computing for this share of the time is as good as it gets.
const BUSY: f64 = 0.85;

/// All verdicts on where the time went.
pub fn verdicts(split: &[TimeSplit]) -> Vec<Verdict> {
    [waiting(split), input_bound(split), transfer_bound(split), checkpoint_bound(split), compute_bound(split)]
        .into_iter()
        .flatten()
        .collect()
}

/// Ranks that wait for others, and for whom.
pub fn waiting(split: &[TimeSplit]) -> Option<Verdict> {
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
    let part = Part::ALL
        .into_iter()
        .filter(|&part| part != Part::Wait)
        .max_by(|&a, &b| split[slowest].get(a).total_cmp(&split[slowest].get(b)))?;
    let (who, verb) = if waits.len() == 1 { ("rank", "waits") } else { ("ranks", "wait") };
    Some(Verdict::new(
        Topic::Waiting,
        Level::Warning,
        "ranks idle",
        format!(
            "{who} {names} {verb} for {span} % of the time, for rank {slowest}, which spends {} % on {}",
            share(split[slowest].fractions().get(part)),
            part.name()
        ),
        format!("rank {slowest} is slower or has more to do: give it less, or look at what else runs there"),
    ))
}

/// Training waits for samples.
pub fn input_bound(split: &[TimeSplit]) -> Option<Verdict> {
    over(split, Part::Input, BOUND).map(|input| {
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
pub fn transfer_bound(split: &[TimeSplit]) -> Option<Verdict> {
    over(split, Part::Transfer, BOUND).map(|transfer| {
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
pub fn checkpoint_bound(split: &[TimeSplit]) -> Option<Verdict> {
    over(split, Part::Checkpoint, CHECKPOINT).map(|checkpoint| {
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
pub fn compute_bound(split: &[TimeSplit]) -> Option<Verdict> {
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

fn over(split: &[TimeSplit], part: Part, limit: f64) -> Option<f64> {
    Some(split.iter().copied().sum::<TimeSplit>().fractions().get(part)).filter(|&value| value > limit)
}

/// What more replicas gained, against the first run of the same model and data: a verdict for each run where they gained
/// little. The number is the row's.
pub fn scaling(comparison: &Comparison) -> Vec<(usize, Verdict)> {
    let mut out = Vec::new();
    for (i, row) in comparison.rows.iter().enumerate() {
        let Some(first) = comparison.rows.iter().find(|r| r.model == row.model && r.data == row.data) else { continue };
        let Some(speed_up) = row.speed_up.filter(|_| row.replicas > first.replicas) else { continue };
        let efficiency = speed_up * first.replicas as f64 / row.replicas as f64;
        let reason = format!(
            "{} replicas give {speed_up:.2} times the throughput of {} with {}: {} % of what they could",
            row.replicas,
            first.name,
            first.replicas,
            share(efficiency)
        );
        if speed_up < 1.05 {
            let title = if speed_up < 0.95 { "more replicas, but slower" } else { "more replicas, no faster" };
            let advice = "use fewer replicas, or a larger batch so that each has enough to do";
            out.push((i, Verdict::new(Topic::Scaling, Level::Warning, title, reason, advice)));
        } else if efficiency < 0.5 {
            let advice = "compare the price: half the replicas may do nearly as well";
            out.push((i, Verdict::new(Topic::Scaling, Level::Note, "replicas gain little", reason, advice)));
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
        let title = |s: TimeSplit| verdicts(&[s]).iter().map(|v| v.title.clone()).collect::<Vec<_>>();
        assert_eq!(title(split(4.0, 6.0, 0.0, 0.0)), ["input bound"]);
        assert_eq!(title(split(0.0, 6.0, 0.0, 4.0)), ["transfer bound"]);
        assert_eq!(title(split(0.0, 9.0, 1.0, 0.0)), ["compute bound"]);
        assert_eq!(title(TimeSplit { checkpoint: 3.0, ..split(0.0, 7.0, 0.0, 0.0) }), ["slow checkpoints"]);
        assert!(title(TimeSplit::default()).is_empty());
        assert!(verdicts(&[]).is_empty());
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
        let what = if more_cores { "more cores" } else { "more replicas" };

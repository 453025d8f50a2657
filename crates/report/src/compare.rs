//! Runs side by side, and like with like: a speed-up is stated only between runs that did the same work.

use paceline_base::TimeSplit;
use paceline_record::{RunData, Status, Summary};

use crate::digest;
use crate::settings::{Settings, differences};

/// Runs side by side, in the order in which they were given. The first of those with the same work (network, samples, batch,
/// optimiser, epochs) is what the others of its kind are measured against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// One row per run.
    pub rows: Vec<Row>,
}

/// One run in a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the run.
    pub name: String,
    /// Name of the model.
    pub model: String,
    /// Name of the data set.
    pub data: String,
    /// Strategy, with its replicas: `mirrored ×4`.
    pub strategy: String,
    /// Number of replicas.
    pub replicas: usize,
    /// Threads of each replica.
    pub threads: usize,
    /// Cores that they can use: replicas times threads, at most those of the machine where there is one.
    pub cores: usize,
    /// The settings in which this run differs from others, where they have no column of their own.
    pub differs: String,
    /// Samples of a step over all ranks.
    pub batch: u64,
    /// Epochs that are completed.
    pub epochs: u64,
    /// Epochs that were asked for; early stopping may end before.
    pub epochs_planned: u64,
    /// How the run stands.
    pub status: Status,
    /// Seconds of training.
    pub seconds: f64,
    /// Training samples per second.
    pub examples_per_s: f64,
    /// The row with which this one is compared: the first with the same work, which may be itself. None if it is the only one.
    pub baseline: Option<usize>,
    /// Throughput as a multiple of the baseline's.
    pub speed_up: Option<f64>,
    /// The same for each core: 1 where twice the cores give twice the throughput.
    pub efficiency: Option<f64>,
    /// Epoch with the best validation result.
    pub best_epoch: Option<u64>,
    /// The first row whose results were measured on the same samples, which may be itself.
    pub evaluation: usize,
    /// Samples of its validation and of its test; 0 if that is not known.
    pub samples: (u64, u64),
    /// Validation accuracy of that epoch.
    pub val_accuracy: Option<f64>,
    /// The lowest validation loss, of whichever epoch.
    pub val_loss: Option<f64>,
    /// Validation absolute error of the best epoch, of runs that count it.
    pub val_absolute_error: Option<f64>,
    /// Test accuracy, if it was measured.
    pub test_accuracy: Option<f64>,
    /// Test loss, if it was measured.
    pub test_loss: Option<f64>,
    /// Test absolute error, if it was measured.
    pub test_absolute_error: Option<f64>,
    /// Whether it counts accuracy; where it does not, its loss and absolute error are what is shown.
    pub counts_accuracy: bool,
    /// Where the time went, over all ranks, as fractions of 1.
    pub fractions: TimeSplit,
}

impl Row {
    /// How long all its epochs took; a run that ended before was not faster for it.
    pub(crate) fn whole_seconds(&self) -> Option<f64> {
        Some(self.seconds).filter(|&seconds| seconds > 0.0 && self.epochs >= self.epochs_planned)
    }
}

/// Compares runs. Incomplete runs take part with what they have.
pub fn compare(runs: &[RunData]) -> Comparison {
    let summaries: Vec<Summary> = runs.iter().map(digest).collect();
    compare_summaries(&summaries, &runs.iter().map(|run| Settings::of(&run.config)).collect::<Vec<_>>())
}

/// `settings` has one entry for each summary, or none at all.
pub(crate) fn compare_summaries(summaries: &[Summary], settings: &[Settings]) -> Comparison {
    let unknown = Settings::default();
    let of = |i: usize| settings.get(i).unwrap_or(&unknown);
    let works: Vec<Vec<String>> = summaries.iter().enumerate().map(|(i, s)| of(i).work(s)).collect();
    let evaluations: Vec<_> = summaries.iter().enumerate().map(|(i, s)| of(i).evaluation(s)).collect();
    let shown: Vec<Settings> = settings.iter().zip(summaries).map(|(all, summary)| all.telling(summary)).collect();
    let differs = differences(&shown);
    let rows = summaries.iter().enumerate().map(|(i, summary)| {
        let mut alike = (0..summaries.len()).filter(|&other| works[other] == works[i]);
        let baseline = alike.next().filter(|_| alike.next().is_some());
        let mut row = row(summary, differs.get(i).cloned().unwrap_or_default());
        row.baseline = baseline;
        row.evaluation = (0..i).find(|&other| evaluations[other] == evaluations[i]).unwrap_or(i);
        if let Some(first) = baseline.map(|first| &summaries[first]) {
            row.speed_up = Some(summary.examples_per_s / first.examples_per_s).filter(|ratio| ratio.is_finite());
            row.efficiency = row.speed_up.map(|ratio| ratio * cores(first) as f64 / row.cores as f64);
        }
        row
    });
    Comparison { rows: rows.collect() }
}

/// More threads than a machine has cores share them. Over processes the other machines' cores are not known.
fn cores(summary: &Summary) -> usize {
    let threads = (summary.replicas * summary.threads).max(1);
    match summary.machine.cores {
        0 => threads,
        _ if summary.strategy == "multi-worker-mirrored" => threads,
        cores => threads.min(cores),
    }
}

fn row(summary: &Summary, differs: String) -> Row {
    let strategy = match summary.strategy.as_str() {
        "" => format!("×{}", summary.replicas),
        name if summary.replicas <= 1 => name.to_string(),
        name => format!("{name} ×{}", summary.replicas),
    };
    Row {
        name: summary.name.clone(),
        model: summary.model.clone(),
        data: summary.data.clone(),
        strategy,
        replicas: summary.replicas,
        threads: summary.threads,
        cores: cores(summary),
        differs,
        batch: summary.batch,
        epochs: summary.epochs.iter().map(|epoch| epoch.epoch).max().unwrap_or(0),
        epochs_planned: summary.epochs_planned,
        status: summary.status.clone(),
        seconds: summary.seconds_train,
        examples_per_s: summary.examples_per_s,
        baseline: None,
        speed_up: None,
        efficiency: None,
        best_epoch: summary.best_epoch,
        evaluation: 0,
        samples: (summary.validation_samples, summary.test_samples),
        val_accuracy: summary.best_val_accuracy,
        val_loss: summary.best_val_loss,
        val_absolute_error: summary.best_val_absolute_error,
        test_accuracy: summary.test_accuracy,
        test_loss: summary.test_loss,
        test_absolute_error: summary.test_absolute_error,
        counts_accuracy: summary.counts_accuracy(),
        fractions: summary.split_fractions,
    }
}

/// Whether larger or smaller wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wins {
    Largest,
    Smallest,
}

/// Throughputs that differ by less are the same: what two runs of one configuration differ by on a quiet machine.
pub(crate) const SPEED_NOISE: f64 = 0.05;

/// A figure of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Score {
    ValidationAccuracy,
    ValidationLoss,
    ValidationAbsoluteError,
    TestAccuracy,
    TestLoss,
    TestAbsoluteError,
}

impl Score {
    pub(crate) fn of(self, row: &Row) -> Option<f64> {
        match self {
            Score::ValidationAccuracy => row.val_accuracy,
            Score::ValidationLoss => row.val_loss,
            Score::ValidationAbsoluteError => row.val_absolute_error,
            Score::TestAccuracy => row.test_accuracy,
            Score::TestLoss => row.test_loss,
            Score::TestAbsoluteError => row.test_absolute_error,
        }
    }

    fn wins(self) -> Wins {
        match self {
            Score::ValidationAccuracy | Score::TestAccuracy => Wins::Largest,
            Score::ValidationLoss | Score::ValidationAbsoluteError | Score::TestLoss | Score::TestAbsoluteError => {
                Wins::Smallest
            }
        }
    }

    /// What is no difference: half of one sample, and what the last figure shown rounds away.
    fn margin(self, row: &Row, best: f64) -> f64 {
        let half = |samples: u64| if samples > 0 { 0.5 / samples as f64 } else { 0.0 };
        match self {
            Score::ValidationAccuracy => half(row.samples.0).max(0.5e-4),
            Score::TestAccuracy => half(row.samples.1).max(0.5e-4),
            Score::ValidationLoss | Score::ValidationAbsoluteError | Score::TestLoss | Score::TestAbsoluteError => {
                0.5e-3 * best.abs()
            }
        }
    }
}

impl Comparison {
    /// The rows with the best result, each among those that were measured on the same samples; none where there is nothing to choose
    /// between, because there is one or they do not differ.
    pub(crate) fn best(&self, score: Score) -> Vec<bool> {
        let mut out = vec![false; self.rows.len()];
        for first in self.evaluations() {
            let among: Vec<bool> = self.rows.iter().map(|row| row.evaluation == first).collect();
            let best =
                best_of(&self.rows, &among, score.wins(), |row| score.of(row), |row, best| score.margin(row, best));
            out.iter_mut().zip(best).for_each(|(mark, best)| *mark |= best);
        }
        out
    }

    /// The first row of each group whose results can be compared.
    pub(crate) fn evaluations(&self) -> Vec<usize> {
        (0..self.rows.len()).filter(|&i| self.rows[i].evaluation == i).collect()
    }

    /// The fastest rows, each among those with the same work.
    pub(crate) fn fastest(&self, wins: Wins, value: impl Fn(&Row) -> Option<f64>) -> Vec<bool> {
        let mut out = vec![false; self.rows.len()];
        for first in self.rows.iter().filter_map(|row| row.baseline) {
            let alike: Vec<bool> = self.rows.iter().map(|row| row.baseline == Some(first)).collect();
            let best = best_of(&self.rows, &alike, wins, &value, |_, best| SPEED_NOISE * best.abs());
            out.iter_mut().zip(best).for_each(|(mark, best)| *mark |= best);
        }
        out
    }

    /// Whether all runs did the same work.
    pub(crate) fn one_work(&self) -> bool {
        self.rows.iter().all(|row| row.baseline == Some(0))
    }

    /// The name of the run that a row is compared with; empty for that run itself.
    pub(crate) fn against(&self, row: usize) -> String {
        match self.rows[row].baseline {
            None => crate::format::NONE.into(),
            Some(first) if first == row => String::new(),
            Some(first) => self.rows[first].name.clone(),
        }
    }
}

/// The best of the rows that are `among` the chosen ones, and those that are no worse than by their `margin`. None if that holds for all.
fn best_of(
    rows: &[Row],
    among: &[bool],
    wins: Wins,
    value: impl Fn(&Row) -> Option<f64>,
    margin: impl Fn(&Row, f64) -> f64,
) -> Vec<bool> {
    let values: Vec<Option<f64>> =
        rows.iter().zip(among).map(|(row, &in_it)| value(row).filter(|v| in_it && v.is_finite())).collect();
    let known = values.iter().flatten().copied();
    let best = match wins {
        Wins::Largest => known.reduce(f64::max),
        Wins::Smallest => known.reduce(f64::min),
    };
    let Some(best) = best else { return vec![false; rows.len()] };
    let near = |row: &Row, v: f64| (v - best).abs() <= margin(row, best);
    let choice = rows.iter().zip(&values).any(|(row, v)| v.is_some_and(|v| !near(row, v)));
    rows.iter().zip(&values).map(|(row, v)| choice && v.is_some_and(|v| near(row, v))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(model: &str, examples_per_s: f64, accuracy: f64) -> Summary {
        Summary { model: model.into(), examples_per_s, best_val_accuracy: Some(accuracy), ..Summary::default() }
    }

    fn speed_ups(summaries: &[Summary], settings: &[Settings]) -> Vec<Option<f64>> {
        compare_summaries(summaries, settings).rows.iter().map(|row| row.speed_up).collect()
    }

    #[test]
    fn speed_up_is_only_between_equal_work() {
        let mlp = |examples_per_s| summary("mlp", examples_per_s, 0.8);
        let runs = [mlp(100.0), mlp(250.0), summary("cnn", 10.0, 0.9), mlp(f64::NAN)];
        assert_eq!(speed_ups(&runs, &[]), [Some(1.0), Some(2.5), None, None]);
        for other in [
            Summary { batch: 512, ..mlp(900.0) },
            Summary { data: "other".into(), ..mlp(900.0) },
            Summary { epochs_planned: 1, ..mlp(900.0) },
            Summary { parameters: 7, ..mlp(900.0) },
        ] {
            assert_eq!(speed_ups(&[mlp(100.0), other], &[]), [None, None]);
        }
        let with = |text: &str| Settings::of(&text.parse().unwrap());
        let (sgd, adam) = (with("[config.optimizer]\nname='sgd'"), with("[config.optimizer]\nname='adam'"));
        let rows = compare_summaries(&[mlp(100.0), mlp(300.0), mlp(200.0)], &[sgd.clone(), adam, sgd]).rows;
        assert_eq!(rows.iter().map(|row| row.speed_up).collect::<Vec<_>>(), [Some(1.0), None, Some(2.0)]);
        assert_eq!(rows[1].differs, "optimizer adam");
    }

    #[test]
    fn efficiency_is_per_core_and_not_per_replica() {
        let run =
            |replicas, threads, examples_per_s| Summary { replicas, threads, ..summary("mlp", examples_per_s, 0.8) };
        let efficiency = |runs: &[Summary]| compare_summaries(runs, &[]).rows[1].efficiency;
        // One replica with two threads and two replicas with one have the same cores.
        assert_eq!(efficiency(&[run(1, 2, 100.0), run(2, 1, 46.0)]), Some(0.46));
        assert_eq!(efficiency(&[run(1, 1, 100.0), run(2, 2, 200.0)]), Some(0.5));
        // Four threads on two cores have two cores.
        let two = |mut run: Summary| {
            run.machine.cores = 2;
            run
        };
        assert_eq!(efficiency(&[two(run(1, 1, 100.0)), two(run(4, 1, 150.0))]), Some(0.75));
    }

    #[test]
    fn the_best_is_marked_only_if_there_is_a_choice() {
        let many =
            compare_summaries(&[summary("a", 1.0, 0.8), summary("a", 1.0, 0.9), summary("a", 1.0, f64::NAN)], &[]);
        assert_eq!(many.best(Score::ValidationAccuracy), [false, true, false]);
        assert_eq!(many.fastest(Wins::Smallest, |row| Some(row.examples_per_s)), [false; 3]);
        assert_eq!(compare_summaries(&[summary("a", 1.0, 0.8)], &[]).best(Score::ValidationAccuracy), [false]);
        let two = [summary("a", 1.0, 0.8), summary("b", 9.0, 0.9), summary("a", 2.0, 0.9)];
        assert_eq!(
            compare_summaries(&two, &[]).fastest(Wins::Largest, |row| Some(row.examples_per_s)),
            [false, false, true]
        );
    }
    #[test]
    fn what_differs_by_less_than_a_sample_is_equally_good() {
        let best = |accuracies: &[f64], validation_samples: u64| {
            let runs: Vec<Summary> =
                accuracies.iter().map(|&a| Summary { validation_samples, ..summary("a", 1.0, a) }).collect();
            compare_summaries(&runs, &[]).best(Score::ValidationAccuracy)
        };
        assert_eq!(best(&[0.9, 0.900_000_01], 0), [false, false]);
        assert_eq!(best(&[0.9, 0.900_000_01, 0.85], 0), [true, true, false]);
        // One of 800 samples is a difference, less than half of one comes from sums in another order.
        assert_eq!(best(&[0.9, 0.9 + 1.0 / 800.0], 800), [false, true]);
        assert_eq!(best(&[0.9, 0.9 + 0.4 / 800.0], 800), [false, false]);
        let loss = |loss| Summary { best_val_loss: Some(loss), ..Summary::default() };
        let losses = |all: &[f64]| {
            compare_summaries(&all.iter().map(|&l| loss(l)).collect::<Vec<_>>(), &[]).best(Score::ValidationLoss)
        };
        assert_eq!(losses(&[0.345_678_91, 0.345_678_92]), [false, false]);
        assert_eq!(losses(&[0.3456, 0.3556]), [true, false]);
        // A run that ended early is not the fastest for it.
        let run = |seconds_train, epochs_planned| Summary { seconds_train, epochs_planned, ..summary("a", 1.0, 0.8) };
        let shortest = |runs: [Summary; 2]| compare_summaries(&runs, &[]).fastest(Wins::Smallest, Row::whole_seconds);
        assert_eq!(shortest([run(1.0, 0), run(2.0, 0)]), [true, false]);
        assert_eq!(shortest([run(1.0, 3), run(2.0, 3)]), [false, false]);
        // Speeds: as in the verdict on more cores.
        let fastest = |rates: [f64; 2]| {
            compare_summaries(&rates.map(|r| summary("a", r, 0.8)), &[])
                .fastest(Wins::Largest, |row| Some(row.examples_per_s))
        };
        assert_eq!((fastest([100.0, 104.0]), fastest([100.0, 110.0])), (vec![false; 2], vec![false, true]));
    }

    #[test]
    fn results_on_other_data_are_not_compared() {
        let on = |data: &str, accuracy| Summary { data: data.into(), ..summary("a", 1.0, accuracy) };
        let runs = [on("mnist", 0.98), on("photos", 0.7), on("mnist", 0.97), on("photos", 0.8), on("alone", 0.99)];
        let compared = compare_summaries(&runs, &[]);
        assert_eq!(compared.best(Score::ValidationAccuracy), [true, false, false, true, false]);
        assert_eq!(compared.evaluations(), [0, 1, 4]);
        let with = |text: &str| Settings::of(&text.parse().unwrap());
        let held_out = [with("[config.data]\nvalidation='test'"), with("[config.data]\nvalidation=0.1")];
        let other = compare_summaries(&[on("mnist", 0.98), on("mnist", 0.97)], &held_out);
        assert_eq!(other.best(Score::ValidationAccuracy), [false, false]);
    }
}

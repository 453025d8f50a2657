//! Runs side by side.

use paceline_record::{RunData, Status, Summary, TimeSplit};

use crate::digest;

/// Runs side by side, in the order in which they were given. The first of each model and data set is what the others of its
/// kind are measured against.
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
    /// Global batch.
    pub batch: u64,
    /// Epochs done.
    pub epochs: u64,
    /// Epochs planned.
    pub epochs_planned: u64,
    /// How the run stands.
    pub status: Status,
    /// Seconds of training.
    pub seconds: f64,
    /// Training samples per second.
    pub examples_per_s: f64,
    /// Throughput as a multiple of that of the first run of the same model on the same data.
    pub speed_up: Option<f64>,
    /// Epoch with the best validation result.
    pub best_epoch: Option<u64>,
    /// Validation accuracy of that epoch.
    pub val_accuracy: Option<f64>,
    /// The lowest validation loss, of whichever epoch.
    pub val_loss: Option<f64>,
    /// Test accuracy, if it was measured.
    pub test_accuracy: Option<f64>,
    /// Where the time went, over all ranks, as fractions of 1.
    pub fractions: TimeSplit,
}

/// Compares runs. Incomplete runs take part with what they have.
pub fn compare(runs: &[RunData]) -> Comparison {
    compare_summaries(&runs.iter().map(digest).collect::<Vec<_>>())
}

pub(crate) fn compare_summaries(summaries: &[Summary]) -> Comparison {
    let same_work = |a: &Summary, b: &Summary| a.model == b.model && a.data == b.data;
    let first = |summary: &Summary| summaries.iter().find(|other| same_work(other, summary)).unwrap_or(summary).clone();
    let rows = summaries.iter().map(|summary| row(summary, &first(summary))).collect();
    Comparison { rows }
}

fn row(summary: &Summary, first: &Summary) -> Row {
    let strategy = match summary.strategy.as_str() {
        "" => format!("×{}", summary.replicas),
        name if summary.replicas <= 1 => name.to_string(),
        name => format!("{name} ×{}", summary.replicas),
    };
    let speed_up = Some(summary.examples_per_s / first.examples_per_s).filter(|ratio| ratio.is_finite());
    Row {
        name: summary.name.clone(),
        model: summary.model.clone(),
        data: summary.data.clone(),
        strategy,
        replicas: summary.replicas,
        batch: summary.batch,
        epochs: summary.epochs.iter().map(|epoch| epoch.epoch).max().unwrap_or(0),
        epochs_planned: summary.epochs_planned,
        status: summary.status.clone(),
        seconds: summary.seconds_train,
        examples_per_s: summary.examples_per_s,
        speed_up,
        best_epoch: summary.best_epoch,
        val_accuracy: summary.best_val_accuracy,
        val_loss: summary.best_val_loss,
        test_accuracy: summary.test_accuracy,
        fractions: summary.split_fractions,
    }
}

/// Whether larger or smaller wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wins {
    Largest,
    Smallest,
}

impl Comparison {
    /// The rows with the best value; none when there is nothing to choose between.
    pub(crate) fn best(&self, wins: Wins, value: impl Fn(&Row) -> Option<f64>) -> Vec<bool> {
        let values: Vec<Option<f64>> = self.rows.iter().map(|row| value(row).filter(|v| v.is_finite())).collect();
        let known = values.iter().flatten().copied();
        let best = match wins {
            Wins::Largest => known.clone().reduce(f64::max),
            Wins::Smallest => known.clone().reduce(f64::min),
        };
        let choice = known.clone().count() > 1 && best.is_some_and(|best| known.clone().any(|v| v != best));
        values.iter().map(|v| choice && *v == best).collect()
    }

    /// What [`Comparison::best`] may compare: times only between runs of the same work.
    pub(crate) fn same_epochs(&self) -> bool {
        self.rows.windows(2).all(|pair| pair[0].epochs == pair[1].epochs && pair[0].data == pair[1].data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(model: &str, examples_per_s: f64, accuracy: f64) -> Summary {
        Summary { model: model.into(), examples_per_s, best_val_accuracy: Some(accuracy), ..Summary::default() }
    }

    #[test]
    fn speed_up_is_only_between_equal_work() {
        let runs = [
            summary("mlp", 100.0, 0.8),
            summary("mlp", 250.0, 0.9),
            summary("cnn", 10.0, 0.9),
            summary("mlp", f64::NAN, 0.1),
        ];
        let rows = compare_summaries(&runs).rows;
        assert_eq!(rows.iter().map(|row| row.speed_up).collect::<Vec<_>>(), [Some(1.0), Some(2.5), Some(1.0), None]);
    }

    #[test]
    fn the_best_is_marked_only_if_there_is_a_choice() {
        let many = compare_summaries(&[summary("a", 1.0, 0.8), summary("a", 1.0, 0.9), summary("a", 1.0, f64::NAN)]);
        assert_eq!(many.best(Wins::Largest, |row| row.val_accuracy), [false, true, false]);
        assert_eq!(many.best(Wins::Smallest, |row| Some(row.examples_per_s)), [false; 3]);
        assert_eq!(compare_summaries(&[summary("a", 1.0, 0.8)]).best(Wins::Largest, |row| row.val_accuracy), [false]);
    }
}

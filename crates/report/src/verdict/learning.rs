//! What losses and accuracies say.

use paceline_record::EpochRecord;

use super::{Level, Topic, Verdict};
use crate::format::{loss as figure, percent};

/// A gap of this size between training and evaluation accuracy is over-fitting if evaluation also errs much more.
const GAP: f64 = 0.10;
/// "Much more": training errs less than this share of evaluation's errors.
const ERROR_RATIO: f64 = 0.6;
/// A gap of this size is over-fitting whatever the errors.
const WIDE_GAP: f64 = 0.20;
/// The validation loss has risen if it is so much above its lowest; noise between epochs is below this.
const RISE: f64 = 0.02;
/// A rise that needs no second epoch to be believed.
const STEEP_RISE: f64 = 0.10;
/// The loss still falls if an epoch takes off more than this.
const STILL_FALLING: f64 = 0.01;

/// The loss is no longer a number.
pub fn diverged(epochs: &[EpochRecord]) -> Option<Verdict> {
    // A loss that nobody recorded is also NaN; one that was recorded comes with a rate, or after finite ones.
    let recorded = epochs.iter().any(|epoch| epoch.train_loss.is_finite());
    let bad = |epoch: &&EpochRecord| {
        let known = recorded || epoch.rate.is_finite() || epoch.train_loss.is_infinite();
        (known && !epoch.train_loss.is_finite()) || epoch.val_loss.is_some_and(|loss| !loss.is_finite())
    };
    let first = epochs.iter().find(bad)?;
    Some(Verdict::new(
        Topic::Diverged,
        Level::Warning,
        format!("diverged in epoch {}", first.epoch),
        format!(
            "training loss {}, validation loss {}",
            figure(first.train_loss),
            first.val_loss.map_or("not measured".into(), figure)
        ),
        "lower the learning rate, warm it up, or clip the gradients",
    ))
}

/// Training goes on getting better while evaluation does not. `evaluation` is an accuracy on samples never trained on, for
/// runs without validation in every epoch.
pub fn over_fitting(epochs: &[EpochRecord], evaluation: Option<f64>) -> Option<Verdict> {
    let rising = rising_since(epochs);
    let last = epochs.last()?;
    let held_out = last
        .val_accuracy
        .filter(|a| a.is_finite())
        .map(|a| (a, "validation"))
        .or(evaluation.filter(|a| a.is_finite()).map(|a| (a, "evaluation")));
    let wide = held_out.filter(|&(accuracy, _)| {
        let gap = last.train_accuracy - accuracy;
        gap > WIDE_GAP || (gap > GAP && 1.0 - last.train_accuracy < ERROR_RATIO * (1.0 - accuracy))
    });
    let gap_reason = wide.map(|(accuracy, which)| {
        format!(
            "training accuracy {} against {} in {which}, {:.0} points apart",
            percent(last.train_accuracy),
            percent(accuracy),
            (last.train_accuracy - accuracy) * 100.0
        )
    });
    let (title, reason, best) = match (rising, gap_reason) {
        (None, None) => return None,
        (None, Some(gap)) => ("over-fitting".to_string(), gap, None),
        (Some(rise), gap) => {
            let mut reason = format!(
                "the validation loss rose from {} (epoch {}) to {} while the training loss fell from {} to {}",
                figure(rise.lowest),
                rise.best_epoch,
                figure(rise.now),
                figure(rise.train_then),
                figure(rise.train_now)
            );
            if let Some(gap) = gap {
                reason.push_str(&format!("; {gap}"));
            }
            (format!("over-fitting since epoch {}", rise.since), reason, Some(rise.best_epoch))
        }
    };
    let advice = match best {
        Some(epoch) => format!("keep epoch {epoch}, or use more data, augmentation, dropout or weight decay"),
        None => "use more data, augmentation, dropout, weight decay or a smaller model, and stop earlier".into(),
    };
    Some(Verdict::new(Topic::OverFitting, Level::Warning, title, reason, advice))
}

struct Rise {
    since: u64,
    best_epoch: u64,
    lowest: f64,
    now: f64,
    train_then: f64,
    train_now: f64,
}

fn rising_since(epochs: &[EpochRecord]) -> Option<Rise> {
    let measured: Vec<(&EpochRecord, f64)> =
        epochs.iter().filter_map(|e| e.val_loss.filter(|l| l.is_finite()).map(|l| (e, l))).collect();
    let at = (0..measured.len()).min_by(|&a, &b| measured[a].1.total_cmp(&measured[b].1))?;
    let (best, lowest) = measured[at];
    let (last, now) = *measured.last()?;
    let since = measured.get(at + 1)?.0.epoch;
    let risen = (now - lowest) / lowest.abs().max(f64::MIN_POSITIVE);
    let later = measured.len() - 1 - at;
    let believed = (risen > RISE && later >= 2) || risen > STEEP_RISE;
    (believed && last.train_loss < best.train_loss).then_some(Rise {
        since,
        best_epoch: best.epoch,
        lowest,
        now,
        train_then: best.train_loss,
        train_now: last.train_loss,
    })
}

/// No better than guessing. Where the number of classes is not known it is inferred from the loss, which is its
/// logarithm when a network guesses evenly.
pub fn at_chance(accuracy: f64, loss: Option<f64>, classes: Option<u64>) -> Option<Verdict> {
    let classes = classes.filter(|&k| k >= 2).or_else(|| {
        let guess = loss.filter(|l| l.is_finite())?.exp().round();
        let even = (2.0..=100_000.0).contains(&guess) && (guess.ln() / loss? - 1.0).abs() < 0.02;
        even.then_some(guess as u64)
    })?;
    let chance = 1.0 / classes as f64;
    // A margin for small validation sets, which shrinks with the chance itself.
    if accuracy.is_nan() || accuracy > chance + 0.25 * chance * (1.0 - chance) {
        return None;
    }
    Some(Verdict::new(
        Topic::AtChance,
        Level::Warning,
        "accuracy at chance",
        format!("{} on {classes} classes, where guessing gives {}", percent(accuracy), percent(chance)),
        "the network has learnt nothing: check the labels, their order and the learning rate (try a tenth and ten times of it)",
    ))
}

/// The loss was still falling when the run ended.
pub fn not_converged(epochs: &[EpochRecord]) -> Option<Verdict> {
    let validated = epochs.iter().all(|e| e.val_loss.is_some());
    let losses: Vec<f64> = epochs.iter().map(|e| e.val_loss.filter(|_| validated).unwrap_or(e.train_loss)).collect();
    let [.., before, last] = losses[..] else { return None };
    // Over three epochs where there are enough: one lucky epoch is not a trend.
    let (span, from) = if losses.len() >= 4 { (3, losses[losses.len() - 4]) } else { (1, before) };
    let lowest = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let per_epoch = (from - last) / from / f64::from(span);
    if !(per_epoch > STILL_FALLING && last <= lowest) {
        return None;
    }
    let which = if validated { "validation" } else { "training" };
    Some(Verdict::new(
        Topic::NotConverged,
        Level::Note,
        "not yet converged",
        format!(
            "the {which} loss still falls by {:.1} % an epoch: {} to {} over the last {span}",
            per_epoch * 100.0,
            figure(from),
            figure(last)
        ),
        "train for more epochs (--resume) before judging the accuracy",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(train: &[f64], val: &[f64]) -> Vec<EpochRecord> {
        let epoch = |i: usize| EpochRecord {
            epoch: i as u64 + 1,
            train_loss: train[i],
            train_accuracy: 0.5,
            val_loss: val.get(i).copied(),
            val_accuracy: val.get(i).map(|_| 0.5),
            ..EpochRecord::default()
        };
        (0..train.len()).map(epoch).collect()
    }

    #[test]
    fn report_e_is_over_fitting() {
        let curve = [0.6124, 0.8975, 0.9437, 0.9576, 0.9666];
        let epochs: Vec<_> = (1..)
            .zip(curve)
            .map(|(epoch, train_accuracy)| EpochRecord { epoch, train_accuracy, ..EpochRecord::default() })
            .collect();
        let verdict = over_fitting(&epochs, Some(0.6611)).unwrap();
        assert_eq!(verdict.title, "over-fitting");
        assert_eq!(verdict.reason, "training accuracy 96.7 % against 66.1 % in evaluation, 31 points apart");
        // The same report's Fashion-MNIST, .8914 against .8728, is not.
        let fine = [EpochRecord { train_accuracy: 0.8914, ..EpochRecord::default() }];
        assert_eq!(over_fitting(&fine, Some(0.8728)), None);
    }

    #[test]
    fn a_rising_validation_loss_names_its_epoch() {
        let verdict = over_fitting(&epochs(&[1.0, 0.8, 0.6, 0.4, 0.2], &[1.0, 0.9, 0.95, 1.0, 1.1]), None).unwrap();
        assert_eq!(verdict.title, "over-fitting since epoch 3");
        assert!(verdict.reason.contains("from 0.9000 (epoch 2) to 1.100"), "{verdict}");
        assert!(verdict.advice.contains("keep epoch 2"));
    }

    #[test]
    fn noise_and_failing_training_are_not_over_fitting() {
        assert_eq!(over_fitting(&epochs(&[1.0, 0.8, 0.6], &[1.0, 0.9, 0.91]), None), None);
        assert_eq!(over_fitting(&epochs(&[1.0, 0.8, 0.9], &[1.0, 0.9, 1.9]), None), None);
        assert_eq!(over_fitting(&[], Some(0.5)), None);
    }

    #[test]
    fn chance_is_called_chance() {
        assert!(at_chance(0.20, None, Some(5)).is_some(), "report B: 16-20 % on five classes");
        assert!(at_chance(0.16, None, Some(5)).is_some());
        assert!(at_chance(0.1, Some(10f64.ln()), None).unwrap().reason.contains("10 classes"));
        assert!(at_chance(0.42, None, Some(5)).is_none());
        assert!(at_chance(0.1, Some(0.4), None).is_none(), "without classes and far from any logarithm");
        assert!(at_chance(f64::NAN, None, Some(5)).is_none());
    }

    #[test]
    fn a_falling_loss_is_not_converged() {
        assert!(not_converged(&epochs(&[3.0, 2.0, 1.5, 1.2, 1.0], &[3.0, 2.5, 2.0, 1.8, 1.7])).is_some());
        assert_eq!(not_converged(&epochs(&[1.0, 0.5, 0.499, 0.498, 0.4979], &[])), None);
        assert_eq!(not_converged(&epochs(&[1.0, 0.5, 0.6], &[])), None);
        assert_eq!(not_converged(&epochs(&[1.0], &[])), None);
    }

    #[test]
    fn a_loss_that_is_no_number_has_diverged() {
        let verdict = diverged(&epochs(&[1.0, f64::NAN], &[])).unwrap();
        assert_eq!(verdict.title, "diverged in epoch 2");
        assert_eq!(diverged(&epochs(&[1.0, 0.5], &[1.0, 0.5])), None);
        assert_eq!(diverged(&[EpochRecord::default()]), None, "a loss that was never recorded has not diverged");
    }
}

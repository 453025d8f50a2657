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
/// A training accuracy of so much of the way from guessing to knowing all is more than luck.
const LEARNT: f64 = 0.25;
/// The loss still falls if an epoch takes off more than this.
const STILL_FALLING: f64 = 0.01;

/// A loss above so many times that of guessing evenly has run away: a network that over-fits still fits what it has seen.
const RUN_AWAY: f64 = 2.0;
/// A validation loss above so many times that of guessing is more than over-confidence, however well training goes.
const FAR_AWAY: f64 = 20.0;
/// The training loss has collapsed if it is so many times its lowest, and half of what guessing gives above it.
const COLLAPSE: f64 = 2.0;

/// The loss of a network that guesses evenly among classes.
fn guessing(classes: Option<u64>) -> Option<f64> {
    classes.filter(|&k| k >= 2).map(|k| (k as f64).ln())
}

/// Training went wrong: the loss is no longer a number, ran away beyond that of guessing, or collapsed after it had been low.
pub(crate) fn diverged(epochs: &[EpochRecord], classes: Option<u64>) -> Option<Verdict> {
    let slower = "lower the learning rate, or warm it up";
    let verdict = |epoch: u64, reason: String, advice: &str| {
        Some(Verdict::new(Topic::Diverged, Level::Warning, format!("diverged in epoch {epoch}"), reason, advice))
    };
    // A loss that nobody recorded is also NaN; one that was recorded comes with a rate, or after finite ones.
    let recorded = epochs.iter().any(|epoch| epoch.train_loss.is_finite());
    let bad = |epoch: &&EpochRecord| {
        let known = recorded || epoch.rate.is_finite() || epoch.train_loss.is_infinite();
        (known && !epoch.train_loss.is_finite()) || epoch.val_loss.is_some_and(|loss| !loss.is_finite())
    };
    if let Some(first) = epochs.iter().find(bad) {
        let validation = first.val_loss.map_or("not measured".into(), figure);
        let reason = format!("training loss {}, validation loss {validation}", figure(first.train_loss));
        return verdict(first.epoch, reason, slower);
    }
    let last = epochs.last()?;
    let guess = guessing(classes);
    if let (Some(guess), Some(classes)) = (guess, classes) {
        let away =
            |epoch: &EpochRecord| epoch.train_loss > RUN_AWAY * guess && epoch.val_loss.is_none_or(|loss| loss > guess);
        if away(last) {
            let since = epochs.iter().rev().take_while(|epoch| away(epoch)).last().map_or(last.epoch, |e| e.epoch);
            let reason = format!(
                "the training loss is {}, where guessing evenly among {classes} classes gives {}",
                figure(last.train_loss),
                figure(guess)
            );
            return verdict(since, reason, slower);
        }
        let far = |epoch: &EpochRecord| epoch.val_loss.is_some_and(|loss| loss > FAR_AWAY * guess);
        if far(last) {
            let since = epochs.iter().rev().take_while(|epoch| far(epoch)).last().map_or(last.epoch, |e| e.epoch);
            let reason = format!(
                "the validation loss is {}, where guessing evenly among {classes} classes gives {}; over-fitting alone does \
                 not go that far",
                last.val_loss.map_or_else(String::new, figure),
                figure(guess)
            );
            let advice =
                "lower the learning rate, and look at the validation samples: are they scaled like those trained on?";
            return verdict(since, reason, advice);
        }
    }
    let lowest = epochs.iter().min_by(|a, b| a.train_loss.total_cmp(&b.train_loss))?;
    let (low, now) = (lowest.train_loss, last.train_loss);
    // Where nobody can guess, the loss of the first epoch says what is much.
    if now > COLLAPSE * low && now - low > guess.unwrap_or(epochs[0].train_loss) / 2.0 {
        let since = epochs.iter().find(|epoch| epoch.epoch > lowest.epoch).map_or(last.epoch, |epoch| epoch.epoch);
        let reason = format!("the training loss rose from {} (epoch {}) to {}", figure(low), lowest.epoch, figure(now));
        return verdict(since, reason, slower);
    }
    None
}

/// Training goes on getting better while evaluation does not, and has learnt something: what never fitted cannot over-fit.
/// `evaluation` is an accuracy on samples never trained on, for runs without validation in every epoch; `best` says which epoch
/// to keep, with its checkpoint if that is known.
pub(crate) fn over_fitting(
    epochs: &[EpochRecord],
    evaluation: Option<f64>,
    classes: Option<u64>,
    best: Option<(u64, Option<&str>)>,
) -> Option<Verdict> {
    let rising = rising_since(epochs);
    let last = epochs.last()?;
    if guessing(classes).is_some_and(|guess| last.train_loss >= guess) {
        return None;
    }
    let held_out = last
        .val_accuracy
        .filter(|a| a.is_finite())
        .map(|a| (a, "validation"))
        .or(evaluation.filter(|a| a.is_finite()).map(|a| (a, "evaluation")));
    let wide = last.train_accuracy.zip(held_out).filter(|&(trained, (accuracy, _))| {
        let gap = trained - accuracy;
        gap > WIDE_GAP || (gap > GAP && 1.0 - trained < ERROR_RATIO * (1.0 - accuracy))
    });
    let gap_reason = wide.map(|(trained, (accuracy, which))| {
        format!(
            "training accuracy {} against {} in {which}, {:.0} points apart",
            percent(trained),
            percent(accuracy),
            (trained - accuracy) * 100.0
        )
    });
    let (title, reason) = match (rising, gap_reason) {
        (None, None) => return None,
        (None, Some(gap)) => ("over-fitting".to_string(), gap),
        (Some(rise), gap) => {
            let mut reason = format!(
                "the validation loss rose from {} (epoch {}) to {} while the training loss fell from {} to {}",
                figure(rise.lowest),
                rise.lowest_epoch,
                figure(rise.now),
                figure(rise.train_then),
                figure(rise.train_now)
            );
            if let Some(gap) = gap {
                reason.push_str(&format!("; {gap}"));
            }
            (format!("over-fitting since epoch {}", rise.since), reason)
        }
    };
    let advice = match best.filter(|(epoch, _)| *epoch != last.epoch) {
        Some((epoch, kept)) => format!(
            "keep epoch {epoch}{}, or use more data, augmentation, dropout or weight decay",
            kept.map_or(String::new(), |path| format!(" ({path})"))
        ),
        None => "use more data, augmentation, dropout, weight decay or a smaller model, and stop earlier".into(),
    };
    Some(Verdict::new(Topic::OverFitting, Level::Warning, title, reason, advice))
}

struct Rise {
    since: u64,
    lowest_epoch: u64,
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
        lowest_epoch: best.epoch,
        lowest,
        now,
        train_then: best.train_loss,
        train_now: last.train_loss,
    })
}

/// No better than guessing, in training (`trained`, its accuracy) as in validation: a network that knows what it was trained on
/// has learnt something. Where the number of classes is not known it is inferred from the loss, which is its
/// logarithm when a network guesses evenly.
pub(crate) fn at_chance(
    accuracy: f64,
    loss: Option<f64>,
    classes: Option<u64>,
    trained: Option<f64>,
) -> Option<Verdict> {
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
    if trained.is_some_and(|trained| trained > chance + LEARNT * (1.0 - chance)) {
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
pub(crate) fn not_converged(epochs: &[EpochRecord]) -> Option<Verdict> {
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
    let numbers = epochs.iter().any(|e| e.train_absolute_error.is_some());
    let judged = if numbers { "absolute error" } else { "accuracy" };
    Some(Verdict::new(
        Topic::NotConverged,
        Level::Note,
        "not yet converged",
        format!(
            "the {which} loss still falls by {:.1} % an epoch: {} to {} over the last {}",
            per_epoch * 100.0,
            figure(from),
            figure(last),
            if span == 1 { "epoch".into() } else { format!("{span} epochs") }
        ),
        format!("resume it for more epochs before judging the {judged}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(train: &[f64], val: &[f64]) -> Vec<EpochRecord> {
        let epoch = |i: usize| EpochRecord {
            epoch: i as u64 + 1,
            train_loss: train[i],
            train_accuracy: Some(0.5),
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
            .map(|(epoch, accuracy)| EpochRecord { epoch, train_accuracy: Some(accuracy), ..EpochRecord::default() })
            .collect();
        let verdict = over_fitting(&epochs, Some(0.6611), Some(5), None).unwrap();
        assert_eq!(verdict.title, "over-fitting");
        assert_eq!(verdict.reason, "training accuracy 96.7 % against 66.1 % in evaluation, 31 points apart");
        // The same report's Fashion-MNIST, .8914 against .8728, is not.
        let fine = [EpochRecord { train_accuracy: Some(0.8914), ..EpochRecord::default() }];
        assert_eq!(over_fitting(&fine, Some(0.8728), Some(10), None), None);
    }

    #[test]
    fn a_rising_validation_loss_names_its_epoch() {
        let verdict = over_fitting(
            &epochs(&[1.0, 0.8, 0.6, 0.4, 0.2], &[1.0, 0.9, 0.95, 1.0, 1.1]),
            None,
            None,
            Some((4, Some("checkpoints/step-40"))),
        )
        .unwrap();
        assert_eq!(verdict.title, "over-fitting since epoch 3");
        assert!(verdict.reason.contains("from 0.9000 (epoch 2) to 1.100"), "{verdict}");
        assert!(
            verdict.advice.starts_with("keep epoch 4 (checkpoints/step-40), or"),
            "the best one, not that of the lowest loss: {verdict}"
        );
    }

    #[test]
    fn noise_and_failing_training_are_not_over_fitting() {
        assert_eq!(over_fitting(&epochs(&[1.0, 0.8, 0.6], &[1.0, 0.9, 0.91]), None, None, None), None);
        assert_eq!(over_fitting(&epochs(&[1.0, 0.8, 0.9], &[1.0, 0.9, 1.9]), None, None, None), None);
        assert_eq!(over_fitting(&[], Some(0.5), None, None), None);
    }

    #[test]
    fn chance_is_called_chance() {
        assert!(at_chance(0.20, None, Some(5), None).is_some(), "report B: 16-20 % on five classes");
        assert!(at_chance(0.16, None, Some(5), None).is_some());
        assert!(at_chance(0.1, Some(10f64.ln()), None, None).unwrap().reason.contains("10 classes"));
        assert!(at_chance(0.42, None, Some(5), None).is_none());
        assert!(at_chance(0.1, Some(0.4), None, None).is_none(), "without classes and far from any logarithm");
        assert!(at_chance(f64::NAN, None, Some(5), None).is_none());
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
        let verdict = diverged(&epochs(&[1.0, f64::NAN], &[]), None).unwrap();
        assert_eq!(verdict.title, "diverged in epoch 2");
        assert_eq!(diverged(&epochs(&[1.0, 0.5], &[1.0, 0.5]), Some(10)), None);
        assert_eq!(
            diverged(&[EpochRecord::default()], Some(10)),
            None,
            "a loss that was never recorded has not diverged"
        );
    }

    /// What is said of these losses on ten classes: diverged, over-fitting, or nothing of both.
    fn said(train: &[f64], val: &[f64]) -> &'static str {
        let epochs = epochs(train, val);
        match (diverged(&epochs, Some(10)), over_fitting(&epochs, None, Some(10), None)) {
            (Some(_), _) => "diverged",
            (None, Some(_)) => "over-fitting",
            (None, None) => "nothing",
        }
    }

    #[test]
    fn a_loss_beyond_guessing_has_diverged_and_is_not_over_fitting() {
        // A rate that is far too high: both fall or rise by chance, and neither fits anything.
        assert_eq!(said(&[2400.0, 1100.0, 480.0], &[210.0, 290.0, 362.0]), "diverged");
        assert_eq!(over_fitting(&epochs(&[2400.0, 1100.0, 480.0], &[210.0, 290.0, 362.0]), None, Some(10), None), None);
        assert_eq!(said(&[1.9, 0.4, 2.3], &[1.5, 0.5, 2.3]), "diverged", "it had learnt, and lost it");
        assert_eq!(said(&[1.0, 0.3, 0.2], &[1.0, 0.6, 362.0]), "diverged", "training fits, validation is absurd");
        assert_eq!(said(&[1.0, 0.1, 0.01], &[1.0, 1.5, 3.5]), "over-fitting", "confident and wrong");
        assert_eq!(said(&[40.0, 1.5, 0.9], &[2.0, 1.2, 0.9]), "nothing", "a rough start is none");
        assert_eq!(said(&[2.31, 2.304, 2.303], &[2.303, 2.305, 2.303]), "nothing", "guessing has its own verdict");
        let verdict = diverged(&epochs(&[0.9, 30.0, 362.0], &[0.9, 40.0, 361.0]), Some(10)).unwrap();
        assert_eq!(verdict.title, "diverged in epoch 2");
        assert!(verdict.reason.contains("362.0, where guessing evenly among 10 classes gives 2.303"), "{verdict}");
    }

    #[test]
    fn who_knows_what_it_was_trained_on_is_not_at_chance() {
        assert!(at_chance(0.1, None, Some(10), Some(0.12)).is_some());
        assert_eq!(at_chance(0.1, None, Some(10), Some(0.97)), None, "that is over-fitting");
    }
}

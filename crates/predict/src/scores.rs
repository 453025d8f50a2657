//! How good predictions are: precision, recall and F1 by class, their means, and who is taken for whom.
//!
//! With `tp` right predictions of a class, `predicted` predictions of it and `support` samples that have it: precision is
//! `tp / predicted`, recall `tp / support`, F1 their harmonic mean `2 tp / (predicted + support)`. Where the divisor is zero the
//! value is 0, as scikit-learn's `precision_recall_fscore_support` has it by default (`zero_division="warn"`). The macro mean is
//! over the classes that occur among labels or predictions; the weighted mean weighs by support.

use serde::Serialize;
use std::collections::BTreeMap;

/// How often each class was taken for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    /// By label and prediction; only what occurred, since a thousand classes have a million pairs.
    counts: BTreeMap<(usize, usize), u64>,
}

/// How well one class is recognised.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassScores {
    /// Its number.
    pub class: usize,
    /// Share of its predictions that are right.
    pub precision: f64,
    /// Share of its samples that are recognised.
    pub recall: f64,
    /// The harmonic mean of the two.
    pub f1: f64,
    /// Samples that have it.
    pub support: u64,
    /// Samples that it was predicted for.
    pub predicted: u64,
}

/// Means over classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Means {
    /// Of the precisions.
    pub precision: f64,
    /// Of the recalls.
    pub recall: f64,
    /// Of the F1 values.
    pub f1: f64,
}

impl Confusion {
    /// Of so many classes, with nothing counted yet.
    pub fn new(classes: usize) -> Self {
        Self { classes, counts: BTreeMap::new() }
    }

    /// Counts a sample.
    pub fn add(&mut self, label: usize, predicted: usize) {
        *self.counts.entry((label, predicted)).or_default() += 1;
    }

    /// Samples of a class that were taken for another (or for itself).
    pub fn count(&self, label: usize, predicted: usize) -> u64 {
        self.counts.get(&(label, predicted)).copied().unwrap_or(0)
    }

    /// All samples.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Samples whose class was predicted.
    pub fn correct(&self) -> u64 {
        self.counts.iter().filter(|((label, predicted), _)| label == predicted).map(|(_, n)| n).sum()
    }

    /// Share of samples whose class was predicted; 0 of none.
    pub fn accuracy(&self) -> f64 {
        ratio(self.correct(), self.total())
    }

    /// Every class, in order.
    pub fn by_class(&self) -> Vec<ClassScores> {
        let (mut support, mut predicted) = (vec![0; self.classes], vec![0; self.classes]);
        for (&(label, guess), &count) in &self.counts {
            support[label] += count;
            predicted[guess] += count;
        }
        let class = |class: usize| {
            let (right, support, predicted) = (self.count(class, class), support[class], predicted[class]);
            ClassScores {
                class,
                precision: ratio(right, predicted),
                recall: ratio(right, support),
                f1: ratio(2 * right, support + predicted),
                support,
                predicted,
            }
        };
        (0..self.classes).map(class).collect()
    }

    /// Means over the classes that occur, each counted alike.
    pub fn macro_mean(&self) -> Means {
        mean(self.by_class().iter().filter(|c| c.support + c.predicted > 0).map(|c| (c, 1.0)))
    }

    /// Means over the classes, each as often as it occurs.
    pub fn weighted_mean(&self) -> Means {
        mean(self.by_class().iter().map(|c| (c, c.support as f64)))
    }

    /// The pairs of a class and another that it was taken for, the most frequent first.
    pub fn confusions(&self) -> Vec<(usize, usize, u64)> {
        let wrong = self.counts.iter().filter(|((label, predicted), _)| label != predicted);
        let mut list: Vec<_> = wrong.map(|(&(label, predicted), &count)| (label, predicted, count)).collect();
        list.sort_by_key(|&(label, predicted, count)| (std::cmp::Reverse(count), label, predicted));
        list
    }

    /// Rows are labels, columns predictions.
    pub fn matrix(&self) -> Vec<Vec<u64>> {
        (0..self.classes).map(|label| (0..self.classes).map(|guess| self.count(label, guess)).collect()).collect()
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn mean<'a>(classes: impl Iterator<Item = (&'a ClassScores, f64)>) -> Means {
    let (mut sum, mut weights) = (Means::default(), 0.0);
    for (class, weight) in classes {
        sum.precision += weight * class.precision;
        sum.recall += weight * class.recall;
        sum.f1 += weight * class.f1;
        weights += weight;
    }
    if weights == 0.0 {
        return Means::default();
    }
    Means { precision: sum.precision / weights, recall: sum.recall / weights, f1: sum.f1 / weights }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(labels: &[usize], predicted: &[usize], classes: usize) -> Confusion {
        let mut confusion = Confusion::new(classes);
        labels.iter().zip(predicted).for_each(|(&label, &guess)| confusion.add(label, guess));
        confusion
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    /// The example of scikit-learn's documentation of `precision_recall_fscore_support`: cat, dog and pig, where a pig is never
    /// recognised; its published values are 0.222…, 0.333…, 0.266… in both means.
    #[test]
    fn the_published_example_of_scikit_learn() {
        let confusion = of(&[0, 1, 2, 0, 1, 2], &[0, 2, 1, 0, 0, 1], 3);
        let classes = confusion.by_class();
        assert!(near(classes[0].precision, 2.0 / 3.0) && near(classes[0].recall, 1.0) && near(classes[0].f1, 0.8));
        assert_eq!((classes[1].precision, classes[1].recall, classes[1].f1), (0.0, 0.0, 0.0));
        assert_eq!(classes.iter().map(|c| c.support).collect::<Vec<_>>(), [2, 2, 2]);
        for mean in [confusion.macro_mean(), confusion.weighted_mean()] {
            assert!(near(mean.precision, 2.0 / 9.0) && near(mean.recall, 1.0 / 3.0) && near(mean.f1, 4.0 / 15.0));
        }
        assert_eq!(confusion.matrix(), [[2, 0, 0], [1, 0, 1], [0, 2, 0]]);
        assert_eq!(confusion.confusions(), [(2, 1, 2), (1, 0, 1), (1, 2, 1)]);
        assert!(near(confusion.accuracy(), 1.0 / 3.0));
    }

    /// By hand: classes of 3, 1, 0 and 0 samples, of which the third is only predicted and the fourth does not occur at all.
    #[test]
    fn zero_divisions_are_zero_and_classes_that_do_not_occur_do_not_count() {
        let confusion = of(&[0, 0, 0, 1], &[0, 0, 2, 0], 4);
        let [a, b, c, d] = &confusion.by_class()[..] else { panic!("four classes") };
        assert!(near(a.precision, 2.0 / 3.0) && near(a.recall, 2.0 / 3.0) && near(a.f1, 2.0 / 3.0));
        assert_eq!((b.precision, b.recall, b.f1, b.support, b.predicted), (0.0, 0.0, 0.0, 1, 0));
        assert_eq!((c.precision, c.recall, c.f1, c.support, c.predicted), (0.0, 0.0, 0.0, 0, 1));
        assert_eq!((d.precision, d.recall, d.f1, d.support, d.predicted), (0.0, 0.0, 0.0, 0, 0));
        assert!(near(confusion.macro_mean().f1, 2.0 / 9.0), "three classes occur");
        assert!(near(confusion.weighted_mean().recall, 0.5), "which is the accuracy");
        assert_eq!(Confusion::new(3).macro_mean(), Means::default());
        assert_eq!(Confusion::new(3).accuracy(), 0.0);
    }

    proptest! {
        /// What holds by definition: the weighted recall is the accuracy, F1 lies between precision and recall, supports add up.
        #[test]
        fn definitions_hold(pairs in proptest::collection::vec((0usize..5, 0usize..5), 1..60)) {
            let (labels, guesses): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
            let confusion = of(&labels, &guesses, 5);
            prop_assert!(near(confusion.weighted_mean().recall, confusion.accuracy()));
            let classes = confusion.by_class();
            prop_assert_eq!(classes.iter().map(|c| c.support).sum::<u64>(), pairs.len() as u64);
            prop_assert_eq!(classes.iter().map(|c| c.predicted).sum::<u64>(), pairs.len() as u64);
            for class in &classes {
                let (low, high) = (class.precision.min(class.recall), class.precision.max(class.recall));
                prop_assert!(class.f1 >= low - 1e-12 && class.f1 <= high + 1e-12, "{class:?}");
            }
            let wrong: u64 = confusion.confusions().iter().map(|c| c.2).sum();
            prop_assert_eq!(wrong + confusion.correct(), confusion.total());
        }
    }
}

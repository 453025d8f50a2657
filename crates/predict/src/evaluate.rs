//! How good a model is on labelled data.

use crate::kept::Relabel;
use crate::matching::Matching;
use crate::predictor::{Inputs, PartName, Predictor};
use crate::scores::{ClassScores, Confusion, Means};
use paceline_base::{Error, Result, metric};
use paceline_data::Role;

/// What a model reached on labelled data.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Samples that were evaluated.
    pub samples: u64,
    /// Mean loss.
    pub loss: f64,
    /// Who was taken for whom.
    pub confusion: Confusion,
    /// Samples that could not be evaluated, and what is wrong with the first of them.
    pub bad: u64,
    /// Name and reason of the first bad samples.
    pub first_bad: Vec<(String, String)>,
    /// What a person should know of it.
    pub notes: Vec<String>,
}

/// Bad samples that are named.
const NAMED: usize = 20;

impl Evaluation {
    /// Share of samples whose class was predicted.
    pub fn accuracy(&self) -> f64 {
        self.confusion.accuracy()
    }

    /// Every class, in the model's order.
    pub fn by_class(&self) -> Vec<ClassScores> {
        self.confusion.by_class()
    }

    /// Means over classes: each counted alike, and each as often as it occurs.
    pub fn means(&self) -> (Means, Means) {
        (self.confusion.macro_mean(), self.confusion.weighted_mean())
    }
}

impl Inputs {
    /// The part to evaluate on where none was asked for: test, else validation, else everything.
    pub fn part_to_evaluate(&self) -> PartName {
        let parts = self.parts();
        let found = [Role::Test, Role::Validation].into_iter().find(|role| parts.contains(role));
        found.map_or(PartName::All, PartName::Only)
    }
}

impl Predictor {
    /// Evaluates labelled inputs. Classes are matched by name ([`Matching`]).
    ///
    /// The loss is the sum of the loss kernel over its batches, as in training, so that the same samples give the same bits.
    /// Bad samples are left out of all figures.
    ///
    /// # Errors
    /// If no sample has a class, or some have one that the model does not know.
    pub fn evaluate(&mut self, inputs: &Inputs) -> Result<Evaluation> {
        let classes = self.classes().to_vec();
        let mut notes = Vec::new();
        let mut matchings = Vec::new();
        for group in &inputs.groups {
            let names = group.part.class_names();
            let matching = Matching::new(names, &classes);
            let mut used = vec![false; names.len()];
            (0..group.part.len()).filter_map(|i| group.label(i)).for_each(|label| used[label as usize] = true);
            let place = group.role.map_or("the data".into(), |role| format!("the {role} part"));
            if !used.contains(&true) {
                return Err(Error::user(format!(
                    "{place} has no labels to compare with ({} is the first input); give class folders, a csv of path,label or \
                     labelled shards, or use paceline predict",
                    group.name(0)
                )));
            }
            matching.all_known(names, &used, &classes, &place)?;
            if matching.by_number {
                notes.push("the data has only numbers as classes: they are taken as the model's own".to_string());
            }
            matchings.push(matching);
        }
        notes.dedup();
        self.prepare(inputs)?;
        let mut confusion = Confusion::new(classes.len());
        let (mut loss, mut samples, mut bad, mut first_bad) = (0.0, 0, 0, Vec::new());
        for (group, matching) in inputs.groups.iter().zip(matchings) {
            self.batches(group, Relabel(matching.to), &mut |computed| {
                let is_whole = |row: usize| computed.error(row).is_none() && computed.label(row).is_some();
                let whole = (0..computed.rows).all(is_whole);
                for row in 0..computed.rows {
                    let wrong = match (computed.error(row), computed.label(row)) {
                        (Some(error), _) => error,
                        (None, None) => "it has no label",
                        (None, Some(label)) => {
                            confusion.add(label, first_largest(computed.outputs(row)));
                            samples += 1;
                            // The kernel's sum has the bits of training, but is over all rows.
                            loss += if whole { 0.0 } else { computed.loss(row, label) };
                            continue;
                        }
                    };
                    bad += 1;
                    if first_bad.len() < NAMED {
                        first_bad.push((group.name(computed.start + row), wrong.to_string()));
                    }
                }
                loss += if whole { computed.metrics.sum(metric::LOSS).unwrap_or(f64::NAN) } else { 0.0 };
                Ok(())
            })?;
        }
        if samples == 0 {
            let (name, why) = first_bad.first().cloned().unwrap_or_default();
            return Err(Error::failure(format!("no sample could be evaluated; the first, {name}: {why}")));
        }
        Ok(Evaluation { samples, loss: loss / samples as f64, confusion, bad, first_bad, notes })
    }
}

/// The first place of the largest value, as the loss kernel counts.
fn first_largest(values: &[f64]) -> usize {
    let mut best = 0;
    for (place, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = place;
        }
    }
    best
}

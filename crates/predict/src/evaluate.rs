//! How good a model is on labelled data.

use crate::kept::Relabel;
use crate::matching::Matching;
use crate::predictor::{Inputs, PartName, Predictor};
use crate::scores::Confusion;
use paceline_base::sample::TargetKind;
use paceline_base::{Error, Result, metric, text};
use paceline_data::{Group, Role, Target};

/// What a model reached on labelled data.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Samples that were evaluated.
    pub samples: u64,
    /// Mean loss.
    pub loss: f64,
    /// Mean distance from the target, where targets are numbers.
    pub absolute_error: Option<f64>,
    /// Who was taken for whom, where targets are classes.
    pub confusion: Option<Confusion>,
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
    /// Share of samples whose class was predicted; none where targets are numbers.
    pub fn accuracy(&self) -> Option<f64> {
        self.confusion.as_ref().map(Confusion::accuracy)
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
    /// Evaluates inputs that have targets. Classes are matched by name ([`Matching`]).
    ///
    /// The loss is the sum of the loss kernel over its batches, as in training, so that the same samples give the same bits.
    /// Bad samples are left out of all figures.
    ///
    /// # Errors
    /// If no sample has a class, some have one that the model does not know, or the targets are of another kind than the model's.
    pub fn evaluate(&mut self, inputs: &Inputs) -> Result<Evaluation> {
        let targets = self.info().sample_kind().targets;
        if matches!(targets, TargetKind::Classes { each: 2.., .. }) {
            return Err(self.several_classes());
        }
        inputs.groups.iter().try_for_each(|group| same_kind(targets, group))?;
        match targets {
            TargetKind::Numbers { .. } => self.evaluate_numbers(inputs),
            TargetKind::Classes { .. } => self.evaluate_classes(inputs),
        }
    }

    fn evaluate_classes(&mut self, inputs: &Inputs) -> Result<Evaluation> {
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
        let mut tally = Tally::default();
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
                            tally.samples += 1;
                            // The kernel's sum has the bits of training, but is over all rows.
                            tally.loss += if whole { 0.0 } else { computed.loss(row, label) };
                            continue;
                        }
                    };
                    tally.add_bad(|| group.name(computed.start + row), wrong);
                }
                tally.loss += if whole { computed.metrics.sum(metric::LOSS).unwrap_or(f64::NAN) } else { 0.0 };
                Ok(())
            })?;
        }
        let evaluation = tally.evaluation()?;
        Ok(Evaluation { confusion: Some(confusion), notes, ..evaluation })
    }

    fn evaluate_numbers(&mut self, inputs: &Inputs) -> Result<Evaluation> {
        self.prepare(inputs)?;
        let mut tally = Tally::default();
        let mut absolute_error = 0.0;
        for group in &inputs.groups {
            self.batches(group, Relabel::default(), &mut |computed| {
                let sum = |name| computed.metrics.sum(name).unwrap_or(f64::NAN);
                let kernel = (sum(metric::LOSS), sum(metric::ABSOLUTE_ERROR));
                let whole = (0..computed.rows).all(|row| computed.error(row).is_none());
                for row in 0..computed.rows {
                    match (computed.error(row), computed.target(row)) {
                        (Some(error), _) => tally.add_bad(|| group.name(computed.start + row), error),
                        (None, Target::Numbers(targets)) => {
                            tally.samples += 1;
                            // The kernel's sums have the bits of training, but are over all rows.
                            let (squares, distances) = mean_errors(computed.outputs(row), targets);
                            tally.loss += if whole { 0.0 } else { squares };
                            absolute_error += if whole { 0.0 } else { distances };
                        }
                        (None, _) => return Err(Error::internal("classes in a set whose targets are numbers")),
                    }
                }
                if whole {
                    tally.loss += kernel.0;
                    absolute_error += kernel.1;
                }
                Ok(())
            })?;
        }
        let evaluation = tally.evaluation()?;
        let absolute_error = Some(absolute_error / evaluation.samples as f64);
        Ok(Evaluation { absolute_error, ..evaluation })
    }
}

/// Refuses inputs whose targets cannot be compared with those that a model was trained on.
fn same_kind(model: TargetKind, group: &Group) -> Result<()> {
    let data = group.part.target_kind();
    let same = match (model, data) {
        (TargetKind::Numbers { each: model }, TargetKind::Numbers { each: data }) => model == data,
        (TargetKind::Classes { .. }, TargetKind::Classes { .. }) => true,
        _ => false,
    };
    let words = |kind| match kind {
        TargetKind::Numbers { each } => text::counted(each, "number"),
        TargetKind::Classes { .. } => "a class".into(),
    };
    if same {
        return Ok(());
    }
    Err(Error::user(format!(
        "the target of a sample is {} in the data ({} is the first input), and {} in the run of this model; give data with such \
         targets, or another model",
        words(data),
        group.name(0),
        words(model)
    )))
}

/// The means over outputs of (y − target)² and of |y − target|.
fn mean_errors(outputs: &[f64], targets: &[f32]) -> (f64, f64) {
    let errors = || outputs.iter().zip(targets).map(|(y, &target)| y - f64::from(target));
    let count = outputs.len() as f64;
    (errors().map(|e| e * e).sum::<f64>() / count, errors().map(f64::abs).sum::<f64>() / count)
}

/// What was counted so far.
#[derive(Default)]
struct Tally {
    samples: u64,
    /// The sum over samples.
    loss: f64,
    bad: u64,
    first_bad: Vec<(String, String)>,
}

impl Tally {
    fn add_bad(&mut self, name: impl FnOnce() -> String, wrong: &str) {
        self.bad += 1;
        if self.first_bad.len() < NAMED {
            self.first_bad.push((name(), wrong.to_string()));
        }
    }

    /// The figures that every evaluation has.
    fn evaluation(self) -> Result<Evaluation> {
        let Tally { samples, loss, bad, first_bad } = self;
        if samples == 0 {
            let (name, why) = first_bad.first().cloned().unwrap_or_default();
            return Err(Error::failure(format!("no sample could be evaluated; the first, {name}: {why}")));
        }
        let loss = loss / samples as f64;
        Ok(Evaluation { samples, loss, absolute_error: None, confusion: None, bad, first_bad, notes: Vec::new() })
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

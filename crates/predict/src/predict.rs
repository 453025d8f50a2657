//! Predictions for whole data sets, one after another, in the order in which the inputs were given.

use crate::kept::Relabel;
use crate::matching::Matching;
use crate::predictor::{Inputs, Predictor};
use paceline_base::{Error, Result};
use paceline_data::{Group, Target, TargetKind};

/// What a model says of one input.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction<'a> {
    /// What the input is called: its path, or the file and the number of its record.
    pub input: String,
    /// The class that it has, if that is known.
    pub label: Option<&'a str>,
    /// The classes that it most probably has, most probable first; empty if the input is bad.
    pub top: Vec<Score<'a>>,
    /// The numbers that a model predicts whose targets are numbers; empty for one of classes, or if the input is bad.
    pub numbers: Vec<Number<'a>>,
    /// What is wrong with the input, if it is bad.
    pub error: Option<String>,
}

/// A class and how probable it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score<'a> {
    /// Its number.
    pub class: usize,
    /// Its name.
    pub name: &'a str,
    /// From 0 to 1.
    pub probability: f64,
}

/// A number that was predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number<'a> {
    /// Name of the target.
    pub name: &'a str,
    /// What the model says.
    pub value: f32,
    /// What the data says, if it has targets.
    pub known: Option<f32>,
}

impl Prediction<'_> {
    /// Whether the most probable class is the one that the input has; none where that is not known.
    pub fn is_right(&self) -> Option<bool> {
        Some(self.label? == self.top.first()?.name)
    }
}

/// What was predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Inputs, bad ones included.
    pub inputs: u64,
    /// Inputs that could not be predicted.
    pub bad: u64,
    /// Inputs with a known class.
    pub labelled: u64,
    /// Those whose class was predicted.
    pub right: u64,
}

impl Predictor {
    /// Predicts all inputs; `each` hears of every one in order, with its `top` classes. Decoding goes on beside it, and no more
    /// than a few batches are in memory.
    ///
    /// # Errors
    /// What `each` returns, and failures of the machine; bad inputs are predictions with an error.
    pub fn predict(
        &mut self,
        inputs: &Inputs,
        top: usize,
        each: &mut dyn FnMut(&Prediction<'_>) -> Result<()>,
    ) -> Result<Counts> {
        let targets = self.info().target_names();
        let is_numbers = match self.info().sample_kind().targets {
            TargetKind::Numbers { .. } => true,
            TargetKind::Classes { each: 1, .. } => false,
            TargetKind::Classes { .. } => return Err(self.several_classes()),
        };
        self.prepare(inputs)?;
        let classes = self.classes().to_vec();
        let mut counts = Counts::default();
        for group in &inputs.groups {
            let matching = Matching::new(group.part.class_names(), &classes);
            let label = |index: usize| label(group, &matching, &classes, index);
            self.batches(group, Relabel(matching.to.clone()), &mut |computed| {
                for row in 0..computed.rows {
                    let index = computed.start + row;
                    let error = computed.error(row).map(String::from);
                    let top = match error {
                        _ if is_numbers => Vec::new(),
                        Some(_) => Vec::new(),
                        None => best(&computed.probabilities(row), computed.outputs(row), top, &classes),
                    };
                    let numbers = match error {
                        None if is_numbers => numbers(group, index, computed.outputs(row), &targets),
                        _ => Vec::new(),
                    };
                    let prediction = Prediction { input: group.name(index), label: label(index), top, numbers, error };
                    counts.inputs += 1;
                    counts.bad += u64::from(prediction.error.is_some());
                    counts.labelled += u64::from(prediction.is_right().is_some());
                    counts.right += u64::from(prediction.is_right() == Some(true));
                    each(&prediction)?;
                }
                Ok(())
            })?;
        }
        Ok(counts)
    }
}

impl Predictor {
    /// The error for a model with several targets that are classes.
    pub(crate) fn several_classes(&self) -> Error {
        Error::user(format!(
            "the model of {} has several targets that are classes ({}), and what it says of several classes is not written or \
             counted; train a model for each of them (data.target)",
            self.dir().display(),
            self.info().target_names().join(", ")
        ))
    }
}

/// What the model says of an input, and what the data does.
fn numbers<'a>(group: &Group, index: usize, outputs: &[f64], names: &'a [String]) -> Vec<Number<'a>> {
    let known = match group.part.target(index) {
        Target::Numbers(known) if group.has_targets() => known,
        _ => &[],
    };
    let number = |(place, (name, &value)): (usize, (&'a String, &f64))| Number {
        name,
        value: value as f32,
        known: known.get(place).copied(),
    };
    names.iter().zip(outputs).enumerate().map(number).collect()
}

/// The known class of an input. Folders of which none is called like a class of the model are no classes.
fn label<'a>(group: &'a Group, matching: &Matching, classes: &'a [String], index: usize) -> Option<&'a str> {
    let label = group.label(index).filter(|_| matching.any())? as usize;
    match matching.to.get(label)? {
        Some(class) => Some(&classes[*class as usize]),
        None => group.part.class_names().get(label).map(String::as_str),
    }
}

/// The most probable classes, of equal ones the first; by the outputs, which tell apart what probabilities have rounded to 0.
fn best<'a>(probabilities: &[f64], outputs: &[f64], top: usize, classes: &'a [String]) -> Vec<Score<'a>> {
    let mut order: Vec<usize> = (0..outputs.len()).collect();
    let by = |a: &usize, b: &usize| outputs[*b].total_cmp(&outputs[*a]).then(a.cmp(b));
    let top = top.min(order.len());
    if top < order.len() && top > 0 {
        order.select_nth_unstable_by(top - 1, by);
        order.truncate(top);
    }
    order.sort_unstable_by(by);
    order.truncate(top);
    order.into_iter().map(|class| Score { class, name: &classes[class], probability: probabilities[class] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_in_order_and_the_first_of_equals_wins() {
        let classes = ["a", "b", "c", "d"].map(String::from);
        let names = |outputs: &[f64], top| {
            let scores = best(&[0.0, 0.1, 0.2, 0.3], outputs, top, &classes);
            scores.iter().map(|s| s.name).collect::<String>()
        };
        assert_eq!(names(&[1.0, 3.0, 2.0, 3.0], 1), "b");
        assert_eq!(names(&[1.0, 3.0, 2.0, 3.0], 3), "bdc");
        assert_eq!(names(&[0.0, 0.0, 0.0, 0.0], 2), "ab");
        assert_eq!(names(&[-0.0, 0.0, -5.0, 7.0], 9), "dbac");
    }
}

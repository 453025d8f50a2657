//! A trained model, batch by batch: lowered for one rank, with the run's own kernels, on all cores.

use crate::kept::{Kept, Relabel, WithModelLabels};
use crate::matching::Matching;
use crate::open::{Which, locate, model_info, own_data, read_checkpoint};
use paceline_base::kernel::{BufferId, StepArgs};
use paceline_base::op::Loss;
use paceline_base::{Error, Result, text};
use paceline_comm::single;
use paceline_comm::threads::Threads;
use paceline_config::{Auto, Config};
use paceline_data::{
    Catalogue, DataError, DataPart, FeatureKind, Group, InputOptions, Labelled, Order, Role, Target, TargetKind,
    Targets, Visits,
};
use paceline_engine::checkpoint::{Checkpoint, restore};
use paceline_engine::{Batch, Metrics, Rank};
use paceline_graph::Graph;
use paceline_kernels::{Device, DeviceOptions, Tuning};
use paceline_plan::{Batches, ListRoom, PhaseKind, Plan, Schedule, Settings, TaskKind, lower};
use paceline_prepare::feed::{Feed, FeedOptions};
use paceline_run::{ModelInfo, Recorded, Values, build_model, open_data};
use paceline_system::machine;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Rows that are decoded ahead of the batch that is computed.
const AHEAD: usize = 64;
/// The share of free memory that a batch may take.
const FREE_SHARE: f64 = 0.7;
/// Sizes of batches that are kept ready; more than that begin anew.
const SIZES: usize = 8;

/// How a model is used.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which checkpoint.
    pub checkpoint: Which,
    /// Threads that decode, and threads that compute; one for each core if none.
    pub threads: Option<usize>,
    /// Samples of a batch; as the run evaluated if none, which gives the bits of its own evaluation.
    pub batch: Option<usize>,
}

/// A part of a data set, as a person names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartName {
    /// One of its parts.
    Only(Role),
    /// Everything.
    All,
}

impl FromStr for PartName {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        match word {
            "all" => Ok(Self::All),
            _ => Role::of_word(word).map(Self::Only).ok_or_else(|| "give train, validation, test or all".into()),
        }
    }
}

/// Inputs that were opened for a model.
pub struct Inputs {
    pub(crate) groups: Vec<Group>,
    /// What a person should know of them.
    pub notes: Vec<String>,
}

impl Inputs {
    /// How many.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.part.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether any of them has a class that the model may have.
    pub fn has_labels(&self, classes: &[String]) -> bool {
        self.groups.iter().any(|group| {
            Matching::new(group.part.class_names(), classes).any()
                && (0..group.part.len()).any(|index| group.label(index).is_some())
        })
    }

    /// The parts that there are.
    pub fn parts(&self) -> Vec<Role> {
        let mut roles: Vec<Role> = self.groups.iter().filter_map(|group| group.role).collect();
        roles.sort_unstable();
        roles.dedup();
        roles
    }

    /// Only one part of them.
    ///
    /// # Errors
    /// If there is no such part; names those that there are.
    pub fn only(mut self, part: PartName) -> Result<Self> {
        let PartName::Only(role) = part else { return Ok(self) };
        let known = self.parts();
        self.groups.retain(|group| group.role == Some(role));
        if self.groups.is_empty() {
            let known: Vec<&str> = known.iter().map(|role| role.name()).collect();
            let known = if known.is_empty() { "is not in parts".into() } else { format!("has {}", known.join(", ")) };
            return Err(Error::user(format!(
                "there is no {role} part: the data {known}; take all of it, or other data"
            )));
        }
        Ok(self)
    }
}

/// A model of a run, ready for inputs.
pub struct Predictor {
    dir: PathBuf,
    info: ModelInfo,
    graph: Arc<Graph>,
    loss: Loss,
    config: Config,
    tuning: Option<Tuning>,
    checkpoint: Checkpoint,
    threads: usize,
    batch: usize,
    notes: Vec<String>,
    ready: Option<Ready>,
    outputs: Vec<f64>,
}

/// The model lowered for batches of some sizes.
struct Ready {
    rank: Rank<Box<dyn Device>, Threads>,
    sizes: Vec<usize>,
    /// Room for indices in each of them.
    lists: ListRoom,
    /// Where each phase leaves its outputs.
    outputs: Vec<BufferId>,
}

impl Predictor {
    /// Opens the model of a run: `run` is its directory, its `run.toml`, or one of its checkpoints. The run may be in training.
    ///
    /// # Errors
    /// If there is no such run or checkpoint, or it is damaged or of another model.
    pub fn open(run: &Path, options: &Options) -> Result<Self> {
        let located = locate(run)?;
        let which = match (located.checkpoint, &options.checkpoint) {
            (Some(path), Which::Best) => Which::Path(path),
            (_, which) => which.clone(),
        };
        let recorded = Recorded::open(&located.dir)?;
        let mut notes = Vec::new();
        let checkpoint = read_checkpoint(&recorded, &which)?;
        let info = model_info(&recorded, &mut notes)?;
        let graph = Arc::new(build_model(&recorded.config, &info.sample_kind())?);
        if checkpoint.manifest.identity.model != graph.signature() {
            return Err(Error::user(format!(
                "checkpoint {} does not belong to the model of {}: parameters have other names or shapes; give a checkpoint of \
                 this run",
                checkpoint.path.display(),
                recorded.dir.display()
            )));
        }
        let loss = graph.nodes.last().and_then(|node| node.op.loss());
        let loss = loss.ok_or_else(|| Error::internal("a model without a loss"))?;
        let tuning = recorded.fits().then(|| recorded.tuning.clone());
        if tuning.is_none() {
            notes.push(format!(
                "this processor has no {}, which the run was computed with: other kernels are used, and outputs may differ in \
                 their last digits",
                recorded.tuning.isa
            ));
        }
        let batch = match (options.batch, recorded.config.train.eval_batch) {
            (Some(n), _) => n.max(1),
            (None, Auto::Is(n)) => n,
            (None, Auto::Auto) => 500,
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            dir: recorded.dir.clone(),
            info,
            graph,
            loss,
            config: recorded.config,
            tuning,
            checkpoint,
            threads: options.threads.unwrap_or(cores).max(1),
            batch,
            notes,
            ready: None,
            outputs: Vec::new(),
        })
    }

    /// What the model is and takes.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Names of the classes, in the order of the outputs.
    pub fn classes(&self) -> &[String] {
        &self.info.classes
    }

    /// The run directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The configuration of the run.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The checkpoint that the parameters are from.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// What the user should know of the model.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// "epoch 4 (step 900)".
    pub fn trained(&self) -> String {
        let progress = &self.checkpoint.manifest.progress;
        let within = if progress.position > 0 { ", and part of the next" } else { "" };
        format!("{}{within} (step {})", text::counted(progress.epoch as usize, "epoch"), progress.step)
    }

    /// Opens data to be predicted, labelled or not, as [`Catalogue::open_inputs`].
    ///
    /// # Errors
    /// As there, and if samples have another shape than the model takes.
    pub fn inputs(&self, given: &[PathBuf]) -> Result<Inputs> {
        self.open_inputs(given, false)
    }

    /// Opens labelled data to be evaluated. Without a path, or with that of the run's own data, it is the data of the run, in the
    /// parts in which the run had it.
    ///
    /// # Errors
    /// As [`Predictor::inputs`], and if there are no labels.
    pub fn labelled(&self, given: Option<&Path>) -> Result<Inputs> {
        match given {
            Some(path) if !self.is_own(path) => self.open_inputs(&[path.into()], true),
            _ => self.own(),
        }
    }

    fn open_inputs(&self, given: &[PathBuf], labels: bool) -> Result<Inputs> {
        let image = self.info.image.map(|image| ([image.height, image.width, image.channels], image.fit));
        let memory = Some(machine::free_memory_bytes()).filter(|&free| free > 0);
        let options = InputOptions { image, csv: self.info.csv(), labels, seed: self.config.train.seed, memory };
        let groups = Catalogue::from_env().open_inputs(given, &options)?;
        self.checked(groups)
    }

    /// Whether a path or name is that of the data which the run was trained on.
    fn is_own(&self, path: &Path) -> bool {
        let own = Path::new(&self.config.data.name);
        let whole = |path: &Path| std::fs::canonicalize(path).ok();
        path == own || whole(path).zip(whole(own)).is_some_and(|(a, b)| a == b)
    }

    /// The data of the run, in its parts: what it was trained, validated and tested on.
    fn own(&self) -> Result<Inputs> {
        let data = open_data(&own_data(&self.config)).map_err(|e| {
            let name = &self.config.data.name;
            e.context(format!("the data of the run, {name}, cannot be opened; give other data, or put it there"))
        })?;
        let name = |role: Role| format!("{}/{role}", self.config.data.name);
        let group = |role: Role, part: &DataPart| Group::numbered(part.clone(), Some(role), name(role));
        let mut notes = data.notes.clone();
        if data.fingerprint() != self.checkpoint.manifest.identity.data && data.local.is_none() {
            notes.push(
                "the training samples are not those that the run had: its parts may be cut otherwise, and samples that it was \
                 trained on may be among the others"
                    .into(),
            );
        }
        let mut groups = vec![group(Role::Train, &data.training)];
        if !data.validates_on_test {
            groups.push(group(Role::Validation, &data.validation));
        }
        groups.extend(data.set.test.as_ref().map(|test| group(Role::Test, test)));
        let mut inputs = self.checked(groups)?;
        inputs.notes.splice(0..0, notes);
        Ok(inputs)
    }

    /// Refuses samples of another shape; what is no image cannot be brought to it.
    fn checked(&self, groups: Vec<Group>) -> Result<Inputs> {
        let mut notes = Vec::new();
        for group in &groups {
            let shape = group.part.shape();
            let same = |shape: &[usize]| shape.strip_suffix(&[1]).map_or(shape.to_vec(), <[usize]>::to_vec);
            // One channel may be written or not.
            if same(shape) != same(&self.info.shape) {
                let (file, expected) = (group.name(0), self.info.shape.clone());
                let file = file.strip_suffix(":0").map_or(file.clone(), String::from);
                return Err(DataError::ModelShape { file, expected, found: shape.to_vec() }.into());
            }
            if let (DataPart::Stream(_), Values::Floats | Values::Indices) = (&group.part, self.info.values) {
                return Err(DataError::NoImageModel { what: group.name(0) }.into());
            }
            let is_list = |kind: FeatureKind| matches!(kind, FeatureKind::Lists { .. });
            if is_list(group.part.feature_kind()) != is_list(self.info.features) {
                let takes = if is_list(self.info.features) { "lists of indices" } else { "dense values" };
                return Err(Error::user(format!("{}: the model takes {takes}; give data of that kind", group.name(0))));
            }
            notes.extend(group.notes.iter().cloned());
        }
        Ok(Inputs { groups, notes })
    }

    /// Makes ready for inputs: all batch sizes that they need are lowered at once.
    pub(crate) fn prepare(&mut self, inputs: &Inputs) -> Result<()> {
        let parts: Vec<&DataPart> = inputs.groups.iter().map(|group| &group.part).collect();
        let mut sizes: Vec<usize> = parts.iter().map(|part| part.len() % self.batch).collect();
        sizes.sort_unstable();
        sizes.dedup();
        // Many files of records, each with a last batch of its own size, are made ready for one after another.
        if sizes.len() < SIZES { self.ready_for(&parts) } else { Ok(()) }
    }

    /// Lowers the batches that these parts need.
    fn ready_for(&mut self, wanted: &[&DataPart]) -> Result<()> {
        let lists = list_room(wanted);
        loop {
            let parts = |n: usize| [self.batch.min(n), n % self.batch].into_iter().filter(|&size| size > 0);
            let mut sizes: Vec<usize> = wanted.iter().flat_map(|part| parts(part.len())).collect();
            let before = self.ready.as_ref().map_or(&[][..], |ready| &ready.sizes);
            let room =
                |size: usize| self.ready.as_ref().is_some_and(|ready| ready.lists.entries(size) >= lists.entries(size));
            if sizes.iter().all(|size| before.contains(size) && room(*size)) {
                return Ok(());
            }
            if before.len() < SIZES {
                sizes.extend(before);
            }
            sizes.sort_unstable();
            sizes.dedup();
            let options =
                DeviceOptions { tuning: self.tuning.clone(), threads: self.threads, ..DeviceOptions::default() };
            let rule = self.checkpoint.manifest.identity.rule;
            let batches = Batches { train: Vec::new(), evaluate: sizes.clone() };
            let settings = Settings { lists: lists.clone(), ..Settings::new(rule, options.kind()) };
            let schedule = lower(&self.graph, &Plan::data_parallel(1), &batches, &settings)?;
            let bytes = schedule.largest_memory() as u64;
            let free = machine::free_memory_bytes();
            // A run over several ranks evaluates more at once than one rank may have room for.
            if free > 0 && bytes as f64 > FREE_SHARE * free as f64 && self.batch > 1 {
                let smaller = self.batch.div_ceil(2);
                self.notes.push(format!(
                    "batches of {} take {}, of which {} are free: {smaller} at a time",
                    self.batch,
                    text::bytes(bytes),
                    text::bytes(free)
                ));
                (self.batch, self.ready) = (smaller, None);
                continue;
            }
            let outputs =
                (0..schedule.phases.len()).map(|phase| self.outputs_of(&schedule, phase)).collect::<Result<_>>()?;
            self.ready = None; // its memory is not needed beside the new one
            let mut rank = Rank::new(options.make()?, single(), Arc::new(schedule))?;
            restore(&mut rank, &self.checkpoint, false)?;
            self.ready = Some(Ready { rank, sizes, lists, outputs });
            return Ok(());
        }
    }

    /// The buffer that the loss, which is the last layer, reads first.
    fn outputs_of(&self, schedule: &Schedule, phase: usize) -> Result<BufferId> {
        let last = self.graph.nodes.len() - 1;
        let found = schedule.phases[phase].tasks().rev().find_map(|(segment, task)| match &task.kind {
            TaskKind::Compute(call) if segment.key.node() == Some(last) => schedule.memory[0].id(phase, call.args[0]),
            _ => None,
        });
        found.ok_or_else(|| Error::internal("no loss in the schedule"))
    }

    /// Runs a group through the model, batch after batch; `each` gets the place of a batch in the group, the outputs of its
    /// rows one after another, what the loss kernel found, and the errors of its bad rows.
    pub(crate) fn batches(
        &mut self,
        group: &Group,
        labels: Relabel,
        each: &mut dyn FnMut(Computed<'_>) -> Result<()>,
    ) -> Result<()> {
        let count = group.part.len();
        self.ready_for(&[&group.part])?;
        let (kept, feed, memory);
        let source: Source<'_> = match &group.part {
            DataPart::Memory(samples) => {
                memory = WithModelLabels::new(samples.clone(), labels, self.info.sample_kind().targets);
                Source::Memory(&memory)
            }
            DataPart::Stream(source) => {
                kept = Arc::new(Kept::new(source.clone(), labels));
                feed = Feed::new(
                    kept.clone(),
                    FeedOptions {
                        visits: Visits::all(Order::unshuffled(count)),
                        augment: None,
                        threads: self.threads,
                        rows: self.batch.min(count) + AHEAD.max(self.batch.min(count)),
                        ranks: 0..1,
                        start: 0,
                        end: count as u64,
                    },
                )?;
                Source::Stream(&kept, &feed)
            }
        };
        let classes = self.info.sample_kind().targets.outputs();
        let mut start = 0;
        while start < count {
            let rows = self.batch.min(count - start);
            let ready = self.ready.as_mut().ok_or_else(|| Error::internal("nothing is ready"))?;
            let phase = ready.rank.schedule.phase(PhaseKind::Evaluate, rows);
            let phase = phase.ok_or_else(|| Error::internal(format!("no step of {rows} samples was planned")))?;
            let at = |row: usize| start + row;
            let batch = match &source {
                Source::Memory(samples) => Batch::new(*samples, &at),
                Source::Stream(_, feed) => Batch::supplied(*feed, start as u64, rows),
            };
            let args = StepArgs { seed: 0, step: 0, rate: 0.0, scale: 1.0 / rows as f64 };
            let metrics = ready.rank.step_now(phase, &batch, &args)?;
            self.outputs.resize(rows * classes, 0.0);
            ready.rank.device.read(ready.outputs[phase], &mut self.outputs)?;
            let errors = match &source {
                Source::Memory(_) => vec![None; 0],
                Source::Stream(kept, _) => {
                    (start..start + rows).map(|i| kept.take_error(i).map(|e| e.to_string())).collect()
                }
            };
            let labels: &dyn Labelled = match &source {
                Source::Memory(samples) => *samples,
                Source::Stream(kept, _) => &***kept,
            };
            each(Computed { start, rows, classes, outputs: &self.outputs, metrics, errors, labels, loss: self.loss })?;
            start += rows;
        }
        Ok(())
    }

    /// The probabilities of each class for images as they lie in files: JPEG, PNG, WebP, BMP or GIF.
    ///
    /// # Errors
    /// If one of them cannot be decoded, or the model takes no images.
    pub fn predict_images(&mut self, images: Vec<Vec<u8>>) -> Result<Vec<Vec<f64>>> {
        let image = self.info.image.ok_or_else(|| Error::user("this model takes no images; give it rows of values"))?;
        let shape = [image.height, image.width, image.channels];
        let source = paceline_data::EncodedImages::new(images, shape, image.fit);
        self.probabilities(DataPart::Stream(Arc::new(source)))
    }

    /// The probabilities of each class for rows of values, one after another, scaled as the model takes them
    /// ([`ModelInfo::values`]): bytes of an image are divided by 255. Of a model whose targets are numbers, these numbers.
    ///
    /// # Errors
    /// If the values are no whole number of rows, or the model takes lists of indices or has several classes as targets.
    pub fn predict_rows(&mut self, values: Vec<f32>) -> Result<Vec<Vec<f64>>> {
        let kind = self.info.sample_kind();
        if kind.features != FeatureKind::Dense {
            return Err(Error::user("this model takes lists of indices; give it a csv of them"));
        }
        if matches!(kind.targets, TargetKind::Classes { each, .. } if each > 1) {
            return Err(self.several_classes());
        }
        let size: usize = self.info.shape.iter().product();
        if size == 0 || !values.len().is_multiple_of(size) {
            return Err(Error::user(format!(
                "{} values are no rows of {size}, which is what the model takes ({:?})",
                values.len(),
                self.info.shape
            )));
        }
        // Targets that nobody compares with.
        let targets = match kind.targets {
            TargetKind::Classes { classes, each } => {
                Targets::several(vec![0; values.len() / size * each], each, classes)
            }
            TargetKind::Numbers { each } => Targets::numbers(vec![0.0; values.len() / size * each], each),
        };
        let table = paceline_data::Table::with_targets(self.info.shape.clone(), values, targets?)?;
        self.probabilities(table.into())
    }

    fn probabilities(&mut self, part: DataPart) -> Result<Vec<Vec<f64>>> {
        let numbers = matches!(self.info.sample_kind().targets, TargetKind::Numbers { .. });
        let mut all = Vec::with_capacity(part.len());
        self.batches(&Group::numbered(part, None, "input".into()), Relabel::default(), &mut |computed| {
            for row in 0..computed.rows {
                if let Some(error) = computed.error(row) {
                    return Err(Error::user(error));
                }
                all.push(if numbers { computed.outputs(row).to_vec() } else { computed.probabilities(row) });
            }
            Ok(())
        })?;
        Ok(all)
    }
}

enum Source<'a> {
    Memory(&'a WithModelLabels),
    Stream(&'a Arc<Kept>, &'a Feed),
}

/// Room for the lists of any batch of these parts.
fn list_room(parts: &[&DataPart]) -> ListRoom {
    let lists =
        parts.iter().filter_map(|part| part.memory()).filter(|samples| samples.feature_kind() != FeatureKind::Dense);
    ListRoom::of_lengths(lists.flat_map(|samples| (0..samples.len()).map(|index| samples.features(index).len())))
}

/// A batch that the model has computed.
pub(crate) struct Computed<'a> {
    /// The place of its first row in the group.
    pub start: usize,
    pub rows: usize,
    classes: usize,
    outputs: &'a [f64],
    /// What the loss kernel found, over all rows.
    pub metrics: Metrics,
    errors: Vec<Option<String>>,
    labels: &'a dyn Labelled,
    loss: Loss,
}

impl Computed<'_> {
    /// What the last layer gave for a row.
    pub(crate) fn outputs(&self, row: usize) -> &[f64] {
        &self.outputs[row * self.classes..][..self.classes]
    }

    /// What is wrong with a row, if it is bad.
    pub(crate) fn error(&self, row: usize) -> Option<&str> {
        if let Some(error) = self.errors.get(row).and_then(Option::as_deref) {
            return Some(error);
        }
        let finite = self.outputs(row).iter().all(|x| x.is_finite());
        (!finite).then_some("the outputs of the model are not finite numbers: its training may have diverged")
    }

    /// The class of a row, if it is known and one of the model's.
    pub(crate) fn label(&self, row: usize) -> Option<usize> {
        let label = self.labels.label(self.start + row) as usize;
        (label < self.classes).then_some(label)
    }

    /// The targets of a row.
    pub(crate) fn target(&self, row: usize) -> Target<'_> {
        self.labels.target(self.start + row)
    }

    /// The probability of each class.
    pub(crate) fn probabilities(&self, row: usize) -> Vec<f64> {
        probabilities(self.loss, self.outputs(row))
    }

    /// The loss of a row, in f64: where the kernel's sum is of no use because the batch has bad rows in it.
    pub(crate) fn loss(&self, row: usize, label: usize) -> f64 {
        let outputs = self.outputs(row);
        match self.loss {
            Loss::SoftmaxCrossEntropy => {
                let max = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                outputs.iter().map(|x| (x - max).exp()).sum::<f64>().ln() + max - outputs[label]
            }
            Loss::MeanSquaredError => {
                let square = |(class, x): (usize, &f64)| (x - f64::from(u8::from(class == label))).powi(2);
                outputs.iter().enumerate().map(square).sum::<f64>() / outputs.len() as f64
            }
        }
    }
}

/// Probabilities from the outputs of the last layer. Cross-entropy is trained on their softmax; the mean squared error trains the
/// outputs themselves towards 1 for the class and 0 for the others, so that each is an estimate, kept between 0 and 1.
pub(crate) fn probabilities(loss: Loss, outputs: &[f64]) -> Vec<f64> {
    match loss {
        Loss::SoftmaxCrossEntropy => {
            let max = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let all: Vec<f64> = outputs.iter().map(|x| (x - max).exp()).collect();
            let sum: f64 = all.iter().sum();
            all.into_iter().map(|x| x / sum).collect()
        }
        Loss::MeanSquaredError => outputs.iter().map(|x| x.clamp(0.0, 1.0)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_of_both_losses() {
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        let softmax = probabilities(Loss::SoftmaxCrossEntropy, &[0.0, 3f64.ln()]);
        assert!(near(&softmax, &[0.25, 0.75]), "{softmax:?}");
        // Large outputs do not overflow.
        assert!(near(&probabilities(Loss::SoftmaxCrossEntropy, &[1e4, 1e4]), &[0.5, 0.5]));
        assert_eq!(probabilities(Loss::MeanSquaredError, &[-0.1, 0.7, 1.2]), [0.0, 0.7, 1.0]);
    }
}

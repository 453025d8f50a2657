//! Every key of the configuration, declared once: type, default, limit and meaning.
//!
//! The doc comment of a key is what `paceline config explain` prints: write it for the user.

use crate::batch::Batch;
use crate::cadence::{Cadence, CpuCore, Size};
use crate::choices::{
    CacheName, CompressName, FitName, OptimizerName, PlacementName, Preset, ScheduleName, StrategyName,
};
use crate::declare::{Key, Section, schema};
use crate::setting::{Auto, Limit, Setting};
use paceline_base::Monitor;
use paceline_base::op::Activation;
use paceline_data::Split;
use paceline_data::csv::TargetsAre;
use paceline_plan::UpdateMode;
use paceline_record::Every;
use std::collections::BTreeSet;
use std::path::PathBuf;

schema! {
    /// What to train on.
    [data] Data {
        /// The data set: fashion-sample (the embedded sample, needs no download), fashion-mnist, mnist, cifar10; a
        /// folder of record shards (TFRecord), of class folders with images (or of train, val and test folders with these), of IDX files, of CIFAR-10 batches, or of
        /// train.csv, validation.csv and test.csv; a file of records; a csv of values (numbers, or lists of indices, with targets); a csv or tsv of
        /// path and label; or made-up samples as fake:SHAPE:CLASSES:COUNT, such as fake:28x28:10:60000. In a configuration file
        /// a path is relative to that file, on the command line to the working directory.
        name: String = "fashion-sample".into(), Limit::NotEmpty;
        /// Where validation samples come from: a fraction held out of the training part, with the same mixture of
        /// classes, "own" for the set's own validation part (a val folder, shards named validation-…, lines of a csv
        /// with that split), "test" for its test part, or a path with a / or a . in it: a folder of class folders, a csv or tsv, or
        /// record shards, with classes of the training set; beside a csv of values another one with its columns. "auto" is own where there is such a part, else 0.1.
        validation: Split = Split::Auto, Limit::Between(0.0, 1.0);
        /// Which samples the processes of a job have: shared (all of them the same) or local (each opens data.name on its
        /// own host and trains on what is there, in proportion to how much that is). With local, results depend on how files
        /// are spread. The same with one process.
        placement: PlacementName = PlacementName::Shared, Limit::None;
        /// Whether every epoch has its own order of samples. The order depends on train.seed and the epoch, never on
        /// the number of workers.
        shuffle: bool = true, Limit::None;
        /// Width and height to which images from records or files are brought, such as 96 or 128x96; by default they
        /// stay as they are and must all have one size.
        size: Option<Size> = None, Limit::None;
        /// How images are brought to data.size: crop (scale to cover, cut what hangs over), pad (scale to fit, black
        /// around) or stretch.
        fit: FitName = FitName::Crop, Limit::None;
        /// The feature of records that holds the image, where it has an unusual name: an image file or pixels in bytes, or a list
        /// of numbers (floats of 0 to 1, -1 to 1 or 0 to 255).
        image: Option<String> = None, Limit::None;
        /// The feature of records that holds the class, where it has an unusual name: a number, a name, or a list with one 1
        /// (one-hot).
        label: Option<String> = None, Limit::None;
        /// The columns of a csv of values that are targets, by name: one, several separated by commas, or a list; by default the last
        /// column. All other columns are features.
        target: Vec<String> = Vec::new(), Limit::None;
        /// What the targets of a csv of values are: classes, numbers (to be met: regression), or "auto": classes if a value is no
        /// number, or if all are whole numbers below 1000 that begin at 0 without gaps; else numbers.
        targets: TargetsAre = TargetsAre::Auto, Limit::None;
        /// Threads that read, decode and augment ahead of training; "auto" is one for each core, shared among the
        /// processes of a host. Results do not depend on it.
        threads: Auto<usize> = Auto::Auto, Limit::AtLeast(1.0);
        /// Batches that are made ready ahead; "auto" is two, and at least 64 samples.
        prefetch: Auto<usize> = Auto::Auto, Limit::AtLeast(1.0);
        /// Where decoded samples are kept after the first epoch, before augmentation: none, memory, or disk (in the
        /// cache folder, for later runs too; `paceline data cache` shows and clears it).
        cache: CacheName = CacheName::None, Limit::None;
        /// Gigabytes that data.cache = "memory" may take; "auto" is 70 % of the memory that is free at the start.
        cache_limit: Auto<f64> = Auto::Auto, Limit::Above(0.0);
        /// How many bad samples may be left out. They are looked for before training, which reads all samples once.
        skip_bad: usize = 0, Limit::AtLeast(0.0);
        /// Whether the checksums of records are checked when they are opened.
        verify: bool = true, Limit::None;
    }

    /// What is done to training images, anew in every epoch.
    [augment] AugmentKeys {
        /// Mirror half of the images, left to right. Which ones depends on train.seed, the epoch and the sample alone,
        /// as everything in this section does.
        flip: bool = false, Limit::None;
        /// Cut out a random part of at least this share of the area and scale it back to full size; 1 for no cut.
        crop: f64 = 1.0, Limit::UpTo(0.0, 1.0);
        /// Shift by up to so many pixels in both directions, black coming in; 0 for none.
        pad: usize = 0, Limit::AtLeast(0.0);
        /// All values by a random factor of up to 1 ± this.
        brightness: f64 = 0.0, Limit::From(0.0, 1.0);
        /// The distance from the mean by a random factor of up to 1 ± this.
        contrast: f64 = 0.0, Limit::From(0.0, 1.0);
        /// The distance from grey by a random factor of up to 1 ± this.
        saturation: f64 = 0.0, Limit::From(0.0, 1.0);
        /// Colours turned by up to this part of the circle.
        hue: f64 = 0.0, Limit::From(0.0, 0.5);
    }

    /// The network.
    [model] Model {
        /// The network by name: softmax (one dense layer), mlp (hidden layers, then the classifier), or a convolutional
        /// one: lenet (28×28), resnet-small (32×32), flowers-cnn and flowers-net (192×192), alexnet and resnet18 (224×224).
        /// All but lenet want three channels; most take other sizes too.
        preset: Preset = Preset::Mlp, Limit::None;
        /// A model file with layers of your own, instead of model.preset. In a configuration file the path is relative to that
        /// file, on the command line to the working directory.
        file: Option<PathBuf> = None, Limit::None;
        /// Units of each hidden layer of the mlp.
        hidden: Vec<usize> = vec![128], Limit::AtLeast(1.0);
        /// What follows each hidden layer of the mlp.
        activation: Activation = Activation::Relu, Limit::None;
        /// Share of each hidden layer's outputs set to zero in training; 0 for none.
        dropout: f64 = 0.0, Limit::Below(0.0, 1.0);
        /// L2 penalty on the weights (not on biases); layers of a model file may state their own.
        l2: f64 = 0.0, Limit::AtLeast(0.0);
    }

    /// How parameters move, given their gradients.
    [optimizer] Optimizer {
        /// The update rule; formulas are PyTorch's.
        name: OptimizerName = OptimizerName::Adam, Limit::None;
        /// The learning rate; "auto" is 0.001 for adam and adamw, 0.01 for the others.
        rate: Auto<f64> = Auto::Auto, Limit::Above(0.0);
        /// How much of the last move is kept (momentum and nesterov).
        momentum: f64 = 0.9, Limit::Below(0.0, 1.0);
        /// Decay of the mean of gradients (adam and adamw).
        beta1: f64 = 0.9, Limit::Below(0.0, 1.0);
        /// Decay of the mean of squared gradients (adam and adamw).
        beta2: f64 = 0.999, Limit::Below(0.0, 1.0);
        /// Keeps the division finite (adam, adamw and adagrad); "auto" is 1e-10 for adagrad, 1e-8 for the others.
        eps: Auto<f64> = Auto::Auto, Limit::Above(0.0);
        /// Share of the weights, times the rate, taken off at every step (adamw).
        weight_decay: f64 = 0.01, Limit::AtLeast(0.0);
    }

    /// How the learning rate moves over the run.
    [schedule] RateSchedule {
        /// The shape after the warm-up: step falls by schedule.gamma every schedule.step_epochs, exponential by
        /// schedule.gamma per epoch in small steps, cosine down half a wave over schedule.length.
        name: ScheduleName = ScheduleName::Constant, Limit::None;
        /// Epochs over which the rate rises in a straight line at first; 0 for none.
        warmup: f64 = 0.0, Limit::AtLeast(0.0);
        /// Epochs between two falls of the step schedule.
        step_epochs: f64 = 10.0, Limit::Above(0.0);
        /// The factor: of each fall for step ("auto" is 0.1), per epoch for exponential ("auto" is 0.95).
        gamma: Auto<f64> = Auto::Auto, Limit::UpTo(0.0, 1.0);
        /// Epochs after which cosine has come down, counted from the first, the warm-up included; "auto" is train.epochs.
        /// train.max_steps does not shorten it, so that a run which stops there goes on as if it had not. Parts of an
        /// epoch, such as 2.5, are fine.
        length: Auto<f64> = Auto::Auto, Limit::Above(0.0);
        /// Where cosine ends, as a share of the rate.
        floor: f64 = 0.0, Limit::From(0.0, 1.0);
    }

    /// How long to train, and in which portions.
    [train] Train {
        /// Passes over the training samples.
        epochs: u64 = 5, Limit::AtLeast(1.0);
        /// Samples per step over all workers together (the global batch). An expression may use workers, the number of
        /// replicas, with + - * / and parentheses.
        batch: Batch = Batch::fixed(32), Limit::None;
        /// Samples per step of an evaluation, over all workers. Speed and memory depend on it, results do not. "auto" is
        /// 500, or fewer where evaluating so many would need more memory than training does.
        eval_batch: Auto<usize> = Auto::Auto, Limit::AtLeast(1.0);
        /// Decides initial values, the order of samples, dropout and the validation part.
        seed: u64 = 1, Limit::AtLeast(0.0);
        /// What decides which epoch is the best: val-accuracy (highest validation accuracy, of equal ones the lower loss) or
        /// val-loss (lowest validation loss). "auto" is val-accuracy, or val-loss where targets are numbers and no accuracy is
        /// counted. The best epoch's checkpoint is kept and is what is tested, and
        /// reports name it; early stopping waits for the same value.
        monitor: Auto<Monitor> = Auto::Auto, Limit::None;
        /// Stop after so many epochs in which train.monitor did not get better; 0 to train all epochs.
        early_stopping: u64 = 0, Limit::AtLeast(0.0);
        /// By how much train.monitor has to get better for early stopping to count anew.
        min_delta: f64 = 0.0, Limit::AtLeast(0.0);
        /// Stop after so many steps, also within an epoch; 0 for no limit. The learning rate does not depend on it: see
        /// schedule.length.
        max_steps: u64 = 0, Limit::AtLeast(0.0);
    }

    /// How the work is spread over this machine, or over several.
    [strategy] Strategy {
        /// single (one replica on all threads), one-device (one replica bound to strategy.device), mirrored (replicas
        /// with equal parameters, each computing a share of every batch) or multi-worker-mirrored (the same over the
        /// processes that paceline launch starts, on one machine or many). All give the same results, to rounding.
        name: StrategyName = StrategyName::Single, Limit::None;
        /// How many replicas (mirrored); "auto" tries some numbers for a moment and takes the fastest. Over processes:
        /// how many in each; "auto" is one. At most as many as train.batch has samples.
        replicas: Auto<usize> = Auto::Auto, Limit::AtLeast(1.0);
        /// Threads of each replica; "auto" tries some numbers for a moment and takes the fastest. Over processes "auto" is
        /// the cores of a host, divided by the replicas there. Replicas times threads of one process are at most 64 for each
        /// core, or 1,024.
        threads: Auto<usize> = Auto::Auto, Limit::AtLeast(1.0);
        /// The core to run on (one-device).
        device: CpuCore = CpuCore(0), Limit::None;
        /// A plan file that says how each operator is split and where its parts run, instead of strategy.name. In a configuration
        /// file the path is relative to that file.
        plan: Option<PathBuf> = None, Limit::None;
        /// Who updates parameters: every replica all of them (replicated), or each a share that it hands out
        /// (sharded). The same with one replica.
        update: Auto<UpdateMode> = Auto::Auto, Limit::None;
        /// Gradients travel in buckets of about so many elements; "auto" is 262144 within a process, and over processes
        /// what a short measurement of the connection finds.
        bucket: Auto<usize> = Auto::Auto, Limit::AtLeast(1.0);
        /// How gradients are made smaller between replicas: none, bf16 (rounded to 16 bits: half the bytes) or top-k (only
        /// the largest travel, the others are added to the next step's). All but none make a run statistical: near the
        /// results of one worker, not equal to them.
        compress: CompressName = CompressName::None, Limit::None;
        /// The share of gradients that travels (top-k).
        keep: f64 = 0.01, Limit::UpTo(0.0, 1.0);
        /// Seconds that a rank waits for others without any news before it gives up and names them.
        timeout: f64 = 600.0, Limit::Above(0.0);
    }

    /// What is saved to go on from.
    [checkpoint] Checkpoint {
        /// How often to save. At most the work since the last checkpoint can be lost.
        every: Cadence = Cadence::Epoch, Limit::None;
        /// How many of the newest are kept, besides the best by train.monitor, to which checkpoints/best is a link.
        keep: usize = 2, Limit::AtLeast(1.0);
    }

    /// What is recorded of the steps.
    [record] Record {
        /// One record for so many steps; "auto" keeps the cost of recording below 1 % of the time.
        every: Every = Every::Auto, Limit::None;
    }

    /// The run itself.
    [run] Run {
        /// The name of the run and of its folder; made from the model, the data and a number if absent.
        name: Option<String> = None, Limit::FolderName;
        /// The folder in which run directories are made.
        dir: PathBuf = "runs".into(), Limit::NotEmpty;
    }
}

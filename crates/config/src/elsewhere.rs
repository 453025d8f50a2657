//! Words that other tools have for keys and names here, for the answers to wrong ones: PyTorch, Keras, Lightning,
//! Hugging Face's trainer and their launchers.

use crate::schema::{KEYS, SECTIONS};

/// What a word of another tool is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here {
    /// This key.
    Key(&'static str),
    /// This key, which counts or means something else; in words.
    Like(&'static str, &'static str),
    /// No key; what to do instead.
    Nowhere(&'static str),
}

use Here::{Key, Like, Nowhere};

/// By the last part of what was typed, in lower case, with `_` between words.
const WORDS: &[(&[&str], Here)] = &[
    (&["lr", "learning_rate", "base_lr", "init_lr", "initial_lr", "initial_learning_rate"], Key("optimizer.rate")),
    (&["betas"], Like("optimizer.beta1", "and optimizer.beta2 are keys of their own")),
    (&["beta_1", "adam_beta1"], Key("optimizer.beta1")),
    (&["beta_2", "adam_beta2"], Key("optimizer.beta2")),
    (&["epsilon", "adam_epsilon"], Key("optimizer.eps")),
    (&["wd", "decay"], Key("optimizer.weight_decay")),
    (&["optim", "optimiser", "algorithm"], Key("optimizer.name")),
    (&["nesterov"], Like("optimizer.name", "= \"nesterov\" is Nesterov's momentum")),
    (
        &["batch_size", "bs", "train_batch_size", "global_batch_size", "batchsize", "minibatch", "mini_batch_size"],
        Like("train.batch", "counts the samples of all workers together"),
    ),
    (
        &["per_device_train_batch_size", "local_batch_size", "batch_size_per_gpu", "batch_size_per_replica"],
        Like("train.batch", "counts the samples of all workers together; N each is train.batch = \"N*workers\""),
    ),
    (&["eval_batch_size", "val_batch_size", "test_batch_size", "per_device_eval_batch_size"], Key("train.eval_batch")),
    (&["max_epochs", "num_epochs", "n_epochs", "nb_epoch", "num_train_epochs"], Key("train.epochs")),
    (&["steps", "num_steps", "max_iter", "max_iters", "iterations", "total_steps"], Key("train.max_steps")),
    (&["random_state", "random_seed", "manual_seed", "seed_everything"], Key("train.seed")),
    (&["patience", "early_stop", "early_stopping_patience"], Key("train.early_stopping")),
    (&["metric_for_best_model"], Key("train.monitor")),
    (&["target_column", "target_columns", "label_column", "y_col"], Key("data.target")),
    (
        &["dataset", "data_dir", "dataset_name", "data_path", "train_dir", "train_data", "root", "path"],
        Key("data.name"),
    ),
    (
        &[
            "validation_split",
            "val_split",
            "val_fraction",
            "test_size",
            "val",
            "val_data",
            "validation_data",
            "val_dir",
        ],
        Key("data.validation"),
    ),
    (
        &["num_workers", "n_workers", "workers", "dataloader_num_workers", "num_parallel_calls"],
        Like("data.threads", "are the threads that decode; strategy.replicas are those that train together"),
    ),
    (&["prefetch_factor", "buffer_size"], Like("data.prefetch", "counts batches")),
    (&["image_size", "img_size", "input_size", "input_shape", "resize", "target_size"], Key("data.size")),
    (
        &["hidden_size", "hidden_sizes", "hidden_units", "hidden_layer_sizes", "hidden_dim", "hidden_layers", "units"],
        Like("model.hidden", "is a list, one number for each hidden layer, such as [256, 64]"),
    ),
    (&["dropout_rate", "drop_rate", "p"], Key("model.dropout")),
    (&["l2_reg", "l2_regularization", "kernel_regularizer", "regularization"], Key("model.l2")),
    (&["arch", "architecture", "backbone", "net", "model_name"], Key("model.preset")),
    (&["scheduler", "lr_scheduler", "lr_schedule", "lr_scheduler_type"], Key("schedule.name")),
    (
        &["warmup_steps", "warmup_epochs", "num_warmup_steps", "warmup_ratio"],
        Like("schedule.warmup", "counts epochs; parts of one are fine"),
    ),
    (&["step_size", "lr_step_size"], Like("schedule.step_epochs", "counts epochs")),
    (&["lr_decay", "decay_rate", "lr_gamma"], Key("schedule.gamma")),
    (&["t_max", "decay_steps", "total_epochs"], Like("schedule.length", "counts epochs")),
    (&["eta_min", "min_lr", "end_lr"], Like("schedule.floor", "is a share of the rate")),
    (&["distribute_strategy", "distribution_strategy"], Key("strategy.name")),
    (
        &["devices", "gpus", "num_gpus", "n_gpus", "nproc_per_node", "num_replicas", "num_processes", "world_size"],
        Like(
            "strategy.replicas",
            "are the copies of the network in one process; processes come from paceline launch --np",
        ),
    ),
    (&["num_threads", "intra_op_parallelism_threads", "omp_num_threads"], Key("strategy.threads")),
    (
        &["num_nodes", "nnodes", "hosts"],
        Nowhere("hosts are given to launch: paceline launch --hosts a:2,b:2 -- train …"),
    ),
    (&["bucket_cap_mb"], Like("strategy.bucket", "counts elements of 4 bytes")),
    (&["ddp_timeout"], Key("strategy.timeout")),
    (&["horizontal_flip", "random_flip", "hflip", "random_horizontal_flip"], Key("augment.flip")),
    (&["random_crop", "random_resized_crop", "scale"], Key("augment.crop")),
    (&["padding"], Key("augment.pad")),
    (&["save_steps", "save_every", "save_freq", "every_n_epochs", "save_interval"], Key("checkpoint.every")),
    (&["save_total_limit", "max_to_keep", "save_top_k"], Key("checkpoint.keep")),
    (&["logging_steps", "log_every", "log_every_n_steps", "log_interval", "print_freq"], Key("record.every")),
    (
        &["output_dir", "default_root_dir", "log_dir", "save_dir", "logdir", "work_dir"],
        Like("run.dir", "is the folder of all runs; --run-dir names one run"),
    ),
    (&["run_name", "experiment", "experiment_name"], Key("run.name")),
    (
        &["resume", "resume_from_checkpoint", "ckpt_path", "load"],
        Nowhere("a run goes on by a flag: paceline train --resume RUN"),
    ),
    (
        &["precision", "amp", "fp16", "bf16", "mixed_precision", "dtype"],
        Nowhere("everything is computed in f32; strategy.compress = \"bf16\" halves what travels between replicas"),
    ),
    (
        &["accumulate_grad_batches", "gradient_accumulation_steps"],
        Nowhere("a step sums the gradients of the whole train.batch"),
    ),
    (
        &["gradient_clip_val", "max_grad_norm", "clip_norm", "clipnorm", "grad_clip"],
        Nowhere("gradients are not clipped"),
    ),
    (&["num_classes", "n_classes", "classes"], Nowhere("the number of classes comes from the data")),
    (
        &["loss", "criterion", "loss_fn"],
        Nowhere("the loss is a layer of the model file (model.file); presets have softmax and cross-entropy"),
    ),
    (
        &["device", "accelerator", "cuda", "gpu"],
        Nowhere("networks are computed on processors; strategy.device names a core"),
    ),
    (&["verbose"], Nowhere("paceline train --quiet says less, --log info more")),
];

/// Sections by other names.
const PARTS: &[(&[&str], &str)] = &[
    (&["dataset", "datasets", "dataloader", "data_loader", "input"], "data"),
    (&["training", "trainer", "fit"], "train"),
    (&["optim", "optimiser", "optimizers"], "optimizer"),
    (&["scheduler", "lr_scheduler", "lr"], "schedule"),
    (&["net", "network", "architecture"], "model"),
    (&["distributed", "parallel", "distribution", "ddp"], "strategy"),
    (&["checkpoints", "checkpointing", "callbacks"], "checkpoint"),
    (&["logging", "logger", "log"], "record"),
    (&["augmentation", "transforms", "transform"], "augment"),
    (&["experiment", "output"], "run"),
];

/// Names of strategies, schedules and optimizers elsewhere, without `_`, `-` and capitals.
const VALUES: &[(&[&str], &str)] = &[
    (&["ddp", "dp", "fsdp", "dataparallel", "mirroredstrategy", "horovod"], "mirrored"),
    (&["multiworkermirroredstrategy", "multiworker", "distributeddataparallel"], "multi-worker-mirrored"),
    (&["onedevicestrategy"], "one-device"),
    (&["steplr", "stepdecay", "multisteplr", "piecewise"], "step"),
    (&["exponentiallr", "exponentialdecay"], "exponential"),
    (&["cosineannealing", "cosineannealinglr", "cosinedecay", "cosineannealingwarmrestarts"], "cosine"),
    (&["nag", "nesterovmomentum", "sgdnesterov"], "nesterov"),
    (&["sgdmomentum", "sgdwithmomentum"], "momentum"),
];

fn plain(word: &str) -> String {
    word.trim_start_matches('-').replace('-', "_").to_lowercase()
}

/// What a key that there is not is here; none if no other tool is known to call anything so.
pub(super) fn key(path: &str) -> Option<Here> {
    let path = plain(path);
    let last = path.rsplit('.').next().unwrap_or(&path);
    let known = WORDS.iter().find(|(words, _)| words.contains(&last)).map(|(_, here)| *here);
    known.or_else(|| {
        // The right name in the wrong section, or in none.
        let mut homes = KEYS.iter().filter(|key| key.name() == last);
        homes.next().filter(|_| homes.next().is_none()).map(|key| Key(key.path))
    })
}

/// The section that another tool calls so.
pub(super) fn section(name: &str) -> Option<&'static str> {
    let name = plain(name);
    let by_other_name = PARTS.iter().find(|(words, _)| words.contains(&name.as_str())).map(|(_, section)| *section);
    by_other_name.or_else(|| SECTIONS.iter().map(|section| section.name).find(|section| *section == name))
}

/// The one of these names that another tool writes so: `Adam`, `MirroredStrategy`, `CosineAnnealingLR`.
pub(super) fn value<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let bare = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let word = bare(word);
    let meant = VALUES.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, name)| *name);
    names.iter().copied().find(|name| Some(*name) == meant || bare(name) == word)
}

impl Here {
    /// As the end of "there is no key lr".
    pub(super) fn words(self) -> String {
        match self {
            Key(path) => format!("; it is {path} here (paceline config explain {path})"),
            Like(path, words) => format!("; {path} {words} (paceline config explain {path})"),
            Nowhere(words) => format!(": {words}"),
        }
    }

    /// The key that takes such a value.
    pub(super) fn path(self) -> Option<&'static str> {
        match self {
            Key(path) | Like(path, _) => Some(path),
            Nowhere(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_word_leads_to_a_key_and_to_one_only() {
        let mut seen = BTreeSet::new();
        for (words, here) in WORDS {
            for word in *words {
                assert!(seen.insert(*word), "{word} is there twice");
                assert_eq!(*word, plain(word));
                assert!(!KEYS.iter().any(|key| key.name() == *word && key.section != "strategy"), "{word} is a key");
            }
            if let Some(path) = here.path() {
                assert!(KEYS.iter().any(|key| key.path == path), "{path}");
            }
        }
        for (_, name) in PARTS {
            assert!(SECTIONS.iter().any(|section| section.name == *name), "{name}");
        }
    }

    #[test]
    fn words_of_other_tools_are_known() {
        for (word, path) in [
            ("lr", "optimizer.rate"),
            ("learning_rate", "optimizer.rate"),
            ("optimizer.lr", "optimizer.rate"),
            ("train.lr", "optimizer.rate"),
            ("batch_size", "train.batch"),
            ("--batch-size", "train.batch"),
            ("data.batch_size", "train.batch"),
            ("epochs", "train.epochs"),
            ("trainer.max_epochs", "train.epochs"),
            ("momentum", "optimizer.momentum"),
            ("train.momentum", "optimizer.momentum"),
            ("Num-Workers", "data.threads"),
        ] {
            assert_eq!(key(word).and_then(Here::path), Some(path), "{word}");
        }
        assert_eq!(key("name"), None, "there are several");
        assert_eq!(key("quux"), None);
        assert!(matches!(key("precision"), Some(Nowhere(_))));
        assert_eq!((section("trainer"), section("Data"), section("quux")), (Some("train"), Some("data"), None));
    }

    #[test]
    fn names_of_other_tools_are_known() {
        assert_eq!(value("AdamW", &["adam", "adamw"]), Some("adamw"));
        assert_eq!(value("MirroredStrategy", &["single", "mirrored"]), Some("mirrored"));
        assert_eq!(value("DDP", &["single", "mirrored"]), Some("mirrored"));
        assert_eq!(value("CosineAnnealingLR", &["step", "cosine"]), Some("cosine"));
        assert_eq!(value("multi_worker_mirrored", &["multi-worker-mirrored"]), Some("multi-worker-mirrored"));
        assert_eq!(value("ddp", &["adam"]), None);
    }
}

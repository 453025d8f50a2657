//! Convolutional networks from outside: presets and model files, odd sizes and batches, what does not fit, damaged pictures.

use crate::session::{Session, has};
use crate::shards::write_shards;

/// Two convolutions, a pool with a remainder, a mean: for pictures of any size in colour.
const SMALL_CNN: &str = r#"
format = 1
name = "small-cnn"
[[layer]]
name = "first"
type = "conv"
channels = 4
kernel = 3
pad = 1
input_channels = 3
[[layer]]
type = "batch-norm"
[[layer]]
type = "relu"
[[layer]]
name = "pool"
type = "max-pool"
window = 2
[[layer]]
name = "second"
type = "conv"
channels = 6
kernel = 3
[[layer]]
type = "relu"
[[layer]]
type = "global-average-pool"
[[layer]]
name = "logits"
type = "dense"
units = "classes"
[[layer]]
type = "softmax-cross-entropy"
"#;

fn session() -> Session {
    let s = Session::new();
    s.write("cnn.toml", SMALL_CNN);
    s
}

/// A finished run's number of epochs and its last loss, which must be a number.
fn trained(s: &Session, run: &str, line: &str) -> f64 {
    s.ok(&format!("train --run-dir {run} --set strategy.threads=1 {line}"));
    s.summary(run)["final_val_loss"].as_f64().unwrap_or_else(|| panic!("{run}: no loss"))
}

#[test]
fn batch_one_and_odd_sizes() {
    let s = session();
    let cnn = "--set model.file=cnn.toml --set train.epochs=1";
    for (run, more) in [
        ("one", "--set data.name=fake:9x9x3:3:20 --set train.batch=1"),
        ("odd", "--set data.name=fake:17x11x3:3:50 --set train.batch=7"),
        ("least", "--set data.name=fake:6x7x3:2:20 --set train.batch=3 --set train.eval_batch=1"),
    ] {
        trained(&s, run, &format!("{cnn} {more}"));
    }
    // Two replicas, one of which has no sample in the last batch.
    let line = format!(
        "{cnn} --set data.name=fake:13x9x3:3:50 --set train.batch=8 --set optimizer.name=sgd --set data.validation=test"
    );
    let alone = trained(&s, "alone", &line);
    let both = trained(&s, "both", &format!("{line} --strategy mirrored --replicas 2"));
    assert!((alone - both).abs() < 1e-4 * alone, "{alone} and {both}");
}

#[test]
fn presets_by_name() {
    let s = session();
    let text = s.ok("train --set model.preset=lenet --set data.name=fake:28x28:10:100 --threads 1 --summary");
    has(&text, &["conv1", "n×28×28×6", "61.7 k parameters", "planned for this run"]);
    let text = s.ok("train --set model.preset=resnet18 --set data.name=fake:64x64x3:10:100 --threads 1 --summary");
    has(&text, &["layer4_1_conv2", "11.2 M parameters"]);
    trained(&s, "r", "--set model.preset=resnet-small --set data.name=fake:16x16x3:4:60 --set train.epochs=1");
    let reasons = s.summary("r")["reasons"].to_string();
    assert!(!reasons.contains("not tried"), "{reasons}");
}

#[test]
fn pictures_that_do_not_fit_are_refused_with_both_shapes() {
    let s = session();
    for (line, words) in [
        ("--set data.name=fake:28x28:3:50 --set model.file=cnn.toml", &["cnn.toml", "layer first", "3", "28×28"][..]),
        ("--set data.name=fake:28x28x1:3:50 --set model.preset=flowers-cnn", &["28×28", "1 channel"]),
        ("--set data.name=fake:2x2x3:3:50 --set model.file=cnn.toml", &["layer second", "1×1"]),
        ("--set data.name=fake:32x32x3:3:50 --set model.preset=alexnet", &["layer features_12", "does not fit"]),
        ("--set data.name=fake:60:3:50 --set model.preset=lenet", &["layer conv1"]),
    ] {
        has(&s.fails(2, &format!("train {line}")), words);
    }
    assert!(!s.path("runs").exists(), "a refused run leaves no folder");
}

#[test]
fn a_model_too_large_for_memory_is_refused_before_the_first_step() {
    let s = session();
    let huge = "--set model.hidden=[3000000,3000000]";
    for more in ["--threads 1", "", "--strategy mirrored"] {
        let words =
            ["would need", "TiB of memory", "parameters, gradients and optimizer state", "are free", "smaller model"];
        has(&s.fails(2, &format!("train {huge} {more}")), &words);
    }
    // Hundreds of megabytes of activations for each sample: together more than any machine has, but a smaller batch would do.
    s.write("wide.toml", SMALL_CNN.replace("channels = 4", "channels = 200000"));
    let wide = "--set data.name=fake:16x16x3:2:60000 --set model.file=wide.toml --set train.batch=50000 --threads 1";
    has(&s.fails(2, &format!("train {wide}")), &["for activations of 50000 samples", "train.batch = ", "would fit"]);
    assert!(!s.path("runs").exists(), "a refused run leaves no folder");
}

#[test]
fn a_corrupt_picture_ends_training_or_is_left_out() {
    let s = session();
    // Cut in its middle: the header is whole, so that only decoding finds it.
    write_shards(&s, "shards", |number, image| {
        if number == 57 {
            image.truncate(image.len() / 2);
        }
    });
    let line = "--set data.name=shards --set model.file=cnn.toml --set train.batch=16 --set train.epochs=2 --threads 1";
    let error = s.fails(2, &format!("train --run-dir a {line}"));
    has(&error, &["shards/part-1.tfrec", "record 17", "data.skip_bad"]);
    let text = s.ok(&format!("train --run-dir b {line} --set data.skip_bad=1"));
    has(&text, &["left out", "shards/part-1.tfrec"]);
    assert_eq!(s.summary("b")["epochs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_stopped_run_goes_on_with_the_same_kernels_and_bits() {
    let s = session();
    let settings = "train --set model.file=cnn.toml --set data.name=fake:12x12x3:3:60 --set train.batch=8 \
                    --set train.epochs=3 --threads 1";
    let first = s.ok(&format!("{settings} --run-dir whole"));
    has(&first, &["convolution kernels", "measured now", "kernels.toml"]);
    // What is settled is taken from the cache; on a busy machine not all of it is.
    let kept = s.read("cache/kernels.toml");
    has(&kept, &["format = 2", "spread = "]);
    s.write("cache/kernels.toml", kept.replace("settled = false", "settled = true"));
    has(&s.ok(&format!("{settings} --run-dir second")), &["as measured before"]);
    s.write("cache/kernels.toml", kept.replace("settled = true", "settled = false"));
    has(&s.ok(&format!("{settings} --run-dir third")), &["measured now"]);
    // A repeated run takes the choices of the run that it repeats, a resumed one those of its own run.toml.
    s.ok("train whole/run.toml --run-dir parts --set train.max_steps=10");
    s.write("cache/kernels.toml", "not a table");
    s.ok("train --resume parts --set train.max_steps=0");
    assert_eq!(s.newest("parts"), s.newest("whole"));
    // A damaged cache is said and made anew.
    let text = s.ok(&format!("{settings} --run-dir anew"));
    has(&text, &["are damaged: measured anew", "measured now"]);
    has(&s.read("cache/kernels.toml"), &["format = 2"]);
}

#[test]
fn kept_kernels_can_be_forgotten() {
    let s = session();
    has(&s.ok("bench kernels --forget"), &["nothing to remove", "kernels.toml"]);
    s.ok("bench kernels --model cnn.toml --input 12x12x3 --classes 3 --batch 4 --repeats 1");
    let kept = s.read("cache/kernels.toml");
    // Those of another processor stay.
    let cpu = kept.lines().find(|line| line.starts_with("cpu = ")).unwrap();
    let others = kept.replacen("format = 2\n", "", 1).replace(cpu, "cpu = \"another\"");
    s.write("cache/kernels.toml", format!("{kept}\n{others}"));
    has(&s.ok("bench kernels --forget"), &["removed 5 convolutions", "1 thread,", "later runs measure anew"]);
    let left = s.read("cache/kernels.toml");
    assert!(left.contains("another") && !left.contains(cpu), "{left}");
    assert_eq!(s.json("bench kernels --forget=all --json")["removed"][0]["cpu"], "another");
    assert!(!s.read("cache/kernels.toml").contains("convs"));
    s.write("cache/kernels.toml", "format = 1\n");
    has(&s.fails(2, "bench kernels --forget"), &["another version", "delete the file"]);
}

#[test]
fn kernels_of_a_step() {
    let s = session();
    let text = s.ok("bench kernels --model cnn.toml --input 12x12x3 --classes 3 --batch 4 --repeats 2");
    has(&text, &["first", "conv-forward", "conv-backward-weights", "12×12×3 → 12×12×4, 3×3", "GFLOP/s", "samples/s"]);
    let report = s.json("bench kernels --model lenet --batch 2 --repeats 1 --json");
    assert!(report["lines"].as_array().is_some_and(|lines| lines.iter().any(|l| l["kernel"] == "dense-forward")));
    has(&s.fails(2, "bench kernels --model lenett"), &["lenett is neither", "did you mean lenet"]);
    has(&s.fails(2, "bench kernels --model cnn.toml"), &["say which, as --input"]);
    has(
        &s.fails(2, "bench kernels --model alexnet --input 224x224"),
        &["takes images of shape height×width×3", "224×224"],
    );
    has(&s.fails(2, "bench kernels --model alexnet --input 9x9x3"), &["features_2", "3×3 window", "1×1×64"]);
}

//! `steps.jsonl` and `summary.json` tell the same: weighted by samples, the steps of an epoch give its training loss.

use crate::session::{Session, has};

/// Over the lines of each epoch, of every rank and of all together.
#[track_caller]
fn steps_give_the_epochs(s: &Session, run: &str, ranks: u32) {
    let data = paceline::record::read_run(s.path(run)).unwrap();
    assert!(!data.epochs.is_empty());
    for epoch in &data.epochs {
        for rank in (0..ranks).map(Some).chain([None]) {
            let lines = data.steps.iter().filter(|l| l.epoch == epoch.epoch && rank.is_none_or(|r| r == l.rank));
            let (mut samples, mut loss, mut correct) = (0, 0.0, 0.0);
            for line in lines {
                samples += line.samples;
                loss += line.loss * line.samples as f64;
                correct += line.accuracy.unwrap() * line.samples as f64;
            }
            let what = format!("{run}, epoch {}, rank {rank:?}", epoch.epoch);
            assert_eq!(samples, 180 * rank.map_or(u64::from(ranks), |_| 1), "{what}");
            for (got, wanted) in [(loss, epoch.train_loss), (correct, epoch.train_accuracy.unwrap())] {
                let got = got / samples as f64;
                assert!((got - wanted).abs() <= 1e-12 * wanted.abs(), "{what}: {got} instead of {wanted}");
            }
        }
        let own: u64 = data.steps.iter().filter(|l| l.epoch == epoch.epoch).map(|l| l.own_samples()).sum();
        assert_eq!(own, 180, "{run}: the ranks' shares add up");
    }
}

#[test]
fn weighted_by_samples_the_steps_give_the_loss_of_the_epoch() {
    let s = Session::new();
    // 180 samples in steps of 16: the last step of an epoch has 4, and of three ranks two have one of these each.
    for (i, (ranks, strategy)) in
        [(1, ""), (2, "--strategy mirrored --replicas 2"), (3, "--strategy mirrored --replicas 3")].iter().enumerate()
    {
        for every in ["auto", "1", "5", "1000"] {
            let run = format!("r{i}-{every}");
            s.train(&run, &format!("{strategy} --quiet --set train.epochs=2 --set record.every={every}"));
            steps_give_the_epochs(&s, &run, *ranks);
        }
    }
}

#[test]
fn also_after_stops_in_the_middle_of_epochs() {
    let s = Session::new();
    for every in ["1", "5"] {
        let run = format!("every-{every}");
        let settings = format!("--strategy mirrored --replicas 3 --quiet --set record.every={every}");
        s.train(&run, &format!("{settings} --set train.epochs=3 --set checkpoint.every=4 --set train.max_steps=7"));
        for stop in [13, 23, 0] {
            s.ok(&format!("train --resume {run} --quiet --set train.max_steps={stop}"));
        }
        steps_give_the_epochs(&s, &run, 3);
        assert_eq!(s.summary(&run)["epochs"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn a_run_that_ends_inside_an_epoch_tells_the_loss_so_far() {
    let s = Session::new();
    let out = s.train("r", "--set train.epochs=2 --set train.max_steps=5");
    has(&out, &["(5 of 12 steps of epoch 1)", "loss"]);
    let data = paceline::record::read_run(s.path("r")).unwrap();
    let mean = |data: &paceline::record::RunData, from: u64| {
        let lines = data.steps.iter().filter(|l| l.step >= from);
        lines.clone().map(|l| l.loss * l.samples as f64).sum::<f64>() / lines.map(|l| l.samples as f64).sum::<f64>()
    };
    let summary = s.summary("r");
    let loss = summary["train_loss"].as_f64().unwrap();
    assert!((loss - mean(&data, 0)).abs() < 1e-12, "{loss}");
    assert_eq!(summary["partial"]["train_loss"].as_f64(), Some(loss));
    let count = |key: &str| summary["partial"][key].as_u64();
    assert_eq!([count("epoch"), count("steps"), count("of_steps"), count("samples")], [1, 5, 12, 80].map(Some));
    // In the second epoch: the first, which is whole, and what the second has so far.
    has(&s.ok("train --resume r --set train.max_steps=15"), &["(3 of 12 steps of epoch 2)"]);
    let (summary, data) = (s.summary("r"), paceline::record::read_run(s.path("r")).unwrap());
    assert_eq!(summary["train_loss"].as_f64(), Some(data.epochs[0].train_loss));
    let so_far = summary["partial"]["train_loss"].as_f64().unwrap();
    assert!((so_far - mean(&data, 12)).abs() < 1e-12, "{so_far}");
    s.ok("train --resume r --set train.max_steps=0");
    assert!(s.summary("r").get("partial").is_none(), "all epochs are whole");
}

/// Records as TFX's examples have them: floats, under names of their own.
#[test]
fn images_that_are_lists_of_floats_are_trained_on() {
    use paceline::data::example::{self, Value};
    use paceline::data::tfrecord::{Packing, Writer};
    let s = Session::new();
    for (file, names) in [("tfx.tfrecord", ["image_floats", "image_class"]), ("own.tfrecord", ["x", "y"])] {
        let mut writer = Writer::new(Vec::new(), Packing::Plain);
        for number in 0..90_usize {
            let floats: Vec<f32> = (0..16).map(|at| if at % 3 == number % 3 { 1.0 } else { 0.2 }).collect();
            let mut record = Vec::new();
            let class = [(number % 3) as i64];
            example::write(&[(names[0], Value::Floats(&floats)), (names[1], Value::Ints(&class))], &mut record);
            writer.write(&record).unwrap();
        }
        s.write(file, writer.finish().unwrap());
    }
    let train = "--set model.hidden=[8] --set train.batch=16 --set train.epochs=20 --set optimizer.rate=0.02 \
                 --set strategy.threads=1";
    s.ok(&format!("train --set data.name=tfx.tfrecord {train} --run-dir tfx"));
    assert_eq!(s.summary("tfx")["best_val_accuracy"], 1.0);
    has(&s.fails(2, "train --set data.name=own.tfrecord"), &["(x, y)", "data.image=NAME and data.label=NAME"]);
    s.ok(&format!("train --set data.name=own.tfrecord --set data.image=x --set data.label=y {train} --run-dir own"));
    assert_eq!(s.newest("own"), s.newest("tfx"), "other names, the same samples");
    has(&s.ok("data info tfx.tfrecord"), &["image from `image_floats`", "image_class"]);
}

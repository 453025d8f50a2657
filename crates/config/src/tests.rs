//! The boundary of the configuration: what is read, what is refused and with which words, what is saved.

use crate::*;
use paceline_base::random::philox;

/// Reads `file` (without its first line) and `sets`, and compares the message, or "fits".
fn check(file: &str, sets: &[&str], expected: &str) {
    let text = format!("format = 1\n{file}");
    let got = match Config::from_parts(Some((&text, "c.toml")), sets) {
        Ok(config) => {
            assert_eq!(Config::from_toml(&config.to_toml(), "again").unwrap(), config, "{}", config.to_toml());
            "fits".to_string()
        }
        Err(e) => {
            assert_eq!(e.kind(), paceline_base::Kind::User);
            e.message().to_string()
        }
    };
    assert!(got.contains(expected), "{text}{sets:?}\n     got {got}\n  wanted {expected}");
}

fn check_file(file: &str, expected: &str) {
    check(file, &[], expected);
}

fn check_set(set: &str, expected: &str) {
    check("", &[set], expected);
}

#[test]
fn files_fit_or_say_where_they_do_not() {
    check_file("", "fits");
    check_file("[train]\nepochs = 3\nbatch = \"32*workers\"\n[optimizer]\nrate = 1", "fits");
    check_file("[train]\nepoch = 3", "c.toml, line 3: there is no key train.epoch; did you mean train.epochs?");
    check_file("[trian]\nepochs = 3", "c.toml, line 2: there is no section trian; did you mean train?");
    check_file("epochs = 3", "c.toml, line 2: epochs is outside its section; move it below [train]");
    check_file("name = \"x\"", "move it below [data] or [optimizer] or");
    check_file("train = 3", "c.toml, line 2: train is a section; write its keys below a line [train]");
    check_file("wibble = 3", "there is no section wibble; `paceline config explain` lists all keys");
    check_file("[train]\nepochs = 3\nepochs = 4", "c.toml, line 4: this is not TOML: duplicate key");
    check_file("[train]\nepochs = ", "c.toml, line 3: this is not TOML");
    check_file(
        "[train]\n\n\nepochs = \"ten\"",
        "line 5: train.epochs = \"ten\" is a string; give a whole number of at least 1",
    );
    check_file("[data]\nshuffle = 1", "data.shuffle = 1 is a whole number; give true or false");
    check_file("[model]\nhidden = 128", "model.hidden = 128 is a whole number; give a list of whole numbers");
    check_file("[model]\nhidden = [128, 0]", "model.hidden = [128, 0] is out of range");
    check_file("[model]\nhidden = [128, 1.5]", "give a list of whole numbers of at least 1");
    check_file("[train.batch]\nx = 1", "train.batch = { x = 1 } is a table");
    check_file("given = [\"train.epoch\"]", "line 2: there is no key train.epoch; did you mean train.epochs?");
    check_file("[train]\nseed = 99999999999999999999", "c.toml, line 3: ");
    check_file("given = 3", "given = 3 is not a list of keys; remove the line");
}

#[test]
fn words_of_other_tools_are_answered_with_ours() {
    check_set("lr=0.1", "lr=0.1: there is no key lr; it is optimizer.rate here");
    check_set("optimizer.lr=0.1", "there is no key optimizer.lr; it is optimizer.rate here");
    check_set("learning_rate=0.1", "it is optimizer.rate here");
    check_set("batch_size=64", "train.batch counts the samples of all workers together");
    check_set("epochs=3", "it is train.epochs here (paceline config explain train.epochs)");
    check_set("momentum=0.9", "it is optimizer.momentum here");
    check_set("precision=16", "there is no key precision: everything is computed in f32");
    check_set("optimizer.name=AdamW", "is not known; did you mean adamw?");
    check_set("strategy.name=ddp", "did you mean mirrored?");
    check_set("schedule.name=CosineAnnealingLR", "did you mean cosine?");
    check_file("lr = 0.1", "c.toml, line 2: there is no key lr; it is optimizer.rate here");
    check_file("[trainer]\nmax_epochs = 3", "line 2: there is no section trainer; it is [train] here");
    check_file(
        "[train]\nlearning_rate = 0.1",
        "line 3: there is no key train.learning_rate; it is optimizer.rate here",
    );
}

#[test]
fn the_format_is_asked_for_and_newer_ones_are_refused() {
    let check = |text, expected: &str| {
        let error = Config::from_toml(text, "c.toml").unwrap_err();
        assert_eq!(error.message(), expected);
    };
    check("[train]\nepochs = 3", "c.toml: the line `format = 1` is missing; add it at the top of the file");
    check("future = 1\nformat = 2", "c.toml, line 2: format = 2 is newer than this program reads (1); update paceline");
    check("format = 0", "c.toml, line 1: format = 0 is not a version; write format = 1");
    check("format = \"1\"", "c.toml, line 1: format = \"1\" is not a version; write format = 1");
}

#[test]
fn values_out_of_range_are_refused() {
    check_set("train.epochs=0", "train.epochs=0: train.epochs = 0 is out of range; give a whole number of at least 1");
    check_set("train.epochs=-1", "is out of range");
    check_set("train.epochs=1.5", "is a number with a fraction; give a whole number");
    check_set("train.batch=0", "train.batch = 0 is out of range; give a whole number of at least 1, or an expression");
    check_set("train.batch=3-3", "is out of range");
    check_set("train.eval_batch=0", "is out of range");
    check_set("train.seed=-1", "is out of range");
    check_set("train.min_delta=-0.1", "is out of range");
    check_set("optimizer.rate=0", "give \"auto\" or a number above 0");
    check_set("optimizer.rate=-1e-3", "is out of range");
    check_set("optimizer.rate=inf", "optimizer.rate = inf is not finite");
    check_set("optimizer.rate=nan", "is not finite");
    check_set("optimizer.momentum=1", "give a number from 0 to below 1");
    check_set("optimizer.momentum=-0.1", "is out of range");
    check_set("model.l2=-1", "give a number of at least 0");
    check_set("model.dropout=1.0", "is out of range");
    check_set(
        "data.validation=0",
        "give \"auto\", \"own\", \"test\", a path such as \"./val\" or a fraction above 0 and below 1",
    );
    check_set("data.validation=1.0", "is out of range");
    check_set("data.name=", "data.name = \"\" is out of range; give a string, not empty");
    check_set("schedule.gamma=1.5", "give \"auto\" or a number above 0, at most 1");
    check_set("schedule.floor=2", "give a number from 0 to 1");
    check_set("schedule.warmup=-1", "is out of range");
    check_set("strategy.replicas=0", "give \"auto\" or a whole number of at least 1");
    check_set("strategy.bucket=0", "is out of range");
    check_set("checkpoint.every=0", "is out of range");
    check_set("checkpoint.keep=0", "is out of range");
    check_set("record.every=0", "give \"auto\" or a number of steps of at least 1");
    check_set(
        "run.name=../x",
        "is out of range; give a string without /, \\ or control characters, not beginning with a dot",
    );
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    check_set(
        "optimizer.name=adm",
        "optimizer.name=adm: optimizer.name = \"adm\" is not known; did you mean adam? give one of sgd, momentum, \
         nesterov, adam, adamw, adagrad",
    );
    check_set("strategy.name=mirorred", "did you mean mirrored? give one of single, one-device, mirrored");
    check_set("schedule.name=zigzag", "is not known; give one of constant, step, exponential, cosine");
    check_set("model.preset=mpl", "did you mean mlp?");
    check_set("model.activation=gleu", "did you mean gelu?");
    check_set("strategy.update=shard", "did you mean sharded? give \"auto\" or one of replicated, sharded");
    check_set("strategy.device=gpu:0", "is not a device; give \"cpu:N\" with the number of a core");
    check_set("data.validation=tset", "is not understood; give \"auto\", \"own\", \"test\", a path");
    check_set("checkpoint.every=5m", "is not understood; give \"epoch\", \"never\"");
    check_set("train.batch=32*worker", "uses \"worker\"; the only name it can use is workers; give a whole number");
    check_set("batch=32", "batch=32: there is no key batch; it is train.batch here");
    check_set("train=32", "train is a section, not a key; `paceline config explain train` lists its keys");
    check_set("train.epochs", "train.epochs: there is no `=`; write key=value");
}

#[test]
fn flags_take_values_without_quotes() {
    let sets = [
        "data.name=mnist",
        "model.hidden=[128, 64]",
        "train.batch = 32*workers",
        "optimizer.rate=1e-2",
        "strategy.replicas=auto",
        "run.name=2024-05-01",
        "checkpoint.every=30s",
        "data.validation=\"test\"",
        "run.dir=/tmp/a b",
    ];
    let config = Config::from_parts(None, &sets).unwrap();
    assert_eq!(config.data.name, "mnist");
    assert_eq!(config.model.hidden, [128, 64]);
    assert_eq!(config.train.batch.resolve(3).unwrap().samples(), 96);
    assert_eq!(config.optimizer.rate(), 0.01);
    assert_eq!(config.strategy.replicas, Auto::Auto);
    assert_eq!(config.run.name.as_deref(), Some("2024-05-01"));
    assert_eq!(config.checkpoint.every, Cadence::Time(std::time::Duration::from_secs(30)));
    assert_eq!(config.data.validation, paceline_data::Split::Test);
    let target = |sets: &[&str]| Config::from_parts(None, sets).unwrap().data.target;
    assert!(target(&[]).is_empty() && target(&["data.target=a", "data.target="]).is_empty());
    for (set, names) in [
        ("data.target=price", &["price"][..]),
        ("data.target=price, size", &["price", "size"]),
        ("data.target=7", &["7"]),
        ("data.target=[\"a,b\", \"c\"]", &["a,b", "c"]),
        ("data.target=[\"a,b\"]", &["a,b"]),
    ] {
        let config = Config::from_parts(None, &[set, "data.targets=numbers"]).unwrap();
        assert_eq!(config.data.target, names, "{set}");
        let again = Config::from_toml(&config.to_toml(), "again").unwrap();
        assert_eq!((again.data.target, again.data.targets), (config.data.target, config.data.targets));
    }
    check_set(
        "data.target=a,,b",
        "has an empty name in it; give a name, names separated by commas, or a list of names",
    );
    check_file("[data]\ntarget = true", "give a name, names separated by commas");
    check_set("data.targets=number", "did you mean numbers? give one of auto, classes, numbers");
    for path in ["./val", "photos/val", "val.csv", "/data/val"] {
        let mut config = Config::default();
        config.set("data.validation", path).unwrap();
        assert_eq!(config.data.validation, paceline_data::Split::Path(path.into()));
        let again = Config::from_toml(&config.to_toml(), "again").unwrap();
        assert_eq!(again.data.validation, config.data.validation);
    }
    assert!(config.is_given("strategy.replicas") && !config.is_given("train.epochs"));
    let mut config = Config::default();
    let error = config.set_by("--strategy mirorred", "strategy.name", "mirorred").unwrap_err();
    assert!(error.message().starts_with("--strategy mirorred: strategy.name = "), "{error}");
    assert_eq!(config, Config::default(), "a refused value changes nothing");
}

#[test]
fn contradictions_are_refused() {
    let file = "[model]\nfile = \"m.toml\"";
    check(file, &["model.preset=mlp"], "model.file = \"m.toml\" and model.preset are both given; remove one of them");
    check(file, &["model.hidden=[3]"], "model.hidden is given, but the layers come from model.file");
    check(file, &["model.l2=0.1"], "fits");
    check(file, &["model.preset=mlp", "model.file="], "fits");
    let softmax = "[model]\npreset = \"softmax\"";
    check(softmax, &["model.hidden=[3]"], "\"softmax\" has no hidden layers; remove model.hidden or set model.preset");
    check(softmax, &["model.hidden=[]"], "fits");
    check(softmax, &["model.dropout=0.5"], "has no hidden layers");
    let lenet = "[model]\npreset = \"lenet\"";
    check(lenet, &["model.dropout=0.5"], "model.preset = \"lenet\" has layers of its own; remove model.dropout");
    let sgd = "[optimizer]\nname = \"sgd\"";
    check(sgd, &[], "fits");
    check(sgd, &["optimizer.weight_decay=0.1"], "set optimizer.name = \"adamw\", or use model.l2");
    check(sgd, &["optimizer.momentum=0.9"], "set optimizer.name = \"momentum\" or \"nesterov\"");
    check(sgd, &["optimizer.momentum=0.9", "optimizer.name=momentum"], "fits");
    check_set("optimizer.weight_decay=0", "optimizer.name = \"adam\" does not use it");
    check_set("schedule.gamma=0.5", "set schedule.name = \"step\" or \"exponential\"");
    check_set("schedule.floor=0.5", "set schedule.name = \"cosine\"");
    check_set("schedule.warmup=1", "fits");
    check_set("strategy.replicas=2", "set strategy.name = \"mirrored\"");
    check_set("strategy.replicas=1", "fits");
    check_set("strategy.device=cpu:1", "set strategy.name = \"one-device\"");
    check("", &["strategy.name=one-device", "strategy.threads=2"], "runs on one core");
    check("", &["strategy.plan=p.toml", "strategy.name=mirrored"], "says how the work is spread; remove strategy.name");
    check("", &["strategy.plan=p.toml", "strategy.threads=2"], "fits");
    check("", &["strategy.plan=p.toml", "data.placement=local"], "samples that it does not have; remove one of them");
    let file = "format = 1\n[schedule]\nfloor = 0.5";
    let error = Config::from_toml(file, "c.toml").unwrap_err();
    assert!(error.message().starts_with("c.toml: schedule.floor is given"), "{error}");
}

#[test]
fn what_is_saved_is_full_and_switching_goes_on_working() {
    let text = Config::default().to_toml();
    assert!(text.starts_with("format = 1\n"));
    for key in keys().iter().filter(|key| key.default_text() != "none") {
        assert!(text.contains(&format!("\n{} = {}\n", key.name(), key.default_text())), "{} is missing", key.path);
    }
    // Adam's defaults are in the file, but the user did not write them: sgd contradicts nothing.
    Config::from_parts(Some((&text, "run.toml")), &["optimizer.name=sgd"]).unwrap();
    // A configuration is also part of other files.
    let config = Config::from_parts(None, &["train.batch=8*workers"]).unwrap();
    let again: Config = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(again, config);
}

/// Values for each kind of key, of which random configurations are made.
fn values_for(key: &Key) -> Vec<&'static str> {
    let all = [
        "1",
        "7",
        "0",
        "9223372036854775807",
        "0.5",
        "1e-7",
        "0.1",
        "3.25",
        "true",
        "false",
        "auto",
        "test",
        "epoch",
        "never",
        "90s",
        "1.5min",
        "250ms",
        "[1]",
        "[]",
        "[300, 20, 1]",
        "relu",
        "tanh",
        "gelu",
        "sgd",
        "adamw",
        "adagrad",
        "step",
        "cosine",
        "exponential",
        "mlp",
        "softmax",
        "mirrored",
        "one-device",
        "sharded",
        "replicated",
        "32*workers",
        "(workers+3)/2*(4-(1-workers))",
        "cpu:3",
        "a \\\"quoted\\\" näme",
        "'C:\\x'",
        "# no comment",
        "\"two\\nlines\"",
        "a.toml",
        "own",
        "pad",
        "stretch",
        "memory",
        "disk",
        "bf16",
        "top-k",
        "val-loss",
        "shared",
        "local",
        "96",
        "128x96",
        "",
    ];
    let fits = |value: &&str| Config::default().set(key.path, value).is_ok();
    all.into_iter().filter(fits).collect()
}

#[test]
fn saving_and_reading_is_the_identity() {
    let values: Vec<_> = keys().iter().map(|key| (key, values_for(key))).collect();
    for (key, values) in &values {
        assert!(!values.is_empty(), "no value fits {}", key.path);
    }
    for case in 0..2_000 {
        let mut config = Config::default();
        for (i, (key, values)) in values.iter().enumerate() {
            let [random, choice, ..] = philox([i as u32, case, 0, 0], [5, 6]);
            if random.is_multiple_of(3) {
                config.set(key.path, values[choice as usize % values.len()]).unwrap();
            }
        }
        let text = config.to_toml();
        assert_eq!(Config::read(&text, "saved").unwrap(), config, "{text}");
        assert_eq!(Config::from_table(&config.to_table(), "saved").unwrap(), config, "{text}");
        assert_eq!(Config::read(&text, "saved").unwrap().to_toml(), text);
        if config.check().is_ok() {
            Config::from_toml(&text, "saved").unwrap();
        }
    }
}

#[test]
fn random_flags_never_panic() {
    const PIECES: [&str; 20] = [
        "[", "]", "{", "}", "\"", "'", "=", ".", ",", "1", "-", "e", "auto", "workers", "\n", "#", "é", "\u{0}", "inf",
        " ",
    ];
    for case in 0..5_000 {
        let value: String = (0..6)
            .flat_map(|block| philox([block, case, 0, 0], [7, 8]))
            .take(case as usize % 24)
            .map(|random| PIECES[random as usize % PIECES.len()])
            .collect();
        let key = &keys()[case as usize % keys().len()];
        let mut config = Config::default();
        match config.set(key.path, &value) {
            Ok(()) => assert_eq!(Config::read(&config.to_toml(), "saved").unwrap(), config, "{value:?}"),
            Err(_) => assert_eq!(config, Config::default(), "{value:?}"),
        }
        let _ = Config::from_toml(&format!("format = 1\n[train]\n{value}"), "c.toml");
    }
}

#[test]
fn flags_take_numbers_as_people_write_them() {
    let mut config = Config::default();
    for (text, value) in [(".01", 0.01), ("1.", 1.0), ("0.5", 0.5), ("1e-3", 0.001), ("2", 2.0)] {
        config.set("optimizer.rate", text).unwrap();
        assert_eq!(config.optimizer.rate(), value, "{text}");
    }
    config.set("run.name", ".5").unwrap_err(); // a folder's name, and not a good one
    config.set("data.name", "1.").unwrap();
    assert_eq!(config.data.name, "1.");
}

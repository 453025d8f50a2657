//! What a newcomer does first: the demo, a training with defaults, looking at data, keys and reports.

use crate::session::{SMALL, Session, has};

/// The example plan: the hidden layer is split over its outputs, the last one over its inputs.
const HYBRID: &str = include_str!("../../../../examples/hybrid-plan.toml");

#[test]
fn the_demo_trains_seven_runs_and_writes_a_report() {
    let s = Session::new();
    // The cache comes first, so that a small set stands in for the full one.
    s.write_idx("cache/data/fashion-mnist", 28, 300, 60);
    let out = s.ok("demo");
    has(&out, &["differs in", "optimizer sgd", "optimizer adam"]);
    let table = &out[out.find("speed-up").expect("a comparison")..];
    // Softmax and the MLP are other work: each has its own first run.
    let line =
        |run: &str| table.lines().find(|line| line.starts_with(run)).unwrap_or_else(|| panic!("{run} in {table}"));
    assert!(
        line("mlp-mirrored").ends_with("mlp-single") && line("softmax-mirrored").ends_with("softmax-single"),
        "{table}"
    );
    assert!(line("mlp-single").contains("1.00×"), "{table}");
    has(table, &["softmax-single", "softmax-mirrored", "mlp-single", "mlp-mirrored", "mlp-hybrid"]);
    assert!(line("cnn-mirrored").ends_with("cnn-single"), "{table}");
    // Which of them gained depends on the machine; each is judged.
    for run in ["softmax-mirrored", "mlp-mirrored", "mlp-hybrid", "cnn-mirrored"] {
        assert!(
            table.contains(&format!("gained: {run} trained ")) || table.contains(&format!("no gain: {run}")),
            "{run} in {table}"
        );
    }
    has(&out, &["[7/7]", "report: runs/demo/report.html", "next: paceline train --help"]);
    has(&s.read("runs/demo/report.html"), &["<svg", "mlp-hybrid", "</html>"]);
    for run in ["softmax-single", "softmax-mirrored", "mlp-single", "mlp-mirrored", "mlp-hybrid", "cnn-mirrored"] {
        assert_eq!(s.summary(&format!("runs/demo/{run}"))["status"], "done");
    }
    // A second demo leaves the first alone; the runs of the first can be compared, with its other files in the glob.
    has(&s.ok("demo --dir elsewhere"), &["report: elsewhere/demo/report.html"]);
    has(&s.ok("demo"), &["report: runs/demo-2/report.html"]);
    let again = s.ok("report runs/demo/softmax-single runs/demo/mlp-hybrid runs/demo/hybrid-plan.toml");
    has(&again, &["softmax-single", "mlp-hybrid", "report: report.html"]);
}

#[test]
fn training_with_defaults_writes_a_whole_run_directory() {
    let s = Session::new();
    let out = s.ok("train --set train.epochs=1");
    has(&out, &["mlp on fashion-sample: 7200 training and 800 validation samples", "best epoch", "test"]);
    has(&out, &["run: runs/mlp-fashion-sample-1"]);
    let run = "runs/mlp-fashion-sample-1";
    let summary = s.summary(run);
    assert_eq!((&summary["format"], &summary["status"]), (&1.into(), &"done".into()));
    assert!(summary["test_accuracy"].as_f64().unwrap() > 0.7, "{summary}");
    let config: toml::Table = s.read(&format!("{run}/run.toml")).parse().unwrap();
    assert_eq!(config["format"].as_integer(), Some(1));
    assert_eq!(config["config"]["train"]["batch"].as_integer(), Some(32));
    // What was "auto" is decided in the saved configuration.
    assert!(config["config"]["strategy"]["threads"].is_integer());
    let steps = s.read(&format!("{run}/steps.jsonl"));
    has(steps.lines().next().unwrap(), &["\"format\":1"]);
    assert_eq!(s.checkpoints(run), [225]);
    // The next run has the next number.
    has(&s.ok("train --set train.max_steps=3"), &["run: runs/mlp-fashion-sample-2"]);
}

#[test]
fn a_configuration_file_gives_way_to_set_and_flags() {
    let s = Session::new();
    s.write("my.toml", "format = 1\n[data]\nname = \"fake:4x4:3:200\"\n[train]\nepochs = 4\nbatch = 20\n");
    let line = "train my.toml --set train.epochs=2 --strategy mirrored --replicas 2 --threads 1 --run-dir r --json";
    let summary = s.json(line);
    assert_eq!((&summary["epochs_planned"], &summary["batch"]), (&2.into(), &20.into()));
    assert_eq!((&summary["strategy"], &summary["replicas"]), (&"mirrored".into(), &2.into()));
    s.write("expression.toml", "format = 1\n[train]\nbatch = \"8*workers\"\n");
    let line =
        "train expression.toml --set data.name=fake:4x4:3:200 --strategy mirrored --replicas 3 --threads 1 --json";
    assert_eq!(s.json(line)["batch"], 24);
    assert_eq!(s.ok(&format!("train {SMALL} --quiet --run-dir q")), "");
}

#[test]
fn the_summary_shows_layers_and_memory_and_trains_nothing() {
    let s = Session::new();
    let out = s.ok(&format!("train {SMALL} --summary"));
    has(&out, &["hidden1", "dense", "relu", "softmax-cross-entropy", "163 parameters", "FLOPs", "memory", "KiB"]);
    assert!(!s.path("runs").exists());
    s.write("branches.toml", include_str!("../../../../examples/two-branches.toml"));
    has(&s.ok("train --summary --threads 1 --set model.file=branches.toml"), &["add", "parameters"]);
    let summary = s.json(&format!("train {SMALL} --summary --json"));
    assert_eq!(summary["parameters"], 163);
    assert!(summary["layers"].as_array().unwrap().iter().any(|layer| layer["name"] == "hidden1"), "{summary}");
    assert!(summary["needed_bytes"].as_u64().unwrap() > summary["arena_bytes"].as_u64().unwrap());
    has(&s.fails(2, &format!("train {SMALL} --explain --json")), &["leave --json out"]);
}

#[test]
fn files_named_in_a_configuration_lie_beside_it() {
    let s = Session::new();
    s.write("there/branches.toml", include_str!("../../../../examples/two-branches.toml"));
    s.write("there/config.toml", "format = 1\n[model]\nfile = \"branches.toml\"\n");
    has(&s.ok("train there/config.toml --summary --threads 1"), &["add", "parameters"]);
    // On the command line it is the user's own folder.
    has(
        &s.fails(2, "train there/config.toml --summary --set model.file=branches.toml"),
        &["branches.toml", "no such file"],
    );
    has(&s.ok("train there/config.toml --summary --threads 1 --set model.file=there/branches.toml"), &["add"]);
}

#[test]
fn the_schedule_is_explained_in_words() {
    let s = Session::new();
    s.write("hybrid.toml", HYBRID);
    let mirrored = format!("train {SMALL} --explain --strategy mirrored --replicas 2");
    has(&s.ok(&format!("{mirrored} --set strategy.update=replicated")), &["all-reduce gradients", "forward"]);
    has(
        &s.ok(&format!("{mirrored} --set strategy.update=sharded")),
        &["reduce-scatter gradients", "all-gather parameters", "update parameters 0..96", "pass between ranks"],
    );
    let hybrid = s.ok(&format!("train {SMALL} --explain --plan hybrid.toml"));
    has(&hybrid, &["rank 1 → 0", "send logits", "hidden1 part 1", "why: 2 ranks as the plan hybrid.toml says"]);
    assert!(!hybrid.contains("reduce-scatter"), "no weight gradients travel:\n{hybrid}");
    assert!(!s.path("runs").exists());
}

#[test]
fn every_key_is_explained() {
    let s = Session::new();
    let all = s.ok("config explain");
    for section in ["data", "model", "optimizer", "schedule", "train", "strategy", "checkpoint", "record", "run"] {
        has(&all, &[&format!("[{section}]"), &format!("\n  {section}.")]);
        has(&s.ok(&format!("config explain {section}")), &[&format!("{section}.")]);
    }
    let keys = all.lines().filter_map(|l| l.strip_prefix("  ")?.split(' ').next()).filter(|w| w.contains('.'));
    for key in keys {
        has(&s.ok(&format!("config explain {key}")), &[key]);
    }
    has(&s.ok("config explain train.batch"), &["32", "32*workers", "over all workers together"]);
    has(&s.fails(2, "config explain train.bacth"), &["did you mean train.batch?"]);
}

#[test]
fn data_sets_are_listed_fetched_and_looked_into() {
    let s = Session::new();
    has(&s.ok("data list"), &["mnist", "fashion-mnist", "fashion-sample", "licence", "paceline data get mnist"]);
    let list = s.json("data list --json");
    let names: Vec<_> = list.as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert!(["mnist", "fashion-mnist", "fashion-sample"].iter().all(|n| names.contains(n)), "{names:?}");
    has(&s.ok("data info fashion-sample"), &["8000 samples", "2000 samples", "Sneaker", "[28, 28]", "MIT"]);
    assert_eq!(s.json("data info fashion-sample --json")["train"]["count"], 8000);
    assert_eq!(s.json("data info fake:3x5:4:70 --json")["shape"], serde_json::json!([3, 5]));
    s.write_idx("mine", 4, 90, 30);
    has(&s.ok("data info mine"), &["90 samples", "30 samples", "[4, 4], 3 classes"]);
    has(&s.ok("data info mine/train-images-idx3-ubyte"), &["IDX of", "[90, 4, 4]"]);
    assert_eq!(s.json("data info mine/t10k-labels-idx1-ubyte --json")["dims"], serde_json::json!([30]));
    // Trained on, without a name of its own.
    let summary =
        s.json("train --json --threads 1 --set data.name=mine --set train.epochs=40 --set optimizer.rate=0.01");
    assert!(summary["test_accuracy"].as_f64().unwrap() > 0.9, "{summary}");
    // Other people's files under a known name are refused: the digests differ.
    has(&s.fails(2, "data get mnist --from mine"), &["mine/train-images-idx3-ubyte", "SHA-256"]);
    has(&s.fails(2, "data get mnist --from nowhere"), &["nowhere"]);
    has(&s.fails(2, "train --set data.name=mnist"), &["mnist is not on this machine", "paceline data get mnist"]);
}

#[test]
fn fashion_mnist_is_taken_from_a_folder_with_its_digests_checked() {
    let s = Session::new();
    let from = "/usr/share/datasets/fashion-mnist";
    if !crate::accuracy::fashion_is_here("fashion_mnist_is_taken_from_a_folder_with_its_digests_checked") {
        return;
    }
    has(&s.ok(&format!("data get fashion-mnist --from {from}")), &["cache/data/fashion-mnist", "digests right"]);
    has(&s.ok(&format!("data get fashion-mnist --from {from}")), &["already in"]);
    has(&s.ok("data list"), &["cache/data/fashion-mnist"]);
}

#[test]
fn a_report_compares_runs_in_a_table_and_a_page() {
    let s = Session::new();
    s.train("alone", "--set train.epochs=2");
    s.train("both", "--set train.epochs=2 --strategy mirrored --replicas 2");
    let out = s.ok("report alone both --html compare.html");
    has(&out, &["alone", "both", "mirrored", "speed-up", "where the time went", "report: compare.html"]);
    let page = s.read("compare.html");
    has(&page, &["<svg", "alone", "both", "</html>"]);
    for foreign in ["src=\"http", "href=\"http", "src=\"/", "href=\"/", "@import"] {
        assert!(!page.contains(foreign), "the page stands alone, but has {foreign}");
    }
    let summaries = s.json("report alone both --json");
    assert_eq!(summaries.as_array().unwrap().len(), 2);
    assert_eq!(summaries[1]["replicas"], 2);
    // A reader that goes away early is no error.
    let closed = format!("{} report alone both | head -n 1", env!("CARGO_BIN_EXE_paceline"));
    let output = s.program("sh").args(["-c", &closed]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn every_command_has_help_with_an_example_and_a_version() {
    let s = Session::new();
    let commands =
        ["", "demo", "train", "data list", "data get", "data info", "data cache", "report", "config explain"]
            .map(String::from);
    for command in commands {
        let out = s.ok(&format!("{command} --help"));
        has(&out, &["Example", &format!("  paceline {command}"), "--log", "Usage"]);
    }
    has(&s.ok("--version"), &["paceline ", env!("CARGO_PKG_VERSION")]);
    has(&s.ok("train --version"), &[env!("CARGO_PKG_VERSION")]);
    let log = s.command(&format!("train {SMALL} --log info --quiet --run-dir logged")).output().unwrap();
    assert!(log.status.success());
}

#[test]
fn auto_copes_with_what_does_not_fit_the_machine() {
    let s = Session::new();
    let small = "--set data.name=fake:4x4:3:200 --set model.hidden=[8] --set train.max_steps=3 --strategy mirrored";
    // More threads than cores, and more replicas than cores.
    s.ok(&format!("train {small} --threads 64 --run-dir threads"));
    s.ok(&format!("train {small} --replicas 9 --run-dir replicas"));
    assert_eq!(s.summary("replicas")["replicas"], 9);
    // A batch that fits the data for few workers only: layouts with more are not tried.
    s.ok(&format!("train {small} --set train.batch=120*workers --run-dir batch"));
    assert_eq!(s.summary("batch")["replicas"], 1);
    // The batch of a resumed run is the one it had, whatever the number of workers is now.
    s.ok(&format!("train {small} --set train.batch=8*workers --replicas 2 --threads 1 --run-dir grown"));
    s.ok("train --resume grown --replicas 1 --set train.max_steps=6");
    assert_eq!(s.summary("grown")["batch"], 16);
}

#[test]
fn a_run_directory_keeps_the_files_that_its_configuration_names() {
    let s = Session::new();
    s.write("plan.toml", HYBRID);
    s.ok(&format!("train {SMALL} --plan plan.toml --set train.max_steps=4 --run-dir planned"));
    std::fs::remove_file(s.path("plan.toml")).unwrap();
    s.ok("train --resume planned --set train.max_steps=8");
    // And it goes on without its plan when another strategy is asked for.
    s.ok("train --resume planned --set train.max_steps=12 --strategy mirrored --replicas 2");
    assert_eq!(s.summary("planned")["strategy"], "mirrored");
    has(&s.ok("report ."), &["planned"]);
}

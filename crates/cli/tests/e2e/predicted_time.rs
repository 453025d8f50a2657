//! How long a step will take: `train --explain --cluster`, what a run keeps of it, and files that do not fit.

use crate::session::{SMALL, Session};

/// A machine of two cores by this name.
fn cluster(name: &str) -> String {
    format!(
        "format = 2\n[[host]]\nname = \"{name}\"\ncpu = \"made up\"\nisa = \"none\"\ncores = 2\nflops_per_core = 5e10\nflops = 1e11\n\
         memory_bytes = 16000000000\nmemory_bandwidth_per_core = 1e10\nmemory_bandwidth = 2e10\nstep_s = 0.000002\n\
         threads_exchange = [[12, 1e-6], [1e6, 2e-4]]\n[host.kernels]\n\"dense-forward 8 8 16\" = [2.0e3, 1.5e3, 1e-6, 1.1e-6, 1e-6]\n"
    )
}

fn here() -> String {
    cluster(&paceline::system::host_name())
}

#[test]
fn without_a_file_it_is_said_how_to_make_one() {
    let s = Session::new();
    let text = s.ok(&format!("train {SMALL} --explain"));
    assert!(text.contains("not predicted") && text.contains("paceline doctor"), "{text}");
    s.train("r", "--set train.epochs=1");
    assert!(s.summary("r").get("step_times").is_none());
}

#[test]
fn a_step_is_predicted_from_a_file_in_words() {
    let s = Session::new();
    s.write("c.toml", here());
    let text = s.ok(&format!("train {SMALL} --explain --cluster c.toml --strategy mirrored --replicas 2"));
    let words = ["predicted from c.toml:", "a step", "critical path of", "kernels of rank", "communication"];
    assert!(words.iter().all(|part| text.contains(part)), "{text}");
    // Planning for a machine elsewhere is what a file is for; four ranks on two cores are no secret.
    s.write("other.toml", cluster("elsewhere"));
    let text = s.ok(&format!("train {SMALL} --explain --cluster other.toml --strategy mirrored --replicas 4"));
    assert!(text.contains("take turns"), "{text}");
}

#[test]
fn a_run_keeps_what_was_predicted_and_what_it_took_and_computes_the_same() {
    let s = Session::new();
    s.write("c.toml", here());
    s.train("plain", "--set train.epochs=2");
    s.train("told", "--set train.epochs=2 --cluster c.toml");
    assert_eq!(s.newest("plain"), s.newest("told"), "the same bits");
    let times = &s.summary("told")["step_times"];
    assert_eq!(times["cluster_file"], "c.toml");
    assert!(times["predicted_s"].as_f64().unwrap() > 0.0 && times["measured_s"].as_f64().unwrap() > 0.0, "{times}");
    assert_eq!(times["steps"].as_u64(), Some(22), "all but the first two of 24: {times}");
    let splits = |key: &str| times[key].as_array().unwrap().len();
    assert_eq!((splits("predicted_split"), splits("measured_split")), (1, 1));
    let report = s.ok("report told");
    assert!(report.contains("told"), "{report}");
    // The kept result of doctor is taken where no file is given.
    let name = paceline::doctor::kept_file(&s.path("cache"));
    s.write(name.to_str().unwrap(), here());
    s.train("kept", "--set train.epochs=1");
    assert!(s.summary("kept")["step_times"]["predicted_s"].as_f64().is_some());
    let text = s.ok(&format!("train {SMALL} --explain"));
    assert!(text.contains("predicted from"), "{text}");
    // One that is damaged does not keep a run from training, and says why nothing is predicted.
    s.write(name.to_str().unwrap(), "format = 9");
    s.train("damaged", "--set train.epochs=1");
    let summary = s.summary("damaged");
    let reasons = summary["reasons"].to_string();
    assert!(summary.get("step_times").is_none() && reasons.contains("steps are not predicted"), "{reasons}");
}

#[test]
fn files_that_do_not_fit_are_named() {
    let s = Session::new();
    let refused = |content: &str, command: &str, parts: &[&str]| {
        s.write("c.toml", content);
        let message = s.fails(2, &format!("train {SMALL} {command} --cluster c.toml"));
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    refused(&cluster("elsewhere"), "", &["c.toml", "measured on elsewhere", "paceline doctor"]);
    refused(&here().replace("flops = 1e11\n", ""), "--explain", &["c.toml", "missing field `flops`"]);
    refused(&here().replace("flops = 1e11", "flops = -1e11"), "--explain", &["flops is -", "positive"]);
    refused(&here().replace("flops = 1e11", "flops = 100.0"), "", &["flops is 1e2, which cannot be"]);
    refused(&here().replace("cores = 2", "cores = 0"), "", &["cores is 0"]);
    let message = s.fails(2, &format!("train {SMALL} --explain --cluster absent.toml"));
    assert!(message.contains("absent.toml"), "{message}");
    // Three ranks of a plan on two hosts.
    let two = format!(
        "{}{}[[link]]\nhosts = [\"a\", \"b\"]\nlatency_s = 5e-5\nbandwidth = 1e8\n",
        cluster("a"),
        cluster("b").replace("format = 2\n", "")
    );
    s.write("two.toml", two);
    s.write("plan.toml", "format = 1\nranks = 3\n");
    let message = s.fails(2, &format!("train {SMALL} --explain --cluster two.toml --plan plan.toml"));
    assert!(message.contains("3 ranks cannot lie on 2 hosts"), "{message}");
    let text = s.ok(&format!("train {SMALL} --explain --cluster two.toml --strategy multi-worker-mirrored"));
    assert!(text.contains("on 2 ranks"), "{text}");
}

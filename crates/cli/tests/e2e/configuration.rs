//! Configuration files, keys and what helps to write them.

use crate::session::{SMALL, Session, failed, has};

#[test]
fn words_of_other_tools_are_answered_with_ours() {
    let s = Session::new();
    has(&s.fails(2, "train --set lr=0.1"), &["there is no key lr; it is optimizer.rate here"]);
    has(&s.fails(2, "train --epochs 3"), &["there is no flag --epochs; write --set train.epochs=…"]);
    has(&s.fails(2, "train --batch-size=64"), &["there is no flag --batch-size; write --set train.batch=…"]);
    has(&s.fails(2, "train --lr 0.1"), &["--set optimizer.rate=…"]);
    // What no key means is clap's to answer.
    let output = s.command("train --wibble 3").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    has(&String::from_utf8_lossy(&output.stderr), &["unexpected argument '--wibble'"]);
}

#[test]
fn a_file_is_checked_without_training() {
    let s = Session::new();
    s.write("good.toml", "format = 1\n[data]\nname = \"fake:4x4:3:200\"\n[strategy]\nname = \"mirrored\"\n");
    has(
        &s.ok("config check good.toml"),
        &["good.toml fits: mlp with", "180 training samples and 20 validation samples"],
    );
    assert!(!s.path("runs").exists(), "nothing is written");
    has(&s.fails(2, "config check good.toml --set train.epochs=0"), &["train.epochs = 0 is out of range"]);
    has(&s.fails(2, "config check good.toml --set data.name=nowhere"), &["nowhere"]);
    has(&s.fails(2, "config check missing.toml"), &["missing.toml"]);
    s.write("bad.toml", "format = 1\n[train]\nlearning_rate = 1\n");
    has(&s.fails(2, "config check bad.toml"), &["bad.toml, line 3", "it is optimizer.rate here"]);
    s.write("model.toml", "format = 1\n[model]\nfile = \"gone.toml\"\n[data]\nname = \"fake:4x4:3:200\"\n");
    has(&s.fails(2, "config check model.toml"), &["gone.toml"]);
}

#[test]
fn keys_are_explained_to_programs() {
    let s = Session::new();
    let keys = s.json("config explain --json");
    let batch = keys.as_array().unwrap().iter().find(|key| key["key"] == "train.batch").unwrap();
    assert_eq!(batch["default"], 32);
    assert_eq!(s.json("config explain optimizer --json").as_array().unwrap()[0]["section"], "optimizer");
    has(&s.fails(2, "config explain trian --json"), &["did you mean train"]);
}

#[test]
fn shells_can_complete_commands() {
    let s = Session::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        has(&s.ok(&format!("completions {shell}")), &["paceline", "train", "resume"]);
    }
    // What bash makes of it.
    let script = "source /dev/stdin <<< \"$(\"$PACELINE\" completions bash)\" && complete -p paceline";
    let output =
        s.program("bash").args(["-c", script]).env("PACELINE", env!("CARGO_BIN_EXE_paceline")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    has(&String::from_utf8_lossy(&output.stdout), &["_paceline", "paceline"]);
}

#[test]
fn paths_in_a_file_start_from_the_file() {
    let s = Session::new();
    s.write_idx("study/digits", 4, 60, 12);
    s.write(
        "study/run.cfg.toml",
        "format = 1\n[data]\nname = \"digits\"\n[strategy]\nthreads = 1\n[train]\nepochs = 1\n",
    );
    s.ok("train study/run.cfg.toml --run-dir one");
    // What is typed starts from where it is typed.
    s.ok("train study/run.cfg.toml --set data.name=study/digits --run-dir two");
    has(&s.fails(2, "train study/run.cfg.toml --set data.name=digits --run-dir three"), &["digits"]);
    // Names are no paths.
    s.write("study/named.toml", "format = 1\n[data]\nname = \"fake:4x4:3:200\"\n[train]\nmax_steps = 1\n");
    s.ok("train study/named.toml --run-dir four");
}

#[test]
fn a_run_goes_on_from_any_folder() {
    let s = Session::new();
    s.write_idx("digits", 4, 60, 12);
    s.ok("train --set data.name=digits --set train.batch=16 --set train.epochs=3 --set train.max_steps=5 --run-dir r");
    s.write("elsewhere/note.txt", "");
    let line = "train --resume ../r --set train.max_steps=0 --quiet";
    let output = s.command(line).current_dir(s.path("elsewhere")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(s.summary("r")["status"], "done");
    // Repeated from there too.
    let output = s.command("train ../r/run.toml --quiet").current_dir(s.path("elsewhere")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(s.path("elsewhere/runs").exists());
}

#[test]
fn paths_that_are_no_text_are_not_our_fault() {
    use std::os::unix::ffi::OsStrExt;
    let s = Session::new();
    let odd = std::ffi::OsStr::from_bytes(b"r\xff");
    let output = s.command(&format!("train {SMALL} --set train.epochs=1 --run-dir")).arg(odd).output().unwrap();
    has(&failed(2, "", &output), &["not UTF-8", "--run-dir"]);
    let output = s.command("prepare").arg(odd).arg("shards").output().unwrap();
    has(&failed(2, "", &output), &["not UTF-8", "rename the folder"]);
    let output = s.command("train").arg(odd).output().unwrap();
    has(&failed(2, "", &output), &["cannot read the configuration"]);
    let output = s.command("train --resume").arg(odd).output().unwrap();
    has(&failed(2, "", &output), &["there is no run"]);
}

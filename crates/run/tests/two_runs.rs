//! Two runs in one process, one after the other and side by side: each is what it would be alone.

use paceline_config::Config;
use paceline_run::{Place, Silent, train};
use std::path::{Path, PathBuf};

/// Trains two replicas for a few steps, and gives the bytes of the parameters at the end.
fn weights(folder: &Path, name: &str, seed: u64) -> Vec<u8> {
    let dir = folder.join(name);
    let sets = [
        "data.name=fake:8x8:4:512".to_string(),
        "model.hidden=[32]".into(),
        "train.epochs=2".into(),
        "train.batch=64".into(),
        format!("train.seed={seed}"),
        "strategy.name=mirrored".into(),
        "strategy.replicas=2".into(),
        "strategy.threads=1".into(),
        "strategy.update=sharded".into(),
    ];
    let config = Config::from_parts(None, &sets).unwrap();
    let finished = train(&config, &Place::New(dir), &Silent, &false.into()).unwrap();
    let newest: PathBuf = finished.checkpoints.unwrap().join("step-16/model.safetensors");
    std::fs::read(&newest).unwrap()
}

#[test]
fn runs_of_one_process_do_not_touch_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let alone = [1, 2].map(|seed| weights(folder, &format!("alone-{seed}"), seed));
    assert_ne!(alone[0], alone[1], "the seed decides");
    std::thread::scope(|scope| {
        let both = [1, 2].map(|seed| scope.spawn(move || weights(folder, &format!("beside-{seed}"), seed)));
        for (seed, (run, alone)) in both.into_iter().zip(&alone).enumerate() {
            assert!(run.join().unwrap() == *alone, "run {seed} beside another one has other parameters");
        }
    });
}

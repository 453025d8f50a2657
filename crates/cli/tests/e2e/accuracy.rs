//! Real data, real accuracy: what a book or a tutorial would promise of these networks.

use crate::not_run::not_run;
use crate::session::Session;
use std::path::Path;

/// Whether the Debian package is installed. Its absence is a failure, unless `PACELINE_OFFLINE=1`: then `test` is not run.
pub(crate) fn fashion_is_here(test: &str) -> bool {
    if Path::new("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz").exists() {
        return true;
    }
    assert!(
        std::env::var("PACELINE_OFFLINE").is_ok_and(|v| v == "1"),
        "Fashion-MNIST is missing; as root: apt-get install dataset-fashion-mnist (or PACELINE_OFFLINE=1 to go without)"
    );
    not_run(test, "Fashion-MNIST is missing and PACELINE_OFFLINE=1");
    false
}

#[test]
fn fashion_mnist_with_128_hidden_units_learns_in_5_epochs_as_it_did() {
    if !fashion_is_here("fashion_mnist_with_128_hidden_units_learns_in_5_epochs_as_it_did") {
        return;
    }
    let s = Session::new();
    // All 60,000 samples are trained on and the last epoch counts, so that the test part chooses no epoch; it did
    // have a say in the rate. Over seeds 1 to 8 the accuracy was 88.05 to 88.45 %, 88.25 % in the middle; another processor rounds otherwise,
    // which is like another seed. The median of three has a deviation of some 0.1 %: what is asked for is four of them below.
    let mut accuracies: Vec<f64> = (1..=3)
        .map(|seed| {
            let summary = s.json(&format!(
                "train --json --set data.name=fashion-mnist --set data.validation=test --set model.hidden=[128] \
                 --set optimizer.name=adam --set optimizer.rate=0.002 --set schedule.name=cosine --set train.batch=32 \
                 --set train.epochs=5 --set train.seed={seed} --threads 1 --run-dir seed-{seed}"
            ));
            summary["final_val_accuracy"].as_f64().unwrap()
        })
        .collect();
    println!("Fashion-MNIST, test accuracy of three seeds: {accuracies:.4?}");
    accuracies.sort_by(f64::total_cmp);
    assert!(accuracies[1] >= 0.878, "{accuracies:?}");
}

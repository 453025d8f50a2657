//! A test that cannot run here says so where people and `./test` see it. Cargo knows only passed, failed and ignored, and hides
//! what a passing test prints: so this goes past it, to standard error itself, and `./test` counts the lines apart.
//!
//! Used by `#[path = "../../../tests/not_run.rs"] mod not_run;`.

use std::io::Write;

/// Says that the test `name` does nothing on this machine, and why; the test then returns.
pub(crate) fn not_run(name: &str, why: &str) {
    // One write, and a line of its own: other tests print meanwhile.
    let _ = std::io::stderr().write_all(format!("\nNOT RUN: {name}: {why}\n").as_bytes());
}

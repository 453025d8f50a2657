//! `paceline demo`

use crate::flags::Demo;
use crate::screen::{self, Screen};
use paceline::Result;

/// Runs the command.
pub fn run(flags: &Demo) -> Result<()> {
    let stop = super::stop_on_signal();
    let screen = Screen::new(false);
    println!("Paceline trains Fashion-MNIST under several strategies and compares them.");
    let mut announce = |step: paceline::DemoStep<'_>| println!("\n[{}/{}] {}", step.number, step.of, step.what);
    let (runs, report, why) = paceline::demo(&flags.dir, &mut announce, &screen, &stop)?;
    let data: Vec<_> = runs.iter().map(|r| paceline::record::read_run(&r.dir)).collect::<Result<_>>()?;
    println!();
    screen::print(&paceline::report::comparison_table(&paceline::report::compare(&data), screen::style()));
    println!("\n{why}");
    println!("report: {}   (open it in a browser)", report.display());
    println!("next: paceline train --help");
    Ok(())
}

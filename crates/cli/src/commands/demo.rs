//! `paceline demo`

use crate::flags::Demo;
use crate::screen::{self, Screen, say};
use paceline::Result;

/// Runs the command.
pub fn run(flags: &Demo) -> Result<()> {
    let stop = crate::signals::stop_on_signal("stopping after this step, with a checkpoint");
    let screen = Screen::new(false).beginning(stop.begun());
    say!("Paceline trains Fashion-MNIST under several strategies and compares them.");
    let mut announce = |step: paceline::DemoStep<'_>| say!("\n[{}/{}] {}", step.number, step.of, step.what);
    let (runs, report, why) = paceline::demo(&flags.dir, &mut announce, &screen, &stop)?;
    let data: Vec<_> = runs.iter().map(|r| paceline::record::read_run(&r.dir)).collect::<Result<_>>()?;
    say!("");
    screen::print_table(&paceline::report::comparison_table(&paceline::report::compare(&data), screen::style()));
    say!("\n{why}");
    say!("report: {}   (open it in a browser)", report.display());
    say!("next: paceline train --help");
    Ok(())
}

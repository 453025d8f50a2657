//! `paceline demo`

use crate::flags::Demo;
use crate::screen::{self, Screen, say};
use paceline::Result;
use paceline::report::Row;

/// Runs the command.
pub(crate) fn run(flags: &Demo) -> Result<()> {
    let stop = crate::signals::stop_on_signal("stopping after this step, with a checkpoint");
    let screen = Screen::new(false).beginning(stop.begun());
    say!("Paceline trains Fashion-MNIST under several strategies and compares them.");
    let mut announce = |step: paceline::DemoStep<'_>| say!("\n[{}/{}] {}", step.number, step.of, step.what);
    let (runs, report, why) = paceline::demo(&flags.dir, &mut announce, &screen, &stop)?;
    let data: Vec<_> = runs.iter().map(|r| paceline::record::read_run(&r.dir)).collect::<Result<_>>()?;
    say!("");
    let comparison = paceline::report::compare(&data);
    screen::print_table(&paceline::report::comparison_table(&comparison, screen::style()));
    say!("\n{why}");
    gains(&comparison.rows).iter().for_each(|line| say!("{line}"));
    say!("report: {}   (open it in a browser)", report.display());
    say!("next: paceline train --help");
    Ok(())
}

/// Below this a parallel run was not worth its cores.
const GAIN: f64 = 1.15;

/// What spreading the work brought, the largest gain first, and where it did not.
fn gains(rows: &[Row]) -> Vec<String> {
    let mut pairs: Vec<(f64, &Row, &Row)> = rows
        .iter()
        .filter_map(|row| {
            let first = rows.get(row.baseline?)?;
            Some((row.speed_up?, row, first))
        })
        .filter(|(_, row, first)| row.name != first.name)
        .collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words = |(ratio, row, first): &(f64, &Row, &Row)| match *ratio >= GAIN {
        _ if row.replicas <= 1 => {
            format!("no gain: {}: a short trial found one replica to be the fastest, and took it", row.name)
        }
        true => {
            let cores = match (first.cores, row.cores) {
                (before, now) if before == now => "on the same cores".to_string(),
                (before, now) => format!("on {now} cores instead of {before}"),
            };
            format!("gained: {} trained {ratio:.1}× as fast as {}, {cores}", row.name, first.name)
        }
        false => format!(
            "no gain: {} ({ratio:.1}× of {}): so small a network waits more than it computes; larger ones pay",
            row.name, first.name
        ),
    };
    pairs.iter().map(words).collect()
}

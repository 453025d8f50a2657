//! Progress bars on standard error: one look for all commands, one line at any width, and no time left that nobody can know.

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use paceline::base::layout::figures;
use paceline::text;
use std::fmt::Write;

/// After the bar: how much of the whole is done.
pub(crate) const PERCENT: &str = "{percent:>3}%";
/// After the bar: how many are done, of how many.
pub(crate) const COUNT: &str = "{pos}/{len}";

/// What bar, share and time left take beside the message.
const BESIDE: usize = 28;

/// A bar with a message before it, then what `share` says and the time left.
pub(crate) fn new(total: u64, share: &str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template(&format!("{{msg}} {{wide_bar}} {share}{{left}}")) {
        bar.set_style(style.with_key("left", |state: &ProgressState, out: &mut dyn Write| {
            let seconds = state.eta().as_secs_f64();
            if state.per_sec() > 0.0 && text::time_left(seconds).is_some() {
                let _ = write!(out, " {:#} left", HumanDuration(state.eta())); // to a string
            }
        }));
    }
    bar
}

/// The figures of a message that leave room for the bar; the lowest numbers are the most important ones.
pub(crate) fn message(all: &[(u8, &str)]) -> String {
    let terminal = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
    let width = terminal.or_else(super::known_width); // under `launch`, which draws the bar
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(BESIDE));
    text::visible(&figures(all, room).join("  ")).into_owned()
}

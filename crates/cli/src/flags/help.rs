//! `--help` as wide as the terminal: what stands below the options is written once, and laid out here.

use clap::Command;
use paceline::base::layout::{columns, hanging, wrap};

/// The command and all below it, for so many columns.
pub(crate) fn fitted(command: Command, width: usize) -> Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(fit(&text, width)),
        None => command,
    };
    command.term_width(width).mut_subcommands(|sub| fitted(sub, width))
}

/// Examples keep their lines: what they do moves below them where one has no room, and a command that is too long goes on in the next line
/// as a shell takes it. All else is running text.
fn fit(text: &str, width: usize) -> String {
    let is_example = |line: &&str| line.starts_with("  ");
    let beside = text.lines().filter(is_example).all(|line| columns(line) <= width);
    let mut out = String::new();
    let mut prose = String::new();
    for line in text.lines().chain([""]) {
        if !line.is_empty() && !is_example(&line) {
            prose = format!("{prose} {line}");
            continue;
        }
        if !prose.is_empty() {
            out += &(wrap(&std::mem::take(&mut prose), width).join("\n") + "\n");
        }
        let (command, what) = line.trim_start().split_once("  ").unwrap_or((line.trim_start(), ""));
        if line.is_empty() || beside {
            out += &format!("{line}\n");
        } else {
            // A column is left for the `\`.
            let lines = hanging("  ", command, width.saturating_sub(2));
            out += &lines.trim_end().replace("\n", " \\\n    ");
            out.push('\n');
            if !what.is_empty() {
                out += &hanging("      ", what.trim(), width);
            }
        }
    }
    out.trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Cli;
    use clap::CommandFactory;

    #[test]
    fn examples_and_words_fit() {
        let text = "Examples:\n  paceline a --flag x    does one thing\n  paceline b\n\nSome words\nthat follow.";
        assert_eq!(
            fit(text, 60),
            "Examples:\n  paceline a --flag x    does one thing\n  paceline b\n\nSome words that follow."
        );
        assert_eq!(
            fit(text, 20),
            "Examples:\n  paceline a \\\n      --flag x\n      does one thing\n  paceline b\n\nSome words that\nfollow."
        );
    }

    #[test]
    fn every_page_of_help_fits() {
        fn check(command: &mut Command, width: usize) {
            for (i, line) in command.render_long_help().to_string().lines().enumerate() {
                assert!(columns(line) <= width, "{} --help, line {i}, at {width}: {line}", command.get_name());
            }
            let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_string()).collect();
            for name in names.iter().filter(|name| *name != "help") {
                check(command.find_subcommand_mut(name).expect("it has that name"), width);
            }
        }
        for width in [60, 80, 100] {
            let mut command = fitted(Cli::command(), width);
            command.build();
            check(&mut command, width);
        }
    }

    #[test]
    fn examples_stand_beside_what_they_do_at_80_columns_or_have_it_below() {
        fn texts(command: &Command) -> Vec<String> {
            let below = command.get_subcommands().flat_map(texts);
            command.get_after_help().map(ToString::to_string).into_iter().chain(below).collect()
        }
        for text in texts(&Cli::command()) {
            let commands = text.lines().filter(|line| line.starts_with("  paceline"));
            for line in commands.map(|line| line.trim_start().split("  ").next().unwrap_or("")) {
                assert!(columns(line) + 2 <= 80, "break it, or leave a flag out: {line}");
            }
        }
    }
}

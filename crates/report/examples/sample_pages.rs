//! Writes sample pages into a folder, to look at them: `cargo run -p paceline-report --example sample_pages -- FOLDER`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use paceline_report::{Style, closing_table, compare, comparison_table, digest, write_html};

fn main() -> paceline_base::Result<()> {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).expect("give a folder"));
    let runs = tempfile::tempdir().expect("a temporary folder");
    let (four, ten) = (runs.path().join("four"), runs.path().join("ten"));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let four = sample::four(&four);
    write_html(&folder.join("one.html"), &four[3..])?;
    write_html(&folder.join("four.html"), &four)?;
    write_html(&folder.join("ten.html"), &sample::ten(&ten))?;
    println!("{}", comparison_table(&compare(&four), Style::default()));
    println!("{}", closing_table(&digest(&four[3]), Some("runs/async-x4/checkpoints".as_ref()), Style::default()));
    Ok(())
}

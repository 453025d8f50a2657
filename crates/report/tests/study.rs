//! Speed studies: made-up measurements whose answers are known, in words, tables, CSV and on the page.

#[path = "sample/check.rs"]
mod check;
#[path = "sample/study.rs"]
mod sample;

use paceline_record::{Form, PageCache, Study, Summary, Variant};
use paceline_report::study::{Parameter, csv, series, tables, words};
use paceline_report::{Level, Style, Topic, Verdict, study_html};
use sample::Made;

fn titles(studies: &[Study], topic: Topic) -> Vec<String> {
    let found = words(studies, &series(studies));
    found.into_iter().filter(|verdict| verdict.topic == topic).map(|verdict| verdict.title).collect()
}

fn about<'a>(all: &'a [Verdict], word: &str) -> &'a Verdict {
    all.iter()
        .find(|verdict| verdict.title.contains(word))
        .unwrap_or_else(|| panic!("{word:?} is not in\n{}", all.iter().map(|v| format!("{v}\n")).collect::<String>()))
}

#[test]
fn known_answers_are_found() {
    let study = Made { records_gain: 9.0, saturates_at: 24, cold: 3.1, noise: 0.03, ..Made::default() }.study("local");
    let studies = [study];
    let all = words(&studies, &series(&studies));
    let forms = about(&all, "records are read");
    let value: f64 = forms.title.split([' ', '×']).find_map(|word| word.parse().ok()).unwrap();
    assert!((8.7..9.3).contains(&value), "{forms}");
    assert!(forms.advice.contains("smaller images"), "{forms}");
    assert!(about(&all, "throughput of photos saturates").title.contains("batch size 24"));
    assert!(about(&all, "throughput of shards saturates").reason.contains("not linear"));
    let cold = about(&all, "cold reading of photos");
    assert!(cold.title.contains("3.1×") || cold.title.contains("3.0×") || cold.title.contains("3.2×"), "{cold}");
    about(&all, "number of batches and repetition make no difference for photos beyond the noise");
    about(&all, "number of batches and repetition make no difference for shards beyond the noise");
    let noise = all.iter().find(|verdict| verdict.topic == Topic::Noise).unwrap();
    assert!(["noise 2 %", "noise 3 %", "noise 4 %"].contains(&noise.title.as_str()), "{noise}");
    assert_eq!(titles(&studies, Topic::Drift), Vec::<String>::new());
}

#[test]
fn variants_are_told_apart() {
    let nothing = Made { caching: 1.0, partitioning: 2.0, both: 6.0, ..Made::default() }.study("a");
    assert!(titles(&[nothing], Topic::Variants)[0].contains("caching alone gains nothing without partitioning"));
    let gain = Made { caching: 5.0, partitioning: 1.0, both: 5.0, ..Made::default() }.study("a");
    let title = &titles(&[gain], Topic::Variants)[0];
    assert!(title.contains("partitioning alone gains nothing") && title.contains("caching alone makes it"), "{title}");
    let loss = Made { caching: 1.0, partitioning: 0.5, both: 0.5, ..Made::default() }.study("a");
    let title = &titles(&[loss], Topic::Variants)[0];
    assert!(title.contains("partitioning alone makes it 1.98× slower"), "{title}");
}

/// Before, the table divided means, in which fast cells outweigh others, and the words took the mean of ratios: 123× and 114×.
#[test]
fn a_gain_is_one_figure_wherever_it_stands() {
    let mut study = Made { both: 100.0, noise: 0.02, ..Made::default() }.study("local");
    for m in study.measurements.iter_mut().filter(|m| m.cell.variant() == Variant::Both && m.cell.batch < 10) {
        m.seconds *= 5.0; // the gain differs from cell to cell
    }
    let studies = [study];
    let all = series(&studies);
    let title = &titles(&studies, Topic::Variants)[0];
    let said = title.split("both makes it ").nth(1).unwrap().split(' ').next().unwrap();
    let text = tables(&all, Style { bold: false, width: 200 });
    let conditions = text.split("conditions, on").nth(1).unwrap();
    let row = |line: &&str| line.contains("photos") && line.contains("warm") && line.contains("both");
    let row = conditions.lines().find(row).unwrap();
    assert!(row.split_whitespace().any(|word| word == said), "{said} is not in\n{row}\n{title}");
    assert!(study_html(&studies).contains(&format!("<span class=\"x\">{said}</span>")), "{said}");
    // The words are what they were: cell by cell.
    let both = all[0].conditions.iter().find(|c| c.condition.variant == Variant::Both).unwrap();
    let neither = all[0].conditions.iter().find(|c| c.condition.variant == Variant::Neither).unwrap();
    assert!((both.images_per_s / neither.images_per_s / both.against_neither.unwrap() - 1.0).abs() > 0.03);
}

#[test]
fn reasons_are_sentences() {
    let study = Made { cold: 3.0, ..Made::default() }.study("local");
    let studies = [study];
    let all = words(&studies, &series(&studies));
    assert!(about(&all, "cold reading of photos").reason.starts_with("measured with partitioning; 95 % confidence"));
    assert!(!study_html(&studies).contains("Partitioning;"));
}

#[test]
fn what_was_to_be_cold_and_was_not_counts_for_nothing() {
    let mut study = Made { cold: 3.0, ..Made::default() }.study("local");
    let cold = |m: &&mut paceline_record::Measurement| m.cell.page_cache == PageCache::Cold;
    for m in study.measurements.iter_mut().filter(cold) {
        m.not_cold = Some("it was in memory".into());
    }
    let studies = [study];
    let all = series(&studies);
    assert!(all.iter().all(|s| s.measurements.iter().all(|m| m.cell.page_cache == PageCache::Warm)));
    assert!(!words(&studies, &all).iter().any(|verdict| verdict.topic == Topic::PageCache));
}

#[test]
fn what_is_within_the_noise_is_not_called_a_difference() {
    for seed in 1..8 {
        let same = Made { records_gain: 1.0, saturates_at: 0, cold: 1.0, noise: 0.2, seed, ..Made::default() };
        let studies = [same.study("noisy")];
        let all = words(&studies, &series(&studies));
        let none = "batch size, number of batches, data-set size and repetition make no difference for photos beyond the noise";
        about(&all, none);
        let noise = all.iter().find(|verdict| verdict.topic == Topic::Noise).unwrap();
        let size: f64 = noise.title.split(' ').find_map(|word| word.parse().ok()).unwrap();
        assert!((17.0..24.0).contains(&size) && noise.level == Level::Warning, "seed {seed}: {noise}");
    }
    // At 95 % confidence one comparison in twenty may be wrong; of these few none is.
    let studies =
        [Made { records_gain: 1.0, saturates_at: 0, cold: 1.0, noise: 0.1, ..Made::default() }.study("noisy")];
    let all = words(&studies, &series(&studies));
    about(&all, "files and records are equally fast within the noise");
    about(&all, "cold reading of photos is as fast as warm within the noise");
}

#[test]
fn one_measurement_of_each_promises_nothing() {
    let made = Made { batches: vec![4], batch: vec![8], repetitions: 1, ..Made::default() };
    let studies = [made.study("once")];
    let all = words(&studies, &series(&studies));
    assert_eq!(all.iter().map(|v| v.topic).collect::<Vec<_>>(), [Topic::Noise]);
    assert!(about(&all, "the noise is not known").advice.contains("3 repetitions"));
    assert!(tables(&series(&studies), Style::default()).contains("photos"));
}

#[test]
fn a_drift_is_told() {
    let studies = [Made { drift: -0.3, noise: 0.01, ..Made::default() }.study("hot")];
    let title = &titles(&studies, Topic::Drift)[0];
    assert!(title.contains("slower during the study"), "{title}");
}

#[test]
fn two_engines_are_overlaid_and_compared() {
    let local = Made::default().study("local");
    let spark = Made { engine: "spark", base: 300.0, ..Made::default() }.study("cluster");
    let both = [local, spark];
    let series = series(&both);
    assert_eq!(
        series.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["photos, local", "shards, local", "photos, spark", "shards, spark"]
    );
    let all = words(&both, &series);
    assert!(about(&all, "photos, spark is read 3.0× as fast as photos, local").topic == Topic::Engines);
    let twice = [Made::default().study("monday"), Made::default().study("tuesday")];
    let names: Vec<String> = paceline_report::study::series(&twice).into_iter().map(|s| s.name).collect();
    assert_eq!(names[0], "photos, local, monday");
}

#[test]
fn what_was_not_measured_is_said() {
    let mut study = Made::default().study("tmpfs");
    let warning = "cold: the page cache of photos cannot be dropped".to_string();
    study.summary = Some(Summary { warnings: vec![warning.clone()], ..Summary::default() });
    let all = words(std::slice::from_ref(&study), &series(std::slice::from_ref(&study)));
    assert_eq!(about(&all, "not as asked").reason, warning);
}

#[test]
fn effects_are_taken_from_the_grid_alone() {
    let studies = [Made::default().study("local")];
    let photos = &series(&studies)[0];
    assert_eq!(
        (photos.form, photos.grid.page_cache, photos.grid.variant),
        (Form::Files, PageCache::Warm, Variant::Partitioning)
    );
    let sizes = photos.effect(Parameter::DataSize).unwrap();
    assert_eq!(sizes.levels.iter().map(|level| level.count).sum::<usize>(), 8 * 3 * 3);
    assert_eq!(photos.conditions.len(), 8);
    // All conditions are compared on the same cells.
    assert!(photos.conditions.iter().all(|c| c.count == photos.conditions[0].count));
}

#[test]
fn tables_hold_means_and_fits() {
    let studies = [Made { noise: 0.0, saturates_at: 0, ..Made::default() }.study("local")];
    let text = tables(&series(&studies), Style { bold: false, width: 120 });
    for word in
        ["mean images/s by batch size", "fits of images/s", "R² quadratic", "against neither", "partitioning", "cold"]
    {
        assert!(text.contains(word), "{word}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert_eq!(tables(&[], Style::default()), "nothing was measured\n");
}

/// Reads a line of CSV, quotes included.
fn fields(line: &str) -> Vec<String> {
    let (mut out, mut quoted, mut field) = (Vec::new(), false, String::new());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.push(chars.next().unwrap()),
            '"' => quoted = !quoted,
            ',' if !quoted => out.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    out.push(field);
    out
}

#[test]
fn csv_comes_back() {
    let mut study = Made { batches: vec![4], ..Made::default() }.study("local");
    study.measurements.iter_mut().for_each(|m| m.cell.source = format!("{}, \"mine\"", m.cell.source));
    let text = csv(&study.measurements);
    let mut lines = text.lines();
    let titles = fields(lines.next().unwrap());
    let rows: Vec<Vec<String>> = lines.map(fields).collect();
    assert_eq!(rows.len(), study.measurements.len());
    for (row, m) in rows.iter().zip(&study.measurements) {
        assert_eq!(row.len(), titles.len());
        let get = |title: &str| row[titles.iter().position(|t| t == title).unwrap()].as_str();
        assert_eq!(get("source"), m.cell.source);
        assert_eq!(get("form"), m.cell.form.name());
        assert_eq!(get("variant"), m.cell.variant().name());
        assert_eq!(get("page_cache"), m.cell.page_cache.name());
        let number = |title: &str| get(title).parse::<f64>().unwrap();
        assert_eq!(number("order") as u64, m.cell.id);
        assert_eq!((number("batch_size") * number("batch_number")) as usize, m.cell.images());
        assert_eq!(number("data_size") as usize, m.cell.images());
        assert_eq!(number("repetition") as usize, m.cell.repetition);
        assert_eq!(number("bytes") as u64, m.bytes);
        assert_eq!(number("seconds"), m.seconds);
        assert!((number("images_per_s") - m.images_per_s()).abs() < 0.001);
    }
}

#[test]
fn pages_of_one_study_two_and_none() {
    let local = Made::default().study("local");
    let spark = Made { engine: "spark", base: 260.0, ..Made::default() }.study("cluster");
    let page = study_html(std::slice::from_ref(&local));
    check::check(&page);
    for word in
        ["<h1>local</h1>", "by batch size", "by number of batches", "by data-set size", "by repetition", "In words"]
    {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(page.matches("<figure").count(), 5);
    assert!(page.matches("class=\"cloud").count() == 10 && page.contains("curve run-1 r1 dotted"));
    let both = study_html(&[local, spark]);
    check::check(&both);
    assert!(both.contains("photos, spark") && both.contains("curve run-3 r3"));
    let empty = study_html(&[Study::default()]);
    check::check(&empty);
    assert!(empty.contains("nothing was measured"));
    let once =
        Made { batches: vec![4], batch: vec![8], repetitions: 1, ..Made::default() }.study("<script>alert(1)</script>");
    let page = study_html(&[once]);
    check::check(&page);
    assert!(!page.contains("<script>alert"));
}

#[test]
fn studies_of_different_work_are_told_apart_and_not_compared() {
    let decoded = Made::default().study("first");
    let mut plain = Made { base: 2000.0, ..Made::default() }.study("second");
    plain.measurements.iter_mut().for_each(|m| m.cell.decode = false);
    let studies = [decoded, plain];
    let series = series(&studies);
    assert!(series[0].name.contains("decoded to") && series[2].name.contains("not decoded"), "{}", series[2].name);
    let said: Vec<String> = words(&studies, &series).iter().map(ToString::to_string).collect();
    assert!(!said.iter().any(|w| w.contains("first") || w.contains("20×")), "{said:?}");
    // Also where the sources are others: they stand in one table, and decoding is most of the work.
    let (mut decoded, mut plain) = (Made::default().study("first"), Made::default().study("second"));
    decoded.measurements.retain(|m| m.cell.form == Form::Files);
    plain.measurements.retain(|m| m.cell.form == Form::Records);
    plain.measurements.iter_mut().for_each(|m| m.cell.decode = false);
    let names: Vec<String> =
        paceline_report::study::series(&[decoded.clone(), plain]).into_iter().map(|s| s.name).collect();
    assert!(names[0].contains("decoded to") && names[1].contains("not decoded"), "{names:?}");
    assert!(!paceline_report::study::series(&[decoded])[0].name.contains("decoded"), "there is nothing to tell apart");
}

#[test]
fn conditions_without_a_common_cell_are_not_set_side_by_side() {
    let mut study = Made::default().study("stopped");
    // What a study that is stopped early may have: each condition at a batch size of its own.
    study.measurements.retain(|m| (m.cell.batch == 4) == (m.cell.variant() == Variant::Partitioning));
    assert!(series(std::slice::from_ref(&study)).iter().all(|s| s.conditions.is_empty()));
}

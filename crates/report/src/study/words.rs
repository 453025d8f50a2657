//! What a study says in plain words, each sentence with its figures.
//!
//! A difference is stated only if its 95 % confidence interval leaves no doubt that there is one; otherwise the words say
//! that it is within the noise.

use paceline_record::{Form, PageCache, Study, Variant};

use super::analysis::{Condition, Parameter, Series, blocks};
use super::stats::{self, Ratio};
use crate::format;
use crate::verdict::{Level, Topic, Verdict, time};

/// From this share of the best throughput on, more of a parameter is taken to bring no more.
const SATURATED: f64 = 0.95;
/// Noise up to this is good.
const QUIET: f64 = 0.05;
/// Noise from this on is a warning.
const NOISY: f64 = 0.15;
/// An interval that ends below this leaves no room for a gain worth having.
const NOTHING: f64 = 1.15;
/// A parabola must explain so much more of the variance than a line before the response is called curved.
const CURVED: f64 = 0.05;

/// What to do about wide intervals.
const MORE: &str = "more repetitions would show smaller differences";

/// All that the studies say: about each, then about what differs between them.
pub fn words(studies: &[Study], series: &[Series]) -> Vec<Verdict> {
    let mut all = Vec::new();
    for (number, study) in studies.iter().enumerate() {
        let of: Vec<&Series> = series.iter().filter(|s| s.study == number).collect();
        for files in of.iter().filter(|s| s.form == Form::Files) {
            for records in of.iter().filter(|s| s.form == Form::Records) {
                all.extend(forms(files, records));
            }
        }
        for s in &of {
            all.extend(effects(s));
            all.extend(page_cache(s));
            all.extend(variants(s));
        }
        all.extend(noise(&of));
        all.extend(drift(&of));
        all.extend(study.summary.iter().flat_map(|s| time::shortage(&[], &s.cpu)));
        let warnings = study.summary.iter().flat_map(|s| &s.warnings);
        all.extend(
            warnings
                .map(|warning| Verdict::new(Topic::NotMeasured, Level::Warning, "not as asked", warning.clone(), "")),
        );
    }
    // What differs between studies is what one compares them for: first.
    let mut between = Vec::new();
    for (i, a) in series.iter().enumerate() {
        let others = series[i + 1..].iter().filter(|b| b.study != a.study || b.engine != a.engine);
        // Reading alone and reading with decoding are different work: the names say which is which.
        for b in others.filter(|b| b.form == a.form && b.reading() == a.reading()) {
            between.extend(engines(a, b));
        }
    }
    between.extend(all);
    between
}

/// `9.1×`, `12×`.
pub(crate) fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 9.95 => format!("{r:.0}×"),
        r if r >= 1.995 => format!("{r:.1}×"),
        r => format!("{r:.2}×"),
    }
}

fn interval(ratio: &Ratio) -> String {
    let cells = if ratio.blocks == 1 { "1 cell".into() } else { format!("{} matched cells", ratio.blocks) };
    format!("95 % confidence {} to {}, {cells}", times(ratio.low), times(ratio.high))
}

/// Files against records: under the grid's condition if both have it.
pub(super) fn forms(files: &Series, records: &Series) -> Option<Verdict> {
    let condition = files.grid;
    let ratio = stats::ratio(&blocks(records.under(condition), files.under(condition)))?;
    let figures = format!(
        "{} images/s from {} and {} from {} ({}; {})",
        format::rate(mean_under(records, condition)),
        records.name,
        format::rate(mean_under(files, condition)),
        files.name,
        condition.name(),
        interval(&ratio)
    );
    if !ratio.clear() {
        return Some(Verdict::new(
            Topic::Form,
            Level::Note,
            "files and records are equally fast within the noise",
            figures,
            MORE,
        ));
    }
    let (fast, slow, value) =
        if ratio.value > 1.0 { ("records", "files", ratio.value) } else { ("files", "records", 1.0 / ratio.value) };
    let (large, small) = (files.bytes_per_image, records.bytes_per_image);
    let advice = if large > 1.5 * small && ratio.value > 1.0 {
        format!(
            "a file holds {} an image and a record {}, so that part of it is smaller images, not the format",
            paceline_base::text::bytes(large as u64),
            paceline_base::text::bytes(small as u64)
        )
    } else {
        String::new()
    };
    Some(Verdict::new(
        Topic::Form,
        Level::Note,
        format!("{fast} are read {} as fast as {slow}", times(value)),
        figures,
        advice,
    ))
}

fn mean_under(series: &Series, condition: Condition) -> f64 {
    stats::mean(&series.under(condition).map(|m| m.images_per_s()).collect::<Vec<_>>())
}

/// What each parameter does to throughput; those that do nothing that can be told from noise in one sentence.
pub(super) fn effects(series: &Series) -> Vec<Verdict> {
    let mut all = Vec::new();
    let (mut without, mut means) = (Vec::new(), Vec::new());
    for parameter in Parameter::ALL {
        match effect(series, parameter) {
            Some(Ok(verdict)) => all.push(verdict),
            Some(Err(mean)) => {
                without.push(parameter.name().to_string());
                means.push(mean);
            }
            None => {}
        }
    }
    if !without.is_empty() {
        let makes = if without.len() == 1 { "makes" } else { "make" };
        let title = format!("{} {makes} no difference for {} beyond the noise", format::list(&without), series.name);
        let advice = "this compares the best and the worst value in common cells, and is careful because there are many \
                      pairs; the fits look at each parameter alone, and more repetitions would tell more";
        all.push(Verdict::new(Topic::Parameter, Level::Note, title, means.join("; "), advice));
    }
    all
}

/// What a parameter does to throughput: saturates, peaks, rises on or falls; or (as an error) its lowest and highest mean
/// where nothing can be told from noise.
fn effect(series: &Series, parameter: Parameter) -> Option<Result<Verdict, String>> {
    let effect = series.effect(parameter)?;
    let values: Vec<usize> = effect.levels.iter().map(|level| level.value).collect();
    if values.len() < 2 {
        return None;
    }
    // Relative to the first value, in blocks of equal other parameters: left-out cells must not look like an effect.
    let relative = |value: usize| -> Option<f64> {
        let differences: Vec<f64> =
            series.at_values(parameter, value, values[0]).iter().map(|(a, b)| geometric(a) - geometric(b)).collect();
        (!differences.is_empty()).then(|| stats::mean(&differences).exp())
    };
    let gains: Vec<(usize, f64)> = values.iter().filter_map(|&value| Some((value, relative(value)?))).collect();
    let best = *gains.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let worst = *gains.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    if gains.len() < 2 {
        return None; // no two values were measured in common cells
    }
    let last = *gains.last()?;
    let name = parameter.name();
    // The best and the worst of many values always differ somewhat: the comparison must be surer by the number of pairs
    // and of parameters (Bonferroni).
    let comparisons = gains.len() * (gains.len() - 1) / 2 * Parameter::ALL.len();
    let confidence = 1.0 - (1.0 - stats::CONFIDENCE) / comparisons.max(1) as f64;
    let noise = stats::pooled(&series.cells_of_grid());
    let ratio = stats::ratio_given(&series.at_values(parameter, best.0, worst.0), noise, confidence);
    let means = format!(
        "mean {} images/s at {} and {} at {}",
        rate_at(effect, worst.0),
        worst.0,
        rate_at(effect, best.0),
        best.0
    );
    let Some(ratio) = ratio.filter(|r| best.0 != worst.0 && r.low > 1.0) else {
        return Some(Err(format!("{name}: {means}")));
    };
    if parameter == Parameter::Repetition {
        return Some(Ok(Verdict::new(
            Topic::Parameter,
            Level::Warning,
            format!("repetitions of {} differ by more than noise", series.name),
            format!("{means}, {} cell by cell", times(ratio.value)),
            "something besides the parameters changed; measure again on a quiet machine",
        )));
    }
    let enough = gains.iter().find(|(_, gain)| *gain >= SATURATED * best.1).copied().unwrap_or(best);
    let fell = last.1 < SATURATED * best.1;
    let (title, advice) = if enough.0 == values[0] && fell {
        (format!("throughput of {} falls from {name} {} on", series.name, best.0), String::new())
    } else if fell {
        (format!("throughput of {} peaks at {name} {}", series.name, best.0), String::new())
    } else if enough.0 == last.0 {
        (
            format!("throughput of {} still rises at {name} {}", series.name, last.0),
            "larger values may bring more".to_string(),
        )
    } else if enough.0 == values[0] {
        (format!("{name} makes little difference for {}", series.name), String::new())
    } else {
        (format!("throughput of {} saturates at {name} {}", series.name, enough.0), String::new())
    };
    let mut reason = format!("{means}, {} cell by cell", times(ratio.value));
    if let (Some(line), Some(parabola)) = (&effect.linear, &effect.quadratic)
        && parabola.r2 > line.r2 + CURVED
    {
        reason.push_str(&format!(
            "; the response is not linear: a parabola explains {:.0} % of the variance, a line {:.0} %",
            parabola.r2 * 100.0,
            line.r2 * 100.0
        ));
    }
    if parameter == Parameter::DataSize {
        reason.push_str("; batch size and number of batches change along with it");
    }
    Some(Ok(Verdict::new(Topic::Parameter, Level::Note, title, reason, advice)))
}

fn geometric(values: &[f64]) -> f64 {
    stats::mean(&values.iter().map(|v| v.ln()).collect::<Vec<_>>())
}

fn rate_at(effect: &super::analysis::Effect, value: usize) -> String {
    effect
        .levels
        .iter()
        .find(|level| level.value == value)
        .map_or(format::NONE.into(), |level| format::rate(level.mean))
}

/// What was measured, as a part of a sentence.
fn using(variant: Variant) -> &'static str {
    match variant {
        Variant::Neither => "measured without caching and partitioning",
        Variant::Caching => "measured with caching",
        Variant::Partitioning => "measured with partitioning",
        Variant::Both => "measured with caching and partitioning",
    }
}

/// Cold against warm, of the variant of the grid (or the first that has both).
pub(super) fn page_cache(series: &Series) -> Option<Verdict> {
    let order = std::iter::once(series.grid.variant).chain(Variant::ALL);
    let (ratio, variant) =
        order.filter(|variant| !variant.caching() || series.grid.variant.caching()).find_map(|variant| {
            let under = |page_cache| series.under(Condition { page_cache, variant });
            Some((stats::ratio(&blocks(under(PageCache::Warm), under(PageCache::Cold)))?, variant))
        })?;
    let reason = format!("{}; {}", using(variant), interval(&ratio));
    let what = &series.name;
    Some(if !ratio.clear() {
        Verdict::new(
            Topic::PageCache,
            Level::Note,
            format!("cold reading of {what} is as fast as warm within the noise"),
            reason,
            // A wide interval says nothing about the disk.
            if ratio.high < 1.5 { "the disk (or a cache beneath the system's own) keeps up" } else { MORE },
        )
    } else if ratio.value > 1.0 {
        let advice =
            if ratio.value > 1.5 { "memory for the page cache, or a cache of your own, would pay" } else { "" };
        let title = format!("cold reading of {what} is {} slower", times(ratio.value));
        Verdict::new(Topic::PageCache, Level::Note, title, reason, advice)
    } else {
        let title = format!("cold reading of {what} is {} as fast as warm, which is strange", times(1.0 / ratio.value));
        Verdict::new(
            Topic::PageCache,
            Level::Warning,
            title,
            reason,
            "something besides the page cache changed; measure again",
        )
    })
}

/// What caching and partitioning gain, alone and together.
pub(super) fn variants(series: &Series) -> Option<Verdict> {
    let page_cache = series.grid.page_cache;
    let under = |variant| series.under(Condition { page_cache, variant });
    let over = |a, b| stats::ratio(&blocks(under(a), under(b)));
    let caching = over(Variant::Caching, Variant::Neither);
    let partitioning = over(Variant::Partitioning, Variant::Neither);
    let both = over(Variant::Both, Variant::Neither);
    let added = over(Variant::Both, Variant::Partitioning);
    // "Nothing" is a statement too: it needs a narrow interval.
    let nothing = |r: &Ratio| !r.clear() && r.high < NOTHING;
    let tell = |r: &Ratio| match r.value {
        _ if nothing(r) => "gains nothing".to_string(),
        _ if !r.clear() => "shows no gain beyond the noise".to_string(),
        value if value > 1.0 => format!("makes it {} as fast", times(value)),
        value => format!("makes it {} slower", times(1.0 / value)),
    };
    let mut parts = Vec::new();
    if let Some(ratio) = &partitioning {
        parts.push(format!("partitioning alone {}", tell(ratio)));
    }
    if let Some(ratio) = &caching {
        // The finding of one of the field reports, which is worth its own words.
        let only = nothing(ratio) && added.is_some_and(|r| r.low > 1.0);
        let alone = if only { "gains nothing without partitioning".into() } else { tell(ratio) };
        parts.push(format!("caching alone {alone}"));
    }
    if let Some(ratio) = &both {
        parts.push(format!("both {}", tell(ratio)));
    }
    if parts.is_empty() {
        return None;
    }
    let mut reasons = Vec::new();
    for (variant, ratio) in [(Variant::Partitioning, partitioning), (Variant::Caching, caching), (Variant::Both, both)]
    {
        if let Some(ratio) = ratio {
            reasons.push(format!("{} {} to {}", variant.name(), times(ratio.low), times(ratio.high)));
        }
    }
    let kept = series.conditions.iter().find(|c| c.condition == Condition { page_cache, variant: Variant::Both });
    let kept = kept.map_or(String::new(), |c| {
        format!("; with caching {} of the images came from memory", format::percent(c.from_cache))
    });
    let took = totals(series, page_cache).map_or(String::new(), |words| format!("; {words}"));
    Some(Verdict::new(
        Topic::Variants,
        Level::Note,
        format!("{}: {}", series.name, format::list(&parts)),
        format!("against neither, {}, 95 % confidence: {}{kept}{took}", page_cache.name(), format::list(&reasons)),
        "",
    ))
}

/// What all measurements of the caching variants took, the first reading included, against the same ones without caching:
/// the mean of throughputs hides how long filling took.
fn totals(series: &Series, page_cache: PageCache) -> Option<String> {
    let mut parts = Vec::new();
    for (with, without) in [(Variant::Caching, Variant::Neither), (Variant::Both, Variant::Partitioning)] {
        let under = |variant| {
            let common: Vec<_> = series.conditions.iter().map(|c| c.condition).collect();
            let condition = Condition { page_cache, variant };
            let in_all = |cell: (usize, usize)| {
                common.iter().all(|&c| series.under(c).any(|m| (m.cell.batch, m.cell.batches) == cell))
            };
            let of: Vec<f64> =
                series.under(condition).filter(|m| in_all((m.cell.batch, m.cell.batches))).map(|m| m.seconds).collect();
            (of.len(), of.iter().sum::<f64>())
        };
        let ((count, cached), (same, read)) = (under(with), under(without));
        if count > 0 && count == same {
            parts.push(format!(
                "{} {} instead of {}",
                with.name(),
                paceline_base::text::duration(cached),
                paceline_base::text::duration(read)
            ));
        }
    }
    (!parts.is_empty()).then(|| format!("all measurements, filling included: {}", format::list(&parts)))
}

/// One engine, study or machine against another.
pub(super) fn engines(a: &Series, b: &Series) -> Option<Verdict> {
    let ratio = stats::ratio(&blocks(b.under(a.grid), a.under(a.grid)))?;
    let reason = format!("{}, {}; {}", a.grid.page_cache.name(), using(a.grid.variant), interval(&ratio));
    let title = if !ratio.clear() {
        format!("{} and {} are equally fast within the noise", a.name, b.name)
    } else if ratio.value > 1.0 {
        format!("{} is read {} as fast as {}", b.name, times(ratio.value), a.name)
    } else {
        format!("{} is read {} as fast as {}", a.name, times(1.0 / ratio.value), b.name)
    };
    Some(Verdict::new(Topic::Engines, Level::Note, title, reason, ""))
}

/// How much repetitions of the same cell differ.
pub(super) fn noise(series: &[&Series]) -> Option<Verdict> {
    let known: Vec<(&str, f64)> = series.iter().filter_map(|s| Some((s.name.as_str(), s.noise?))).collect();
    let worst = known.iter().map(|k| k.1).fold(f64::NAN, f64::max);
    if worst.is_nan() {
        return series.first().map(|_| {
            Verdict::new(
                Topic::Noise,
                Level::Warning,
                "the noise is not known",
                "every cell was measured once".into(),
                "measure with 3 repetitions or more",
            )
        });
    }
    let level = match worst {
        w if w <= QUIET => Level::Good,
        w if w < NOISY => Level::Note,
        _ => Level::Warning,
    };
    let each: Vec<String> = known.iter().map(|(name, cv)| format!("{name} {:.1} %", cv * 100.0)).collect();
    let advice = match level {
        Level::Warning => "measure with more repetitions or larger data-set sizes, or on a quiet machine",
        _ => "",
    };
    Some(Verdict::new(
        Topic::Noise,
        level,
        format!("noise {:.0} %", worst * 100.0),
        format!("coefficient of variation between repetitions of a cell: {}", format::list(&each)),
        advice,
    ))
}

/// Whether throughput changed in the course of the study: each measurement relative to the mean of its cell, against the
/// order. The order is random, so that a drift does not look like an effect, but it widens the noise.
pub(super) fn drift(series: &[&Series]) -> Option<Verdict> {
    let points = relative_to_cell(series);
    let line = stats::linear(&points)?;
    let last = points.iter().map(|p| p.0).fold(0.0, f64::max);
    let change = line.slope * last;
    if !line.clear() || change.abs() < QUIET {
        return None;
    }
    let direction = if change > 0.0 { "faster" } else { "slower" };
    Some(Verdict::new(
        Topic::Drift,
        Level::Warning,
        format!("the machine became {:.0} % {direction} during the study", change.abs() * 100.0),
        format!("correlation of throughput with the order of measuring {:.2}", line.pearson),
        "the order was random, so that this is noise and no effect; a quiet machine would give narrower intervals",
    ))
}

/// For each measurement without caching its place in the order and its throughput ÷ the mean of its cell.
pub(crate) fn relative_to_cell(series: &[&Series]) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    for s in series {
        let plain: Vec<_> = s.measurements.iter().filter(|m| !m.cell.caching).collect();
        for m in &plain {
            let same: Vec<f64> = plain
                .iter()
                .filter(|o| {
                    Condition::of(o) == Condition::of(m)
                        && (o.cell.batch, o.cell.batches) == (m.cell.batch, m.cell.batches)
                })
                .map(|o| o.images_per_s())
                .collect();
            if same.len() > 1 {
                points.push((m.cell.id as f64, m.images_per_s() / stats::mean(&same)));
            }
        }
    }
    points
}

//! Predictions as lines of a file: csv as RFC 4180 has it, and JSON, one object on a line.

use crate::predict::Prediction;
use serde_json::{Map, Value, json};

/// The head of a csv with the `top` classes: `input,label,class,probability,class_2,probability_2,…,error`.
pub fn csv_head(top: usize) -> String {
    let more = (2..=top).map(|rank| format!(",class_{rank},probability_{rank}"));
    format!("input,label,class,probability{},error\n", more.collect::<String>())
}

/// A line of a csv with the `top` classes.
pub fn csv_line(prediction: &Prediction<'_>, top: usize) -> String {
    let mut line = String::new();
    field(&mut line, &prediction.input);
    line.push(',');
    field(&mut line, prediction.label.unwrap_or_default());
    for rank in 0..top.max(1) {
        line.push(',');
        match prediction.top.get(rank) {
            Some(score) => {
                field(&mut line, score.name);
                line += &format!(",{:.6}", score.probability);
            }
            None => line.push(','),
        }
    }
    line.push(',');
    field(&mut line, prediction.error.as_deref().unwrap_or_default());
    line.push('\n');
    line
}

/// In quotes where it must be.
fn field(line: &mut String, text: &str) {
    if text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

/// A line of JSON: `{"input": …, "class": …, "probability": …}`, with `label` where it is known, `top` where more than one class
/// is asked for, and `error` instead of a class for a bad input.
pub fn json_line(prediction: &Prediction<'_>, top: usize) -> String {
    let mut line = Map::new();
    line.insert("input".into(), prediction.input.clone().into());
    if let Some(label) = prediction.label {
        line.insert("label".into(), label.into());
    }
    if let Some(first) = prediction.top.first() {
        line.insert("class".into(), first.name.into());
        line.insert("probability".into(), first.probability.into());
        if top > 1 {
            let all = prediction.top.iter().map(|s| json!({"class": s.name, "probability": s.probability}));
            line.insert("top".into(), all.collect());
        }
    }
    if let Some(error) = &prediction.error {
        line.insert("error".into(), error.clone().into());
    }
    format!("{}\n", Value::Object(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::Score;

    fn some<'a>(input: &str, names: &[&'a str]) -> Prediction<'a> {
        let top =
            names.iter().enumerate().map(|(class, &name)| Score { class, name, probability: 0.5 / (class + 1) as f64 });
        Prediction { input: input.into(), label: None, top: top.collect(), error: None }
    }

    #[test]
    fn csv_has_as_many_columns_on_every_line() {
        let columns = |line: &str| line.trim_end().split(',').count();
        for top in 1..4 {
            let bad = Prediction { error: Some("gone".into()), ..some("b.jpg", &[]) };
            assert_eq!(columns(&csv_head(top)), columns(&csv_line(&some("a.jpg", &["x", "y", "z"][..top]), top)));
            assert_eq!(columns(&csv_head(top)), columns(&csv_line(&bad, top)));
        }
        assert_eq!(csv_head(2), "input,label,class,probability,class_2,probability_2,error\n");
        assert_eq!(csv_line(&some("a\"b,c\nd", &["x"]), 1), "\"a\"\"b,c\nd\",,x,0.500000,\n");
    }

    #[test]
    fn json_escapes_what_names_may_hold() {
        let mut prediction = some("a\"\n\u{1b}[2J", &["x", "y"]);
        prediction.label = Some("y");
        let line = json_line(&prediction, 2);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let back: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(back["input"], "a\"\n\u{1b}[2J");
        assert_eq!((&back["class"], &back["label"], &back["top"][1]["class"]), (&json!("x"), &json!("y"), &json!("y")));
    }
}

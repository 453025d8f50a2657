//! Predictions as lines of a file: csv as RFC 4180 has it, and JSON, one object on a line.

use crate::predict::{Number, Prediction};
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

/// The head of a csv of predicted numbers, with what the data says beside each: `input,price,price_known,error`.
pub fn csv_head_of_numbers(names: &[String]) -> String {
    let mut line = String::from("input");
    for name in names {
        line.push(',');
        field(&mut line, name);
        line.push(',');
        field(&mut line, &format!("{name}_known"));
    }
    line + ",error\n"
}

/// A line of a csv of so many predicted numbers.
pub fn csv_line_of_numbers(prediction: &Prediction<'_>, count: usize) -> String {
    let mut line = String::new();
    field(&mut line, &prediction.input);
    for place in 0..count {
        let number = prediction.numbers.get(place);
        let known = number.and_then(|number| number.known).map(|known| known.to_string()).unwrap_or_default();
        line += &format!(",{},{known}", number.map(|number| number.value.to_string()).unwrap_or_default());
    }
    line.push(',');
    field(&mut line, prediction.error.as_deref().unwrap_or_default());
    line.push('\n');
    line
}

/// A number in as few digits as tell it from others of 32 bits.
fn shortest(value: f32) -> Value {
    value.to_string().parse::<f64>().unwrap_or_else(|_| value.into()).into()
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
/// is asked for, and `error` instead of a class for a bad input. Of a model whose targets are numbers: `numbers` by name, and
/// `known` where the data has them.
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
    if !prediction.numbers.is_empty() {
        let by_name = |value: &dyn Fn(&Number<'_>) -> Option<f32>| -> Map<String, Value> {
            let pairs = prediction.numbers.iter().filter_map(|number| Some((number.name.to_string(), value(number)?)));
            pairs.map(|(name, value)| (name, shortest(value))).collect()
        };
        line.insert("numbers".into(), by_name(&|number| Some(number.value)).into());
        let known = by_name(&|number| number.known);
        if !known.is_empty() {
            line.insert("known".into(), known.into());
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
        Prediction { input: input.into(), label: None, top: top.collect(), numbers: Vec::new(), error: None }
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
    fn numbers_are_written_by_name() {
        let number = |name, value, known| Number { name, value, known };
        let numbers = vec![number("price", 3.25, Some(3.0)), number("a,b", 0.1, None)];
        let prediction = Prediction { numbers, ..some("t.csv:0", &[]) };
        let bad = Prediction { error: Some("gone".into()), ..some("t.csv:1", &[]) };
        assert_eq!(
            csv_head_of_numbers(&["price".into(), "a,b".into()]),
            "input,price,price_known,\"a,b\",\"a,b_known\",error\n"
        );
        assert_eq!(csv_line_of_numbers(&prediction, 2), "t.csv:0,3.25,3,0.1,,\n");
        assert_eq!(csv_line_of_numbers(&bad, 2), "t.csv:1,,,,,gone\n");
        let back: Value = serde_json::from_str(&json_line(&prediction, 1)).unwrap();
        assert_eq!((&back["numbers"]["price"], &back["known"]), (&json!(3.25), &json!({"price": 3.0})));
        assert!(back.get("class").is_none() && back.get("top").is_none());
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

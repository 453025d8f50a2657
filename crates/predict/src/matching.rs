//! Classes of data to classes of a model: by name, or by number where the data has only numbers.

use paceline_base::{Error, Result, text};

/// How the classes of some data were matched to those of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matching {
    /// By the number that a class has in the data: its number in the model, if the model knows it.
    pub to: Vec<Option<u32>>,
    /// Whether the data has only numbers, which were taken as the model's own.
    pub by_number: bool,
}

impl Matching {
    /// Matches the classes `data` to the classes `model`. Where no name is the model's and all are numbers, these are the
    /// model's numbers.
    ///
    /// ```
    /// use paceline_predict::matching::Matching;
    /// let model = ["cat", "dog", "owl"].map(String::from);
    /// assert_eq!(Matching::new(&["owl".into(), "cow".into()], &model).to, [Some(2), None]);
    /// assert_eq!(Matching::new(&["0".into(), "1".into()], &model).to, [Some(0), Some(1)]);
    /// ```
    pub fn new(data: &[String], model: &[String]) -> Self {
        let place = |name: &String| model.iter().position(|known| known == name).map(|place| place as u32);
        let to: Vec<Option<u32>> = if data == model {
            (0..model.len() as u32).map(Some).collect() // also where thousands of classes would take long to look for
        } else {
            data.iter().map(place).collect()
        };
        let number = |name: &String| name.parse::<u32>().ok().filter(|number| number.to_string() == *name);
        if to.iter().all(Option::is_none) && !data.is_empty() && data.iter().all(|name| number(name).is_some()) {
            let known = |number: u32| ((number as usize) < model.len()).then_some(number);
            return Self { to: data.iter().map(|name| number(name).and_then(known)).collect(), by_number: true };
        }
        Self { to, by_number: false }
    }

    /// Whether the model knows any of the classes.
    pub fn any(&self) -> bool {
        self.to.iter().any(Option::is_some)
    }

    /// An error that names the classes which have samples and which the model does not know.
    ///
    /// # Errors
    /// If there are any.
    pub fn all_known(&self, data: &[String], used: &[bool], model: &[String], place: &str) -> Result<()> {
        let unknown: Vec<&str> = data
            .iter()
            .zip(&self.to)
            .zip(used)
            .filter(|((_, to), used)| to.is_none() && **used)
            .map(|((name, _), _)| name.as_str())
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let list = |names: &mut dyn Iterator<Item = &str>, count: usize| {
            let shown: Vec<String> = names.take(8).map(|name| format!("`{name}`")).collect();
            let more = count - shown.len();
            if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
        };
        let hint = text::did_you_mean(unknown[0], model.iter().map(String::as_str));
        let (number, what) = if unknown.len() == 1 { ("the class", "it") } else { ("the classes", "them") };
        Err(Error::user(format!(
            "{place}: the model does not know {number} {}; it knows {}. Name {what} as in training, or leave {what} out{hint}",
            list(&mut unknown.iter().copied(), unknown.len()),
            list(&mut model.iter().map(String::as_str), model.len())
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(data: &[&str], model: &[&str], to: &[Option<u32>], by_number: bool) {
        let list = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let matching = Matching::new(&list(data), &list(model));
        assert_eq!((&matching.to[..], matching.by_number), (to, by_number), "{data:?} {model:?}");
    }

    #[test]
    fn by_name_first_and_by_number_only_where_there_is_nothing_else() {
        check(&["b", "a"], &["a", "b"], &[Some(1), Some(0)], false);
        check(&["b"], &["a", "b"], &[Some(1)], false);
        check(&["0", "2"], &["a", "b"], &[Some(0), None], true);
        // Names that are numbers are names, also where they are not the number of their place.
        check(&["7", "5"], &["5", "7"], &[Some(1), Some(0)], false);
        check(&["0", "a"], &["a", "b"], &[None, Some(0)], false);
        check(&["00"], &["a"], &[None], false);
        check(&[], &["a"], &[], false);
    }

    #[test]
    fn unknown_classes_are_named_if_they_have_samples() {
        let (data, model) = (["a", "bb", "c"].map(String::from), ["a", "b"].map(String::from));
        let matching = Matching::new(&data, &model);
        let error = matching.all_known(&data, &[true, true, false], &model, "held").unwrap_err();
        assert_eq!(
            error.message(),
            "held: the model does not know the class `bb`; it knows `a`, `b`. Name it as in training, or leave it out; did you mean b?"
        );
        matching.all_known(&data, &[true, false, false], &model, "held").unwrap();
        let error = matching.all_known(&data, &[true, true, true], &model, "held").unwrap_err();
        assert!(error.message().contains("the classes `bb`, `c`"), "{error}");
    }
}

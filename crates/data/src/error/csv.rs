//! What can be wrong with a csv of values.

/// A csv of values that cannot be read as samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsvError {
    /// Nothing in it.
    #[error("{file}: is empty; give a csv whose first line names its columns, with a line for each sample")]
    Empty { file: String },
    /// A first line of numbers.
    #[error(
        "{file}: line 1 holds only numbers (`{found}`), not the names of the columns; write a first line that names them, such as x1,x2,y"
    )]
    NoHeader { file: String, found: String },
    /// A header and nothing else.
    #[error("{file}: holds a first line with the names of columns and no samples; give a line for each sample")]
    NoRows { file: String },
    /// A column without a name.
    #[error(
        "{file}: line 1: column {column} has no name; name it, or leave it out (pandas writes its index so: to_csv(…, index=False))"
    )]
    NamelessColumn {
        file: String,
        /// Counted from 1.
        column: usize,
    },
    /// Two columns of one name.
    #[error("{file}: line 1: the columns {first} and {second} are both called `{name}`; rename one of them")]
    SameName {
        file: String,
        name: String,
        /// Counted from 1.
        first: usize,
        /// Counted from 1.
        second: usize,
    },
    /// Text that is not UTF-8.
    #[error("{file}: line {line}: column `{column}` is not UTF-8; save the file as UTF-8")]
    NotUtf8 { file: String, line: usize, column: String },
    /// A quote without its other half.
    #[error(
        "{file}: line {line}: a quote (\") that is not closed; close it, or write a quote within a quoted cell twice (\"\")"
    )]
    Quotes { file: String, line: usize },
    /// An empty line where a column alone may be empty.
    #[error(
        "{file}: line {line}: is empty, which may be a sample or not; write \"\" (two quotes) for an empty list, or remove the line"
    )]
    BlankLine { file: String, line: usize },
    /// A line that is too short or too long.
    #[error(
        "{file}: line {line}: {} instead of {expected}, as the first line has; add or remove cells (a cell with a comma in it wants quotes)",
        paceline_base::text::counted(*found, "cell")
    )]
    Cells { file: String, line: usize, found: usize, expected: usize },
    /// A target that is no column.
    #[error("{file}: data.target: no column `{name}`; its columns are {known}{hint}")]
    UnknownTarget {
        file: String,
        name: String,
        /// "; did you mean …?" or nothing.
        hint: String,
        known: String,
    },
    /// A target that is named twice.
    #[error("{file}: data.target names the column `{name}` twice; name it once")]
    TargetTwice { file: String, name: String },
    /// Nothing beside the targets.
    #[error(
        "{file}: no column is left for features beside {}; columns are separated by commas, and all that are not in data.target are features",
        paceline_base::text::counted(*targets, "target column")
    )]
    NoFeatures { file: String, targets: usize },
    /// A part or an input that lacks a column.
    #[error("{file}: no column `{name}`, which {whose} has; add it, or rename the one that is meant{hint}")]
    MissingColumn {
        file: String,
        name: String,
        /// Who has it: the training data or the model.
        whose: &'static str,
        /// "; did you mean …?" or nothing.
        hint: String,
    },
    /// A part with a column that the training data lacks.
    #[error("{file}: a column `{name}`, which the training data does not have; remove it, or train on it too")]
    ExtraColumn { file: String, name: String },
    /// A cell with nothing in it.
    #[error(
        "{file}: line {line}: column `{column}` is empty; give a value, or remove the line (there is no value for missing ones)"
    )]
    EmptyCell { file: String, line: usize, column: String },
    /// A cell of a column of numbers that is none.
    #[error("{file}: line {line}: column `{column}`: `{value}` is not a number; {advice}")]
    NotANumber {
        file: String,
        line: usize,
        column: String,
        value: String,
        /// What to do, which differs for features and targets.
        advice: &'static str,
    },
    /// A number that is none to compute with.
    #[error(
        "{file}: line {line}: column `{column}`: `{value}` is not a finite 32-bit number; correct it, or remove the line"
    )]
    NotFinite { file: String, line: usize, column: String, value: String },
    /// An entry of a list that is no index.
    #[error(
        "{file}: line {line}: column `{column}`: `{value}` is not an index: indices are whole numbers from 0 to 18446744073709551614, separated by spaces; correct it"
    )]
    NotAnIndex { file: String, line: usize, column: String, value: String },
    /// An index that the training data or the model does not know.
    #[error(
        "{file}: line {line}: column `{column}`: index {index} is not below {bound}, as all are that {whose} has; correct it, or train with it: \
         indices of train.csv, validation.csv and test.csv of one folder are taken together"
    )]
    IndexBeyond { file: String, line: usize, column: String, index: u64, bound: u64, whose: &'static str },
    /// Targets of which some are classes and some numbers.
    #[error(
        "{file}: targets of mixed kinds: column `{first_column}` holds `{first_value}` in line {first_line}, which is {first_kind}, and column \
         `{second_column}` holds `{second_value}` in line {second_line}, which is {second_kind}; correct the cells, name other columns in \
         data.target, or say what they are: data.targets = \"classes\" or \"numbers\""
    )]
    MixedTargets {
        file: String,
        first_column: String,
        first_line: usize,
        first_value: String,
        /// As words: "a name", "a whole number from 0 on", "a number".
        first_kind: &'static str,
        second_column: String,
        second_line: usize,
        second_value: String,
        second_kind: &'static str,
    },
    /// A class that is not among those of the training data or the model.
    #[error(
        "{file}: line {line}: column `{column}`: the class `{value}` is none that {whose} has; correct it, or train on it too{hint}"
    )]
    UnknownClass { file: String, line: usize, column: String, value: String, whose: &'static str, hint: String },
    /// A folder of csv files without one to train on.
    #[error("{folder}: no train.csv beside its other csv files; put the samples to train on into train.csv")]
    NoTraining { folder: String },
    /// Two files of a folder for one part.
    #[error("{first} and {second} are both the {part} part; remove or rename one of them")]
    TwoFiles { first: String, second: String, part: &'static str },
    /// A csv for a model that was trained on something else.
    #[error(
        "{file}: holds rows of values, but the model was not trained on a csv, so that its columns have no names; give samples of the kind that it was trained on"
    )]
    NoCsvModel { file: String },
}

//! The global batch as written: a number, or an expression in `workers` such as `32*workers`.
//!
//! Grammar: `sum = product (("+" | "-") product)*`, `product = atom (("*" | "/") atom)*`,
//! `atom = digits | "workers" | "(" sum ")"`. Values are exact fractions, so that `workers/3*3` is what it looks like;
//! only the result has to be whole.

use crate::setting::{Setting, Wrong};
use paceline_base::units::GlobalBatch;
use paceline_base::{Error, Result};
use std::fmt;
use toml::Value;

/// Longer texts are refused: no batch needs them, and parentheses cannot nest deep enough to exhaust the stack.
const LONGEST: usize = 200;

/// Samples per step over all workers, possibly as an expression in their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch(Expr);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    Number(u64),
    Workers,
    Both(Op, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Batch {
    /// A fixed number of samples.
    pub fn fixed(samples: u64) -> Self {
        Self(Expr::Number(samples))
    }

    /// Reads an expression; the text of the error says what is wrong with it.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("is longer than {LONGEST} characters"));
        }
        let mut parser = Parser { rest: text };
        let expr = parser.sum()?;
        match parser.peek() {
            None => Ok(Self(expr)),
            Some(c) => Err(format!("has an unexpected {c:?}")),
        }
    }

    /// The number of samples for so many workers.
    ///
    /// # Errors
    /// If it is zero, negative, not whole, or too large.
    pub fn resolve(&self, workers: usize) -> Result<GlobalBatch> {
        let fail = |what: &str| {
            Error::user(format!(
                "train.batch = {self} {what} for {workers} worker{}; write an expression that gives a whole number of at \
                 least 1, such as 32*workers",
                if workers == 1 { "" } else { "s" }
            ))
        };
        match self.0.value(workers) {
            None => Err(fail("divides by zero or is too large")),
            Some(Fraction { over, .. }) if over != 1 => Err(fail("is not whole")),
            Some(Fraction { top, .. }) if top <= 0 => Err(fail(&format!("is {top}"))),
            // Beyond 2⁵³ samples even counting them in f64 goes wrong.
            Some(Fraction { top, .. }) if top > 1 << 53 => Err(fail("is too large")),
            Some(Fraction { top, .. }) => GlobalBatch::new(top as usize),
        }
    }
}

/// `top / over` in lowest terms, `over` positive.
#[derive(Clone, Copy)]
struct Fraction {
    top: i128,
    over: i128,
}

impl Fraction {
    fn new(top: i128, over: i128) -> Option<Self> {
        let (mut a, mut b) = (top.checked_abs()?, over.checked_abs()?);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let divisor = if over < 0 { -a } else { a };
        (over != 0).then(|| Self { top: top / divisor, over: over / divisor })
    }
}

impl Expr {
    /// `None` on division by zero and on overflow.
    fn value(&self, workers: usize) -> Option<Fraction> {
        let (op, left, right) = match self {
            Expr::Number(n) => return Fraction::new(i128::from(*n), 1),
            Expr::Workers => return Fraction::new(workers as i128, 1),
            Expr::Both(op, left, right) => (op, left.value(workers)?, right.value(workers)?),
        };
        let cross = |a: Fraction, b: Fraction| a.top.checked_mul(b.over);
        let over = || left.over.checked_mul(right.over);
        match op {
            Op::Add => Fraction::new(cross(left, right)?.checked_add(cross(right, left)?)?, over()?),
            Op::Subtract => Fraction::new(cross(left, right)?.checked_sub(cross(right, left)?)?, over()?),
            Op::Multiply => Fraction::new(left.top.checked_mul(right.top)?, over()?),
            Op::Divide => Fraction::new(cross(left, right)?, left.over.checked_mul(right.top)?),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    /// Takes the next character if it is an operator of these.
    fn take(&mut self, ops: [(char, Op); 2]) -> Option<Op> {
        let next = self.peek()?;
        let op = ops.iter().find(|(c, _)| *c == next)?.1;
        self.rest = &self.rest[1..];
        Some(op)
    }

    fn sum(&mut self) -> std::result::Result<Expr, String> {
        let mut left = self.product()?;
        while let Some(op) = self.take([('+', Op::Add), ('-', Op::Subtract)]) {
            left = Expr::Both(op, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> std::result::Result<Expr, String> {
        let mut left = self.atom()?;
        while let Some(op) = self.take([('*', Op::Multiply), ('/', Op::Divide)]) {
            left = Expr::Both(op, Box::new(left), Box::new(self.atom()?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> std::result::Result<Expr, String> {
        match self.peek() {
            Some('(') => {
                self.rest = &self.rest[1..];
                let inner = self.sum()?;
                if self.peek() != Some(')') {
                    return Err("lacks a closing parenthesis".into());
                }
                self.rest = &self.rest[1..];
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() => {
                let word = self.word(|c| c.is_ascii_digit());
                word.parse().map(Expr::Number).map_err(|_| format!("has a number that is too large: {word}"))
            }
            Some(c) if c.is_alphabetic() => match self.word(char::is_alphanumeric) {
                "workers" => Ok(Expr::Workers),
                word => Err(format!("uses {word:?}; the only name it can use is workers")),
            },
            Some(c) => Err(format!("has an unexpected {c:?}")),
            None => Err("ends where a number or workers is wanted".into()),
        }
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &str {
        let (word, rest) = self.rest.split_at(self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |e: &Expr| matches!(e, Expr::Both(Op::Add | Op::Subtract, ..));
        match self {
            Expr::Number(n) => write!(f, "{n}"),
            Expr::Workers => f.write_str("workers"),
            Expr::Both(op, left, right) => {
                let (sign, tight) = match op {
                    Op::Add => ('+', false),
                    Op::Subtract => ('-', false),
                    Op::Multiply => ('*', true),
                    Op::Divide => ('/', true),
                };
                // Both signs of a level group to the left, so that only the right side needs parentheses for its own.
                let wrap = |f: &mut fmt::Formatter<'_>, e: &Expr, needed: bool| {
                    if needed { write!(f, "({e})") } else { write!(f, "{e}") }
                };
                wrap(f, left, tight && sum(left))?;
                write!(f, "{sign}")?;
                wrap(f, right, if tight { matches!(**right, Expr::Both(..)) } else { sum(right) })
            }
        }
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Setting for Batch {
    fn kind() -> String {
        "a whole number of at least 1, or an expression in workers such as \"32*workers\"".into()
    }
    fn read(value: &Value) -> std::result::Result<Self, Wrong> {
        match value {
            Value::Integer(n) if *n > 0 => Ok(Self::fixed(*n as u64)),
            Value::Integer(_) => Err(Wrong::Range),
            Value::String(text) => {
                let batch = Self::parse(text).map_err(Wrong::Because)?;
                // Without `workers` it is a number already, and a wrong one need not wait for the run to be found.
                if text.contains("workers") || batch.resolve(1).is_ok() { Ok(batch) } else { Err(Wrong::Range) }
            }
            _ => Err(Wrong::Type),
        }
    }
    fn write(&self) -> Option<Value> {
        match &self.0 {
            Expr::Number(n) if i64::try_from(*n).is_ok_and(|n| n > 0) => n.write(),
            expr => Some(Value::String(expr.to_string())),
        }
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;

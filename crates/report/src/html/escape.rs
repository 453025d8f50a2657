//! Nothing that a run says about itself may become markup.

use std::fmt;

use paceline_base::text::is_unseen;

/// Text that is escaped when written into HTML, as content or inside a quoted attribute.
pub(crate) struct Esc<T>(pub T);

impl<T: AsRef<str>> fmt::Display for Esc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.as_ref().chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Control characters and marks of direction have no place in HTML; line ends and tabs do, in configurations.
                c if is_unseen(c) && c != '\n' && c != '\t' => f.write_str("\u{fffd}")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(Esc("<a b=\"c\" d='e'>&\u{1b}").to_string(), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\u{fffd}");
    }
}

//! The macro behind the schema: from one declaration of a key come its field, its default, its reader, its writer
//! and the words that `config explain` prints.

use crate::schema::Config;
use crate::setting::{Limit, Wrong};
use toml::Value;

/// A section of the configuration.
#[derive(Debug)]
pub struct Section {
    /// Its name in the file: `train`.
    pub name: &'static str,
    pub(super) doc: &'static str,
}

/// A key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// Section and name: `train.batch`.
    pub path: &'static str,
    /// The section it is in.
    pub section: &'static str,
    pub(super) doc: &'static str,
    pub(super) kind: fn() -> String,
    pub(super) limit: Limit,
    pub(super) read: fn(&mut Config, &Value) -> Result<(), Wrong>,
    pub(super) write: fn(&Config) -> Option<Value>,
}

impl Section {
    /// What it is about.
    pub fn meaning(&self) -> String {
        words(self.doc)
    }
}

impl Key {
    /// Its name within the section: `batch`.
    pub fn name(&self) -> &'static str {
        &self.path[self.section.len() + 1..]
    }

    /// What may be written, in words: "a whole number of at least 1".
    pub fn kind(&self) -> String {
        format!("{}{}", (self.kind)(), self.limit.words())
    }

    /// Its default as it would be written in the file; `none` for a key that may be absent.
    pub fn default_text(&self) -> String {
        (self.write)(&Config::default()).map_or_else(|| "none".into(), |value| value.to_string())
    }

    /// What it means.
    pub fn meaning(&self) -> String {
        words(self.doc)
    }
}

/// Doc lines as one running text.
fn words(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Declares sections and keys: `name: Type = default, limit;` under doc comments.
macro_rules! schema {
    ($(
        $(#[doc = $section_doc:literal])*
        [$section:ident] $Section:ident {
            $( $(#[doc = $doc:literal])* $key:ident: $Type:ty = $default:expr, $limit:expr; )*
        }
    )*) => {
        $(
            $(#[doc = $section_doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $Section {
                $( $(#[doc = $doc])* pub $key: $Type, )*
            }

            impl Default for $Section {
                fn default() -> Self {
                    Self { $( $key: $default, )* }
                }
            }
        )*

        /// A configuration as it was written: checked key by key, with `auto` not yet resolved.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Config {
            $( $(#[doc = $section_doc])* pub $section: $Section, )*
            /// Paths of the keys that the user wrote; the others have their defaults.
            pub(super) given: BTreeSet<&'static str>,
        }

        pub(super) static SECTIONS: &[Section] = &[
            $( Section { name: stringify!($section), doc: concat!($($section_doc, "\n"),*) }, )*
        ];

        pub(super) static KEYS: &[Key] = &[
            $( $( Key {
                path: concat!(stringify!($section), ".", stringify!($key)),
                section: stringify!($section),
                doc: concat!($($doc, "\n"),*),
                kind: <$Type as Setting>::kind,
                limit: $limit,
                read: |config, value| {
                    let new = <$Type as Setting>::read(value)?;
                    let limit: Limit = $limit;
                    limit.check(value)?;
                    config.$section.$key = new;
                    Ok(())
                },
                write: |config| Setting::write(&config.$section.$key),
            }, )* )*
        ];
    };
}
pub(super) use schema;

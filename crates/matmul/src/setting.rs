//! The settings of a product that errors may speak of.

use paceline_base::setting::{self, Setting};

/// A field of [`MatmulOptions`](crate::MatmulOptions).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatmulSetting {
    /// Rows and columns.
    N,
    /// Rows and columns of a block.
    Block,
    /// What is computed.
    Product,
    /// Whether factors are stored.
    Factors,
    /// The file of A.
    A,
    /// The file of B.
    B,
    /// Where the product goes.
    Out,
    /// Ranks of a process.
    Ranks,
    /// Most memory of a process.
    Memory,
}

impl Setting for MatmulSetting {
    fn field(self) -> &'static str {
        match self {
            Self::N => "n",
            Self::Block => "block",
            Self::Product => "product",
            Self::Factors => "keeping",
            Self::A => "a",
            Self::B => "b",
            Self::Out => "out",
            Self::Ranks => "ranks",
            Self::Memory => "memory",
        }
    }
}

/// What the user calls each setting of a product.
pub type MatmulSettingNames = setting::SettingNames<MatmulSetting>;

//! Dense layers. Weights lie as `[outputs, inputs]`, so the forward pass is made of dot products along `inputs`, and both
//! backward passes are sums of outer products, vectorised along `inputs`: no operand is ever transposed.
//!
//! Every element of a result is one chain of multiply-adds in a fixed order, whatever tile, block or thread computes it: results do
//! not depend on the number of threads, nor on how the rows of a batch are divided.

mod dot;
mod forward;
mod gradient;
mod outer;
mod tiles;

pub(crate) use forward::Forward;
pub(crate) use gradient::{BiasGradient, Finish, Product};
pub(crate) use outer::{Outer, tiles};
pub(crate) use tiles::Pieces;

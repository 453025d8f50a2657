//! The embedding: of the rows of a table that a list of indices names, the sum or the mean, as PyTorch's `EmbeddingBag`. Its table is of shape
//! [rows, columns].
//!
//! Splits: over `sample` (the table copied, its gradient partial), over `row` of the table (lists copied, rows owned, outputs partial), over `out`,
//! columns of the table (lists copied, columns and outputs owned).

use super::{Launch, Local, Needs, Operator, ParamSpec, Role, SplitDim};
use paceline_base::kernel::{EmbeddingDims, Kernel};
use paceline_base::op::Init;
use paceline_base::region::Region;
use paceline_base::sample::IndexWidth;
use paceline_base::{Error, Result};
use std::ops::Range;

/// An embedding.
#[derive(Debug)]
pub(crate) struct Embedding {
    /// Rows of the whole table.
    pub rows: usize,
    /// Columns of the whole table: output features.
    pub columns: usize,
    /// Whether sums are divided by the length of their list.
    pub mean: bool,
    /// Initial values of the table.
    pub init: Init,
    /// What an index is.
    pub width: IndexWidth,
}

impl Embedding {
    fn local_dims(&self, local: &Local<'_>) -> Option<EmbeddingDims> {
        let table = local.needs.params[0].as_ref()?;
        Some(EmbeddingDims {
            rows: local.needs.output.range(0).len(),
            first: table.range(0).start,
            table_rows: table.range(0).len(),
            table: self.rows,
            columns: table.range(1).len(),
            entries: local.entries,
            expected: local.expected_entries,
            width: self.width,
            mean: self.mean,
        })
    }
}

impl Operator for Embedding {
    fn kind(&self) -> String {
        "embedding".into()
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        match inputs[0] {
            [] => Ok(vec![self.columns]),
            shape => Err(Error::internal(format!("an embedding of samples of shape {shape:?}"))),
        }
    }

    fn params(&self, _: &[&[usize]]) -> Vec<ParamSpec> {
        vec![ParamSpec {
            name: "weight",
            shape: vec![self.rows, self.columns],
            init: self.init,
            fans: (self.rows, self.columns),
            decays: true,
            trained: true,
        }]
    }

    fn dims(&self, batch: usize, _: &[&[usize]]) -> Vec<SplitDim> {
        vec![
            SplitDim { name: "sample", extent: batch },
            SplitDim { name: "row", extent: self.rows },
            SplitDim { name: "out", extent: self.columns },
        ]
    }

    fn needs(&self, part: &[Range<usize>], _: &[&[usize]]) -> Needs {
        let [samples, rows, columns] = [part[0].clone(), part[1].clone(), part[2].clone()];
        Needs {
            inputs: vec![Region::new([samples.clone()])],
            params: vec![Some(Region::new([rows.clone(), columns.clone()]))],
            output: Region::new([samples, columns]),
            partial: rows.len() < self.rows,
        }
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let kernel = self.local_dims(local).map(Kernel::EmbeddingForward);
        let args = vec![Role::Input(0), Role::Param(0), Role::Output];
        kernel.map(|kernel| Launch::Kernel { kernel, args }).into_iter().collect()
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let kernel = self.local_dims(local).map(Kernel::EmbeddingBackward);
        let args = vec![Role::OutputGrad, Role::Input(0), Role::ParamGrad(0)];
        kernel.map(|kernel| Launch::Kernel { kernel, args }).into_iter().collect()
    }

    fn takes_lists(&self) -> bool {
        true
    }

    /// That of a list of one index.
    fn flops(&self, _: &[&[usize]]) -> f64 {
        self.columns as f64
    }
}

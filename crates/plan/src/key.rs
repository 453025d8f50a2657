//! Names that stay: what a piece of a schedule, a task and a buffer are called, whatever else is lowered around them.

use serde::{Deserialize, Serialize};

/// A piece of a step that is lowered by itself and stands together in the order.
///
/// An operator and a tensor have one for each micro-batch; there is one of them unless the order says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SegmentKey {
    /// The metrics of every rank are set to zero.
    ClearMetrics,
    /// What an operator reads of a tensor is brought to where it is read, unless an operator before did so.
    Read {
        /// The node that makes the tensor.
        tensor: u32,
        /// The operator that reads it.
        reader: u32,
        /// Number of the micro-batch.
        micro: u16,
    },
    /// Forward pass of an operator.
    Forward {
        /// The operator.
        node: u32,
        /// Number of the micro-batch.
        micro: u16,
    },
    /// The metrics of all ranks are added up.
    Metrics,
    /// The gradient of a tensor is put together from what its readers computed.
    Gradient {
        /// The node that makes the tensor.
        tensor: u32,
        /// Number of the micro-batch.
        micro: u16,
    },
    /// Backward pass of an operator.
    Backward {
        /// The operator.
        node: u32,
        /// Number of the micro-batch.
        micro: u16,
    },
    /// Gradients of a bucket are added up over the ranks that hold it.
    Exchange(BucketKey),
    /// Parameters of a bucket are moved, and handed out if each rank moves a share.
    Update(BucketKey),
}

/// A bucket is known by what comes first in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BucketKey {
    /// Number of the parameter in the model.
    pub param: u32,
    /// Which of the parameter's regions, in the order of the parts that hold them.
    pub region: u32,
}

/// A task: the segment in which it was lowered, and its number there. Tasks that others took in keep no place, but nobody else gets
/// their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskKey {
    /// Where it stands.
    pub segment: SegmentKey,
    /// Its number there.
    pub index: u32,
}

/// What a buffer is to the segment that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BufferRole {
    /// The sums of [`Schedule::metrics`](crate::Schedule::metrics); the part is the rank.
    Metrics,
    /// What a part makes.
    Output,
    /// The i-th buffer that a part keeps.
    Saved(u16),
    /// Targets of a part.
    Targets,
    /// Values of the i-th parameter; the part is the first on its rank that uses these.
    Param(u16),
    /// Gradient of the i-th parameter; the part as above.
    ParamGrad(u16),
    /// State of the i-th parameter, by number; the part as above.
    ParamState(u16),
    /// A part's own copy of the i-th parameter, which another part moves.
    ParamCopy(u16),
    /// What a part adds to the gradient of the i-th parameter.
    GradSummand(u16),
    /// Gradient of the i-th input of a part.
    InputGrad(u16),
    /// A region of a tensor where a part of its reader wants it, by input of the reader.
    Wanted(u16),
    /// A region of no elements.
    Nothing,
    /// Gradient of a piece of a tensor.
    PieceGrad,
    /// What is sent to another rank, by input of the reader.
    Sent(u16),
    /// What came from another rank, by input of the reader.
    Received(u16),
    /// Parameters of a bucket; the part is the member.
    BucketParams,
    /// Gradients of a bucket.
    BucketGrads,
    /// State of a bucket, by number.
    BucketState(u16),
    /// What compression holds back.
    HeldBack,
    /// The share of the parameters that a member moves.
    ShareOfParams,
    /// The share of the gradients that a member moves by.
    ShareOfGrads,
}

/// A buffer of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufferKey {
    /// The segment that makes it.
    pub owner: SegmentKey,
    /// What it is there.
    pub role: BufferRole,
    /// Of which part (or rank, or member).
    pub part: u32,
    /// Which of several, where a part has several: by piece or contribution.
    pub piece: u32,
}

impl BufferKey {
    /// The only one of its role and part.
    pub fn new(owner: SegmentKey, role: BufferRole, part: usize) -> Self {
        Self { owner, role, part: part as u32, piece: 0 }
    }
}

impl SegmentKey {
    /// The node whose operator or tensor it is of.
    pub fn node(&self) -> Option<usize> {
        match *self {
            Self::Forward { node, .. } | Self::Backward { node, .. } => Some(node as usize),
            Self::Read { tensor, .. } | Self::Gradient { tensor, .. } => Some(tensor as usize),
            Self::ClearMetrics | Self::Metrics | Self::Exchange(_) | Self::Update(_) => None,
        }
    }
}

//! Recommendations by memory size, as pages see them.
//!
//! Rule: the library computes every number; a page only formats it.

use serde::Serialize;
use ts_rs::TS;

use super::SpeedView;

/// Recommendations for a computer with this much memory.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct TierView {
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Bytes that models may use together.
    pub room_bytes: u64,
    /// It is this computer. The others are Macs of which only the memory is known.
    pub is_this_computer: bool,
    /// For conversation; `None` if nothing fits, also below.
    pub chat: Option<PickView>,
    /// For programming.
    pub code: Option<PickView>,
    /// Small and fast.
    pub small: Option<PickView>,
    /// Two models that fit together.
    pub pair: Option<PairView>,
}

/// A recommended model, in the variant that suits the computer.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct PickView {
    /// The entry's id.
    pub entry: String,
    /// Display name.
    pub name: String,
    /// `4-bit`, `Q4_K_M`, ….
    pub packing: String,
    /// Bytes of memory that it needs.
    pub need_bytes: u64,
    /// The estimated speed.
    pub speed: Option<SpeedView>,
}

/// Two models that fit together.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct PairView {
    /// The purpose of the second model.
    pub kind: PairKindView,
    /// The model that writes responses.
    pub main: PickView,
    /// The other model.
    pub second: PickView,
    /// Bytes of memory that both need together.
    pub need_bytes: u64,
}

/// The purpose of the second of two models. No engine runs such a model yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum PairKindView {
    /// Speculative decoding for the main model.
    Draft,
    /// Embeddings for search.
    Embedding,
}

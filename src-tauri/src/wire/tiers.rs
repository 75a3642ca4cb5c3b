//! What is recommended for computers of every size, in a window's terms.
//!
//! Rule: every figure is the catalogue's; a page only puts it into words.

use serde::Serialize;
use ts_rs::TS;

use super::SpeedView;

/// What is recommended for a computer with so much memory.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct TierView {
    /// Its memory.
    pub memory_bytes: u64,
    /// Of it, what models may use together.
    pub room_bytes: u64,
    /// It is this computer; the others are Macs of which nothing else is known.
    pub is_here: bool,
    /// For talking; `None` where nothing fits, as below.
    pub chat: Option<PickView>,
    /// For writing programs.
    pub code: Option<PickView>,
    /// Small and quick.
    pub small: Option<PickView>,
    /// What fits side by side.
    pub pair: Option<PairView>,
}

/// A recommended model, in the variant that suits the computer.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct PickView {
    /// The entry's id.
    pub entry: String,
    /// Name for people.
    pub name: String,
    /// `4-bit`, `Q4_K_M`, ….
    pub packing: String,
    /// Bytes of memory that it needs.
    pub need_bytes: u64,
    /// How fast it would answer.
    pub speed: Option<SpeedView>,
}

/// Two models that fit side by side.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct PairView {
    /// What the second is for.
    pub kind: PairKindView,
    /// The one that answers.
    pub main: PickView,
    /// The other one.
    pub second: PickView,
    /// Bytes of memory that both need together.
    pub need_bytes: u64,
}

/// What the second of two models is for. Nothing of it is done yet: no engine runs such a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum PairKindView {
    /// Guessing ahead for the main one.
    Draft,
    /// Finding texts that mean the same.
    Embedding,
}

//! Gemma 4 without an encoder for pictures: for text the same as `gemma4`.

use super::{Architecture, gemma4};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "gemma4_unified",
    ..gemma4::ARCHITECTURE
};

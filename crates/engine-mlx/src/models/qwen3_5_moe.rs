//! Qwen 3.5 and 3.6 with mixtures of experts: `qwen3_5` with an entry for experts.

use super::{Architecture, qwen3_5};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "qwen3_5_moe",
    size: qwen3_5::size,
    load: qwen3_5::load,
};

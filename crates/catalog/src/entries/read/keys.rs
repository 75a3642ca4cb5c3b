//! The keys that a catalog may have, by table.
//!
//! Rule: each key that is read is listed here, and the header of the built-in catalog explains it.

pub(in crate::entries) const MODEL: [&str; 17] = [
    "id",
    "name",
    "family",
    "description",
    "license",
    "tags",
    "source",
    "draft",
    "query_prefix",
    "document_prefix",
    "min_dimensions",
    "unverified",
    "sampling",
    "architecture",
    "variant",
    "path",
    "gguf",
];

pub(in crate::entries) const SAMPLING: [&str; 5] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
];

pub(in crate::entries) const ARCHITECTURE: [&str; 21] = [
    "model_type",
    "parameters",
    "active_parameters",
    "experts_per_token",
    "vision_parameters",
    "layers",
    "hidden_size",
    "heads",
    "kv_heads",
    "head_dim",
    "value_dim",
    "intermediate_size",
    "vocabulary",
    "context_length",
    "sliding_window",
    "sliding_layers",
    "sliding_kv_heads",
    "sliding_head_dim",
    "shared_layers",
    "linear_layers",
    "linear_state_bytes",
];

pub(in crate::entries) const VARIANT: [&str; 7] = [
    "format",
    "quantization",
    "repository",
    "revision",
    "size_bytes",
    "files",
    "unverified",
];

pub(in crate::entries) const FILE: [&str; 3] = ["name", "size_bytes", "sha256"];

pub(super) fn of_model() -> Vec<&'static str> {
    [&MODEL[..], &SAMPLING, &ARCHITECTURE].concat()
}

pub(super) fn of_variant() -> Vec<&'static str> {
    [&VARIANT[..], &FILE].concat()
}

//! Tests of the catalog: reading it, its errors, and following its files.
//!
//! Rule: each test changes the catalog in one place, so that it shows the purpose of that place.

// In these modules, also functions that are no tests may unwrap.
#[cfg(test)]
mod built_in;
#[cfg(test)]
mod damaged;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod facts;
#[cfg(test)]
mod merge;
#[cfg(test)]
mod watch;

use std::path::Path;

use transom_catalog::{Catalog, CatalogError};

/// A catalog that uses every key.
const FULL: &str = r#"[[model]]
id = "big"
name = "Big Model 7B"
family = "Big"
description = "For tests, and for no real work."
license = "Apache-2.0"
tags = ["chat", "reasoning"]
source = "https://example.org/big"
draft = "small"
unverified = ["sampling"]
[model.sampling]
temperature = 0.6
top_p = 0.95
top_k = 20
min_p = 0
repetition_penalty = 1.05
[model.architecture]
model_type = "qwen3"
parameters = 7_000_000_000
active_parameters = 3_000_000_000
experts_per_token = 8
layers = 36
hidden_size = 2560
heads = 32
kv_heads = 8
head_dim = 128
value_dim = 64
intermediate_size = 9728
vocabulary = 151_936
context_length = 40_960
sliding_window = 1024
sliding_layers = 20
linear_layers = 10
linear_state_bytes = 123_456
[[model.variant]]
format = "mlx"
quantization = "4-bit"
repository = "owner/Big-4bit"
revision = "0123abc"
size_bytes = 4_000_000_000
unverified = ["size_bytes"]
files = [
  { name = "model.safetensors", size_bytes = 3_900_000_000, sha256 = "AAAABBBBCCCCDDDDEEEEFFFF0000111122223333444455556666777788889999" },
  { name = "config.json", size_bytes = 1000 },
]
[[model.variant]]
format = "gguf"
quantization = "Q4_K_M"
repository = "owner/Big-GGUF"

[[model]]
id = "small"
name = "Small"
[model.architecture]
model_type = "qwen3"
parameters = 600_000_000
layers = 28
hidden_size = 1024
heads = 16
kv_heads = 8
head_dim = 128
intermediate_size = 3072
vocabulary = 151_936
context_length = 40_960
[[model.variant]]
format = "gguf"
quantization = "Q8_0"
repository = "owner/Small-GGUF"
"#;

fn read(text: &str) -> Result<Catalog, CatalogError> {
    Catalog::read(text, Path::new("models.toml"))
}

//! Makes small GGUF models for tests, with random weights and the starter's tokenizer and template, and
//! converts model folders to GGUF.
//!
//! Rule: equal specifications give equal files, byte by byte, on every machine.

pub mod convert;
pub mod damage;
mod gguf_writer;

use std::fs::File;
use std::path::{Path, PathBuf};

pub use convert::Quantization;
use convert::pack::pack_row;
use convert::plan::tensor_type;
use convert::tokenizer;
pub use gguf_writer::GgufWriter;

use crate::gguf::TensorType;

/// Tokens of the starter's vocabulary.
const VOCAB_SIZE: u32 = 16_384;
/// The first tokens, which are control tokens.
const N_CONTROL: u32 = 3;

/// The specification of a model. Sizes must be consistent, as in real models; heads have
/// `width / n_heads` elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TinyModel {
    /// `llama`, `qwen2`, `qwen3` or `gemma3` (every second layer with a sliding window).
    pub architecture: &'static str,
    /// Transformer layers.
    pub n_layers: u32,
    /// Hidden size; a multiple of 32.
    pub width: u32,
    /// Query heads.
    pub n_heads: u32,
    /// Key-value heads; a divisor of `n_heads`.
    pub n_kv_heads: u32,
    /// Width of the feed-forward layer.
    pub ff_width: u32,
    /// Context length that the file states.
    pub context_length: u32,
    /// The original context length of LongRoPE: a `llama` rotates keys with other factors if its cache
    /// is larger.
    pub long_rope: Option<u32>,
    /// Quantization of the matrices.
    pub quantization: Quantization,
    /// Another seed gives other weights.
    pub seed: u64,
}

impl Default for TinyModel {
    fn default() -> Self {
        Self {
            architecture: "llama",
            n_layers: 2,
            width: 256,
            n_heads: 4,
            n_kv_heads: 2,
            ff_width: 512,
            context_length: 2048,
            long_rope: None,
            quantization: Quantization::F16,
            seed: 1,
        }
    }
}

impl TinyModel {
    /// Writes the model, with the starter's 16,384 tokens and its chat template. Control tokens have
    /// empty rows in the output matrix, so a greedy response never ends by itself.
    ///
    /// # Panics
    /// If the sizes are inconsistent, or the file can't be written.
    pub fn write(&self, to: &Path) {
        let mut writer = GgufWriter::new();
        self.write_entries(&mut writer);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
        tokenizer::write(&folder, VOCAB_SIZE as usize, &mut writer).expect("the starter is sound");
        let mut weights = Weights {
            model: self,
            random: Random(self.seed),
            writer,
        };
        weights.write_all();
        let mut file = File::create(to).expect("the file can be made");
        let result = weights.writer.write(&mut file);
        result.expect("the file can be written");
    }

    /// Writes the model into a new folder, which is deleted when the value is dropped.
    ///
    /// # Panics
    /// Like [`Self::write`].
    pub fn write_temporary(&self) -> TemporaryModel {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("tiny.gguf");
        self.write(&path);
        TemporaryModel { path, folder }
    }

    fn head_dim(&self) -> u32 {
        assert!(self.width.is_multiple_of(self.n_heads), "{self:?}");
        assert!(self.n_heads.is_multiple_of(self.n_kv_heads), "{self:?}");
        self.width / self.n_heads
    }

    fn write_entries(&self, to: &mut GgufWriter) {
        let head_dim = self.head_dim();
        to.string("general.architecture", self.architecture)
            .string("general.type", "model")
            .string("general.name", &format!("tiny {}", self.architecture))
            .u32("general.file_type", self.quantization.file_type())
            .u32("general.quantization_version", 2);
        let key = |key: &str| format!("{}.{key}", self.architecture);
        to.u32(&key("vocab_size"), VOCAB_SIZE)
            .u32(&key("context_length"), self.context_length)
            .u32(&key("embedding_length"), self.width)
            .u32(&key("block_count"), self.n_layers)
            .u32(&key("feed_forward_length"), self.ff_width)
            .u32(&key("attention.head_count"), self.n_heads)
            .u32(&key("attention.head_count_kv"), self.n_kv_heads)
            .u32(&key("attention.key_length"), head_dim)
            .u32(&key("attention.value_length"), head_dim)
            .u32(&key("rope.dimension_count"), head_dim)
            .f32(&key("rope.freq_base"), 10_000.0)
            .f32(&key("attention.layer_norm_rms_epsilon"), 1e-6);
        if let Some(original) = self.long_rope {
            to.string(&key("rope.scaling.type"), "longrope")
                .u32(&key("rope.scaling.original_context_length"), original);
        }
        if self.architecture == "gemma3" {
            to.u32(&key("attention.sliding_window"), self.sliding_window())
                .u32(&key("attention.sliding_window_pattern"), 2);
        }
    }

    /// Returns the window of the sliding layers in a `gemma3`.
    pub fn sliding_window(&self) -> u32 {
        (self.context_length / 8).max(64)
    }
}

/// A model in a temporary folder.
#[derive(Debug)]
pub struct TemporaryModel {
    /// The file.
    pub path: PathBuf,
    /// Its folder, which is deleted with this value.
    pub folder: tempfile::TempDir,
}

/// Random numbers from SplitMix64, which is exact on every machine.
struct Random(u64);

impl Random {
    /// Returns a number between -1 and 1.
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let mixed = mixed ^ (mixed >> 31);
        // 24 bits, which fit in an f32.
        (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Adds tensors with random elements.
struct Weights<'a> {
    model: &'a TinyModel,
    random: Random,
    writer: GgufWriter,
}

impl Weights<'_> {
    fn write_all(&mut self) {
        let model = self.model;
        let (width, ff_width) = (model.width, model.ff_width);
        let key_width = model.n_kv_heads * model.head_dim();
        self.matrix("token_embd", [VOCAB_SIZE, width]);
        for layer in 0..model.n_layers {
            let name = |part: &str| format!("blk.{layer}.{part}");
            self.norm(&name("attn_norm"), width);
            self.matrix(&name("attn_q"), [width, width]);
            self.matrix(&name("attn_k"), [key_width, width]);
            self.matrix(&name("attn_v"), [key_width, width]);
            self.matrix(&name("attn_output"), [width, width]);
            self.norm(&name("ffn_norm"), width);
            self.matrix(&name("ffn_gate"), [ff_width, width]);
            self.matrix(&name("ffn_up"), [ff_width, width]);
            self.matrix(&name("ffn_down"), [width, ff_width]);
            match model.architecture {
                "llama" => {}
                "qwen2" => {
                    for (part, length) in [("q", width), ("k", key_width), ("v", key_width)] {
                        self.vector(&name(&format!("attn_{part}.bias")), length, 0.0);
                    }
                }
                "qwen3" | "gemma3" => {
                    self.norm(&name("attn_q_norm"), model.head_dim());
                    self.norm(&name("attn_k_norm"), model.head_dim());
                }
                other => panic!("no tiny model of the architecture {other}"),
            }
            if model.architecture == "gemma3" {
                self.norm(&name("post_attention_norm"), width);
                self.norm(&name("post_ffw_norm"), width);
            }
        }
        if model.long_rope.is_some() {
            for (length, factor) in [("short", 1.0), ("long", 8.0)] {
                let name = format!("rope_factors_{length}.weight");
                self.vector(&name, model.head_dim() / 2, factor);
            }
        }
        self.norm("output_norm", width);
        self.matrix("output", [VOCAB_SIZE, width]);
    }

    /// Adds a matrix whose products have about the size of the inputs. Those of the output matrix are
    /// three times as large, so that one token is clearly the most likely.
    fn matrix(&mut self, name: &str, [n_rows, n_columns]: [u32; 2]) {
        let kind = tensor_type(self.model.quantization, n_columns as usize);
        let is_output = name == "output";
        // Numbers between -1 and 1 have the variance 1/3.
        let size = (3.0 / n_columns as f32).sqrt() * if is_output { 3.0 } else { 1.0 };
        let (mut row, mut packed) = (vec![0.0; n_columns as usize], Vec::new());
        for index in 0..n_rows {
            row.fill_with(|| self.random.next() * size);
            if is_output && index < N_CONTROL {
                row.fill(0.0);
            }
            pack_row(kind, &row, &mut packed).expect("small numbers fit every type");
        }
        let shape = [u64::from(n_columns), u64::from(n_rows)];
        self.writer
            .tensor(&format!("{name}.weight"), &shape, kind, packed);
    }

    fn norm(&mut self, name: &str, length: u32) {
        self.vector(&format!("{name}.weight"), length, 1.0);
    }

    /// Adds a vector of numbers close to `middle`.
    fn vector(&mut self, name: &str, length: u32, middle: f32) {
        let numbers = (0..length).map(|_| middle + self.random.next() * 0.1);
        let bytes = numbers.flat_map(f32::to_le_bytes).collect();
        self.writer
            .tensor(name, &[length.into()], TensorType::F32, bytes);
    }
}

#[cfg(test)]
mod tests;

//! Plans the tensors of the file: their GGUF names, their types, and the order of their rows.
//!
//! Rule: each tensor of the folder is used or refused; none is left out silently.

use std::collections::BTreeSet;

use super::config::{Family, ModelConfig};
use super::weights::{Matrix, Weights};
use super::{Quantization, damaged, unsupported};
use crate::file_error::FileError;
use crate::gguf::TensorType;

pub(super) struct Planned<'a> {
    pub(super) name: String,
    pub(super) kind: TensorType,
    pub(super) matrix: Matrix<'a>,
    pub(super) order: RowOrder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowOrder {
    Kept,
    /// Rotary embedding rotates pairs of a head's elements. The folder's models pair the first half
    /// with the second, llama.cpp's `llama` pairs neighbors.
    Neighbors {
        head_dim: usize,
    },
}

impl RowOrder {
    /// Returns the folder's row that becomes row `row` of the file.
    pub(super) fn source(self, row: usize) -> usize {
        match self {
            Self::Kept => row,
            Self::Neighbors { head_dim } => {
                let (head, place) = (row / head_dim, row % head_dim);
                head * head_dim + place % 2 * (head_dim / 2) + place / 2
            }
        }
    }
}

impl Planned<'_> {
    /// Returns the shape in the file, the fastest axis first.
    pub(super) fn shape(&self) -> Vec<u64> {
        match (self.matrix.n_rows, self.matrix.n_columns) {
            (n_rows, 1) => vec![n_rows as u64],
            (n_rows, n_columns) => vec![n_columns as u64, n_rows as u64],
        }
    }
}

/// A layer of the folder: its name in the folder and in GGUF, its sizes, and optional parts.
struct Part {
    from: &'static str,
    to: &'static str,
    n_rows: usize,
    n_columns: usize,
    /// True if llama.cpp reads a bias for it.
    may_have_bias: bool,
    order: RowOrder,
}

pub(super) fn plan<'a>(
    config: &ModelConfig,
    weights: &'a Weights,
    quantization: Quantization,
) -> Result<Vec<Planned<'a>>, FileError> {
    let mut planner = Planner {
        config,
        weights,
        quantization,
        planned: Vec::new(),
        used: BTreeSet::new(),
    };
    let has_head = weights.contains("lm_head.weight");
    let is_tied = config.ties_embeddings.unwrap_or(!has_head);
    let (vocab, width) = (config.vocab_size, config.width);
    let embeddings = [vocab, width];
    planner.matrix(
        "model.embed_tokens",
        "token_embd",
        embeddings,
        RowOrder::Kept,
    )?;
    for layer in 0..config.n_layers {
        planner.layer(layer)?;
    }
    planner.vector(
        "model.norm.weight",
        "output_norm.weight",
        width,
        RowOrder::Kept,
    )?;
    if is_tied {
        // An output matrix that is stored although the embeddings are tied is a copy of them.
        planner.skip("lm_head");
    } else {
        planner.matrix("lm_head", "output", embeddings, RowOrder::Kept)?;
    }
    if let Some(factors) = config.rope_factors() {
        let matrix = Matrix::computed("rope_scaling", &config.path, factors);
        planner.planned.push(Planned {
            name: "rope_freqs.weight".to_owned(),
            kind: TensorType::F32,
            matrix,
            order: RowOrder::Kept,
        });
    }
    planner.finish()
}

/// Returns the type of a matrix with rows of `n_columns`.
pub(crate) fn tensor_type(quantization: Quantization, n_columns: usize) -> TensorType {
    let kind = match quantization {
        Quantization::F32 => TensorType::F32,
        Quantization::F16 => TensorType::F16,
        Quantization::Q8_0 => TensorType::Q8_0,
        Quantization::Q4_1 => TensorType::Q4_1,
    };
    match (n_columns as u64).is_multiple_of(kind.block_elements()) {
        true => kind,
        false => TensorType::F16,
    }
}

struct Planner<'a, 'c> {
    config: &'c ModelConfig,
    weights: &'a Weights,
    quantization: Quantization,
    planned: Vec<Planned<'a>>,
    used: BTreeSet<String>,
}

impl<'a> Planner<'a, '_> {
    fn layer(&mut self, layer: usize) -> Result<(), FileError> {
        let config = self.config;
        let (from, to) = (format!("model.layers.{layer}"), format!("blk.{layer}"));
        for (norm, name) in [
            ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", "ffn_norm"),
        ] {
            let (norm, name) = (
                format!("{from}.{norm}.weight"),
                format!("{to}.{name}.weight"),
            );
            self.vector(&norm, &name, config.width, RowOrder::Kept)?;
        }
        if config.family == Family::Qwen3 {
            for kind in ["q", "k"] {
                let norm = format!("{from}.self_attn.{kind}_norm.weight");
                let name = format!("{to}.attn_{kind}_norm.weight");
                self.vector(&norm, &name, config.head_dim, RowOrder::Kept)?;
            }
        }
        for part in parts(config) {
            let (from, to) = (format!("{from}.{}", part.from), format!("{to}.{}", part.to));
            self.matrix(&from, &to, [part.n_rows, part.n_columns], part.order)?;
            let bias = format!("{from}.bias");
            if part.may_have_bias && self.weights.contains(&bias) {
                self.vector(&bias, &format!("{to}.bias"), part.n_rows, part.order)?;
            }
        }
        // A buffer of old files, which every engine computes itself.
        self.used
            .insert(format!("{from}.self_attn.rotary_emb.inv_freq"));
        Ok(())
    }

    fn matrix(
        &mut self,
        from: &str,
        to: &str,
        [n_rows, n_columns]: [usize; 2],
        order: RowOrder,
    ) -> Result<(), FileError> {
        let matrix = self
            .weights
            .matrix(from, self.config.quantization.as_ref())?;
        check_size(&matrix, n_rows, n_columns)?;
        self.skip(from);
        self.planned.push(Planned {
            name: format!("{to}.weight"),
            kind: tensor_type(self.quantization, n_columns),
            matrix,
            order,
        });
        Ok(())
    }

    fn vector(
        &mut self,
        from: &str,
        to: &str,
        length: usize,
        order: RowOrder,
    ) -> Result<(), FileError> {
        let matrix = self.weights.vector(from)?;
        check_size(&matrix, length, 1)?;
        self.used.insert(from.to_owned());
        self.planned.push(Planned {
            name: to.to_owned(),
            kind: TensorType::F32,
            matrix,
            order,
        });
        Ok(())
    }

    /// Marks the tensors of a layer as used.
    fn skip(&mut self, layer: &str) {
        for kind in ["weight", "scales", "biases"] {
            self.used.insert(format!("{layer}.{kind}"));
        }
    }

    fn finish(self) -> Result<Vec<Planned<'a>>, FileError> {
        let left = self
            .weights
            .names()
            .find(|(name, _)| !self.used.contains(*name));
        match left {
            None => Ok(self.planned),
            Some((name, path)) => {
                let what = format!("a tensor of a {} model", self.config.family.architecture());
                Err(unsupported(path, what, name))
            }
        }
    }
}

fn check_size(matrix: &Matrix<'_>, n_rows: usize, n_columns: usize) -> Result<(), FileError> {
    if (matrix.n_rows, matrix.n_columns) == (n_rows, n_columns) {
        return Ok(());
    }
    let reason = format!(
        "{} is {} x {}, but config.json makes it {n_rows} x {n_columns}",
        matrix.name, matrix.n_rows, matrix.n_columns
    );
    Err(damaged(&matrix.path, reason))
}

fn parts(config: &ModelConfig) -> [Part; 7] {
    let is_llama = config.family == Family::Llama;
    let order = if is_llama {
        RowOrder::Neighbors {
            head_dim: config.head_dim,
        }
    } else {
        RowOrder::Kept
    };
    let queries = config.n_heads * config.head_dim;
    let keys = config.n_kv_heads * config.head_dim;
    let (width, ff) = (config.width, config.ff_width);
    let part = |from, to, n_rows, n_columns| Part {
        from,
        to,
        n_rows,
        n_columns,
        may_have_bias: is_llama,
        order: RowOrder::Kept,
    };
    let attention = |from, to, n_rows, order| Part {
        may_have_bias: true,
        order,
        ..part(from, to, n_rows, width)
    };
    [
        attention("self_attn.q_proj", "attn_q", queries, order),
        attention("self_attn.k_proj", "attn_k", keys, order),
        attention("self_attn.v_proj", "attn_v", keys, RowOrder::Kept),
        part("self_attn.o_proj", "attn_output", width, queries),
        part("mlp.gate_proj", "ffn_gate", ff, width),
        part("mlp.up_proj", "ffn_up", ff, width),
        part("mlp.down_proj", "ffn_down", width, ff),
    ]
}

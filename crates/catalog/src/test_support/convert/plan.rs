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
    /// The size of a head, if its rows change their order. Rotary embedding rotates pairs of a head's
    /// elements: the folder's models pair the first half with the second, llama.cpp's `llama` pairs
    /// neighbors.
    head_dim: Option<usize>,
}

impl Planned<'_> {
    /// Returns the shape in the file, the fastest axis first.
    pub(super) fn shape(&self) -> Vec<u64> {
        match (self.matrix.n_rows, self.matrix.n_columns) {
            (n_rows, 1) => vec![n_rows as u64],
            (n_rows, n_columns) => vec![n_columns as u64, n_rows as u64],
        }
    }

    /// Returns the folder's row that becomes row `row` of the file.
    pub(super) fn source(&self, row: usize) -> usize {
        self.head_dim.map_or(row, |head_dim| {
            let (head, place) = (row / head_dim, row % head_dim);
            head * head_dim + place % 2 * (head_dim / 2) + place / 2
        })
    }
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
    planner.matrix("model.embed_tokens", "token_embd", embeddings, None)?;
    for layer in 0..config.n_layers {
        planner.layer(layer)?;
    }
    planner.vector("model.norm.weight", "output_norm.weight", width, None)?;
    if is_tied {
        // An output matrix that is stored although the embeddings are tied is a copy of them.
        planner.skip("lm_head");
    } else {
        planner.matrix("lm_head", "output", embeddings, None)?;
    }
    if let Some(factors) = config.rope_factors() {
        let matrix = Matrix::computed("rope_scaling", &config.path, factors);
        planner.planned.push(Planned {
            name: "rope_freqs.weight".to_owned(),
            kind: TensorType::F32,
            matrix,
            head_dim: None,
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
        let (width, ff, head_dim) = (config.width, config.ff_width, config.head_dim);
        let (queries, keys) = (config.n_heads * head_dim, config.n_kv_heads * head_dim);
        let is_llama = config.family == Family::Llama;
        let rotated = is_llama.then_some(head_dim);
        let (from, to) = (format!("model.layers.{layer}"), format!("blk.{layer}"));
        let mut norms = vec![
            ("input_layernorm", "attn_norm", width),
            ("post_attention_layernorm", "ffn_norm", width),
        ];
        if config.family == Family::Qwen3 {
            norms.push(("self_attn.q_norm", "attn_q_norm", head_dim));
            norms.push(("self_attn.k_norm", "attn_k_norm", head_dim));
        }
        for (norm, name, length) in norms {
            let (norm, name) = (
                format!("{from}.{norm}.weight"),
                format!("{to}.{name}.weight"),
            );
            self.vector(&norm, &name, length, None)?;
        }
        // With the sizes, the order of the rows, and whether llama.cpp reads a bias.
        for (part, name, size, order, may_have_bias) in [
            (
                "self_attn.q_proj",
                "attn_q",
                [queries, width],
                rotated,
                true,
            ),
            ("self_attn.k_proj", "attn_k", [keys, width], rotated, true),
            ("self_attn.v_proj", "attn_v", [keys, width], None, true),
            (
                "self_attn.o_proj",
                "attn_output",
                [width, queries],
                None,
                is_llama,
            ),
            ("mlp.gate_proj", "ffn_gate", [ff, width], None, is_llama),
            ("mlp.up_proj", "ffn_up", [ff, width], None, is_llama),
            ("mlp.down_proj", "ffn_down", [width, ff], None, is_llama),
        ] {
            let (from, to) = (format!("{from}.{part}"), format!("{to}.{name}"));
            self.matrix(&from, &to, size, order)?;
            let bias = format!("{from}.bias");
            if may_have_bias && self.weights.contains(&bias) {
                self.vector(&bias, &format!("{to}.bias"), size[0], order)?;
            }
        }
        // A buffer of old files, which every engine computes itself.
        let buffer = format!("{from}.self_attn.rotary_emb.inv_freq");
        self.used.insert(buffer);
        Ok(())
    }

    fn matrix(
        &mut self,
        from: &str,
        to: &str,
        [n_rows, n_columns]: [usize; 2],
        head_dim: Option<usize>,
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
            head_dim,
        });
        Ok(())
    }

    fn vector(
        &mut self,
        from: &str,
        to: &str,
        length: usize,
        head_dim: Option<usize>,
    ) -> Result<(), FileError> {
        let matrix = self.weights.vector(from)?;
        check_size(&matrix, length, 1)?;
        self.used.insert(from.to_owned());
        self.planned.push(Planned {
            name: to.to_owned(),
            kind: TensorType::F32,
            matrix,
            head_dim,
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

//! Gemma 4 (Gemma Team 2026): as Gemma 3 with normalised values and larger heads in the layers that
//! see all, whose keys may be their values. The small ones have a table of tokens for each block and
//! let late layers look at the keys of earlier ones; one has experts beside its feed-forward layers.

mod args;

use transom_engine::EngineError;

pub(super) use self::args::Args;
use super::stack::TextPaths;
use super::{Architecture, ModelSize};
use crate::config::ModelConfig;
use crate::error::Context;
use crate::nn::{
    Activation, Block, DenseBesideExperts, ExpertShape, Experts, Gate, GatedMlp, KeySource,
    RmsNorm, Rope, Routing, SharingAttention, SharingForm, TokenGate, TokenTables, Transformer,
};
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "gemma4_text",
    size,
    load,
};

/// Numbers of the ropes in [`Transformer`], and of the keys that layers of a kind share.
const GLOBAL: usize = 0;
const LOCAL: usize = 1;

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    Args::plain(config)?.size(config)
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    Args::plain(config)?.load(config, loader)
}

impl Args {
    /// Builds the model.
    pub(super) fn load(
        &self,
        config: &ModelConfig,
        loader: &mut Loader<'_>,
    ) -> Result<Transformer, EngineError> {
        let on_cpu = loader.compute().is_cpu();
        let windows = self.windows(config)?;
        let ropes = self.ropes(config)?;
        let TextPaths { model, head } = TextPaths::found_in(loader);
        let table = format!("{model}.embed_tokens");
        let embedding = loader.embedding(&table, self.vocab_size, self.hidden_size)?;
        let token_tables = self.load_token_tables(loader, model)?;
        let mut blocks = Vec::new();
        for layer in 0..self.num_hidden_layers {
            let path = format!("{model}.layers.{layer}");
            blocks.push(self.load_block(loader, &path, layer, windows.of(layer))?);
        }
        let head = if self.tie_word_embeddings {
            None
        } else {
            Some(loader.linear(head, self.hidden_size, self.vocab_size)?)
        };
        Ok(Transformer {
            embedding,
            embedding_scale: Some((self.hidden_size as f32).sqrt()),
            token_tables,
            blocks,
            norm: self.norm(loader, &format!("{model}.norm"), self.hidden_size)?,
            head,
            logit_cap: self.final_logit_softcapping,
            ropes: ropes.iter().map(|form| Rope::new(form, on_cpu)).collect(),
            on_cpu,
        })
    }

    fn load_token_tables(
        &self,
        loader: &mut Loader<'_>,
        model: &str,
    ) -> Result<Option<TokenTables>, EngineError> {
        let (width, n_blocks) = (self.hidden_size_per_layer_input, self.num_hidden_layers);
        if width == 0 {
            return Ok(None);
        }
        let n_out = width * n_blocks;
        let table = format!("{model}.embed_tokens_per_layer");
        let projection = format!("{model}.per_layer_model_projection");
        Ok(Some(TokenTables {
            embedding: loader.embedding(&table, self.vocab_size_per_layer_input, n_out)?,
            embedding_scale: (width as f32).sqrt(),
            projection: loader.linear(&projection, self.hidden_size, n_out)?,
            projection_scale: (self.hidden_size as f32).sqrt().recip(),
            norm: self.norm(loader, &format!("{model}.per_layer_projection_norm"), width)?,
            n_blocks,
            width,
        }))
    }

    fn load_block(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        layer: i32,
        window: Option<i32>,
    ) -> Result<Block, EngineError> {
        let norm = |loader: &mut Loader<'_>, name: &str| {
            self.norm(loader, &format!("{path}.{name}"), self.hidden_size)
        };
        let slides = self.slides(layer);
        let is_shared = layer >= self.n_own();
        let kind = if slides { LOCAL } else { GLOBAL };
        let form = SharingForm {
            shape: self.shape(slides),
            source: if is_shared {
                KeySource::Shared
            } else if self.attention_k_eq_v && !slides {
                KeySource::OwnForBoth
            } else {
                KeySource::Own
            },
            epsilon: self.rms_norm_eps,
            number: kind,
            rope: kind,
            window,
        };
        let mixer_norm = norm(loader, "input_layernorm")?;
        let mixer = SharingAttention::load(loader, &format!("{path}.self_attn"), form)?;
        let mixer_output_norm = norm(loader, "post_attention_layernorm")?;
        let width = if self.use_double_wide_mlp && is_shared {
            2 * self.intermediate_size
        } else {
            self.intermediate_size
        };
        let mlp_norm = norm(loader, "pre_feedforward_layernorm")?;
        let mlp = GatedMlp::load(loader, &format!("{path}.mlp"), self.hidden_size, width)?
            .with_gate(Gate::GeluTanh, loader);
        let mut block = match self.experts() {
            None => Block::new(mixer_norm, mixer, mlp_norm, mlp),
            Some(shape) => {
                let dense_output_norm = norm(loader, "post_feedforward_layernorm_1")?;
                let both = DenseBesideExperts {
                    dense_norm: mlp_norm,
                    dense: mlp,
                    dense_output_norm,
                    router_norm: self.router_norm(loader, path)?,
                    experts_norm: norm(loader, "pre_feedforward_layernorm_2")?,
                    experts: self.load_experts(loader, path, shape)?,
                    experts_output_norm: norm(loader, "post_feedforward_layernorm_2")?,
                };
                Block::without_mlp_norm(mixer_norm, mixer, both)
            }
        };
        block.mixer_output_norm = Some(mixer_output_norm);
        block.mlp_output_norm = Some(norm(loader, "post_feedforward_layernorm")?);
        block.token_gate = self.load_token_gate(loader, path)?;
        let scale = format!("{path}.layer_scalar");
        if loader.contains(&scale) {
            block.output_scale = Some(loader.vector(&scale, 1)?);
        }
        Ok(block)
    }

    fn load_experts(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        shape: ExpertShape,
    ) -> Result<Experts, EngineError> {
        let factors = format!("{path}.router.per_expert_scale");
        let factors = loader.vector(&factors, shape.n_experts)?;
        let activation = Activation::new(Gate::GeluTanh, loader.compute().is_cpu());
        let routing = Routing::TopThenSoftmax;
        let experts = Experts::load(loader, path, "router.proj", shape, routing, activation)?;
        Ok(experts.with_factors(factors))
    }

    fn load_token_gate(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
    ) -> Result<Option<TokenGate>, EngineError> {
        let (width, hidden_size) = (self.hidden_size_per_layer_input, self.hidden_size);
        if width == 0 {
            return Ok(None);
        }
        let gate = format!("{path}.per_layer_input_gate");
        let projection = format!("{path}.per_layer_projection");
        let norm = format!("{path}.post_per_layer_input_norm");
        Ok(Some(TokenGate {
            gate: loader.linear(&gate, hidden_size, width)?,
            activation: Activation::new(Gate::GeluTanh, loader.compute().is_cpu()),
            projection: loader.linear(&projection, width, hidden_size)?,
            norm: self.norm(loader, &norm, hidden_size)?,
        }))
    }

    fn norm(&self, loader: &mut Loader<'_>, path: &str, size: i32) -> Result<RmsNorm, EngineError> {
        let weight = loader.vector(&format!("{path}.weight"), size)?;
        Ok(RmsNorm::new(weight, self.rms_norm_eps))
    }

    /// The router divides its scale by the root of the width.
    fn router_norm(&self, loader: &mut Loader<'_>, path: &str) -> Result<RmsNorm, EngineError> {
        let scale = loader.vector(&format!("{path}.router.scale"), self.hidden_size)?;
        let root = mlx_rs::Array::from_f32((self.hidden_size as f32).sqrt().recip());
        let weight = root
            .as_dtype(scale.dtype())
            .and_then(|root| scale.multiply(root));
        let weight = weight.during(path)?;
        weight.eval().during(path)?;
        Ok(RmsNorm::new(weight, self.rms_norm_eps))
    }
}

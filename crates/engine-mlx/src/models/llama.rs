//! Llama 2 and 3 (Touvron et al. 2023; Grattafiori et al. 2024), and the forward pass of all
//! architectures of the same form.
//!
//! A layer computes `x + mixer(norm(x))`, then `x + mlp(norm(x))`. An architecture of this form is
//! described by the options of its layers. Three of them need none: Llama; Qwen 2 and 2.5, whose
//! weights have biases; Phi 3 and 4, whose weights have fused matrices.

use mlx_rs::Array;
use transom_engine::EngineError;

use super::args::DecoderArgs;
use super::{Architecture, ModelSize, Parsed};
use crate::config::ModelConfig;
use crate::error::MlxResult;
use crate::kv_cache::LayerCache;
use crate::nn::{
    Attention, AttentionOptions, CachedLayer, ExpertOptions, Experts, Gate, GatedDeltaNet,
    GatedDeltaShape, GatedMlp, Mlp, Norms, RmsNorm, Rope, Step, Transformer,
};
use crate::weights::Loader;

pub(super) struct Llama {
    args: DecoderArgs,
    layers: Vec<LayerOptions>,
}

/// What distinguishes a layer from Llama's.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerOptions {
    pub(super) mixer: MixerOptions,
    /// The mixture of experts; `None` for a dense feed-forward layer.
    pub(super) experts: Option<ExpertOptions>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum MixerOptions {
    Attention(AttentionOptions),
    Recurrent(GatedDeltaShape),
}

impl From<AttentionOptions> for LayerOptions {
    fn from(attention: AttentionOptions) -> Self {
        Self {
            mixer: MixerOptions::Attention(attention),
            experts: None,
        }
    }
}

/// Parses a Llama, Phi 3 or 4, Qwen 2 or 2.5.
pub(super) fn plain(config: &ModelConfig) -> Parsed {
    let args = DecoderArgs::from_config(config)?;
    Ok(Llama::boxed(args, |_| AttentionOptions::default().into()))
}

/// Parses a Qwen 3 (Yang et al. 2025), which normalizes each head's queries and keys.
pub(super) fn with_head_norms(config: &ModelConfig) -> Parsed {
    let args = DecoderArgs::from_config(config)?;
    let attention = AttentionOptions {
        has_head_norms: true,
        ..AttentionOptions::default()
    };
    Ok(Llama::boxed(args, |_| attention.into()))
}

impl Llama {
    /// Returns the architecture with the options that `layer` returns for the number of each layer.
    pub(super) fn boxed(
        args: DecoderArgs,
        layer: impl Fn(i32) -> LayerOptions,
    ) -> Box<dyn Architecture> {
        let layers = (0..args.num_hidden_layers).map(layer).collect();
        Box::new(Self { args, layers })
    }

    /// Returns how the checkpoint stores norms. The authors of models with recurrent layers store
    /// them minus one. mlx-lm adds the one when it converts a checkpoint, and transposes the weights
    /// of the convolution, which identifies its checkpoints.
    fn norms(&self, loader: &Loader<'_>, model: &str) -> Result<Norms, EngineError> {
        let is_recurrent = |layer: &LayerOptions| matches!(layer.mixer, MixerOptions::Recurrent(_));
        let are_minus_one = match self.layers.iter().position(is_recurrent) {
            Some(layer) => {
                let name = format!("{model}.layers.{layer}.linear_attn.conv1d.weight");
                loader.shape(&name)?.last() != Some(&1)
            }
            None => false,
        };
        Ok(Norms {
            epsilon: self.args.rms_norm_eps,
            are_minus_one,
        })
    }

    fn load_layer(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        options: &LayerOptions,
        norms: Norms,
    ) -> Result<LlamaLayer, EngineError> {
        let args = &self.args;
        let norm = |loader: &mut Loader<'_>, name: &str| {
            norms.load(loader, &format!("{path}.{name}"), args.hidden_size)
        };
        let mixer_norm = norm(loader, "input_layernorm")?;
        let mixer: Box<dyn CachedLayer> = match options.mixer {
            MixerOptions::Attention(options) => {
                let path = format!("{path}.self_attn");
                let shape = args.attention_shape();
                Box::new(Attention::load(loader, &path, shape, options, norms)?)
            }
            MixerOptions::Recurrent(shape) => {
                let path = format!("{path}.linear_attn");
                Box::new(GatedDeltaNet::load(loader, &path, shape, norms.epsilon)?)
            }
        };
        let mlp_norm = norm(loader, "post_attention_layernorm")?;
        let path = format!("{path}.mlp");
        let mlp = match options.experts {
            Some(options) => Mlp::Experts(Box::new(Experts::load(loader, &path, options)?)),
            None => {
                let (n_in, width) = (args.hidden_size, args.intermediate_size);
                Mlp::Dense(GatedMlp::load(loader, &path, n_in, width, Gate::Silu)?)
            }
        };
        Ok(LlamaLayer {
            mixer_norm,
            mixer,
            mlp_norm,
            mlp,
        })
    }
}

impl Architecture for Llama {
    fn size(&self) -> ModelSize {
        self.args.size()
    }

    fn load(&self, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
        let args = &self.args;
        let (model, lm_head) = super::tensor_paths(loader);
        let norms = self.norms(loader, model)?;
        let table = format!("{model}.embed_tokens");
        let embedding = loader.matrix(&table, args.hidden_size, args.vocab_size)?;
        let mut layers = Vec::new();
        for (layer, options) in self.layers.iter().enumerate() {
            let path = format!("{model}.layers.{layer}");
            layers.push(self.load_layer(loader, &path, options, norms)?);
        }
        let has_head = || loader.contains(&format!("{lm_head}.weight"));
        let is_tied = args.tie_word_embeddings.unwrap_or_else(|| !has_head());
        let lm_head = (!is_tied).then(|| loader.linear(lm_head, args.hidden_size, args.vocab_size));
        let on_cpu = loader.compute().is_cpu();
        Ok(Transformer {
            embedding,
            embedding_scale: None,
            layers: Box::new(layers),
            norm: norms.load(loader, &format!("{model}.norm"), args.hidden_size)?,
            lm_head: lm_head.transpose()?,
            logit_softcap: None,
            ropes: vec![Rope::new(&args.rope, on_cpu)],
            on_cpu,
            quantizes_parked: false,
        })
    }
}

struct LlamaLayer {
    mixer_norm: RmsNorm,
    mixer: Box<dyn CachedLayer>,
    mlp_norm: RmsNorm,
    mlp: Mlp,
}

impl CachedLayer for LlamaLayer {
    fn forward(
        &self,
        x: &Array,
        step: &Step<'_>,
        caches: &mut [&mut LayerCache],
    ) -> MlxResult<Array> {
        let normed = self.mixer_norm.forward(x)?;
        let x = x.add(self.mixer.forward(&normed, step, caches)?)?;
        let normed = self.mlp_norm.forward(&x)?;
        x.add(self.mlp.forward(&normed)?)
    }

    fn new_cache(&self) -> LayerCache {
        self.mixer.new_cache()
    }
}

//! The hybrid Qwen models: of every few layers one attends to all tokens, and the others carry a
//! state of fixed size (`nn/gated_delta`). What their checkpoints have in common.

use serde::Deserialize;
use transom_engine::EngineError;

use super::args::{DecoderArgs, ModelSize};
use super::mixture::MixtureArgs;
use super::stack::{NormWeights, Stack, TextPaths};
use crate::config::{ModelConfig, bad};
use crate::error::Context;
use crate::nn::{Attention, GatedDeltaNet, GatedDeltaShape, GatedMlp, Mixer, Transformer};
use crate::weights::Loader;

/// The entries that recurrent layers add.
#[derive(Debug, Clone, Deserialize)]
struct Args {
    linear_num_key_heads: i32,
    linear_num_value_heads: i32,
    linear_key_head_dim: i32,
    linear_value_head_dim: i32,
    linear_conv_kernel_dim: i32,
    /// Every so many-th layer attends.
    #[serde(default = "every_fourth")]
    full_attention_interval: i32,
    /// What each layer is; says the same where it is there.
    layer_types: Option<Vec<String>>,
}

fn every_fourth() -> i32 {
    4
}

impl Args {
    fn from_config(config: &ModelConfig, n_layers: i32) -> Result<Self, EngineError> {
        let args: Self = config.parse()?;
        args.check(config, n_layers)?;
        Ok(args)
    }

    fn check(&self, config: &ModelConfig, n_layers: i32) -> Result<(), EngineError> {
        for (name, value, min, max) in [
            (
                "linear_num_key_heads",
                self.linear_num_key_heads,
                1,
                1 << 10,
            ),
            (
                "linear_num_value_heads",
                self.linear_num_value_heads,
                1,
                1 << 10,
            ),
            ("linear_key_head_dim", self.linear_key_head_dim, 1, 1 << 12),
            (
                "linear_value_head_dim",
                self.linear_value_head_dim,
                1,
                1 << 12,
            ),
            // One would be no convolution, and its two layouts the same.
            ("linear_conv_kernel_dim", self.linear_conv_kernel_dim, 2, 64),
            (
                "full_attention_interval",
                self.full_attention_interval,
                1,
                1 << 10,
            ),
        ] {
            if !(min..=max).contains(&value) {
                let reason = format!("{name} is {value}, but must be between {min} and {max}");
                return Err(bad(&config.path, reason));
            }
        }
        let (n_keys, n_values) = (self.linear_num_key_heads, self.linear_num_value_heads);
        if n_values % n_keys != 0 {
            let reason = format!("{n_values} value heads cannot share {n_keys} key heads evenly");
            return Err(bad(&config.path, reason));
        }
        let Some(types) = &self.layer_types else {
            return Ok(());
        };
        if types.len() != n_layers as usize {
            let n_types = types.len();
            let reason = format!("layer_types names {n_types} layers, but there are {n_layers}");
            return Err(bad(&config.path, reason));
        }
        let known = ["linear_attention", "full_attention"];
        match types.iter().find(|name| !known.contains(&name.as_str())) {
            Some(other) => Err(EngineError::Unsupported {
                path: config.path.clone(),
                reason: format!(
                    "layer_types: {other:?} is not supported; full_attention and \
                     linear_attention are"
                ),
            }),
            None => Ok(()),
        }
    }

    fn is_recurrent(&self, layer: i32) -> bool {
        match &self.layer_types {
            Some(types) => types[layer as usize] == "linear_attention",
            None => (layer + 1) % self.full_attention_interval != 0,
        }
    }

    fn shape(&self, hidden_size: i32) -> GatedDeltaShape {
        GatedDeltaShape {
            hidden_size,
            n_key_heads: self.linear_num_key_heads,
            n_value_heads: self.linear_num_value_heads,
            key_dim: self.linear_key_head_dim,
            value_dim: self.linear_value_head_dim,
            conv_width: self.linear_conv_kernel_dim,
        }
    }
}

/// A hybrid's configuration.
#[derive(Debug)]
pub(crate) struct HybridArgs {
    config: ModelConfig,
    decoder: DecoderArgs,
    own: Args,
    mixture: Option<MixtureArgs>,
}

impl HybridArgs {
    /// Reads and checks the configuration of a text model, or of the text part of a multimodal one.
    /// Where it has experts, `is_normalized` holds if `norm_topk_prob` is missing.
    pub(crate) fn from_config(
        config: &ModelConfig,
        is_normalized: bool,
    ) -> Result<Self, EngineError> {
        let mut config = config.of_text()?;
        let number = |name: &str| config.json.get(name).and_then(serde_json::Value::as_i64);
        let mixture = match number("num_experts") {
            None | Some(0) => None,
            Some(_) => Some(MixtureArgs::from_config(&config, is_normalized)?),
        };
        // Configurations of mixtures leave out the width of layers that they do not have.
        if mixture.is_some() && number("intermediate_size").is_none() {
            let width = config.json["moe_intermediate_size"].clone();
            config.json["intermediate_size"] = width;
        }
        let decoder = DecoderArgs::from_config(&config)?;
        let own = Args::from_config(&config, decoder.num_hidden_layers)?;
        Ok(Self {
            config,
            decoder,
            own,
            mixture,
        })
    }

    /// Sizes that matter outside the model.
    pub(crate) fn size(&self) -> ModelSize {
        self.decoder.size()
    }

    /// Builds the model.
    pub(crate) fn load(&self, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
        let args = &self.decoder;
        let epsilon = args.rms_norm_eps;
        let paths = TextPaths::found_in(loader);
        let stack = Stack {
            args,
            paths,
            norms: self.norms(loader, paths)?,
        };
        let attention = args.attention_shape();
        let recurrent = self.own.shape(args.hidden_size);
        stack.load(
            &self.config,
            loader,
            |loader, path, layer| -> Result<Box<dyn Mixer>, EngineError> {
                if self.own.is_recurrent(layer) {
                    let path = format!("{path}.linear_attn");
                    let layer = GatedDeltaNet::load(loader, &path, recurrent, epsilon)?;
                    return Ok(Box::new(layer));
                }
                let path = format!("{path}.self_attn");
                let layer = Attention::load_gated(loader, &path, attention)?;
                let mut norm = |name: &str| {
                    let path = format!("{path}.{name}");
                    stack.norms.load(loader, &path, attention.head_dim)
                };
                let (queries, keys) = (norm("q_norm")?, norm("k_norm")?);
                let layer = layer.with_head_norm(&queries, &keys, epsilon);
                Ok(Box::new(layer.during(&path)?))
            },
            |loader, path, layer| match &self.mixture {
                Some(mixture) => mixture.mlp(args, loader, path, layer),
                None => {
                    let (n_in, width) = (args.hidden_size, args.intermediate_size);
                    Ok(GatedMlp::load(loader, path, n_in, width)?.into())
                }
            },
        )
    }

    /// The authors store norms around one; mlx-lm adds the one when it converts, and turns the
    /// weights of the convolution, by which its checkpoints are known.
    fn norms(&self, loader: &Loader<'_>, paths: TextPaths) -> Result<NormWeights, EngineError> {
        let first = (0..self.decoder.num_hidden_layers).find(|&n| self.own.is_recurrent(n));
        let Some(layer) = first else {
            return Ok(NormWeights::Whole);
        };
        let name = format!("{}.layers.{layer}.linear_attn.conv1d.weight", paths.model);
        Ok(match loader.shape(&name)?.last() {
            Some(1) => NormWeights::Whole,
            _ => NormWeights::AroundOne,
        })
    }
}

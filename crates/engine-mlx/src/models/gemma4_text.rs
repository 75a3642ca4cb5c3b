//! Gemma 4 (Gemma Team 2026): as Gemma 3 with normalised values and larger heads in the layers that
//! see all, whose keys may be their values. The small ones have a table of tokens for each block and
//! let late layers look at the keys of earlier ones; one has experts beside its feed-forward layers.

use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use super::Architecture;
use super::args::ModelSize;
use super::rope::RopeSource;
use super::stack::TextPaths;
use super::windows::{Pattern, Windows};
use crate::config::{ModelConfig, bad};
use crate::error::Context;
use crate::nn::{
    Activation, AttentionShape, Block, DenseBesideExperts, ExpertShape, Experts, Gate, GatedMlp,
    KeySource, RmsNorm, Rope, RopeForm, Routing, SharingAttention, SharingForm, TokenGate,
    TokenTables, Transformer,
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

/// The configuration, with the defaults of the reference implementation.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Args {
    vocab_size: i32,
    vocab_size_per_layer_input: i32,
    hidden_size: i32,
    hidden_size_per_layer_input: i32,
    num_hidden_layers: i32,
    num_kv_shared_layers: i32,
    intermediate_size: i32,
    use_double_wide_mlp: bool,
    num_attention_heads: i32,
    num_key_value_heads: i32,
    num_global_key_value_heads: Option<i32>,
    head_dim: i32,
    global_head_dim: Option<i32>,
    attention_k_eq_v: bool,
    enable_moe_block: bool,
    num_experts: Option<i32>,
    top_k_experts: Option<i32>,
    #[serde(alias = "expert_intermediate_size")]
    moe_intermediate_size: Option<i32>,
    rms_norm_eps: f32,
    max_position_embeddings: i32,
    rope_parameters: RopeParameters,
    sliding_window: Option<i32>,
    sliding_window_pattern: i32,
    layer_types: Option<Vec<String>>,
    hidden_activation: Option<String>,
    final_logit_softcapping: Option<f32>,
    tie_word_embeddings: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RopeParameters {
    full_attention: Option<Value>,
    sliding_attention: Option<Value>,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            vocab_size: 262_144,
            vocab_size_per_layer_input: 262_144,
            hidden_size: 1536,
            hidden_size_per_layer_input: 256,
            num_hidden_layers: 35,
            num_kv_shared_layers: 20,
            intermediate_size: 6144,
            use_double_wide_mlp: true,
            num_attention_heads: 8,
            num_key_value_heads: 1,
            num_global_key_value_heads: None,
            head_dim: 256,
            global_head_dim: Some(512),
            attention_k_eq_v: false,
            enable_moe_block: false,
            num_experts: None,
            top_k_experts: None,
            moe_intermediate_size: None,
            rms_norm_eps: 1e-6,
            max_position_embeddings: 131_072,
            rope_parameters: RopeParameters::default(),
            sliding_window: Some(512),
            sliding_window_pattern: 5,
            layer_types: None,
            hidden_activation: None,
            final_logit_softcapping: Some(30.0),
            tie_word_embeddings: true,
        }
    }
}

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    Args::plain(config)?.size(config)
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    Args::plain(config)?.load(config, loader)
}

impl Args {
    fn plain(config: &ModelConfig) -> Result<Self, EngineError> {
        let args: Self = config.parse()?;
        args.check(config)?;
        Ok(args)
    }

    /// The text half of a multimodal configuration.
    pub(super) fn nested(config: &ModelConfig) -> Result<Self, EngineError> {
        let Some(text) = config.json.get("text_config") else {
            return Err(bad(&config.path, "it has no text_config"));
        };
        let args = Self::deserialize(text)
            .map_err(|error| bad(&config.path, format!("text_config: {error}")))?;
        args.check(config)?;
        Ok(args)
    }

    fn check(&self, config: &ModelConfig) -> Result<(), EngineError> {
        let n_layers = self.num_hidden_layers;
        let own_or = |value: Option<i32>| value.unwrap_or(1);
        let n_experts = own_or(self.num_experts);
        let sizes = [
            ("vocab_size", self.vocab_size, 1, 1 << 24),
            ("hidden_size", self.hidden_size, 1, 1 << 17),
            ("num_hidden_layers", n_layers, 1, 1 << 10),
            ("num_attention_heads", self.num_attention_heads, 1, 1 << 10),
            ("num_key_value_heads", self.num_key_value_heads, 1, 1 << 10),
            ("intermediate_size", self.intermediate_size, 1, 1 << 20),
            (
                "max_position_embeddings",
                self.max_position_embeddings,
                1,
                1 << 28,
            ),
            (
                "sliding_window_pattern",
                self.sliding_window_pattern,
                1,
                1 << 10,
            ),
            (
                "hidden_size_per_layer_input",
                self.hidden_size_per_layer_input,
                0,
                1 << 14,
            ),
            (
                "vocab_size_per_layer_input",
                self.vocab_size_per_layer_input,
                1,
                1 << 24,
            ),
            (
                "num_kv_shared_layers",
                self.num_kv_shared_layers,
                0,
                n_layers - 1,
            ),
            (
                "num_global_key_value_heads",
                own_or(self.num_global_key_value_heads),
                1,
                1 << 10,
            ),
            ("head_dim", self.head_dim, 2, 1 << 12),
            (
                "global_head_dim",
                self.global_head_dim.unwrap_or(2),
                2,
                1 << 12,
            ),
            ("num_experts", n_experts, 1, 1 << 12),
            ("top_k_experts", own_or(self.top_k_experts), 1, n_experts),
            (
                "moe_intermediate_size",
                own_or(self.moe_intermediate_size),
                1,
                1 << 20,
            ),
        ];
        for (name, value, min, max) in sizes {
            if !(min..=max).contains(&value) {
                let reason = format!("{name} is {value}, but must be between {min} and {max}");
                return Err(bad(&config.path, reason));
            }
        }
        for slides in [true, false] {
            let shape = self.shape(slides);
            let AttentionShape {
                n_heads,
                n_kv_heads,
                head_dim,
                ..
            } = shape;
            if n_heads % n_kv_heads != 0 || head_dim % 2 != 0 {
                let reason = format!(
                    "{n_heads} attention heads of {head_dim} features cannot share {n_kv_heads} \
                     key-value heads evenly"
                );
                return Err(bad(&config.path, reason));
            }
        }
        let (epsilon, cap) = (self.rms_norm_eps, self.final_logit_softcapping);
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            let reason = format!("rms_norm_eps is {epsilon}, but must be at least 0");
            return Err(bad(&config.path, reason));
        }
        if let Some(cap) = cap
            && !(cap.is_finite() && cap > 0.0)
        {
            let reason = format!("final_logit_softcapping is {cap}, but must be above 0");
            return Err(bad(&config.path, reason));
        }
        if self.enable_moe_block
            && (self.num_experts.is_none()
                || self.top_k_experts.is_none()
                || self.moe_intermediate_size.is_none())
        {
            let reason = "enable_moe_block needs num_experts, top_k_experts and \
                          moe_intermediate_size";
            return Err(bad(&config.path, reason));
        }
        match self.hidden_activation.as_deref() {
            None | Some("gelu_pytorch_tanh") => Ok(()),
            Some(other) => Err(EngineError::Unsupported {
                path: config.path.clone(),
                reason: format!(
                    "hidden_activation {other:?} is not supported; gelu_pytorch_tanh is"
                ),
            }),
        }
    }

    fn windows(&self, config: &ModelConfig) -> Result<Windows, EngineError> {
        let windows = Windows::new(
            config,
            self.num_hidden_layers,
            self.sliding_window,
            self.layer_types.as_deref(),
            Pattern::FullEach(self.sliding_window_pattern),
            self.max_position_embeddings,
        )?;
        let has_own = |slides| (0..self.n_own()).any(|layer| self.slides(layer) == slides);
        let orphan = (self.n_own()..self.num_hidden_layers)
            .map(|layer| (layer, self.slides(layer)))
            .find(|&(_, slides)| !has_own(slides));
        if let Some((layer, slides)) = orphan {
            let kind = if slides { "sliding" } else { "full" };
            let reason = format!(
                "layer {layer} shares the keys of an earlier layer with {kind}_attention, but \
                 none has keys of its own"
            );
            return Err(bad(&config.path, reason));
        }
        Ok(windows)
    }

    /// Whether the layer is one of those that see a window, even if the window holds everything.
    fn slides(&self, layer: i32) -> bool {
        match &self.layer_types {
            Some(types) => types[layer as usize] == "sliding_attention",
            None => (layer + 1) % self.sliding_window_pattern != 0,
        }
    }

    /// Layers that have keys of their own; those after them look at these.
    fn n_own(&self) -> i32 {
        self.num_hidden_layers - self.num_kv_shared_layers
    }

    fn shape(&self, slides: bool) -> AttentionShape {
        let global_heads = self
            .num_global_key_value_heads
            .filter(|_| self.attention_k_eq_v);
        let (n_kv_heads, head_dim) = if slides {
            (self.num_key_value_heads, self.head_dim)
        } else {
            (
                global_heads.unwrap_or(self.num_key_value_heads),
                self.global_head_dim.unwrap_or(self.head_dim),
            )
        };
        AttentionShape {
            hidden_size: self.hidden_size,
            n_heads: self.num_attention_heads,
            n_kv_heads,
            head_dim,
        }
    }

    fn experts(&self) -> Option<ExpertShape> {
        self.enable_moe_block.then_some(ExpertShape {
            hidden_size: self.hidden_size,
            intermediate_size: self.moe_intermediate_size?,
            n_experts: self.num_experts?,
            n_used: self.top_k_experts?,
        })
    }

    /// Sizes for the limits and the memory that the model needs.
    pub(super) fn size(&self, config: &ModelConfig) -> Result<ModelSize, EngineError> {
        let windows = self.windows(config)?;
        let widths = |slides: bool| -> usize {
            let layers = (0..self.n_own()).filter(|&layer| windows.of(layer).is_some() == slides);
            layers
                .map(|layer| {
                    let shape = self.shape(self.slides(layer));
                    (shape.n_kv_heads * shape.head_dim) as usize
                })
                .sum()
        };
        let global = self.shape(false);
        let experts = self.experts();
        let of_experts = experts.map_or(0, |e| e.n_used * e.intermediate_size);
        let widest = if self.use_double_wide_mlp && self.num_kv_shared_layers > 0 {
            2 * self.intermediate_size
        } else {
            self.intermediate_size
        };
        let size = ModelSize {
            context_length: self.max_position_embeddings as usize,
            vocab_size: self.vocab_size as usize,
            n_layers: self.num_hidden_layers as usize,
            n_heads: global.n_heads as usize,
            n_kv_heads: global.n_kv_heads as usize,
            head_dim: global.head_dim as usize,
            hidden_size: self.hidden_size as usize,
            intermediate_size: (widest + of_experts) as usize,
            n_used_experts: experts.map_or(0, |e| e.n_used as usize),
            ..ModelSize::default()
        };
        Ok(ModelSize {
            kv_widths: Some((widths(false), widths(true))),
            ..windows.applied_to(size)
        })
    }

    /// The rope of layers that see all, and that of those that see a window.
    fn ropes(&self, config: &ModelConfig) -> Result<[RopeForm; 2], EngineError> {
        let source = |entry: Option<&Value>, slides: bool, base: f32| {
            let source = RopeSource {
                entry,
                theta: None,
                head_dim: self.shape(slides).head_dim,
                share: None,
                max_positions: self.max_position_embeddings,
                original_max_positions: None,
            };
            source.or_base(base).form(config)
        };
        let parameters = &self.rope_parameters;
        let default = serde_json::json!({
            "rope_type": "proportional",
            "partial_rotary_factor": 0.25,
        });
        let global = parameters.full_attention.as_ref().unwrap_or(&default);
        Ok([
            source(Some(global), false, 1_000_000.0)?,
            source(parameters.sliding_attention.as_ref(), true, 10_000.0)?,
        ])
    }

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

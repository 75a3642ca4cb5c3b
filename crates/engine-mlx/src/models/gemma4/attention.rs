//! The attention of Gemma 4: queries, keys and values are normalized, values may be the keys, and
//! some layers use the keys and values of an earlier layer.

use mlx_rs::error::Exception;
use mlx_rs::{Array, fast};
use transom_engine::EngineError;

use crate::error::MlxResult;
use crate::kv_cache::{LayerCache, append_to_each};
use crate::linear::Linear;
use crate::nn::{AttentionShape, Norms, RmsNorm, Sdpa, Step};
use crate::weights::Loader;

/// Where a layer's keys and values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeySource {
    TwoProjections,
    /// One projection for both: keys are normalized and rotated, values only normalized.
    OneProjection,
    /// The last earlier layer with the same type of attention and keys of its own.
    EarlierLayer,
}

/// The last keys and values that layers computed in this step, of each sequence, by type of attention.
pub(super) type SharedKeys = [Vec<(Array, Array)>; 2];

#[derive(Debug, Clone, Copy)]
pub(super) struct AttentionArgs {
    pub(super) shape: AttentionShape,
    pub(super) source: KeySource,
    pub(super) norms: Norms,
    /// Type of attention: the index of the layer's rope and of its entry in [`SharedKeys`].
    pub(super) kind: usize,
    pub(super) window: Option<i32>,
}

/// The projections of a layer with keys of its own.
#[derive(Debug)]
struct KeyProjections {
    keys: Linear,
    key_norm: RmsNorm,
    /// `None` if the keys are also the values.
    values: Option<Linear>,
}

#[derive(Debug)]
pub(super) struct Gemma4Attention {
    args: AttentionArgs,
    queries: Linear,
    query_norm: RmsNorm,
    /// `None` if the layer uses the keys of an earlier one.
    own: Option<KeyProjections>,
    output: Linear,
    sdpa: Sdpa,
}

impl Gemma4Attention {
    /// Loads the layer at `path` with those of the tensors `q_proj`, `k_proj`, `v_proj`, `o_proj`,
    /// `q_norm` and `k_norm` that `args` needs.
    pub(super) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        args: AttentionArgs,
    ) -> Result<Self, EngineError> {
        let AttentionShape {
            hidden_size,
            n_heads,
            n_kv_heads,
            head_dim,
        } = args.shape;
        let norm = |loader: &mut Loader<'_>, name: &str| {
            args.norms.load(loader, &format!("{path}.{name}"), head_dim)
        };
        let n_queries = n_heads * head_dim;
        let n_keys = n_kv_heads * head_dim;
        let queries = loader.linear(&format!("{path}.q_proj"), hidden_size, n_queries)?;
        let query_norm = norm(loader, "q_norm")?;
        let own = if args.source == KeySource::EarlierLayer {
            None
        } else {
            let keys = loader.linear(&format!("{path}.k_proj"), hidden_size, n_keys)?;
            let has_values = args.source == KeySource::TwoProjections;
            let values = format!("{path}.v_proj");
            let values = has_values.then(|| loader.linear(&values, hidden_size, n_keys));
            Some(KeyProjections {
                keys,
                values: values.transpose()?,
                key_norm: norm(loader, "k_norm")?,
            })
        };
        let mut sdpa = Sdpa::new(args.shape, loader.compute().is_cpu());
        // Queries and keys are normalized and need no further scale.
        sdpa.scale = 1.0;
        Ok(Self {
            args,
            queries,
            query_norm,
            own,
            output: loader.linear(&format!("{path}.o_proj"), n_queries, hidden_size)?,
            sdpa,
        })
    }

    /// Splits `[1, all tokens, heads * head_dim]` into `[sequences, tokens, heads, head_dim]`.
    fn split_heads(&self, x: &Array, step: &Step<'_>) -> MlxResult<Array> {
        let head_dim = self.args.shape.head_dim;
        x.reshape(&[step.n_sequences(), step.n_tokens, -1, head_dim])
    }

    /// Computes and caches keys and values, and returns those that the tokens of each sequence may
    /// attend to.
    fn keys_and_values(
        &self,
        own: &KeyProjections,
        x: &Array,
        step: &Step<'_>,
        caches: &mut [&mut LayerCache],
    ) -> MlxResult<Vec<(Array, Array)>> {
        let projected = self.split_heads(&own.keys.forward(x)?, step)?;
        let keys = own.key_norm.forward(&projected)?;
        let keys = step.rotate(self.args.kind, &keys.transpose_axes(&[0, 2, 1, 3])?)?;
        let values = match &own.values {
            Some(values) => self.split_heads(&values.forward(x)?, step)?,
            None => projected,
        };
        let values = fast::rms_norm(&values, None, self.args.norms.epsilon)?;
        append_to_each(caches, &keys, &values.transpose_axes(&[0, 2, 1, 3])?)
    }

    /// Maps `[1, tokens, hidden_size]` to the same shape.
    pub(super) fn forward(
        &self,
        x: &Array,
        step: &Step<'_>,
        caches: &mut [&mut LayerCache],
        shared: &mut SharedKeys,
    ) -> MlxResult<Array> {
        let queries = self.split_heads(&self.queries.forward(x)?, step)?;
        let queries = self.query_norm.forward(&queries)?;
        let queries = step.rotate(self.args.kind, &queries.transpose_axes(&[0, 2, 1, 3])?)?;
        let shared = &mut shared[self.args.kind];
        if let Some(own) = &self.own {
            *shared = self.keys_and_values(own, x, step, caches)?;
        } else {
            for cache in caches {
                if let LayerCache::Shared { n_tokens } = &mut **cache {
                    *n_tokens += step.n_tokens;
                }
            }
        }
        if shared.is_empty() {
            return Err(Exception::custom("no earlier layer shares its keys"));
        }
        let mask = step.mask(self.args.window);
        let attended = self.sdpa.forward(&queries, shared, mask)?;
        self.output.forward(&attended)
    }

    pub(super) fn new_cache(&self) -> LayerCache {
        match &self.own {
            Some(_) => LayerCache::for_attention(self.args.window),
            None => LayerCache::Shared { n_tokens: 0 },
        }
    }
}

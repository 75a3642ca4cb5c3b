//! Attention of Gemma 4: every part normalised, values that may be the keys, and layers that look at
//! the keys of an earlier layer instead of having their own.

use mlx_rs::{Array, fast};
use transom_engine::EngineError;

use super::{AttentionShape, Heads, Linear, Mixer, RmsNorm, Step};
use crate::error::MlxResult;
use crate::kv_cache::LayerCache;
use crate::weights::Loader;

/// Where a layer's keys and values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// Projections of each.
    Own,
    /// One projection, which is both: keys after a norm and a rotation, values after a norm.
    OwnForBoth,
    /// The layer before that shared its own last under the same number.
    Shared,
}

/// Keys and values of the layer itself.
#[derive(Debug)]
struct OwnKeys {
    keys: Linear,
    key_norm: RmsNorm,
    /// `None` where the keys are the values.
    values: Option<Linear>,
}

/// What a layer is loaded with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharingForm {
    pub(crate) shape: AttentionShape,
    pub(crate) source: KeySource,
    pub(crate) epsilon: f32,
    /// The number under which keys are shared and found: one for each kind of layer.
    pub(crate) number: usize,
    /// The model's rope of this number turns queries and keys.
    pub(crate) rope: usize,
    pub(crate) window: Option<i32>,
}

/// The layer.
#[derive(Debug)]
pub(crate) struct SharingAttention {
    form: SharingForm,
    queries: Linear,
    query_norm: RmsNorm,
    own: Option<OwnKeys>,
    output: Linear,
    heads: Heads,
}

impl SharingAttention {
    /// The layer at `path`, with the names `q_proj`, `k_proj`, `v_proj`, `o_proj`, `q_norm` and
    /// `k_norm`, as far as `form` needs them.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        form: SharingForm,
    ) -> Result<Self, EngineError> {
        let AttentionShape {
            hidden_size,
            n_heads,
            n_kv_heads,
            head_dim,
        } = form.shape;
        let norm = |loader: &mut Loader<'_>, name: &str| -> Result<RmsNorm, EngineError> {
            let weight = loader.vector(&format!("{path}.{name}.weight"), head_dim)?;
            Ok(RmsNorm::new(weight, form.epsilon))
        };
        let n_queries = n_heads * head_dim;
        let n_keys = n_kv_heads * head_dim;
        let queries = loader.linear(&format!("{path}.q_proj"), hidden_size, n_queries)?;
        let query_norm = norm(loader, "q_norm")?;
        let own = if form.source == KeySource::Shared {
            None
        } else {
            let keys = loader.linear(&format!("{path}.k_proj"), hidden_size, n_keys)?;
            let values = if form.source == KeySource::Own {
                Some(loader.linear(&format!("{path}.v_proj"), hidden_size, n_keys)?)
            } else {
                None
            };
            Some(OwnKeys {
                keys,
                key_norm: norm(loader, "k_norm")?,
                values,
            })
        };
        let mut heads = Heads::new(form.shape, loader.compute().is_cpu());
        // Normalised queries and keys need no further scale.
        heads.scale = 1.0;
        Ok(Self {
            form,
            queries,
            query_norm,
            own,
            output: loader.linear(&format!("{path}.o_proj"), n_queries, hidden_size)?,
            heads,
        })
    }

    /// `[1, tokens, heads * head_dim]` to `[1, tokens, heads, head_dim]`.
    fn split(&self, x: &Array) -> MlxResult<Array> {
        x.reshape(&[1, x.dim(1), -1, self.form.shape.head_dim])
    }

    /// Keys and values that the tokens of this step may look at.
    fn keys_and_values(
        &self,
        own: &OwnKeys,
        x: &Array,
        step: &Step<'_>,
        cache: &mut LayerCache,
    ) -> MlxResult<(Array, Array)> {
        let projected = self.split(&own.keys.forward(x)?)?;
        let keys = own.key_norm.forward(&projected)?;
        let keys = step.rotate(self.form.rope, &keys.transpose_axes(&[0, 2, 1, 3])?)?;
        let values = match &own.values {
            Some(values) => self.split(&values.forward(x)?)?,
            None => projected,
        };
        let values = fast::rms_norm(&values, None, self.form.epsilon)?;
        cache.append(&keys, &values.transpose_axes(&[0, 2, 1, 3])?)
    }
}

impl Mixer for SharingAttention {
    fn forward(&self, x: &Array, step: &Step<'_>, cache: &mut LayerCache) -> MlxResult<Array> {
        let queries = self
            .query_norm
            .forward(&self.split(&self.queries.forward(x)?)?)?;
        let queries = step.rotate(self.form.rope, &queries.transpose_axes(&[0, 2, 1, 3])?)?;
        let (keys, values) = match &self.own {
            Some(own) => {
                let (keys, values) = self.keys_and_values(own, x, step, cache)?;
                step.share(self.form.number, keys.clone(), values.clone());
                (keys, values)
            }
            None => {
                if let LayerCache::Borrowed { n_tokens } = cache {
                    *n_tokens += step.n_tokens();
                }
                step.shared(self.form.number)?
            }
        };
        let mask = step.mask(self.form.window);
        let attended = self.heads.attend(&queries, &keys, &values, mask)?;
        self.output.forward(&attended)
    }

    fn new_cache(&self) -> LayerCache {
        match &self.own {
            Some(_) => LayerCache::of_attention(self.form.window),
            None => LayerCache::Borrowed { n_tokens: 0 },
        }
    }

    fn window(&self) -> Option<i32> {
        self.form.window
    }
}

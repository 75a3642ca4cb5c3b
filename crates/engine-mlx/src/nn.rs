//! The layers that architectures share. Shapes are `[batch, tokens, features]` unless a comment
//! says otherwise; the batch size is always one.

mod attention;
mod conv;
mod delta_rule;
mod experts;
mod gated_delta;
mod mlp;
mod norm;
mod query_scale;
mod rope;
mod sdpa;
mod step;
mod transformer;

pub(crate) use attention::{Attention, AttentionOptions};
pub(crate) use experts::{ExpertOptions, ExpertShape, Experts, Mlp, Routing};
pub(crate) use gated_delta::{GatedDeltaNet, GatedDeltaShape};
pub(crate) use mlp::{Activation, Gate, GatedMlp};
pub(crate) use norm::{Norms, RmsNorm};
pub(crate) use query_scale::QueryScale;
pub(crate) use rope::{
    Llama3Scaling, LongScaling, Rope, RopeConfig, RopeScaling, Rotation, YarnScaling,
};
pub(crate) use sdpa::{AttentionShape, Sdpa};
pub(crate) use step::{AttentionMask, Step};
pub(crate) use transformer::{CachedLayer, Layers, Positions, Transformer};

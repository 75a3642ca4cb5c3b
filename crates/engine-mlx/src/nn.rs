//! The layers that architectures share.
//!
//! A step (one forward pass) has the next tokens of one sequence, or the next token of each of several
//! sequences. Shapes are `[1, tokens, features]` with all tokens of the step unless a comment says
//! otherwise, so products with weights read these once for all sequences. Only attention and recurrence
//! tell the sequences apart, because each sequence has caches of its own.

mod attention;
mod conv;
mod delta_rule;
mod experts;
mod gated_delta;
mod layer_queue;
mod mlp;
mod norm;
mod query_scale;
mod rope;
mod sdpa;
mod step;
mod transformer;

pub(crate) use attention::{Attention, AttentionOptions};
pub use delta_rule::bench as delta_rule_bench;
pub(crate) use experts::{ExpertOptions, ExpertShape, Experts, Mlp, Routing};
pub(crate) use gated_delta::{GatedDeltaNet, GatedDeltaShape};
pub(crate) use layer_queue::LayerQueue;
pub(crate) use mlp::{Activation, Gate, GatedMlp};
pub(crate) use norm::{Norms, RmsNorm};
pub(crate) use query_scale::QueryScale;
pub(crate) use rope::{
    Llama3Scaling, LongScaling, Rope, RopeConfig, RopeScaling, Rotation, YarnScaling,
};
pub(crate) use sdpa::{AttentionShape, Sdpa};
pub(crate) use step::{AttentionMask, Step};
pub(crate) use transformer::{CachedLayer, Layers, Positions, Transformer, of_layer};

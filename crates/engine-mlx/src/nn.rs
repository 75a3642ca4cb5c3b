//! The layers that architectures share. Shapes are `[batch, tokens, features]` unless a line says
//! otherwise; the batch is always one.

mod attention;
mod beside;
mod conv;
mod delta_rule;
mod experts;
mod gated_delta;
mod heads;
mod linear;
mod mlp;
mod norm;
mod query_scale;
mod rope;
mod sharing_attention;
mod step;
mod token_tables;
mod transformer;

pub(crate) use attention::{Attention, AttentionShape};
pub(crate) use beside::DenseBesideExperts;
pub(crate) use experts::{ExpertLinear, ExpertShape, Experts, Mlp, Routing, SharedExpert};
pub(crate) use gated_delta::{GatedDeltaNet, GatedDeltaShape};
pub(crate) use heads::Heads;
pub(crate) use linear::{Embedding, Linear, LinearGroup, Matrix};
pub(crate) use mlp::{Activation, Gate, GatedMlp};
pub(crate) use norm::RmsNorm;
pub(crate) use query_scale::QueryScale;
pub(crate) use rope::{
    Llama3Scaling, LongScaling, Rope, RopeForm, RopeScaling, Rotation, YarnScaling,
};
pub(crate) use sharing_attention::{KeySource, SharingAttention, SharingForm};
pub(crate) use step::{AttentionMask, Step};
pub(crate) use token_tables::{TokenGate, TokenTables};
pub(crate) use transformer::{Block, Mixer, Transformer, Wanted};

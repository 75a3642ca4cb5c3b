//! The layers that architectures share. Shapes are `[batch, tokens, features]` unless a line says
//! otherwise; the batch is always one.

mod attention;
mod linear;
mod mlp;
mod norm;
mod rope;
mod transformer;

pub(crate) use attention::{Attention, AttentionShape};
pub(crate) use linear::{Embedding, Linear, LinearGroup, Matrix};
pub(crate) use mlp::GatedMlp;
pub(crate) use norm::RmsNorm;
pub(crate) use rope::{Llama3Scaling, Rope, RopeScaling, Rotation};
pub(crate) use transformer::{Block, Transformer, Wanted};

//! The cases, by what they are about.

pub(crate) mod answers;
pub(crate) mod endings;
pub(crate) mod lifecycle;
pub(crate) mod loading;
pub(crate) mod memory;
pub(crate) mod prefix;
pub(crate) mod sampling;
pub(crate) mod state;
pub(crate) mod stopping;
pub(crate) mod text;

//! The test cases by topic.

pub(crate) mod constraints;
pub(crate) mod endings;
pub(crate) mod lifecycle;
pub(crate) mod loading;
pub(crate) mod memory;
pub(crate) mod parked;
pub(crate) mod prefix;
pub(crate) mod responses;
pub(crate) mod sampling;
pub(crate) mod saved_state;
pub(crate) mod stopping;
pub(crate) mod text;
pub(crate) mod together;
pub(crate) mod tokens;
pub(crate) mod tools;

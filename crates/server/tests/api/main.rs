//! The HTTP API over a real socket, with scripted workers.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

mod anthropic;
mod chat;
mod completions;
mod constraints;
mod door;
mod embeddings;
mod load;
mod ollama;
mod openapi;
mod responses;
mod security;
mod server;
mod tokens;
mod tools;

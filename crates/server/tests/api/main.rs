//! The HTTP API over a real socket, with scripted workers.

mod anthropic;
mod chat;
mod door;
mod ollama;
mod server;

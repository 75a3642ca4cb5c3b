//! The HTTP API over a real socket, with scripted workers.

mod chat;
mod door;
mod server;

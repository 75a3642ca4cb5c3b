//! The HTTP API over a real socket, with scripted workers.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

mod chat;
mod door;
mod server;

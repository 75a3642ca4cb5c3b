//! The local HTTP API: the protocols of OpenAI, Anthropic and Ollama over the supervisor.
//!
//! A shell beside the command line and the app: it translates between protocols and the supervisor,
//! and decides nothing about models or memory. A request passes [`door`], is read by a file in
//! `routes/` with [`json`], becomes a neutral [`generation::Job`], and its events are written by an
//! encoder of [`stream`].
//!
//! Rule: what a request asks for is done, or refused with an error that names the field. Fields that
//! are unknown here are named in the response. Nothing of a prompt or a key reaches logs or metrics.

mod access;
mod activity;
mod constraints;
mod door;
mod embedding;
mod error;
mod generation;
mod ids;
mod json;
mod limits;
mod metrics;
mod models;
mod routes;
mod serve;
mod setup;
mod state;
mod stream;

pub use access::{Access, KeyDigest, KeyError, KeyFile, NamedKey, OriginError, origin};
pub use activity::{Activity, KeyUse, MAX_RECORDS, RequestRecord};
pub use door::{client_of_key, key_of_client};
pub use models::LibrarySource;
pub use serve::{BindError, DEFAULT_PORT, Server};
pub use setup::{ClientProgram, KEY_VARIABLE, Setup};
pub use state::{ServerOptions, ServerState};

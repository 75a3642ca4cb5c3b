//! Owns every loaded model: loads, queues, cancels, limits and unloads.
//!
//! [`core`] makes all decisions and has no side effects. `driver` carries them out and makes none.
//! [`governor`] turns system signals into [`Restrictions`]; [`budget`] computes the memory that
//! models may use. Programs use a [`Handle`], which talks to the supervisor of this process or,
//! through a socket in the data folder, to the one of another process.
//!
//! Rule: memory pressure, heat, power, timers and user actions all reach the core as events, and
//! every load, trim and unload is an effect of the core.

pub mod budget;
pub mod core;
mod driver;
pub mod governor;
pub mod handle;
pub mod instance;
pub mod request;
pub mod response;
mod saving;
pub mod settings;
pub mod status;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
pub mod variants;

pub use driver::Supervisor;
pub use governor::{ActiveLimit, Governor, Limit, LimitReason, Restrictions, Tuning};
pub use handle::Handle;
pub use instance::{Connection, InstanceError};
pub use request::{
    Class, ClientId, Correction, KeepAlive, ModelRequest, ModelRole, ModelSelector, ModelSpec,
    PassedOver, RequestError, RequestId, WhenBlocked, Work,
};
pub use response::{CancelHandle, Outcome, Response, ResponseEvent};
pub use saving::{Forgotten, Saving, SavingLimits};
pub use status::Status;
pub use transom_engine::KvCacheChoice;
pub use transom_fit::{Bound, BoundKind, Budget};
pub use transom_keychain::{Keychain, MemorySecrets, Secrets};

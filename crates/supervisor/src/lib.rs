//! One owner of every loaded model: why it loaded, waits, answers, holds back or unloads.
//!
//! [`core`] decides and does nothing; `driver` does and decides nothing; [`governor`] turns the
//! machine's signals into an [`Allowance`]; [`budget`] says what fits. Shells hold a [`Handle`],
//! which speaks to the supervisor of this process or, over a socket in the data folder, to that of
//! another.
//!
//! Rule: there is one road. Memory, heat, power, timers and people all become events of the one
//! core, and every load, trim and unload is an effect of it.

pub mod budget;
pub mod core;
mod driver;
pub mod governor;
pub mod handle;
pub mod instance;
pub mod request;
pub mod response;
pub mod settings;
pub mod status;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
pub mod variants;

pub use governor::{ActiveLimit, Allowance, Governor, Limit, LimitReason, Tuning};
pub use handle::{Handle, Supervisor};
pub use instance::{Connection, InstanceError};
pub use request::{
    Correction, ModelRequest, ModelSelector, ModelSpec, RequestError, RequestId, Role, WhenBlocked,
    Work,
};
pub use response::{CancelHandle, Outcome, Response, ResponseEvent};
pub use status::Status;
pub use transom_engine::KvCacheChoice;
pub use transom_fit::{Bound, BoundKind, Budget};

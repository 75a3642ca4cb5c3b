//! Ids of requests and responses.

use std::time::{SystemTime, UNIX_EPOCH};

use transom_engine::ConversationId;

/// Returns a new id, such as `req_` and 32 hexadecimal digits. It is unique, but no secret.
pub(crate) fn random_id(prefix: &str) -> String {
    let (first, second) = (ConversationId::random(), ConversationId::random());
    format!("{prefix}{:016x}{:016x}", first.0, second.0)
}

/// Returns the time in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |time| time.as_secs())
}

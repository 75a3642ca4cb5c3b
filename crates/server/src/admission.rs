//! How many requests for responses are accepted, in all and for each key.
//!
//! Rule: a request over the limits fails at once and says when to retry. It never waits unseen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::ApiError;
use crate::limits::{MAX_REQUESTS, MAX_REQUESTS_PER_KEY};

/// Counts the open requests.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    state: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Open requests by the name of their key.
    by_key: HashMap<String, usize>,
    /// Seconds that requests took lately; 0 before the first one ended.
    recent_seconds: f64,
}

/// Counts one request until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    key: String,
    began: Instant,
}

impl Admission {
    /// Admits a request of the key with this name.
    ///
    /// # Errors
    /// Too many requests are open.
    pub(crate) fn admit(self: &Arc<Self>, key: &str) -> Result<Permit, ApiError> {
        let mut open = self.open();
        let in_all: usize = open.by_key.values().sum();
        let of_key = open.by_key.get(key).copied().unwrap_or_default();
        if in_all >= MAX_REQUESTS || of_key >= MAX_REQUESTS_PER_KEY {
            let wait = Duration::from_secs_f64(open.recent_seconds * in_all as f64);
            let message = format!("{in_all} requests are running or waiting; try again later");
            return Err(ApiError::overloaded(message, Some(wait)));
        }
        *open.by_key.entry(key.to_owned()).or_default() += 1;
        Ok(Permit {
            admission: self.clone(),
            key: key.to_owned(),
            began: Instant::now(),
        })
    }

    /// Returns the number of open requests.
    pub(crate) fn n_open(&self) -> usize {
        self.open().by_key.values().sum()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.admission.open();
        let left = open.by_key.get_mut(&self.key).map(|n| {
            *n -= 1;
            *n
        });
        if left == Some(0) {
            open.by_key.remove(&self.key);
        }
        // The time includes the wait, so it is an upper limit. The newest requests count most.
        let seconds = self.began.elapsed().as_secs_f64();
        open.recent_seconds = match open.recent_seconds {
            0.0 => seconds,
            recent => 0.7 * recent + 0.3 * seconds,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_cannot_take_all_places_and_all_keys_have_a_limit() {
        let admission = Arc::<Admission>::default();
        let mut permits = Vec::new();
        for _ in 0..MAX_REQUESTS_PER_KEY {
            permits.push(admission.admit("one").unwrap());
        }
        let error = admission.admit("one").unwrap_err();
        assert_eq!(error.status.as_u16(), 503);
        assert_eq!(error.retry_after_seconds(), Some(1));
        while let Ok(permit) = admission.admit("other") {
            permits.push(permit);
        }
        assert_eq!(admission.n_open(), MAX_REQUESTS);
        permits.clear();
        assert_eq!(admission.n_open(), 0);
        assert!(admission.admit("one").is_ok());
    }
}

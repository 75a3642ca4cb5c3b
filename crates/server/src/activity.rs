//! What the clients of the server do: the last requests, and what each key has used since the start.
//!
//! Rule: a record consists of names of routes, keys and models, of numbers and times. Nothing comes
//! from a prompt or a response.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

/// Number of requests that are kept.
pub const MAX_RECORDS: usize = 20;

/// What the clients do, at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Activity {
    /// The last requests, newest first.
    pub requests: Vec<RequestRecord>,
    /// What each key has used, by name.
    pub keys: Vec<KeyUse>,
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct RequestRecord {
    /// Its number since the start of the server.
    pub id: u64,
    /// The name of its key; `None` if it had none that is valid.
    pub key: Option<String>,
    /// The route, such as `/v1/chat/completions`; `other` for an unknown path.
    pub route: String,
    /// The name of the model, once it is found.
    pub model: Option<String>,
    /// Tokens of the prompts of all its responses.
    pub prompt_tokens: u64,
    /// Generated tokens of all its responses.
    pub generated_tokens: u64,
    /// When it came, in milliseconds since 1970.
    pub began_at: u64,
    /// How long it took, in milliseconds; `None` while it is open.
    pub took_ms: Option<u64>,
    /// The HTTP status, or the one of an error within a stream; `None` before the response begins.
    pub status: Option<u16>,
    /// The client closed the connection before the end.
    pub is_canceled: bool,
}

/// What a key has used since the start of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct KeyUse {
    /// The name of the key.
    pub name: String,
    /// Requests that it made.
    pub requests: u64,
    /// Tokens of prompts and responses.
    pub tokens: u64,
    /// When its last request came, in milliseconds since 1970.
    pub last_used_at: u64,
}

/// Keeps the records.
#[derive(Debug, Default)]
pub(crate) struct ActivityLog {
    log: Mutex<Log>,
    /// The number of changes.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Log {
    next_id: u64,
    /// Oldest first.
    records: VecDeque<RequestRecord>,
    keys: BTreeMap<String, KeyUse>,
}

/// A request that is not over. Its record ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct OpenRequest(Arc<Open>);

#[derive(Debug)]
struct Open {
    log: Arc<ActivityLog>,
    id: u64,
    key: OnceLock<String>,
    began: Instant,
}

impl ActivityLog {
    /// Begins the record of a request of this route.
    pub(crate) fn open(self: &Arc<Self>, route: &str) -> OpenRequest {
        let id = self.change(|log| {
            let id = log.next_id;
            log.next_id += 1;
            if log.records.len() == MAX_RECORDS {
                log.records.pop_front();
            }
            log.records.push_back(RequestRecord {
                id,
                key: None,
                route: route.to_owned(),
                model: None,
                prompt_tokens: 0,
                generated_tokens: 0,
                began_at: now(),
                took_ms: None,
                status: None,
                is_canceled: false,
            });
            id
        });
        OpenRequest(Arc::new(Open {
            log: self.clone(),
            id,
            key: OnceLock::new(),
            began: Instant::now(),
        }))
    }

    /// Returns the records.
    pub(crate) fn snapshot(&self) -> Activity {
        let log = self.log.lock();
        Activity {
            requests: log.records.iter().rev().cloned().collect(),
            keys: log.keys.values().cloned().collect(),
        }
    }

    /// Returns a receiver that is notified of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        let result = change(&mut self.log.lock());
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
        result
    }
}

impl OpenRequest {
    /// Sets the name of the key, which counts the request.
    pub(crate) fn set_key(&self, name: &str) {
        let name = self.0.key.get_or_init(|| name.to_owned());
        self.change(|record| record.key = Some(name.clone()));
        self.change_key(|key| {
            key.requests += 1;
            key.last_used_at = now();
        });
    }

    /// Sets the name of the model.
    pub(crate) fn set_model(&self, name: &str) {
        self.change(|record| record.model = Some(name.to_owned()));
    }

    /// Sets the status, also of an error after the response began.
    pub(crate) fn set_status(&self, status: u16) {
        self.change(|record| record.status = Some(status));
    }

    /// Notes that the client left before the end.
    pub(crate) fn set_canceled(&self) {
        self.change(|record| record.is_canceled = true);
    }

    /// Adds the tokens of a response.
    pub(crate) fn add_tokens(&self, prompt: usize, generated: usize) {
        let (prompt, generated) = (prompt as u64, generated as u64);
        self.change(|record| {
            record.prompt_tokens += prompt;
            record.generated_tokens += generated;
        });
        self.change_key(|key| key.tokens += prompt + generated);
    }

    /// Changes the record, unless newer ones took its place.
    fn change(&self, change: impl FnOnce(&mut RequestRecord)) {
        let id = self.0.id;
        self.0.log.change(|log| {
            let mut records = log.records.iter_mut();
            if let Some(record) = records.find(|record| record.id == id) {
                change(record);
            }
        });
    }

    fn change_key(&self, change: impl FnOnce(&mut KeyUse)) {
        let Some(name) = self.0.key.get() else {
            return;
        };
        self.0.log.change(|log| {
            let key = log.keys.entry(name.clone()).or_default();
            key.name.clone_from(name);
            change(key);
        });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        self.log.change(|log| {
            let mut records = log.records.iter_mut();
            if let Some(record) = records.find(|record| record.id == self.id) {
                record.took_ms = Some(took.as_millis() as u64);
                // Without a response, the client closed its connection.
                record.is_canceled |= record.status.is_none();
            }
        });
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |time| time.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_ends_with_the_last_owner_of_its_request() {
        let log = Arc::new(ActivityLog::default());
        let changes = log.changes();
        let request = log.open("/v1/chat/completions");
        request.set_key("editor");
        request.set_model("qwen3-4b");
        let of_stream = request.clone();
        request.set_status(200);
        drop(request);
        assert!(changes.has_changed().unwrap());
        let open = &log.snapshot().requests[0];
        assert_eq!((open.took_ms, open.status), (None, Some(200)));
        of_stream.add_tokens(30, 12);
        drop(of_stream);
        let Activity { requests, keys } = log.snapshot();
        let ended = &requests[0];
        assert_eq!(ended.key.as_deref(), Some("editor"));
        assert_eq!(ended.model.as_deref(), Some("qwen3-4b"));
        assert_eq!((ended.prompt_tokens, ended.generated_tokens), (30, 12));
        assert!(ended.took_ms.is_some() && !ended.is_canceled);
        assert_eq!(
            (&*keys[0].name, keys[0].requests, keys[0].tokens),
            ("editor", 1, 42)
        );
    }

    #[test]
    fn a_request_without_a_response_was_canceled() {
        let log = Arc::new(ActivityLog::default());
        drop(log.open("/v1/models"));
        let record = &log.snapshot().requests[0];
        assert!(record.is_canceled && record.key.is_none());
    }

    #[test]
    fn only_the_last_requests_are_kept_and_all_tokens_are_counted() {
        let log = Arc::new(ActivityLog::default());
        let first = log.open("/v1/messages");
        first.set_key("script");
        for _ in 0..MAX_RECORDS {
            log.open("/v1/models").set_status(200);
        }
        first.add_tokens(5, 6);
        drop(first);
        let Activity { requests, keys } = log.snapshot();
        assert_eq!(requests.len(), MAX_RECORDS);
        assert_eq!(requests[0].id, MAX_RECORDS as u64);
        assert!(requests.iter().all(|request| request.route == "/v1/models"));
        assert_eq!(keys[0].tokens, 11);
    }
}

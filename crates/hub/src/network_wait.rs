//! The limit on how long a program waits for a download without a network. The queue itself waits
//! without limit.

use std::time::{Duration, Instant};

use crate::{Download, HubError, State};

/// Decides when a download fails because there is no network. New bytes restart the wait; an attempt
/// does not.
#[derive(Debug, Default)]
pub struct NetworkWait {
    longest: Option<Duration>,
    done_bytes: u64,
    /// The time of the first failed attempt, and the last error.
    unreachable: Option<(Instant, HubError)>,
}

impl NetworkWait {
    /// Returns a wait of at most `longest`, or without a limit.
    pub fn new(longest: Option<Duration>) -> Self {
        Self {
            longest,
            ..Self::default()
        }
    }

    /// Takes the state of the download at `now`.
    pub fn observe(&mut self, download: &Download, now: Instant) {
        if download.done_bytes > self.done_bytes {
            self.unreachable = None;
        }
        self.done_bytes = download.done_bytes;
        if let State::Retrying {
            error: error @ HubError::Unreachable { .. },
            ..
        } = &download.state
        {
            let since = self.unreachable.take().map_or(now, |(since, _)| since);
            self.unreachable = Some((since, error.clone()));
        }
    }

    /// Returns when the download fails, and with which error, unless bytes arrive before.
    pub fn end(&self) -> Option<(Instant, HubError)> {
        let (since, error) = self.unreachable.clone()?;
        Some((since.checked_add(self.longest?)?, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DownloadId;

    fn download(state: State, done_bytes: u64) -> Download {
        Download {
            id: DownloadId(1),
            key: "k".to_owned(),
            name: "n".to_owned(),
            repository: "o/n".to_owned(),
            folder: "/m".into(),
            state,
            done_bytes,
            total_bytes: None,
            bytes_per_second: 0,
            seconds_left: None,
            last_error: None,
        }
    }

    fn unreachable() -> State {
        State::Retrying {
            seconds: 1,
            error: HubError::Unreachable {
                host: "huggingface.co".to_owned(),
                reason: "no route to host".to_owned(),
            },
        }
    }

    #[test]
    fn new_bytes_restart_the_wait() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let mut wait = NetworkWait::new(Some(10 * second));
        let mut end_after = |state: State, done_bytes, now: u32| {
            wait.observe(&download(state, done_bytes), began + now * second);
            wait.end().map(|(end, _)| end - began)
        };
        assert_eq!(end_after(State::Downloading, 0, 0), None);
        assert_eq!(end_after(unreachable(), 0, 1), Some(11 * second));
        assert_eq!(end_after(State::Downloading, 0, 4), Some(11 * second));
        assert_eq!(end_after(unreachable(), 0, 5), Some(11 * second));
        assert_eq!(end_after(State::Downloading, 7, 6), None);
        assert_eq!(end_after(unreachable(), 7, 8), Some(18 * second));
    }

    #[test]
    fn a_wait_without_a_limit_never_ends() {
        let mut wait = NetworkWait::new(None);
        wait.observe(&download(unreachable(), 0), Instant::now());
        assert!(wait.end().is_none());
    }
}

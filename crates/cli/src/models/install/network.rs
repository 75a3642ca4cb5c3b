//! How long a download waits for a missing network.

use std::time::{Duration, Instant};

use transom_hub::{Download, HubError, State};

/// The limit if no person at a terminal can stop the download.
const SCRIPT_LIMIT: Duration = Duration::from_secs(120);

/// Returns the longest wait: the seconds that the user chose, else no limit on a terminal and
/// [`SCRIPT_LIMIT`] elsewhere.
pub(super) fn longest_wait(chosen: Option<u64>, is_interactive: bool) -> Option<Duration> {
    let by_default = (!is_interactive).then_some(SCRIPT_LIMIT);
    chosen.map(Duration::from_secs).or(by_default)
}

/// Decides when a download fails for want of a network. New bytes restart the wait; an attempt does
/// not.
#[derive(Debug, Default)]
pub(super) struct NetworkWait {
    longest: Option<Duration>,
    done_bytes: u64,
    /// The time of the first failed attempt, and the last error.
    unreachable: Option<(Instant, HubError)>,
}

impl NetworkWait {
    /// Returns a wait of at most `longest`, or without a limit.
    pub(super) fn new(longest: Option<Duration>) -> Self {
        Self {
            longest,
            ..Self::default()
        }
    }

    /// Takes the state of the download at `now`.
    pub(super) fn observe(&mut self, download: &Download, now: Instant) {
        if download.done_bytes > self.done_bytes {
            self.unreachable = None;
        }
        self.done_bytes = download.done_bytes;
        if let State::Retrying {
            error: because @ HubError::Unreachable { .. },
            ..
        } = &download.state
        {
            let since = self.unreachable.take().map_or(now, |(since, _)| since);
            self.unreachable = Some((since, because.clone()));
        }
    }

    /// Returns when the download fails, and with which error, unless bytes arrive before.
    pub(super) fn end(&self) -> Option<(Instant, HubError)> {
        let (since, error) = self.unreachable.clone()?;
        Some((since.checked_add(self.longest?)?, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::install::tests::download;

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
    fn only_a_script_has_a_limit_by_default() {
        assert_eq!(longest_wait(None, true), None);
        assert_eq!(longest_wait(None, false), Some(SCRIPT_LIMIT));
        let chosen = Some(Duration::from_secs(5));
        assert_eq!(longest_wait(Some(5), true), chosen);
        assert_eq!(longest_wait(Some(5), false), chosen);
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

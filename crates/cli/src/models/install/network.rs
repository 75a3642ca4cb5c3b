//! How long a fetch waits for a network that is not there.

use std::time::{Duration, Instant};

use transom_hub::{Download, HubError, State};

/// Without a person at the terminal, who could give up by hand.
const IN_A_SCRIPT: Duration = Duration::from_secs(120);

/// The longest wait: what the user chose in seconds, else none at a terminal and
/// [`IN_A_SCRIPT`] elsewhere.
pub(super) fn longest_wait(chosen: Option<u64>, is_interactive: bool) -> Option<Duration> {
    let by_default = (!is_interactive).then_some(IN_A_SCRIPT);
    chosen.map(Duration::from_secs).or(by_default)
}

/// Decides when one download is given up. Bytes that come begin the wait anew; an attempt does not.
#[derive(Debug, Default)]
pub(super) struct NetworkWait {
    longest: Option<Duration>,
    done_bytes: u64,
    /// Since when no network is reached, and what was said last.
    missing: Option<(Instant, HubError)>,
}

impl NetworkWait {
    /// A wait of at most `longest`; without it, without an end.
    pub(super) fn new(longest: Option<Duration>) -> Self {
        Self {
            longest,
            ..Self::default()
        }
    }

    /// Takes note of where the download is at `now`.
    pub(super) fn look(&mut self, download: &Download, now: Instant) {
        if download.done_bytes > self.done_bytes {
            self.missing = None;
        }
        self.done_bytes = download.done_bytes;
        if let State::Retrying {
            error: because @ HubError::Unreachable { .. },
            ..
        } = &download.state
        {
            let since = self.missing.take().map_or(now, |(since, _)| since);
            self.missing = Some((since, because.clone()));
        }
    }

    /// When to give up, and with which error, unless bytes come before.
    pub(super) fn end(&self) -> Option<(Instant, HubError)> {
        let (since, error) = self.missing.clone()?;
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
    fn a_person_waits_as_long_as_they_like_and_a_script_does_not() {
        assert_eq!(longest_wait(None, true), None);
        assert_eq!(longest_wait(None, false), Some(IN_A_SCRIPT));
        let chosen = Some(Duration::from_secs(5));
        assert_eq!(longest_wait(Some(5), true), chosen);
        assert_eq!(longest_wait(Some(5), false), chosen);
    }

    #[test]
    fn the_wait_begins_with_the_first_failure_and_anew_when_bytes_came() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let mut wait = NetworkWait::new(Some(10 * second));
        let mut end_after = |state: State, done_bytes, now: u32| {
            wait.look(&download(state, done_bytes), began + now * second);
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
    fn a_wait_without_a_limit_has_no_end() {
        let mut wait = NetworkWait::new(None);
        wait.look(&download(unreachable(), 0), Instant::now());
        assert!(wait.end().is_none());
    }
}

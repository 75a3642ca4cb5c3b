//! The retry policy: decides after each failed attempt whether to retry, when, and with which
//! bytes.
//!
//! Rule: this module is pure. Its input is errors and progress, and its jitter comes from a seeded
//! generator, so tests check every sequence of errors as a timeline. Temporary failures without
//! network are retried forever. A limited number of attempts without progress and permanent
//! failures end the download.

use std::time::Duration;

use crate::{HubError, RetryOptions};

/// How often a file may have a wrong checksum, or change on the server, before the download fails.
const MAX_DAMAGED: u32 = 1;
const MAX_CHANGED: u32 = 3;
/// How often a server may refuse a link or a range that it offered itself.
const MAX_REFUSED: u32 = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttemptError {
    /// An error with a sentence for the user.
    Hub(HubError),
    /// The server sent the entire file although a range was requested.
    RangeIgnored(HubError),
    /// The blob store refuses the link that the hub returned. Such links expire.
    LinkRefused(HubError),
}

impl AttemptError {
    pub(crate) fn error(&self) -> &HubError {
        match self {
            Self::Hub(error) | Self::RangeIgnored(error) | Self::LinkRefused(error) => error,
        }
    }
}

impl From<HubError> for AttemptError {
    fn from(error: HubError) -> Self {
        Self::Hub(error)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RetryAction {
    /// Resume from the existing bytes after this delay.
    Retry(Duration),
    /// Delete the bytes of this file and start over after this delay: its checksum is wrong.
    Restart(Duration),
    /// Make a new plan from the hub's listing after this delay. The bytes stay if the file is still
    /// the same.
    Replan(Duration),
    /// Fail, because retrying does not help. The bytes stay.
    GiveUp,
    /// Fail and delete the bytes of this file: they are wrong, and retrying does not help.
    Discard,
}

/// The retry policy for one file, with the counts of its failed attempts.
#[derive(Debug)]
pub(crate) struct RetryPolicy {
    options: RetryOptions,
    rng: fastrand::Rng,
    /// Failures in a row because there is no network.
    n_unreachable: u32,
    n_without_progress: u32,
    n_damaged: u32,
    n_changed: u32,
    n_refused: u32,
    is_range_unsupported: bool,
}

impl RetryPolicy {
    pub(crate) fn new(options: RetryOptions, seed: u64) -> Self {
        Self {
            options,
            rng: fastrand::Rng::with_seed(seed),
            n_unreachable: 0,
            n_without_progress: 0,
            n_damaged: 0,
            n_changed: 0,
            n_refused: 0,
            is_range_unsupported: false,
        }
    }

    /// Returns true if the server does not support ranges for this file, so one request downloads
    /// all of it.
    pub(crate) fn is_range_unsupported(&self) -> bool {
        self.is_range_unsupported
    }

    /// Decides what to do after an attempt that failed with `error`. `has_progressed` says whether
    /// the attempt added bytes.
    pub(crate) fn next_action(
        &mut self,
        error: &AttemptError,
        has_progressed: bool,
    ) -> RetryAction {
        if has_progressed {
            self.n_without_progress = 0;
            self.n_refused = 0;
        }
        if !matches!(error.error(), HubError::Unreachable { .. }) {
            self.n_unreachable = 0;
        }
        let error = match error {
            AttemptError::RangeIgnored(_) if !self.is_range_unsupported => {
                self.is_range_unsupported = true;
                return RetryAction::Retry(Duration::ZERO);
            }
            AttemptError::RangeIgnored(_) => return self.retry_refused(),
            AttemptError::LinkRefused(_) => return self.retry_refused(),
            AttemptError::Hub(error) => error,
        };
        match error {
            // The network returns at some time, and its absence says nothing about the hub.
            HubError::Unreachable { .. } => {
                self.n_unreachable = self.n_unreachable.saturating_add(1);
                RetryAction::Retry(self.backoff(self.n_unreachable))
            }
            HubError::InUse { .. } => RetryAction::Retry(self.backoff(2)),
            HubError::Dropped { .. }
            | HubError::Silent { .. }
            | HubError::NotAHub { .. }
            | HubError::WrongLength { .. } => self.retry_limited(None),
            HubError::TooManyRequests { seconds, .. } | HubError::ServerTrouble { seconds, .. } => {
                self.retry_limited(seconds.map(Duration::from_secs))
            }
            HubError::RangeRefused { .. } => self.retry_refused(),
            HubError::WrongHash { .. } if self.n_damaged >= MAX_DAMAGED => RetryAction::Discard,
            HubError::WrongHash { .. } => {
                self.n_damaged += 1;
                self.n_without_progress = 0;
                RetryAction::Restart(self.backoff(1))
            }
            HubError::ChangedMeanwhile { .. } if self.n_changed >= MAX_CHANGED => {
                RetryAction::Discard
            }
            HubError::ChangedMeanwhile { .. } => {
                self.n_changed += 1;
                RetryAction::Replan(self.backoff(self.n_changed))
            }
            _ => RetryAction::GiveUp,
        }
    }

    /// Retries with backoff until the attempts without progress reach the limit. `requested` is the
    /// delay that the server asked for.
    fn retry_limited(&mut self, requested: Option<Duration>) -> RetryAction {
        self.n_without_progress += 1;
        if self.n_without_progress > self.options.max_attempts {
            return RetryAction::GiveUp;
        }
        let backoff = self.backoff(self.n_without_progress);
        RetryAction::Retry(requested.map_or(backoff, |requested| requested.max(backoff)))
    }

    fn retry_refused(&mut self) -> RetryAction {
        self.n_refused += 1;
        if self.n_refused > MAX_REFUSED.min(self.options.max_attempts) {
            return RetryAction::GiveUp;
        }
        RetryAction::Retry(self.backoff(self.n_refused))
    }

    /// Returns the delay: it doubles with each failure, plus or minus 20 %, so that clients which
    /// lost the same server do not reconnect at the same moment.
    fn backoff(&mut self, n_times: u32) -> Duration {
        let doubled = self
            .options
            .initial_delay
            .saturating_mul(1 << n_times.saturating_sub(1).min(20));
        let jitter = 0.8 + 0.4 * self.rng.f64();
        doubled.min(self.options.max_delay).mul_f64(jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_policy() -> RetryPolicy {
        RetryPolicy::new(RetryOptions::default(), 1)
    }

    fn dropped() -> AttemptError {
        AttemptError::Hub(HubError::Dropped {
            file: "f".to_owned(),
        })
    }

    fn busy(seconds: Option<u64>) -> AttemptError {
        AttemptError::Hub(HubError::TooManyRequests {
            host: "h".to_owned(),
            seconds,
        })
    }

    fn unreachable() -> AttemptError {
        AttemptError::Hub(HubError::Unreachable {
            host: "h".to_owned(),
            reason: "no network".to_owned(),
        })
    }

    fn wrong_hash() -> AttemptError {
        AttemptError::Hub(HubError::WrongHash {
            file: "f".to_owned(),
            expected: "a".to_owned(),
            found: "b".to_owned(),
        })
    }

    fn changed() -> AttemptError {
        AttemptError::Hub(HubError::ChangedMeanwhile {
            file: "f".to_owned(),
        })
    }

    fn refused_link() -> AttemptError {
        AttemptError::LinkRefused(HubError::Forbidden {
            host: "h".to_owned(),
            what: "f".to_owned(),
        })
    }

    /// Returns the actions as text, with delays in whole seconds and without jitter.
    fn simulate(retry_policy: &mut RetryPolicy, errors: &[(AttemptError, bool)]) -> String {
        let steps = errors.iter().map(|(error, has_progressed)| {
            let seconds = |wait: Duration| {
                let whole = wait.as_secs_f64();
                let near = |base: f64| (whole - base).abs() <= base * 0.2 + 1e-9;
                [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 90.0]
                    .into_iter()
                    .find(|base| near(*base))
                    .map_or(format!("{whole}"), |base| format!("{base}"))
            };
            match retry_policy.next_action(error, *has_progressed) {
                RetryAction::Retry(wait) => seconds(wait),
                RetryAction::Restart(wait) => format!("restart {}", seconds(wait)),
                RetryAction::Replan(wait) => format!("replan {}", seconds(wait)),
                RetryAction::GiveUp => "give up".to_owned(),
                RetryAction::Discard => "discard".to_owned(),
            }
        });
        steps.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_dropped_connection_without_progress_is_retried_ten_times() {
        let errors = vec![(dropped(), false); 11];
        assert_eq!(
            simulate(&mut new_policy(), &errors),
            "1, 2, 4, 8, 16, 32, 60, 60, 60, 60, give up"
        );
    }

    #[test]
    fn progress_resets_the_failure_count() {
        let errors = vec![(dropped(), true); 200];
        let steps = simulate(&mut new_policy(), &errors);
        assert!(steps.split(", ").all(|step| step == "1"), "{steps}");
    }

    #[test]
    fn a_missing_network_is_retried_forever() {
        let mut retry_policy = new_policy();
        let steps = simulate(&mut retry_policy, &vec![(unreachable(), false); 500]);
        assert!(steps.starts_with("1, 2, 4, 8, 16, 32, 60"), "{steps}");
        assert!(steps.ends_with("60, 60"), "{steps}");
        assert_eq!(simulate(&mut retry_policy, &[(dropped(), true)]), "1");
    }

    #[test]
    fn a_missing_network_does_not_count_as_an_attempt() {
        let mut retry_policy = new_policy();
        simulate(&mut retry_policy, &vec![(unreachable(), false); 500]);
        let errors = vec![(dropped(), false); 11];
        assert_eq!(
            simulate(&mut retry_policy, &errors),
            "1, 2, 4, 8, 16, 32, 60, 60, 60, 60, give up"
        );
    }

    #[test]
    fn the_delay_is_at_least_what_the_hub_asks_for() {
        let errors = [
            (busy(Some(90)), false),
            (busy(None), false),
            (busy(Some(0)), false),
        ];
        let steps = simulate(&mut new_policy(), &errors);
        assert_eq!(steps, "90, 2, 4");
    }

    #[test]
    fn a_damaged_file_is_restarted_once_and_then_discarded() {
        let errors = [
            (wrong_hash(), true),
            (dropped(), true),
            (wrong_hash(), true),
        ];
        assert_eq!(
            simulate(&mut new_policy(), &errors),
            "restart 1, 1, discard"
        );
    }

    #[test]
    fn a_file_that_keeps_changing_is_discarded() {
        let errors = vec![(changed(), true); 4];
        assert_eq!(
            simulate(&mut new_policy(), &errors),
            "replan 1, replan 2, replan 4, discard"
        );
    }

    #[test]
    fn an_expired_link_is_retried_and_a_refused_one_is_given_up() {
        let mut retry_policy = new_policy();
        let expired = [
            (refused_link(), true),
            (dropped(), true),
            (refused_link(), true),
        ];
        assert_eq!(simulate(&mut retry_policy, &expired), "1, 1, 1");
        let refused = vec![(refused_link(), false); 4];
        assert_eq!(simulate(&mut retry_policy, &refused), "2, 4, 8, give up");
    }

    #[test]
    fn a_server_that_ignores_ranges_is_retried_without_them_at_once() {
        let mut retry_policy = new_policy();
        assert!(!retry_policy.is_range_unsupported());
        let ignored = AttemptError::RangeIgnored(HubError::NotAHub {
            host: "h".to_owned(),
            what: "w".to_owned(),
        });
        assert_eq!(simulate(&mut retry_policy, &[(ignored, false)]), "0");
        assert!(retry_policy.is_range_unsupported());
    }

    #[test]
    fn permanent_errors_give_up_at_once() {
        for error in [
            HubError::Offline,
            HubError::ProxyRefused,
            HubError::Gated {
                repository: "r".to_owned(),
                page: "p".to_owned(),
            },
            HubError::DiskFull {
                folder: "d".into(),
                needed_bytes: 2,
                free_bytes: 1,
            },
        ] {
            assert_eq!(
                new_policy().next_action(&AttemptError::Hub(error), true),
                RetryAction::GiveUp
            );
        }
    }

    #[test]
    fn two_policies_have_different_jitter() {
        let waits = [1, 2].map(|seed| {
            let mut retry_policy = RetryPolicy::new(RetryOptions::default(), seed);
            retry_policy.next_action(&dropped(), false)
        });
        assert_ne!(waits[0], waits[1]);
    }
}

//! What to do after which fault: again, after how long, from the start, or not at all.
//!
//! Rule: this is pure. It sees faults and progress, and draws its jitter from a seeded source, so
//! every course of events is tested as a timeline. Waiting for what time mends never ends; what
//! brings nothing, and what is wrong, does.

use std::time::Duration;

use crate::{HubError, Patience};

/// How often bytes may come wrong, or change, before it is no accident.
const MOST_DAMAGED: u32 = 1;
const MOST_CHANGED: u32 = 3;
/// A server that refuses a link or a range that it offered itself.
const MOST_REFUSED: u32 = 4;

/// What went wrong with an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// What people are told.
    Hub(HubError),
    /// The whole file came where a part of it was asked for.
    RangeIgnored(HubError),
    /// The blob store refuses the link that the hub gave; it was for a while only.
    LinkRefused(HubError),
}

impl Fault {
    pub(crate) fn error(&self) -> &HubError {
        match self {
            Self::Hub(error) | Self::RangeIgnored(error) | Self::LinkRefused(error) => error,
        }
    }
}

impl From<HubError> for Fault {
    fn from(error: HubError) -> Self {
        Self::Hub(error)
    }
}

/// What follows from a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Go on after this time from what is there.
    Again(Duration),
    /// After this time, from nothing: what came of this file is not what it should be.
    StartOver(Duration),
    /// After this time, with what the hub says of the file by then: its bytes are kept if it is
    /// still the same one.
    AskAnew(Duration),
    /// Time will not mend it. What came stays.
    GiveUp,
    /// Time will not mend it, and what came is wrong: it goes.
    Discard,
}

/// The history of one file's attempts, as far as decisions need it.
#[derive(Debug)]
pub(crate) struct Course {
    patience: Patience,
    random: fastrand::Rng,
    /// Without a network, of late.
    n_unreachable: u32,
    n_fruitless: u32,
    n_damaged: u32,
    n_changed: u32,
    n_refused: u32,
    is_whole_only: bool,
}

impl Course {
    pub(crate) fn new(patience: Patience, seed: u64) -> Self {
        Self {
            patience,
            random: fastrand::Rng::with_seed(seed),
            n_unreachable: 0,
            n_fruitless: 0,
            n_damaged: 0,
            n_changed: 0,
            n_refused: 0,
            is_whole_only: false,
        }
    }

    /// The server gives no parts of this file, so one connection takes all of it.
    pub(crate) fn is_whole_only(&self) -> bool {
        self.is_whole_only
    }

    /// Says what to do after an attempt that ended with a fault. `has_progressed`: it brought
    /// bytes that were not there before.
    pub(crate) fn after(&mut self, fault: &Fault, has_progressed: bool) -> Step {
        if has_progressed {
            self.n_fruitless = 0;
            self.n_refused = 0;
        }
        if !matches!(fault.error(), HubError::Unreachable { .. }) {
            self.n_unreachable = 0;
        }
        let error = match fault {
            Fault::RangeIgnored(_) if !self.is_whole_only => {
                self.is_whole_only = true;
                return Step::Again(Duration::ZERO);
            }
            Fault::RangeIgnored(_) => return self.refused(),
            Fault::LinkRefused(_) => return self.refused(),
            Fault::Hub(error) => error,
        };
        match error {
            // Comes back by itself, be it tomorrow, and says nothing of the hub.
            HubError::Unreachable { .. } => {
                self.n_unreachable = self.n_unreachable.saturating_add(1);
                Step::Again(self.back_off(self.n_unreachable))
            }
            HubError::InUse { .. } => Step::Again(self.back_off(2)),
            HubError::Dropped { .. }
            | HubError::Silent { .. }
            | HubError::NotAHub { .. }
            | HubError::WrongLength { .. } => self.fruitless(None),
            HubError::TooManyRequests { seconds, .. } | HubError::ServerTrouble { seconds, .. } => {
                self.fruitless(seconds.map(Duration::from_secs))
            }
            HubError::RangeRefused { .. } => self.refused(),
            HubError::WrongHash { .. } if self.n_damaged >= MOST_DAMAGED => Step::Discard,
            HubError::WrongHash { .. } => {
                self.n_damaged += 1;
                self.n_fruitless = 0;
                Step::StartOver(self.back_off(1))
            }
            HubError::ChangedMeanwhile { .. } if self.n_changed >= MOST_CHANGED => Step::Discard,
            HubError::ChangedMeanwhile { .. } => {
                self.n_changed += 1;
                Step::AskAnew(self.back_off(self.n_changed))
            }
            _ => Step::GiveUp,
        }
    }

    /// Again with more and more time between, until patience ends.
    fn fruitless(&mut self, asked: Option<Duration>) -> Step {
        self.n_fruitless += 1;
        if self.n_fruitless > self.patience.n_tries {
            return Step::GiveUp;
        }
        let own = self.back_off(self.n_fruitless);
        Step::Again(asked.map_or(own, |asked| asked.max(own)))
    }

    fn refused(&mut self) -> Step {
        self.n_refused += 1;
        if self.n_refused > MOST_REFUSED.min(self.patience.n_tries) {
            return Step::GiveUp;
        }
        Step::Again(self.back_off(self.n_refused))
    }

    /// Doubles with each time, give or take a fifth, so that many who lost the same server do not
    /// come back at the same moment.
    fn back_off(&mut self, n_times: u32) -> Duration {
        let doubled = self
            .patience
            .first_wait
            .saturating_mul(1 << n_times.saturating_sub(1).min(20));
        let jitter = 0.8 + 0.4 * self.random.f64();
        doubled.min(self.patience.longest_wait).mul_f64(jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course() -> Course {
        Course::new(Patience::default(), 1)
    }

    fn dropped() -> Fault {
        Fault::Hub(HubError::Dropped {
            file: "f".to_owned(),
        })
    }

    fn busy(seconds: Option<u64>) -> Fault {
        Fault::Hub(HubError::TooManyRequests {
            host: "h".to_owned(),
            seconds,
        })
    }

    fn unreachable() -> Fault {
        Fault::Hub(HubError::Unreachable {
            host: "h".to_owned(),
            reason: "no network".to_owned(),
        })
    }

    fn wrong_hash() -> Fault {
        Fault::Hub(HubError::WrongHash {
            file: "f".to_owned(),
            expected: "a".to_owned(),
            found: "b".to_owned(),
        })
    }

    fn changed() -> Fault {
        Fault::Hub(HubError::ChangedMeanwhile {
            file: "f".to_owned(),
        })
    }

    fn refused_link() -> Fault {
        Fault::LinkRefused(HubError::Forbidden {
            host: "h".to_owned(),
            what: "f".to_owned(),
        })
    }

    /// The steps of a course, with waits in whole seconds as they would be without jitter.
    fn play(course: &mut Course, faults: &[(Fault, bool)]) -> String {
        let steps = faults.iter().map(|(fault, has_progressed)| {
            let seconds = |wait: Duration| {
                let whole = wait.as_secs_f64();
                let near = |base: f64| (whole - base).abs() <= base * 0.2 + 1e-9;
                [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 90.0]
                    .into_iter()
                    .find(|base| near(*base))
                    .map_or(format!("{whole}"), |base| format!("{base}"))
            };
            match course.after(fault, *has_progressed) {
                Step::Again(wait) => seconds(wait),
                Step::StartOver(wait) => format!("over {}", seconds(wait)),
                Step::AskAnew(wait) => format!("anew {}", seconds(wait)),
                Step::GiveUp => "give up".to_owned(),
                Step::Discard => "discard".to_owned(),
            }
        });
        steps.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_connection_that_drops_without_progress_is_tried_ten_times() {
        let faults = vec![(dropped(), false); 11];
        assert_eq!(
            play(&mut course(), &faults),
            "1, 2, 4, 8, 16, 32, 60, 60, 60, 60, give up"
        );
    }

    #[test]
    fn progress_forgets_what_went_wrong_before() {
        let faults = vec![(dropped(), true); 200];
        let steps = play(&mut course(), &faults);
        assert!(steps.split(", ").all(|step| step == "1"), "{steps}");
    }

    #[test]
    fn without_a_network_it_waits_for_ever() {
        let mut course = course();
        let steps = play(&mut course, &vec![(unreachable(), false); 500]);
        assert!(steps.starts_with("1, 2, 4, 8, 16, 32, 60"), "{steps}");
        assert!(steps.ends_with("60, 60"), "{steps}");
        assert_eq!(play(&mut course, &[(dropped(), true)]), "1");
    }

    #[test]
    fn a_night_without_a_network_does_not_use_up_the_patience_with_the_hub() {
        let mut course = course();
        play(&mut course, &vec![(unreachable(), false); 500]);
        let faults = vec![(dropped(), false); 11];
        assert_eq!(
            play(&mut course, &faults),
            "1, 2, 4, 8, 16, 32, 60, 60, 60, 60, give up"
        );
    }

    #[test]
    fn a_busy_hub_is_left_alone_for_as_long_as_it_asks() {
        let faults = [
            (busy(Some(90)), false),
            (busy(None), false),
            (busy(Some(0)), false),
        ];
        let steps = play(&mut course(), &faults);
        assert_eq!(steps, "90, 2, 4");
    }

    #[test]
    fn damage_starts_over_once_and_then_is_thrown_away() {
        let faults = [
            (wrong_hash(), true),
            (dropped(), true),
            (wrong_hash(), true),
        ];
        assert_eq!(play(&mut course(), &faults), "over 1, 1, discard");
    }

    #[test]
    fn a_file_that_keeps_changing_is_given_up() {
        let faults = vec![(changed(), true); 4];
        assert_eq!(
            play(&mut course(), &faults),
            "anew 1, anew 2, anew 4, discard"
        );
    }

    #[test]
    fn a_link_that_expired_is_asked_for_again_and_one_that_stays_refused_is_not() {
        let mut course = course();
        let expired = [
            (refused_link(), true),
            (dropped(), true),
            (refused_link(), true),
        ];
        assert_eq!(play(&mut course, &expired), "1, 1, 1");
        let refused = vec![(refused_link(), false); 4];
        assert_eq!(play(&mut course, &refused), "2, 4, 8, give up");
    }

    #[test]
    fn a_server_without_ranges_is_asked_for_the_whole_file_at_once() {
        let mut course = course();
        assert!(!course.is_whole_only());
        let ignored = Fault::RangeIgnored(HubError::NotAHub {
            host: "h".to_owned(),
            what: "w".to_owned(),
        });
        assert_eq!(play(&mut course, &[(ignored, false)]), "0");
        assert!(course.is_whole_only());
    }

    #[test]
    fn what_time_does_not_mend_ends_at_once_and_keeps_what_came() {
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
            assert_eq!(course().after(&Fault::Hub(error), true), Step::GiveUp);
        }
    }

    #[test]
    fn two_courses_do_not_come_back_at_the_same_moment() {
        let waits = [1, 2].map(|seed| {
            let mut course = Course::new(Patience::default(), seed);
            course.after(&dropped(), false)
        });
        assert_ne!(waits[0], waits[1]);
    }
}

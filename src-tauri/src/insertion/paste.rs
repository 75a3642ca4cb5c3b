//! The course of a paste whose text the app itself provides: when to press the keys, and how long to
//! offer the text.
//!
//! Rule: no clock is read here; `now` is an argument.

use std::time::{Duration, Instant};

/// The program must have the focus for this long, so that its text field has it too.
const SETTLE_TIME: Duration = Duration::from_millis(50);

/// Maximum time until the program has the focus and no modifier key is held down.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time until the program asks for the text that it should paste.
const PASTE_TIMEOUT: Duration = Duration::from_secs(3);

/// A program may ask for the text several times, in different formats.
const QUIET_TIME: Duration = Duration::from_millis(300);

/// Progress of a paste whose text the app itself provides.
#[derive(Debug)]
pub(super) struct Paste {
    started: Instant,
    ready_since: Option<Instant>,
    pressed: Option<Instant>,
    /// When the program last asked for the text.
    asked: Option<Instant>,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Wait,
    PressKeys,
    /// The program has the text, or it will not ask for it anymore.
    End {
        is_pasted: bool,
    },
}

impl Paste {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            started: now,
            ready_since: None,
            pressed: None,
            asked: None,
        }
    }

    /// Returns the next step. `is_ready`: the program has the focus and no modifier key is down.
    /// `is_asked`: a program asked for the text since the last call. Before the keys are pressed,
    /// only programs that watch the clipboard do.
    pub(super) fn step(&mut self, now: Instant, is_ready: bool, is_asked: bool) -> Step {
        let Some(pressed) = self.pressed else {
            return self.step_before_keys(now, is_ready);
        };
        if is_asked {
            self.asked = Some(now);
        }
        match self.asked {
            Some(asked) if now >= asked + QUIET_TIME => Step::End { is_pasted: true },
            None if now >= pressed + PASTE_TIMEOUT => Step::End { is_pasted: false },
            _ => Step::Wait,
        }
    }

    fn step_before_keys(&mut self, now: Instant, is_ready: bool) -> Step {
        let since = is_ready.then(|| self.ready_since.unwrap_or(now));
        self.ready_since = since;
        match since {
            Some(since) if now >= since + SETTLE_TIME => {
                self.pressed = Some(now);
                Step::PressKeys
            }
            None if now >= self.started + READY_TIMEOUT => Step::End { is_pasted: false },
            _ => Step::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn keys_are_pressed_once_the_program_has_the_focus_for_a_moment() {
        let start = Instant::now();
        let mut paste = Paste::new(start);
        assert_eq!(paste.step(start, true, false), Step::Wait);
        assert_eq!(
            paste.step(start + 40 * MS, false, false),
            Step::Wait,
            "lost"
        );
        assert_eq!(paste.step(start + 60 * MS, true, false), Step::Wait);
        assert_eq!(paste.step(start + 110 * MS, true, false), Step::PressKeys);
        assert_eq!(paste.step(start + 120 * MS, true, false), Step::Wait);
    }

    #[test]
    fn the_text_is_offered_until_the_program_has_it_and_asks_no_more() {
        let start = Instant::now();
        let mut paste = Paste::new(start);
        // A program that watches the clipboard asks before the keys.
        assert_eq!(paste.step(start, true, true), Step::Wait);
        let pressed = start + SETTLE_TIME;
        assert_eq!(paste.step(pressed, true, false), Step::PressKeys);
        assert_eq!(paste.step(pressed + 900 * MS, true, false), Step::Wait);
        assert_eq!(paste.step(pressed + 1000 * MS, true, true), Step::Wait);
        assert_eq!(paste.step(pressed + 1200 * MS, true, true), Step::Wait);
        assert_eq!(paste.step(pressed + 1499 * MS, true, false), Step::Wait);
        let end = paste.step(pressed + 1500 * MS, true, false);
        assert_eq!(end, Step::End { is_pasted: true });
    }

    #[test]
    fn a_program_that_never_pastes_is_given_up() {
        let start = Instant::now();
        let mut paste = Paste::new(start);
        assert_eq!(
            paste.step(start + READY_TIMEOUT - MS, false, false),
            Step::Wait
        );
        let end = paste.step(start + READY_TIMEOUT, false, false);
        assert_eq!(end, Step::End { is_pasted: false }, "it has no focus");
        let mut paste = Paste::new(start);
        paste.step(start, true, false);
        let pressed = start + SETTLE_TIME;
        assert_eq!(paste.step(pressed, true, false), Step::PressKeys);
        let end = paste.step(pressed + PASTE_TIMEOUT, true, false);
        assert_eq!(end, Step::End { is_pasted: false }, "it ignores the keys");
    }
}

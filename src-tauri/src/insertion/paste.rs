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
    has_other_asked: bool,
}

/// Who asked for the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asked {
    Nobody,
    /// Another program, such as one that keeps a history of the clipboard, or a helper process of
    /// the program.
    Other,
    Program,
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
            has_other_asked: false,
        }
    }

    /// Returns the next step. `is_ready`: the program has the focus and no modifier key is down.
    /// `asked` is about the time since the last call. Before the keys are pressed, only programs
    /// that watch the clipboard ask.
    pub(super) fn step(&mut self, now: Instant, is_ready: bool, asked: Asked) -> Step {
        let Some(pressed) = self.pressed else {
            return self.step_before_keys(now, is_ready);
        };
        match asked {
            Asked::Nobody => {}
            Asked::Other => self.has_other_asked = true,
            Asked::Program => self.asked = Some(now),
        }
        match self.asked {
            Some(asked) if now >= asked + QUIET_TIME => Step::End { is_pasted: true },
            None if now >= pressed + PASTE_TIMEOUT => Step::End {
                is_pasted: self.has_other_asked,
            },
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
    use super::Asked::{Nobody, Other, Program};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn keys_are_pressed_once_the_program_has_the_focus_for_a_moment() {
        let start = Instant::now();
        let mut paste = Paste::new(start);
        assert_eq!(paste.step(start, true, Nobody), Step::Wait);
        assert_eq!(
            paste.step(start + 40 * MS, false, Nobody),
            Step::Wait,
            "lost"
        );
        assert_eq!(paste.step(start + 60 * MS, true, Nobody), Step::Wait);
        assert_eq!(paste.step(start + 110 * MS, true, Nobody), Step::PressKeys);
        assert_eq!(paste.step(start + 120 * MS, true, Nobody), Step::Wait);
    }

    #[test]
    fn the_text_is_offered_until_the_program_has_it_and_asks_no_more() {
        let start = Instant::now();
        let mut paste = Paste::new(start);
        // A program that watches the clipboard asks before the keys.
        assert_eq!(paste.step(start, true, Other), Step::Wait);
        let pressed = start + SETTLE_TIME;
        assert_eq!(paste.step(pressed, true, Nobody), Step::PressKeys);
        assert_eq!(paste.step(pressed + 900 * MS, true, Nobody), Step::Wait);
        assert_eq!(paste.step(pressed + 1000 * MS, true, Program), Step::Wait);
        assert_eq!(paste.step(pressed + 1200 * MS, true, Program), Step::Wait);
        assert_eq!(paste.step(pressed + 1499 * MS, true, Nobody), Step::Wait);
        let end = paste.step(pressed + 1500 * MS, true, Nobody);
        assert_eq!(end, Step::End { is_pasted: true });
    }

    #[test]
    fn a_program_that_never_pastes_is_given_up() {
        let start = Instant::now();
        let mut paste = Paste::new(start);
        assert_eq!(
            paste.step(start + READY_TIMEOUT - MS, false, Nobody),
            Step::Wait
        );
        let end = paste.step(start + READY_TIMEOUT, false, Nobody);
        assert_eq!(end, Step::End { is_pasted: false }, "it has no focus");
        let mut paste = Paste::new(start);
        paste.step(start, true, Nobody);
        let pressed = start + SETTLE_TIME;
        assert_eq!(paste.step(pressed, true, Nobody), Step::PressKeys);
        let end = paste.step(pressed + PASTE_TIMEOUT, true, Nobody);
        assert_eq!(end, Step::End { is_pasted: false }, "it ignores the keys");
    }

    #[test]
    fn a_request_of_another_program_does_not_end_the_paste() {
        let start = Instant::now();
        let pressed = start + SETTLE_TIME;
        let asked_by_other = || {
            let mut paste = Paste::new(start);
            paste.step(start, true, Nobody);
            assert_eq!(paste.step(pressed, true, Nobody), Step::PressKeys);
            assert_eq!(paste.step(pressed + MS, true, Other), Step::Wait);
            assert_eq!(paste.step(pressed + 900 * MS, true, Nobody), Step::Wait);
            paste
        };
        // The program is slower than a history of the clipboard.
        let mut paste = asked_by_other();
        let asked = pressed + 1000 * MS;
        assert_eq!(paste.step(asked, true, Program), Step::Wait);
        let end = paste.step(asked + QUIET_TIME, true, Nobody);
        assert_eq!(end, Step::End { is_pasted: true });
        // Some programs have a helper process for the clipboard.
        let end = asked_by_other().step(pressed + PASTE_TIMEOUT, true, Nobody);
        assert_eq!(end, Step::End { is_pasted: true });
    }
}

//! Decides how a text gets into another program: whether it can, which keys, and when.
//!
//! Rule: no clock is read and no system is called here.

use std::time::{Duration, Instant};

use crate::wire::TargetProblem;

/// The program must have the focus for this long, so that its text field has it too.
const SETTLE_TIME: Duration = Duration::from_millis(50);

/// Maximum time until the program has the focus and no modifier key is held down.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time until the program asks for the text that it should paste.
const PASTE_TIMEOUT: Duration = Duration::from_secs(3);

/// A program may ask for the text several times, in different formats.
const QUIET_TIME: Duration = Duration::from_millis(300);

/// What is known about the place for a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) is_wayland: bool,
    /// The user allows the app to use other programs.
    pub(super) is_allowed: bool,
    /// The quick prompt was called from another program.
    pub(super) has_program: bool,
    pub(super) is_password: bool,
}

/// Returns why no text can be inserted; `None` if it can. A reason that the user can change comes
/// before one that needs another program.
pub(super) fn problem(facts: Facts) -> Option<TargetProblem> {
    if facts.is_wayland {
        Some(TargetProblem::Wayland)
    } else if !facts.is_allowed {
        Some(TargetProblem::NotAllowed)
    } else if !facts.has_program {
        Some(TargetProblem::NoProgram)
    } else {
        facts.is_password.then_some(TargetProblem::Password)
    }
}

/// Returns true if a program that accepted a text through the Accessibility API has it. Some accept
/// a text and drop it, which shows only in the number of their characters, `before` and `after`.
#[cfg(any(test, target_os = "macos"))]
pub(super) fn has_taken(
    before: Option<i64>,
    after: Option<i64>,
    replaced: &str,
    inserted: &str,
) -> bool {
    let is_length_equal = replaced.encode_utf16().count() == inserted.encode_utf16().count();
    is_length_equal || before.is_none() || before != after
}

/// A key press in the other program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// The right arrow, which moves the cursor to the end of selected text.
    Right,
    /// Control-V, or Command-V on a Mac.
    Paste,
}

/// Returns the keys that insert the clipboard after the selected text, or replace that text.
pub(super) fn keys(replaces: bool, has_selection: bool) -> &'static [Key] {
    match !replaces && has_selection {
        true => &[Key::Right, Key::Paste],
        false => &[Key::Paste],
    }
}

/// How a paste ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ending {
    /// The program has the text, as far as the system reports that.
    pub(super) is_pasted: bool,
    /// Nothing else was put on the clipboard meanwhile, so its earlier text can be restored.
    pub(super) is_clipboard_ours: bool,
}

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
    fn a_problem_is_named_by_what_the_user_can_change() {
        let good = Facts {
            is_wayland: false,
            is_allowed: true,
            has_program: true,
            is_password: false,
        };
        assert_eq!(problem(good), None);
        for (facts, expected) in [
            (
                Facts {
                    is_password: true,
                    ..good
                },
                TargetProblem::Password,
            ),
            (
                Facts {
                    has_program: false,
                    ..good
                },
                TargetProblem::NoProgram,
            ),
            (
                Facts {
                    is_allowed: false,
                    has_program: false,
                    ..good
                },
                TargetProblem::NotAllowed,
            ),
            (
                Facts {
                    is_wayland: true,
                    has_program: false,
                    ..good
                },
                TargetProblem::Wayland,
            ),
        ] {
            assert_eq!(problem(facts), Some(expected), "{facts:?}");
        }
    }

    #[test]
    fn a_program_that_drops_the_text_is_found_by_its_number_of_characters() {
        assert!(has_taken(Some(10), Some(15), "", "words"));
        assert!(!has_taken(Some(10), Some(10), "", "words"));
        assert!(has_taken(Some(10), Some(10), "terms", "words"), "unknown");
        assert!(has_taken(None, None, "", "words"), "unknown");
    }

    #[test]
    fn inserting_keeps_the_selected_text() {
        assert_eq!(keys(false, true), [Key::Right, Key::Paste]);
        assert_eq!(keys(false, false), [Key::Paste]);
        assert_eq!(keys(true, true), [Key::Paste]);
    }

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

//! Decides whether and with which keys a text gets into another program.
//!
//! Rule: no system is called here.

use crate::wire::TargetProblem;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}

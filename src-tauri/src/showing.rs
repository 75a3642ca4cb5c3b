//! When a window is shown, hidden or let go: what is decided from times and focus, without a window.
//!
//! A click on the icon and a press of the hotkey both take the focus from the window before they are
//! heard of, so a window that hid because of that would come back with the very press that was to
//! hide it.
//!
//! Rule: no clock is read here; `now` is an argument.

use std::time::{Duration, Instant};

/// A press that comes this soon after the window lost the focus is the one that took it. People
/// hold a key for 50 to 200 ms; the click of a mouse is heard when the button is let go.
const SAME_PRESS: Duration = Duration::from_millis(400);

/// Time for the focus to come back: a grab of the keyboard by another program's hotkey takes it for
/// a moment only.
pub(crate) const BLUR_GRACE: Duration = Duration::from_millis(150);

/// A hidden chat is let go after this long, and its 100 MB with it.
pub(crate) const CHAT_KEPT: Duration = Duration::from_secs(600);

/// A press that comes this soon after the key was let go is the keyboard repeating a key that is
/// held, which X11 tells as letting go and pressing at one time. No finger is as fast.
const REPEAT: Duration = Duration::from_millis(50);

/// Tells presses of the hotkey from the repeats of one that is held.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Presses {
    released_at: Option<Instant>,
}

impl Presses {
    /// Whether a press at `now` is a new one.
    pub(crate) fn is_new(&self, now: Instant) -> bool {
        let is_repeat = self
            .released_at
            .is_some_and(|at| now.saturating_duration_since(at) < REPEAT);
        !is_repeat
    }

    /// The key was let go, or seemed so.
    pub(crate) fn released(&mut self, now: Instant) {
        self.released_at = Some(now);
    }
}

/// What the shell knows of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Showing {
    /// It is on the screen.
    pub(crate) is_visible: bool,
    /// When the focus left it last.
    pub(crate) blurred_at: Option<Instant>,
    /// It hid because the focus had left it, and not because it was told to.
    pub(crate) hid_by_itself: bool,
    /// When it was hidden last.
    pub(crate) hidden_at: Option<Instant>,
    /// Dialogs of the system that are open on its behalf: they take the focus and give it back.
    pub(crate) n_dialogs: u32,
    /// Files are being dragged over it.
    pub(crate) is_dragged_over: bool,
}

/// What becomes of a window some time after it lost the focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterBlur {
    /// It hides.
    Hide,
    /// It stays.
    Stay,
    /// It stays for now: files may be on their way to it.
    LookAgain,
}

impl Showing {
    /// It came on the screen.
    pub(crate) fn shown(&mut self) {
        *self = Self {
            is_visible: true,
            n_dialogs: self.n_dialogs,
            ..Self::default()
        };
    }

    /// It left the screen.
    pub(crate) fn hidden(&mut self, by_itself: bool, now: Instant) {
        self.is_visible = false;
        self.hid_by_itself = by_itself;
        self.hidden_at = Some(now);
    }

    /// The focus left it or came back.
    pub(crate) fn focused(&mut self, is_focused: bool, now: Instant) {
        self.blurred_at = (!is_focused).then_some(now);
    }

    /// It has the keys.
    pub(crate) fn has_focus(&self) -> bool {
        self.is_visible && self.blurred_at.is_none()
    }

    /// Whether a press of the icon or hotkey at `now` shows the window; else it hides it, or leaves
    /// it hidden. One that is on the screen without the focus, as a pinned one, comes to the front.
    pub(crate) fn toggle_shows(&self, now: Instant) -> bool {
        let is_same_press = self
            .blurred_at
            .is_some_and(|at| now.saturating_duration_since(at) < SAME_PRESS);
        match (self.is_visible, is_same_press) {
            (true, true) => false,
            (true, false) => self.blurred_at.is_some(),
            (false, true) => !self.hid_by_itself,
            (false, false) => true,
        }
    }

    /// What becomes of a window that lost the focus. As long as a button of the mouse is down, files
    /// may be dragged to it from the program that took the focus.
    pub(crate) fn after_blur(
        &self,
        is_pinned: bool,
        is_button_down: bool,
        now: Instant,
    ) -> AfterBlur {
        let is_over = self
            .blurred_at
            .is_some_and(|at| now.saturating_duration_since(at) >= BLUR_GRACE);
        match self.is_visible && is_over && !is_pinned && self.n_dialogs == 0 {
            false => AfterBlur::Stay,
            true if is_button_down || self.is_dragged_over => AfterBlur::LookAgain,
            true => AfterBlur::Hide,
        }
    }

    /// Whether a window that was hidden is let go now.
    pub(crate) fn is_due(&self, kept: Duration, now: Instant) -> bool {
        let is_old = self
            .hidden_at
            .is_some_and(|at| now.saturating_duration_since(at) >= kept);
        !self.is_visible && is_old && self.n_dialogs == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A window that was shown and has the focus.
    fn shown() -> (Showing, Instant) {
        let now = Instant::now();
        let mut showing = Showing::default();
        showing.shown();
        showing.focused(true, now);
        (showing, now)
    }

    #[test]
    fn a_key_that_is_held_is_one_press() {
        let now = Instant::now();
        let mut presses = Presses::default();
        assert!(presses.is_new(now));
        for n in 0..10 {
            let at = now + (500 + 30 * n) * MS;
            presses.released(at);
            assert!(!presses.is_new(at + MS));
        }
        presses.released(now + 900 * MS);
        assert!(presses.is_new(now + 1000 * MS));
    }

    #[test]
    fn a_press_shows_and_the_next_hides() {
        let (showing, now) = shown();
        assert!(Showing::default().toggle_shows(now));
        assert!(!showing.toggle_shows(now));
    }

    #[test]
    fn a_press_that_took_the_focus_first_still_hides() {
        let (mut showing, now) = shown();
        showing.focused(false, now);
        assert!(!showing.toggle_shows(now + 5 * MS), "before it hid");
        showing.hidden(true, now + BLUR_GRACE);
        assert!(!showing.toggle_shows(now + 200 * MS), "after it hid");
        assert!(showing.toggle_shows(now + 500 * MS), "another press");
    }

    #[test]
    fn a_window_hidden_by_its_own_key_comes_back_at_once() {
        let (mut showing, now) = shown();
        // Hiding takes the focus as well.
        showing.hidden(false, now);
        showing.focused(false, now + MS);
        assert!(showing.toggle_shows(now + 100 * MS));
    }

    #[test]
    fn a_pinned_window_behind_others_comes_to_the_front() {
        let (mut showing, now) = shown();
        showing.focused(false, now);
        assert!(showing.toggle_shows(now + 1000 * MS));
    }

    #[test]
    fn losing_the_focus_hides_unless_it_comes_back_or_something_holds_the_window() {
        let (mut showing, now) = shown();
        showing.focused(false, now);
        let after =
            |showing: &Showing, is_pinned, wait| showing.after_blur(is_pinned, false, now + wait);
        assert_eq!(after(&showing, false, 50 * MS), AfterBlur::Stay, "too soon");
        assert_eq!(after(&showing, false, BLUR_GRACE), AfterBlur::Hide);
        assert_eq!(after(&showing, true, BLUR_GRACE), AfterBlur::Stay, "pinned");
        showing.n_dialogs = 1;
        assert_eq!(
            after(&showing, false, BLUR_GRACE),
            AfterBlur::Stay,
            "a dialog"
        );
        showing.n_dialogs = 0;
        showing.focused(true, now + 100 * MS);
        assert_eq!(
            after(&showing, false, BLUR_GRACE),
            AfterBlur::Stay,
            "came back"
        );
    }

    #[test]
    fn a_drag_from_another_program_finds_the_window_there() {
        let (mut showing, now) = shown();
        showing.focused(false, now);
        let later = now + 10 * BLUR_GRACE;
        // The button went down in the other program, which took the focus.
        assert_eq!(showing.after_blur(false, true, later), AfterBlur::LookAgain);
        showing.is_dragged_over = true;
        assert_eq!(
            showing.after_blur(false, false, later),
            AfterBlur::LookAgain
        );
        // It was let go elsewhere.
        showing.is_dragged_over = false;
        assert_eq!(showing.after_blur(false, false, later), AfterBlur::Hide);
        assert_eq!(
            showing.after_blur(true, true, later),
            AfterBlur::Stay,
            "pinned"
        );
    }

    #[test]
    fn a_window_is_let_go_when_it_was_hidden_for_long() {
        let (mut showing, now) = shown();
        assert!(!showing.is_due(CHAT_KEPT, now + CHAT_KEPT));
        showing.hidden(false, now);
        assert!(!showing.is_due(CHAT_KEPT, now + CHAT_KEPT - MS));
        assert!(showing.is_due(CHAT_KEPT, now + CHAT_KEPT));
        showing.shown();
        assert!(!showing.is_due(CHAT_KEPT, now + CHAT_KEPT));
    }
}

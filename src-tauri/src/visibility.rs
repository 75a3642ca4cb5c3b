//! When a window is shown, hidden or destroyed: decisions from times and focus, without a window.
//!
//! A click on the icon and a press of the shortcut take the focus from the window before they are
//! reported. So a window that hides on blur would be shown again by the same press that should hide
//! it.
//!
//! Rule: no clock is read here; `now` is an argument.

use std::time::{Duration, Instant};

use transom_store::General;

use crate::wire::Window;

/// A press this soon after the window lost the focus is the one that took it. Keys are held for 50
/// to 200 ms, and a click is reported when the button is released.
const SAME_PRESS_WINDOW: Duration = Duration::from_millis(400);

/// Time for the focus to return: a keyboard grab by another program's shortcut takes it only for a
/// moment.
pub(crate) const BLUR_GRACE: Duration = Duration::from_millis(150);

/// A chat window hidden for this long is destroyed, which releases its 100 MB.
pub(crate) const CHAT_DESTROY_DELAY: Duration = Duration::from_secs(600);

/// A press this soon after a release is a key repeat, which X11 reports as release and press at the
/// same time. No finger is as fast.
const REPEAT_WINDOW: Duration = Duration::from_millis(50);

/// Returns true if a window is a panel: it has no title bar, the app places it each time it is
/// shown, and it is hidden when another window gets the focus.
pub(crate) fn is_panel(window: Window, is_chat_in_window: bool) -> bool {
    match window {
        Window::Chat => !is_chat_in_window,
        Window::Prompt => true,
        Window::Settings => false,
    }
}

/// Returns true if the user wants a window to stay when another one gets the focus.
pub(crate) fn is_pinned(window: Window, general: &General) -> bool {
    match window {
        Window::Chat => general.pin_chat,
        Window::Prompt => general.pin_prompt,
        Window::Settings => false,
    }
}

/// Returns true if the quick prompt's page is created before its first use. The page and its
/// processes take about 190 MB, so only machines with 16 GB do that, which report a little less.
pub(crate) fn prepares_prompt(memory_bytes: u64) -> bool {
    const GB: u64 = 1 << 30;
    memory_bytes >= 15 * GB
}

/// Returns true if the Dock shows the app: if the user wants it, and while the chat is open as an
/// ordinary window, which would otherwise be missing in the app switcher.
pub(crate) fn is_in_dock(show_in_dock: bool, chat: &Visibility, is_chat_panel: bool) -> bool {
    show_in_dock || (chat.is_visible && !is_chat_panel)
}

/// Returns the panel that the keys to quit hide. A panel leaves another app active, so they are
/// meant for what is in front, and the menu-bar app stays.
pub(crate) fn hidden_by_quit(focused: Option<(Window, bool)>) -> Option<Window> {
    focused.and_then(|(window, is_panel)| is_panel.then_some(window))
}

/// Distinguishes presses of the shortcut from key repeats.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeyRepeatFilter {
    released_at: Option<Instant>,
}

impl KeyRepeatFilter {
    /// Returns true if a press at `now` is not a key repeat.
    pub(crate) fn is_new(&self, now: Instant) -> bool {
        has_passed(REPEAT_WINDOW, self.released_at, now).unwrap_or(true)
    }

    /// Records a release, or what looks like one.
    pub(crate) fn released(&mut self, now: Instant) {
        self.released_at = Some(now);
    }
}

/// The visibility of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Visibility {
    /// It is on the screen.
    pub(crate) is_visible: bool,
    /// When it last lost the focus.
    pub(crate) blurred_at: Option<Instant>,
    /// It was hidden automatically and not by the user.
    pub(crate) was_hidden_automatically: bool,
    /// When it was last hidden.
    pub(crate) hidden_at: Option<Instant>,
    /// Open system dialogs of this window. They take the focus and return it.
    pub(crate) n_dialogs: u32,
    /// Files are being dragged over it.
    pub(crate) is_dragged_over: bool,
}

/// What happens to a window some time after it lost the focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterBlur {
    Hide,
    Stay,
    /// Check again later: files may be on their way to it.
    CheckAgain,
}

impl Visibility {
    pub(crate) fn shown(&mut self) {
        *self = Self {
            is_visible: true,
            n_dialogs: self.n_dialogs,
            ..Self::default()
        };
    }

    pub(crate) fn hidden(&mut self, is_automatic: bool, now: Instant) {
        self.is_visible = false;
        self.was_hidden_automatically = is_automatic;
        self.hidden_at = Some(now);
    }

    pub(crate) fn focused(&mut self, is_focused: bool, now: Instant) {
        self.blurred_at = (!is_focused).then_some(now);
    }

    pub(crate) fn has_focus(&self) -> bool {
        self.is_visible && self.blurred_at.is_none()
    }

    /// Returns true if a press of the icon or shortcut at `now` should show the window. A visible
    /// window without the focus, such as a pinned one, is raised.
    pub(crate) fn shows_on_toggle(&self, now: Instant) -> bool {
        let is_same_press = has_passed(SAME_PRESS_WINDOW, self.blurred_at, now) == Some(false);
        match (self.is_visible, is_same_press) {
            (true, true) => false,
            (true, false) => self.blurred_at.is_some(),
            (false, true) => !self.was_hidden_automatically,
            (false, false) => true,
        }
    }

    /// Decides about a window that lost the focus. While a mouse button is down, files may be
    /// dragged to it from the program that took the focus.
    pub(crate) fn after_blur(
        &self,
        is_pinned: bool,
        is_button_down: bool,
        now: Instant,
    ) -> AfterBlur {
        let has_grace_passed = has_passed(BLUR_GRACE, self.blurred_at, now) == Some(true);
        match self.is_visible && has_grace_passed && !is_pinned && self.n_dialogs == 0 {
            false => AfterBlur::Stay,
            true if is_button_down || self.is_dragged_over => AfterBlur::CheckAgain,
            true => AfterBlur::Hide,
        }
    }

    /// Returns true if a hidden window should be destroyed now.
    pub(crate) fn should_destroy(&self, delay: Duration, now: Instant) -> bool {
        let is_old = has_passed(delay, self.hidden_at, now) == Some(true);
        !self.is_visible && is_old && self.n_dialogs == 0
    }
}

/// Returns true if `now` is at least `time` after a moment; `None` without a moment.
fn has_passed(time: Duration, since: Option<Instant>, now: Instant) -> Option<bool> {
    since.map(|at| now.saturating_duration_since(at) >= time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A window that is visible and has the focus.
    fn shown() -> (Visibility, Instant) {
        let now = Instant::now();
        let mut visibility = Visibility::default();
        visibility.shown();
        visibility.focused(true, now);
        (visibility, now)
    }

    #[test]
    fn only_the_chat_can_be_a_panel_or_an_ordinary_window() {
        for is_chat_in_window in [false, true] {
            assert_eq!(
                is_panel(Window::Chat, is_chat_in_window),
                !is_chat_in_window
            );
            assert!(is_panel(Window::Prompt, is_chat_in_window));
            assert!(!is_panel(Window::Settings, is_chat_in_window));
        }
    }

    #[test]
    fn each_panel_has_its_own_pin() {
        let general = General {
            pin_prompt: true,
            ..General::default()
        };
        assert!(is_pinned(Window::Prompt, &general));
        assert!(!is_pinned(Window::Chat, &general));
        assert!(!is_pinned(Window::Settings, &general));
    }

    #[test]
    fn the_prompt_is_prepared_only_on_machines_with_enough_memory() {
        let gb = 1 << 30;
        assert!(!prepares_prompt(8 * gb));
        assert!(prepares_prompt(16 * gb));
        // Linux does not count what the firmware and the kernel keep.
        assert!(prepares_prompt(16 * gb - 600 * (1 << 20)));
    }

    #[test]
    fn the_dock_shows_the_app_while_the_chat_is_an_open_window() {
        let (open, _) = shown();
        let hidden = Visibility::default();
        assert!(is_in_dock(false, &open, false));
        assert!(!is_in_dock(false, &open, true), "the popover");
        assert!(!is_in_dock(false, &hidden, false));
        assert!(is_in_dock(true, &hidden, true), "the user wants it");
    }

    #[test]
    fn the_keys_to_quit_hide_a_panel_in_front() {
        assert_eq!(
            hidden_by_quit(Some((Window::Prompt, true))),
            Some(Window::Prompt)
        );
        assert_eq!(
            hidden_by_quit(Some((Window::Chat, true))),
            Some(Window::Chat)
        );
        assert_eq!(hidden_by_quit(Some((Window::Chat, false))), None);
        assert_eq!(hidden_by_quit(Some((Window::Settings, false))), None);
        assert_eq!(hidden_by_quit(None), None);
    }

    #[test]
    fn a_held_key_is_one_press() {
        let now = Instant::now();
        let mut key_repeat = KeyRepeatFilter::default();
        assert!(key_repeat.is_new(now));
        for n in 0..10 {
            let at = now + (500 + 30 * n) * MS;
            key_repeat.released(at);
            assert!(!key_repeat.is_new(at + MS));
        }
        key_repeat.released(now + 900 * MS);
        assert!(key_repeat.is_new(now + 1000 * MS));
    }

    #[test]
    fn a_press_shows_and_the_next_one_hides() {
        let (visibility, now) = shown();
        assert!(Visibility::default().shows_on_toggle(now));
        assert!(!visibility.shows_on_toggle(now));
    }

    #[test]
    fn a_press_that_takes_the_focus_first_still_hides() {
        let (mut visibility, now) = shown();
        visibility.focused(false, now);
        assert!(!visibility.shows_on_toggle(now + 5 * MS), "before it hid");
        visibility.hidden(true, now + BLUR_GRACE);
        assert!(!visibility.shows_on_toggle(now + 200 * MS), "after it hid");
        assert!(visibility.shows_on_toggle(now + 500 * MS), "another press");
    }

    #[test]
    fn a_window_hidden_by_the_user_can_be_shown_at_once() {
        let (mut visibility, now) = shown();
        // Hiding takes the focus as well.
        visibility.hidden(false, now);
        visibility.focused(false, now + MS);
        assert!(visibility.shows_on_toggle(now + 100 * MS));
    }

    #[test]
    fn a_pinned_window_behind_others_is_raised() {
        let (mut visibility, now) = shown();
        visibility.focused(false, now);
        assert!(visibility.shows_on_toggle(now + 1000 * MS));
    }

    #[test]
    fn losing_the_focus_hides_unless_it_returns_or_the_window_is_kept_open() {
        let (mut visibility, now) = shown();
        visibility.focused(false, now);
        let after = |visibility: &Visibility, is_pinned, wait| {
            visibility.after_blur(is_pinned, false, now + wait)
        };
        assert_eq!(
            after(&visibility, false, 50 * MS),
            AfterBlur::Stay,
            "too soon"
        );
        assert_eq!(after(&visibility, false, BLUR_GRACE), AfterBlur::Hide);
        assert_eq!(
            after(&visibility, true, BLUR_GRACE),
            AfterBlur::Stay,
            "pinned"
        );
        visibility.n_dialogs = 1;
        assert_eq!(
            after(&visibility, false, BLUR_GRACE),
            AfterBlur::Stay,
            "a dialog"
        );
        visibility.n_dialogs = 0;
        visibility.focused(true, now + 100 * MS);
        assert_eq!(
            after(&visibility, false, BLUR_GRACE),
            AfterBlur::Stay,
            "came back"
        );
    }

    #[test]
    fn a_window_stays_visible_during_a_drag_from_another_program() {
        let (mut visibility, now) = shown();
        visibility.focused(false, now);
        let later = now + 10 * BLUR_GRACE;
        // The button was pressed in the other program, which took the focus.
        assert_eq!(
            visibility.after_blur(false, true, later),
            AfterBlur::CheckAgain
        );
        visibility.is_dragged_over = true;
        assert_eq!(
            visibility.after_blur(false, false, later),
            AfterBlur::CheckAgain
        );
        // The files were dropped elsewhere.
        visibility.is_dragged_over = false;
        assert_eq!(visibility.after_blur(false, false, later), AfterBlur::Hide);
        assert_eq!(
            visibility.after_blur(true, true, later),
            AfterBlur::Stay,
            "pinned"
        );
    }

    #[test]
    fn a_window_is_destroyed_after_it_was_hidden_for_long() {
        let (mut visibility, now) = shown();
        assert!(!visibility.should_destroy(CHAT_DESTROY_DELAY, now + CHAT_DESTROY_DELAY));
        visibility.hidden(false, now);
        assert!(!visibility.should_destroy(CHAT_DESTROY_DELAY, now + CHAT_DESTROY_DELAY - MS));
        assert!(visibility.should_destroy(CHAT_DESTROY_DELAY, now + CHAT_DESTROY_DELAY));
        visibility.shown();
        assert!(!visibility.should_destroy(CHAT_DESTROY_DELAY, now + CHAT_DESTROY_DELAY));
    }
}

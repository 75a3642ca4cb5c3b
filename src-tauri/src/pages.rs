//! The open pages, whether they are ready, and events that wait for them.
//!
//! Rule: events of state go to every page that listens, also while it is loading that state, so that
//! no change is lost in between. One-time events (a notice, a text for the composer) wait until the
//! page is ready.

use std::collections::HashMap;
use std::sync::Mutex;

use tauri::{AppHandle, Emitter, EventTarget};
use tokio::sync::oneshot::{self, Receiver, Sender};

use crate::lock;
use crate::visibility::Visibility;
use crate::wire::{AppEvent, Window};

#[derive(Debug, Default)]
pub(crate) struct Pages {
    state: Mutex<HashMap<Window, Page>>,
}

#[derive(Debug, Default)]
struct Page {
    visibility: Visibility,
    /// See [`crate::visibility::is_panel`].
    is_panel: bool,
    is_ready: bool,
    /// Show the window as soon as the page is ready.
    should_show: bool,
    /// The page took too long to become ready, and is shown as it is.
    has_timed_out: bool,
    /// The app waits for the page until this is dropped. `None` without a window.
    wait: Option<Sender<()>>,
    /// The page was asked to move to a window that is a panel, or that is none.
    moves_to_panel: Option<bool>,
    /// How often the user moved or resized the window.
    n_moves: u64,
    pending: Vec<AppEvent>,
}

impl Pages {
    /// Reads the state of a page; the default if there is none.
    fn read<T: Default>(&self, window: Window, read: impl FnOnce(&Page) -> T) -> T {
        lock(&self.state).get(&window).map(read).unwrap_or_default()
    }

    pub(crate) fn visibility(&self, window: Window) -> Visibility {
        self.read(window, |page| page.visibility)
    }

    pub(crate) fn change(&self, window: Window, change: impl FnOnce(&mut Visibility)) {
        change(&mut lock(&self.state).entry(window).or_default().visibility);
    }

    /// Returns true if the page is drawn and takes one-time events.
    pub(crate) fn is_ready(&self, window: Window) -> bool {
        self.read(window, |page| page.is_ready)
    }

    /// Returns true if the window can be shown: its page is ready or took too long.
    pub(crate) fn can_be_shown(&self, window: Window) -> bool {
        self.read(window, |page| page.is_ready || page.has_timed_out)
    }

    /// Records that the time of [`Self::created`] is over and its receiver dropped. Returns true if
    /// the window should be shown and its page is still not ready.
    pub(crate) fn time_out(&self, window: Window) -> bool {
        let mut pages = lock(&self.state);
        // Another window with this label has its own time.
        let is_over = |page: &&mut Page| page.wait.as_ref().is_some_and(Sender::is_closed);
        let Some(page) = pages.get_mut(&window).filter(is_over) else {
            return false;
        };
        page.wait = None;
        page.has_timed_out = true;
        std::mem::take(&mut page.should_show)
    }

    /// Records that a window was created. The receiver is closed when its page is ready or the window
    /// is gone.
    pub(crate) fn created(&self, window: Window, is_panel: bool) -> Receiver<()> {
        let (wait, waiting) = oneshot::channel();
        let mut pages = lock(&self.state);
        let page = pages.entry(window).or_default();
        page.is_panel = is_panel;
        page.wait = Some(wait);
        waiting
    }

    /// Shows the window as soon as its page is ready.
    pub(crate) fn show_when_ready(&self, window: Window) {
        lock(&self.state).entry(window).or_default().should_show = true;
    }

    /// Records that the user moved or resized a window, and returns how often.
    pub(crate) fn moved(&self, window: Window) -> u64 {
        let mut pages = lock(&self.state);
        let page = pages.entry(window).or_default();
        page.n_moves += 1;
        page.n_moves
    }

    /// Returns how often the user moved or resized a window.
    pub(crate) fn n_moves(&self, window: Window) -> u64 {
        self.read(window, |page| page.n_moves)
    }

    /// Returns true if the existing window is a panel.
    pub(crate) fn is_panel(&self, window: Window) -> bool {
        self.read(window, |page| page.is_panel)
    }

    /// Returns the window with the focus, and whether it is a panel.
    pub(crate) fn focused(&self) -> Option<(Window, bool)> {
        let has_focus = |window: &Window| self.visibility(*window).has_focus();
        let window = Window::ALL.into_iter().find(has_focus)?;
        Some((window, self.is_panel(window)))
    }

    /// Returns true if the page will open a temporary conversation as soon as it is ready.
    pub(crate) fn opens_temporary(&self, window: Window) -> bool {
        let opens = |event: &AppEvent| match event {
            AppEvent::Shown { conversation, .. } => {
                conversation.is_some_and(|id| id.is_temporary())
            }
            _ => false,
        };
        self.read(window, |page| page.pending.iter().any(opens))
    }

    /// Returns true if the page of the chat should be asked to move to its other form: once, and if
    /// it is ready.
    pub(crate) fn begins_move(&self, to_panel: bool) -> bool {
        let mut pages = lock(&self.state);
        let page = pages.get_mut(&Window::Chat).filter(|page| page.is_ready);
        page.is_some_and(|page| page.moves_to_panel.replace(to_panel) != Some(to_panel))
    }

    /// Records that a window is being destroyed: one-time events wait for its next page.
    pub(crate) fn ended(&self, window: Window) {
        if let Some(page) = lock(&self.state).get_mut(&window) {
            page.is_ready = false;
            page.wait = None;
        }
    }

    /// Records that a window and its page are gone. Events that it did not get stay.
    pub(crate) fn removed(&self, window: Window) {
        let mut pages = lock(&self.state);
        let pending = pages.remove(&window).map(|page| page.pending);
        pages.entry(window).or_default().pending = pending.unwrap_or_default();
    }

    /// Marks a page as ready and sends the pending events. Returns true if the window should be
    /// shown.
    pub(crate) fn ready(&self, app: &AppHandle, window: Window) -> bool {
        let (pending, should_show) = {
            let mut pages = lock(&self.state);
            let page = pages.entry(window).or_default();
            page.is_ready = true;
            page.wait = None;
            let should_show = std::mem::take(&mut page.should_show);
            (std::mem::take(&mut page.pending), should_show)
        };
        for event in pending {
            emit(app, window, &event);
        }
        should_show
    }

    /// Sends an event to one page, as soon as it is ready.
    pub(crate) fn send(&self, app: &AppHandle, window: Window, event: AppEvent) {
        {
            let mut pages = lock(&self.state);
            let page = pages.entry(window).or_default();
            if !page.is_ready {
                page.pending.push(event);
                return;
            }
        }
        emit(app, window, &event);
    }

    /// Sends an event to every page that listens. The status goes only to visible pages, because others
    /// get it when they are shown, and a notice only to those that are ready.
    pub(crate) fn broadcast(&self, app: &AppHandle, event: &AppEvent) {
        let takes = |window| match event {
            AppEvent::Status { .. } => self.visibility(window).is_visible,
            AppEvent::Notice { .. } => self.is_ready(window),
            _ => true,
        };
        let is_for = |target: &EventTarget| match target {
            EventTarget::WebviewWindow { label } => Window::from_label(label).is_some_and(takes),
            _ => false,
        };
        if let Err(error) = app.emit_filter("app-event", event, is_for) {
            tracing::warn!(%error, "an event could not be sent to the pages");
        }
    }
}

fn emit(app: &AppHandle, window: Window, event: &AppEvent) {
    let to = EventTarget::webview_window(window.label());
    if let Err(error) = app.emit_to(to, "app-event", event) {
        tracing::warn!(%error, window = window.label(), "an event could not be sent to a page");
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    #[test]
    fn nobody_waits_for_the_page_of_a_window_that_is_gone() {
        let pages = Pages::default();
        let mut first = pages.created(Window::Chat, true);
        assert_eq!(first.try_recv(), Err(TryRecvError::Empty));
        pages.removed(Window::Chat);
        assert_eq!(first.try_recv(), Err(TryRecvError::Closed));
        drop(first);
        assert!(!pages.time_out(Window::Chat));
        let second = pages.created(Window::Chat, false);
        pages.show_when_ready(Window::Chat);
        assert!(!pages.time_out(Window::Chat), "the time of the first one");
        assert!(!pages.can_be_shown(Window::Chat));
        drop(second);
        assert!(pages.time_out(Window::Chat));
        assert!(pages.can_be_shown(Window::Chat));
    }

    #[test]
    fn a_page_is_asked_once_to_move_to_a_form() {
        let pages = Pages::default();
        assert!(!pages.begins_move(false), "there is no page");
        drop(pages.created(Window::Chat, true));
        assert!(!pages.begins_move(false), "it is not ready");
        let set_ready = |is_ready| {
            if let Some(page) = lock(&pages.state).get_mut(&Window::Chat) {
                page.is_ready = is_ready;
            }
        };
        set_ready(true);
        assert!(pages.begins_move(false));
        assert!(!pages.begins_move(false), "it is moving");
        assert!(pages.begins_move(true), "the user changed their mind");
        assert!(pages.begins_move(false));
    }

    #[test]
    fn a_window_that_changes_its_form_is_not_waited_for() {
        let pages = Pages::default();
        let mut waiting = pages.created(Window::Chat, true);
        pages.ended(Window::Chat);
        assert_eq!(waiting.try_recv(), Err(TryRecvError::Closed));
    }
}

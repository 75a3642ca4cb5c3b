//! The pages that there are, whether they listen, and what waits until they do.
//!
//! Rule: what a page asks for when it begins is not sent to it before; what happened once (a notice,
//! a text for the composer) waits for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tauri::{AppHandle, Emitter, EventTarget};

use crate::showing::Showing;
use crate::wire::{News, Window};

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    state: Mutex<HashMap<Window, Page>>,
}

#[derive(Debug, Default)]
struct Page {
    showing: Showing,
    is_ready: bool,
    /// It is to come on the screen as soon as it is ready.
    is_wanted: bool,
    /// It took too long to become ready, and is shown as it is.
    is_given_up: bool,
    waiting: Vec<News>,
}

impl Pages {
    /// What is known of a window.
    pub(crate) fn showing(&self, window: Window) -> Showing {
        self.lock()
            .get(&window)
            .map(|page| page.showing)
            .unwrap_or_default()
    }

    /// Changes what is known of a window.
    pub(crate) fn change(&self, window: Window, change: impl FnOnce(&mut Showing)) {
        change(&mut self.lock().entry(window).or_default().showing);
    }

    /// Whether its page listens.
    pub(crate) fn is_ready(&self, window: Window) -> bool {
        self.lock().get(&window).is_some_and(|page| page.is_ready)
    }

    /// Whether its window can be shown: its page listens, or was waited for long enough.
    pub(crate) fn can_be_shown(&self, window: Window) -> bool {
        let pages = self.lock();
        pages
            .get(&window)
            .is_some_and(|page| page.is_ready || page.is_given_up)
    }

    /// The page was waited for long enough. Returns whether it is still not ready.
    pub(crate) fn give_up(&self, window: Window) -> bool {
        let mut pages = self.lock();
        let Some(page) = pages.get_mut(&window).filter(|page| !page.is_ready) else {
            return false;
        };
        page.is_given_up = true;
        std::mem::take(&mut page.is_wanted)
    }

    /// A window was made, to be shown.
    pub(crate) fn made(&self, window: Window) {
        self.lock().entry(window).or_default().is_wanted = true;
    }

    /// A window is gone, and its page with it.
    pub(crate) fn gone(&self, window: Window) {
        self.lock().remove(&window);
    }

    /// The page listens now. Tells it what waited, and returns whether the window is to be shown.
    pub(crate) fn ready(&self, app: &AppHandle, window: Window) -> bool {
        let (waiting, is_wanted) = {
            let mut pages = self.lock();
            let page = pages.entry(window).or_default();
            page.is_ready = true;
            let is_wanted = std::mem::take(&mut page.is_wanted);
            (std::mem::take(&mut page.waiting), is_wanted)
        };
        for news in waiting {
            emit(app, window, &news);
        }
        is_wanted
    }

    /// Tells one page, as soon as it listens.
    pub(crate) fn tell(&self, app: &AppHandle, window: Window, news: News) {
        {
            let mut pages = self.lock();
            let page = pages.entry(window).or_default();
            if !page.is_ready {
                page.waiting.push(news);
                return;
            }
        }
        emit(app, window, &news);
    }

    /// Tells every page that listens. A status is told to pages that can be seen: others are told
    /// when they are shown. Returns how many were told.
    pub(crate) fn tell_all(&self, app: &AppHandle, news: &News) -> usize {
        let is_status = matches!(news, News::Status { .. });
        let listening: Vec<Window> = {
            let pages = self.lock();
            let pages = pages.iter();
            pages
                .filter(|(_, page)| page.is_ready && (!is_status || page.showing.is_visible))
                .map(|(window, _)| *window)
                .collect()
        };
        for window in &listening {
            emit(app, *window, news);
        }
        listening.len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Window, Page>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn emit(app: &AppHandle, window: Window, news: &News) {
    let to = EventTarget::webview_window(window.label());
    if let Err(error) = app.emit_to(to, "news", news) {
        tracing::warn!(%error, window = window.label(), "a page could not be told");
    }
}

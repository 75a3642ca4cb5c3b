//! The size of each window as the user left it, and the position of ordinary windows, in a small
//! file of the data folder. It also says which of them are maximized, and which form the chat has,
//! because the chat is created before the settings are read.
//!
//! The height of the quick prompt comes from its page and is not stored.
//!
//! Rule: a missing or unreadable file means the defaults, never an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::lock;
use crate::placement::Size;
use crate::wire::Window;

/// Name of the file in the data folder.
const FILE: &str = "windows.json";

/// Accepted range of a stored length, in points.
const VALID_LENGTHS: (f64, f64) = (200.0, 10_000.0);

/// Accepted range of the quick prompt's height, in points.
const PROMPT_HEIGHTS: (f64, f64) = (40.0, 1000.0);

impl Window {
    /// Returns the default size in points.
    pub(crate) fn default_size(self, is_panel: bool) -> Size {
        let (width, height) = match self {
            Self::Chat if is_panel => (440.0, 660.0),
            Self::Chat => (1000.0, 720.0),
            // One line, until its page measures its content.
            Self::Prompt => (680.0, 60.0),
            Self::Settings => (780.0, 600.0),
        };
        Size { width, height }
    }
}

/// How a window is on the screen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// The inner size in points.
    pub(crate) size: Size,
    /// The outer position in units of the desktop.
    pub(crate) at: (i32, i32),
    pub(crate) is_maximized: bool,
}

#[derive(Debug)]
pub(crate) struct Frames {
    file: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    saved: Saved,
    prompt_height: Option<f64>,
    is_changed: bool,
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Saved {
    /// See [`crate::visibility::is_panel`].
    #[serde(default)]
    is_chat_in_window: bool,
    /// The names of maximized windows. Their frames are those to which they return.
    #[serde(default)]
    maximized: BTreeSet<String>,
    /// Width and height in points, and the position in units of the desktop if it is known.
    #[serde(flatten)]
    frames: BTreeMap<String, Vec<f64>>,
}

/// Returns the name of a window in the file. The chat has one frame for each of its forms.
fn name(window: Window, is_panel: bool) -> &'static str {
    match (window, is_panel) {
        (Window::Chat, false) => "chat_window",
        _ => window.label(),
    }
}

impl Frames {
    /// Reads the frames from the data folder.
    pub(crate) fn read(data_folder: &std::path::Path) -> Self {
        let file = data_folder.join(FILE);
        let text = fs::read_to_string(&file).unwrap_or_default();
        let state = State {
            saved: serde_json::from_str(&text).unwrap_or_default(),
            ..State::default()
        };
        Self {
            file,
            state: Mutex::new(state),
        }
    }

    /// Returns true if the user chose an ordinary window for the chat.
    pub(crate) fn is_chat_in_window(&self) -> bool {
        lock(&self.state).saved.is_chat_in_window
    }

    pub(crate) fn set_chat_in_window(&self, is_chat_in_window: bool) {
        let mut state = lock(&self.state);
        let before = &mut state.saved.is_chat_in_window;
        if std::mem::replace(before, is_chat_in_window) != is_chat_in_window {
            state.is_changed = true;
        }
    }

    /// Returns the size for the next time a window is shown.
    pub(crate) fn size(&self, window: Window, is_panel: bool) -> Size {
        let default = window.default_size(is_panel);
        if window == Window::Prompt {
            let height = lock(&self.state).prompt_height.unwrap_or(default.height);
            return Size { height, ..default };
        }
        let is_valid = |length: f64| length >= VALID_LENGTHS.0 && length <= VALID_LENGTHS.1;
        match self.saved(window, is_panel)[..] {
            [width, height, ..] if is_valid(width) && is_valid(height) => Size { width, height },
            _ => default,
        }
    }

    /// Returns where the user left an ordinary window, in units of the desktop.
    pub(crate) fn position(&self, window: Window, is_panel: bool) -> Option<(i32, i32)> {
        match self.saved(window, is_panel)[..] {
            [_, _, x, y] if !is_panel => Some((x as i32, y as i32)),
            _ => None,
        }
    }

    /// Returns true if the user left an ordinary window maximized.
    pub(crate) fn is_maximized(&self, window: Window) -> bool {
        lock(&self.state)
            .saved
            .maximized
            .contains(name(window, false))
    }

    /// Stores how the user left a window. A maximized window keeps its former frame. The quick prompt
    /// can't be resized.
    pub(crate) fn record(&self, window: Window, is_panel: bool, frame: Frame) {
        if window == Window::Prompt {
            return;
        }
        let name = name(window, is_panel).to_owned();
        let mut state = lock(&self.state);
        if frame.is_maximized {
            let is_new = state.saved.maximized.insert(name);
            state.is_changed |= is_new;
            return;
        }
        let mut values = vec![frame.size.width.round(), frame.size.height.round()];
        if !is_panel {
            values.extend([f64::from(frame.at.0), f64::from(frame.at.1)]);
        }
        let was_maximized = state.saved.maximized.remove(&name);
        if was_maximized || state.saved.frames.get(&name) != Some(&values) {
            state.saved.frames.insert(name, values);
            state.is_changed = true;
        }
    }

    fn saved(&self, window: Window, is_panel: bool) -> Vec<f64> {
        let state = lock(&self.state);
        let frame = state.saved.frames.get(name(window, is_panel));
        frame.cloned().unwrap_or_default()
    }

    /// Sets the height of the quick prompt. Values that are not finite are ignored.
    pub(crate) fn fit_prompt(&self, height: f64) {
        if height.is_finite() {
            lock(&self.state).prompt_height =
                Some(height.clamp(PROMPT_HEIGHTS.0, PROMPT_HEIGHTS.1));
        }
    }

    /// Writes the file if something changed.
    pub(crate) fn save(&self) {
        let mut state = lock(&self.state);
        if !std::mem::take(&mut state.is_changed) {
            return;
        }
        let written = serde_json::to_vec(&state.saved)
            .map_err(std::io::Error::other)
            .and_then(|json| fs::write(&self.file, json));
        if let Err(error) = written {
            tracing::warn!(%error, "the positions of windows could not be saved");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: f64, height: f64) -> Size {
        Size { width, height }
    }

    fn frame(width: f64, height: f64, at: (i32, i32)) -> Frame {
        Frame {
            size: size(width, height),
            at,
            is_maximized: false,
        }
    }

    #[test]
    fn sizes_are_kept_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let frames = Frames::read(folder.path());
        let default = Window::Chat.default_size(true);
        assert_eq!(frames.size(Window::Chat, true), default);
        frames.record(Window::Chat, true, frame(500.4, 700.0, (7, 7)));
        frames.record(Window::Prompt, true, frame(500.0, 700.0, (7, 7)));
        frames.save();
        let frames = Frames::read(folder.path());
        assert_eq!(frames.size(Window::Chat, true), size(500.0, 700.0));
        let default = Window::Prompt.default_size(true);
        assert_eq!(frames.size(Window::Prompt, true), default);
    }

    #[test]
    fn the_chat_has_a_frame_for_each_of_its_forms() {
        let folder = tempfile::tempdir().unwrap();
        let frames = Frames::read(folder.path());
        assert!(!frames.is_chat_in_window());
        frames.set_chat_in_window(true);
        frames.record(Window::Chat, false, frame(900.0, 640.0, (-40, 60)));
        frames.record(Window::Chat, true, frame(450.0, 600.0, (7, 7)));
        frames.save();
        let frames = Frames::read(folder.path());
        assert!(frames.is_chat_in_window());
        assert_eq!(frames.size(Window::Chat, false), size(900.0, 640.0));
        assert_eq!(frames.position(Window::Chat, false), Some((-40, 60)));
        assert_eq!(frames.size(Window::Chat, true), size(450.0, 600.0));
        assert_eq!(frames.position(Window::Chat, true), None);
    }

    #[test]
    fn a_maximized_window_keeps_the_frame_to_which_it_returns() {
        let folder = tempfile::tempdir().unwrap();
        let frames = Frames::read(folder.path());
        frames.record(Window::Chat, false, frame(900.0, 640.0, (40, 60)));
        let maximized = Frame {
            is_maximized: true,
            ..frame(1920.0, 1055.0, (0, 25))
        };
        frames.record(Window::Chat, false, maximized);
        frames.save();
        let frames = Frames::read(folder.path());
        assert!(frames.is_maximized(Window::Chat));
        assert!(!frames.is_maximized(Window::Settings));
        assert_eq!(frames.size(Window::Chat, false), size(900.0, 640.0));
        assert_eq!(frames.position(Window::Chat, false), Some((40, 60)));
        // It returned to its former frame.
        frames.record(Window::Chat, false, frame(900.0, 640.0, (40, 60)));
        frames.save();
        assert!(!Frames::read(folder.path()).is_maximized(Window::Chat));
    }

    #[test]
    fn a_file_with_sizes_only_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"chat": [500.0, 700.0], "settings": [800.0, 610.0]}"#;
        fs::write(folder.path().join(FILE), text).unwrap();
        let frames = Frames::read(folder.path());
        assert_eq!(frames.size(Window::Chat, true), size(500.0, 700.0));
        assert_eq!(frames.size(Window::Settings, false), size(800.0, 610.0));
        assert_eq!(frames.position(Window::Settings, false), None);
    }

    #[test]
    fn the_height_of_the_quick_prompt_is_not_saved() {
        let folder = tempfile::tempdir().unwrap();
        let frames = Frames::read(folder.path());
        let default = Window::Prompt.default_size(true);
        for (requested, expected) in [
            (150.4, 150.4),
            (1.0, 40.0),
            (1e9, 1000.0),
            (f64::NAN, 1000.0),
        ] {
            frames.fit_prompt(requested);
            let found = frames.size(Window::Prompt, true);
            assert_eq!(found, size(default.width, expected), "{requested}");
        }
        frames.save();
        let frames = Frames::read(folder.path());
        assert_eq!(frames.size(Window::Prompt, true), default);
    }

    #[test]
    fn invalid_sizes_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{", r#"{"chat": [1, 1]}"#, r#"{"chat": [1e9, 700]}"#] {
            fs::write(folder.path().join(FILE), text).unwrap();
            let found = Frames::read(folder.path()).size(Window::Chat, true);
            assert_eq!(found, Window::Chat.default_size(true), "{text}");
        }
    }
}

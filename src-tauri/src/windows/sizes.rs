//! The size of each window as the user left it, in a small file of the data folder.
//!
//! The height of the quick prompt comes from its page and is not stored.
//!
//! Rule: a missing or unreadable file means the default sizes, never an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::lock;
use crate::placement::Size;
use crate::wire::Window;

/// Name of the file in the data folder.
const FILE: &str = "windows.json";

/// Accepted range of a stored length, in points.
const VALID_LENGTHS: (f64, f64) = (200.0, 10_000.0);

/// Accepted range of the quick prompt's height, in points.
const PROMPT_HEIGHTS: (f64, f64) = (80.0, 1000.0);

#[derive(Debug)]
pub(crate) struct Sizes {
    file: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sizes: BTreeMap<String, (f64, f64)>,
    prompt_height: Option<f64>,
    is_changed: bool,
}

impl Sizes {
    /// Reads the sizes from the data folder.
    pub(crate) fn read(data_folder: &std::path::Path) -> Self {
        let file = data_folder.join(FILE);
        let text = fs::read_to_string(&file).unwrap_or_default();
        let state = State {
            sizes: serde_json::from_str(&text).unwrap_or_default(),
            ..State::default()
        };
        Self {
            file,
            state: Mutex::new(state),
        }
    }

    /// Returns the size for the next time a window is shown.
    pub(crate) fn get(&self, window: Window) -> Size {
        if window == Window::Prompt {
            let Size { width, height } = window.default_size();
            let height = lock(&self.state).prompt_height.unwrap_or(height);
            return Size { width, height };
        }
        let saved = lock(&self.state).sizes.get(window.label()).copied();
        let is_valid = |length: f64| length >= VALID_LENGTHS.0 && length <= VALID_LENGTHS.1;
        match saved {
            Some((width, height)) if is_valid(width) && is_valid(height) => Size { width, height },
            _ => window.default_size(),
        }
    }

    /// Stores a size that the user chose. The quick prompt can't be resized.
    pub(crate) fn remember(&self, window: Window, size: Size) {
        if window == Window::Prompt {
            return;
        }
        let mut state = lock(&self.state);
        let size = (size.width.round(), size.height.round());
        if state.sizes.insert(window.label().to_owned(), size) != Some(size) {
            state.is_changed = true;
        }
    }

    /// Sets the height of the quick prompt. Values that are not finite are ignored.
    pub(crate) fn fit_prompt(&self, height: f64) {
        if height.is_finite() {
            lock(&self.state).prompt_height =
                Some(height.clamp(PROMPT_HEIGHTS.0, PROMPT_HEIGHTS.1));
        }
    }

    /// Writes the sizes if they changed.
    pub(crate) fn save(&self) {
        let mut state = lock(&self.state);
        if !std::mem::take(&mut state.is_changed) {
            return;
        }
        let written = serde_json::to_vec(&state.sizes)
            .map_err(std::io::Error::other)
            .and_then(|json| fs::write(&self.file, json));
        if let Err(error) = written {
            tracing::warn!(%error, "the window sizes could not be saved");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: f64, height: f64) -> Size {
        Size { width, height }
    }

    #[test]
    fn sizes_are_kept_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = Sizes::read(folder.path());
        assert_eq!(sizes.get(Window::Chat), Window::Chat.default_size());
        sizes.remember(Window::Chat, size(500.4, 700.0));
        sizes.remember(Window::Prompt, size(500.0, 700.0));
        sizes.save();
        let sizes = Sizes::read(folder.path());
        assert_eq!(sizes.get(Window::Chat), size(500.0, 700.0));
        assert_eq!(sizes.get(Window::Prompt), Window::Prompt.default_size());
    }

    #[test]
    fn the_height_of_the_quick_prompt_is_not_saved() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = Sizes::read(folder.path());
        let width = Window::Prompt.default_size().width;
        for (requested, expected) in [
            (150.4, 150.4),
            (1.0, 80.0),
            (1e9, 1000.0),
            (f64::NAN, 1000.0),
        ] {
            sizes.fit_prompt(requested);
            assert_eq!(
                sizes.get(Window::Prompt),
                size(width, expected),
                "{requested}"
            );
        }
        sizes.save();
        let sizes = Sizes::read(folder.path());
        assert_eq!(sizes.get(Window::Prompt), Window::Prompt.default_size());
    }

    #[test]
    fn invalid_sizes_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{", r#"{"chat": [1, 1]}"#, r#"{"chat": [1e9, 700]}"#] {
            fs::write(folder.path().join(FILE), text).unwrap();
            let sizes = Sizes::read(folder.path());
            assert_eq!(
                sizes.get(Window::Chat),
                Window::Chat.default_size(),
                "{text}"
            );
        }
    }
}

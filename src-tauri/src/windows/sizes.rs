//! The size of each window as a person left it, in a small file of the data folder.
//!
//! The quick prompt is as high as its page says, and that is not kept.
//!
//! Rule: a file that is not there or cannot be read means the default sizes, never an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::place::Size;
use crate::wire::Window;

/// Name of the file in the data folder.
const FILE: &str = "windows.json";

/// Smallest and largest that is believed, in points.
const BOUNDS: (f64, f64) = (200.0, 10_000.0);

/// Least and most points of height that are believed of the quick prompt.
const PROMPT_BOUNDS: (f64, f64) = (80.0, 1000.0);

/// See the head of this file.
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
    /// As the data folder has them.
    pub(crate) fn read(data_folder: &std::path::Path) -> Self {
        let file = data_folder.join(FILE);
        let text = fs::read_to_string(&file).unwrap_or_default();
        let sizes = serde_json::from_str(&text).unwrap_or_default();
        let state = State {
            sizes,
            prompt_height: None,
            is_changed: false,
        };
        Self {
            file,
            state: Mutex::new(state),
        }
    }

    /// The size that a window has when it is shown next.
    pub(crate) fn of(&self, window: Window) -> Size {
        if window == Window::Prompt {
            let Size { width, height } = window.default_size();
            let height = self.lock().prompt_height.unwrap_or(height);
            return Size { width, height };
        }
        let remembered = self.lock().sizes.get(window.label()).copied();
        let is_sane = |length: f64| length >= BOUNDS.0 && length <= BOUNDS.1;
        match remembered {
            Some((width, height)) if is_sane(width) && is_sane(height) => Size { width, height },
            _ => window.default_size(),
        }
    }

    /// A person chose this size. The quick prompt's is not theirs to choose.
    pub(crate) fn remember(&self, window: Window, size: Size) {
        if window == Window::Prompt {
            return;
        }
        let mut state = self.lock();
        let size = (size.width.round(), size.height.round());
        if state.sizes.insert(window.label().to_owned(), size) != Some(size) {
            state.is_changed = true;
        }
    }

    /// What the quick prompt's page shows is so high; what is no height changes nothing.
    pub(crate) fn fit_prompt(&self, height: f64) {
        if height.is_finite() {
            self.lock().prompt_height = Some(height.clamp(PROMPT_BOUNDS.0, PROMPT_BOUNDS.1));
        }
    }

    /// Writes what changed.
    pub(crate) fn save(&self) {
        let mut state = self.lock();
        if !std::mem::take(&mut state.is_changed) {
            return;
        }
        let written = serde_json::to_vec(&state.sizes)
            .map_err(std::io::Error::other)
            .and_then(|json| fs::write(&self.file, json));
        if let Err(error) = written {
            tracing::warn!(%error, "the sizes of windows are not remembered");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: f64, height: f64) -> Size {
        Size { width, height }
    }

    #[test]
    fn a_size_is_remembered_across_starts() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = Sizes::read(folder.path());
        assert_eq!(sizes.of(Window::Chat), Window::Chat.default_size());
        sizes.remember(Window::Chat, size(500.4, 700.0));
        sizes.remember(Window::Prompt, size(500.0, 700.0));
        sizes.save();
        let sizes = Sizes::read(folder.path());
        assert_eq!(sizes.of(Window::Chat), size(500.0, 700.0));
        assert_eq!(sizes.of(Window::Prompt), Window::Prompt.default_size());
    }

    #[test]
    fn the_quick_prompt_is_as_high_as_its_page_until_the_app_ends() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = Sizes::read(folder.path());
        let width = Window::Prompt.default_size().width;
        for (asked, given) in [
            (150.4, 150.4),
            (1.0, 80.0),
            (1e9, 1000.0),
            (f64::NAN, 1000.0),
        ] {
            sizes.fit_prompt(asked);
            assert_eq!(sizes.of(Window::Prompt), size(width, given), "{asked}");
        }
        sizes.save();
        let sizes = Sizes::read(folder.path());
        assert_eq!(sizes.of(Window::Prompt), Window::Prompt.default_size());
    }

    #[test]
    fn what_makes_no_sense_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{", r#"{"chat": [1, 1]}"#, r#"{"chat": [1e9, 700]}"#] {
            fs::write(folder.path().join(FILE), text).unwrap();
            let sizes = Sizes::read(folder.path());
            assert_eq!(
                sizes.of(Window::Chat),
                Window::Chat.default_size(),
                "{text}"
            );
        }
    }
}

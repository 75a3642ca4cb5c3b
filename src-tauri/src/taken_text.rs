//! The selection and the clipboard: read when a person asks for them, and never else.
//!
//! Rule: nothing of what is read is kept or logged here.

use std::sync::{Mutex, PoisonError};

use arboard::Clipboard;

use crate::wire::{TakenFrom, TakenText};

/// Most characters that are taken along: more than any context holds.
const MAX_TAKEN: usize = 400_000;

/// The system's clipboard. On X11 what was copied lives in the program that copied it, so the
/// connection is kept from the first copy on.
#[derive(Default)]
pub(crate) struct Board {
    clipboard: Mutex<Option<Clipboard>>,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Board")
    }
}

impl Board {
    /// What is selected or copied; empty if there is none, or no text. Blocks for some milliseconds,
    /// while the other program hands it over.
    ///
    /// # Errors
    /// When the system does not let us, in English.
    pub(crate) fn take(&self, source: TakenFrom) -> Result<TakenText, String> {
        let text = match source {
            TakenFrom::Clipboard => self.with(clipboard_text)?,
            TakenFrom::Selection => self.selection()?,
        };
        let text = text.chars().take(MAX_TAKEN).collect();
        Ok(TakenText { source, text })
    }

    /// Puts text on the clipboard.
    ///
    /// # Errors
    /// When the system does not let us, in English.
    pub(crate) fn copy(&self, text: String) -> Result<(), String> {
        self.with(|clipboard| clipboard.set_text(text))
    }

    #[cfg(target_os = "macos")]
    fn selection(&self) -> Result<String, String> {
        mac::selection()
    }

    /// X11's primary selection: what is marked, without anything having been copied.
    #[cfg(not(target_os = "macos"))]
    fn selection(&self) -> Result<String, String> {
        use arboard::{GetExtLinux, LinuxClipboardKind};
        self.with(|clipboard| {
            let primary = clipboard.get().clipboard(LinuxClipboardKind::Primary);
            or_empty(primary.text())
        })
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut Clipboard) -> Result<T, arboard::Error>,
    ) -> Result<T, String> {
        let lock = self.clipboard.lock();
        let mut kept = lock.unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = Some(Clipboard::new().map_err(|error| error.to_string())?);
        }
        let clipboard = kept.as_mut().ok_or("no clipboard")?;
        work(clipboard).map_err(|error| error.to_string())
    }
}

fn clipboard_text(clipboard: &mut Clipboard) -> Result<String, arboard::Error> {
    or_empty(clipboard.get_text())
}

/// An empty clipboard, or one with a picture, is no failure.
fn or_empty(text: Result<String, arboard::Error>) -> Result<String, arboard::Error> {
    match text {
        Err(arboard::Error::ContentNotAvailable) => Ok(String::new()),
        other => other,
    }
}

#[cfg(target_os = "macos")]
mod mac {
    //! Through Accessibility, which the user must have allowed.
    use accessibility::{AXAttribute, AXUIElement};
    use core_foundation::string::CFString;

    pub(super) fn selection() -> Result<String, String> {
        let everything = AXUIElement::system_wide();
        let focused = AXAttribute::new(&CFString::from_static_string("AXFocusedUIElement"));
        let element = everything
            .attribute(&focused)
            .map_err(|error| error.to_string())?;
        let element = element
            .downcast::<AXUIElement>()
            .ok_or("nothing has the focus")?;
        let selected = AXAttribute::new(&CFString::from_static_string("AXSelectedText"));
        match element.attribute(&selected) {
            Ok(text) => {
                let text = text.downcast::<CFString>();
                Ok(text.map(|text| text.to_string()).unwrap_or_default())
            }
            // Most things that can have the focus hold no text.
            Err(_) => Ok(String::new()),
        }
    }
}

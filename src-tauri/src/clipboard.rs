//! Reads the selection and the clipboard, only when the user asks for it.
//!
//! Rule: the text is neither stored nor logged here.

use std::sync::Mutex;

use arboard::Clipboard;

use crate::lock;
use crate::wire::{CapturedText, TextSource};

/// Maximum number of characters to capture, more than any context holds.
const MAX_CHARACTERS: usize = 400_000;

/// The system's clipboard. On X11 the program that copied a text provides it, so the connection is
/// kept open after the first copy.
#[derive(Default)]
pub(crate) struct SystemClipboard {
    clipboard: Mutex<Option<Clipboard>>,
}

impl SystemClipboard {
    /// Returns the selected or copied text; empty if there is none. Blocks for some milliseconds
    /// while the other program sends it.
    pub(crate) fn capture(&self, source: TextSource) -> Result<CapturedText, String> {
        let text = match source {
            TextSource::Clipboard => self.with(|clipboard| or_empty(clipboard.get_text()))?,
            TextSource::Selection => self.selection()?,
        };
        let text = text.chars().take(MAX_CHARACTERS).collect();
        Ok(CapturedText { source, text })
    }

    pub(crate) fn copy(&self, text: String) -> Result<(), String> {
        self.with(|clipboard| clipboard.set_text(text))
    }

    #[cfg(target_os = "macos")]
    fn selection(&self) -> Result<String, String> {
        mac::selection()
    }

    /// Reads X11's primary selection: the selected text, without a copy.
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
        let mut slot = lock(&self.clipboard);
        let done = match &mut *slot {
            Some(clipboard) => work(clipboard),
            None => Clipboard::new().and_then(|clipboard| work(slot.insert(clipboard))),
        };
        done.map_err(|error| error.to_string())
    }
}

/// Returns an empty text for an empty clipboard or one with a picture.
fn or_empty(text: Result<String, arboard::Error>) -> Result<String, arboard::Error> {
    match text {
        Err(arboard::Error::ContentNotAvailable) => Ok(String::new()),
        other => other,
    }
}

#[cfg(target_os = "macos")]
mod mac {
    //! Uses the Accessibility API, which the user must allow.
    use accessibility::{AXAttribute, AXUIElement};
    use core_foundation::string::CFString;

    pub(super) fn selection() -> Result<String, String> {
        let system = AXUIElement::system_wide();
        let focused = AXAttribute::new(&CFString::from_static_string("AXFocusedUIElement"));
        let element = system
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
            // Most focused elements have no text.
            Err(_) => Ok(String::new()),
        }
    }
}

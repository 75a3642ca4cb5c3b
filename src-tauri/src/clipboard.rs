//! Reads and writes the clipboard, and reads the selection of X11.
//!
//! Rule: the text is neither stored nor logged here.

use std::path::PathBuf;
use std::sync::Mutex;
#[cfg(target_os = "macos")]
use std::sync::atomic::{AtomicBool, Ordering};

use arboard::Clipboard;

use crate::lock;

/// The system's clipboard. On X11 the program that copied a text provides it, so the connection is
/// kept open after the first copy.
#[derive(Default)]
pub(crate) struct SystemClipboard {
    clipboard: Mutex<Option<Clipboard>>,
    /// The user was asked to allow reading the selection, since the app started.
    #[cfg(target_os = "macos")]
    was_asked: AtomicBool,
}

impl SystemClipboard {
    /// Returns the copied text; empty if there is none. Blocks for some milliseconds while the other
    /// program sends it.
    pub(crate) fn text(&self) -> Result<String, String> {
        self.with(|clipboard| or_empty(clipboard.get_text()))
    }

    /// Returns the copied files; none if something else was copied.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, String> {
        self.with(|clipboard| or_empty(clipboard.get().file_list()))
    }

    pub(crate) fn copy(&self, text: String) -> Result<(), String> {
        self.with(|clipboard| clipboard.set_text(text))
    }

    /// Copies a text that programs with a history of the clipboard leave out.
    #[cfg(target_os = "macos")]
    pub(crate) fn copy_unlisted(&self, text: String) -> Result<(), String> {
        use arboard::SetExtApple;
        self.with(|clipboard| clipboard.set().exclude_from_history().text(text))
    }

    /// Asks the user once to allow reading the selection, if that is not allowed.
    ///
    /// # Errors
    /// If it is not allowed.
    #[cfg(target_os = "macos")]
    pub(crate) fn ask_to_read_selection(&self) -> Result<(), String> {
        match may_read_selection() || mac::ask(!self.was_asked.swap(true, Ordering::Relaxed)) {
            true => Ok(()),
            false => Err("reading the selection is not allowed".to_owned()),
        }
    }

    /// Only a Mac asks the user.
    #[cfg(not(target_os = "macos"))]
    pub(crate) fn ask_to_read_selection(&self) -> Result<(), String> {
        Ok(())
    }

    /// Reads X11's primary selection: the selected text, without a copy.
    #[cfg(not(target_os = "macos"))]
    pub(crate) fn primary(&self) -> Result<String, String> {
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

/// Returns true if the user allows reading the selection.
#[cfg(target_os = "macos")]
pub(crate) fn may_read_selection() -> bool {
    mac::ask(false)
}

/// Only a Mac asks the user.
#[cfg(not(target_os = "macos"))]
pub(crate) fn may_read_selection() -> bool {
    true
}

/// Returns an empty value for an empty clipboard or one with other content.
fn or_empty<T: Default>(read: Result<T, arboard::Error>) -> Result<T, arboard::Error> {
    match read {
        Err(arboard::Error::ContentNotAvailable) => Ok(T::default()),
        other => other,
    }
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
mod mac {
    //! Uses the Accessibility API.
    use accessibility_sys::{AXIsProcessTrustedWithOptions, kAXTrustedCheckOptionPrompt};
    use core_foundation::base::TCFType;
    use core_foundation::boolean::CFBoolean;
    use core_foundation::dictionary::CFDictionary;
    use core_foundation::string::CFString;

    /// Returns true if the app may use the API. Otherwise, the system shows how to allow it if
    /// `shows_prompt`.
    pub(super) fn ask(shows_prompt: bool) -> bool {
        // SAFETY: the key is a constant string of the system, and the dictionary outlives the call.
        unsafe {
            let key = CFString::wrap_under_get_rule(kAXTrustedCheckOptionPrompt);
            let options: CFDictionary<CFString, CFBoolean> =
                CFDictionary::from_CFType_pairs(&[(key, CFBoolean::from(shows_prompt))]);
            AXIsProcessTrustedWithOptions(options.as_concrete_TypeRef())
        }
    }
}

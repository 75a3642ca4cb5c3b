//! What the clipboard has before a paste, which is put back after it.
//!
//! A Mac keeps all items in all their types. On X11 the program that copied converts its data when
//! it is asked, often to dozens of formats, so only the common ones are kept (`FORMATS`).
//!
//! Rule: the contents stay in memory, and are neither stored nor logged. Programs with a history of
//! the clipboard leave restored contents out: they have them already, or must not have them, because
//! they are a password.

pub(super) use platform::{read, restore};

#[cfg(not(target_os = "macos"))]
mod platform {
    use std::time::Duration;

    use gtk::gdk::{Atom, SELECTION_CLIPBOARD};
    use gtk::{Clipboard, TargetEntry, TargetFlags};
    use tauri::AppHandle;
    use tokio::sync::mpsc;

    /// Time for the other program to send its data.
    const READ_TIMEOUT: Duration = Duration::from_secs(1);

    pub(super) const TEXT: &str = "UTF8_STRING";

    /// Text, HTML, pictures, and files of file managers.
    const FORMATS: [&str; 5] = [
        TEXT,
        "text/html",
        "image/png",
        "text/uri-list",
        "x-special/gnome-copied-files",
    ];

    /// Other names of [`TEXT`].
    const NAMES_OF_TEXT: [&str; 2] = ["text/plain;charset=utf-8", "text/plain"];

    /// Tells programs with a history to leave the contents out.
    const UNLISTED: (&str, &[u8]) = ("x-kde-passwordManagerHint", b"secret");

    /// Formats with their data; none if the clipboard is empty.
    pub(crate) struct Contents(pub(super) Vec<(&'static str, Vec<u8>)>);

    /// Reads the clipboard. Formats that arrive after [`READ_TIMEOUT`] are left out.
    pub(crate) async fn read(app: &AppHandle) -> Contents {
        let (send, mut arriving) = mpsc::unbounded_channel();
        let asked = app.run_on_main_thread(move || {
            let clipboard = Clipboard::get(&SELECTION_CLIPBOARD);
            for format in FORMATS {
                let send = send.clone();
                clipboard.request_contents(&Atom::intern(format), move |_, data| {
                    if data.format() == 8 && data.length() > 0 {
                        let _ = send.send((format, data.data()));
                    }
                });
            }
        });
        if let Err(error) = asked {
            tracing::warn!(%error, "the clipboard could not be read");
        }
        let mut contents = Vec::new();
        // The channel closes when the program has replied to all requests.
        let all = async {
            while let Some(one) = arriving.recv().await {
                contents.push(one);
            }
        };
        let _ = tokio::time::timeout(READ_TIMEOUT, all).await;
        Contents(contents)
    }

    /// Puts the contents back on the clipboard, unless they are empty.
    pub(crate) fn restore(app: &AppHandle, mut contents: Contents) -> Result<(), String> {
        if contents.0.is_empty() {
            return Ok(());
        }
        let (name, data) = UNLISTED;
        contents.0.push((name, data.to_vec()));
        let restored = app.run_on_main_thread(move || {
            let targets: Vec<TargetEntry> = targets(&contents)
                .into_iter()
                .map(|(name, index)| TargetEntry::new(name, TargetFlags::empty(), index))
                .collect();
            let clipboard = Clipboard::get(&SELECTION_CLIPBOARD);
            let is_set = clipboard.set_with_data(&targets, move |_, reply, index| {
                if let Some((_, data)) = contents.0.get(index as usize) {
                    reply.set(&reply.target(), 8, data);
                }
            });
            if !is_set {
                tracing::warn!("the clipboard could not be restored");
            }
        });
        restored.map_err(|error| error.to_string())
    }

    /// Returns all names that are offered, each with the index of its data.
    pub(super) fn targets(contents: &Contents) -> Vec<(&'static str, u32)> {
        let mut targets = Vec::new();
        for (index, (format, _)) in (0..).zip(&contents.0) {
            targets.push((*format, index));
            if *format == TEXT {
                targets.extend(NAMES_OF_TEXT.map(|name| (name, index)));
            }
        }
        targets
    }
}

#[cfg(target_os = "macos")]
mod platform {
    //! Type-checked but never run on Linux, so it contains only calls and no decisions.

    use core_foundation::base::TCFType;
    use core_foundation::string::CFString;
    use tauri::AppHandle;
    use tauri_nspanel::objc2::rc::{Retained, autoreleasepool};
    use tauri_nspanel::objc2::runtime::AnyObject;
    use tauri_nspanel::objc2::{class, msg_send};

    use crate::task::blocking;

    /// Copies of the items of the pasteboard; `None` if it is empty.
    pub(crate) struct Contents(Option<Retained<AnyObject>>);

    #[allow(unsafe_code)]
    // SAFETY: the array and its items are referenced only from here and belong to no pasteboard.
    // Their classes have no tie to a thread.
    unsafe impl Send for Contents {}

    /// Reads all items of the pasteboard in all their types.
    pub(crate) async fn read(_: &AppHandle) -> Contents {
        let copied = blocking(|| Ok(autoreleasepool(|_| copies()))).await;
        copied.unwrap_or(Contents(None))
    }

    #[allow(unsafe_code)]
    fn copies() -> Contents {
        // SAFETY: these methods of NSPasteboard, NSPasteboardItem and NSArray take and return these
        // types, and the indexes are below the counts.
        unsafe {
            let pasteboard: Retained<AnyObject> =
                msg_send![class!(NSPasteboard), generalPasteboard];
            let items: Option<Retained<AnyObject>> = msg_send![&*pasteboard, pasteboardItems];
            let Some(items) = items else {
                return Contents(None);
            };
            let copies: Retained<AnyObject> = msg_send![class!(NSMutableArray), new];
            let n_items: usize = msg_send![&*items, count];
            for index in 0..n_items {
                let item: Retained<AnyObject> = msg_send![&*items, objectAtIndex: index];
                let copy: Retained<AnyObject> = msg_send![class!(NSPasteboardItem), new];
                let types: Retained<AnyObject> = msg_send![&*item, types];
                let n_types: usize = msg_send![&*types, count];
                for index in 0..n_types {
                    let kind: Retained<AnyObject> = msg_send![&*types, objectAtIndex: index];
                    let data: Option<Retained<AnyObject>> = msg_send![&*item, dataForType: &*kind];
                    if let Some(data) = data {
                        let _: bool = msg_send![&*copy, setData: &*data, forType: &*kind];
                    }
                }
                let () = msg_send![&*copies, addObject: &*copy];
            }
            Contents((n_items > 0).then_some(copies))
        }
    }

    /// Puts the contents back on the pasteboard, unless they are empty.
    #[allow(unsafe_code)]
    pub(crate) fn restore(_: &AppHandle, contents: Contents) -> Result<(), String> {
        let Some(items) = contents.0 else {
            return Ok(());
        };
        let (unlisted, empty) = (
            CFString::from_static_string("org.nspasteboard.ConcealedType"),
            CFString::from_static_string(""),
        );
        let unlisted = unlisted.as_concrete_TypeRef().cast::<AnyObject>();
        let empty = empty.as_concrete_TypeRef().cast::<AnyObject>();
        // SAFETY: these methods of NSPasteboard take and return these types. A CFString is an
        // NSString, and both live until the end of this function.
        let is_written = autoreleasepool(|_| unsafe {
            let pasteboard: Retained<AnyObject> =
                msg_send![class!(NSPasteboard), generalPasteboard];
            let _: isize = msg_send![&*pasteboard, clearContents];
            let is_written: bool = msg_send![&*pasteboard, writeObjects: &*items];
            let _: bool = msg_send![&*pasteboard, setString: empty, forType: unlisted];
            is_written
        });
        match is_written {
            true => Ok(()),
            false => Err("the pasteboard refuses its earlier items".to_owned()),
        }
    }
}

#[cfg(all(test, not(target_os = "macos")))]
mod tests {
    use super::platform::{Contents, TEXT, targets};

    #[test]
    fn text_is_offered_under_all_its_names_and_other_formats_under_their_own() {
        let contents = [TEXT, "image/png"].map(|format| (format, vec![1]));
        let offered = targets(&Contents(contents.to_vec()));
        let expected = [
            (TEXT, 0),
            ("text/plain;charset=utf-8", 0),
            ("text/plain", 0),
            ("image/png", 1),
        ];
        assert_eq!(offered, expected);
    }
}

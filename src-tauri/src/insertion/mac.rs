//! Inserts text on a Mac: through the Accessibility API if the program accepts it there, else by
//! Command-V.
//!
//! Type-checked but never run on Linux, so it contains only calls and no decisions.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use accessibility::{AXAttribute, AXUIElement};
use accessibility_sys::{AXValueCreate, AXValueGetValue, AXValueRef, kAXValueTypeCFRange};
use core_foundation::base::{CFRange, CFType, CFTypeRef, TCFType};
use core_foundation::number::CFNumber;
use core_foundation::string::CFString;
use core_graphics::event::{CGEvent, CGEventFlags, CGEventTapLocation};
use core_graphics::event_source::{CGEventSource, CGEventSourceStateID};
use tauri_nspanel::objc2::rc::Retained;
use tauri_nspanel::objc2::runtime::AnyObject;
use tauri_nspanel::objc2::{class, msg_send};

use super::Found;
use super::plan::{Ending, Key, has_taken};
use crate::clipboard::{SystemClipboard, may_read_selection};

/// Time for the window of the other program to get the keyboard back from our panel.
const FOCUS_DELAY: Duration = Duration::from_millis(100);

/// Time for the program to apply a text that it accepted. Some do so later, in another process.
const TAKE_TIMEOUT: Duration = Duration::from_millis(400);

/// Time between two looks at the program.
const TICK: Duration = Duration::from_millis(20);

/// Time for the program to read the pasteboard. The system does not report when it did.
const PASTE_DELAY: Duration = Duration::from_millis(600);

/// Positions on the keyboard, as `HIToolbox/Events.h` numbers them.
const KEY_V: u16 = 9;
const KEY_RIGHT: u16 = 0x7c;

/// The id of a process.
pub(super) type Program = i32;

/// The place for a text in the other program.
#[derive(Debug, Clone)]
pub(super) struct Field {
    program: Program,
    /// The element that had the focus; `None` if the program does not tell.
    element: Option<Element>,
}

#[derive(Debug, Clone)]
struct Element(AXUIElement);

#[allow(unsafe_code)]
// SAFETY: an element is an immutable reference to an object of another process. Every function of
// the API may be called from any thread.
unsafe impl Send for Element {}
#[allow(unsafe_code)]
// SAFETY: see above.
unsafe impl Sync for Element {}

/// Returns the program in front, unless it is this one.
#[allow(unsafe_code)]
pub(super) fn program() -> Option<Program> {
    // SAFETY: these methods of NSWorkspace and NSRunningApplication return these types.
    let process: i32 = unsafe {
        let workspace: Option<Retained<AnyObject>> =
            msg_send![class!(NSWorkspace), sharedWorkspace];
        let app: Option<Retained<AnyObject>> = msg_send![&*workspace?, frontmostApplication];
        msg_send![&*app?, processIdentifier]
    };
    let own = i32::try_from(std::process::id()).ok();
    (Some(process) != own).then_some(process)
}

/// Reads the selected text of the focused element.
pub(super) fn read(program: Option<Program>, _: &SystemClipboard) -> Found {
    let program = program.filter(|_| may_read_selection());
    let element = program.and_then(|process| {
        let focused = get(&AXUIElement::application(process), "AXFocusedUIElement");
        focused?.downcast::<AXUIElement>()
    });
    let text = |name| {
        element
            .as_ref()
            .map_or(String::new(), |on| text_of(on, name))
    };
    let selection = text("AXSelectedText");
    let is_password = text("AXSubrole") == "AXSecureTextField";
    Found {
        has_selection: !selection.is_empty(),
        selection: Ok(selection),
        is_password,
        field: program.map(|program| Field {
            program,
            element: element.map(Element),
        }),
    }
}

/// Replaces the selected text, or inserts after it. Returns false if the program refuses that.
pub(super) fn sets_text(field: &Field, text: &str, replaces: bool) -> bool {
    let Some(Element(element)) = &field.element else {
        return false;
    };
    let Some(range) = get(element, "AXSelectedTextRange") else {
        return false;
    };
    if !replaces && !moves_to_end(element, &range) {
        return false;
    }
    let (replaced, before) = (text_of(element, "AXSelectedText"), n_characters(element));
    let value = CFString::new(text).as_CFType();
    let has_taken = |after| has_taken(before, after, &replaced, text);
    let is_set = set(element, "AXSelectedText", value) && takes(element, has_taken);
    if !is_set {
        // For the keys that follow.
        set(element, "AXSelectedTextRange", range);
    }
    is_set
}

/// Waits until the number of characters shows that the program has a text. Returns false if it does
/// not in time.
#[allow(
    clippy::disallowed_methods,
    reason = "the other program reports no change without an observer and a run loop of its own"
)]
fn takes(element: &AXUIElement, has_taken: impl Fn(Option<i64>) -> bool) -> bool {
    let end = Instant::now() + TAKE_TIMEOUT;
    loop {
        if has_taken(n_characters(element)) {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(TICK);
    }
}

/// Moves the cursor to the end of a range.
fn moves_to_end(element: &AXUIElement, range: &CFType) -> bool {
    let end = range_of(range).map(|range| CFRange::init(range.location + range.length, 0));
    let end = end.and_then(range_value);
    end.is_some_and(|end| set(element, "AXSelectedTextRange", end))
}

/// Returns the text of an attribute; empty if there is none.
fn text_of(element: &AXUIElement, name: &'static str) -> String {
    let text = get(element, name).and_then(|value| value.downcast::<CFString>());
    text.map(|text| text.to_string()).unwrap_or_default()
}

fn n_characters(element: &AXUIElement) -> Option<i64> {
    let number = get(element, "AXNumberOfCharacters")?;
    number.downcast::<CFNumber>()?.to_i64()
}

fn get(element: &AXUIElement, name: &'static str) -> Option<CFType> {
    let name = CFString::from_static_string(name);
    element.attribute(&AXAttribute::new(&name)).ok()
}

fn set(element: &AXUIElement, name: &'static str, value: CFType) -> bool {
    let name = CFString::from_static_string(name);
    let set = element.set_attribute(&AXAttribute::new(&name), value);
    set.is_ok()
}

#[allow(unsafe_code)]
fn range_of(value: &CFType) -> Option<CFRange> {
    let mut range = CFRange::init(-1, 0);
    let into = (&raw mut range).cast::<c_void>();
    // SAFETY: the type of the value is checked by the call, which writes a range or nothing.
    unsafe {
        let value = value.as_CFTypeRef() as AXValueRef;
        let _ = AXValueGetValue(value, kAXValueTypeCFRange, into);
    }
    (range.location >= 0).then_some(range)
}

#[allow(unsafe_code)]
fn range_value(range: CFRange) -> Option<CFType> {
    // SAFETY: the call copies the range, and returns an object that the caller owns, or null.
    unsafe {
        let value = AXValueCreate(kAXValueTypeCFRange, (&raw const range).cast::<c_void>());
        let value = value as CFTypeRef;
        (!value.is_null()).then(|| CFType::wrap_under_create_rule(value))
    }
}

/// Puts the text on the pasteboard and presses the keys, if the program is still in front. Keys go
/// to the program in front.
///
/// # Errors
/// If the pasteboard or the keyboard events are refused.
pub(super) async fn paste(
    clipboard: &SystemClipboard,
    field: &Field,
    text: &str,
    keys: &[Key],
) -> Result<Ending, String> {
    tokio::time::sleep(FOCUS_DELAY).await;
    if program() != Some(field.program) {
        return Ok(Ending {
            is_pasted: false,
            is_clipboard_ours: false,
        });
    }
    clipboard.copy_unlisted(text.to_owned())?;
    let count = change_count();
    for key in keys {
        match key {
            Key::Right => press(KEY_RIGHT, CGEventFlags::CGEventFlagNull)?,
            Key::Paste => press(KEY_V, CGEventFlags::CGEventFlagCommand)?,
        }
    }
    tokio::time::sleep(PASTE_DELAY).await;
    Ok(Ending {
        is_pasted: true,
        is_clipboard_ours: change_count() == count,
    })
}

fn press(key: u16, flags: CGEventFlags) -> Result<(), String> {
    let refused = |()| "the system refuses keyboard events".to_owned();
    for is_down in [true, false] {
        let source = CGEventSource::new(CGEventSourceStateID::Private).map_err(refused)?;
        let event = CGEvent::new_keyboard_event(source, key, is_down).map_err(refused)?;
        event.set_flags(flags);
        event.post(CGEventTapLocation::HID);
    }
    Ok(())
}

/// Returns a number that grows with each change of the pasteboard.
#[allow(unsafe_code)]
fn change_count() -> isize {
    // SAFETY: these methods of NSPasteboard take nothing and return these types.
    unsafe {
        let pasteboard: Retained<AnyObject> = msg_send![class!(NSPasteboard), generalPasteboard];
        msg_send![&*pasteboard, changeCount]
    }
}

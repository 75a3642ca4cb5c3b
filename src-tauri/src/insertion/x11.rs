//! Pastes on X11: offers the text on the clipboard, focuses the other window, presses Control-V
//! through the XTEST extension, and serves the text until the program has it.

use std::time::{Duration, Instant};

use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, KEY_PRESS_EVENT, KEY_RELEASE_EVENT,
    KeyButMask, PropMode, SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent,
    Window, WindowClass,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{CURRENT_TIME, NONE};

use super::paste::{Asked, Paste, Step};
use super::plan::{Ending, Key};
use crate::clipboard::SystemClipboard;
use crate::focus::{self, X11Result, property};

/// Time between two looks at the X server while a paste is running.
const TICK: Duration = Duration::from_millis(10);

/// Key symbols of X11.
const LETTER_V: u32 = 0x76;
const RIGHT_ARROW: u32 = 0xff53;
const INSERT: u32 = 0xff63;
const LEFT_SHIFT: u32 = 0xffe1;
const LEFT_CONTROL: u32 = 0xffe3;

x11rb::atom_manager! {
    /// The atoms of a paste.
    Atoms: AtomsCookie {
        _NET_ACTIVE_WINDOW,
        CLIPBOARD,
        TARGETS,
        UTF8_STRING,
        PLAIN_TEXT: b"text/plain;charset=utf-8",
    }
}

/// The window that had the focus.
pub(super) type Program = Window;

/// What was read about a program.
#[derive(Debug, Clone)]
pub(super) struct Field(Program);

/// Returns the window that has the focus, if any.
pub(super) fn program() -> Option<Program> {
    focus::active()
}

/// Reads the selected text, and whether it is selected in `program`. Another window's selection
/// stays when the user goes on elsewhere. The press of the shortcut takes the focus from a window of
/// ours before it is reported, so `program` can be this one.
pub(super) fn read(program: Option<Program>, clipboard: &SystemClipboard) -> super::Found {
    let program = program.filter(|window| !is_known_true(is_ours(*window)));
    let selection = clipboard.primary();
    let has_text = selection.as_ref().is_ok_and(|text| !text.is_empty());
    let has_selection =
        has_text && program.is_some_and(|window| is_known_true(has_primary(window)));
    super::Found {
        field: program.map(Field),
        selection,
        has_selection,
        is_password: false,
    }
}

/// Returns false if the X server does not tell.
fn is_known_true(read: X11Result<bool>) -> bool {
    read.unwrap_or_else(|error| {
        tracing::debug!(%error, "a property of the other program is not known");
        false
    })
}

/// Returns true if a window belongs to this process.
fn is_ours(window: Window) -> X11Result<bool> {
    let (connection, _) = x11rb::connect(None)?;
    let atom = connection.intern_atom(false, b"_NET_WM_PID")?.reply()?.atom;
    let process = property(&connection, window, atom, AtomEnum::CARDINAL)?;
    Ok(process == Some(std::process::id()))
}

fn has_primary(window: Window) -> X11Result<bool> {
    let (connection, _) = x11rb::connect(None)?;
    let owner = connection.get_selection_owner(AtomEnum::PRIMARY.into())?;
    let owner = owner.reply()?.owner;
    let mask = connection.setup().resource_id_mask;
    Ok(is_same_program(owner, window, mask))
}

/// Returns true if two ids belong to one program. Ids of a program differ only in the bits of
/// `mask`.
fn is_same_program(id: u32, other: u32, mask: u32) -> bool {
    id & !mask == other & !mask
}

/// X11 has no interface to set the text of another program.
pub(super) fn sets_text(_: &Field, _: &str, _: bool) -> bool {
    false
}

/// Presses the keys in the other program while the clipboard has the text.
///
/// # Errors
/// If the X server refuses something, or the keyboard has no such keys.
pub(super) async fn paste(
    _: &SystemClipboard,
    field: &Field,
    text: &str,
    keys: &[Key],
) -> Result<Ending, String> {
    let pasted = offer_and_press(field.0, text, keys).await;
    pasted.map_err(|error| error.to_string())
}

async fn offer_and_press(window: Window, text: &str, keys: &[Key]) -> X11Result<Ending> {
    let mut offer = Offer::new(text, window)?;
    focus::restore_to(window);
    let mut paste = Paste::new(Instant::now());
    loop {
        let asked = offer.serve()?;
        match paste.step(Instant::now(), offer.is_ready()?, asked) {
            Step::Wait => tokio::time::sleep(TICK).await,
            Step::PressKeys => offer.press(keys)?,
            Step::End { is_pasted } => {
                return Ok(Ending {
                    is_pasted,
                    is_clipboard_ours: offer.is_owner,
                });
            }
        }
    }
}

/// A text on the clipboard for a program, until this is dropped.
struct Offer {
    connection: RustConnection,
    root: Window,
    atoms: Atoms,
    text: Vec<u8>,
    program: Window,
    /// No other program has put something on the clipboard since.
    is_owner: bool,
}

impl Offer {
    fn new(text: &str, program: Window) -> X11Result<Self> {
        let (connection, screen) = x11rb::connect(None)?;
        let root = connection.setup().roots[screen].root;
        let atoms = Atoms::new(&connection)?.reply()?;
        let window = connection.generate_id()?;
        let (class, looks) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
        connection.create_window(0, window, root, -10, -10, 1, 1, 0, class, 0, &looks)?;
        connection.set_selection_owner(window, atoms.CLIPBOARD, CURRENT_TIME)?;
        let owner = connection.get_selection_owner(atoms.CLIPBOARD)?.reply()?;
        Ok(Self {
            connection,
            root,
            atoms,
            text: text.as_bytes().to_vec(),
            program,
            is_owner: owner.owner == window,
        })
    }

    /// Replies to all requests. Returns who got the text.
    fn serve(&mut self) -> X11Result<Asked> {
        let mut asked = Asked::Nobody;
        while let Some(event) = self.connection.poll_for_event()? {
            match event {
                Event::SelectionRequest(request) => asked = asked.max(self.reply(&request)?),
                Event::SelectionClear(_) => self.is_owner = false,
                _ => {}
            }
        }
        Ok(asked)
    }

    /// Replies to a request. Returns who asked, if it was for the text.
    fn reply(&self, request: &SelectionRequestEvent) -> X11Result<Asked> {
        let (atoms, to, target) = (&self.atoms, request.requestor, request.target);
        // Old programs name no property.
        let property = match request.property {
            NONE => target,
            property => property,
        };
        let texts = [atoms.UTF8_STRING, atoms.PLAIN_TEXT];
        let is_text = texts.contains(&target);
        if is_text {
            let connection = &self.connection;
            connection.change_property8(PropMode::REPLACE, to, property, target, &self.text)?;
        } else if target == atoms.TARGETS {
            let all = [atoms.TARGETS, atoms.UTF8_STRING, atoms.PLAIN_TEXT];
            let kind = AtomEnum::ATOM;
            self.connection
                .change_property32(PropMode::REPLACE, to, property, kind, &all)?;
        }
        let is_known = is_text || target == atoms.TARGETS;
        let reply = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor: to,
            selection: request.selection,
            target,
            property: if is_known { property } else { NONE },
        };
        self.connection
            .send_event(false, to, EventMask::NO_EVENT, reply)?;
        self.connection.flush()?;
        let mask = self.connection.setup().resource_id_mask;
        Ok(match is_same_program(to, self.program, mask) {
            _ if !is_text => Asked::Nobody,
            true => Asked::Program,
            false => Asked::Other,
        })
    }

    /// Returns true if the program has the focus and no modifier key is down, which would change the
    /// meaning of the keys that follow.
    fn is_ready(&self) -> X11Result<bool> {
        let atom = self.atoms._NET_ACTIVE_WINDOW;
        let active = property(&self.connection, self.root, atom, AtomEnum::WINDOW)?;
        let pointer = self.connection.query_pointer(self.root)?;
        let held = KeyButMask::SHIFT | KeyButMask::CONTROL | KeyButMask::MOD1 | KeyButMask::MOD4;
        let is_held = u16::from(pointer.reply()?.mask) & u16::from(held) != 0;
        Ok(active == Some(self.program) && !is_held)
    }

    fn press(&self, keys: &[Key]) -> X11Result<()> {
        for key in keys {
            match key {
                Key::Right => self.press_together(&[RIGHT_ARROW])?,
                Key::Paste => self
                    .press_together(&[LEFT_CONTROL, LETTER_V])
                    // A keyboard without Latin letters.
                    .or_else(|_| self.press_together(&[LEFT_SHIFT, INSERT]))?,
            }
        }
        Ok(())
    }

    /// Presses keys in this order and releases them in the opposite one.
    fn press_together(&self, keysyms: &[u32]) -> X11Result<()> {
        let codes: Vec<u8> = keysyms
            .iter()
            .map(|keysym| self.keycode(*keysym))
            .collect::<X11Result<_>>()?;
        let presses = codes.iter().map(|code| (KEY_PRESS_EVENT, *code));
        let releases = codes.iter().rev().map(|code| (KEY_RELEASE_EVENT, *code));
        for (kind, code) in presses.chain(releases) {
            self.connection
                .xtest_fake_input(kind, code, CURRENT_TIME, NONE, 0, 0, 0)?;
        }
        self.connection.flush()?;
        Ok(())
    }

    fn keycode(&self, keysym: u32) -> X11Result<u8> {
        let setup = self.connection.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let n_codes = last.saturating_sub(first).saturating_add(1);
        let mapping = self.connection.get_keyboard_mapping(first, n_codes)?;
        let mapping = mapping.reply()?;
        let width = usize::from(mapping.keysyms_per_keycode);
        let state = self.connection.query_pointer(self.root)?.reply()?.mask;
        let layout = usize::from((u16::from(state) >> 13) & 3);
        keycode_of(keysym, layout, &mapping.keysyms, width, first)
            .ok_or_else(|| format!("no key of this keyboard has the symbol {keysym:#x}").into())
    }
}

/// Returns the code of the key with this symbol, in a table with `width` symbols for each code from
/// `first`. A key that has the symbol in the active keyboard layout comes first: each of the first
/// two layouts has two symbols. Programs find Latin shortcuts also in a layout that is not active.
fn keycode_of(keysym: u32, layout: usize, keysyms: &[u32], width: usize, first: u8) -> Option<u8> {
    let mut keys = keysyms.chunks(width.max(1));
    let is_active = |symbols: &[u32]| {
        symbols
            .iter()
            .skip(2 * layout)
            .take(2)
            .any(|has| *has == keysym)
    };
    let index = keys
        .clone()
        .position(is_active)
        .or_else(|| keys.position(|symbols| symbols.contains(&keysym)))?;
    u8::try_from(index).ok()?.checked_add(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_any_of_its_symbols() {
        // Cyrillic letters come first, Latin ones with another level.
        let keysyms = [0x6c3, 0x63, 0, 0x6cd, LETTER_V, 0];
        assert_eq!(keycode_of(LETTER_V, 0, &keysyms, 3, 54), Some(55));
        assert_eq!(keycode_of(RIGHT_ARROW, 0, &keysyms, 3, 54), None);
        assert_eq!(keycode_of(LETTER_V, 0, &[], 0, 8), None);
    }

    #[test]
    fn a_key_of_the_active_layout_comes_first() {
        // Two keys with QWERTY and Dvorak: `v V k K` and `. > v V`.
        let keysyms = [LETTER_V, 0x56, 0x6b, 0x4b, 0x2e, 0x3e, LETTER_V, 0x56];
        assert_eq!(keycode_of(LETTER_V, 0, &keysyms, 4, 55), Some(55));
        assert_eq!(keycode_of(LETTER_V, 1, &keysyms, 4, 55), Some(56));
    }

    #[test]
    fn windows_of_one_program_differ_only_in_the_bits_of_the_mask() {
        let mask = 0x001f_ffff;
        assert!(is_same_program(0x0160_0003, 0x0160_0a21, mask));
        assert!(!is_same_program(0x0160_0003, 0x0180_0003, mask));
    }
}

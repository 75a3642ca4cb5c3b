//! A file that is dragged over a window and dropped there, as a file manager does it: the source's
//! side of X's drag and drop (XDND, version 5).
//!
//! Rule: the pointer is moved in words only, so that a drag holds up nothing else on the screen.

use std::path::Path;

use x11rb::CURRENT_TIME;
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ClientMessageData, ClientMessageEvent, ConnectionExt as _, CreateWindowAux,
    EventMask, PropMode, SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent,
    Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome, until};

/// The version of the protocol that is spoken.
const VERSION: u32 = 5;

x11rb::atom_manager! {
    /// The names that the protocol uses.
    Atoms: AtomsCookie {
        XdndSelection,
        XdndEnter,
        XdndPosition,
        XdndStatus,
        XdndDrop,
        XdndLeave,
        XdndFinished,
        XdndActionCopy,
        TARGETS,
        URIS: b"text/uri-list",
    }
}

/// A file in the air.
#[derive(Debug)]
pub struct Drag {
    connection: RustConnection,
    atoms: Atoms,
    source: Window,
    target: Window,
    at: u32,
    uris: String,
    is_accepted: bool,
    is_finished: bool,
}

impl Drag {
    /// Drags `path` over the middle of the window that has the focus, until the window takes it.
    ///
    /// # Errors
    /// When it never does.
    pub async fn over(desktop: &Desktop, path: &Path) -> Outcome<Self> {
        let doing = "drag a file";
        let failed = |error: &dyn std::fmt::Display| Failure::stage(doing, error);
        let target: Window = desktop
            .active_window()?
            .parse()
            .map_err(|_| Failure::stage(doing, "no window has the focus"))?;
        let (connection, screen) =
            x11rb::connect(Some(desktop.display())).map_err(|error| failed(&error))?;
        let root = connection.setup().roots[screen].root;
        let mut drag = Self::begun(connection, root, target, path).map_err(|e| failed(&e))?;
        until(
            "the window takes the file that is dragged over it",
            async || {
                drag.hear().map_err(|error| failed(&error))?;
                drag.say(drag.atoms.XdndPosition, position(&drag))
                    .map_err(|error| failed(&error))?;
                Ok(drag.is_accepted.then_some(()))
            },
        )
        .await?;
        Ok(drag)
    }

    /// Lets it fall, and waits until the window has it.
    ///
    /// # Errors
    /// When it never does.
    pub async fn drop(mut self) -> Outcome {
        let failed = |error: &dyn std::fmt::Display| Failure::stage("drop a file", error);
        self.say(self.atoms.XdndDrop, [self.source, 0, CURRENT_TIME, 0, 0])
            .map_err(|error| failed(&error))?;
        until("the window has the file that was dropped", async || {
            self.hear().map_err(|error| failed(&error))?;
            Ok(self.is_finished.then_some(()))
        })
        .await
    }

    fn begun(
        connection: RustConnection,
        root: Window,
        target: Window,
        path: &Path,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let atoms = Atoms::new(&connection)?.reply()?;
        let source = connection.generate_id()?;
        let (class, looks) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
        connection.create_window(0, source, root, -10, -10, 1, 1, 0, class, 0, &looks)?;
        connection.set_selection_owner(source, atoms.XdndSelection, CURRENT_TIME)?;
        let size = connection.get_geometry(target)?.reply()?;
        let (x, y) = ((size.width / 2) as i16, (size.height / 2) as i16);
        let middle = connection
            .translate_coordinates(target, root, x, y)?
            .reply()?;
        let at =
            (u32::from(middle.dst_x.unsigned_abs()) << 16) | u32::from(middle.dst_y.unsigned_abs());
        let drag = Self {
            connection,
            atoms,
            source,
            target,
            at,
            uris: format!("file://{}\r\n", path.display()),
            is_accepted: false,
            is_finished: false,
        };
        drag.say(atoms.XdndEnter, [source, VERSION << 24, atoms.URIS, 0, 0])?;
        Ok(drag)
    }

    fn say(&self, what: Atom, data: [u32; 5]) -> Result<(), Box<dyn std::error::Error>> {
        let data = ClientMessageData::from(data);
        let message = ClientMessageEvent::new(32, self.target, what, data);
        self.connection
            .send_event(false, self.target, EventMask::NO_EVENT, message)?;
        self.connection.flush()?;
        Ok(())
    }

    /// Answers whatever the window said and asked.
    fn hear(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        while let Some(event) = self.connection.poll_for_event()? {
            match event {
                Event::ClientMessage(message) if message.type_ == self.atoms.XdndStatus => {
                    self.is_accepted = message.data.as_data32()[1] & 1 == 1;
                }
                Event::ClientMessage(message) if message.type_ == self.atoms.XdndFinished => {
                    self.is_finished = true;
                }
                Event::SelectionRequest(request) => self.give(&request)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn give(&self, request: &SelectionRequestEvent) -> Result<(), Box<dyn std::error::Error>> {
        let (to, property) = (request.requestor, request.property);
        let mut given = property;
        if request.target == self.atoms.URIS {
            let uris = self.uris.as_bytes();
            self.connection.change_property8(
                PropMode::REPLACE,
                to,
                property,
                self.atoms.URIS,
                uris,
            )?;
        } else if request.target == self.atoms.TARGETS {
            let (kind, all) = (AtomEnum::ATOM, [self.atoms.TARGETS, self.atoms.URIS]);
            self.connection
                .change_property32(PropMode::REPLACE, to, property, kind, &all)?;
        } else {
            given = AtomEnum::NONE.into();
        }
        let answer = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor: to,
            selection: request.selection,
            target: request.target,
            property: given,
        };
        self.connection
            .send_event(false, to, EventMask::NO_EVENT, answer)?;
        self.connection.flush()?;
        Ok(())
    }
}

fn position(drag: &Drag) -> [u32; 5] {
    [
        drag.source,
        0,
        drag.at,
        CURRENT_TIME,
        drag.atoms.XdndActionCopy,
    ]
}

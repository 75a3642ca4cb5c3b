//! Drags a file over a window and drops it like a file manager: the source side of X's drag and
//! drop (XDND, version 5).
//!
//! Rule: this only sends messages and never moves the real pointer, so it does not disturb the rest
//! of the screen.

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

/// The protocol version.
const VERSION: u32 = 5;

x11rb::atom_manager! {
    /// The atoms of the protocol.
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

/// A file that is being dragged.
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
    /// Drags `path` over the middle of the focused window until the window accepts it.
    ///
    /// # Errors
    /// If the window never accepts it.
    pub async fn over(desktop: &Desktop, path: &Path) -> Outcome<Self> {
        let doing = "drag a file";
        let failed = |error: &dyn std::fmt::Display| Failure::setup(doing, error);
        let target: Window = desktop
            .active_window()?
            .parse()
            .map_err(|_| Failure::setup(doing, "no window has the focus"))?;
        let (connection, screen) =
            x11rb::connect(Some(desktop.display())).map_err(|error| failed(&error))?;
        let root = connection.setup().roots[screen].root;
        let mut drag = Self::start(connection, root, target, path).map_err(|e| failed(&e))?;
        until(
            "the window takes the file that is dragged over it",
            async || {
                drag.process_events().map_err(|error| failed(&error))?;
                drag.send(drag.atoms.XdndPosition, position(&drag))
                    .map_err(|error| failed(&error))?;
                Ok(drag.is_accepted.then_some(()))
            },
        )
        .await?;
        Ok(drag)
    }

    /// Drops the file, and waits until the window has received it.
    ///
    /// # Errors
    /// If the window never receives it.
    pub async fn drop(mut self) -> Outcome {
        let failed = |error: &dyn std::fmt::Display| Failure::setup("drop a file", error);
        self.send(self.atoms.XdndDrop, [self.source, 0, CURRENT_TIME, 0, 0])
            .map_err(|error| failed(&error))?;
        until("the window has the file that was dropped", async || {
            self.process_events().map_err(|error| failed(&error))?;
            Ok(self.is_finished.then_some(()))
        })
        .await
    }

    fn start(
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
        drag.send(atoms.XdndEnter, [source, VERSION << 24, atoms.URIS, 0, 0])?;
        Ok(drag)
    }

    fn send(&self, what: Atom, data: [u32; 5]) -> Result<(), Box<dyn std::error::Error>> {
        let data = ClientMessageData::from(data);
        let message = ClientMessageEvent::new(32, self.target, what, data);
        self.connection
            .send_event(false, self.target, EventMask::NO_EVENT, message)?;
        self.connection.flush()?;
        Ok(())
    }

    /// Processes messages and requests of the window.
    fn process_events(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        while let Some(event) = self.connection.poll_for_event()? {
            match event {
                Event::ClientMessage(message) if message.type_ == self.atoms.XdndStatus => {
                    self.is_accepted = message.data.as_data32()[1] & 1 == 1;
                }
                Event::ClientMessage(message) if message.type_ == self.atoms.XdndFinished => {
                    self.is_finished = true;
                }
                Event::SelectionRequest(request) => self.send_file(&request)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn send_file(&self, request: &SelectionRequestEvent) -> Result<(), Box<dyn std::error::Error>> {
        let (to, property) = (request.requestor, request.property);
        let mut sent_property = property;
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
            sent_property = AtomEnum::NONE.into();
        }
        let answer = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor: to,
            selection: request.selection,
            target: request.target,
            property: sent_property,
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

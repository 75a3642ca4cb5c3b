//! What the desktop's services say over D-Bus: UPower whether mains power is there, power profiles
//! whether the user saves energy.
//!
//! A machine without a bus or without these services costs one attempt to connect, on a thread of
//! its own. Lock order: the board's lock may be held when the state's is taken, never the reverse.

#[cfg(test)]
pub(crate) mod private_bus;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zbus::MatchRule;
use zbus::blocking::connection::Builder;
use zbus::blocking::{Connection, MessageIterator};
use zbus::zvariant::OwnedValue;

use super::Paths;
use crate::board::Board;

/// A property of a service.
#[derive(Debug, Clone, Copy)]
struct Property {
    service: &'static str,
    path: &'static str,
    interface: &'static str,
    name: &'static str,
}

const ON_BATTERY: Property = Property {
    service: "org.freedesktop.UPower",
    path: "/org/freedesktop/UPower",
    interface: "org.freedesktop.UPower",
    name: "OnBattery",
};
/// Under the service's present name and the one it had before.
const PROFILE: [Property; 2] = [
    Property {
        service: "org.freedesktop.UPower.PowerProfiles",
        path: "/org/freedesktop/UPower/PowerProfiles",
        interface: "org.freedesktop.UPower.PowerProfiles",
        name: "ActiveProfile",
    },
    Property {
        service: "net.hadess.PowerProfiles",
        path: "/net/hadess/PowerProfiles",
        interface: "net.hadess.PowerProfiles",
        name: "ActiveProfile",
    },
];
/// The profile that saves energy, as the service names it.
const POWER_SAVER: &str = "power-saver";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// What answers on the bus.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// UPower.
    pub(super) has_battery_state: bool,
    /// Name of the power profiles service.
    pub(super) profiles_name: Option<String>,
}

/// What is known of the bus; clones share it.
#[derive(Clone, Default)]
pub(super) struct Bus(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    found: Found,
    has_looked: bool,
    connection: Option<Connection>,
    is_over: bool,
}

impl Bus {
    /// What answers by now.
    pub(super) fn found(&self) -> Found {
        self.state().found.clone()
    }

    /// What answers, once all were asked; waits for that no longer than somebody who reads it would.
    pub(super) fn found_in_time(&self) -> Found {
        const PATIENCE: Duration = Duration::from_millis(500);
        let is_looking = |state: &mut State| !state.has_looked;
        let waited = self
            .0
            .1
            .wait_timeout_while(self.state(), PATIENCE, is_looking);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.found.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the connection for the end; `false` if that has come already.
    fn keep(&self, connection: &Connection) -> bool {
        let mut state = self.state();
        if !state.is_over {
            state.connection = Some(connection.clone());
        }
        !state.is_over
    }

    fn note(&self, found: Found) {
        let mut state = self.state();
        if found == Found::default() {
            // Nothing more will come of it.
            state.connection = None;
        }
        state.found = found;
    }

    fn has_looked(&self) {
        self.state().has_looked = true;
        self.0.1.notify_all();
    }
}

/// The running watch. Dropping it closes the connection, which ends its threads.
pub(super) struct BusWatch {
    bus: Bus,
}

impl BusWatch {
    /// Begins to look, in the background.
    pub(super) fn start(paths: &Paths, board: &Arc<Board>) -> Self {
        let bus = Bus::default();
        let address = paths.bus_address.clone();
        let (shared, board) = (bus.clone(), board.clone());
        in_background("power-services", move || {
            if let Err(error) = listen(address.as_deref(), &shared, &board) {
                tracing::info!(%error, "no D-Bus; power mode counts as normal");
            }
            // Also after an error, and harmless after all else.
            shared.has_looked();
        });
        Self { bus }
    }

    /// What is known of the bus.
    pub(super) fn bus(&self) -> &Bus {
        &self.bus
    }
}

impl Drop for BusWatch {
    fn drop(&mut self) {
        let connection = {
            let mut state = self.bus.state();
            state.is_over = true;
            state.connection.take()
        };
        if let Some(connection) = connection {
            // Nothing is lost if the other side is gone already.
            let _ = connection.close();
        }
    }
}

/// The bus of an address, or the system's.
pub(super) fn connect(address: Option<&str>) -> zbus::Result<Connection> {
    match address {
        Some(address) => Builder::address(address)?.build(),
        None => Connection::system(),
    }
}

fn in_background(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.to_owned());
    if let Err(error) = thread.spawn(work) {
        tracing::warn!(%error, name, "not watched");
    }
}

/// Asks who is there, then follows what they say, each on a thread of its own.
fn listen(address: Option<&str>, bus: &Bus, board: &Arc<Board>) -> zbus::Result<()> {
    let connection = connect(address)?;
    if !bus.keep(&connection) {
        return Ok(());
    }
    let profile = PROFILE
        .into_iter()
        .find_map(|property| Some((property, property.get(&connection).ok()?)));
    let source = ON_BATTERY.get(&connection).ok();
    let has_battery_state = source.is_some();
    // Before anything is written, for whoever reads the power supplies.
    bus.note(Found {
        has_battery_state,
        profiles_name: profile.as_ref().map(|(found, _)| found.service.to_owned()),
    });
    let profile = profile.map(|(property, value)| {
        take_mode(board, value);
        property
    });
    if let Some(value) = source {
        take_source(board, value);
    }
    bus.has_looked();
    match profile {
        Some(property) => {
            let (connection, bus, board) = (connection.clone(), bus.clone(), board.clone());
            in_background("power-profile", move || {
                follow_mode(property, &connection, &bus, &board);
            });
        }
        None => tracing::info!("no power profiles on D-Bus; power mode counts as normal"),
    }
    if has_battery_state {
        follow_source(&connection, bus, board);
    } else {
        tracing::info!("no UPower on D-Bus; power supplies are read instead, if any");
    }
    Ok(())
}

fn follow_mode(property: Property, connection: &Connection, bus: &Bus, board: &Board) {
    let end = property.follow(connection, |value| take_mode(board, value));
    tracing::debug!(?end, "the power mode is no longer followed");
    bus.state().found.profiles_name = None;
    board.update(|signals| signals.is_low_power = false);
}

fn take_mode(board: &Board, value: OwnedValue) {
    if let Ok(profile) = String::try_from(value) {
        board.update(|signals| signals.is_low_power = profile == POWER_SAVER);
    }
}

fn follow_source(connection: &Connection, bus: &Bus, board: &Board) {
    let end = ON_BATTERY.follow(connection, |value| take_source(board, value));
    tracing::debug!(?end, "the power source is no longer followed");
    // From here on the power supplies are asked, if there are any.
    bus.state().found.has_battery_state = false;
    board.update(|signals| signals.is_on_battery = false);
}

fn take_source(board: &Board, value: OwnedValue) {
    if let Ok(is_on_battery) = bool::try_from(value) {
        board.update(|signals| signals.is_on_battery = is_on_battery);
    }
}

impl Property {
    fn get(self, connection: &Connection) -> zbus::Result<OwnedValue> {
        let (service, wanted) = (Some(self.service), (self.interface, self.name));
        let reply = connection.call_method(service, self.path, Some(PROPERTIES), "Get", &wanted)?;
        reply.body().deserialize()
    }

    /// Gives every value to `take`, the present one first, until the connection closes.
    ///
    /// Not with the crate's own streams of properties: they outlive their connection.
    fn follow(self, connection: &Connection, take: impl Fn(OwnedValue)) -> zbus::Result<()> {
        let rule = MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .sender(self.service)?
            .path(self.path)?
            .interface(PROPERTIES)?
            .member("PropertiesChanged")?
            .arg(0, self.interface)?
            .build();
        // Listens before it asks, so that no change falls in between.
        let changes = MessageIterator::for_match_rule(rule, connection, None)?;
        take(self.get(connection)?);
        for change in changes {
            let change = change?;
            let body = change.body();
            let (_, mut changed, unsaid): Changes = body.deserialize()?;
            if let Some(value) = changed.remove(self.name) {
                take(value);
            } else if unsaid.contains(&self.name) {
                take(self.get(connection)?);
            }
        }
        Ok(())
    }
}

/// An interface, its new values, and names of properties whose new values must be asked for.
type Changes<'a> = (&'a str, HashMap<&'a str, OwnedValue>, Vec<&'a str>);

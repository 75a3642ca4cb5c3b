//! What the desktop's services say over D-Bus: UPower whether mains power is there, power profiles
//! whether the user saves energy.
//!
//! A machine without a bus or without these services costs one attempt to connect, on a thread of
//! its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zbus::blocking::connection::Builder;
use zbus::blocking::{Connection, Proxy};

use super::Paths;
use crate::board::Board;

const UPOWER: [&str; 3] = [
    "org.freedesktop.UPower",
    "/org/freedesktop/UPower",
    "org.freedesktop.UPower",
];
/// The service's present name and the one it had before.
const PROFILES: [[&str; 3]; 2] = [
    [
        "org.freedesktop.UPower.PowerProfiles",
        "/org/freedesktop/UPower/PowerProfiles",
        "org.freedesktop.UPower.PowerProfiles",
    ],
    [
        "net.hadess.PowerProfiles",
        "/net/hadess/PowerProfiles",
        "net.hadess.PowerProfiles",
    ],
];
/// The profile that saves energy, as the service names it.
const POWER_SAVER: &str = "power-saver";

/// What answered on the bus.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// UPower.
    pub(super) has_battery_state: bool,
    /// Name of the power profiles service.
    pub(super) profiles_name: Option<String>,
}

/// The running watch. Dropping it closes the connection, which ends its threads.
pub(super) struct BusWatch {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    found: Found,
    connection: Option<Connection>,
    is_over: bool,
}

impl BusWatch {
    /// Begins to look, in the background.
    pub(super) fn start(paths: &Paths, board: &Arc<Board>) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let address = paths.bus_address.clone();
        let (shared, board) = (state.clone(), board.clone());
        let spawned = std::thread::Builder::new()
            .name("power-services".to_owned())
            .spawn(move || {
                if let Err(error) = listen(address.as_deref(), &shared, &board) {
                    tracing::info!(%error, "no power services on D-Bus");
                }
            });
        if let Err(error) = spawned {
            tracing::warn!(%error, "power services are not watched");
        }
        Self { state }
    }

    /// What answered so far.
    pub(super) fn found(&self) -> Found {
        lock(&self.state).found.clone()
    }
}

impl Drop for BusWatch {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        if let Some(connection) = state.connection.take() {
            // Nothing is lost if the other side is gone already.
            let _ = connection.close();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(
    address: Option<&str>,
    state: &Arc<Mutex<State>>,
    board: &Arc<Board>,
) -> zbus::Result<()> {
    let connection = match address {
        Some(address) => Builder::address(address)?.build()?,
        None => Connection::system()?,
    };
    {
        let mut state = lock(state);
        if state.is_over {
            return Ok(());
        }
        state.connection = Some(connection.clone());
    }
    if let Some((name, proxy)) = profiles(&connection) {
        lock(state).found.profiles_name = Some(name);
        let board = board.clone();
        let spawned = std::thread::Builder::new()
            .name("power-profile".to_owned())
            .spawn(move || {
                follow(&proxy, "ActiveProfile", |profile: String| {
                    board.update(|signals| signals.is_low_power = profile == POWER_SAVER);
                });
            });
        if let Err(error) = spawned {
            tracing::warn!(%error, "the power profile is not watched");
        }
    }
    let upower = proxy(&connection, UPOWER)?;
    let is_on_battery: bool = upower.get_property("OnBattery")?;
    lock(state).found.has_battery_state = true;
    board.update(|signals| signals.is_on_battery = is_on_battery);
    follow(&upower, "OnBattery", |is_on_battery: bool| {
        board.update(|signals| signals.is_on_battery = is_on_battery);
    });
    Ok(())
}

/// Gives every value of a property to `take`, the present one first, until the connection closes.
fn follow<T>(proxy: &Proxy<'_>, property: &str, take: impl Fn(T))
where
    T: TryFrom<zbus::zvariant::OwnedValue> + Unpin + 'static,
    T::Error: Into<zbus::Error>,
{
    if let Ok(value) = proxy.get_property::<T>(property) {
        take(value);
    }
    for change in proxy.receive_property_changed::<T>(property) {
        if let Ok(value) = change.get() {
            take(value);
        }
    }
}

fn profiles(connection: &Connection) -> Option<(String, Proxy<'static>)> {
    PROFILES.iter().find_map(|&names| {
        let proxy = proxy(connection, names).ok()?;
        proxy.get_property::<String>("ActiveProfile").ok()?;
        Some((names[0].to_owned(), proxy))
    })
}

fn proxy(
    connection: &Connection,
    [service, path, interface]: [&'static str; 3],
) -> zbus::Result<Proxy<'static>> {
    Proxy::new(connection, service, path, interface)
}

#[cfg(test)]
mod tests;

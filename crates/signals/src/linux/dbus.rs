//! Battery and power mode from the services of the desktop over D-Bus: UPower and power profiles.
//!
//! On a machine without a bus or without these services, one thread tries to connect once. Lock
//! order: the lock of [`SharedSignals`] may be held when the lock of the state is taken, never the
//! reverse.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use zbus::MatchRule;
use zbus::blocking::connection::Builder;
use zbus::blocking::{Connection, MessageIterator};
use zbus::zvariant::OwnedValue;

use super::Paths;
use crate::shared_signals::SharedSignals;

/// A property of a D-Bus service. The interface and the object have the name of the service.
#[derive(Debug, Clone, Copy)]
struct Property {
    service: &'static str,
    name: &'static str,
}

const ON_BATTERY: Property = Property {
    service: "org.freedesktop.UPower",
    name: "OnBattery",
};
/// Under the current name of the service and its earlier name.
const PROFILE: [Property; 2] = [
    Property {
        service: "org.freedesktop.UPower.PowerProfiles",
        name: "ActiveProfile",
    },
    Property {
        service: "net.hadess.PowerProfiles",
        name: "ActiveProfile",
    },
];
/// The name of the profile that saves energy.
const POWER_SAVER: &str = "power-saver";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// The services that exist on the bus.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct BusSources {
    /// UPower reports whether the machine runs on battery.
    pub(super) has_battery_state: bool,
    /// Name of the power profiles service.
    pub(super) profiles_name: Option<String>,
}

/// The services on the bus and the connection to it, which are watched in the background until
/// [`Bus::close`]. Clones share the state.
#[derive(Clone, Default)]
pub(super) struct Bus(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    sources: BusSources,
    is_complete: bool,
    connection: Option<Connection>,
    is_closed: bool,
}

impl Bus {
    pub(super) fn watch(paths: &Paths, shared: &Arc<SharedSignals>) -> Self {
        let bus = Self::default();
        let address = paths.bus_address.clone();
        let (shared_bus, shared) = (bus.clone(), shared.clone());
        in_background("power-services", move || {
            if let Err(error) = listen(address.as_deref(), &shared_bus, &shared) {
                tracing::info!(%error, "no D-Bus; power mode counts as normal");
            }
            // For the case of an error; otherwise this has no effect.
            shared_bus.set_complete();
        });
        bus
    }

    /// Closes the connection, which ends the threads of the watch.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let connection = state.connection.take();
        drop(state);
        if let Some(connection) = connection {
            // Fails if the other side has closed it already.
            let _ = connection.close();
        }
    }

    /// Returns the services that are known now.
    pub(super) fn sources(&self) -> BusSources {
        self.state().sources.clone()
    }

    /// Waits until all services were looked up, but at most half a second, and returns them.
    pub(super) fn wait_for_sources(&self) -> BusSources {
        const TIMEOUT: Duration = Duration::from_millis(500);
        let mut state = self.state();
        let is_pending = |state: &mut State| !state.is_complete;
        self.0.1.wait_while_for(&mut state, is_pending, TIMEOUT);
        state.sources.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock()
    }

    /// Stores the connection so that it can be closed. Returns false if the bus was closed already.
    fn store_connection(&self, connection: &Connection) -> bool {
        let mut state = self.state();
        if !state.is_closed {
            state.connection = Some(connection.clone());
        }
        !state.is_closed
    }

    fn set_sources(&self, sources: BusSources) {
        let mut state = self.state();
        if sources == BusSources::default() {
            // Without services the connection is not needed.
            state.connection = None;
        }
        state.sources = sources;
    }

    fn set_complete(&self) {
        self.state().is_complete = true;
        self.0.1.notify_all();
    }
}

/// Connects to the bus at this address, or to the system bus.
pub(super) fn connect(address: Option<&str>) -> zbus::Result<Connection> {
    match address {
        Some(address) => Builder::address(address)?.build(),
        None => Connection::system(),
    }
}

fn in_background(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.to_owned());
    if let Err(error) = thread.spawn(work) {
        tracing::warn!(%error, name, "could not start a thread");
    }
}

/// Looks up the services, then follows each one on its own thread.
fn listen(address: Option<&str>, bus: &Bus, shared: &Arc<SharedSignals>) -> zbus::Result<()> {
    let connection = connect(address)?;
    if !bus.store_connection(&connection) {
        return Ok(());
    }
    let profile = PROFILE
        .into_iter()
        .find_map(|property| Some((property, property.get(&connection).ok()?)));
    let source = ON_BATTERY.get(&connection).ok();
    let has_battery_state = source.is_some();
    // Before any signal is set, because the thread that reads power supplies checks the services.
    bus.set_sources(BusSources {
        has_battery_state,
        profiles_name: profile
            .as_ref()
            .map(|(property, _)| property.service.to_owned()),
    });
    let profile = profile.map(|(property, value)| {
        set_power_mode(shared, value);
        property
    });
    if let Some(value) = source {
        set_power_source(shared, value);
    }
    bus.set_complete();
    match profile {
        Some(property) => {
            let (connection, bus, shared) = (connection.clone(), bus.clone(), shared.clone());
            in_background("power-profile", move || {
                let end = property.follow(&connection, |value| set_power_mode(&shared, value));
                tracing::debug!(?end, "the power mode is no longer followed");
                bus.state().sources.profiles_name = None;
                shared.update(|signals| signals.is_low_power = false);
            });
        }
        None => tracing::info!("no power profiles on D-Bus; power mode counts as normal"),
    }
    if !has_battery_state {
        tracing::info!("no UPower on D-Bus; power supplies are read instead, if any");
        return Ok(());
    }
    let end = ON_BATTERY.follow(&connection, |value| set_power_source(shared, value));
    tracing::debug!(?end, "the power source is no longer followed");
    // From now on, power supplies are read instead, if there are any.
    bus.state().sources.has_battery_state = false;
    shared.update(|signals| signals.is_on_battery = false);
    Ok(())
}

fn set_power_mode(shared: &SharedSignals, value: OwnedValue) {
    if let Ok(profile) = String::try_from(value) {
        shared.update(|signals| signals.is_low_power = profile == POWER_SAVER);
    }
}

fn set_power_source(shared: &SharedSignals, value: OwnedValue) {
    if let Ok(is_on_battery) = bool::try_from(value) {
        shared.update(|signals| signals.is_on_battery = is_on_battery);
    }
}

impl Property {
    fn path(self) -> String {
        format!("/{}", self.service.replace('.', "/"))
    }

    fn get(self, connection: &Connection) -> zbus::Result<OwnedValue> {
        let (service, name) = (Some(self.service), (self.service, self.name));
        let reply = connection.call_method(service, self.path(), Some(PROPERTIES), "Get", &name)?;
        reply.body().deserialize()
    }

    /// Calls `on_value` with the current value and each later one until the connection closes.
    ///
    /// The property streams of zbus are not used, because they outlive their connection.
    fn follow(self, connection: &Connection, on_value: impl Fn(OwnedValue)) -> zbus::Result<()> {
        let rule = MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .sender(self.service)?
            .path(self.path())?
            .interface(PROPERTIES)?
            .member("PropertiesChanged")?
            .arg(0, self.service)?
            .build();
        // Subscribes before reading the value, so no change is missed.
        let changes = MessageIterator::for_match_rule(rule, connection, None)?;
        on_value(self.get(connection)?);
        for change in changes {
            let change = change?;
            let body = change.body();
            let (_, mut changed, invalidated): Changes = body.deserialize()?;
            if let Some(value) = changed.remove(self.name) {
                on_value(value);
            } else if invalidated.contains(&self.name) {
                on_value(self.get(connection)?);
            }
        }
        Ok(())
    }
}

/// An interface, its new values, and the names of properties whose new values must be requested.
type Changes<'a> = (&'a str, HashMap<&'a str, OwnedValue>, Vec<&'a str>);

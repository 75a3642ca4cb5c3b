pub(crate) mod private_bus;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::*;
use private_bus::PrivateBus;

const TIMEOUT: Duration = Duration::from_secs(20);

struct UPower(bool);

#[zbus::interface(name = "org.freedesktop.UPower")]
impl UPower {
    #[zbus(property)]
    fn on_battery(&self) -> bool {
        self.0
    }
}

struct Profiles(String);

#[zbus::interface(name = "net.hadess.PowerProfiles")]
impl Profiles {
    #[zbus(property)]
    fn active_profile(&self) -> String {
        self.0.clone()
    }
}

/// Services of a machine on battery with the power saver.
fn services(bus: &PrivateBus) -> Connection {
    let saving = Profiles(POWER_SAVER.to_owned());
    Builder::address(bus.address())
        .unwrap()
        .name("org.freedesktop.UPower")
        .unwrap()
        .name("net.hadess.PowerProfiles")
        .unwrap()
        .serve_at("/org/freedesktop/UPower", UPower(true))
        .unwrap()
        .serve_at("/net/hadess/PowerProfiles", saving)
        .unwrap()
        .build()
        .unwrap()
}

/// Starts a watch. The channel has its values for battery and power saver.
fn watch(bus: &PrivateBus) -> (Bus, Receiver<(bool, bool)>) {
    let shared = Arc::new(SharedSignals::default());
    let (send, received) = channel();
    shared.watch(Box::new(move |signals| {
        // Fails if the test ends before the last change.
        let _ = send.send((signals.is_on_battery, signals.is_low_power));
    }));
    let paths = Paths {
        bus_address: Some(bus.address().to_owned()),
        ..Paths::default()
    };
    (Bus::watch(&paths, &shared), received)
}

fn wait_for(received: &Receiver<(bool, bool)>, expected: (bool, bool)) {
    while received.recv_timeout(TIMEOUT).unwrap() != expected {}
}

#[test]
fn battery_and_power_saver_and_their_end_are_reported() {
    let Some(bus) = PrivateBus::start_or_skip() else {
        return;
    };
    let server = services(&bus);
    let (watch, received) = watch(&bus);
    wait_for(&received, (true, true));
    let expected = BusSources {
        has_battery_state: true,
        profiles_name: Some("net.hadess.PowerProfiles".to_owned()),
    };
    assert_eq!(watch.wait_for_sources(), expected);
    let objects = server.object_server();
    let upower = objects
        .interface::<_, UPower>("/org/freedesktop/UPower")
        .unwrap();
    upower.get_mut().0 = false;
    zbus::block_on(upower.get().on_battery_changed(upower.signal_emitter())).unwrap();
    wait_for(&received, (false, true));
    let profiles = objects
        .interface::<_, Profiles>("/net/hadess/PowerProfiles")
        .unwrap();
    profiles.get_mut().0 = "balanced".to_owned();
    zbus::block_on(
        profiles
            .get()
            .active_profile_changed(profiles.signal_emitter()),
    )
    .unwrap();
    wait_for(&received, (false, false));
}

#[test]
fn signals_become_normal_when_the_bus_disconnects() {
    let Some(bus) = PrivateBus::start_or_skip() else {
        return;
    };
    let server = services(&bus);
    let (watch, received) = watch(&bus);
    wait_for(&received, (true, true));
    drop(bus);
    wait_for(&received, (false, false));
    assert_eq!(watch.sources(), BusSources::default());
    drop(server);
}

/// Every thread holds the shared signals, which hold the sender.
#[test]
fn closing_the_bus_ends_its_threads() {
    let Some(bus) = PrivateBus::start_or_skip() else {
        return;
    };
    let _server = services(&bus);
    let (watch, received) = watch(&bus);
    wait_for(&received, (true, true));
    watch.close();
    let end = loop {
        match received.recv_timeout(TIMEOUT) {
            Ok(_) => {}
            Err(end) => break end,
        }
    };
    assert_eq!(end, RecvTimeoutError::Disconnected);
}

#[test]
fn a_bus_without_the_services_leaves_everything_normal() {
    let Some(bus) = PrivateBus::start_or_skip() else {
        return;
    };
    let (watch, received) = watch(&bus);
    assert_eq!(
        received.recv_timeout(TIMEOUT),
        Err(RecvTimeoutError::Disconnected),
        "its thread ends by itself without a change"
    );
    assert_eq!(watch.wait_for_sources(), BusSources::default());
}

#[test]
fn a_machine_without_a_bus_leaves_everything_normal() {
    let shared = Arc::new(SharedSignals::default());
    let nowhere = "unix:path=/nonexistent/bus";
    assert!(listen(Some(nowhere), &Bus::default(), &shared).is_err());
    assert_eq!(shared.current(), Default::default());
}

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::private_bus::PrivateBus;
use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

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

/// A machine on battery that saves energy.
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

/// The watch, and whatever it says of battery and power saving.
fn watch(bus: &PrivateBus) -> (BusWatch, Receiver<(bool, bool)>) {
    let board = Arc::new(Board::default());
    let (send, heard) = channel();
    board.watch(Box::new(move |signals| {
        // The test may be over before the last change.
        let _ = send.send((signals.is_on_battery, signals.is_low_power));
    }));
    let paths = Paths {
        bus_address: Some(bus.address().to_owned()),
        ..Paths::default()
    };
    (BusWatch::start(&paths, &board), heard)
}

fn wait_for(heard: &Receiver<(bool, bool)>, expected: (bool, bool)) {
    while heard.recv_timeout(PATIENCE).unwrap() != expected {}
}

/// D086, on Linux.
#[test]
fn battery_and_power_saver_are_heard_and_so_is_their_end() {
    let Some(bus) = PrivateBus::start() else {
        return;
    };
    let server = services(&bus);
    let (watch, heard) = watch(&bus);
    wait_for(&heard, (true, true));
    let expected = Found {
        has_battery_state: true,
        profiles_name: Some("net.hadess.PowerProfiles".to_owned()),
    };
    assert_eq!(watch.bus().found_in_time(), expected);
    let objects = server.object_server();
    let upower = objects
        .interface::<_, UPower>("/org/freedesktop/UPower")
        .unwrap();
    upower.get_mut().0 = false;
    zbus::block_on(upower.get().on_battery_changed(upower.signal_emitter())).unwrap();
    wait_for(&heard, (false, true));
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
    wait_for(&heard, (false, false));
}

#[test]
fn when_the_bus_goes_away_nothing_is_left_of_what_it_said() {
    let Some(bus) = PrivateBus::start() else {
        return;
    };
    let server = services(&bus);
    let (watch, heard) = watch(&bus);
    wait_for(&heard, (true, true));
    drop(bus);
    wait_for(&heard, (false, false));
    assert_eq!(watch.bus().found(), Found::default());
    drop(server);
}

/// Every thread holds the board, and the board the sender.
#[test]
fn dropping_the_watch_ends_its_threads() {
    let Some(bus) = PrivateBus::start() else {
        return;
    };
    let _server = services(&bus);
    let (watch, heard) = watch(&bus);
    wait_for(&heard, (true, true));
    drop(watch);
    let end = loop {
        match heard.recv_timeout(PATIENCE) {
            Ok(_) => {}
            Err(end) => break end,
        }
    };
    assert_eq!(end, RecvTimeoutError::Disconnected);
}

#[test]
fn a_bus_without_the_services_leaves_everything_normal() {
    let Some(bus) = PrivateBus::start() else {
        return;
    };
    let (watch, heard) = watch(&bus);
    assert_eq!(
        heard.recv_timeout(PATIENCE),
        Err(RecvTimeoutError::Disconnected),
        "its thread ends by itself, and says nothing"
    );
    assert_eq!(watch.bus().found_in_time(), Found::default());
}

#[test]
fn a_machine_without_a_bus_leaves_everything_normal() {
    let board = Arc::new(Board::default());
    let nowhere = "unix:path=/nonexistent/bus";
    assert!(listen(Some(nowhere), &Bus::default(), &board).is_err());
    assert_eq!(board.current(), Default::default());
}

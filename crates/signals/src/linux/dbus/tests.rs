use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;

/// A bus of our own; `None` where the program is not installed.
struct PrivateBus {
    process: Child,
    address: String,
}

impl PrivateBus {
    fn start() -> Option<Self> {
        let spawned = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--print-address"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut process) = spawned else {
            println!("skipped: dbus-daemon is not installed");
            return None;
        };
        let mut address = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut address).unwrap();
        Some(Self {
            process,
            address: address.trim().to_owned(),
        })
    }

    fn paths(&self) -> Paths {
        Paths {
            bus_address: Some(self.address.clone()),
            ..Paths::default()
        }
    }
}

impl Drop for PrivateBus {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

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

#[test]
fn battery_and_power_saver_are_heard_and_so_is_their_end() {
    let Some(bus) = PrivateBus::start() else {
        return;
    };
    let server = Builder::address(bus.address.as_str())
        .unwrap()
        .name("org.freedesktop.UPower")
        .unwrap()
        .name("net.hadess.PowerProfiles")
        .unwrap()
        .serve_at("/org/freedesktop/UPower", UPower(true))
        .unwrap()
        .serve_at(
            "/net/hadess/PowerProfiles",
            Profiles(POWER_SAVER.to_owned()),
        )
        .unwrap()
        .build()
        .unwrap();
    let board = Arc::new(Board::default());
    let (send, receive) = channel();
    board.watch(Box::new(move |signals| {
        // The test may be over before the last change.
        let _ = send.send((signals.is_on_battery, signals.is_low_power));
    }));
    let watch = BusWatch::start(&bus.paths(), &board);
    let wait_for = |expected| {
        while receive.recv_timeout(Duration::from_secs(20)).unwrap() != expected {}
    };
    wait_for((true, true));
    let found = watch.found();
    assert_eq!(
        found.profiles_name.as_deref(),
        Some("net.hadess.PowerProfiles")
    );
    let objects = server.object_server();
    let upower = objects
        .interface::<_, UPower>("/org/freedesktop/UPower")
        .unwrap();
    upower.get_mut().0 = false;
    zbus::block_on(upower.get().on_battery_changed(upower.signal_emitter())).unwrap();
    wait_for((false, true));
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
    wait_for((false, false));
}

#[test]
fn a_bus_without_the_services_leaves_everything_normal() {
    let Some(bus) = PrivateBus::start() else {
        return;
    };
    let state = Arc::new(Mutex::new(State::default()));
    let board = Arc::new(Board::default());
    assert!(listen(Some(&bus.address), &state, &board).is_err());
    assert_eq!(lock(&state).found, Found::default());
    assert_eq!(board.current(), Default::default());
}

#[test]
fn a_machine_without_a_bus_leaves_everything_normal() {
    let state = Arc::new(Mutex::new(State::default()));
    let board = Arc::new(Board::default());
    let nowhere = "unix:path=/nonexistent/bus";
    assert!(listen(Some(nowhere), &state, &board).is_err());
    assert_eq!(board.current(), Default::default());
}

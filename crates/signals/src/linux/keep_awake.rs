//! An inhibitor lock of logind (<https://systemd.io/INHIBITOR_LOCKS/>): the machine stays awake
//! until the file descriptor of the lock is closed.

use std::sync::Once;
use std::sync::mpsc::{Sender, channel};

use zbus::blocking::{Connection, Proxy};
use zbus::zvariant::OwnedFd;

use super::dbus::connect;

/// Prevents the machine from sleeping until it is dropped. The screen may turn off.
///
/// A thread holds an inhibitor lock of logind.
#[must_use = "the machine may sleep again when this is dropped"]
pub struct KeepAwake {
    #[expect(dead_code, reason = "dropping it is the message")]
    release: Sender<()>,
}

impl KeepAwake {
    /// Prevents sleep from now on; returns at once. The system shows `reason` to the user.
    pub fn begin(reason: &str) -> Self {
        Self::begin_on(None, reason)
    }

    /// Takes a lock on the bus at this address, or on the system bus. Uses a thread, because a bus
    /// may be slow.
    fn begin_on(address: Option<String>, reason: &str) -> Self {
        let (release, released) = channel::<()>();
        let reason = reason.to_owned();
        let hold = move || match connect(address.as_deref()).and_then(|bus| inhibit(&bus, &reason))
        {
            Ok(inhibitor) => {
                // Returns when the sender is dropped.
                let _ = released.recv();
                drop(inhibitor);
            }
            Err(error) => log_once(&error),
        };
        let thread = std::thread::Builder::new().name("keep-awake".to_owned());
        if let Err(error) = thread.spawn(hold) {
            tracing::warn!(%error, "this computer is not kept awake");
        }
        Self { release }
    }
}

fn inhibit(bus: &Connection, reason: &str) -> zbus::Result<OwnedFd> {
    let manager = Proxy::new(
        bus,
        "org.freedesktop.login1",
        "/org/freedesktop/login1",
        "org.freedesktop.login1.Manager",
    )?;
    let call = |what: &str, mode: &str| manager.call("Inhibit", &(what, "Transom", reason, mode));
    // Some desktops suspend even if logind does not consider the machine idle, and only a lock on
    // sleep prevents that. The lock is weak (systemd 257), so the user can still suspend. Older
    // versions, and logind without a local session, refuse it.
    call("idle:sleep", "block-weak").or_else(|_| call("idle", "block"))
}

fn log_once(error: &zbus::Error) {
    static LOGGED: Once = Once::new();
    LOGGED.call_once(|| tracing::info!(%error, "no logind; this computer is not kept awake"));
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Read};
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use zbus::blocking::connection::Builder;
    use zbus::fdo;

    use super::*;
    use crate::linux::dbus::tests::private_bus::PrivateBus;

    /// A logind that allows only locks on idleness and records requests.
    struct Logind {
        requests: Sender<[String; 4]>,
        lock: Mutex<Option<PipeWriter>>,
    }

    #[zbus::interface(name = "org.freedesktop.login1.Manager")]
    impl Logind {
        fn inhibit(
            &self,
            what: String,
            who: String,
            why: String,
            mode: String,
        ) -> fdo::Result<OwnedFd> {
            let is_allowed = what == "idle";
            self.requests.send([what, who, why, mode]).unwrap();
            if !is_allowed {
                return Err(fdo::Error::AccessDenied("no local session".to_owned()));
            }
            let lock = self.lock.lock().unwrap().take().unwrap();
            Ok(std::os::fd::OwnedFd::from(lock).into())
        }
    }

    /// The machine stays awake exactly as long as a person waits.
    #[test]
    fn the_inhibitor_is_held_until_the_drop() {
        const TIMEOUT: Duration = Duration::from_secs(20);
        let Some(bus) = PrivateBus::start_or_skip() else {
            return;
        };
        let (requests, received) = channel();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let logind = Logind {
            requests,
            lock: Mutex::new(Some(writer)),
        };
        let _server = Builder::address(bus.address())
            .unwrap()
            .name("org.freedesktop.login1")
            .unwrap()
            .serve_at("/org/freedesktop/login1", logind)
            .unwrap()
            .build()
            .unwrap();
        let lock = KeepAwake::begin_on(Some(bus.address().to_owned()), "a test");
        for (what, mode) in [("idle:sleep", "block-weak"), ("idle", "block")] {
            let request = received.recv_timeout(TIMEOUT).unwrap();
            assert_eq!(request, [what, "Transom", "a test", mode]);
        }
        let (closed, close) = channel();
        std::thread::spawn(move || closed.send(reader.read(&mut [0]).unwrap()));
        assert!(close.try_recv().is_err(), "the lock is held");
        drop(lock);
        assert_eq!(close.recv_timeout(TIMEOUT), Ok(0), "the lock is closed");
    }

    /// It can begin and end at any time, on any machine.
    #[test]
    fn it_never_blocks_nor_fails() {
        for _ in 0..3 {
            let awake = KeepAwake::begin("a test");
            drop(awake);
        }
    }
}

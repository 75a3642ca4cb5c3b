//! Keeping the machine from falling asleep while somebody waits for an answer.

/// As long as this lives, the machine does not go to sleep by itself; its screen may.
///
/// On a Mac an activity of `NSProcessInfo`, on Linux an inhibitor lock of logind. Where there is
/// neither, it does nothing.
#[must_use = "the machine may sleep again when this is dropped"]
pub struct KeepAwake {
    #[expect(dead_code, reason = "held for what its drop does")]
    lock: platform::Lock,
}

impl KeepAwake {
    /// Begins; returns at once. `reason` is what people read who ask why the machine stays awake.
    pub fn begin(reason: &str) -> Self {
        Self {
            lock: platform::Lock::begin(reason),
        }
    }
}

#[cfg(target_os = "macos")]
use crate::mac::keep_awake as platform;

#[cfg(target_os = "linux")]
mod platform {
    use std::sync::Once;
    use std::sync::mpsc::{Sender, channel};

    use zbus::blocking::{Connection, Proxy};
    use zbus::zvariant::OwnedFd;

    /// Tells the thread that holds the inhibitor to let it go.
    pub(super) struct Lock {
        #[expect(dead_code, reason = "dropping it is the message")]
        release: Sender<()>,
    }

    impl Lock {
        pub(super) fn begin(reason: &str) -> Self {
            let (release, released) = channel::<()>();
            let reason = reason.to_owned();
            let spawned = std::thread::Builder::new()
                .name("keep-awake".to_owned())
                .spawn(move || match inhibit(&reason) {
                    Ok(inhibitor) => {
                        // Ends with the sender, and the inhibitor with it.
                        let _ = released.recv();
                        drop(inhibitor);
                    }
                    Err(error) => say_once(&error),
                });
            if let Err(error) = spawned {
                tracing::warn!(%error, "this computer is not kept awake");
            }
            Self { release }
        }
    }

    /// Takes a lock; closing the descriptor releases it
    /// (<https://systemd.io/INHIBITOR_LOCKS/>).
    fn inhibit(reason: &str) -> zbus::Result<OwnedFd> {
        let connection = Connection::system()?;
        let manager = Proxy::new(
            &connection,
            "org.freedesktop.login1",
            "/org/freedesktop/login1",
            "org.freedesktop.login1.Manager",
        )?;
        manager.call("Inhibit", &("idle:sleep", "Transom", reason, "block"))
    }

    fn say_once(error: &zbus::Error) {
        static SAID: Once = Once::new();
        SAID.call_once(|| tracing::info!(%error, "no logind; this computer is not kept awake"));
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod platform {
    pub(super) struct Lock;

    impl Lock {
        pub(super) fn begin(_: &str) -> Self {
            Self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D095: begins and ends at any time, on any machine.
    #[test]
    fn it_never_blocks_nor_fails() {
        for _ in 0..3 {
            let awake = KeepAwake::begin("a test");
            drop(awake);
        }
    }
}

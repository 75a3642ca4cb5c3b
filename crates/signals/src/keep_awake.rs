//! Keeping the machine from falling asleep while somebody waits for an answer.

#[cfg(target_os = "linux")]
use crate::linux::keep_awake as platform;
#[cfg(target_os = "macos")]
use crate::mac::keep_awake as platform;

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

//! An activity of `NSProcessInfo`: the system knows that the user waits, so it neither sleeps nor
//! puts the program into App Nap.

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2_foundation::{NSActivityOptions, NSProcessInfo, NSString};

/// Prevents the machine from sleeping until it is dropped. The screen may turn off.
#[must_use = "the machine may sleep again when this is dropped"]
pub struct KeepAwake {
    activity: Retained<ProtocolObject<dyn NSObjectProtocol>>,
}

// SAFETY: an activity may be ended on another thread than it was begun on.
#[expect(unsafe_code, reason = "a token of a thread-safe object")]
unsafe impl Send for KeepAwake {}
// SAFETY: as above; no method takes a shared reference.
#[expect(unsafe_code, reason = "a token of a thread-safe object")]
unsafe impl Sync for KeepAwake {}

impl KeepAwake {
    /// Prevents sleep from now on; returns at once. The system shows `reason` to the user.
    pub fn begin(reason: &str) -> Self {
        let options = NSActivityOptions::UserInitiated | NSActivityOptions::IdleSystemSleepDisabled;
        // Our threads have no autorelease pool.
        autoreleasepool(|_| Self {
            activity: NSProcessInfo::processInfo()
                .beginActivityWithOptions_reason(options, &NSString::from_str(reason)),
        })
    }
}

impl Drop for KeepAwake {
    fn drop(&mut self) {
        // SAFETY: the activity came from `begin`, and is ended once.
        #[expect(unsafe_code, reason = "the token has no type")]
        autoreleasepool(|_| unsafe {
            NSProcessInfo::processInfo().endActivity(&self.activity);
        });
    }
}

//! An activity of `NSProcessInfo`: the system knows that the user waits, so it neither sleeps nor
//! puts the program into App Nap.

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2_foundation::{NSActivityOptions, NSProcessInfo, NSString};

/// An activity, which ends when this is dropped.
pub(crate) struct Lock {
    activity: Retained<ProtocolObject<dyn NSObjectProtocol>>,
}

// SAFETY: an activity may be ended on another thread than it was begun on.
#[expect(unsafe_code, reason = "a token of a thread-safe object")]
unsafe impl Send for Lock {}
// SAFETY: as above; no method takes a shared reference.
#[expect(unsafe_code, reason = "a token of a thread-safe object")]
unsafe impl Sync for Lock {}

impl Lock {
    pub(crate) fn begin(reason: &str) -> Self {
        let options = NSActivityOptions::UserInitiated | NSActivityOptions::IdleSystemSleepDisabled;
        // Our threads have no autorelease pool.
        autoreleasepool(|_| Self {
            activity: NSProcessInfo::processInfo()
                .beginActivityWithOptions_reason(options, &NSString::from_str(reason)),
        })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: the activity came from `begin`, and is ended once.
        #[expect(unsafe_code, reason = "the token has no type")]
        autoreleasepool(|_| unsafe {
            NSProcessInfo::processInfo().endActivity(&self.activity);
        });
    }
}

//! Thermal state and Low Power Mode from `NSProcessInfo`, which posts notifications on its own
//! queue after the values were read once.

use std::ptr::NonNull;
use std::sync::Arc;

use block2::RcBlock;
use objc2::rc::Retained;
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2_foundation::{
    NSNotification, NSNotificationCenter, NSNotificationName, NSProcessInfo,
    NSProcessInfoPowerStateDidChangeNotification, NSProcessInfoThermalStateDidChangeNotification,
};

use crate::apple::thermal_state;
use crate::shared_signals::SharedSignals;

pub(super) struct ProcessInfoWatch {
    observers: Vec<Retained<ProtocolObject<dyn NSObjectProtocol>>>,
}

// SAFETY: the observers are opaque tokens that are only handed back to the notification center,
// which may be called from any thread.
#[expect(unsafe_code, reason = "tokens of a thread-safe object")]
unsafe impl Send for ProcessInfoWatch {}
// SAFETY: as above; no method takes a shared reference.
#[expect(unsafe_code, reason = "tokens of a thread-safe object")]
unsafe impl Sync for ProcessInfoWatch {}

impl ProcessInfoWatch {
    pub(super) fn start(shared: &Arc<SharedSignals>) -> Self {
        read(shared);
        // SAFETY: constants of the framework.
        #[expect(unsafe_code, reason = "foreign constants")]
        let names: [&NSNotificationName; 2] = unsafe {
            [
                NSProcessInfoThermalStateDidChangeNotification,
                NSProcessInfoPowerStateDidChangeNotification,
            ]
        };
        Self {
            observers: names.map(|name| observe(name, shared)).into(),
        }
    }
}

impl Drop for ProcessInfoWatch {
    fn drop(&mut self) {
        let center = NSNotificationCenter::defaultCenter();
        for observer in &self.observers {
            // SAFETY: the tokens came from this center.
            #[expect(unsafe_code, reason = "the center cannot check the token")]
            unsafe {
                center.removeObserver((**observer).as_ref());
            }
        }
    }
}

fn observe(
    name: &NSNotificationName,
    shared: &Arc<SharedSignals>,
) -> Retained<ProtocolObject<dyn NSObjectProtocol>> {
    let shared = shared.clone();
    let block = RcBlock::new(move |_: NonNull<NSNotification>| read(&shared));
    let center = NSNotificationCenter::defaultCenter();
    // SAFETY: there is no object; the block owns all that it uses and may be called from any
    // thread.
    #[expect(unsafe_code, reason = "the center cannot check the block")]
    unsafe {
        center.addObserverForName_object_queue_usingBlock(Some(name), None, None, &block)
    }
}

fn read(shared: &SharedSignals) {
    shared.update(|signals| {
        let info = NSProcessInfo::processInfo();
        signals.thermal = thermal_state(info.thermalState().0);
        signals.is_low_power = info.isLowPowerModeEnabled();
    });
}

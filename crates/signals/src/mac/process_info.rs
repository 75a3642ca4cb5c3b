//! Heat and Low Power Mode from `NSProcessInfo`, which posts its notices on a queue of its own once
//! the values have been read.

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
use crate::board::Board;

/// The running watch.
pub(super) struct ProcessInfoWatch {
    observers: Vec<Retained<ProtocolObject<dyn NSObjectProtocol>>>,
}

// SAFETY: the observers are opaque tokens that are only handed back to the notification centre,
// which may be called from any thread.
#[expect(unsafe_code, reason = "tokens of a thread-safe object")]
unsafe impl Send for ProcessInfoWatch {}
// SAFETY: as above; no method takes a shared reference.
#[expect(unsafe_code, reason = "tokens of a thread-safe object")]
unsafe impl Sync for ProcessInfoWatch {}

impl ProcessInfoWatch {
    pub(super) fn start(board: &Arc<Board>) -> Self {
        read(board);
        // SAFETY: constants of the framework.
        #[expect(unsafe_code, reason = "constants of another language")]
        let names: [&NSNotificationName; 2] = unsafe {
            [
                NSProcessInfoThermalStateDidChangeNotification,
                NSProcessInfoPowerStateDidChangeNotification,
            ]
        };
        Self {
            observers: names.map(|name| observe(name, board)).into(),
        }
    }
}

impl Drop for ProcessInfoWatch {
    fn drop(&mut self) {
        let center = NSNotificationCenter::defaultCenter();
        for observer in &self.observers {
            // SAFETY: the tokens came from this centre.
            #[expect(unsafe_code, reason = "the centre cannot know what it is given")]
            unsafe {
                center.removeObserver((**observer).as_ref());
            }
        }
    }
}

fn observe(
    name: &NSNotificationName,
    board: &Arc<Board>,
) -> Retained<ProtocolObject<dyn NSObjectProtocol>> {
    let board = board.clone();
    let block = RcBlock::new(move |_: NonNull<NSNotification>| read(&board));
    let center = NSNotificationCenter::defaultCenter();
    // SAFETY: no object is named; the block owns all that it uses and may be called from any
    // thread.
    #[expect(unsafe_code, reason = "the centre cannot check the block")]
    unsafe {
        center.addObserverForName_object_queue_usingBlock(Some(name), None, None, &block)
    }
}

fn read(board: &Board) {
    board.update(|signals| {
        let info = NSProcessInfo::processInfo();
        signals.thermal = thermal_state(info.thermalState().0);
        signals.is_low_power = info.isLowPowerModeEnabled();
    });
}

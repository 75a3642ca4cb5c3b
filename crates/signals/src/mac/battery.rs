//! Mains or battery, from the system's power sources. The system posts a notice by name when the
//! kind of source changes (`kIOPSNotifyPowerSource`), so no run loop is needed.

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

use block2::{DynBlock, RcBlock};
use dispatch2::{DispatchQueue, DispatchRetained};
use objc2_io_kit::{
    IOPSCopyPowerSourcesInfo, IOPSGetProvidingPowerSourceType, kIOPSBatteryPowerValue,
};

use crate::board::Board;

const NOTICE: &CStr = c"com.apple.system.powersources.source";

#[expect(unsafe_code, reason = "notify.h, which no crate declares")]
unsafe extern "C" {
    fn notify_register_dispatch(
        name: *const c_char,
        token: *mut c_int,
        queue: &DispatchQueue,
        handler: &DynBlock<dyn Fn(c_int)>,
    ) -> u32;
    fn notify_cancel(token: c_int) -> u32;
}

/// The running watch.
pub(super) struct BatteryWatch {
    token: Option<c_int>,
    #[expect(dead_code, reason = "lives as long as the handler")]
    queue: DispatchRetained<DispatchQueue>,
}

impl BatteryWatch {
    #[expect(unsafe_code, reason = "calls of another language")]
    pub(super) fn start(board: &Arc<Board>) -> Self {
        read(board);
        let queue = DispatchQueue::new("transom.power-source", None);
        let board = board.clone();
        let handler = RcBlock::new(move |_: c_int| read(&board));
        let mut token = 0;
        // SAFETY: the name ends in zero; the handler is copied, owns all that it uses and may be
        // called from any thread.
        let status =
            unsafe { notify_register_dispatch(NOTICE.as_ptr(), &mut token, &queue, &handler) };
        if status != 0 {
            tracing::info!(status, "changes of the power source are not heard");
        }
        Self {
            token: (status == 0).then_some(token),
            queue,
        }
    }
}

impl BatteryWatch {
    /// Fails with the reason if changes bring no notice.
    pub(super) fn is_running(&self) -> Result<(), String> {
        let why = "changes are not heard: the system refused the notice";
        self.token.map(drop).ok_or_else(|| why.to_owned())
    }
}

impl Drop for BatteryWatch {
    #[expect(unsafe_code, reason = "a call of another language")]
    fn drop(&mut self) {
        if let Some(token) = self.token {
            // SAFETY: the token came from the registration, and is cancelled once.
            unsafe { notify_cancel(token) };
        }
    }
}

fn read(board: &Board) {
    board.update(|signals| signals.is_on_battery = is_on_battery());
}

fn is_on_battery() -> bool {
    let info = IOPSCopyPowerSourcesInfo();
    // SAFETY: the snapshot is what the call above returned.
    #[expect(unsafe_code, reason = "the snapshot has no type")]
    let kind = unsafe { IOPSGetProvidingPowerSourceType(info.as_deref()) };
    let battery = kIOPSBatteryPowerValue.to_str();
    kind.is_some_and(|kind| Ok(kind.to_string().as_str()) == battery)
}

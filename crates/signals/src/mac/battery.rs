//! Mains or battery power from IOKit. The system posts a notification by name when the power source
//! changes (`kIOPSNotifyPowerSource`), so no run loop is needed.

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

use block2::{DynBlock, RcBlock};
use dispatch2::{DispatchQueue, DispatchRetained};
use objc2_io_kit::{
    IOPSCopyPowerSourcesInfo, IOPSGetProvidingPowerSourceType, kIOPSBatteryPowerValue,
};

use crate::shared_signals::SharedSignals;

const NOTIFICATION_NAME: &CStr = c"com.apple.system.powersources.source";

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

pub(super) struct BatteryWatch {
    token: Option<c_int>,
    #[expect(dead_code, reason = "must live as long as the handler")]
    queue: DispatchRetained<DispatchQueue>,
}

impl BatteryWatch {
    #[expect(unsafe_code, reason = "foreign functions")]
    pub(super) fn start(shared: &Arc<SharedSignals>) -> Self {
        read(shared);
        let queue = DispatchQueue::new("transom.power-source", None);
        let shared = shared.clone();
        let handler = RcBlock::new(move |_: c_int| read(&shared));
        let mut token = 0;
        // SAFETY: the name ends in zero; the handler is copied, owns all that it uses and may be
        // called from any thread.
        let status = unsafe {
            notify_register_dispatch(NOTIFICATION_NAME.as_ptr(), &mut token, &queue, &handler)
        };
        if status != 0 {
            tracing::info!(status, "changes of the power source are not reported");
        }
        Self {
            token: (status == 0).then_some(token),
            queue,
        }
    }
}

impl BatteryWatch {
    /// Returns the reason if there are no notifications of changes.
    pub(super) fn is_running(&self) -> Result<(), String> {
        let why = "changes are not reported: the system refused the notification";
        self.token.map(drop).ok_or_else(|| why.to_owned())
    }
}

impl Drop for BatteryWatch {
    #[expect(unsafe_code, reason = "a foreign function")]
    fn drop(&mut self) {
        if let Some(token) = self.token {
            // SAFETY: the token came from the registration, and is canceled once.
            unsafe { notify_cancel(token) };
        }
    }
}

fn read(shared: &SharedSignals) {
    shared.update(|signals| signals.is_on_battery = is_on_battery());
}

fn is_on_battery() -> bool {
    let info = IOPSCopyPowerSourcesInfo();
    // SAFETY: the snapshot was returned by the call above.
    #[expect(unsafe_code, reason = "the snapshot has no type")]
    let kind = unsafe { IOPSGetProvidingPowerSourceType(info.as_deref()) };
    let battery = kIOPSBatteryPowerValue.to_str();
    kind.is_some_and(|kind| Ok(kind.to_string().as_str()) == battery)
}

//! The signal sources on macOS. These files are thin, because they run only on a Mac. All logic is
//! in files that are tested on every system.

mod battery;
mod disk;
pub(crate) mod keep_awake;
mod memory;
mod process_info;
mod swap;
mod sysctl;

use std::sync::Arc;

pub(crate) use disk::clearable_disk_bytes;
pub(crate) use memory::PressureListener;

use objc2_metal::{MTLCopyAllDevices, MTLCreateSystemDefaultDevice, MTLDevice};

use crate::apple::WorkingSet;
use crate::report::rows;
use crate::shared_signals::SharedSignals;
use crate::signal::{SignalSource, SourceReport, SystemSignals};

/// The signal sources on macOS. Dropping it ends the notifications.
pub(crate) struct MacSignals {
    shared: Arc<SharedSignals>,
    sources: (
        memory::MemoryWatch,
        process_info::ProcessInfoWatch,
        battery::BatteryWatch,
    ),
}

impl MacSignals {
    pub(crate) fn start() -> Self {
        let shared = Arc::new(SharedSignals::default());
        Self {
            sources: (
                memory::MemoryWatch::start(&shared),
                process_info::ProcessInfoWatch::start(&shared),
                battery::BatteryWatch::start(&shared),
            ),
            shared,
        }
    }
}

impl Drop for MacSignals {
    fn drop(&mut self) {
        self.shared.remove_watcher();
    }
}

impl SignalSource for MacSignals {
    fn current(&self) -> SystemSignals {
        self.shared.current()
    }

    fn watch(&self, on_change: Box<dyn Fn(SystemSignals) + Send + Sync>) {
        self.shared.watch(on_change);
    }

    fn set_polling(&self, is_polling: bool) {
        self.sources.0.set_polling(is_polling);
    }

    fn refresh(&self) {
        self.sources.0.refresh();
    }

    fn report(&self) -> Vec<SourceReport> {
        let (memory, _, battery) = &self.sources;
        let from = |source: &str| Ok(source.to_owned());
        let memory_from = |source: &str| memory.is_running().map(|()| source.to_owned());
        let sources = [
            memory_from(
                "system notifications; the level is also read every 4 s while a model is loaded",
            ),
            memory_from("pages swapped out, read while there is pressure"),
            from("NSProcessInfo thermal state"),
            from("NSProcessInfo Low Power Mode"),
            battery
                .is_running()
                .map(|()| "IOKit power sources".to_owned()),
        ];
        rows(&self.current(), sources, "")
    }
}

// Without this framework the default Metal device may be missing
// (<https://developer.apple.com/documentation/metal/mtlcreatesystemdefaultdevice()>).
#[expect(unsafe_code, reason = "links a framework and declares nothing")]
#[link(name = "CoreGraphics", kind = "framework")]
unsafe extern "C" {}

/// Reads the number of performance cores
/// (<https://developer.apple.com/documentation/kernel/1387446-sysctlbyname>) and the working set of
/// the GPU.
pub(crate) fn hardware() -> (Option<usize>, Option<WorkingSet>) {
    let memory_bytes = sysctl::number("hw.memsize").unwrap_or(0);
    let wired_limit = sysctl::number("iogpu.wired_limit_mb").unwrap_or(0) << 20;
    // Programs without a window server session, as in SSH or tmux, have no default device.
    let device = MTLCreateSystemDefaultDevice().or_else(|| MTLCopyAllDevices().firstObject());
    let reported = device.map(|device| device.recommendedMaxWorkingSetSize());
    let n_performance_cores = sysctl::number("hw.perflevel0.physicalcpu").map(|n| n as usize);
    let working_set = WorkingSet::new(reported, memory_bytes, wired_limit);
    (n_performance_cores, Some(working_set))
}

/// Returns `phys_footprint` of a process of the same user in bytes; `None` if the process is gone.
#[expect(unsafe_code, reason = "libc has no safe form of it")]
pub fn footprint_bytes(process: u32) -> Option<u64> {
    let process = i32::try_from(process).ok()?;
    let mut usage = std::mem::MaybeUninit::<libc::rusage_info_v4>::zeroed();
    // SAFETY: the buffer has the structure that the flavor names, and all zeroes are a valid value
    // of it.
    let usage = unsafe {
        let status = libc::proc_pid_rusage(
            process,
            libc::RUSAGE_INFO_V4,
            usage.as_mut_ptr().cast::<libc::rusage_info_t>(),
        );
        if status != 0 {
            return None;
        }
        usage.assume_init()
    };
    Some(usage.ri_phys_footprint)
}

//! macOS's own signals. Thin on purpose: these files can be type-checked on other systems, but only
//! run on a Mac, so whatever decides is elsewhere.

mod battery;
mod disk;
pub(crate) mod keep_awake;
mod memory;
mod process_info;
mod sysctl;

use std::sync::Arc;

pub(crate) use disk::clearable_disk_bytes;
pub(crate) use memory::Notices;

use objc2_metal::{MTLCopyAllDevices, MTLCreateSystemDefaultDevice, MTLDevice};

use crate::apple::WorkingSet;
use crate::board::Board;
use crate::hardware::PlatformHardware;
use crate::report::{Sources, rows};
use crate::signal::{SignalSource, SourceReport, SystemSignals};
use crate::urgency::Urgency;

/// macOS's sources. Dropping it ends the notices.
pub(crate) struct MacSignals {
    board: Arc<Board>,
    sources: (
        memory::MemoryWatch,
        process_info::ProcessInfoWatch,
        battery::BatteryWatch,
    ),
}

impl MacSignals {
    /// Listens to this Mac.
    pub(crate) fn start() -> Self {
        let board = Arc::new(Board::default());
        Self {
            sources: (
                memory::MemoryWatch::start(&board),
                process_info::ProcessInfoWatch::start(&board),
                battery::BatteryWatch::start(&board),
            ),
            board,
        }
    }
}

impl Drop for MacSignals {
    fn drop(&mut self) {
        self.board.end();
    }
}

impl SignalSource for MacSignals {
    fn current(&self) -> SystemSignals {
        self.board.current()
    }

    fn watch(&self, on_change: Box<dyn Fn(SystemSignals) + Send + Sync>) {
        self.board.watch(on_change);
    }

    fn set_watchful(&self, is_watchful: bool) {
        self.sources.0.set_watchful(is_watchful);
    }

    fn look_again(&self) {
        self.sources.0.look_again();
    }

    fn report(&self) -> Vec<SourceReport> {
        let (memory, _, battery) = &self.sources;
        let from = |source: &str| Ok(source.to_owned());
        let memory_from = |source: &str| memory.is_running().map(|()| source.to_owned());
        let sources = Sources {
            memory: memory_from("the system's notices, and its level every 4 s beside a model"),
            swap: memory_from("vm.swapusage, read while there is pressure"),
            heat: from("thermal state of the process info"),
            power_mode: from("Low Power Mode of the process info"),
            power_source: battery
                .is_running()
                .map(|()| "the system's power sources".to_owned()),
        };
        rows(&self.current(), sources, "")
    }
}

// Without it the system's default Metal device may be missing
// (<https://developer.apple.com/documentation/metal/mtlcreatesystemdefaultdevice()>).
#[expect(unsafe_code, reason = "names a framework and declares nothing")]
#[link(name = "CoreGraphics", kind = "framework")]
unsafe extern "C" {}

/// Performance cores (<https://developer.apple.com/documentation/kernel/1387446-sysctlbyname>) and
/// the GPU's share of memory.
pub(crate) fn hardware() -> PlatformHardware {
    let memory_bytes = sysctl::number("hw.memsize").unwrap_or(0);
    let wired_limit = sysctl::number("iogpu.wired_limit_mb").unwrap_or(0) << 20;
    // Programs without a session of the window server, as in SSH or tmux, have no default device.
    let device = MTLCreateSystemDefaultDevice().or_else(|| MTLCopyAllDevices().firstObject());
    let said = device.map(|device| device.recommendedMaxWorkingSetSize());
    PlatformHardware {
        n_performance_cores: sysctl::number("hw.perflevel0.physicalcpu").map(|n| n as usize),
        working_set: Some(WorkingSet::of(said, memory_bytes, wired_limit)),
    }
}

/// The class of the calling thread
/// (<https://developer.apple.com/library/archive/documentation/Performance/Conceptual/power_efficiency_guidelines_osx/PrioritizeWorkAtTheTaskLevel.html>).
#[expect(unsafe_code, reason = "libc has no safe form of it")]
pub(crate) fn set_thread_urgency(urgency: Urgency) {
    let class = match urgency {
        Urgency::UserInitiated => libc::qos_class_t::QOS_CLASS_USER_INITIATED,
        Urgency::Utility => libc::qos_class_t::QOS_CLASS_UTILITY,
    };
    // SAFETY: it changes the calling thread only, and both arguments are of the documented values.
    let status = unsafe { libc::pthread_set_qos_class_self_np(class, 0) };
    if status != 0 {
        tracing::debug!(status, "the thread keeps its quality of service");
    }
}

/// `phys_footprint` of a process of the same user.
#[expect(unsafe_code, reason = "libc has no safe form of it")]
pub(crate) fn footprint_bytes(process: u32) -> Option<u64> {
    let process = i32::try_from(process).ok()?;
    let mut usage = std::mem::MaybeUninit::<libc::rusage_info_v4>::zeroed();
    // SAFETY: the flavour names the structure that the buffer has room for; all zeroes are a valid
    // value of it.
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

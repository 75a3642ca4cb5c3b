//! Memory pressure and swap. The dispatch source of the system
//! (<https://developer.apple.com/documentation/dispatch/dispatch_source_type_memorypressure>) wakes
//! a thread, which reads the level. `pressure_poll` decides when it reads without a notification.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use block2::RcBlock;
use dispatch2::{
    _dispatch_source_type_memorypressure, DispatchObject, DispatchQueue, DispatchRetained,
    DispatchSource, dispatch_source_memorypressure_flags_t as Flags,
};

use super::{swap, sysctl};
use crate::apple::memory_pressure;
use crate::pressure_poll::PressurePoll;
use crate::shared_signals::SharedSignals;
use crate::signal::MemoryPressure;

/// An event that wakes the thread.
enum Wake {
    /// The system notified of a change to this level.
    Notification(MemoryPressure),
    /// Turns polling on or off.
    Polling(bool),
    /// Another process was notified of a change.
    Refresh,
}

/// The running watch. Dropping it ends the thread.
pub(super) struct MemoryWatch {
    #[expect(dead_code, reason = "its drop ends the notifications")]
    listener: PressureListener,
    wake: Sender<Wake>,
    thread: Result<(), String>,
}

impl MemoryWatch {
    pub(super) fn start(shared: &Arc<SharedSignals>) -> Self {
        let current = level().unwrap_or_default();
        shared.update(|signals| signals.memory = current);
        let (wake, wakes) = channel();
        let thread = {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name("memory-pressure".to_owned());
            thread.spawn(move || run_thread(&wakes, &shared))
        };
        let send = wake.clone();
        // Fails only if the thread has ended.
        let listener =
            PressureListener::start(move |level| drop(send.send(Wake::Notification(level))));
        // There was no notification of changes before the source was active.
        let _ = wake.send(Wake::Notification(current));
        Self {
            listener,
            wake,
            thread: thread
                .map(drop)
                .map_err(|error| format!("not watched: could not start a thread ({error})")),
        }
    }

    /// See [`crate::SignalSource::set_polling`].
    pub(super) fn set_polling(&self, is_polling: bool) {
        let _ = self.wake.send(Wake::Polling(is_polling));
    }

    /// See [`crate::SignalSource::refresh`].
    pub(super) fn refresh(&self) {
        let _ = self.wake.send(Wake::Refresh);
    }

    /// Returns the reason if memory pressure is not watched.
    pub(super) fn is_running(&self) -> Result<(), String> {
        self.thread.clone()
    }
}

/// Listens to the notifications of the system to this process, until it is dropped.
pub(crate) struct PressureListener {
    source: DispatchRetained<DispatchSource>,
}

impl PressureListener {
    /// Calls `on_level` with the level of each notification, on its own queue.
    #[expect(unsafe_code, reason = "dispatch sources have no safe form")]
    pub(crate) fn start(on_level: impl Fn(MemoryPressure) + Send + 'static) -> Self {
        let queue = DispatchQueue::new("transom.memory-pressure", None);
        let mask = Flags::DISPATCH_MEMORYPRESSURE_NORMAL.0
            | Flags::DISPATCH_MEMORYPRESSURE_WARN.0
            | Flags::DISPATCH_MEMORYPRESSURE_CRITICAL.0;
        // SAFETY: the type is the system's own, which takes no handle and this mask.
        let source = unsafe {
            DispatchSource::new(
                &raw const _dispatch_source_type_memorypressure as *mut _,
                0,
                mask as usize,
                Some(&queue),
            )
        };
        let read = source.clone();
        let handler = RcBlock::new(move || on_level(memory_pressure(read.data() as u64)));
        // SAFETY: the source copies the block, which owns all that it uses and may be called from
        // any thread; the queue calls it once at a time.
        unsafe { source.set_event_handler_with_block(RcBlock::as_ptr(&handler)) };
        source.activate();
        Self { source }
    }
}

impl Drop for PressureListener {
    fn drop(&mut self) {
        self.source.cancel();
    }
}

/// Reads the level of the whole system, which any process may do.
fn level() -> Option<MemoryPressure> {
    sysctl::number("kern.memorystatus_vm_pressure_level").map(memory_pressure)
}

fn run_thread(wakes: &Receiver<Wake>, shared: &SharedSignals) {
    let began = Instant::now();
    let mut poll = PressurePoll::default();
    loop {
        let wake = match poll.next_read() {
            Some(wait) => wakes.recv_timeout(wait),
            None => wakes.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let notified_level = match wake {
            Ok(Wake::Notification(level)) => Some(level),
            Ok(Wake::Polling(is_polling)) => {
                poll.set_polling(is_polling);
                None
            }
            Ok(Wake::Refresh) | Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        shared.update(|signals| {
            let level = level().or(notified_level).unwrap_or(signals.memory);
            signals.memory = level;
            signals.is_thrashing = poll.update(level, swap::swapped_out_bytes, began.elapsed());
        });
    }
}

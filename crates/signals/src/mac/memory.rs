//! Memory pressure and swap. The system's dispatch source
//! (<https://developer.apple.com/documentation/dispatch/dispatch_source_type_memorypressure>) wakes
//! a thread, which reads the level itself; `pressure_poll` says when it reads without a notice.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use block2::RcBlock;
use dispatch2::{
    _dispatch_source_type_memorypressure, DispatchObject, DispatchQueue, DispatchRetained,
    DispatchSource, dispatch_source_memorypressure_flags_t as Flags,
};

use super::sysctl;
use crate::apple::memory_pressure;
use crate::board::Board;
use crate::pressure_poll::PressurePoll;
use crate::signal::MemoryPressure;

/// What wakes the thread.
enum Wake {
    /// The system noticed a change to this level.
    Notice(MemoryPressure),
    /// A model came into memory (true), or the last one left (false).
    Watchful(bool),
    /// Another process was told of a change.
    LookAgain,
}

/// The running watch. Dropping it ends the thread.
pub(super) struct MemoryWatch {
    #[expect(dead_code, reason = "its drop ends the notices")]
    notices: Notices,
    wake: Sender<Wake>,
    thread: Result<(), String>,
}

impl MemoryWatch {
    pub(super) fn start(board: &Arc<Board>) -> Self {
        let present = level().unwrap_or_default();
        board.update(|signals| signals.memory = present);
        let (wake, wakes) = channel();
        let thread = {
            let board = board.clone();
            let thread = std::thread::Builder::new().name("memory-pressure".to_owned());
            thread.spawn(move || follow(&wakes, &board))
        };
        let notice = wake.clone();
        // If the thread has ended, nobody needs the notice.
        let notices = Notices::listen(move |level| drop(notice.send(Wake::Notice(level))));
        // A change before the source was active brought no notice.
        let _ = wake.send(Wake::Notice(present));
        Self {
            notices,
            wake,
            thread: thread
                .map(drop)
                .map_err(|error| format!("not watched: no thread could be started ({error})")),
        }
    }

    /// See [`crate::SignalSource::set_watchful`].
    pub(super) fn set_watchful(&self, is_watchful: bool) {
        let _ = self.wake.send(Wake::Watchful(is_watchful));
    }

    /// See [`crate::SignalSource::look_again`].
    pub(super) fn look_again(&self) {
        let _ = self.wake.send(Wake::LookAgain);
    }

    /// Fails with the reason if nothing is watched.
    pub(super) fn is_running(&self) -> Result<(), String> {
        self.thread.clone()
    }
}

/// The system's notices to this process. Dropping it ends them.
pub(crate) struct Notices {
    source: DispatchRetained<DispatchSource>,
}

impl Notices {
    /// Calls `on_level` with the level of each notice, on a queue of its own.
    #[expect(unsafe_code, reason = "dispatch sources have no safe form")]
    pub(crate) fn listen(on_level: impl Fn(MemoryPressure) + Send + 'static) -> Self {
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

impl Drop for Notices {
    fn drop(&mut self) {
        self.source.cancel();
    }
}

/// The level of the whole system, which any process may read.
fn level() -> Option<MemoryPressure> {
    sysctl::number("kern.memorystatus_vm_pressure_level").map(memory_pressure)
}

fn follow(wakes: &Receiver<Wake>, board: &Board) {
    let began = Instant::now();
    let mut poll = PressurePoll::default();
    loop {
        let wake = match poll.next_look() {
            Some(wait) => wakes.recv_timeout(wait),
            None => wakes.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let noticed = match wake {
            Ok(Wake::Notice(level)) => Some(level),
            Ok(Wake::Watchful(is_watchful)) => {
                poll.set_watchful(is_watchful);
                None
            }
            Ok(Wake::LookAgain) | Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        board.update(|signals| {
            let level = level().or(noticed).unwrap_or(signals.memory);
            signals.memory = level;
            signals.is_thrashing = poll.look(level, sysctl::swap_used_bytes, began.elapsed());
        });
    }
}

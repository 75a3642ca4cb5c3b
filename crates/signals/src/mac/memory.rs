//! Memory pressure from the dispatch source that the system itself uses
//! (<https://developer.apple.com/documentation/dispatch/dispatch_source_type_memorypressure>), and
//! swap while there is pressure.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use block2::RcBlock;
use dispatch2::{
    _dispatch_source_type_memorypressure, DispatchObject, DispatchQueue, DispatchRetained,
    DispatchSource, dispatch_source_memorypressure_flags_t as Flags,
};

use super::sysctl;
use crate::apple::memory_pressure;
use crate::board::Board;
use crate::growth::GrowthMeter;
use crate::signal::MemoryPressure;

/// Time between two looks at swap.
const TICK: Duration = Duration::from_secs(2);

/// The running watch.
pub(super) struct MemoryWatch {
    source: DispatchRetained<DispatchSource>,
}

impl MemoryWatch {
    #[expect(unsafe_code, reason = "dispatch sources have no safe form")]
    pub(super) fn start(board: &Arc<Board>) -> Self {
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
        let levels = watch_swap(board);
        // The source speaks of changes only.
        let present = sysctl::number("kern.memorystatus_vm_pressure_level");
        let present = memory_pressure(present.unwrap_or(0));
        board.update(|signals| signals.memory = present);
        let _ = levels.send(present);
        let board = board.clone();
        let read = source.clone();
        let handler = RcBlock::new(move || {
            let level = memory_pressure(read.data() as u64);
            board.update(|signals| signals.memory = level);
            // Where the thread could not be started, swap counts as steady.
            let _ = levels.send(level);
        });
        // SAFETY: the source copies the block, which owns all that it uses and may be called from
        // any thread.
        unsafe { source.set_event_handler_with_block(RcBlock::as_ptr(&handler)) };
        source.activate();
        Self { source }
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.source.cancel();
    }
}

/// A thread that sleeps until there is pressure, and then looks at swap until there is none.
fn watch_swap(board: &Arc<Board>) -> Sender<MemoryPressure> {
    let (send, levels) = channel();
    let board = board.clone();
    let spawned = std::thread::Builder::new()
        .name("swap".to_owned())
        .spawn(move || follow_swap(&levels, &board));
    if let Err(error) = spawned {
        tracing::warn!(%error, "swap is not watched");
    }
    send
}

fn follow_swap(levels: &Receiver<MemoryPressure>, board: &Board) {
    let began = Instant::now();
    let mut meter = GrowthMeter::default();
    let mut level = MemoryPressure::Normal;
    loop {
        let heard = if level == MemoryPressure::Normal {
            levels.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            levels.recv_timeout(TICK)
        };
        match heard {
            Ok(new) => level = new,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let is_thrashing = if level == MemoryPressure::Normal {
            meter.clear();
            false
        } else {
            let used = sysctl::swap_used_bytes();
            used.is_some_and(|bytes| meter.is_thrashing(bytes, began.elapsed()))
        };
        board.update(|signals| signals.is_thrashing = is_thrashing);
    }
}

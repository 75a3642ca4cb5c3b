//! A limit on the memory that chat templates take, which come with the model and are not trusted.
//!
//! Nothing can stop a template within a step, so the whole process ends. Its last line on standard
//! error says why.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use transom_signals::own_footprint_bytes;

use crate::child::print_error;

/// Exit code after a template took too much memory.
const EXIT_TEMPLATE: i32 = 5;

/// How much the footprint of the process may grow while a template runs. A conversation that fills
/// the longest context takes a few hundred megabytes.
const MAX_GROWTH_BYTES: u64 = 1 << 30;

/// Time between two measurements. A template writes about 100 MB in this time.
const INTERVAL: Duration = Duration::from_millis(20);

/// Limits all templates of this process.
pub(super) fn limit() {
    transom_engine::set_memory_watch(|| Box::new(start()));
}

/// Starts a thread that ends the process if it grows too much before the sender is dropped. `None`
/// if the system reports no footprint or starts no thread.
fn start() -> Option<Sender<()>> {
    let before = own_footprint_bytes()?;
    let (sender, is_over) = mpsc::channel();
    let watch = move || {
        while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if own_footprint_bytes().is_some_and(|now| now > before + MAX_GROWTH_BYTES) {
                print_error(&format!(
                    "ERROR the chat template of the model took more than {} MB of memory",
                    MAX_GROWTH_BYTES >> 20
                ));
                // The engine thread is still running, so nothing may be freed.
                signal_hook::low_level::exit(EXIT_TEMPLATE);
            }
        }
    };
    let thread = thread::Builder::new().name("template memory".to_owned());
    match thread.spawn(watch) {
        Ok(_) => Some(sender),
        Err(error) => {
            tracing::warn!(%error, "the memory of the chat template is not limited");
            None
        }
    }
}

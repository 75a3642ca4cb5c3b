//! The child's log: plain lines on standard error, which the parent reads and passes on.

use tracing_subscriber::EnvFilter;

/// Says which messages are wanted, as for the command line. The parent sets it for its children.
pub(crate) const FILTER_VARIABLE: &str = "TRANSOM_LOG";

/// Starts the log, unless the process has one. Panics become lines of it, with their place in the
/// code and no message but a literal: a formatted one may quote what was asked or answered.
pub(super) fn start() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let message = panic.payload().downcast_ref::<&str>().unwrap_or(&"");
        tracing::error!("panicked at {place}: {message}");
    }));
    let wanted = std::env::var(FILTER_VARIABLE).ok();
    let filter = wanted.and_then(|filter| EnvFilter::builder().parse(filter).ok());
    // Fails only when the process has a subscriber already, which then stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("warn")))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .try_init();
}

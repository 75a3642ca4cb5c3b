//! The log of the child: plain lines on standard error, which the parent copies to its own log.

use tracing_subscriber::EnvFilter;

/// The variable with the log filter, as for the command line. The parent sets it for its children.
pub(crate) const FILTER_VARIABLE: &str = "TRANSOM_LOG";

/// Starts the log, unless the process has one. A panic becomes a line with its location. The line
/// has the message only if that is a literal, because a formatted one may quote a prompt or a
/// response.
pub(super) fn start() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let message = panic.payload().downcast_ref::<&str>().unwrap_or(&"");
        tracing::error!("panicked at {location}: {message}");
    }));
    let filter = std::env::var(FILTER_VARIABLE).ok();
    let filter = filter.and_then(|filter| EnvFilter::builder().parse(filter).ok());
    // Fails only if the process has a subscriber already, which then stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("warn")))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .try_init();
}

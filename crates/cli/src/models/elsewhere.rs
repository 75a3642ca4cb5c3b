//! The hub, for commands that know nothing of async.
//!
//! Rule: Ctrl-C ends every wait for the network.

use std::future::Future;

use tokio::sync::oneshot;
use transom_hub::{Hub, HubError, HubOptions, hub_settings};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;

/// How to reach the hub that the environment names, else the one that was chosen in the app.
pub(super) fn options(link: &Link) -> Result<HubOptions, Failure> {
    Ok(hub_settings::options(link.folder()?)?)
}

/// The hub of these options.
pub(super) fn hub(link: &Link) -> Result<Hub, Failure> {
    Ok(Hub::new(options(link)?)?)
}

/// The hub's name for people: its address without the scheme.
pub(super) fn name_of(hub: &Hub) -> &str {
    let endpoint = hub.endpoint();
    endpoint
        .split_once("://")
        .map_or(endpoint, |(_, host)| host)
}

/// Waits for `asking`, or for Ctrl-C.
pub(super) fn wait<T>(
    asking: impl Future<Output = Result<T, HubError>>,
    link: &Link,
    interrupt: &Interrupt,
) -> Result<T, Failure> {
    let (sender, pressed) = oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let _watch = interrupt.watch(move || {
        let mut sender = sender
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(sender) = sender.take() {
            // Nobody waits any more when the answer was quicker.
            let _ = sender.send(());
        }
    });
    link.runtime()?.block_on(async {
        tokio::select! {
            answer = asking => Ok(answer?),
            Ok(()) = pressed => Err(Failure::Interrupted),
        }
    })
}

//! Access to the hub, for commands that contain no async code.
//!
//! Rule: Ctrl-C ends every wait for the network.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Notify;
use transom_hub::{Hub, HubError, HubOptions, hub_settings};

use crate::{Client, Failure, Result};

/// Returns the options of the hub that the environment names, else of the one that was chosen in the
/// app.
pub(super) fn options(client: &Client) -> Result<HubOptions> {
    Ok(hub_settings::options(client.data_folder()?)?)
}

/// Returns the hub with these options.
pub(super) fn hub(client: &Client) -> Result<Hub> {
    Ok(Hub::new(options(client)?)?)
}

/// Returns the hub's name for people: its address without the scheme.
pub(super) fn name_of(hub: &Hub) -> &str {
    let endpoint = hub.endpoint();
    endpoint
        .split_once("://")
        .map_or(endpoint, |(_, host)| host)
}

/// Waits for a response of the hub, or for Ctrl-C.
pub(super) fn wait<T>(
    response: impl Future<Output = Result<T, HubError>>,
    client: &Client,
) -> Result<T> {
    let key = Arc::new(Notify::new());
    let pressed = key.clone();
    let _watch = client.interrupt.watch(move || pressed.notify_one());
    client.runtime()?.block_on(async {
        tokio::select! {
            response = response => Ok(response?),
            () = key.notified() => Err(Failure::Interrupted),
        }
    })
}

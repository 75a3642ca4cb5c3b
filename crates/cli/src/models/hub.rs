//! Access to the hub, for commands that contain no async code.
//!
//! Rule: Ctrl-C ends every wait for the network.

use transom_hub::{Hub, HubError, HubOptions, hub_settings};

use crate::{Client, Result};

/// Returns the options of the hub that the environment names, else of the one that was chosen in the
/// app.
pub(super) fn options(client: &Client) -> Result<HubOptions> {
    Ok(hub_settings::options(client.data_folder()?)?)
}

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
    client.wait(async { Ok(response.await?) })
}

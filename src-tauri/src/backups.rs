//! Backs up the history every day, also while the app runs for weeks.

use std::time::Duration;

use tokio::task::JoinHandle;
use transom_store::Store;

use crate::backend::now;

/// Time between two checks whether a backup is due. The first check is at startup.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// The task that makes backups. Dropping it ends the task.
pub(crate) struct Backups(JoinHandle<()>);

impl Backups {
    /// Starts the backups of `store`.
    pub(crate) fn start(store: Store) -> Self {
        Self(tokio::spawn(async move {
            let mut hours = tokio::time::interval(EVERY);
            hours.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                hours.tick().await;
                let store = store.clone();
                let made = tokio::task::spawn_blocking(move || store.back_up_if_due(now())).await;
                match made {
                    Ok(Ok(Some(_))) => tracing::info!("the history is backed up"),
                    Ok(Ok(None)) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "the history is not backed up"),
                    Err(error) => tracing::error!(%error, "the backup broke off"),
                }
            }
        }))
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        self.0.abort();
    }
}

//! Backs up the history every day, also while the app runs for weeks.

use std::time::Duration;

use transom_store::Store;

use crate::now;

/// Time between two checks whether a backup is due. The first check is at startup.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// Makes the backups of `store` while the app runs.
pub(crate) async fn back_up_daily(store: Store) {
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
            Err(_) => tracing::error!("the backup broke off"),
        }
    }
}

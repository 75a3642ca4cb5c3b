//! Records the time and memory of each response, to improve the next estimate for its model.
//!
//! Rule: recording costs the response nothing. If something can't be measured or written, it is
//! skipped and logged.

use std::sync::Arc;

use transom_chat::Update;
use transom_chat::turns::TurnOptions;
use transom_engine::Stats;
use transom_library::InstalledModel;
use transom_store::MessageId;

use crate::backend::Backend;
use crate::models;

/// Waits in a separate task for the end of a response of `model` and records it.
pub(crate) fn record_at_end(
    backend: Arc<Backend>,
    answer: MessageId,
    model: InstalledModel,
    options: TurnOptions,
) {
    let turns = backend.turns_of(answer.is_temporary());
    let mut updates = turns.follow(answer);
    tauri::async_runtime::spawn(async move {
        while let Some(update) = updates.next().await {
            if let Update::Ended { stats, .. } = update {
                if let Some(stats) = stats.and_then(|stats| stats.engine) {
                    record(backend, model, options, stats).await;
                }
                return;
            }
        }
    });
}

async fn record(backend: Arc<Backend>, model: InstalledModel, options: TurnOptions, stats: Stats) {
    let status = backend.handle().current_status().await;
    let mut loaded = status.models.iter();
    let Some(loaded) = loaded.find(|loaded| loaded.id == options.model.id).cloned() else {
        return;
    };
    let write = move || {
        let settings = models::load_settings(&options.settings);
        if let Some(usage) = backend.library().usage(&model, &settings, &loaded) {
            usage.record(&stats);
        }
    };
    if tauri::async_runtime::spawn_blocking(write).await.is_err() {
        tracing::info!("the usage of a response could not be recorded");
    }
}

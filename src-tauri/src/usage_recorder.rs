//! Records the time and memory of each response, to improve the next estimate for its model.
//!
//! Rule: recording costs the response nothing. If something can't be measured or written, it is
//! skipped and logged.

use std::sync::Arc;

use transom_chat::Update;
use transom_chat::turns::{StartedTurn, TurnOptions};
use transom_engine::Stats;
use transom_library::InstalledModel;
use transom_library::LoadSettings;

use crate::backend::Backend;
use crate::models::{self, PreparedRequest};

/// Records one response when it ends.
pub(crate) struct UsageRecorder {
    backend: Arc<Backend>,
    model: InstalledModel,
    /// The model's id.
    id: String,
    settings: LoadSettings,
}

/// Splits a prepared request into the turn's options and the recorder of its response.
pub(crate) fn split(
    backend: &Arc<Backend>,
    request: PreparedRequest,
) -> (TurnOptions, UsageRecorder) {
    let recorder = UsageRecorder {
        backend: backend.clone(),
        settings: models::load_settings(&request.options.settings),
        id: request.options.model.id.clone(),
        model: request.model,
    };
    (request.options, recorder)
}

impl UsageRecorder {
    /// Waits for the end of this response in a separate task.
    pub(crate) fn follow(self, started: StartedTurn) -> StartedTurn {
        let turns = self.backend.turns_of(started.answer.is_temporary());
        let mut updates = turns.follow(started.answer);
        tauri::async_runtime::spawn(async move {
            while let Some(update) = updates.next().await {
                if let Update::Ended { stats, .. } = update {
                    if let Some(stats) = stats.and_then(|stats| stats.engine) {
                        self.record(stats).await;
                    }
                    return;
                }
            }
        });
        started
    }

    async fn record(self, stats: Stats) {
        let status = self.backend.handle().current_status().await.clone();
        let mut loaded = status.models.iter();
        let Some(loaded) = loaded.find(|loaded| loaded.id == self.id).cloned() else {
            return;
        };
        let write = move || {
            let usage = self
                .backend
                .library()
                .usage(&self.model, &self.settings, &loaded);
            if let Some(usage) = usage {
                usage.record(&stats);
            }
        };
        if tauri::async_runtime::spawn_blocking(write).await.is_err() {
            tracing::info!("the usage of a response could not be recorded");
        }
    }
}

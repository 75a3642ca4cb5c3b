//! What an answer took is written down, so that the next estimate for its model is closer.
//!
//! Rule: it costs an answer nothing. What can't be measured or written is left out, and only the log
//! says so.

use std::sync::Arc;

use transom_chat::Update;
use transom_chat::turns::{Asking, Begun};
use transom_engine::Stats;
use transom_library::InstalledModel;
use transom_library::LoadSettings;

use crate::models::{self, Asked};
use crate::rooms::Rooms;

/// An answer that is to be measured.
pub(crate) struct Measuring {
    rooms: Arc<Rooms>,
    model: InstalledModel,
    /// The model's id.
    id: String,
    settings: LoadSettings,
}

/// Separates the request from what is needed to measure its answer.
pub(crate) fn of(rooms: &Arc<Rooms>, asked: Asked) -> (Asking, Measuring) {
    let measuring = Measuring {
        rooms: rooms.clone(),
        settings: models::load_settings(&asked.asking.settings),
        id: asked.asking.model.id.clone(),
        model: asked.model,
    };
    (asked.asking, measuring)
}

impl Measuring {
    /// Waits for the end of this answer, in a task of its own.
    pub(crate) fn follow(self, begun: Begun) -> Begun {
        let mut updates = self.rooms.turns.follow(begun.answer);
        tauri::async_runtime::spawn(async move {
            while let Some(update) = updates.next().await {
                if let Update::Ended { stats, .. } = update {
                    if let Some(stats) = stats.and_then(|stats| stats.of_engine) {
                        self.ended(stats).await;
                    }
                    return;
                }
            }
        });
        begun
    }

    async fn ended(self, stats: Stats) {
        let status = self.rooms.handle().current_status().await.clone();
        let mut loaded = status.models.iter();
        let Some(loaded) = loaded.find(|loaded| loaded.id == self.id).cloned() else {
            return;
        };
        let write = move || {
            let usage = self
                .rooms
                .library()
                .usage(&self.model, &self.settings, &loaded);
            if let Some(usage) = usage {
                usage.record(&stats);
            }
        };
        if tauri::async_runtime::spawn_blocking(write).await.is_err() {
            tracing::info!("what the answer took is not written down");
        }
    }
}

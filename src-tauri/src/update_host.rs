//! Updates in the running app: when it checks, and how its engines stop.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tauri::{AppHandle, Manager};
use transom_supervisor::Status;

use crate::backend::Backend;
use crate::quit;
use crate::shell::Shell;
use crate::updates::Host;
use crate::wire::{AppEvent, UpdatesView, fields_of};

/// Checks for updates while the settings say so. Never ends, unless this copy does not update itself.
pub(crate) async fn check_regularly(app: AppHandle) {
    let shell = app.state::<Shell>();
    if shell.updates.is_refused() {
        return;
    }
    let is_on = || shell.general().check_for_updates;
    let (mut last, mut announced) = (None, None);
    loop {
        last = Some(shell.updates.until_due(is_on, last).await);
        let Some(version) = shell.updates.check(&app).await else {
            continue;
        };
        // Once, not every day.
        if announced.as_ref() != Some(&version) {
            tracing::info!(version, "a newer version can be downloaded");
            shell.notice(AppEvent::Notice {
                code: "update_available".to_owned(),
                detail: String::new(),
                values: fields_of(&json!({ "version": version })),
            });
            announced = Some(version);
        }
    }
}

/// Installs the downloaded version and starts the app again.
pub(crate) async fn install(app: &AppHandle) {
    let shell = app.state::<Shell>();
    if !shell.updates.install(app).await {
        return;
    }
    tracing::info!("an update is installed");
    quit::restart(app);
}

impl Host for AppHandle {
    type Runtime = tauri::Wry;

    fn app(&self) -> &Self {
        self
    }

    fn publish(&self, view: UpdatesView) {
        let updates = Box::new(view);
        self.state::<Shell>().send(&AppEvent::Updates { updates });
    }

    fn free_bytes(&self, folder: &Path) -> Option<u64> {
        transom_signals::free_disk_bytes(folder).ok()
    }

    fn is_paused(&self) -> bool {
        let backend = self.state::<Shell>().backend_if_open();
        backend.is_some_and(|backend| backend.handle().status().borrow().is_paused)
    }

    fn set_paused(&self, is_paused: bool) {
        if let Some(backend) = self.state::<Shell>().backend_if_open() {
            backend.handle().set_paused(is_paused);
        }
    }

    fn leave(&self, was_paused: bool) {
        let backend = self.state::<Shell>().backend_if_open();
        if let Some(backend) = backend.filter(|backend| backend.is_client()) {
            backend.handle().set_paused(was_paused);
        }
    }

    async fn until_idle(&self) {
        let Some(backend) = self.state::<Shell>().backend_if_open() else {
            return;
        };
        until_stored(&backend).await;
        // Without a supervisor there are no requests.
        let _ = backend.handle().status().wait_for(|now| is_idle(now)).await;
    }

    async fn until_unloaded(&self) -> bool {
        let Some(backend) = self.state::<Shell>().backend_if_open() else {
            return true;
        };
        let mut status = backend.handle().status();
        let decided = status.wait_for(|now| is_unloaded(now).is_some()).await;
        decided.map_or(true, |now| is_unloaded(&now).unwrap_or(true))
    }
}

/// Waits until the responses of the app have ended and are stored.
async fn until_stored(backend: &Arc<Backend>) {
    for is_temporary in [false, true] {
        let turns = backend.turns_of(is_temporary);
        for answer in turns.running() {
            let mut updates = turns.follow(answer);
            while updates.next().await.is_some() {}
        }
    }
}

/// Returns true if no program waits for a response.
fn is_idle(status: &Status) -> bool {
    status.running.is_empty() && status.queue.is_empty()
}

/// Returns true if a paused supervisor has no engine left, and false if a request came first. `None`
/// if neither is so yet.
fn is_unloaded(status: &Status) -> Option<bool> {
    match is_idle(status) {
        false => Some(false),
        true => (status.is_paused && status.models.is_empty()).then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn status(is_paused: bool, running: Value, queue: Value, models: Value) -> Status {
        crate::status_view::tests::status(json!({
            "is_paused": is_paused, "running": running, "queue": queue, "models": models
        }))
    }

    fn request(state: Value) -> Value {
        json!([{
            "request_id": 1, "model": "Qwen3", "client": "cli", "class": "interactive",
            "state": state
        }])
    }

    fn model() -> Value {
        json!([{
            "id": "qwen3", "name": "Qwen3", "role": "chat", "phase": { "phase": "ready" },
            "info": null, "need": null, "memory": null, "footprint_bytes": null,
            "load_time_seconds": null, "passed_over": [], "restored_tokens": 0, "saved_tokens": 0,
            "n_answered": 0,
            "unloads_in_seconds": null
        }])
    }

    #[test]
    fn a_running_or_queued_request_of_any_program_comes_first() {
        let none = || json!([]);
        let running =
            request(json!({ "state": "generating", "tokens": 5, "tokens_per_second": 9.0 }));
        let queued = request(json!({ "state": "queued" }));
        for (running, queue) in [(running, none()), (none(), queued)] {
            let status = status(true, running, queue, none());
            assert!(!is_idle(&status));
            assert_eq!(is_unloaded(&status), Some(false));
        }
    }

    #[test]
    fn engines_are_gone_only_after_the_pause_has_unloaded_all_models() {
        let none = || json!([]);
        let pausing = status(false, none(), none(), none());
        assert!(is_idle(&pausing));
        assert_eq!(is_unloaded(&pausing), None);
        assert_eq!(is_unloaded(&status(true, none(), none(), model())), None);
        let gone = status(true, none(), none(), none());
        assert_eq!(is_unloaded(&gone), Some(true));
    }
}

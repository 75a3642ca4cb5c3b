//! What the settings window shows of the local API, computed from the keys, the server's records and
//! the supervisor's status.

use transom_server::{Activity, BindError, KeyError, NamedKey, key_of_client};
use transom_supervisor::status::{RequestState, RequestStatus};
use transom_supervisor::{Status, Tuning};

use crate::wire::{ApiClientView, ApiStateView, ApiWork, LocalApiView};

/// Returns the view.
pub(super) fn of(
    state: ApiStateView,
    keys: Result<Vec<NamedKey>, KeyError>,
    activity: Activity,
    status: &Status,
) -> LocalApiView {
    let (keys, keys_problem) = match keys {
        Ok(keys) => (keys, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let mut clients: Vec<ApiClientView> = keys
        .iter()
        .map(|key| ApiClientView {
            created_at: Some(key.created * 1000),
            ..client(&key.name)
        })
        .collect();
    let find = |clients: &mut Vec<ApiClientView>, name: &str| {
        let at = clients.iter().position(|client| client.name == name);
        at.unwrap_or_else(|| {
            clients.push(client(name));
            clients.len() - 1
        })
    };
    for used in &activity.keys {
        let is_stored = keys.iter().any(|key| key.name == used.name);
        // A revoked key is over, unless a request of it still runs.
        if is_stored {
            let at = find(&mut clients, &used.name);
            clients[at].requests = used.requests;
            clients[at].tokens = used.tokens;
            clients[at].last_used_at = Some(used.last_used_at);
        }
    }
    // The running request is the most important one of its client.
    for request in status.running.iter().chain(&status.queue) {
        if let Some(name) = key_of_client(&request.client) {
            let at = find(&mut clients, &name);
            clients[at].work.get_or_insert_with(|| work(request));
        }
    }
    let Tuning {
        queue_limit,
        client_queue_limit,
        ..
    } = Tuning::default();
    LocalApiView {
        state,
        clients,
        keys_problem,
        requests: activity.requests,
        max_queued: queue_limit,
        max_queued_per_key: client_queue_limit,
    }
}

/// Returns the state after the server could not start.
pub(super) fn of_error(error: &BindError) -> ApiStateView {
    match error {
        BindError::PortTaken { port } => ApiStateView::PortTaken {
            port: *port,
            is_ollama: false,
        },
        BindError::OllamaPortTaken { port } => ApiStateView::PortTaken {
            port: *port,
            is_ollama: true,
        },
        BindError::AlreadyServed { port } => ApiStateView::AlreadyServed { port: *port },
        BindError::Io { port, source } => ApiStateView::Failed {
            port: *port,
            reason: source.to_string(),
        },
    }
}

fn client(name: &str) -> ApiClientView {
    ApiClientView {
        name: name.to_owned(),
        created_at: None,
        work: None,
        requests: 0,
        tokens: 0,
        last_used_at: None,
    }
}

fn work(request: &RequestStatus) -> ApiWork {
    let model = request.model.clone();
    match request.state {
        RequestState::Queued => ApiWork::Queued { model },
        RequestState::Prefill { .. } => ApiWork::Prefill { model },
        RequestState::Generating { tokens, .. } => ApiWork::Generating { model, tokens },
        RequestState::Stopping => ApiWork::Generating { model, tokens: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use transom_server::KeyUse;

    fn status(running: Value, queue: Value) -> Status {
        crate::status_view::tests::status(json!({ "running": running, "queue": queue }))
    }

    fn request(id: u64, client: &str, state: Value) -> Value {
        json!({
            "request_id": id, "model": "Qwen3", "client": client, "class": "background",
            "state": state
        })
    }

    fn key(name: &str) -> NamedKey {
        serde_json::from_value(json!({ "name": name, "created": 7, "sha256": "" })).unwrap()
    }

    #[test]
    fn a_client_has_its_key_its_use_and_its_most_important_request() {
        let generating = json!({ "state": "generating", "tokens": 5, "tokens_per_second": 9.0 });
        let queued = json!({ "state": "queued" });
        let status = status(
            json!([request(1, "api:zed", generating)]),
            json!([
                request(2, "api:zed", queued.clone()),
                request(3, "api:local", queued.clone()),
                request(4, "cli", queued)
            ]),
        );
        let used = |name: &str| KeyUse {
            name: name.to_owned(),
            requests: 3,
            tokens: 40,
            last_used_at: 9,
        };
        let activity = Activity {
            keys: vec![used("revoked"), used("zed")],
            ..Activity::default()
        };
        let keys = Ok(vec![key("script"), key("zed")]);
        let view = of(ApiStateView::Off, keys, activity, &status);
        let names: Vec<&str> = view.clients.iter().map(|client| &*client.name).collect();
        // Neither a revoked key nor a program of another kind.
        assert_eq!(names, ["script", "zed", "local"]);
        let [script, zed, local] = &*view.clients else {
            panic!("three clients");
        };
        assert_eq!(script.created_at, Some(7000));
        assert_eq!((script.requests, script.last_used_at), (0, None));
        assert_eq!((zed.tokens, zed.last_used_at), (40, Some(9)));
        let model = "Qwen3".to_owned();
        let generating = ApiWork::Generating {
            model: model.clone(),
            tokens: 5,
        };
        assert_eq!(zed.work, Some(generating));
        assert_eq!(local.work, Some(ApiWork::Queued { model }));
        assert_eq!(local.created_at, None);
        assert_eq!((view.max_queued, view.max_queued_per_key), (16, 8));
    }

    #[test]
    fn damaged_keys_are_reported() {
        let error = KeyError::Unknown("zed".to_owned());
        let status = status(json!([]), json!([]));
        let view = of(ApiStateView::Off, Err(error), Activity::default(), &status);
        assert_eq!(view.keys_problem.as_deref(), Some("no key is called zed"));
    }

    #[test]
    fn each_reason_not_to_listen_has_its_own_state() {
        let (port, is_ollama) = (11434, true);
        let taken = of_error(&BindError::OllamaPortTaken { port });
        assert_eq!(taken, ApiStateView::PortTaken { port, is_ollama });
        let served = of_error(&BindError::AlreadyServed { port });
        assert_eq!(served, ApiStateView::AlreadyServed { port });
        let source = std::io::ErrorKind::PermissionDenied.into();
        let failed = of_error(&BindError::Io { port, source });
        assert!(matches!(failed, ApiStateView::Failed { .. }));
    }
}

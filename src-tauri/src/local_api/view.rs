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

//! Requests that nobody waits for, such as those for summaries and titles, and the model that serves
//! them.
//!
//! Rule: such a request never delays a message. As soon as there is another request, it is canceled.

use tokio::sync::Notify;
use transom_engine::{SamplingParams, TokenEvent};
use transom_supervisor::status::PhaseStatus;
use transom_supervisor::{
    Handle, KvCacheChoice, ModelRequest, ModelRole, ModelSpec, Outcome, RequestError,
    ResponseEvent, Status,
};

use super::shared::Shared;

/// A smaller model writes worse titles than the first words of a question, and worse summaries than none.
const MIN_PARAMETERS: u64 = 400_000_000;

/// Sends a request, and returns its end. Cancels it when it is stopped, when `on_token` returns false, and
/// when another request waits for it or runs beside it.
pub(super) async fn send(
    handle: &Handle,
    request: ModelRequest,
    stop: &Notify,
    on_token: &mut (dyn FnMut(&TokenEvent) -> bool + Send),
) -> Outcome {
    let mut response = handle.submit(request);
    let (id, canceller) = (response.id(), response.cancel_handle());
    let mut status = handle.status();
    let mut has_begun = false;
    loop {
        tokio::select! {
            biased;
            () = stop.notified() => canceller.cancel(),
            event = response.next() => match event {
                Some(ResponseEvent::Ended { outcome }) => return outcome,
                Some(ResponseEvent::Token { event }) => {
                    has_begun = true;
                    if !on_token(&event) {
                        canceller.cancel();
                    }
                }
                Some(
                    ResponseEvent::Queued { .. }
                    | ResponseEvent::Loading { .. }
                    | ResponseEvent::Embedded { .. },
                ) => {}
                None => return Outcome::Failed { error: RequestError::Quitting },
            },
            Ok(()) = status.changed(), if has_begun => {}
        }
        let status = status.borrow_and_update().clone();
        let mut requests = status.queue.iter().chain(&status.running);
        if has_begun && requests.any(|other| other.request_id != id) {
            canceller.cancel();
        }
    }
}

impl Shared {
    /// Returns the smallest loaded model that can write summaries and titles, among those that responses
    /// were asked of, and its recommended sampling. A request takes it as it is loaded.
    pub(super) fn small_model(&self, status: &Status) -> Option<(ModelSpec, SamplingParams)> {
        let known = self.known_models.lock();
        let loaded = status.models.iter().filter(|model| {
            let is_loaded = matches!(
                model.phase,
                PhaseStatus::Ready | PhaseStatus::Generating { .. }
            );
            is_loaded && model.role == ModelRole::Chat
        });
        let able = loaded.filter_map(|model| {
            let info = model.info.as_ref()?;
            let is_able = info.has_chat_template && info.n_parameters >= MIN_PARAMETERS;
            Some((info, known.get(&model.id).filter(|_| is_able)?))
        });
        let (info, spec) = able.min_by_key(|(info, _)| info.n_parameters)?;
        let spec = ModelSpec {
            context_length: None,
            min_context_length: None,
            kv_cache: KvCacheChoice::Automatic,
            ..spec.clone()
        };
        Some((spec, info.recommended_sampling.clone()))
    }
}

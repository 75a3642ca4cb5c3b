//! `/api/…`: Ollama's protocol, for programs that know no other.
//!
//! Rule: models are managed in the app and with `transom models`, never over this protocol.

mod embed;
mod models;
mod reply;
mod request;
mod stream;

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{any, get, post};
use transom_supervisor::ModelSelector;
use transom_supervisor::status::PhaseStatus;

use super::json_response;
use crate::door::Caller;
use crate::error::{ApiError, ErrorKind};
use crate::generation::{Generation, Job};
use crate::json::Fields;
use crate::models::Model;
use crate::state::ServerState;
use crate::stream::respond;

use reply::Reply;
use request::{GenerateRequest, Route};
use stream::ReplyStream;

/// When a model that is in use may be idle.
const RETRY_UNLOAD: Duration = Duration::from_secs(5);

/// Returns the routes of Ollama's protocol.
pub(super) fn routes() -> Router {
    let mut routes = Router::new()
        .route("/api/version", get(models::version))
        .route("/api/tags", get(models::tags))
        .route("/api/ps", get(models::running))
        .route("/api/show", post(models::show))
        .route("/api/embed", post(embed::embed_texts))
        .route("/api/embeddings", post(embed::embed_prompt))
        .route("/api/chat", post(chat))
        .route("/api/generate", post(generate));
    for path in [
        "/api/pull",
        "/api/push",
        "/api/create",
        "/api/copy",
        "/api/delete",
        "/api/blobs/{digest}",
    ] {
        routes = routes.route(path, any(managed_elsewhere));
    }
    routes
}

/// `POST /api/chat`
async fn chat(caller: Caller, body: Fields) -> Result<Response, ApiError> {
    answer(caller, GenerateRequest::read(Route::Chat, body)?).await
}

/// `POST /api/generate`
async fn generate(caller: Caller, body: Fields) -> Result<Response, ApiError> {
    answer(caller, GenerateRequest::read(Route::Generate, body)?).await
}

async fn answer(caller: Caller, request: GenerateRequest) -> Result<Response, ApiError> {
    let model = find(&caller.state, &request).await?;
    let reply = Reply::new(request.route, &model.name);
    let is_load = request.prompt.is_none();
    // Without a prompt a request loads the model, or unloads it.
    if is_load && request.unloads() {
        unload(&caller.state, &model.spec.id).await?;
        return Ok(json_response(&reply.without_text("unload")));
    }
    let job = Job {
        model,
        prompts: request.prompt.into_iter().collect(),
        n: 1,
        params: request.params,
        truncation: request.truncation,
    };
    let mut generation = Generation::start(job, caller);
    if request.is_streamed && !is_load {
        return respond(generation, ReplyStream::new(reply)).await;
    }
    let collected = generation.collect().await?;
    if is_load {
        return Ok(json_response(&reply.without_text("load")));
    }
    let (choice, n_dropped) = (collected.only_choice()?, collected.dropped_messages);
    Ok(json_response(&reply.whole(choice, n_dropped)))
}

/// Finds the model, and checks what depends on it.
async fn find(state: &ServerState, request: &GenerateRequest) -> Result<Model, ApiError> {
    let model = state.find_model(&request.model, request.context_length);
    let model = model.await?;
    // Clients know these words.
    if request.think == Some(true) && !state.models.listed(&model.name).await?.may_reason() {
        let message = format!(
            "{:?} does not support thinking; leave out `think`",
            model.name
        );
        return Err(ApiError::field("think", message));
    }
    Ok(model)
}

/// Unloads the model with this id, if it is loaded.
///
/// # Errors
/// A request uses the model or waits, and must not lose it.
async fn unload(state: &ServerState, id: &str) -> Result<(), ApiError> {
    let supervisor = state.supervisor();
    let status = supervisor.current_status().await;
    let Some(model) = status.models.iter().find(|model| model.id == id) else {
        return Ok(());
    };
    if model.phase != PhaseStatus::Ready || !status.queue.is_empty() {
        let message = "the model is in use, so it stays loaded; try again later";
        return Err(ApiError::overloaded(message, Some(RETRY_UNLOAD)));
    }
    let unloaded = supervisor.unload(ModelSelector::Model(id.to_owned()));
    unloaded.await.map(drop).map_err(ApiError::from)
}

async fn managed_elsewhere() -> ApiError {
    let message = "models are downloaded and removed in Transom's settings and with `transom \
                   models`, not over this protocol";
    let (status, kind) = (StatusCode::NOT_IMPLEMENTED, ErrorKind::InvalidRequest);
    ApiError::new(status, kind, message)
}

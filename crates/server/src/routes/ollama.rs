//! `/api/…`: Ollama's protocol, for programs that know no other.
//!
//! Rule: models are managed in the app and with `transom models`, never over this protocol.

mod embed;
mod models;
mod reply;
mod request;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use transom_engine::Truncation;
use transom_library::LoadSettings;
use transom_supervisor::ModelSelector;
use transom_supervisor::status::PhaseStatus;

use super::{json_response, name_ignored};
use crate::door::Caller;
use crate::error::{ApiError, ErrorKind};
use crate::generation::{Generation, Job, Params};
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
pub(super) fn routes() -> Router<Arc<ServerState>> {
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
async fn chat(
    State(state): State<Arc<ServerState>>,
    Extension(caller): Extension<Caller>,
    body: Fields,
) -> Result<Response, ApiError> {
    let request = GenerateRequest::read(Route::Chat, body)?;
    answer(state, &caller, request).await
}

/// `POST /api/generate`
async fn generate(
    State(state): State<Arc<ServerState>>,
    Extension(caller): Extension<Caller>,
    body: Fields,
) -> Result<Response, ApiError> {
    let request = GenerateRequest::read(Route::Generate, body)?;
    answer(state, &caller, request).await
}

async fn answer(
    state: Arc<ServerState>,
    caller: &Caller,
    request: GenerateRequest,
) -> Result<Response, ApiError> {
    let model = find(&state, &request).await?;
    let reply = Reply::new(request.route, &model.name);
    let unloads = request.unloads();
    let Some(prompt) = request.prompt else {
        // Without a prompt a request loads the model, or unloads it.
        let reason = match unloads {
            true => {
                unload(&state, &model.spec.id).await?;
                "unload"
            }
            false => {
                load(state, caller, model, request.params).await?;
                "load"
            }
        };
        let response = json_response(&reply.without_text(reason));
        return Ok(name_ignored(response, &request.ignored));
    };
    let job = Job {
        model,
        prompts: vec![prompt],
        n: 1,
        params: request.params,
        truncation: request.truncation,
    };
    let mut generation = Generation::start(state, job, caller);
    let response = if request.is_streamed {
        respond(generation, ReplyStream::new(reply)).await?
    } else {
        let collected = generation.collect().await?;
        let choice = collected.choices.first();
        let choice = choice.ok_or_else(|| ApiError::internal("the response is missing"))?;
        let response = json_response(&reply.whole(choice, collected.dropped_messages));
        name_ignored(response, &generation.ignored_schemas())
    };
    Ok(name_ignored(response, &request.ignored))
}

/// Finds the model, and checks what depends on it.
async fn find(state: &ServerState, request: &GenerateRequest) -> Result<Model, ApiError> {
    let settings = LoadSettings {
        context_length: request.context_length,
        ..LoadSettings::default()
    };
    let model = state.find_model(&request.model, settings).await?;
    check_context(&model, request.context_length)?;
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

/// Checks that the model has the context that a request wants.
fn check_context(model: &Model, wanted: Option<usize>) -> Result<(), ApiError> {
    let facts = model.installed.facts.as_ref().ok();
    let longest = facts.and_then(|facts| facts.context_length);
    match (wanted, longest) {
        (Some(wanted), Some(longest)) if wanted as u64 > longest => {
            let message =
                format!("`options.num_ctx` is {wanted}, but the model's limit is {longest}");
            Err(ApiError::field("options.num_ctx", message))
        }
        _ => Ok(()),
    }
}

/// Loads the model.
async fn load(
    state: Arc<ServerState>,
    caller: &Caller,
    model: Model,
    params: Params,
) -> Result<(), ApiError> {
    let job = Job {
        model,
        prompts: Vec::new(),
        n: 1,
        params,
        truncation: Truncation::Disabled,
    };
    let mut generation = Generation::start(state, job, caller);
    generation.collect().await.map(drop)
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

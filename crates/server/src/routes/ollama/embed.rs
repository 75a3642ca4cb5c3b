//! `/api/embed` and the older `/api/embeddings`: the vectors of texts.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::time::Instant;
use transom_engine::EmbedInput;
use transom_library::LoadSettings;
use transom_supervisor::KeepAlive;

use super::request::TOLERATED_OPTIONS;
use crate::door::Caller;
use crate::embedding::{Dimensions, Side, cut};
use crate::error::ApiError;
use crate::generation::{Embedded, blame_input, embed};
use crate::json::{Fields, Ignored};
use crate::models::Model;
use crate::routes::embeddings::MAX_INPUTS;
use crate::routes::{json_response, keep_alive, name_ignored};
use crate::state::ServerState;

/// What both routes have in common.
struct EmbedRequest {
    model: String,
    texts: Vec<String>,
    /// The field of the texts.
    field: &'static str,
    is_list: bool,
    dimensions: Dimensions,
    side: Side,
    settings: LoadSettings,
    keep_alive: Option<KeepAlive>,
    ignored: Ignored,
}

/// `POST /api/embed`
pub(super) async fn embed_texts(
    State(state): State<Arc<ServerState>>,
    Extension(caller): Extension<Caller>,
    body: Fields,
) -> Result<Response, ApiError> {
    let began = Instant::now();
    let request = EmbedRequest::read(body, "input")?;
    let (model, embedded, ignored) = request.run(&state, &caller).await?;
    let response = json!({
        "model": model.name,
        "embeddings": embedded.vectors,
        "total_duration": u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        "load_duration": 0,
        "prompt_eval_count": embedded.n_tokens,
    });
    Ok(name_ignored(json_response(&response), &ignored))
}

/// `POST /api/embeddings`
pub(super) async fn embed_prompt(
    State(state): State<Arc<ServerState>>,
    Extension(caller): Extension<Caller>,
    body: Fields,
) -> Result<Response, ApiError> {
    let request = EmbedRequest::read(body, "prompt")?;
    let (_, embedded, ignored) = request.run(&state, &caller).await?;
    let first = embedded.vectors.first();
    let response = json!({ "embedding": first.map_or_else(|| json!([]), |vector| json!(vector)) });
    Ok(name_ignored(json_response(&response), &ignored))
}

impl EmbedRequest {
    /// Reads a body whose texts are in `field`.
    ///
    /// # Errors
    /// A field is missing, wrong, or not supported.
    fn read(mut body: Fields, field: &'static str) -> Result<Self, ApiError> {
        let mut ignored = Ignored::default();
        let model = body.required("model")?.text()?;
        let (mut texts, mut is_list) = (Vec::new(), false);
        if let Some(given) = body.take(field) {
            is_list = given.value.is_array();
            texts = match (field, &given.value) {
                ("input", _) => given.text_or_texts(MAX_INPUTS)?,
                (_, Value::String(_)) => vec![given.text()?],
                _ => return Err(given.must_be("a string")),
            };
        }
        if texts.len() == 1 && texts.first().is_some_and(String::is_empty) {
            // Clients load a model so.
            texts.clear();
        }
        if let Some(index) = texts.iter().position(String::is_empty) {
            let path = format!("{field}[{index}]");
            let message = format!("`{path}` must be a text that is not empty");
            return Err(ApiError::field(path, message));
        }
        // A text that is too long is an error in any case, and never cut in silence.
        body.flag("truncate")?;
        let mut settings = LoadSettings::default();
        if let Some(mut options) = body.object("options")? {
            options.tolerate(&TOLERATED_OPTIONS);
            settings.context_length = options.count("num_ctx", 1)?;
            options.finish(&mut ignored);
        }
        let request = Self {
            model,
            texts,
            field,
            is_list,
            dimensions: Dimensions::take(&mut body),
            side: Side::take(&mut body)?,
            settings,
            keep_alive: keep_alive::take(&mut body)?,
            ignored,
        };
        let mut request = request;
        body.finish(&mut request.ignored);
        Ok(request)
    }

    async fn run(
        mut self,
        state: &ServerState,
        caller: &Caller,
    ) -> Result<(Model, Embedded, Ignored), ApiError> {
        let wanted = self.settings.context_length;
        let models = &state.models;
        let model = models.find_embedder(&self.model, self.settings).await?;
        super::check_context(&model, wanted)?;
        let dimensions = self.dimensions.of(&model)?;
        let mut inputs: Vec<EmbedInput> = self.texts.into_iter().map(EmbedInput::Text).collect();
        self.side.add_prefix(&model, &mut inputs, &mut self.ignored);
        let embedded = embed(state, &model, inputs, caller.client(), self.keep_alive).await;
        let (field, is_list) = (self.field, self.is_list);
        let mut embedded = embedded.map_err(|error| blame_input(error, field, is_list))?;
        for vector in &mut embedded.vectors {
            cut(vector, dimensions);
        }
        Ok((model, embedded, self.ignored))
    }
}

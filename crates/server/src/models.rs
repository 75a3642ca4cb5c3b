//! The models that requests may name.
//!
//! Rule: a name is the name of an installed model, never a path or an address, and nothing is
//! downloaded because of a name. Names that this server gives out contain no path either.
//!
//! A name such as `transom/code` is that of a route instead. It names no model, so it takes one that is
//! loaded, else the default one.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use transom_engine::{Limits, ModelInfo, Prompt, Route};
use transom_library::{
    InstalledModel, Library, LoadSettings, always_reasons, default_thinking, has_reasoning_marks,
    is_path,
};
use transom_supervisor::status::PhaseStatus;
use transom_supervisor::{ModelRole, ModelSpec, Status};

use crate::error::ApiError;

/// Opens the library. Blocks on the disk.
pub type LibrarySource = Arc<dyn Fn() -> Library + Send + Sync>;

/// How long a snapshot of the library is used. A name that is not in it is looked up in a new one.
const SNAPSHOT_TIME: Duration = Duration::from_secs(5);

/// What some servers append to a name.
const LATEST: &str = ":latest";

/// What begins the name of a route.
const ROUTE: &str = "transom/";

/// Finds installed models by name.
pub(crate) struct Models {
    open: LibrarySource,
    snapshot: Mutex<Option<(Instant, Arc<Library>)>>,
}

/// A model that a request names, with what the supervisor needs to load it.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    /// The name that this server gives it.
    pub(crate) name: String,
    pub(crate) installed: InstalledModel,
    pub(crate) library: Arc<Library>,
    pub(crate) settings: LoadSettings,
    pub(crate) spec: ModelSpec,
    /// What the name asks for; [`Route::Chat`] for the name of a model.
    pub(crate) route: Route,
}

/// An installed model in a list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListedModel {
    /// The name for requests.
    pub(crate) name: String,
    /// The name for people.
    pub(crate) title: String,
    /// Id in the supervisor's status.
    pub(crate) id: String,
    /// When its files were written, in seconds since 1970.
    pub(crate) created: u64,
    pub(crate) size_bytes: u64,
    pub(crate) quantization: String,
    /// `gguf` or `safetensors`.
    pub(crate) format: &'static str,
    pub(crate) architecture: String,
    pub(crate) n_parameters: u64,
    /// The model's own limit.
    pub(crate) trained_context: Option<u64>,
    pub(crate) chat_template: Option<String>,
    /// Its chat template can switch reasoning on and off.
    pub(crate) can_reason: bool,
    /// It makes vectors and generates no text.
    pub(crate) is_embedder: bool,
    /// Numbers of its vectors, or of a token's state.
    pub(crate) hidden_size: Option<u64>,
}

impl ListedModel {
    /// Returns true if responses may begin with reasoning: its template can switch it, or writes the
    /// marks of a reasoning section.
    pub(crate) fn may_reason(&self) -> bool {
        self.can_reason || has_reasoning_marks(self.chat_template.as_deref().unwrap_or(""))
    }
}

impl Model {
    /// Adds the instructions of the route to a conversation. A prompt of text has no roles, and stays as it
    /// is.
    pub(crate) fn routed(&self, mut prompt: Prompt) -> Prompt {
        if let Prompt::Chat(chat) = &mut prompt {
            self.route.settings().apply(chat);
        }
        prompt
    }

    /// Checks that the model has the context that a request wants, which only Ollama's protocol can say.
    fn check_context(&self) -> Result<(), ApiError> {
        let facts = self.installed.facts.as_ref().ok();
        let longest = facts.and_then(|facts| facts.context_length);
        match (self.settings.context_length, longest) {
            (Some(wanted), Some(longest)) if wanted as u64 > longest => {
                let message =
                    format!("`options.num_ctx` is {wanted}, but the model's limit is {longest}");
                Err(ApiError::field("options.num_ctx", message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the temperature of the route for a prompt; `None` where the model reasons, because its
    /// authors recommend a temperature for reasoning.
    pub(crate) fn route_temperature(&self, prompt: &Prompt) -> Option<f32> {
        let settings = self.route.settings();
        let temperature = settings.temperature?;
        let reasons = match prompt {
            Prompt::Chat(chat) => {
                chat.enable_thinking.or(settings.thinking) == Some(true)
                    || self
                        .installed
                        .facts
                        .as_ref()
                        .is_ok_and(|facts| always_reasons(facts))
            }
            Prompt::Text(_) | Prompt::Tokens(_) | Prompt::FillIn(_) => false,
        };
        (!reasons).then_some(temperature)
    }
}

impl Models {
    pub(crate) fn new(open: LibrarySource) -> Self {
        Self {
            open,
            snapshot: Mutex::default(),
        }
    }

    /// Returns the model with this name that generates text, to be loaded with this context length. `loaded`
    /// is the id of a loaded model, which the name of a route takes.
    ///
    /// # Errors
    /// No installed model has this name, or it makes embedding vectors.
    pub(crate) async fn find(
        &self,
        name: &str,
        loaded: Option<&str>,
        context_length: Option<usize>,
    ) -> Result<Model, ApiError> {
        let model = match route_of(name) {
            None => self.find_any(name, context_length).await?,
            Some(route) => {
                let loaded = loaded.map(str::to_owned);
                let find = move |library: &Arc<Library>| {
                    // Its id is from the supervisor and may be a path, which the name of a client is not.
                    let is_loaded = |model: &&InstalledModel| {
                        loaded.as_ref() == Some(&library.id_of(model))
                            && public_name(library, model).is_some()
                    };
                    let model = library.installed().iter().find(is_loaded).cloned();
                    model.or_else(|| library.default_model())
                };
                let model = self.search(name, with_spec(find, context_length)).await?;
                Model { route, ..model }
            }
        };
        if model.library.is_embedder(&model.installed) {
            return Err(wrong_kind(format!(
                "{:?} makes embedding vectors and generates no text; use it with /v1/embeddings",
                model.name
            )));
        }
        model.check_context()?;
        Ok(model)
    }

    /// Returns the embedding model with this name, to be loaded with this context length.
    ///
    /// # Errors
    /// No installed model has this name, or it generates text.
    pub(crate) async fn find_embedder(
        &self,
        name: &str,
        context_length: Option<usize>,
    ) -> Result<Model, ApiError> {
        let model = self.find_any(name, context_length).await?;
        let library = &model.library;
        if library.is_embedder(&model.installed) {
            model.check_context()?;
            return Ok(model);
        }
        let other = library.first_embedder();
        let advice = match other.and_then(|other| public_name(library, other)) {
            Some(other) => format!("use {other:?}"),
            None => "`transom models install qwen3-embedding-0.6b` downloads one".to_owned(),
        };
        Err(wrong_kind(format!(
            "{:?} generates text and makes no embedding vectors; {advice}",
            model.name
        )))
    }

    /// Returns the model with this name, whatever it generates.
    ///
    /// # Errors
    /// No installed model has this name.
    pub(crate) async fn find_any(
        &self,
        name: &str,
        context_length: Option<usize>,
    ) -> Result<Model, ApiError> {
        let wanted = name.to_owned();
        let find = move |library: &Arc<Library>| named(library, &wanted).cloned();
        self.search(name, with_spec(find, context_length)).await
    }

    /// Returns the entry of the model with this name.
    ///
    /// # Errors
    /// No installed model has this name.
    pub(crate) async fn listed(&self, name: &str) -> Result<ListedModel, ApiError> {
        let wanted = name.to_owned();
        self.search(name, move |library| {
            listed(library, named(library, &wanted)?)
        })
        .await
    }

    /// Returns all installed models that can be named, the starter first.
    pub(crate) async fn list(&self) -> Result<Vec<ListedModel>, ApiError> {
        let library = self.library(true).await?;
        let listing = spawn_blocking(move || {
            let models = library.installed().iter();
            models.filter_map(|model| listed(&library, model)).collect()
        });
        listing.await.map_err(|_| broken())
    }

    async fn search<T: Send + 'static>(
        &self,
        name: &str,
        find: impl Fn(&Arc<Library>) -> Option<T> + Clone + Send + 'static,
    ) -> Result<T, ApiError> {
        for is_new in [false, true] {
            let library = self.library(is_new).await?;
            let find = find.clone();
            let found = spawn_blocking(move || find(&library)).await;
            if let Some(found) = found.map_err(|_| broken())? {
                return Ok(found);
            }
        }
        let shown: String = name.chars().take(100).collect();
        Err(ApiError::model_not_found(format!(
            "no installed model is called {shown:?}; GET /v1/models lists the installed ones"
        )))
    }

    /// Returns a recent snapshot of the library, or a new one.
    async fn library(&self, must_be_new: bool) -> Result<Arc<Library>, ApiError> {
        let now = Instant::now();
        let recent = self.snapshot.lock().clone();
        if let Some((taken, library)) = recent
            && !must_be_new
            && now.duration_since(taken) < SNAPSHOT_TIME
        {
            return Ok(library);
        }
        let open = self.open.clone();
        let opened = spawn_blocking(move || {
            let library = open();
            // Searches for the models.
            library.installed();
            Arc::new(library)
        });
        let library = opened.await.map_err(|_| broken())?;
        *self.snapshot.lock() = Some((now, library.clone()));
        Ok(library)
    }
}

/// Returns the context length in force for a model: the loaded one, else the one that a load would
/// use.
pub(crate) fn context_length(model: &ListedModel, loaded: Option<&ModelInfo>) -> u64 {
    let default = Limits::default().context_length as u64;
    let of_load = || model.trained_context.unwrap_or(default).min(default);
    loaded.map_or_else(of_load, |info| info.context_length as u64)
}

/// Returns the id of a loaded model that generates text.
pub(crate) fn loaded_chat_model(status: &Status) -> Option<&str> {
    let mut models = status.models.iter();
    let loaded = models.find(|model| {
        let is_loaded = matches!(
            model.phase,
            PhaseStatus::Ready | PhaseStatus::Generating { .. }
        );
        is_loaded && model.role == ModelRole::Chat
    });
    loaded.map(|model| &*model.id)
}

/// Returns the route that a name asks for: `transom/code`.
fn route_of(name: &str) -> Option<Route> {
    Route::named(name.strip_prefix(ROUTE)?)
}

/// Returns what finds a model with all that a request needs of it.
fn with_spec(
    find: impl Fn(&Arc<Library>) -> Option<InstalledModel> + Clone,
    context_length: Option<usize>,
) -> impl Fn(&Arc<Library>) -> Option<Model> + Clone {
    let settings = LoadSettings {
        context_length,
        ..LoadSettings::default()
    };
    move |library| {
        let installed = find(library)?;
        Some(Model {
            name: public_name(library, &installed)?,
            spec: library.spec(&installed, &settings),
            installed,
            library: library.clone(),
            settings,
            route: Route::Chat,
        })
    }
}

/// Returns the information about a model if it is loaded.
pub(crate) fn loaded_info<'a>(status: &'a Status, id: &str) -> Option<&'a ModelInfo> {
    let model = status.models.iter().find(|model| model.id == id)?;
    model.info.as_ref()
}

/// Returns the installed model with this name, which is not a path.
fn named<'a>(library: &'a Library, text: &str) -> Option<&'a InstalledModel> {
    let end = text.len().saturating_sub(LATEST.len());
    let base = match text.get(end..) {
        Some(suffix) if suffix.eq_ignore_ascii_case(LATEST) => &text[..end],
        _ => text,
    };
    if base.is_empty() || is_path(base) {
        return None;
    }
    let mut models = library.installed().iter();
    let by_id = models.find(|model| library.id_of(model).eq_ignore_ascii_case(base));
    by_id.or_else(|| library.named(base).into_iter().next())
}

/// Returns the name for requests: the id, or another unique name if the id is a path. `None` if the
/// model has no such name.
fn public_name(library: &Library, model: &InstalledModel) -> Option<String> {
    let id = library.id_of(model);
    let names = [id, library.short_name(model)];
    names.into_iter().find(|name| !is_path(name))
}

fn listed(library: &Library, model: &InstalledModel) -> Option<ListedModel> {
    let facts = model.facts.as_ref().ok()?;
    let modified = std::fs::metadata(&model.id).and_then(|metadata| metadata.modified());
    let created = modified.ok()?.duration_since(SystemTime::UNIX_EPOCH);
    Some(ListedModel {
        name: public_name(library, model)?,
        title: model.title(library.catalog()),
        id: library.id_of(model),
        created: created.map_or(0, |time| time.as_secs()),
        size_bytes: model.size_bytes,
        quantization: model.quantization(library.catalog()),
        format: match facts.format {
            transom_library::Format::Gguf => "gguf",
            transom_library::Format::Safetensors => "safetensors",
        },
        architecture: facts.architecture.clone(),
        n_parameters: facts.n_parameters,
        trained_context: facts.context_length,
        chat_template: facts.chat_template.clone(),
        can_reason: default_thinking(facts).is_some(),
        is_embedder: library.is_embedder(model),
        hidden_size: facts.hidden_size,
    })
}

fn wrong_kind(message: String) -> ApiError {
    ApiError::field("model", message)
}

fn broken() -> ApiError {
    ApiError::internal("the list of models can't be read; try again")
}

#[cfg(test)]
mod tests;

//! Finds a model and loads it, with progress and Ctrl-C, for every command.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use transom_engine::{FinishReason, GenerationParams, ModelInfo, Prompt, Stats, Truncation};
use transom_engine_host::wire::Request;
use transom_library::{InstalledModel, Library, LoadSettings, UsageRecorder};
use transom_supervisor::status::ModelStatus;
use transom_supervisor::{ClientId, ModelRequest, Outcome, PassedOver, Status, Work};

use crate::library;
use crate::output::{JsonLines, show_wait};
use crate::{Client, Console, Failure, Result};

/// The model and its limits.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// Name of an installed model (`transom models list`), a GGUF file, or a model folder
    /// (config.json, *.safetensors, tokenizer.json …) [default: $TRANSOM_MODEL, else the starter]
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// Most tokens of prompt and response together; costs memory [default: 8192, or less where
    /// the model or the memory budget allows less]
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one)]
    pub(crate) context_length: Option<usize>,

    /// Load the model even if it exceeds the memory budget (`transom doctor` shows it); other apps
    /// may slow down
    #[arg(long)]
    pub(crate) over_budget: bool,
}

/// Parses a count that must not be zero.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("must be a whole number of at least 1".into()),
    }
}

/// A model that was just loaded. It may be unloaded at any time; then the next request loads it again.
pub(crate) struct Loaded {
    pub(crate) info: ModelInfo,
    pub(crate) model: InstalledModel,
    pub(crate) load_time: Duration,
    /// The model's other forms that were tried first, and why they do not run.
    pub(crate) passed_over: Vec<PassedOver>,
    /// The request that loads it.
    pub(crate) load_request: ModelRequest,
    /// Where measurements of the model are saved.
    usage: Option<UsageRecorder>,
}

impl Loaded {
    /// Saves the measurements of a response, for later estimates.
    pub(crate) fn record(&self, stats: &Stats) {
        if let Some(usage) = &self.usage {
            usage.record(stats);
        }
    }

    /// Returns the request to respond to `prompt` with this model.
    pub(crate) fn request(
        &self,
        prompt: Prompt,
        truncation: Truncation,
        params: GenerationParams,
    ) -> ModelRequest {
        let request = Request {
            prompt,
            truncation,
            params,
        };
        ModelRequest {
            work: Work::Generate(Box::new(request)),
            ..self.load_request.clone()
        }
    }

    /// Returns the status of this model; `None` if it is unloaded.
    pub(crate) fn find_in<'a>(&self, status: &'a Status) -> Option<&'a ModelStatus> {
        let has_info = |model: &&ModelStatus| model.info.as_ref() == Some(&self.info);
        let models = status.models.iter();
        // Another program may have loaded it under another id.
        let candidates =
            models.filter(|model| model.id == self.load_request.model.id || has_info(model));
        // A model that is just being replaced by another is listed twice.
        candidates.max_by_key(has_info)
    }
}

/// Loads the model that `args` or the environment names, else the default one. With `json` the progress is
/// written as events.
pub(crate) fn load(
    args: &ModelArgs,
    json: bool,
    client: &Client,
    console: &mut Console,
) -> Result<Loaded> {
    let (library, model) = library::open_for(args.model.as_deref(), client, console)?;
    load_from(&library, model, None, args, json, client, console)
}

/// Loads a model of the library: only its files at `path`, or whichever of its variants runs here.
pub(crate) fn load_from(
    library: &Library,
    model: InstalledModel,
    path: Option<&Path>,
    args: &ModelArgs,
    json: bool,
    client: &Client,
    console: &mut Console,
) -> Result<Loaded> {
    if library.is_embedder(&model) {
        return Err(Failure::Model(format!(
            "{} makes embedding vectors and does not generate text; `transom embed` uses it",
            model.title(library.catalog())
        )));
    }
    let settings = LoadSettings {
        context_length: args.context_length,
        ..LoadSettings::default()
    };
    let mut spec = library.spec(&model, &settings);
    if let Some(path) = path {
        spec.variants.retain(|variant| variant.path == path);
    }
    let request = ModelRequest {
        over_budget: args.over_budget,
        ..ModelRequest::new(ClientId::cli(), spec, Work::Load)
    };
    let began = Instant::now();
    let completion = if json {
        let mut lines = JsonLines::new(console);
        client.send(&request, &mut |event| lines.on_event(&event))?
    } else {
        let progress = console.progress();
        client.send(&request, &mut |event| {
            show_wait(&progress, &request.model.name, &event);
            Ok(())
        })?
    };
    let info = match completion.outcome {
        _ if completion.was_interrupted => return Err(Failure::Interrupted),
        Outcome::Loaded { info } => *info,
        Outcome::Failed { error } => return Err(error.into()),
        Outcome::Finished {
            reason: FinishReason::Shed,
            ..
        } => {
            let message = "the load was stopped: this computer is short of memory";
            return Err(Failure::failed(message));
        }
        Outcome::Finished { .. } => return Err(Failure::Interrupted),
    };
    let mut loaded = Loaded {
        info,
        model,
        load_time: began.elapsed(),
        passed_over: Vec::new(),
        load_request: request,
        usage: None,
    };
    let status = client.status()?;
    if let Some(model) = loaded.find_in(&status).cloned() {
        loaded.load_time = model.load_time.unwrap_or(loaded.load_time);
        loaded.usage = library.usage(&loaded.model, &settings, &model);
        loaded.passed_over = model.passed_over;
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_must_be_a_whole_number_of_at_least_one() {
        assert_eq!(at_least_one("7"), Ok(7));
        for bad in ["0", "-1", "1.5", "many", ""] {
            assert!(at_least_one(bad).is_err(), "{bad}");
        }
    }
}

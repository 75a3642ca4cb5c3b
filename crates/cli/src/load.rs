//! Finds a model and has it loaded, with progress and Ctrl-C, for every command.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use transom_engine::{
    EngineError, FinishReason, GenerationParams, ModelInfo, Prompt, Stats, Truncation,
};
use transom_engine_host::wire::Request;
use transom_library::InstalledModel;
use transom_library::{LoadSettings, UsageRecorder};
use transom_supervisor::status::{ModelStatus, PassedOver};
use transom_supervisor::{
    ModelRequest, ModelSpec, Outcome, ResponseEvent, Status, WhenBlocked, Work,
};

use crate::arguments::ModelArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::library;
use crate::link::Link;
use crate::output::json::JsonLines;
use crate::output::progress::Progress;

/// A model that was loaded a moment ago. It may be unloaded at any time; then the next ask loads it
/// again.
pub(crate) struct Loaded {
    /// What it is.
    pub(crate) info: ModelInfo,
    /// The model.
    pub(crate) model: InstalledModel,
    /// How long its load took.
    pub(crate) load_time: Duration,
    /// Its forms that were tried before, and why they do not run.
    pub(crate) passed_over: Vec<PassedOver>,
    spec: ModelSpec,
    over_budget: bool,
    /// Where its measurements are written.
    usage: Option<UsageRecorder>,
}

impl Loaded {
    /// Writes down what an answer of this model took, for later estimates.
    pub(crate) fn remember(&self, stats: &Stats) {
        if let Some(usage) = &self.usage {
            usage.record(stats);
        }
    }

    /// Asks this model to answer `prompt`.
    pub(crate) fn ask(
        &self,
        prompt: Prompt,
        fit: Truncation,
        params: GenerationParams,
    ) -> ModelRequest {
        let request = Request {
            prompt,
            fit,
            params,
        };
        ModelRequest {
            model: self.spec.clone(),
            work: Work::Generate(Box::new(request)),
            over_budget: self.over_budget,
            when_blocked: WhenBlocked::Wait,
        }
    }

    /// What `status` says of this model; nothing once it is unloaded.
    pub(crate) fn find_in<'a>(&self, status: &'a Status) -> Option<&'a ModelStatus> {
        let is_it = |model: &&ModelStatus| model.info.as_ref() == Some(&self.info);
        let models = status.models.iter();
        // Another shell may have called it otherwise.
        let likely = models.filter(|model| model.id == self.spec.id || is_it(model));
        // One that is just being replaced by another is there twice.
        likely.max_by_key(is_it)
    }
}

/// Has the model loaded that `args` and the environment name, else the starter. With `json` the
/// wait is told in events, else as progress.
pub(crate) fn load(
    args: &ModelArgs,
    json: bool,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<Loaded, Failure> {
    let (library, model) = library::open_for(args.model.as_deref(), link, console)?;
    let settings = LoadSettings {
        context_length: args.context_length,
        ..LoadSettings::default()
    };
    let ask = ModelRequest {
        model: library.spec(&model, &settings),
        work: Work::Load,
        over_budget: args.over_budget,
        when_blocked: WhenBlocked::Wait,
    };
    let began = Instant::now();
    let followed = if json {
        let mut lines = JsonLines::new(console.out);
        let followed = link.follow(&ask, interrupt, &mut |event| lines.on_event(&event))?;
        lines.finish().map_err(Failure::Output)?;
        followed
    } else {
        let mut progress = Progress::new(console);
        let name = &ask.model.name;
        link.follow(&ask, interrupt, &mut |event: ResponseEvent| {
            progress.show_wait(name, &event);
            ControlFlow::Continue(())
        })?
    };
    let info = match followed.outcome {
        _ if followed.was_interrupted => return Err(Failure::Interrupted),
        Outcome::Loaded { info } => *info,
        Outcome::Failed { error } => return Err(error.into()),
        Outcome::Finished {
            reason: FinishReason::Shed,
            ..
        } => {
            return Err(Failure::Restrained(
                "the load was given up: this computer is short of memory".to_owned(),
            ));
        }
        Outcome::Finished { .. } => return Err(EngineError::Canceled.into()),
    };
    let mut loaded = Loaded {
        info,
        model,
        load_time: began.elapsed(),
        passed_over: Vec::new(),
        spec: ask.model,
        over_budget: args.over_budget,
        usage: None,
    };
    let status = link.status()?;
    if let Some(model) = loaded.find_in(&status).cloned() {
        loaded.load_time = model.load_time.unwrap_or(loaded.load_time);
        loaded.usage = library.usage(&loaded.model, &settings, &model);
        loaded.passed_over = model.passed_over;
    }
    Ok(loaded)
}

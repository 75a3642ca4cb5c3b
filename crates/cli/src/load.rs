//! Finds a model and has it loaded, with progress and Ctrl-C, for every command.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use transom_catalog::forms::Forms;
use transom_catalog::installed;
use transom_engine::{
    EngineError, FinishReason, Fit, GenerationParams, ModelInfo, ModelSource, Prompt, Stats,
};
use transom_engine_host::wire::Request;
use transom_signals::Hardware;
use transom_supervisor::status::{ModelStatus, PassedOver};
use transom_supervisor::{
    AnswerEvent, Ask, KvCacheChoice, ModelSpec, Outcome, Role, Status, WhenHeld, Work, variants,
};

use crate::arguments::ModelArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::library::{self, Library};
use crate::link::Link;
use crate::measure::{self, Place};
use crate::model_path::{self, ModelPath};
use crate::output::json::JsonLines;
use crate::output::progress::Progress;

/// A model that was loaded a moment ago. It may be unloaded at any time; then the next ask loads it
/// again.
pub(crate) struct Loaded {
    /// What it is.
    pub(crate) info: ModelInfo,
    /// Where it was found.
    pub(crate) found: ModelPath,
    /// How long its load took.
    pub(crate) load_time: Duration,
    /// Its forms that were tried before, and why they do not run.
    pub(crate) passed_over: Vec<PassedOver>,
    spec: ModelSpec,
    over_budget: bool,
    /// Where its uses are remembered, once there was one.
    place: OnceCell<Option<Place>>,
}

impl Loaded {
    /// The form that runs, as far as this machine's order and what was passed over say.
    pub(crate) fn running_form(&self) -> Option<&Path> {
        let forms = variants::in_order(self.spec.variants.clone(), &Hardware::detect());
        let mut forms = forms.into_iter();
        let runs = forms.find(|form| !self.passed_over.iter().any(|no| no.path == form.path))?;
        let mut variants = self.spec.variants.iter();
        variants
            .find(|form| form.path == runs.path)
            .map(|form| &*form.path)
    }

    /// Remembers what an answer of this model took, for later estimates.
    pub(crate) fn remember(&self, stats: &Stats, link: &Link) {
        let place = self.place.get_or_init(|| Place::of(self, link));
        if let Some(place) = place {
            place.record(stats);
        }
    }

    /// Asks this model to answer `prompt`.
    pub(crate) fn ask(&self, prompt: Prompt, fit: Fit, params: GenerationParams) -> Ask {
        let request = Request {
            prompt,
            fit,
            params,
        };
        Ask {
            model: self.spec.clone(),
            work: Work::Generate(Box::new(request)),
            over_budget: self.over_budget,
            when_held: WhenHeld::Wait,
        }
    }

    /// What `status` says of this model; nothing once it is unloaded.
    pub(crate) fn find_in<'a>(&self, status: &'a Status) -> Option<&'a ModelStatus> {
        let is_it = |model: &&ModelStatus| model.info.as_ref() == Some(&self.info);
        let models = status.models.iter();
        // Another shell may have called it otherwise.
        let likely = models.filter(|model| model.name == self.spec.name || is_it(model));
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
    let found = model_path::find(
        args.model.as_deref(),
        std::env::var_os("TRANSOM_MODEL"),
        installed::own_executable().as_deref(),
        || Library::open(link, console),
    )?;
    let ask = Ask {
        model: ModelSpec {
            name: library::title_of(&found, link.folder()?),
            corrections: measure::corrections(&found.forms, link),
            ..spec(&found.forms, args.context_length)
        },
        work: Work::Load,
        over_budget: args.over_budget,
        when_held: WhenHeld::Wait,
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
        link.follow(&ask, interrupt, &mut |event: AnswerEvent| {
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
        Outcome::Finished { .. } => return Err(EngineError::Cancelled.into()),
    };
    let mut loaded = Loaded {
        info,
        found,
        load_time: began.elapsed(),
        passed_over: Vec::new(),
        spec: ask.model,
        over_budget: args.over_budget,
        place: OnceCell::new(),
    };
    let status = link.status()?;
    if let Some(model) = loaded.find_in(&status).cloned() {
        loaded.load_time = model.load_time.unwrap_or(loaded.load_time);
        loaded.passed_over = model.passed_over;
    }
    Ok(loaded)
}

/// The model as every process names it: the instance that loads it may have been started in another
/// folder.
fn spec(forms: &Forms, context_length: Option<usize>) -> ModelSpec {
    let variants = forms.paths.iter().cloned();
    ModelSpec {
        kv_cache: KvCacheChoice::Automatic,
        name: forms.name.clone(),
        role: Role::Chat,
        variants: variants.map(|path| ModelSource { path }).collect(),
        context_length,
        corrections: Vec::new(),
    }
}

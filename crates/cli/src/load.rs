//! Finds a model and loads it, with progress and Ctrl-C, for every command.

use std::time::{Duration, Instant};

use transom_engine::{Engine, EngineError, JobControl, Limits, LoadedModel, ModelSource};

use crate::arguments::ModelArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::model_path::{self, ModelPath};
use crate::output::progress::Progress;

/// A model that is ready, and how it came to be.
pub(crate) struct Loaded {
    /// The model.
    pub(crate) model: Box<dyn LoadedModel>,
    /// Where it was found.
    pub(crate) found: ModelPath,
    /// How long the load took.
    pub(crate) load_time: Duration,
}

/// Loads the model that `args` and the environment name, else the starter.
pub(crate) fn load(
    args: &ModelArgs,
    engine: &dyn Engine,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<Loaded, Failure> {
    let found = model_path::find(
        args.model.as_deref(),
        std::env::var_os("TRANSOM_MODEL"),
        model_path::executable().as_deref(),
    )?;
    let source = ModelSource {
        path: found.path.clone(),
    };
    let mut limits = Limits::default();
    if let Some(context_length) = args.context_length {
        limits.context_length = context_length;
    }
    let name = found
        .path
        .file_name()
        .unwrap_or(found.path.as_os_str())
        .to_string_lossy()
        .into_owned();
    let control = JobControl::new();
    let watch = interrupt.watch(&control);
    let mut progress = Progress::new(console);
    let began = Instant::now();
    let result = engine.load(&source, &limits, &control, &mut |done| {
        progress.show_load(&name, done);
    });
    let load_time = began.elapsed();
    drop(progress);
    match result {
        Ok(_) if watch.was_pressed() => Err(Failure::Interrupted),
        Ok(model) => Ok(Loaded {
            model,
            found,
            load_time,
        }),
        Err(EngineError::Cancelled) => Err(Failure::Interrupted),
        Err(error) => Err(error.into()),
    }
}

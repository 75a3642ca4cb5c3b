//! Loads the weights of a GGUF file.

use transom_engine::{EngineError, JobControl, Limits, LoadProgress, UnsupportedFeature};

use crate::device;
use crate::files::ModelFiles;
use crate::memory;
use crate::native::{self, Model};

/// Loads the weights of `files`, and reports its progress.
///
/// # Errors
/// [`EngineError::Canceled`]; what llama.cpp says about a file that it cannot load.
pub(crate) fn load_weights(
    files: &ModelFiles,
    limits: &Limits,
    has_gpu: bool,
    control: &JobControl,
    on_progress: &mut dyn FnMut(LoadProgress),
) -> Result<Model, EngineError> {
    let total_bytes = files.facts.weight_bytes;
    let mut report = |done_bytes| {
        on_progress(LoadProgress {
            done_bytes,
            total_bytes,
        });
    };
    report(0);
    // Clears older errors, so that this load does not report them.
    let _ = native::take_first_error();
    let mut reported = 0;
    let is_mapped = device::maps_weights(has_gpu, &files.facts);
    let context_length = memory::context_length(&files.facts, limits);
    let ignored = files.original_context_entry(context_length);
    let model = Model::load(
        files.first_path(),
        is_mapped,
        ignored.as_deref(),
        &mut |part| {
            let done_bytes = (f64::from(part) * total_bytes as f64) as u64;
            if done_bytes > reported {
                reported = done_bytes;
                report(done_bytes);
            }
            !control.is_stopped()
        },
    );
    if control.is_stopped() {
        return Err(EngineError::Canceled);
    }
    let model = model.ok_or_else(|| load_error(files, native::take_first_error()))?;
    report(total_bytes);
    Ok(model)
}

/// llama.cpp reports only in its log why a load failed.
fn load_error(files: &ModelFiles, logged: Option<String>) -> EngineError {
    let path = files.first_path();
    let reason =
        logged.unwrap_or_else(|| "llama.cpp could not load it and gave no reason".to_owned());
    // `llama_model_load: error loading model: REASON`
    let reason = reason
        .rsplit("error loading model: ")
        .next()
        .unwrap_or(&reason);
    let feature = if reason.contains("unknown model architecture") {
        UnsupportedFeature::Architecture {
            name: files.facts.architecture.clone(),
        }
    } else if reason.contains("unknown pre-tokenizer") {
        UnsupportedFeature::Tokenizer
    } else {
        return EngineError::bad_file(path, reason);
    };
    EngineError::unsupported(path, feature, reason)
}

//! The request to the supervisor that loads a model, and the measurements of its responses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use transom_catalog::measured::{self, Key, Sample};
use transom_catalog::model_files::{ModelFiles, format_of};
use transom_catalog::{FileError, Format, InstalledModel, ModelFacts};
use transom_engine::{ModelSource, Stats};
use transom_supervisor::status::ModelStatus;
use transom_supervisor::{Correction, KvCacheChoice, ModelRole, ModelSpec};

use crate::Library;

/// The settings of a load that a person may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadSettings {
    /// Tokens of prompt and response together; `None` lets the supervisor choose.
    pub context_length: Option<usize>,
    /// Type of the KV cache.
    pub kv_cache: KvCacheChoice,
}

impl Library {
    /// Returns the request that loads `model` for its purpose, with all its installed variants and the
    /// measurements of each.
    pub fn spec(&self, model: &InstalledModel, settings: &LoadSettings) -> ModelSpec {
        let ModelFiles { paths, .. } = &model.files;
        let corrections = paths.iter().filter_map(|path| {
            let facts = model.facts_of(path).ok()?;
            let record = self.machine.record(&facts, path, settings.kv_cache)?;
            let bytes = record.correction(&facts, self.machine.specs(), settings.kv_cache);
            (bytes != 0).then(|| Correction {
                path: path.clone(),
                bytes,
            })
        });
        let sources = paths.iter().cloned();
        ModelSpec {
            id: self.id_of(model),
            name: model.title(&self.catalog),
            role: match self.is_embedder(model) {
                true => ModelRole::Embedder,
                false => ModelRole::Chat,
            },
            variants: sources.map(|path| ModelSource { path }).collect(),
            context_length: settings.context_length,
            min_context_length: None,
            kv_cache: settings.kv_cache,
            corrections: corrections.collect(),
            drafts: self
                .drafts_of(model)
                .into_iter()
                .map(|(path, _)| ModelSource { path })
                .collect(),
        }
    }

    /// Returns the files of the installed draft models that make `model` faster on this machine, with
    /// their facts: the smallest of each format.
    pub(crate) fn drafts_of(&self, model: &InstalledModel) -> Vec<(PathBuf, Arc<ModelFacts>)> {
        let memory_bytes = self.machine.specs().memory_bytes;
        let entry = model.entry(&self.catalog).map(|(entry, _)| entry);
        let draft = entry.and_then(|entry| self.catalog.draft_of(entry, memory_bytes));
        let Some(draft) = draft else {
            return Vec::new();
        };
        let is_draft = |other: &&InstalledModel| {
            let entry = other.entry(&self.catalog).map(|(entry, _)| entry);
            entry.is_some_and(|entry| entry.id == draft.id)
        };
        let mut drafts: Vec<(PathBuf, Arc<ModelFacts>)> = Vec::new();
        for other in self.installed().iter().filter(is_draft) {
            let paths = other.files.paths.iter();
            drafts
                .extend(paths.filter_map(|path| Some((path.clone(), other.facts_of(path).ok()?))));
        }
        drafts.sort_by_key(|(_, facts)| facts.weight_bytes);
        let mut seen = Vec::new();
        drafts.retain(|(path, _)| {
            let format = format_of(path);
            let is_new = !seen.contains(&format);
            seen.push(format);
            is_new
        });
        drafts
    }

    /// Returns the variant of `model` that runs on this machine, with its facts: the first that can be
    /// read, in the supervisor's order.
    ///
    /// # Errors
    /// The problem of the model's files, if none can be read.
    pub fn runnable_variant(
        &self,
        model: &InstalledModel,
    ) -> Result<(PathBuf, Arc<ModelFacts>), FileError> {
        let first = self.machine.specs().preferred_format();
        let mut paths: Vec<&PathBuf> = model.files.paths.iter().collect();
        paths.sort_by_key(|path| format_of(path) != first);
        let usable = |path: &PathBuf| Some((path.clone(), model.facts_of(path).ok()?));
        match paths.into_iter().find_map(usable) {
            Some(usable) => Ok(usable),
            None => Ok((model.id.clone(), model.facts.clone()?)),
        }
    }

    /// Returns a recorder for a response of `model`, for the variant that the supervisor loaded. `None`
    /// if the model is no longer loaded or the variant is unknown.
    pub fn usage(
        &self,
        model: &InstalledModel,
        settings: &LoadSettings,
        loaded: &ModelStatus,
    ) -> Option<UsageRecorder> {
        let format = match &*loaded.info.as_ref()?.engine {
            "mlx" => Format::Safetensors,
            _ => Format::Gguf,
        };
        let is_passed_over =
            |path: &Path| loaded.passed_over.iter().any(|other| other.path == path);
        let mut paths = model.files.paths.iter();
        let path = paths.find(|path| format_of(path) == format && !is_passed_over(path))?;
        let facts = model.facts_of(path).ok()?;
        let has_draft = loaded
            .info
            .as_ref()
            .is_some_and(|info| info.draft.is_some());
        let recorder = UsageRecorder::new(self, &facts, path, settings);
        Some(UsageRecorder {
            has_draft,
            ..recorder
        })
    }
}

/// Records the measurements of one variant of a model.
#[derive(Debug, Clone)]
pub struct UsageRecorder {
    file: PathBuf,
    key: Key,
    /// The memory and the speed are those of two models together.
    has_draft: bool,
}

impl UsageRecorder {
    pub(crate) fn new(
        library: &Library,
        facts: &ModelFacts,
        path: &Path,
        settings: &LoadSettings,
    ) -> Self {
        Self {
            file: library.machine.measured_file().to_owned(),
            key: library.machine.key(facts, path, settings.kv_cache),
            has_draft: false,
        }
    }

    /// Records the measurements of a response, which improve later estimates of the model alone. Failures
    /// are only logged. Blocks on the disk.
    pub fn record(&self, stats: &Stats) {
        if self.has_draft {
            return;
        }
        if let Err(error) = measured::record(&self.file, &self.key, &sample(stats)) {
            tracing::info!(%error, "can't save the measurements of a response");
        }
    }
}

/// Returns the measurements of a response, without shifted tokens. The speed of a response without a peak
/// is not that of the model: others may have been generated at the same time.
fn sample(stats: &Stats) -> Sample {
    let count = |n: usize| n as u64;
    let in_context = stats.prompt_tokens + stats.generated_tokens;
    let is_of_one = stats.peak_memory_bytes > 0;
    Sample {
        response_tokens: count(stats.generated_tokens),
        decode_tokens_per_second: stats.decode_tokens_per_second().filter(|_| is_of_one),
        context_tokens: count(in_context.saturating_sub(stats.shifted_tokens)),
        peak_bytes: stats.peak_memory_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_sample_leaves_out_shifted_tokens() {
        let stats = Stats {
            prompt_tokens: 300,
            cached_tokens: 200,
            generated_tokens: 101,
            shifted_tokens: 50,
            prefill_time: Duration::from_secs(1),
            decode_time: Duration::from_secs(2),
            peak_memory_bytes: 7,
            ..Stats::default()
        };
        let expected = Sample {
            response_tokens: 101,
            decode_tokens_per_second: Some(50.0),
            context_tokens: 351,
            peak_bytes: 7,
        };
        assert_eq!(sample(&stats), expected);
    }

    #[test]
    fn a_response_beside_others_says_nothing_about_the_speed_and_the_memory() {
        let stats = Stats {
            prompt_tokens: 300,
            generated_tokens: 101,
            decode_time: Duration::from_secs(2),
            ..Stats::default()
        };
        let sample = sample(&stats);
        assert_eq!(
            (sample.decode_tokens_per_second, sample.peak_bytes),
            (None, 0)
        );
    }
}

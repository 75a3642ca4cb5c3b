//! What uses of models measure: read before a load, written after an answer.
//!
//! Rule: it is a help and never in the way: whatever goes wrong is a line in the log, and the answer
//! is what it was.

use std::path::{Path, PathBuf};

use transom_catalog::estimate::Machine;
use transom_catalog::fit::{KvChoice, kv_type};
use transom_catalog::forms::{Forms, format_of};
use transom_catalog::measured::{self, Key, Measured, Sample};
use transom_catalog::{Installed, ModelFacts, Origin};
use transom_engine::Stats;
use transom_signals::Hardware;
use transom_supervisor::Correction;

use crate::console::Console;
use crate::library::judge::machine_of;
use crate::link::Link;
use crate::load::Loaded;
use crate::output::progress::Progress;

/// Where a model's uses are remembered.
pub(crate) struct Place {
    file: PathBuf,
    key: Key,
}

/// Measures at how many bytes a second memory delivers, for half a second, and remembers it.
pub(crate) fn measure_bandwidth(chip_name: &str, data_folder: &Path, console: &mut Console) -> u64 {
    Progress::new(console).show("Measuring the memory …");
    let rate = transom_signals::measure_bandwidth();
    let file = data_folder.join(measured::FILE_NAME);
    if let Err(error) = measured::record_bandwidth(&file, chip_name, rate) {
        tracing::info!(%error, "how fast the memory is will be measured again");
    }
    rate
}

/// By how much earlier uses of each form correct what its engine will compute.
pub(crate) fn corrections(forms: &Forms, link: &Link) -> Vec<Correction> {
    let Ok(folder) = link.folder() else {
        return Vec::new();
    };
    let file = folder.join(measured::FILE_NAME);
    if !file.exists() {
        return Vec::new();
    }
    let measured = Measured::read(&file);
    let machine = machine_of(&Hardware::detect(), None);
    let of_form = |path: &PathBuf| {
        let facts = facts_of(path)?;
        let known = measured.of(&key(path, &facts, &machine))?;
        let bytes = known.correction(&facts, &machine, KvChoice::Automatic);
        (bytes != 0).then(|| Correction {
            path: path.clone(),
            bytes,
        })
    };
    forms.paths.iter().filter_map(of_form).collect()
}

impl Place {
    /// That of the form of `loaded` that runs; `None` where its files say too little.
    pub(crate) fn of(loaded: &Loaded, link: &Link) -> Option<Self> {
        let path = loaded.running_form()?;
        let facts = facts_of(path)?;
        let machine = machine_of(&Hardware::detect(), None);
        Some(Self {
            file: link.folder().ok()?.join(measured::FILE_NAME),
            key: key(path, &facts, &machine),
        })
    }

    /// Remembers what an answer took.
    pub(crate) fn record(&self, stats: &Stats) {
        if let Err(error) = measured::record(&self.file, &self.key, &sample(stats)) {
            tracing::debug!(%error, "what the answer took is not remembered");
        }
    }
}

fn key(path: &Path, facts: &ModelFacts, machine: &Machine) -> Key {
    let kv = kv_type(facts, &machine.for_fit(), KvChoice::Automatic);
    Key::of_path(path, format_of(path), kv)
}

/// What the form at `path` is; `None` where nothing is, or what cannot be read.
fn facts_of(path: &Path) -> Option<std::sync::Arc<ModelFacts>> {
    let origin = Origin::Added {
        path: path.to_owned(),
    };
    Installed::at(path, origin).ok()?.facts_of(path).ok()
}

fn sample(stats: &Stats) -> Sample {
    let count = |n: usize| n as u64;
    let processed = stats.prompt_tokens.saturating_sub(stats.cached_tokens);
    let in_context = stats.prompt_tokens + stats.generated_tokens;
    Sample {
        prompt_tokens: count(processed),
        prefill_tokens_per_second: stats.prefill_tokens_per_second(),
        answer_tokens: count(stats.generated_tokens),
        decode_tokens_per_second: stats.decode_tokens_per_second(),
        context_tokens: count(in_context.saturating_sub(stats.shifted_tokens)),
        peak_bytes: stats.peak_memory_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_answer_counts_what_was_computed_and_what_the_context_held() {
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
        let expect = Sample {
            prompt_tokens: 100,
            prefill_tokens_per_second: Some(100.0),
            answer_tokens: 101,
            decode_tokens_per_second: Some(50.0),
            context_tokens: 351,
            peak_bytes: 7,
        };
        assert_eq!(sample(&stats), expect);
    }
}

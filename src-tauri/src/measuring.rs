//! What an answer took is remembered, so that the next estimate for its model is nearer.
//!
//! Rule: it costs an answer nothing. What cannot be measured or written is left out, and only the log
//! says so.

use std::sync::Arc;

use transom_catalog::estimate::Machine;
use transom_catalog::measured::{self, Sample};
use transom_catalog::{Format, Installed};
use transom_chat::Update;
use transom_chat::turns::{Asking, Begun};
use transom_engine::Stats;
use transom_supervisor::status::Status;

use crate::here;
use crate::models::{self, Asked};
use crate::rooms::Rooms;

/// An answer that is to be measured.
pub(crate) struct Measuring {
    rooms: Arc<Rooms>,
    model: Installed,
    /// What the supervisor calls it.
    name: String,
    kv: transom_catalog::fit::KvChoice,
}

/// Parts what is asked from what will be measured.
pub(crate) fn of(rooms: &Arc<Rooms>, asked: Asked) -> (Asking, Measuring) {
    let measuring = Measuring {
        rooms: rooms.clone(),
        kv: models::kv_choice(&asked.asking.settings),
        name: asked.asking.model.name.clone(),
        model: asked.model,
    };
    (asked.asking, measuring)
}

impl Measuring {
    /// Waits for the end of this answer, in a task of its own.
    pub(crate) fn follow(self, begun: Begun) -> Begun {
        let mut updates = self.rooms.turns.follow(begun.answer);
        tauri::async_runtime::spawn(async move {
            while let Some(update) = updates.next().await {
                if let Update::Ended { stats, .. } = update {
                    if let Some(stats) = stats.and_then(|stats| stats.of_engine) {
                        self.ended(&stats).await;
                    }
                    return;
                }
            }
        });
        begun
    }

    async fn ended(self, stats: &Stats) {
        let status = self.rooms.handle().look().await.clone();
        let Some(format) = format(&status, &self.name) else {
            return;
        };
        let sample = sample(stats);
        let done = tauri::async_runtime::spawn_blocking(move || self.write(format, &sample));
        if let Ok(Err(reason)) = done.await {
            tracing::info!(reason, "what the answer took is not remembered");
        }
    }

    fn write(&self, format: Format, sample: &Sample) -> Result<(), String> {
        let forms = self.model.variants().into_iter();
        let mut forms = forms.filter_map(|path| Some((self.model.facts_of(&path).ok()?, path)));
        let form = forms.find(|(facts, _)| facts.format == format);
        let (facts, path) = form.ok_or("the form that ran is not known")?;
        let machine: Machine = self.rooms.here().machine;
        let key = here::key(&facts, &path, &machine, self.kv);
        let file = self.rooms.data_folder().join(measured::FILE_NAME);
        measured::record(&file, &key, sample).map_err(|error| error.to_string())
    }
}

/// In which form the model of this name runs; `None` if it is not loaded any more.
fn format(status: &Status, name: &str) -> Option<Format> {
    let mut models = status.models.iter();
    let model = models.find(|model| model.name == name)?;
    match &*model.info.as_ref()?.engine {
        "mlx" => Some(Format::Safetensors),
        _ => Some(Format::Gguf),
    }
}

fn sample(stats: &Stats) -> Sample {
    let count = |n: usize| n as u64;
    let in_context = stats.prompt_tokens + stats.generated_tokens;
    Sample {
        prompt_tokens: count(stats.prompt_tokens.saturating_sub(stats.cached_tokens)),
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
    use crate::status_view::tests::{model, status};

    use std::time::Duration;

    use serde_json::json;

    #[test]
    fn an_answer_is_measured_without_what_was_cached_or_forgotten() {
        let sample = sample(&Stats {
            prompt_tokens: 300,
            cached_tokens: 100,
            generated_tokens: 50,
            shifted_tokens: 30,
            prefill_time: Duration::from_secs(2),
            ..Stats::default()
        });
        assert_eq!(sample.prompt_tokens, 200);
        assert_eq!(sample.prefill_tokens_per_second, Some(100.0));
        assert_eq!(sample.context_tokens, 320);
        assert_eq!(
            sample.peak_bytes, 0,
            "an engine that did not measure says nothing"
        );
    }

    #[test]
    fn the_form_is_that_of_the_model_that_answered_and_of_no_other() {
        let mut ready = model(json!({ "phase": "ready" }));
        ready["info"] = json!({
            "name": "m", "architecture": "qwen3", "engine": "mlx", "n_parameters": 1,
            "stored_as": "", "computed_as": "", "context_length": 8192, "vocab_size": 8,
            "has_chat_template": true,
            "recommended_sampling": transom_engine::SamplingParams::default(),
        });
        let name = ready["name"].as_str().unwrap().to_owned();
        let now = status(json!({ "models": [ready] }));
        assert_eq!(format(&now, &name), Some(Format::Safetensors));
        assert_eq!(format(&now, "Another"), None);
        assert_eq!(format(&status(json!({})), &name), None);
    }
}

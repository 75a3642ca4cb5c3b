//! What an answer took is remembered, so that the next estimate for its model is nearer.
//!
//! Rule: it costs an answer nothing. What cannot be measured or written is left out, and only the log
//! says so.

use std::sync::Arc;

use transom_catalog::estimate::Machine;
use transom_catalog::measured::{self, Sample};
use transom_catalog::{Format, Installed};
use transom_chat::AnswerStats;
use transom_chat::Update;
use transom_chat::turns::{Asking, Begun};
use transom_supervisor::Role;
use transom_supervisor::status::Status;

use crate::here;
use crate::models::{self, Asked};
use crate::rooms::Rooms;

/// An answer that is to be measured.
pub(crate) struct Measuring {
    rooms: Arc<Rooms>,
    model: Installed,
    kv: transom_catalog::fit::KvChoice,
}

/// Parts what is asked from what will be measured.
pub(crate) fn of(rooms: &Arc<Rooms>, asked: Asked) -> (Asking, Measuring) {
    let measuring = Measuring {
        rooms: rooms.clone(),
        kv: models::kv_choice(&asked.asking.settings),
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
                    if let Some(stats) = stats {
                        self.ended(&stats).await;
                    }
                    return;
                }
            }
        });
        begun
    }

    async fn ended(self, stats: &AnswerStats) {
        let status = self.rooms.handle().look().await.clone();
        let Some((format, sample)) = sample(&status, stats) else {
            return;
        };
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

/// What the answer took, and in which form the model ran; `None` if that is not known any more.
fn sample(status: &Status, stats: &AnswerStats) -> Option<(Format, Sample)> {
    let mut models = status.models.iter();
    let model = models.find(|model| model.role == Role::Chat)?;
    let format = match &*model.info.as_ref()?.engine {
        "mlx" => Format::Safetensors,
        _ => Format::Gguf,
    };
    let fresh = stats.prompt_tokens.saturating_sub(stats.cached_tokens);
    let wait = stats.time_to_first_token_seconds;
    let peak = model.memory.map_or(0, |memory| memory.peak_bytes);
    let sample = Sample {
        prompt_tokens: fresh.into(),
        prefill_tokens_per_second: (wait > 0.0).then(|| f64::from(fresh) / wait),
        answer_tokens: stats.generated_tokens.into(),
        decode_tokens_per_second: stats.tokens_per_second,
        context_tokens: u64::from(stats.prompt_tokens) + u64::from(stats.generated_tokens),
        peak_bytes: peak,
    };
    Some((format, sample))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status_view::tests::{model, status};

    use serde_json::json;

    fn stats() -> AnswerStats {
        AnswerStats {
            prompt_tokens: 300,
            cached_tokens: 100,
            generated_tokens: 50,
            time_to_first_token_seconds: 2.0,
            tokens_per_second: Some(31.5),
            dropped_messages: 0,
        }
    }

    #[test]
    fn an_answer_is_measured_without_what_was_cached() {
        let mut ready = model(json!({ "phase": "ready" }));
        ready["info"] = json!({
            "name": "m", "architecture": "qwen3", "engine": "mlx", "n_parameters": 1,
            "stored_as": "", "computed_as": "", "context_length": 8192, "vocab_size": 8,
            "has_chat_template": true,
            "recommended_sampling": transom_engine::SamplingParams::default(),
        });
        let status = status(json!({ "models": [ready] }));
        let (format, sample) = sample(&status, &stats()).unwrap();
        assert_eq!(format, Format::Safetensors);
        assert_eq!(sample.prompt_tokens, 200);
        assert_eq!(sample.prefill_tokens_per_second, Some(100.0));
        assert_eq!(sample.context_tokens, 350);
        assert_eq!(
            sample.peak_bytes, 0,
            "an engine that did not measure says nothing"
        );
    }

    #[test]
    fn a_model_that_is_gone_is_not_measured() {
        assert_eq!(sample(&status(json!({})), &stats()), None);
    }
}

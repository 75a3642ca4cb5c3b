//! What the routes in OpenAI's form share: the fields for sampling, usage and timings.

use serde_json::{Value, json};
use transom_engine::{FinishReason, SamplingParams};

use crate::constraints;
use crate::error::ApiError;
use crate::generation::{End, Params};
use crate::json::{Fields, Located};
use crate::routes::keep_alive;

/// The version of this server, as responses name it.
pub(super) const FINGERPRINT: &str = concat!("transom-", env!("CARGO_PKG_VERSION"));

/// Most strings that end a response.
const MAX_STOPS: usize = 16;

/// Fields that change no response: for bills, caches and logs of other servers.
const TOLERATED: [&str; 11] = [
    "user",
    "metadata",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "cache_prompt",
    "return_progress",
    "timings_per_token",
    "id_slot",
    "priority",
];

/// What an effort of reasoning may be, and whether the model reasons then.
pub(super) const EFFORTS: [(&str, bool); 7] = [
    ("none", false),
    ("minimal", true),
    ("low", true),
    ("medium", true),
    ("high", true),
    ("xhigh", true),
    ("max", true),
];

/// Takes the fields for sampling, for the end of a response and for the time after it, but not the
/// number of tokens and log probabilities, which differ between the routes.
///
/// # Errors
/// A value is outside its range, or a way of sampling is not supported.
pub(crate) fn params(fields: &mut Fields) -> Result<Params, ApiError> {
    fields.tolerate(&TOLERATED);
    refuse_others(fields)?;
    let constraint = constraints::take(fields)?;
    let repetition_penalty = fields.number("repetition_penalty", 0.01..=1e6)?;
    let repeat_penalty = fields.number("repeat_penalty", 0.01..=1e6)?;
    Ok(Params {
        temperature: fields.number("temperature", 0.0..=2.0)?,
        // 0 keeps only the most likely token, and so does the smallest number above it.
        top_p: fields
            .number("top_p", 0.0..=1.0)?
            .map(|top_p| top_p.max(f64::from(f32::MIN_POSITIVE))),
        // -1 is another way to say: all tokens.
        top_k: fields
            .integer("top_k", -1..=i64::from(i32::MAX))?
            .map(|top_k| usize::try_from(top_k).unwrap_or(0)),
        min_p: fields.number("min_p", 0.0..=1.0)?,
        repetition_penalty: repetition_penalty.or(repeat_penalty),
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?,
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?,
        logit_bias: logit_bias(fields)?,
        seed: fields
            .integer("seed", i64::MIN..=i64::MAX)?
            .map(i64::cast_unsigned),
        max_tokens: None,
        stop: stops(fields, "stop")?,
        logprobs: None,
        constraint,
        keep_alive: keep_alive::take(fields)?,
    })
}

/// Refuses ways of sampling that no engine here has, unless their value turns them off.
fn refuse_others(fields: &mut Fields) -> Result<(), ApiError> {
    for (name, neutral) in [
        ("typical_p", json!(1)),
        ("tfs_z", json!(1)),
        ("length_penalty", json!(1)),
        ("best_of", json!(1)),
        ("skip_special_tokens", json!(true)),
        ("top_a", json!(0)),
        ("mirostat", json!(0)),
        ("mirostat_mode", json!(0)),
        ("xtc_probability", json!(0)),
        ("dry_multiplier", json!(0)),
        ("dynatemp_range", json!(0)),
        ("min_tokens", json!(0)),
        ("n_probs", json!(0)),
        ("ignore_eos", json!(false)),
        ("use_beam_search", json!(false)),
        ("include_stop_str_in_output", json!(false)),
        ("stop_token_ids", json!([])),
        ("bad_words", json!([])),
        ("samplers", json!([])),
        ("lora", json!([])),
    ] {
        // A number may be written with a point.
        let neutral = [neutral.as_f64().map_or(Value::Null, Value::from), neutral];
        fields.refuse(name, &neutral)?;
    }
    Ok(())
}

/// Names `field` as the wrong one in an error of the engine about a prompt, which does not know where
/// the prompt came from.
pub(crate) fn blame(mut error: ApiError, field: &str) -> ApiError {
    let is_too_long = error.code == Some("context_length_exceeded");
    if is_too_long || matches!(error.param.as_deref(), Some("messages" | "token")) {
        error.param = Some(field.to_owned());
    }
    error
}

/// Takes strings that end a response.
///
/// # Errors
/// The value is no string and no list of strings, or one of them is empty.
pub(crate) fn stops(fields: &mut Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let Some(located) = fields.take(name) else {
        return Ok(Vec::new());
    };
    let is_empty = located.must_be("a text that is not empty");
    let stops = located.text_or_texts(MAX_STOPS)?;
    match stops.iter().any(String::is_empty) {
        true => Err(is_empty),
        false => Ok(stops),
    }
}

fn logit_bias(fields: &mut Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(located) = fields.take("logit_bias") else {
        return Ok(Vec::new());
    };
    let path = located.path.clone();
    let entries = located.object()?.into_entries();
    let bias = |(key, bias): (String, Located)| match key.parse::<u32>() {
        Ok(id) => Ok((id, bias.number(-100.0..=100.0)? as f32)),
        Err(_) => {
            let key: String = key.chars().take(40).collect();
            let message = format!("the keys of `{path}` must be token ids, not {key:?}");
            Err(ApiError::field(&*path, message))
        }
    };
    entries.into_iter().map(bias).collect()
}

/// Takes the maximum number of tokens; the newer name wins. -1 means no limit.
///
/// # Errors
/// A value is not a count.
pub(crate) fn max_tokens(fields: &mut Fields, names: &[&str]) -> Result<Option<usize>, ApiError> {
    let mut chosen = None;
    for name in names {
        let Some(located) = fields.take(name) else {
            continue;
        };
        let is_zero = located.must_be("a whole number of at least 1");
        let n = located.integer(-1..=i64::MAX)?;
        if n == 0 {
            return Err(is_zero);
        }
        chosen = chosen.or(Some(usize::try_from(n).ok()));
    }
    Ok(chosen.flatten())
}

/// The fields of a streamed response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Streaming {
    pub(crate) is_on: bool,
    /// The last chunk has the usage.
    pub(crate) include_usage: bool,
}

impl Streaming {
    /// Takes `stream` and `stream_options`.
    ///
    /// # Errors
    /// There are options for a stream, but no stream.
    pub(crate) fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let is_on = fields.flag("stream")?.unwrap_or(false);
        let Some(mut options) = fields.object("stream_options")? else {
            return Ok(Self {
                is_on,
                include_usage: false,
            });
        };
        if !is_on {
            let message = "`stream_options` needs `stream: true`";
            return Err(ApiError::field("stream_options", message));
        }
        let include_usage = options.flag("include_usage")?.unwrap_or(false);
        options.tolerate(&["include_obfuscation"]);
        options.finish_known()?;
        Ok(Self {
            is_on,
            include_usage,
        })
    }
}

/// Returns the reason why a choice ended.
pub(crate) fn finish_reason(end: &End) -> &'static str {
    match end.reason {
        FinishReason::Length => "length",
        FinishReason::Stop if end.has_called => "tool_calls",
        FinishReason::Stop | FinishReason::Canceled | FinishReason::Shed => "stop",
    }
}

/// Returns the usage of choices of one prompt, which counts once.
pub(crate) fn usage(ends: &[End]) -> Value {
    usage_of_prompts(ends, ends.len())
}

/// Returns the usage of prompts with `n` choices each. Each prompt counts once.
pub(crate) fn usage_of_prompts(ends: &[End], n: usize) -> Value {
    let prompts = ends.iter().step_by(n.max(1)).map(|end| end.stats);
    let prompt_tokens: usize = prompts.clone().map(|stats| stats.prompt_tokens).sum();
    let cached_tokens: usize = prompts.map(|stats| stats.cached_tokens).sum();
    let generated = ends.iter().map(|end| end.stats.generated_tokens);
    let completion_tokens: usize = generated.sum();
    let reasoning_tokens: usize = ends.iter().map(|end| end.reasoning_tokens).sum();
    json!({
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": { "cached_tokens": cached_tokens },
        "completion_tokens_details": { "reasoning_tokens": reasoning_tokens },
    })
}

/// Returns the times of a choice, and the sampling in force.
pub(crate) fn timings(end: &End, sampling: Option<&SamplingParams>) -> Value {
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    let stats = &end.stats;
    let sampling = sampling.map(|sampling| {
        json!({
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "seed": sampling.seed,
        })
    });
    json!({
        "queue_ms": milliseconds(end.wait.saturating_sub(end.load)),
        "load_ms": milliseconds(end.load),
        "prefill_ms": milliseconds(stats.prefill_time),
        "prompt_per_second": stats.prefill_tokens_per_second(),
        "predicted_ms": milliseconds(stats.decode_time),
        "predicted_per_second": stats.decode_tokens_per_second(),
        "cached_tokens": stats.cached_tokens,
        "drafted": stats.drafted_tokens,
        "accepted": stats.accepted_tokens,
        "sampling": sampling,
    })
}

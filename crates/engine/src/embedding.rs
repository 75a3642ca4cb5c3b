//! Embedding vectors: the inputs, and the loop that both engines run around their own computation.
//!
//! Rule: every vector has length 1, so that the dot product of two is their cosine similarity.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use crate::event::{FinishReason, Stats};
use crate::job_control::JobControl;
use crate::model_info::ModelInfo;

/// A text to embed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbedInput {
    /// A text, with the prefix that the model expects. The tokenizer adds its special tokens.
    Text(String),
    /// Token ids as they are.
    Tokens(Vec<u32>),
}

/// The embedding of one input.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// Number of tokens of the input.
    pub n_tokens: usize,
    /// The vector, of length 1.
    pub vector: Vec<f32>,
}

/// Returns the error of a request for vectors to a model that generates text.
pub fn not_an_embedding_model(info: &ModelInfo) -> EngineError {
    let expected = "an embedding model; this one generates text";
    EngineError::invalid_parameter("model", &info.name, expected)
}

/// Embeds `inputs` one after the other and passes each result to `sink`. `compute` returns the pooled
/// vector of some tokens, or `None` if the job was stopped. The engine adds the peak memory to the
/// statistics.
///
/// # Errors
/// [`EngineError::InvalidParameter`] before any work, for an input that is empty, too long or has
/// unknown ids; [`EngineError::Backend`] if `compute` fails or its numbers are not finite.
pub fn run(
    info: &ModelInfo,
    inputs: &[Vec<u32>],
    control: &JobControl,
    sink: &mut dyn FnMut(Embedding),
    mut compute: impl FnMut(&[u32]) -> Result<Option<Vec<f32>>, EngineError>,
) -> Result<(FinishReason, Stats), EngineError> {
    for (index, tokens) in inputs.iter().enumerate() {
        check(info, index + 1, tokens)?;
    }
    let start = Instant::now();
    let mut stats = Stats::default();
    let mut reason = FinishReason::Stop;
    for tokens in inputs {
        let vector = match control.is_stopped() {
            true => None,
            false => compute(tokens)?,
        };
        let Some(vector) = vector else {
            reason = control.stop_reason().unwrap_or(FinishReason::Canceled);
            break;
        };
        let n_tokens = tokens.len();
        stats.prompt_tokens += n_tokens;
        let vector = normalized(vector)?;
        sink(Embedding { n_tokens, vector });
    }
    stats.prefill_time = start.elapsed();
    Ok((reason, stats))
}

/// Checks the `number`-th input, counted from 1.
fn check(info: &ModelInfo, number: usize, tokens: &[u32]) -> Result<(), EngineError> {
    let wrong = |value: String, expected: String| EngineError::InvalidParameter {
        name: format!("input {number}").into(),
        value,
        expected: expected.into(),
    };
    if tokens.is_empty() {
        return Err(wrong("empty".to_owned(), "a text".to_owned()));
    }
    info.check_tokens(tokens)?;
    let most = info.context_length;
    if tokens.len() > most {
        let value = format!("{} tokens long", tokens.len());
        let expected = format!("at most {most} tokens for this model; split the text");
        return Err(wrong(value, expected));
    }
    Ok(())
}

/// Returns `vector` with length 1.
fn normalized(mut vector: Vec<f32>) -> Result<Vec<f32>, EngineError> {
    let squares = vector.iter().map(|&value| f64::from(value).powi(2));
    let length = squares.sum::<f64>().sqrt();
    if !length.is_finite() || length == 0.0 {
        let message = format!("the model computed a vector of length {length}");
        return Err(EngineError::backend("embedding", message));
    }
    for value in &mut vector {
        *value = (f64::from(*value) / length) as f32;
    }
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::SamplingParams;

    fn info() -> ModelInfo {
        ModelInfo {
            name: "embedder".to_owned(),
            architecture: "bert".to_owned(),
            engine: "test".to_owned(),
            n_parameters: 1,
            stored_as: String::new(),
            computed_as: String::new(),
            context_length: 4,
            vocab_size: 10,
            has_chat_template: false,
            draft: None,
            recommended_sampling: SamplingParams::default(),
        }
    }

    /// Embeds these tokens as the sum of the ids and a constant; returns the results and the end.
    fn embed(
        inputs: &[Vec<u32>],
        control: &JobControl,
    ) -> (Vec<Embedding>, Result<(FinishReason, Stats), EngineError>) {
        let mut results = Vec::new();
        let mut sink = |embedding| results.push(embedding);
        let end = run(&info(), inputs, control, &mut sink, |tokens| {
            // The second input stops the job.
            if tokens == [9] {
                control.cancel();
            }
            Ok(Some(vec![tokens.iter().sum::<u32>() as f32, 4.0]))
        });
        (results, end)
    }

    #[test]
    fn vectors_have_length_one_and_come_in_order() {
        let control = JobControl::new();
        let (results, end) = embed(&[vec![1, 2], vec![0]], &control);
        let (reason, stats) = end.unwrap();
        assert_eq!((reason, stats.prompt_tokens), (FinishReason::Stop, 3));
        let expected = [(2, vec![0.6, 0.8]), (1, vec![0.0, 1.0])];
        let found: Vec<_> = results
            .into_iter()
            .map(|one| (one.n_tokens, one.vector))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_canceled_job_ends_between_two_inputs() {
        let (results, end) = embed(&[vec![9], vec![1]], &JobControl::new());
        assert_eq!(results.len(), 1);
        assert_eq!(end.unwrap().0, FinishReason::Canceled);
    }

    #[test]
    fn a_bad_input_is_named_before_any_work() {
        let refusal = |input: Vec<u32>| {
            let (results, end) = embed(&[vec![1], input], &JobControl::new());
            assert!(results.is_empty());
            end.unwrap_err().to_string()
        };
        assert_eq!(refusal(Vec::new()), "input 2 is empty, but must be a text");
        assert_eq!(
            refusal(vec![1; 5]),
            "input 2 is 5 tokens long, but must be at most 4 tokens for this model; split the text"
        );
        assert!(refusal(vec![10]).starts_with("token is 10"));
    }

    #[test]
    fn a_vector_that_is_not_finite_is_an_error() {
        for bad in [f32::NAN, f32::INFINITY, 0.0] {
            let compute = |_: &[u32]| Ok(Some(vec![bad]));
            let end = run(
                &info(),
                &[vec![1]],
                &JobControl::new(),
                &mut |_| (),
                compute,
            );
            assert!(matches!(end, Err(EngineError::Backend { .. })), "{bad}");
        }
    }
}

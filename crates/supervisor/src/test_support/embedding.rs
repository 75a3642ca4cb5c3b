//! Embedding by a scripted worker. A token is a byte, and every vector is the same.

use transom_engine::{EmbedInput, FinishReason, Stats};
use transom_engine_host::wire::{JobId, JobSummary, Report};

use super::{End, Wait, WorkerTask, request_for};
use crate::request::{ModelRequest, ModelRole, Work};

/// The vector of every text.
pub const VECTOR: [f32; 2] = [0.6, 0.8];

/// Returns a request to embed `texts` with the embedding model of this name.
pub fn embed_request(name: &str, texts: &[&str]) -> ModelRequest {
    let inputs = texts
        .iter()
        .map(|text| EmbedInput::Text((*text).to_owned()));
    let mut request = request_for(name, Work::Embed(inputs.collect()));
    request.model.role = ModelRole::Embedder;
    request
}

impl WorkerTask {
    /// Embeds each input after the time of a token.
    pub(super) async fn embed(&mut self, job: JobId, inputs: &[EmbedInput]) -> Result<(), End> {
        let mut reason = FinishReason::Stop;
        let mut stats = Stats::default();
        for input in inputs {
            let interval = self.script.token_interval;
            if let Wait::Stopped(why) = self.wait(interval, Some(job)).await? {
                reason = why;
                break;
            }
            let n_tokens = match input {
                EmbedInput::Text(text) => text.len(),
                EmbedInput::Tokens(tokens) => tokens.len(),
            };
            stats.prompt_tokens += n_tokens;
            let vector = VECTOR.to_vec();
            self.report(Report::Embedded {
                job,
                n_tokens,
                vector,
            })
            .await;
        }
        let result = Ok(JobSummary {
            reason,
            stats,
            memory: self.memory(),
        });
        self.report(Report::JobEnded { job, result }).await;
        Ok(())
    }
}

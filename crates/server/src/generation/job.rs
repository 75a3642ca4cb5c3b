//! What a route asks for: prompts and parameters, in no protocol's words.

use transom_engine::{Constraint, GenerationParams, ModelInfo, Prompt, SamplingParams, Truncation};
use transom_engine_host::wire::Request;
use transom_supervisor::KeepAlive;

use crate::constraints::Constrained;
use crate::models::Model;

/// A request for responses, in no protocol's words.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) model: Model,
    /// Each prompt gets `n` choices.
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) n: usize,
    pub(crate) params: Params,
    /// [`Truncation::Disabled`] unless the request itself allows to drop messages.
    pub(crate) truncation: Truncation,
}

/// What a request sets. What it leaves out is the model's own recommendation, or the user's setting.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Params {
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<usize>,
    pub(crate) min_p: Option<f64>,
    pub(crate) repetition_penalty: Option<f64>,
    pub(crate) presence_penalty: Option<f64>,
    pub(crate) frequency_penalty: Option<f64>,
    pub(crate) logit_bias: Vec<(u32, f32)>,
    pub(crate) seed: Option<u64>,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) stop: Vec<String>,
    /// Reports the log probability of each token, with this number of most likely ones.
    pub(crate) logprobs: Option<u8>,
    /// What the text must match.
    pub(crate) constraint: Option<Constrained>,
    /// How long the model stays loaded after the last choice.
    pub(crate) keep_alive: Option<KeepAlive>,
}

impl Job {
    pub(super) fn request(&self, info: &ModelInfo, choice: usize) -> Request {
        let sampling = self.sampling(info, (choice % self.n) as u64);
        let prompt = self.model.routed(self.prompts[choice / self.n].clone());
        let grammar = self.params.constraint.as_ref();
        let grammar = grammar.map(|constraint| constraint.grammar.clone());
        let constraint = grammar.map(|grammar| match &prompt {
            Prompt::Chat(_) => Constraint::on_answer(grammar),
            Prompt::Text(_) | Prompt::Tokens(_) | Prompt::FillIn(_) => {
                Constraint::on_response(grammar)
            }
        });
        Request {
            prompt,
            truncation: self.truncation,
            params: GenerationParams {
                sampling,
                max_tokens: self.params.max_tokens,
                stop: self.params.stop.clone(),
                logprobs: self.params.logprobs,
                // Programs ask for several choices, or for values, without a next turn.
                read_ahead: self.n == 1 && constraint.is_none(),
                constraint,
                ..GenerationParams::default()
            },
        }
    }
}

impl Job {
    /// Returns the sampling of a choice: what the request sets, then its route, then the recommendation of
    /// the model's authors.
    pub(super) fn sampling(&self, info: &ModelInfo, choice: u64) -> SamplingParams {
        let recommended = &info.recommended_sampling;
        // Only prompts of text are more than one, and those are treated alike.
        let prompt = self.prompts.first();
        let of_route = prompt.and_then(|prompt| self.model.route_temperature(prompt));
        let recommended = SamplingParams {
            temperature: of_route.unwrap_or(recommended.temperature),
            ..recommended.clone()
        };
        self.params.sampling(&recommended, choice)
    }
}

impl Params {
    /// Returns `recommended`, with the values of the request in its place. Each choice of one seed
    /// has a seed of its own.
    pub(super) fn sampling(&self, recommended: &SamplingParams, choice: u64) -> SamplingParams {
        let or = |value: Option<f64>, otherwise: f32| value.map_or(otherwise, |value| value as f32);
        let seed = self.seed.map(|seed| seed.wrapping_add(choice));
        SamplingParams {
            temperature: or(self.temperature, recommended.temperature),
            top_k: self.top_k.unwrap_or(recommended.top_k),
            top_p: or(self.top_p, recommended.top_p),
            min_p: or(self.min_p, recommended.min_p),
            repetition_penalty: or(self.repetition_penalty, recommended.repetition_penalty),
            presence_penalty: or(self.presence_penalty, recommended.presence_penalty),
            frequency_penalty: or(self.frequency_penalty, recommended.frequency_penalty),
            logit_bias: match self.logit_bias.is_empty() {
                true => recommended.logit_bias.clone(),
                false => self.logit_bias.clone(),
            },
            seed: seed.or(recommended.seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_own_values_win() {
        let recommended = SamplingParams {
            temperature: 0.6,
            top_k: 20,
            ..SamplingParams::default()
        };
        let params = Params {
            temperature: Some(0.0),
            seed: Some(u64::MAX),
            ..Params::default()
        };
        let sampling = params.sampling(&recommended, 1);
        assert_eq!((sampling.temperature, sampling.top_k), (0.0, 20));
        assert_eq!(sampling.seed, Some(0));
        assert_eq!(Params::default().sampling(&recommended, 3), recommended);
    }
}

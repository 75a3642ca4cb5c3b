//! The options for responses, shared by `ask` and `chat`.
//!
//! Rule: without an option the recommendation of the model's authors counts
//! (`ModelInfo::recommended_sampling`). The engine checks the ranges.

use clap::Args;
use transom_engine::{EngineError, GenerationParams, SamplingParams};

/// The options for a response. Without one the model's own recommendation counts.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Response")]
pub(crate) struct GenerationArgs {
    /// Most tokens to generate [default: until the response or the context ends]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<usize>,

    /// End the response before this text; repeatable
    #[arg(long, value_name = "STRING")]
    pub(crate) stop: Vec<String>,

    /// Let a model that can reason do so before it responds [default: the model's own]
    #[arg(long, conflicts_with = "no_think")]
    pub(crate) think: bool,

    /// Respond without reasoning first
    #[arg(long)]
    pub(crate) no_think: bool,

    /// Turn speculative decoding off; responses are the same, at most slower
    #[arg(long)]
    pub(crate) no_speculation: bool,

    /// The options for sampling.
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
}

/// The options for the choice of the next token.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Sampling (defaults: what the model's authors recommend)")]
pub(crate) struct SamplingArgs {
    /// Higher is more varied; 0 always takes the likeliest token
    #[arg(short, long, value_name = "T", allow_negative_numbers = true, value_parser = number)]
    temperature: Option<f32>,

    /// Choose among the K likeliest tokens; 0 for all
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,

    /// Choose among the likeliest tokens that together reach probability P; 1 for all
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = number)]
    top_p: Option<f32>,

    /// Choose among tokens at least P times as likely as the likeliest; 0 for all
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = number)]
    min_p: Option<f32>,

    /// Make tokens of the prompt and the response less likely to be repeated; 1 changes nothing
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = number)]
    repetition_penalty: Option<f32>,

    /// Subtract X from the score of tokens already in the response; 0 changes nothing
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = number)]
    presence_penalty: Option<f32>,

    /// Subtract X for each time that a token is in the response; 0 changes nothing
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = number)]
    frequency_penalty: Option<f32>,

    /// Add BIAS to the score of token ID; repeatable
    #[arg(long, value_name = "ID=BIAS", value_parser = id_and_bias)]
    logit_bias: Vec<(u32, f32)>,

    /// Repeat a response: same seed, prompt and settings, same response on this computer and engine
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl GenerationArgs {
    /// Checks the values against the engine's ranges, before a model is loaded.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        // The vocabulary is not known yet; the engine checks token ids later.
        self.params(&SamplingParams::default()).validate(usize::MAX)
    }

    /// Returns the parameters for a model with this recommendation.
    pub(crate) fn params(&self, recommended: &SamplingParams) -> GenerationParams {
        GenerationParams {
            sampling: self.sampling.over(recommended),
            max_tokens: self.max_tokens,
            stop: self.stop.clone(),
            speculate: !self.no_speculation,
            ..GenerationParams::default()
        }
    }

    /// Returns whether the chat template enables reasoning; `None` leaves that to the template.
    pub(crate) fn enable_thinking(&self) -> Option<bool> {
        (self.think || self.no_think).then_some(self.think)
    }
}

impl SamplingArgs {
    /// Returns `recommended`, with the values of the options in its place.
    fn over(&self, recommended: &SamplingParams) -> SamplingParams {
        let mut params = recommended.clone();
        let set = |to: &mut f32, value: Option<f32>| *to = value.unwrap_or(*to);
        set(&mut params.temperature, self.temperature);
        set(&mut params.top_p, self.top_p);
        set(&mut params.min_p, self.min_p);
        set(&mut params.repetition_penalty, self.repetition_penalty);
        set(&mut params.presence_penalty, self.presence_penalty);
        set(&mut params.frequency_penalty, self.frequency_penalty);
        params.top_k = self.top_k.unwrap_or(params.top_k);
        params.seed = self.seed.or(params.seed);
        if !self.logit_bias.is_empty() {
            params.logit_bias.clone_from(&self.logit_bias);
        }
        params
    }
}

/// Parses any number. The engine checks its range.
fn number(text: &str) -> Result<f32, String> {
    text.parse()
        .map_err(|_| "must be a number, such as 0.7".into())
}

fn id_and_bias(text: &str) -> Result<(u32, f32), String> {
    let bad = || "must be a token id, `=` and a number, such as 42=-5".to_owned();
    let (id, bias) = text.split_once('=').ok_or_else(bad)?;
    let id = id.trim().parse().map_err(|_| bad())?;
    let bias = bias.trim().parse().map_err(|_| bad())?;
    Ok((id, bias))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        generation: GenerationArgs,
    }

    fn parse(flags: &[&str]) -> Result<GenerationArgs, clap::Error> {
        let arguments = ["transom"].iter().chain(flags);
        Only::try_parse_from(arguments).map(|only| only.generation)
    }

    #[test]
    fn options_override_the_models_recommendation() {
        let recommended = SamplingParams {
            temperature: 0.6,
            top_k: 20,
            ..SamplingParams::default()
        };
        let args = parse(&["--temperature", "0", "--seed", "7", "--logit-bias", "42=-5"]).unwrap();
        let sampling = args.params(&recommended).sampling;
        assert_eq!(sampling.temperature, 0.0);
        assert_eq!(sampling.top_k, 20);
        assert_eq!(sampling.seed, Some(7));
        assert_eq!(sampling.logit_bias, [(42, -5.0)]);
    }

    #[test]
    fn a_value_outside_its_range_is_refused_before_a_model_is_loaded() {
        for flags in [
            ["--temperature", "-1"],
            ["--temperature", "nan"],
            ["--top-p", "1.5"],
            ["--min-p", "-0.1"],
            ["--repetition-penalty", "0"],
            ["--max-tokens", "0"],
            ["--stop", ""],
        ] {
            let error = parse(&flags).unwrap().check().unwrap_err();
            let is_about_it = matches!(error, EngineError::InvalidParameter { .. });
            assert!(is_about_it, "{flags:?}: {error}");
        }
        assert_eq!(parse(&["--temperature", "0"]).unwrap().check(), Ok(()));
    }

    #[test]
    fn malformed_options_are_usage_errors() {
        for flags in [
            ["--logit-bias", "42"],
            ["--logit-bias", "x=1"],
            ["--max-tokens", "-1"],
            ["--temperature", "warm"],
        ] {
            assert!(parse(&flags).is_err(), "{flags:?}");
        }
        assert!(parse(&["--think", "--no-think"]).is_err());
    }

    #[test]
    fn an_option_turns_speculation_off() {
        let params = |flags: &[&str]| parse(flags).unwrap().params(&SamplingParams::default());
        assert!(params(&[]).speculate);
        assert!(!params(&["--no-speculation"]).speculate);
    }

    #[test]
    fn without_an_option_reasoning_is_left_to_the_template() {
        assert_eq!(parse(&[]).unwrap().enable_thinking(), None);
        assert_eq!(parse(&["--think"]).unwrap().enable_thinking(), Some(true));
        assert_eq!(
            parse(&["--no-think"]).unwrap().enable_thinking(),
            Some(false)
        );
    }
}

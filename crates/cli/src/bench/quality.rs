//! `transom bench --quality`: how well each form of a model predicts a fixed text.

use transom_bench::quality::{COMPARED_TOKENS, Divergence, Quality, ScoredToken, TEXT};
use transom_bench::{Measured, QualityReport};
use transom_engine::{
    FinishReason, GenerationParams, Prompt, SamplingParams, ScorePrompt, TokenEvent, TokenLogprobs,
    Truncation,
};
use transom_supervisor::ResponseEvent;

use crate::bench::{BenchArgs, finish};
use crate::library;
use crate::load::{Loaded, load_from};
use crate::output::{Table, numbers, stop_reason, words};
use crate::{Client, Console, Failure, Layout, Result};

pub(super) fn run(args: &BenchArgs, client: &Client, console: &mut Console) -> Result {
    let named = args.model.model.as_deref();
    let (library, model) = library::open_for(named, client, console)?;
    let mut forms = Vec::new();
    if let Some(reference) = &args.reference {
        let found = library.resolve(&reference.to_string_lossy())?;
        forms.extend(found.files.paths.first().cloned().map(|path| (found, path)));
    }
    for path in &model.files.paths {
        forms.push((model.clone(), path.clone()));
    }
    let mut reference: Option<Vec<ScoredToken>> = None;
    let mut reports = Vec::new();
    let mut failures = Vec::new();
    for (form_of, path) in forms {
        let scored = load_from(
            &library,
            form_of,
            Some(&path),
            &args.model,
            false,
            client,
            console,
        )
        .and_then(|loaded| {
            let scored = score(&loaded, reference.as_deref(), client, console)?;
            Ok((loaded.info, scored))
        });
        let (info, tokens) = match scored {
            Ok(scored) => scored,
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            // The other form may run here.
            Err(failure) => {
                console.note(&format!("{}: {failure}", path.display()));
                failures.push(failure);
                continue;
            }
        };
        let Some(quality) = Quality::new(&tokens) else {
            return Err(Failure::internal("the text has no tokens"));
        };
        let divergence = reference
            .as_deref()
            .and_then(|reference| Divergence::new(reference, &tokens));
        reports.push(QualityReport {
            model: info.name,
            engine: info.engine,
            stored_as: info.stored_as,
            computed_as: info.computed_as,
            is_reference: reference.is_none(),
            quality,
            divergence,
        });
        reference.get_or_insert(tokens);
    }
    if reports.is_empty() {
        let failure = failures.into_iter().next();
        return Err(failure.unwrap_or_else(|| Failure::internal("the model has no files")));
    }
    console.print_result(args.json, &reports, |reports, layout| text(reports, layout))?;
    let benchmark = library.benchmark(&model, Measured::Quality { forms: reports });
    finish(&benchmark, args.plot.as_deref(), client, console)
}

/// Scores the text. Also asks for the most likely tokens of the reference, if it has as many tokens.
fn score(
    loaded: &Loaded,
    reference: Option<&[ScoredToken]>,
    client: &Client,
    console: &mut Console,
) -> Result<Vec<ScoredToken>> {
    let ids = |token: &ScoredToken| -> Vec<u32> { token.top.iter().map(|(id, _)| *id).collect() };
    let (n_top, tokens) = match reference {
        Some(reference) => (1, reference.iter().map(ids).collect()),
        None => (COMPARED_TOKENS, Vec::new()),
    };
    let params = GenerationParams {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        ignore_end_of_text: true,
        speculate: false,
        logprobs: Some(n_top),
        score: Some(ScorePrompt { tokens }),
        ..GenerationParams::default()
    };
    let prompt = Prompt::Text(TEXT.to_owned());
    let request = loaded.request(prompt, Truncation::Disabled, params);
    let progress = console.progress();
    let (mut scored, mut bytes) = (Vec::new(), Vec::new());
    let completion = client.send(&request, &mut |event| {
        if let ResponseEvent::Token {
            event: TokenEvent::Text { logprobs, .. },
        } = event
        {
            for token in logprobs {
                bytes.extend_from_slice(&token.chosen.bytes);
                scored.push(scored_token(token));
            }
            let percent = bytes.len() * 100 / TEXT.len();
            progress.show(&format!("{}: {percent} % of the text", loaded.info.engine));
        }
        Ok(())
    })?;
    progress.clear();
    if completion.was_interrupted {
        return Err(Failure::Interrupted);
    }
    match completion.finished()?.0 {
        FinishReason::Canceled => return Err(Failure::failed("the model was unloaded")),
        FinishReason::Shed => return Err(Failure::failed(stop_reason(client))),
        FinishReason::Stop | FinishReason::Length => {}
    }
    // Only the first token is not predicted.
    let is_whole = TEXT.as_bytes().ends_with(&bytes) && bytes.len() + 32 >= TEXT.len();
    match is_whole {
        true => Ok(scored),
        false => Err(Failure::Failed(format!(
            "only {} of {} bytes of the text were scored; `transom status` shows the limits in force",
            bytes.len(),
            TEXT.len()
        ))),
    }
}

fn scored_token(token: TokenLogprobs) -> ScoredToken {
    let top = token.top.iter();
    ScoredToken {
        token: token.chosen.token,
        n_bytes: token.chosen.bytes.len(),
        logprob: token.chosen.logprob.into(),
        top: top.map(|one| (one.token, one.logprob.into())).collect(),
    }
}

fn text(reports: &[QualityReport], layout: Layout) -> String {
    let of = |value: fn(&Divergence) -> String, report: &QualityReport| match &report.divergence {
        Some(divergence) => value(divergence),
        None if report.is_reference => "reference".to_owned(),
        None => "other tokens".to_owned(),
    };
    let cells: Vec<[String; 6]> = reports
        .iter()
        .map(|report| {
            let quality = &report.quality;
            [
                format!("{} ({})", report.model, report.engine),
                format!("{}, {}", report.stored_as, report.computed_as),
                format!(
                    "{:.2} ± {:.2}",
                    quality.perplexity, quality.perplexity_error
                ),
                format!("{:.3}", quality.bits_per_byte),
                of(
                    |found| format!("{:.4} ± {:.4}", found.kl_nats, found.kl_error),
                    report,
                ),
                of(|found| format!("{:.1} %", found.same_top * 100.0), report),
            ]
        })
        .collect();
    let table = Table::new([
        words("FORM", |cells: &[String; 6]| cells[0].clone()),
        words("WEIGHTS", |cells: &[String; 6]| cells[1].clone()).optional(1),
        numbers("PERPLEXITY", "perplexity ", |cells| cells[2].clone()),
        numbers("BITS/BYTE", "bits per byte ", |cells| cells[3].clone()),
        numbers("KL (NATS)", "KL divergence ", |cells| cells[4].clone()),
        numbers("SAME TOKEN", "same token ", |cells| cells[5].clone()),
    ]);
    table.with(&cells).text(layout)
}

#[cfg(test)]
mod tests;

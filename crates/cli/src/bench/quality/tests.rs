use serde_json::Value;

use super::*;
use crate::failure;
use crate::load::ModelArgs;
use crate::test_console::TestConsole;
use crate::test_engine::TestEngine;
use crate::test_engine::scoring::LOGPROB;

fn bench(args: &BenchArgs, engine: &TestEngine) -> (u8, String, String) {
    let mut streams = TestConsole::default();
    let mut console = streams.console();
    let result = run(args, &engine.client(), &mut console);
    let code = failure::report(result, console.err);
    (code, streams.out_text(), streams.err_text())
}

fn args(json: bool) -> BenchArgs {
    BenchArgs {
        json,
        quality: true,
        reference: Some("./reference.gguf".into()),
        model: ModelArgs {
            model: Some("./scripted".into()),
            ..ModelArgs::default()
        },
        ..BenchArgs::default()
    }
}

/// Every word has the same probability, so the results are known.
#[test]
fn the_whole_text_is_scored_in_each_form_and_compared_with_the_reference() {
    let engine = TestEngine::answering(&[]);
    let (code, out, err) = bench(&args(true), &engine);
    assert_eq!(code, 0, "{err}");
    let reports: Value = serde_json::from_str(&out).unwrap();
    let reports = reports.as_array().unwrap();
    assert_eq!(reports.len(), 2);
    for report in reports {
        let perplexity = report["perplexity"].as_f64().unwrap();
        assert!((perplexity - f64::from(-LOGPROB).exp()).abs() < 1e-6);
        assert_eq!(report["perplexity_error"], 0.0);
        let first = TEXT.split_inclusive(char::is_whitespace).next().unwrap();
        assert_eq!(report["n_bytes"], TEXT.len() - first.len());
    }
    assert_eq!(reports[0]["is_reference"], true);
    assert!(reports[0]["divergence"].is_null());
    assert_eq!(reports[1]["divergence"]["kl_nats"], 0.0);
    assert_eq!(reports[1]["divergence"]["same_top"], 1.0);
    // The second form was asked for the tokens that the first one found likely.
    let params = engine.requests.params.lock().unwrap();
    let lists: Vec<usize> = params
        .iter()
        .map(|params| params.score.as_ref().unwrap().tokens.len())
        .collect();
    assert_eq!(lists[0], 0);
    assert_eq!(lists[1], reports[0]["n_tokens"].as_u64().unwrap() as usize);
}

#[test]
fn the_table_names_the_reference() {
    let engine = TestEngine::answering(&[]);
    let (_, out, _) = bench(&args(false), &engine);
    assert!(
        out.contains("reference") && out.contains("100.0 %"),
        "{out}"
    );
}

#[test]
fn a_form_that_fails_is_noted_and_does_not_stop_the_others() {
    let mut engine = TestEngine::answering(&[]);
    engine.load_error = Some(transom_engine::EngineError::Backend {
        during: "load".into(),
        message: "no".into(),
    });
    let (code, out, err) = bench(&args(false), &engine);
    assert_ne!(code, 0);
    assert_eq!(out, "");
    assert_eq!(err.matches("reference.gguf").count(), 1, "{err}");
}

use serde_json::Value;

use super::*;
use crate::bench::tests::{args, bench, output_of};
use crate::test_engine::TestEngine;
use crate::test_engine::scoring::LOGPROB;

fn quality(json: bool) -> BenchArgs {
    BenchArgs {
        json,
        quality: true,
        reference: Some("./reference.gguf".into()),
        ..args()
    }
}

/// Every word has the same probability, so the results are known.
#[test]
fn the_whole_text_is_scored_in_each_form_and_compared_with_the_reference() {
    let engine = TestEngine::answering(&[]);
    let (code, out, err) = bench(&quality(true), &engine);
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
    let (_, out, _) = bench(&quality(false), &engine);
    assert!(
        out.contains("reference") && out.contains("100.0 %"),
        "{out}"
    );
}

#[test]
fn the_result_is_saved_and_drawn() {
    let root = tempfile::tempdir().unwrap();
    let plot = root.path().join("plot.svg");
    let args = BenchArgs {
        plot: Some(plot.clone()),
        ..quality(false)
    };
    let client = TestEngine::answering(&[]).client();
    let client = client.with_data_folder(root.path());
    let (code, _, err) = output_of(|console| run(&args, &client, console));
    assert_eq!(code, 0, "{err}");
    let saved = transom_library::benchmarks::read(root.path());
    let [one] = &saved[..] else {
        panic!("{saved:?}");
    };
    assert!(one.model_id.ends_with("scripted"), "{one:?}");
    assert_eq!(std::fs::read_to_string(plot).unwrap(), one.svg());
}

#[test]
fn a_form_that_fails_is_noted_and_does_not_stop_the_others() {
    let mut engine = TestEngine::answering(&[]);
    engine.load_error = Some(transom_engine::EngineError::Backend {
        during: "load".into(),
        message: "no".into(),
    });
    let (code, out, err) = bench(&quality(false), &engine);
    assert_ne!(code, 0);
    assert_eq!(out, "");
    assert_eq!(err.matches("reference.gguf").count(), 1, "{err}");
}

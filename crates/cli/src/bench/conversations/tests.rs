use serde_json::Value;
use transom_signals::SystemSignals;

use super::*;
use crate::failure;
use crate::load::ModelArgs;
use crate::test_console::TestConsole;
use crate::test_engine::TestEngine;

fn args() -> BenchArgs {
    BenchArgs {
        conversations: true,
        prompt_tokens: vec![300],
        model: ModelArgs {
            model: Some("./scripted".into()),
            ..ModelArgs::default()
        },
        ..BenchArgs::default()
    }
}

/// The scripted model with a context of 4,000 words.
fn engine() -> TestEngine {
    let mut engine = TestEngine::answering(&[]);
    engine.info.context_length = 4000;
    engine
}

fn bench(args: &BenchArgs, engine: &TestEngine) -> (u8, String, String) {
    let client = engine.client();
    let mut streams = TestConsole::default();
    let mut console = streams.console();
    let start = |tuning| engine.supervisor(SystemSignals::default(), tuning);
    let result = run(args, &client, start, &mut console);
    let code = failure::report(result, console.err);
    let status = client.status().unwrap();
    assert!(status.models.is_empty(), "the running instance was used");
    (code, streams.out_text(), streams.err_text())
}

/// The scripted model keeps one conversation in memory and none on the disk. It reads 1,000 tokens a
/// second.
#[test]
fn every_case_is_measured_and_compared_with_a_cold_read() {
    let engine = engine();
    let args = BenchArgs {
        json: true,
        ..args()
    };
    let (code, out, err) = bench(&args, &engine);
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["model"], "scripted");
    assert_eq!(report["context_length"], 4000);
    assert_eq!(report["prompt_tokens"], 300);
    let cases = report["cases"].as_array().unwrap();
    let names = cases.iter().map(|case| case["case"].clone());
    let kinds = CaseKind::ALL.map(|kind| serde_json::to_value(kind).unwrap());
    assert_eq!(names.collect::<Vec<_>>(), kinds);

    let case = |kind: CaseKind| {
        let name = serde_json::to_value(kind).unwrap();
        cases.iter().find(|case| case["case"] == name).unwrap()
    };
    let second = case(CaseKind::SecondTurn);
    assert_eq!(second["new_tokens"], 48, "a response and a question");
    assert_eq!(second["reread_tokens"], 0);
    assert_eq!(second["cold_ttft_seconds"], 0.348);
    assert!(second["ratio"].as_f64().unwrap() < 0.14);
    for kind in [
        CaseKind::IdleUnload,
        CaseKind::SwitchAndUnload,
        CaseKind::PauseAndResume,
        CaseKind::Restart,
    ] {
        let case = case(kind);
        assert_eq!(case["reread_tokens"], 300, "{case}");
        assert_eq!(case["ratio"], 1.0, "{case}");
        assert!(case["load_time_seconds"].is_number(), "{case}");
    }
    assert!(second["load_time_seconds"].is_null());
    assert_eq!(
        case(CaseKind::Overflow)["turns"].as_array().unwrap().len(),
        10
    );
    assert_eq!(engine.n_loads(), 5);
    for params in engine.requests.params.lock().unwrap().iter() {
        assert!(params.ignore_end_of_text && params.shift_context && !params.speculate);
        assert_eq!(params.sampling.seed, Some(0));
        assert!(params.conversation.is_some());
    }
}

#[test]
fn the_token_counts_are_the_same_in_every_run() {
    let tokens = || {
        let args = BenchArgs {
            json: true,
            ..args()
        };
        let (_, out, _) = bench(&args, &engine());
        let report: Value = serde_json::from_str(&out).unwrap();
        let cases = report["cases"].as_array().unwrap().clone();
        let turns = cases.into_iter().flat_map(|case| {
            let turns = case["turns"].as_array().unwrap().clone();
            turns.into_iter().map(|turn| {
                ["prompt_tokens", "cached_tokens", "new_tokens"].map(|name| turn[name].clone())
            })
        });
        turns.collect::<Vec<_>>()
    };
    assert_eq!(tokens(), tokens());
}

#[test]
fn the_table_has_a_row_for_each_case() {
    let (code, out, err) = bench(&args(), &engine());
    assert_eq!(code, 0, "{err}");
    for kind in CaseKind::ALL {
        let title = title(kind);
        assert!(
            out.lines().any(|line| line.starts_with(title)),
            "{title}\n{out}"
        );
    }
    assert!(out.contains("of 10 turns read more than 30 %"), "{out}");
    assert!(!out.contains("WRITTEN"), "nothing was written\n{out}");
}

#[test]
fn a_list_of_lengths_a_short_context_and_a_model_without_a_template_are_refused() {
    let several = BenchArgs {
        prompt_tokens: vec![100, 200],
        ..args()
    };
    let (code, _, err) = bench(&several, &engine());
    assert_eq!(code, 2);
    assert!(err.contains("one length"), "{err}");

    let mut narrow = engine();
    narrow.info.context_length = 1000;
    let (code, _, err) = bench(&args(), &narrow);
    assert_eq!(code, 2);
    assert!(err.contains("holds 1000 tokens"), "{err}");

    let mut base = engine();
    base.info.has_chat_template = false;
    let (code, _, err) = bench(&args(), &base);
    assert_eq!(code, 3);
    assert!(err.contains("no chat template"), "{err}");
}

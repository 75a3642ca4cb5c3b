use serde_json::Value;
use transom_signals::SystemSignals;

use super::*;
use crate::failure;
use crate::test_console::TestConsole;
use crate::test_engine::TestEngine;

pub(super) fn args() -> BenchArgs {
    BenchArgs {
        prompt_tokens: vec![100],
        generate_tokens: 11,
        runs: 3,
        warmup: 1,
        model: ModelArgs {
            model: Some("./scripted".into()),
            ..ModelArgs::default()
        },
        ..BenchArgs::default()
    }
}

/// Runs the command. Returns its exit code, and what it wrote to both streams.
pub(super) fn bench(args: &BenchArgs, engine: &TestEngine) -> (u8, String, String) {
    output_of(|console| run(args, &engine.client(), console))
}

/// Returns the exit code of a command, and what it wrote to both streams.
pub(super) fn output_of(command: impl FnOnce(&mut Console) -> Result) -> (u8, String, String) {
    let mut streams = TestConsole::default();
    let mut console = streams.console();
    let result = command(&mut console);
    let code = failure::report(result, console.err);
    (code, streams.out_text(), streams.err_text())
}

/// The scripted model reads 1,000 tokens a second and writes 500.
#[test]
fn the_json_has_every_field_and_the_warm_up_does_not_count() {
    let engine = TestEngine::answering(&[]);
    let args = BenchArgs {
        json: true,
        ..args()
    };
    let (code, out, _) = bench(&args, &engine);
    assert_eq!(code, 0);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["model"], "scripted");
    assert_eq!(report["engine"], "test");
    assert_eq!(report["computed_as"], "words");
    assert_eq!(report["prompt_tokens"], 100);
    assert_eq!(report["generate_tokens"], 11);
    assert_eq!(report["runs"].as_array().unwrap().len(), 3);
    assert_eq!(report["median"]["ttft_seconds"], 0.1);
    assert_eq!(report["min"]["prefill_tokens_per_second"], 1000.0);
    assert_eq!(report["max"]["decode_tokens_per_second"], 500.0);
    assert_eq!(report["peak_memory_bytes"], 42_000_000);
    assert!(report.get("turn2").is_none());
    assert_eq!(engine.requests.params.lock().unwrap().len(), 4);
}

#[test]
fn responses_are_greedy_with_a_fixed_length_and_prompts_share_no_prefix() {
    let engine = TestEngine::answering(&[]);
    bench(&args(), &engine);
    for params in engine.requests.params.lock().unwrap().iter() {
        assert_eq!(params.sampling.temperature, 0.0);
        assert_eq!(params.max_tokens, Some(11));
        assert!(params.ignore_end_of_text);
        assert!(!params.speculate && !params.shift_context);
    }
    let prompts = engine.requests.prompts.lock().unwrap();
    let first_tokens: std::collections::HashSet<u32> = prompts
        .iter()
        .map(|prompt| match prompt {
            Prompt::Tokens(tokens) => {
                assert!(tokens.iter().all(|token| *token < 500));
                assert!(tokens.windows(2).any(|pair| pair[0] != pair[1]));
                tokens[0]
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(first_tokens.len(), prompts.len());
}

/// The scripted model drafts 8 tokens of each response, 4 of them correctly.
#[test]
fn guesses_are_counted_only_with_the_option() {
    let engine = TestEngine::answering(&[]);
    let mut args = BenchArgs {
        json: true,
        ..args()
    };
    let (_, out, _) = bench(&args, &engine);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert!(report.get("speculation").is_none());

    args.speculation = true;
    let (_, out, _) = bench(&args, &engine);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["speculation"]["drafted_tokens"], 24);
    assert_eq!(report["speculation"]["accepted_tokens"], 12);

    args.json = false;
    let (_, out, _) = bench(&args, &engine);
    assert!(out.contains("12 of 24 draft tokens accepted"), "{out}");
}

#[test]
fn the_second_turn_contains_the_first_and_twenty_tokens() {
    let engine = TestEngine::answering(&[]);
    let args = BenchArgs {
        json: true,
        turn2: true,
        ..args()
    };
    let (code, out, err) = bench(&args, &engine);
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let turn2 = &report["turn2"]["runs"][0];
    assert_eq!(turn2["prompt_tokens"], 100 + 11 + 20);
    assert_eq!(turn2["cached_tokens"], 100 + 10);
    assert_eq!(report["turn2"]["median_second_ttft_seconds"], 0.021);
    assert_eq!(report["turn2"]["median_ratio"], 0.21);
}

#[test]
fn the_table_has_a_row_for_each_measurement_and_prompt_length() {
    let engine = TestEngine::answering(&[]);
    let args = BenchArgs {
        prompt_tokens: vec![100, 200],
        turn2: true,
        ..args()
    };
    let (_, out, _) = bench(&args, &engine);
    for row in ["pp100 ", "pp200 ", "tg11 ", "ttft ", "ttft 2 ", "memory "] {
        assert!(
            out.lines().any(|line| line.starts_with(row)),
            "{row}\n{out}"
        );
    }
    assert_eq!(out.matches("scripted: qwen3, 26.0M parameters").count(), 1);
    assert!(
        out.contains("1000 tok/s") && out.contains("500 tok/s"),
        "{out}"
    );
}

#[test]
fn lengths_beyond_the_context_are_refused() {
    let engine = TestEngine::answering(&[]);
    let args = BenchArgs {
        prompt_tokens: vec![100, 995],
        ..args()
    };
    let (code, _, err) = bench(&args, &engine);
    assert_eq!(code, 2);
    assert!(
        err.contains("need a context of 1006 tokens, but it holds 1000"),
        "{err}"
    );
}

/// Figures of a limited machine come with a note.
#[test]
fn limits_are_noted_and_long_responses_refused() {
    let mut engine = TestEngine::answering(&[]);
    engine.info.context_length = 100_000;
    let low_power = SystemSignals {
        is_low_power: true,
        ..SystemSignals::default()
    };
    let client = engine.client_on(low_power);
    let bench = |generate_tokens: usize| {
        let args = BenchArgs {
            generate_tokens,
            ..args()
        };
        let (code, _, err) = output_of(|console| run(&args, &client, console));
        (code, err)
    };
    let (code, err) = bench(11);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("is limited now (Low Power Mode)"), "{err}");
    let (code, err) = bench(5000);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("5000 tokens are not allowed now"), "{err}");
}

#[derive(clap::Parser)]
struct Only {
    #[command(flatten)]
    bench: BenchArgs,
}

/// Parses the arguments of the command.
fn parsed(arguments: &[&str]) -> Result<BenchArgs, clap::Error> {
    let arguments = std::iter::once(&"bench").chain(arguments);
    let only: Result<Only, clap::Error> = clap::Parser::try_parse_from(arguments);
    only.map(|only| only.bench)
}

#[test]
fn the_app_measures_the_same_lengths_as_the_command() {
    let args = parsed(&["--sustained", "2"]).unwrap();
    let usual = transom_bench::SustainedOptions::new(args.sustained.unwrap());
    assert_eq!(args.prompt_tokens, [usual.prompt_tokens]);
    assert_eq!(args.generate_tokens, usual.generate_tokens);
}

#[test]
fn a_plot_needs_a_result_that_can_be_drawn() {
    assert!(parsed(&["--plot", "a.svg"]).is_err());
    assert!(parsed(&["--plot", "a.svg", "--conversations"]).is_err());
    for drawn in [&["--quality"][..], &["--sustained", "1"]] {
        let args = parsed(&[&["--plot", "a.svg"], drawn].concat()).unwrap();
        assert_eq!(args.plot, Some("a.svg".into()));
    }
    assert!(parsed(&["--quality", "--sustained", "1"]).is_err());
}

#[test]
fn a_schema_is_measured_in_pairs_of_as_many_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    std::fs::write(&path, r#"{"type": "object"}"#).unwrap();
    let engine = TestEngine::answering(&[]);
    let mut args = BenchArgs {
        schema: Some(path.clone()),
        json: true,
        ..args()
    };
    let (code, out, err) = bench(&args, &engine);
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["pairs"].as_array().unwrap().len(), 3);
    assert_eq!(report["pairs"][0]["tokens"], 11);
    assert_eq!(report["median_ratio"], 1.0);
    assert_eq!(report["median_delay_ms"], 0.0);
    let requests = engine.requests.params.lock().unwrap().clone();
    assert_eq!(requests.len(), 8, "a warm-up and three runs, each a pair");
    let mut schemas = std::collections::HashSet::new();
    for pair in requests.chunks(2) {
        let constraint = pair[0].constraint.as_ref().expect("the schema comes first");
        schemas.insert(format!("{:?}", constraint.grammar));
        assert!(!pair[0].ignore_end_of_text && !pair[0].may_speculate());
        assert!(pair[0].writes_forced_text(), "as in every response");
        assert!(pair[1].constraint.is_none() && pair[1].ignore_end_of_text);
        assert_eq!(pair[1].max_tokens, Some(11));
    }
    assert_eq!(schemas.len(), 4, "each run compiles its own");

    args.json = false;
    let (_, out, _) = bench(&args, &engine);
    assert!(out.contains("1.00x the speed of a free response"), "{out}");
    std::fs::write(&path, "[1]").unwrap();
    let (code, _, err) = bench(&args, &engine);
    assert_eq!(code, 2);
    assert!(err.contains("a schema is a JSON object"), "{err}");
}

use std::cell::Cell;

use serde_json::Value;
use transom_bench::sustained::{Energy, Prediction};
use transom_terminal::Interrupt;

use super::*;
use crate::Layout;
use crate::bench::tests::{args, output_of};
use crate::test_engine::{Reply, TestEngine};

fn sustained() -> BenchArgs {
    BenchArgs {
        prompt_tokens: vec![20],
        generate_tokens: 101,
        json: true,
        ..args()
    }
}

/// Runs the command with a clock that advances by a second whenever it is read.
fn bench(args: &BenchArgs, length: u64, client: &Client) -> (u8, String, String) {
    let time = Cell::new(Duration::ZERO);
    let clock = || {
        time.set(time.get() + Duration::from_secs(1));
        time.get()
    };
    let length = Duration::from_secs(length);
    output_of(|console| run(args, length, &clock, client, console))
}

/// The scripted model writes 500 tokens a second.
#[test]
fn speeds_are_reported_for_every_ten_seconds() {
    let engine = TestEngine::answering(&[]);
    let (code, out, err) = bench(&sustained(), 60, &engine.client());
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let windows = report["windows"].as_array().unwrap();
    assert!((6..=7).contains(&windows.len()), "{out}");
    assert_eq!(windows[1]["start_seconds"], 10.0);
    assert_eq!(windows[1]["thermal"], "nominal");
    let speed = report["minutes"][0]["tokens_per_second"].as_f64().unwrap();
    assert!((speed - 500.0).abs() < 1e-6, "{out}");
    assert!(report["throttling"].is_null() && report["ended_early"].is_null());
    assert_eq!(report["settings"]["generate_tokens"], 101);
    assert_eq!(report["settings"]["weight_bytes"], 15_000_000);
    for params in engine.requests.params.lock().unwrap().iter() {
        assert!(params.ignore_end_of_text && !params.speculate);
        assert_eq!(params.max_tokens, Some(101));
    }
}

#[test]
fn the_report_and_the_plot_are_written() {
    let root = tempfile::tempdir().unwrap();
    let engine = TestEngine::answering(&[]);
    let client = engine.client().with_data_folder(root.path());
    let plot = root.path().join("plot.svg");
    let args = BenchArgs {
        json: false,
        plot: Some(plot.clone()),
        ..sustained()
    };
    let (code, out, err) = bench(&args, 30, &client);
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.matches("scripted (test)").count(), 1, "{out}");
    assert!(
        out.contains("throttling") && out.contains("energy"),
        "{out}"
    );
    assert_eq!(engine.n_loads(), 1);
    let image = std::fs::read_to_string(plot).unwrap();
    assert_eq!(image.matches("<polyline").count(), 1);
    assert!(err.contains("plot.svg"), "{err}");
    let saved = transom_library::benchmarks::read(root.path());
    assert_eq!(saved.len(), 1);
    assert_eq!(saved[0].svg(), image);
}

#[test]
fn ctrl_c_shows_what_was_measured() {
    let interrupt = Interrupt::default();
    let pressed = interrupt.clone();
    let press = std::sync::Arc::new(move || _ = pressed.press());
    let warm_up = || Reply::Says(vec![(transom_engine::Section::Answer, "a")]);
    let engine = TestEngine::replying([
        warm_up(),
        warm_up(),
        warm_up(),
        Reply::Hooked(vec!["a", "b"], 1, press),
    ]);
    let (code, out, _) = bench(&sustained(), 3600, &engine.client_with(&interrupt));
    assert_eq!(code, 130);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["ended_early"], "interrupted");
    assert!(!report["windows"].as_array().unwrap().is_empty(), "{out}");
}

#[test]
fn lengths_are_checked_before_anything_runs() {
    let engine = TestEngine::answering(&[]);
    let several = BenchArgs {
        prompt_tokens: vec![20, 30],
        ..sustained()
    };
    let (code, _, err) = bench(&several, 60, &engine.client());
    assert_eq!(code, 2, "{err}");
    assert_eq!(engine.n_loads(), 0);
    let too_long = BenchArgs {
        prompt_tokens: vec![990],
        ..sustained()
    };
    let (code, _, err) = bench(&too_long, 60, &engine.client());
    assert_eq!(code, 2);
    assert!(err.contains("need a context of 1091 tokens"), "{err}");
}

#[test]
fn minutes_are_a_positive_number() {
    let minutes = super::super::minutes;
    assert_eq!(minutes("2"), Ok(Duration::from_secs(120)));
    assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
    for bad in ["0", "-1", "many", "", "inf", "NaN", "1441"] {
        assert!(minutes(bad).is_err(), "{bad}");
    }
}

#[test]
fn tokens_per_joule_and_a_far_off_prediction_are_shown_and_an_unknown_energy_says_why() {
    let engine = TestEngine::answering(&[]);
    let (_, out, _) = bench(&sustained(), 60, &engine.client());
    let mut measured: SustainedReport = serde_json::from_str(&out).unwrap();
    let mut text = |energy, high| {
        measured.energy = energy;
        measured.energy_problem = Some("no counters".to_owned());
        measured.prediction = Prediction::new(100.0, high, &measured.windows);
        report::text(&measured, Layout::default())
    };
    let energy = Energy {
        joules: 100.0,
        watts: 12.5,
        tokens_per_joule: 2.75,
    };
    let known = text(Some(energy), 450.0);
    assert!(known.contains("2.75 tokens per joule, 12.5 W"), "{known}");
    assert!(known.contains("100 to 450 tok/s, 500 measured"), "{known}");
    let unknown = text(None, 300.0);
    assert!(unknown.contains("unknown: no counters"), "{unknown}");
    assert!(!unknown.contains("per joule"), "{unknown}");
    assert!(
        unknown.contains("100 to 300 tok/s, FAR OFF: 500 measured"),
        "{unknown}"
    );
}

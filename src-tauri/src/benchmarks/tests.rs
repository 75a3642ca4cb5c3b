use std::cell::RefCell;
use std::sync::OnceLock;

use transom_engine::test_support::{Script, ScriptedEngine, Step};
use transom_engine::{Engine, EngineError};
use transom_engine_host::ThreadWorkers;
use transom_library::test_support::{computer, library};
use transom_signals::{Hardware, ScriptedSignals, SystemSignals};
use transom_supervisor::{Supervisor, Tuning};

use super::*;

fn progress(seconds: u64) -> BenchmarkProgress {
    BenchmarkProgress {
        model: "Starter".to_owned(),
        engine: Some("mlx".to_owned()),
        seconds,
        total_seconds: 60,
    }
}

#[test]
fn one_benchmark_runs_at_a_time() {
    let benchmarks = Benchmarks::default();
    assert!(!benchmarks.set_progress(&progress(1)), "none runs");
    let stop = benchmarks.begin().unwrap();
    assert!(benchmarks.begin().is_err());
    assert!(benchmarks.set_progress(&progress(1)));
    assert!(!benchmarks.set_progress(&progress(1)), "pages know it");
    assert!(benchmarks.set_progress(&progress(2)));
    assert_eq!(benchmarks.progress(), Some(progress(2)));
    benchmarks.stop();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(stop.notified());
    benchmarks.end();
    assert_eq!(benchmarks.progress(), None);
    benchmarks.begin().unwrap();
}

#[test]
fn a_file_has_the_name_of_the_model_and_what_was_measured() {
    let benchmark = Benchmark {
        model_id: String::new(),
        model: "Qwen3 4B · 4-bit/..".to_owned(),
        chip: String::new(),
        version: String::new(),
        ended_at: 0,
        measured: Measured::Quality { forms: Vec::new() },
    };
    let name = file_name(&benchmark, BenchmarkFormat::Svg);
    assert_eq!(name, "Qwen3 4B  4-bit.. quality.svg");
}

/// Measures a model with two forms, which both follow this script. Returns the result and the progress.
fn measured(
    script: Script,
    length: Duration,
    stop: &Notify,
) -> (CommandResult<Option<Benchmark>>, Vec<BenchmarkProgress>) {
    measured_with(&OnceLock::new(), script, length, stop)
}

/// As [`measured`], with a place for the handle of the supervisor.
fn measured_with(
    supervisor_handle: &OnceLock<Handle>,
    script: Script,
    length: Duration,
    stop: &Notify,
) -> (CommandResult<Option<Benchmark>>, Vec<BenchmarkProgress>) {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path(), computer());
    let mut model = library.resolve("./scripted").unwrap();
    model.files.paths.push("./other".into());
    let engines = move || -> Vec<Box<dyn Engine>> {
        let script = script.clone();
        vec![Box::new(ScriptedEngine { script })]
    };
    let progress = RefCell::new(Vec::new());
    let on_progress = |now| progress.borrow_mut().push(now);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = runtime.unwrap().block_on(async {
        let workers = Arc::new(ThreadWorkers::new(engines));
        let signals = Arc::new(ScriptedSignals::new(SystemSignals::default()));
        let supervisor =
            Supervisor::start(workers, signals, &Hardware::detect(), Tuning::default());
        let handle = supervisor_handle
            .get_or_init(|| supervisor.handle())
            .clone();
        measure(&handle, &library, &model, length, stop, on_progress).await
    });
    (result, progress.take())
}

fn forms(benchmark: Option<Benchmark>) -> Vec<SustainedReport> {
    match benchmark.unwrap().measured {
        Measured::Sustained { forms } => forms,
        other @ Measured::Quality { .. } => panic!("{other:?}"),
    }
}

#[test]
fn each_form_is_measured_for_the_whole_time() {
    let script = Script::responding(["a", "b", "c"]);
    let (result, progress) = measured(script, Duration::from_millis(5), &Notify::new());
    let forms = forms(result.unwrap());
    assert_eq!(forms.len(), 2);
    for form in &forms {
        assert_eq!(form.engine, "scripted");
        assert_eq!(form.ended_early, None);
        assert_eq!(form.settings.context_length, 1024);
        assert!(!form.windows.is_empty());
    }
    let engines = progress.iter().map(|now| now.engine.is_some());
    let mut engines: Vec<bool> = engines.collect();
    engines.dedup();
    assert_eq!(
        engines,
        [false, true, false, true],
        "each form is loaded first"
    );
}

#[test]
fn a_stop_keeps_what_was_measured_and_leaves_out_the_other_form() {
    let stop = Arc::new(Notify::new());
    let on_call = stop.clone();
    let token = || Step::Token(b"a".to_vec());
    let press = Step::Call(Arc::new(move || on_call.notify_one()));
    let warm_up = vec![token(), token()];
    let script = Script {
        responses: vec![warm_up, vec![token(), token(), press, token()]],
        ..Script::default()
    };
    let (result, _) = measured(script, Duration::from_secs(3600), &stop);
    let forms = forms(result.unwrap());
    assert_eq!(forms.len(), 1);
    assert_eq!(forms[0].ended_early, Some(EarlyEnd::Interrupted));
    assert!(!forms[0].windows.is_empty());
}

#[test]
fn a_pause_keeps_what_was_measured() {
    let handle = Arc::<OnceLock<Handle>>::default();
    let on_call = handle.clone();
    let pause = Step::Call(Arc::new(move || {
        if let Some(handle) = on_call.get() {
            handle.set_paused(true);
        }
    }));
    let token = || Step::Token(b"a".to_vec());
    let script = Script {
        responses: vec![vec![token()], vec![token(), token(), pause, token()]],
        ..Script::default()
    };
    let length = Duration::from_secs(3600);
    let (result, _) = measured_with(&handle, script, length, &Notify::new());
    let forms = forms(result.unwrap());
    assert_eq!(forms.len(), 1);
    assert_eq!(forms[0].ended_early, Some(EarlyEnd::Unloaded));
    assert!(!forms[0].windows.is_empty());
}

#[test]
fn a_stop_during_the_load_leaves_no_result() {
    let stop = Notify::new();
    stop.notify_one();
    let script = Script::responding(["a"]);
    let (result, _) = measured(script, Duration::from_secs(3600), &stop);
    assert!(result.unwrap().is_none());
}

#[test]
fn the_error_is_reported_if_no_engine_runs_the_model() {
    let script = Script {
        load_error: Some(EngineError::Backend {
            during: "load".to_owned(),
            message: "no".to_owned(),
        }),
        ..Script::default()
    };
    let (result, progress) = measured(script, Duration::from_secs(3600), &Notify::new());
    assert!(result.is_err());
    assert_eq!(progress.len(), 2, "both forms were tried");
}

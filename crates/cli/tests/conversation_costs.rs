//! How many tokens turns of conversations read again, with both engines and all kinds of layers: the
//! cases of `transom bench --conversations` with real child processes and small models.
//!
//! Rule: only counts of tokens decide, never times. `LIMITS` is the one place to tighten.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use transom_bench::{Case, CaseKind, ConversationBench, Options, Report};
use transom_catalog::test_support::{Quantization, TinyModel};
use transom_engine::ModelSource;
use transom_engine_host::{ProcessWorkers, child};
use transom_signals::{Hardware, ScriptedSignals};
use transom_supervisor::{ModelRole, ModelSpec, SavingLimits, Supervisor, Tuning};

/// The most that a case may read again.
#[derive(Debug, Clone, Copy)]
enum Limit {
    /// This number of tokens.
    Tokens(usize),
    /// More than 30 % of the prompt, in this number of turns.
    Turns(usize),
    /// The whole prompt.
    Prompt,
}

use Limit::{Prompt, Tokens, Turns};

/// The limits of each case: for models whose layers all attend to all tokens, with sliding windows, and
/// with recurrent states.
const LIMITS: [(CaseKind, [Limit; 3]); 10] = [
    // A template may change some tokens that opened the response.
    (CaseKind::SecondTurn, [Tokens(16), Tokens(16), Tokens(16)]),
    (CaseKind::Switch, [Tokens(16), Tokens(16), Tokens(16)]),
    // Windows and states have no checkpoint at the end of the system prompt.
    (CaseKind::SharedSystemPrompt, [Tokens(256), Prompt, Prompt]),
    // Windows and states rewind to the checkpoint at the end of the question before, so the response
    // between the two questions is read again.
    (
        CaseKind::EditLastQuestion,
        [Tokens(256), Tokens(256), Tokens(256)],
    ),
    // Windows and states keep the checkpoints of the last turns only.
    (CaseKind::EditEarlierQuestion, [Tokens(256), Prompt, Prompt]),
    (CaseKind::IdleUnload, [Tokens(16), Tokens(16), Tokens(16)]),
    // All conversations are saved, not only the last one.
    (
        CaseKind::SwitchAndUnload,
        [Tokens(16), Tokens(16), Tokens(16)],
    ),
    (
        CaseKind::PauseAndResume,
        [Tokens(16), Tokens(16), Tokens(16)],
    ),
    (CaseKind::Restart, [Tokens(16), Tokens(16), Tokens(16)]),
    (CaseKind::Overflow, [Turns(2), Turns(2), Turns(2)]),
];

/// A kind of layers, as the column of [`LIMITS`].
#[derive(Debug, Clone, Copy)]
enum Layers {
    Dense,
    Windowed,
    Hybrid,
}

const CONTEXT_LENGTH: u32 = 2048;
const PROMPT_TOKENS: usize = 1024;

impl Limit {
    fn is_kept_by(self, case: &Case) -> bool {
        match self {
            Tokens(n) => case.reread_tokens <= n,
            Turns(n) => case.n_turns_reread <= n,
            Prompt => true,
        }
    }
}

/// Measures `model`, which `engine` runs, and compares each case with its limit.
async fn check(model: &Path, engine: &str, layers: Layers) {
    let report = measure(model).await;
    assert_eq!(report.engine, engine);
    let mut wrong = Vec::new();
    for (kind, limits) in LIMITS {
        let case = case_of(&report, kind);
        let limit = limits[layers as usize];
        if !limit.is_kept_by(case) {
            wrong.push(format!("{kind:?} exceeds {limit:?}: {case:#?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{engine}, {layers:?}:\n{}",
        wrong.join("\n")
    );
    for kind in [CaseKind::SecondTurn, CaseKind::Overflow] {
        let written = case_of(&report, kind).written_bytes;
        assert_eq!(written, 0, "{kind:?} writes to the disk");
    }
    for kind in [
        CaseKind::IdleUnload,
        CaseKind::SwitchAndUnload,
        CaseKind::PauseAndResume,
        CaseKind::Restart,
    ] {
        let case = case_of(&report, kind);
        assert!(case.written_bytes > 0, "{kind:?} saves nothing");
        assert!(case.load_time.is_some(), "{kind:?} does not load again");
    }
    let restarted = &case_of(&report, CaseKind::Restart).turns[0];
    assert!(
        restarted.new_tokens < restarted.prompt_tokens / 2,
        "the prompt of a case is mostly old: {restarted:?}"
    );
}

fn case_of(report: &Report, kind: CaseKind) -> &Case {
    report.cases.iter().find(|case| case.case == kind).unwrap()
}

async fn measure(model: &Path) -> Report {
    let options = Options {
        model: ModelSpec {
            id: "model".to_owned(),
            name: "model".to_owned(),
            role: ModelRole::Chat,
            variants: vec![ModelSource {
                path: model.to_owned(),
            }],
            context_length: Some(CONTEXT_LENGTH as usize),
            min_context_length: None,
            kv_cache: Default::default(),
            corrections: Vec::new(),
            drafts: Vec::new(),
        },
        over_budget: false,
        prompt_tokens: PROMPT_TOKENS,
        tuning: Tuning::default(),
        saving_limits: SavingLimits::on_a_large_disk(),
    };
    let mut bench = ConversationBench::open(options, supervisor).await.unwrap();
    let report = bench.run(|_| {}).await;
    bench.close().await;
    report.unwrap()
}

fn supervisor(tuning: Tuning) -> Supervisor {
    let program = env!("CARGO_BIN_EXE_transom").into();
    let workers = ProcessWorkers::new(program, vec![child::SUBCOMMAND.into()]);
    let signals = Arc::new(ScriptedSignals::default());
    Supervisor::start(Arc::new(workers), signals, &Hardware::detect(), tuning)
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Assembles a model of MLX's tests, with its tokenizer and a longer context.
fn mlx_model(name: &str) -> TempDir {
    let fixtures = crates().join("engine-mlx/tests/fixtures");
    let folder = tempfile::tempdir().unwrap();
    for part in [
        fixtures.join("models").join(name),
        fixtures.join("tokenizer"),
    ] {
        for entry in fs::read_dir(part).unwrap() {
            let path = entry.unwrap().path();
            let file_name = path.file_name().unwrap();
            if file_name != "golden.safetensors" {
                fs::copy(&path, folder.path().join(file_name)).unwrap();
            }
        }
    }
    let path = folder.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["max_position_embeddings"] = json!(CONTEXT_LENGTH);
    fs::write(&path, config.to_string()).unwrap();
    folder
}

fn tiny_model(architecture: &'static str) -> TinyModel {
    TinyModel {
        architecture,
        width: 128,
        ff_width: 128,
        context_length: CONTEXT_LENGTH,
        quantization: Quantization::F16,
        ..TinyModel::default()
    }
}

#[tokio::test]
async fn mlx_with_dense_layers() {
    let model = mlx_model("qwen3-bf16");
    check(model.path(), "mlx", Layers::Dense).await;
}

#[tokio::test]
async fn mlx_with_sliding_windows() {
    let model = mlx_model("gemma3-bf16");
    check(model.path(), "mlx", Layers::Windowed).await;
}

#[tokio::test]
async fn mlx_with_recurrent_states() {
    let model = mlx_model("qwen3-5-text-q8-g64");
    check(model.path(), "mlx", Layers::Hybrid).await;
}

#[tokio::test]
async fn llama_with_dense_layers() {
    let model = tiny_model("llama").write_temporary();
    check(&model.path, "llama.cpp", Layers::Dense).await;
}

#[tokio::test]
async fn llama_with_sliding_windows() {
    let model = tiny_model("gemma3").write_temporary();
    check(&model.path, "llama.cpp", Layers::Windowed).await;
}

#[tokio::test]
async fn llama_with_recurrent_states() {
    let model = crates().join("engine-llama/tests/fixtures/qwen3next-f16.gguf");
    check(&model, "llama.cpp", Layers::Hybrid).await;
}

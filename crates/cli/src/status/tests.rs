use transom_engine::{MemoryNeed, MemoryUse, ModelInfo, SamplingParams};
use transom_signals::{MemoryPressure, SystemSignals};
use transom_supervisor::status::{
    ModelStatus, PhaseStatus, RequestState, RequestStatus, UnloadReason, UnloadRecord,
};
use transom_supervisor::{
    ActiveLimit, Class, ClientId, Limit, LimitReason, ModelRole, PassedOver, RequestId,
    Restrictions,
};
use transom_terminal::screen::{CLEAR_BELOW, CLEAR_LINE, ENTER, LEAVE, TOP};

use super::*;
use crate::Layout;
use crate::load::{ModelArgs, load};
use crate::output::rate_text;
use crate::test_console::TestConsole;
use crate::test_engine::TestEngine;

fn restrictions() -> Restrictions {
    Restrictions {
        memory: MemoryPressure::Normal,
        stop_answers: false,
        context_length: None,
        prefill_chunk: None,
        max_tokens: Some(1024),
        speculation: true,
        repaint_interval: Duration::from_millis(16),
        idle_unload: None,
        blocked_by: None,
        offer_smaller_model: false,
        limits: vec![ActiveLimit {
            limit: Limit::AnswerLength { tokens: 1024 },
            reason: LimitReason::LowPower,
        }],
    }
}

fn model() -> ModelStatus {
    ModelStatus {
        id: "qwen".into(),
        name: "qwen".into(),
        role: ModelRole::Chat,
        phase: PhaseStatus::Ready,
        info: Some(ModelInfo {
            name: "qwen".into(),
            architecture: "qwen3".into(),
            engine: "mlx".into(),
            n_parameters: 4_000_000_000,
            stored_as: "4-bit, group 64".into(),
            computed_as: "4-bit on the GPU".into(),
            context_length: 8192,
            vocab_size: 100,
            has_chat_template: true,
            draft: None,
            recommended_sampling: SamplingParams::default(),
        }),
        need: Some(MemoryNeed {
            weight_bytes: 2_300_000_000,
            kv_cache_bytes: 1_200_000_000,
            context_length: 8192,
            ..MemoryNeed::default()
        }),
        memory: Some(MemoryUse {
            weight_bytes: 2_300_000_000,
            kv_cache_bytes: 40_000_000,
            parked_bytes: 0,
            allocator_cache_bytes: 12_000_000,
            peak_bytes: 2_500_000_000,
        }),
        footprint_bytes: Some(2_450_000_000),
        load_time: Some(Duration::from_secs(2)),
        passed_over: vec![PassedOver {
            path: "models/qwen.gguf".into(),
            reason: "tensor type 99 is not supported".into(),
        }],
        saved_tokens: 412,
        n_answered: 3,
        unloads_in: Some(Duration::from_secs(170)),
    }
}

fn request(client: &str, class: Class, state: RequestState) -> RequestStatus {
    RequestStatus {
        request_id: RequestId(9),
        model: "qwen".into(),
        client: ClientId::new(client),
        class,
        state,
    }
}

fn snapshot() -> Status {
    Status {
        revision: 7,
        process_id: 4711,
        models: vec![model()],
        running: Vec::new(),
        queue: vec![request("app", Class::Interactive, RequestState::Queued)],
        budget_bytes: 10_500_000_000,
        in_use_bytes: 3_500_000_000,
        signals: SystemSignals {
            is_low_power: true,
            ..SystemSignals::default()
        },
        restrictions: restrictions(),
        last_unload: Some(UnloadRecord {
            name: "llama".into(),
            why: UnloadReason::Idle,
            held_bytes: Some(8_200_000_000),
            freed_bytes: Some(8_100_000_000),
            by_force: false,
            took: Duration::from_millis(300),
        }),
        last_error: Some("the disk is gone".into()),
        is_paused: false,
        keeps_awake: false,
    }
}

/// Load time. Limits are shown with their reasons.
#[test]
fn the_status_has_every_line() {
    let because = LimitReason::LowPower;
    let expect = format!(
        "\
model        qwen: ready, 3 responses
             qwen3, 4.0B parameters, 4-bit, group 64; context of 8192 tokens
             runs as 4-bit on the GPU (mlx), loaded in 2.00 s
             not qwen.gguf: tensor type 99 is not supported
             found a saved KV cache of 412 tokens
memory       2.14 GB weights, 38 MB KV cache, 11 MB allocator cache
             2.28 GB in its process; 2.33 GB at most so far
             3.26 GB reserved, for a full context of 8192 tokens
unloads in   2 min, unless it is used
budget       ████████░░░░░░░░░░░░░░░░  3.3 of 9.8 GB
queue        1 waiting
             app: qwen
signals      memory pressure normal, heat nominal, mains power, Low Power Mode
limits       shorter responses (1024 tokens): {because}
last unload  llama: it was idle
             returned 7.5 of 7.6 GB in 0.3 s
last error   the disk is gone
process      4711
"
    );
    let text = view::text(&snapshot(), Duration::from_secs(40), Layout::default());
    assert_eq!(text, expect);
}

#[test]
fn the_running_request_has_its_client_its_tokens_and_its_speed() {
    let check = |class, state, expect: &str| {
        let status = Status {
            running: vec![request("api:zed", class, state)],
            ..snapshot()
        };
        let text = view::text(&status, Duration::ZERO, Layout::default());
        let line = text.lines().find(|line| line.starts_with("running"));
        assert_eq!(line, Some(expect), "{text}");
    };
    let (done, total) = (512, 2048);
    check(
        Class::Background,
        RequestState::Prefill { done, total },
        "running      api:zed (background): qwen, prompt 512 of 2048 tokens",
    );
    let generating = |tokens_per_second| RequestState::Generating {
        tokens: 120,
        tokens_per_second,
    };
    check(
        Class::Interactive,
        generating(None),
        "running      api:zed: qwen, 120 tokens",
    );
    let speed = rate_text(41.25);
    check(
        Class::Interactive,
        generating(Some(41.25)),
        &format!("running      api:zed: qwen, 120 tokens, {speed} tok/s"),
    );
    check(
        Class::Interactive,
        RequestState::Stopping,
        "running      api:zed: qwen, stopping",
    );
}

#[test]
fn an_idle_supervisor_has_no_model_and_no_queue() {
    let idle = Status {
        models: Vec::new(),
        queue: Vec::new(),
        in_use_bytes: 0,
        restrictions: Restrictions {
            limits: Vec::new(),
            ..restrictions()
        },
        last_unload: None,
        last_error: None,
        ..snapshot()
    };
    let text = view::text(&idle, Duration::ZERO, Layout::default());
    for line in [
        "model        none loaded",
        "queue        empty",
        "limits       none",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    assert!(!text.contains("last"), "{text}");
}

#[test]
fn each_phase_has_its_text() {
    let check = |phase: PhaseStatus, expect: &str| {
        let model = ModelStatus { phase, ..model() };
        let status = Status {
            models: vec![model],
            ..snapshot()
        };
        let text = view::text(&status, Duration::ZERO, Layout::default());
        assert!(
            text.starts_with(&format!("model        qwen: {expect}\n")),
            "{text}"
        );
    };
    let answering = |is_stopping| PhaseStatus::Generating {
        request_id: RequestId(1),
        is_stopping,
    };
    let progress = transom_engine::LoadProgress {
        done_bytes: 40,
        total_bytes: 100,
    };
    check(PhaseStatus::Measuring, "reading its files");
    check(
        PhaseStatus::WaitingForRoom,
        "waiting until another model is unloaded",
    );
    check(PhaseStatus::Loading { progress: None }, "loading");
    check(
        PhaseStatus::Loading {
            progress: Some(progress),
        },
        "loading, 40 %",
    );
    check(answering(false), "generating");
    check(answering(true), "stopping the response");
    let why = UnloadReason::Requested;
    check(PhaseStatus::Unloading { why }, "unloading: as requested");
}

/// Shows two statuses of a watch, and ends it.
fn shown(streams: &mut TestConsole) {
    let args = StatusArgs {
        watch: true,
        json: false,
    };
    let mut console = streams.console();
    let mut display = Display::new(&args, &mut console);
    display.show(&snapshot(), Duration::ZERO).unwrap();
    display.show(&snapshot(), Duration::from_secs(100)).unwrap();
    display.leave().unwrap();
}

/// Returns both statuses as a terminal gets them, and what stays.
fn drawn(streams: &mut TestConsole) -> [String; 3] {
    shown(streams);
    let written = streams.out_text();
    let (drawn, left) = written.split_once(LEAVE).unwrap();
    let drawn = drawn.strip_prefix(ENTER).unwrap();
    let drawn: Vec<_> = drawn.split(TOP).skip(1).collect();
    [drawn[0].to_owned(), drawn[1].to_owned(), left.to_owned()]
}

#[test]
fn on_a_terminal_a_status_replaces_the_one_before() {
    let mut streams = TestConsole::default().on_terminal(80);
    let [first, second, left] = drawn(&mut streams);
    let layout = streams.console().layout();
    let expect = |seconds| view::text(&snapshot(), Duration::from_secs(seconds), layout);
    let frame = |text: String| text.replace('\n', &format!("{CLEAR_LINE}\n")) + CLEAR_BELOW;
    assert_eq!(first, frame(expect(0)));
    assert_eq!(second, frame(expect(100)));
    assert_eq!(left, expect(100));
}

#[test]
fn a_status_fits_a_narrow_terminal() {
    let mut streams = TestConsole::default().on_terminal(40);
    streams.columns = || 40;
    let [_, screen, _] = drawn(&mut streams);
    assert_eq!(screen.matches("budget").count(), 1, "{screen}");
    assert!(screen.contains("70 s, unless it is"), "{screen}");
}

#[test]
fn elsewhere_a_countdown_is_not_shown_and_nothing_is_escaped() {
    let mut streams = TestConsole::default();
    shown(&mut streams);
    let text = streams.out_text();
    assert_eq!(text.matches("budget").count(), 1);
    assert!(!text.contains('\x1b'), "{text:?}");
}

#[test]
fn the_json_names_the_loaded_model() {
    let engine = TestEngine::answering(&[]);
    let client = engine.client();
    let mut streams = TestConsole::default();
    let model = ModelArgs {
        model: Some("./scripted".into()),
        ..ModelArgs::default()
    };
    load(&model, false, &client, &mut streams.console()).unwrap();
    let args = StatusArgs {
        watch: false,
        json: true,
    };
    run(&args, &client, &mut streams.console()).unwrap();
    let status: serde_json::Value = serde_json::from_str(&streams.out_text()).unwrap();
    assert_eq!(status["is_running"], true);
    assert_eq!(status["models"][0]["name"], "scripted");
    assert_eq!(status["models"][0]["phase"]["phase"], "ready");
}

#[test]
fn a_watch_ends_with_ctrl_c() {
    let engine = TestEngine::answering(&[]);
    let client = engine.client();
    let mut streams = TestConsole::default();
    let args = StatusArgs {
        watch: true,
        json: false,
    };
    let key = client.interrupt.clone();
    let press = std::thread::spawn(move || {
        // Without a job a press would end the program.
        while key.press() {
            std::thread::yield_now();
        }
    });
    run(&args, &client, &mut streams.console()).unwrap();
    press.join().unwrap();
    assert!(streams.out_text().contains("none loaded"));
}

#[test]
fn a_model_that_is_computed_as_stored_says_so() {
    let mut snapshot = snapshot();
    let info = snapshot.models[0].info.as_mut().unwrap();
    info.computed_as = "as stored on the CPU".to_owned();
    info.engine = "llama.cpp".to_owned();
    let text = view::text(&snapshot, Duration::ZERO, Layout::default());
    assert!(
        text.contains(" runs as stored on the CPU (llama.cpp), "),
        "{text}"
    );
}

#[test]
fn the_status_shows_the_kv_caches_of_other_conversations() {
    let mut snapshot = snapshot();
    let model = &mut snapshot.models[0];
    model.memory.as_mut().unwrap().parked_bytes = 300 << 20;
    model.need.as_mut().unwrap().parked_bytes = 800 << 20;
    let text = view::text(&snapshot, Duration::ZERO, Layout::default());
    // Long lines are wrapped.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "300 MB KV caches of other conversations",
        "tokens and for other conversations",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

//! Timelines: each line is an event, followed by the effects.
//!
//! [`check`] runs the events of a script through the core, writes the script again with the actual
//! effects, and compares both. After every event it also ticks, which must do nothing (a tick is
//! allowed at any time), and no deadline may be in the past. A `wait` is a tick at exactly the
//! core's next deadline. The line `5s used chat` stands for the events of [`USED`].

mod errors;

use std::fmt::Write as _;
use std::time::Duration;

use transom_engine::{
    ConversationId, EngineError, FinishReason, GenerationParams, KvCacheChoice, Limits,
    ModelSource, Prompt, SamplingParams, Stats, Truncation, UnsupportedFeature,
};
use transom_engine_host::WorkerEnd;
use transom_engine_host::WorkerReport::{self, Message};
use transom_engine_host::wire::{
    Command, JobId, JobSummary, LoadFootprint, Report, Request, UnloadFootprint,
};
use transom_signals::{MemoryPressure, SystemSignals, ThermalState};

use super::models::{self, TestModels};
use crate::core::{Core, Effect, Event, Timestamp, WorkerId};
use crate::governor::Tuning;
use crate::request::{
    Class, ClientId, KeepAlive, ModelRequest, ModelSelector, RequestId, WhenBlocked, Work,
};
use crate::response::{Outcome, ResponseEvent};
use crate::saving::Forgotten;
use errors::error_text;

/// A model was loaded for a request that has ended, so it is idle.
const USED: &str = "\
0s request 1 MODEL
→ start w1, measure w1 MODEL 8192, awake, 1 loading
0s w1 measured
→ load w1 MODEL 8192
2s w1 loaded
→ generate w1 1
5s w1 ended 1 well
→ 1 ENDED Stop, asleep";

/// Runs the events of `script`, and compares the effects with those in the script.
#[track_caller]
pub(super) fn check(script: &str) {
    let expected = expanded(script);
    let mut core = Core::new(&models::hardware(), models::tuning());
    let mut models = TestModels::default();
    let mut written = String::new();
    for line in expected.lines() {
        if line.starts_with('→') {
            continue;
        }
        let _ = writeln!(written, "{line}");
        let (time, what) = line.split_once(' ').expect("a time and an event");
        let now = Duration::from_secs_f64(time.trim_end_matches('s').parse().expect("a time"));
        if what == "show" {
            let _ = writeln!(written, "→ {}", show(&core, now));
            continue;
        }
        if what == "memory" {
            let status = core.status(now);
            let memory: Vec<_> = status.models.iter().map(|m| m.footprint_bytes).collect();
            let _ = writeln!(written, "→ {:?}", memory[0]);
            continue;
        }
        if what == "wait" {
            assert_eq!(core.next_deadline(), Some(now), "at `{line}`");
        }
        let mut effects = Vec::new();
        if what == "ease" {
            // Without signals, until the governor unblocks requests.
            effects.extend(core.step(Event::Signals(SystemSignals::default()), now));
            while core.status(now).restrictions.blocked_by.is_some() {
                let later = core
                    .next_deadline()
                    .expect("a deadline while requests are blocked");
                effects.extend(core.step(Event::Tick, later));
            }
        } else {
            effects.extend(core.step(event(what, &models), now));
        }
        for effect in &effects {
            models.record(effect);
        }
        let effects: Vec<String> = effects.iter().map(text).collect();
        if !effects.is_empty() {
            let _ = writeln!(written, "→ {}", effects.join(", "));
        }
        if what != "ease" {
            assert_eq!(core.step(Event::Tick, now), [], "a tick after `{line}`");
            let deadline = core.next_deadline();
            assert!(
                deadline.is_none_or(|at| at > now),
                "{deadline:?} after `{line}`"
            );
        }
    }
    let written = written.trim();
    assert!(
        expected == written,
        "expected:\n{expected}\n\nbut it was:\n{written}\n"
    );
}

/// Returns the lines of a script without indentation, and with the events that `used` stands for.
fn expanded(script: &str) -> String {
    let lines = script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let lines = lines.map(|line| match line.strip_prefix("5s used ") {
        Some(model) => USED.replace("MODEL", model),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn event(text: &str, models: &TestModels) -> Event {
    let words: Vec<&str> = text.split(' ').collect();
    let id = |word: &str| RequestId(word.parse().expect("a request's number"));
    match words[..] {
        ["request", number, model, ref rest @ ..] => {
            Event::Request(id(number), Box::new(request(model, rest)))
        }
        ["cancel", number] => Event::Cancel(id(number)),
        ["unload", "all"] => Event::Unload(ModelSelector::All),
        ["unload", name] => Event::Unload(ModelSelector::Model(name.to_owned())),
        ["tune", what, value] => Event::SetTuning(tuned(what, value)),
        ["signals", ref levels @ ..] => Event::Signals(signals(levels)),
        ["pause"] => Event::SetPaused(true),
        ["resume"] => Event::SetPaused(false),
        ["forget"] => Event::ForgetConversations(None),
        ["forget", id] => {
            let id = ConversationId(id.parse().expect("a number"));
            Event::ForgetConversations(Some(id))
        }
        ["tick" | "wait"] => Event::Tick,
        ["quit"] => Event::Quit,
        [worker, ref words @ ..] => {
            let worker = WorkerId(worker[1..].parse().expect("a worker's number"));
            Event::Worker(worker, worker_event(worker, words, models))
        }
        [] => panic!("no event"),
    }
}

fn request(model: &str, rest: &[&str]) -> ModelRequest {
    let params = GenerationParams {
        max_tokens: rest.contains(&"short").then_some(100),
        read_ahead: rest.contains(&"ahead"),
        is_private: rest.contains(&"private"),
        sampling: SamplingParams {
            seed: rest.contains(&"seeded").then_some(7),
            ..SamplingParams::default()
        },
        conversation: rest
            .iter()
            .find_map(|word| word.strip_prefix("in="))
            .map(|id| ConversationId(id.parse().expect("a number"))),
        ..GenerationParams::default()
    };
    let request = Request {
        prompt: Prompt::Text("why".to_owned()),
        truncation: Truncation::DropOldest {
            response_tokens: 256,
            context_limit: None,
        },
        params,
    };
    let work = if rest.contains(&"load") {
        Work::Load
    } else if rest.contains(&"count") {
        Work::CountTokens(Box::new(request.prompt))
    } else {
        Work::Generate(Box::new(request))
    };
    let after = |prefix: &str| rest.iter().find_map(|word| word.strip_prefix(prefix));
    let seconds = |n: &str| Duration::from_secs(n.parse().expect("seconds"));
    ModelRequest {
        over_budget: rest.contains(&"insisting"),
        when_blocked: match rest.contains(&"or-refuse") {
            true => WhenBlocked::Refuse,
            false => WhenBlocked::Wait,
        },
        class: match rest.contains(&"background") {
            true => Class::Background,
            false => Class::Interactive,
        },
        max_wait: after("within=").map(seconds),
        keep_alive: after("keep=").map(|time| match time {
            "forever" => KeepAlive::Forever,
            n => KeepAlive::Idle { time: seconds(n) },
        }),
        ..ModelRequest::new(
            after("by=").map_or_else(ClientId::app, ClientId::new),
            models::spec(model),
            work,
        )
    }
}

fn tuned(what: &str, value: &str) -> Tuning {
    let mut tuning = models::tuning();
    let number = || value.parse::<u64>().expect("a number");
    match what {
        "idle" => tuning.idle_unload = Some(Duration::from_secs(number())),
        "keep" => tuning.keep_loaded = value == "yes",
        "budget" => tuning.memory_budget_bytes = Some(number() * models::GB),
        "queue" => tuning.queue_limit = number() as usize,
        "client-queue" => tuning.client_queue_limit = number() as usize,
        "parallel" => tuning.parallel_requests = number() as usize,
        "block" => tuning.max_blocked_time = Duration::from_secs(number()),
        "finish" => tuning.finish_timeout = Duration::from_secs(number()),
        _ => panic!("no such setting: {what}"),
    }
    tuning
}

fn signals(levels: &[&str]) -> SystemSignals {
    let mut signals = SystemSignals::default();
    for level in levels {
        match *level {
            "normal" => {}
            "warning" => signals.memory = MemoryPressure::Warning,
            "critical" => signals.memory = MemoryPressure::Critical,
            "thrashing" => signals.is_thrashing = true,
            "hot" => signals.thermal = ThermalState::Critical,
            "low-power" => signals.is_low_power = true,
            _ => panic!("no such signal: {level}"),
        }
    }
    signals
}

fn worker_event(worker: WorkerId, words: &[&str], models: &TestModels) -> WorkerReport {
    let path = || "model".into();
    let unsupported =
        || EngineError::unsupported("model", UnsupportedFeature::Other, "a new architecture");
    let broken = || EngineError::BadFile {
        path: path(),
        reason: "cut off".to_owned(),
    };
    let backend = || EngineError::Backend {
        during: "decoding".to_owned(),
        message: "the device is lost".to_owned(),
    };
    let missing = |path| EngineError::NotFound {
        path,
        what: "model".to_owned(),
        hint: "check the path".to_owned(),
    };
    match words {
        ["measured"] => Message(Report::Measured {
            result: Ok(models.need(worker)),
        }),
        ["measured", "unsupported"] => Message(Report::Measured {
            result: Err(unsupported()),
        }),
        ["measured", "missing"] => Message(Report::Measured {
            result: Err(missing(models.path(worker))),
        }),
        ["measured", "incomplete"] => Message(Report::Measured {
            result: Err(missing(models.path(worker).join("config.json"))),
        }),
        ["measured", "broken"] => Message(Report::Measured {
            result: Err(broken()),
        }),
        ["progress", percent] => Message(Report::LoadProgress {
            progress: transom_engine::LoadProgress {
                done_bytes: percent.parse().expect("percent"),
                total_bytes: 100,
            },
        }),
        ["loaded"] => models.loaded(worker, 0),
        ["loaded", n] => models.loaded(worker, n.parse().expect("a number of tokens")),
        ["failed", "unsupported"] => Message(Report::LoadFailed {
            error: unsupported(),
        }),
        ["failed", "stopped"] => Message(Report::LoadFailed {
            error: EngineError::Canceled,
        }),
        ["failed", "memory"] => Message(Report::LoadFailed {
            error: EngineError::OutOfMemory {
                path: path(),
                needed_bytes: 9,
                available_bytes: 6,
            },
        }),
        ["ended", number, how] => {
            let job = JobId(number.parse().expect("a request's number"));
            let reason = match *how {
                "well" => Ok(FinishReason::Stop),
                "canceled" => Ok(FinishReason::Canceled),
                "shed" => Ok(FinishReason::Shed),
                "broken" => Err(broken()),
                "backend" => Err(backend()),
                "template" => Err(EngineError::Template {
                    reason: "no: tell me a secret".to_owned(),
                }),
                _ => panic!("no such ending: {how}"),
            };
            let summary = |reason| JobSummary {
                reason,
                stats: Stats::default(),
                memory: models.memory(worker),
            };
            Message(Report::JobEnded {
                job,
                result: reason.map(summary),
            })
        }
        ["trimmed"] => Message(Report::Trimmed {
            bytes: 1,
            memory: models.memory(worker),
        }),
        ["broken"] => Message(Report::Broken { error: backend() }),
        ["costs", bytes] => Message(Report::Footprint {
            bytes: bytes.parse().expect("bytes"),
            memory: models.memory(worker),
        }),
        ["stuck", process] => WorkerReport::Stuck {
            process_id: process.parse().expect("a process id"),
            end: WorkerEnd::Requested,
        },
        ["freed", percent] => {
            let LoadFootprint {
                before_bytes,
                loaded_bytes,
            } = models.footprint(worker);
            let percent: u64 = percent.parse().expect("percent");
            Message(Report::Unloaded {
                footprint: Some(UnloadFootprint {
                    loaded_bytes,
                    after_bytes: loaded_bytes - (loaded_bytes - before_bytes) * percent / 100,
                }),
            })
        }
        ["freed"] => Message(Report::Unloaded { footprint: None }),
        ["gone"] => WorkerReport::Exited(WorkerEnd::Requested),
        ["died"] => WorkerReport::Exited(WorkerEnd::Died {
            how: "killed by signal 9 (SIGKILL)".to_owned(),
            stderr_tail: String::new(),
        }),
        _ => panic!("no such worker event: {words:?}"),
    }
}

fn show(core: &Core, now: Timestamp) -> String {
    let status = core.status(now);
    let mut text: Vec<String> = Vec::new();
    if status.running.len() > 1 {
        let running = status.running.iter();
        let running =
            running.map(|it| format!("{} of {} ({:?})", it.request_id.0, it.client, it.state));
        text.push(running.collect::<Vec<_>>().join(", "));
        text.push(format!("{} bytes in use", status.in_use_bytes));
    }
    for model in &status.models {
        text.push(format!("{} is {:?}", model.name, model.phase));
        if model.saved_tokens > 0 {
            text.push(format!("{} tokens restored", model.saved_tokens));
        }
        for form in &model.passed_over {
            text.push(format!("not {}: {}", form.path.display(), form.reason));
        }
    }
    if let Some(unload) = &status.last_unload {
        text.push(format!(
            "unloaded {} ({:?}), held {:?}, freed {:?}, by force {}, took {:?}",
            unload.name,
            unload.why,
            unload.held_bytes,
            unload.freed_bytes,
            unload.by_force,
            unload.took
        ));
    }
    if let Some(error) = &status.last_error {
        text.push(format!("error: {error}"));
    }
    if core.is_done() {
        text.push("done".to_owned());
    }
    text.join("; ")
}

fn text(effect: &Effect) -> String {
    match effect {
        Effect::Start(w) => format!("start w{}", w.0),
        Effect::Send(w, Command::Measure { source, limits }) => {
            format!(
                "measure w{} {} {}",
                w.0,
                source.path.display(),
                bounds(source, limits)
            )
        }
        Effect::Load(w, _, source, limits) => {
            let bounds = bounds(source, limits);
            format!("load w{} {} {bounds}", w.0, source.path.display())
        }
        Effect::Send(w, Command::Generate { job, request }) => {
            let most = request.params.max_tokens;
            let most = most.map_or_else(String::new, |n| format!(" at most {n}"));
            let speculation = match request.params.speculate {
                true => "",
                false => " without speculation",
            };
            let ahead = match request.params.read_ahead {
                true => " and read ahead",
                false => "",
            };
            format!("generate w{} {}{most}{speculation}{ahead}", w.0, job.0)
        }
        Effect::Send(
            w,
            Command::Stop {
                job: Some(job),
                reason,
            },
        ) => format!("stop w{} {} {reason:?}", w.0, job.0),
        Effect::Send(w, Command::Stop { job: None, reason }) => {
            format!("stop w{} load {reason:?}", w.0)
        }
        Effect::Send(w, Command::Count { job, .. }) => format!("count w{} {}", w.0, job.0),
        Effect::Send(w, Command::Tokenize { job, .. }) => format!("tokenize w{} {}", w.0, job.0),
        Effect::Send(w, Command::Trim { trim }) => format!("trim w{} {trim:?}", w.0),
        Effect::Send(w, Command::Forget { .. }) => format!("forget w{}", w.0),
        Effect::Send(_, command) => panic!("the core sends no {command:?}"),
        Effect::Unload(w, Some(_)) => format!("unload w{} saving", w.0),
        Effect::Unload(w, None) => format!("unload w{}", w.0),
        Effect::Save(w, _) => format!("save w{}", w.0),
        Effect::DeleteSavedStates(which) => match which {
            Forgotten::Of(ModelSelector::All) => "delete states of all".to_owned(),
            Forgotten::Of(ModelSelector::Model(name)) => format!("delete states of {name}"),
            Forgotten::Conversation(id) => format!("delete states of conversation {}", id.0),
        },
        Effect::Release(w) => format!("release w{}", w.0),
        Effect::Kill(w) => format!("kill w{}", w.0),
        Effect::Respond(request_id, event) => format!("{} {}", request_id.0, response(event)),
        Effect::KeepAwake(true) => "awake".to_owned(),
        Effect::KeepAwake(false) => "asleep".to_owned(),
    }
}

fn bounds(source: &ModelSource, limits: &Limits) -> String {
    let cache = match limits.kv_cache {
        KvCacheChoice::Automatic => "",
        KvCacheChoice::Full => " full",
        KvCacheChoice::Small => " small",
    };
    let parking = match models::parks(source) && limits.parked_bytes > 0 {
        true => " parking",
        false => "",
    };
    let draft = match limits.draft {
        Some(_) => " with draft",
        None => "",
    };
    format!("{}{cache}{parking}{draft}", limits.context_length)
}

fn response(event: &ResponseEvent) -> String {
    match event {
        ResponseEvent::Queued {
            position,
            blocked_by,
        } => match blocked_by {
            Some(_) => format!("queued at {position}, blocked"),
            None => format!("queued at {position}"),
        },
        ResponseEvent::Loading { progress: None } => "loading".to_owned(),
        ResponseEvent::Loading { progress: Some(at) } => format!("loading {}%", at.done_bytes),
        ResponseEvent::Token { event } => format!("{event:?}"),
        ResponseEvent::Embedded { .. } => format!("{event:?}"),
        ResponseEvent::Ended { outcome } => match outcome {
            Outcome::Loaded { .. } => "ENDED loaded".to_owned(),
            Outcome::Finished { reason, .. } => format!("ENDED {reason:?}"),
            Outcome::Failed { error } => format!("ENDED {}", error_text(error)),
        },
    }
}

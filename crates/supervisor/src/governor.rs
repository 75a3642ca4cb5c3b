//! Turns system signals into limits, each with its reason.
//!
//! | while | context | response length | prefill step | speculation | repaint | idle unload (≤ 16 GB) | new requests | smaller model |
//! |---|---|---|---|---|---|---|---|---|
//! | no signal | | | | yes | 16 ms | 3 min (2 min); 10 min from 32 GB | | |
//! | memory warning, or thrashing | 4096 | 1024 | 512 | | | 60 s (30 s) | | |
//! | memory critical | 4096 | 1024 | 512 | no | | at once | blocked | |
//! | heat serious | | 1024 | 256 | no | 100 ms | | | offered |
//! | heat critical | | 1024 | 256 | no | 100 ms | | blocked | offered |
//! | Low Power Mode | 4096 | 1024 | | no | 100 ms | 90 s (60 s) | | offered |
//! | on battery | | | | | | 2 min (90 s) | | |
//!
//! While the user has paused, new requests are blocked, whatever the signals. Under every signal but
//! battery power, no response starts beside a running one.
//!
//! Without a GPU that shares the memory, a repaint waits at least 80 ms, because models run on the
//! CPU that also draws.
//!
//! If several rows apply, the strictest value of each column is used. Only memory pressure and
//! thrashing override the user's own idle time, and only critical pressure overrides the setting to
//! keep models loaded. What a request asks for ([`KeepAlive`]) takes the place of both settings for
//! its model. Running responses continue, except when the system swaps memory out under critical
//! pressure.
//!
//! A limit ends only after a quiet time without its signal: memory 15 s, thrashing 30 s, heat 60 s,
//! power mode and battery 5 s. The signal then falls to the worst level seen in that time.
//!
//! Rule: limits start immediately and end only after a quiet time. Every value that differs from
//! its default has a reason.

mod display;
mod hysteresis;
mod limits;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_engine::serde_seconds;
use transom_signals::{Hardware, MemoryPressure, SystemSignals, ThermalState};

use crate::request::KeepAlive;
use hysteresis::Hysteresis;
use limits::{MachineSize, OtherInputs};

/// Quiet time of memory pressure. By default it is shorter than [`Tuning::finish_timeout`] and
/// [`Tuning::max_blocked_time`], so that a short peak ends neither a response nor a queued request.
const MEMORY_QUIET_TIME: Duration = Duration::from_secs(15);

/// Longer, because swap is written in bursts.
const THRASHING_QUIET_TIME: Duration = Duration::from_secs(30);

/// The case of a computer takes about a minute to follow the temperature of its chip.
const HEAT_QUIET_TIME: Duration = Duration::from_secs(60);

/// Only filters a loose plug: users expect to see the change when they plug in or out.
const POWER_QUIET_TIME: Duration = Duration::from_secs(5);

/// The longest time of [`KeepAlive::Idle`]; longer ones count as this one.
const MAX_KEEP_ALIVE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Settings of the supervisor. Everything else follows from the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// Idle time after which a model is unloaded; `None` selects it by machine and power source.
    #[serde(rename = "idle_unload_seconds", with = "serde_seconds::option")]
    pub idle_unload: Option<Duration>,
    /// Keep the chat model loaded; critical memory pressure overrides this.
    pub keep_loaded: bool,
    /// Bytes that models may use together; `None` selects the budget of the machine.
    pub memory_budget_bytes: Option<u64>,
    /// Maximum number of queued requests; a further request fails as busy. Background requests do
    /// not count for interactive ones.
    pub queue_limit: usize,
    /// Maximum number of queued requests of one client.
    pub client_queue_limit: usize,
    /// Maximum number of requests that run at the same time, all on one model. Not a setting of the
    /// user.
    #[serde(skip)]
    pub parallel_requests: usize,
    /// How long a request may be blocked before it fails.
    #[serde(rename = "max_blocked_time_seconds", with = "serde_seconds")]
    pub max_blocked_time: Duration,
    /// How long a running response may continue under critical memory pressure before it is
    /// stopped.
    #[serde(rename = "finish_timeout_seconds", with = "serde_seconds")]
    pub finish_timeout: Duration,
    /// How long a stopped response may take to end before its process is killed; six times as long
    /// while others of the process go on. If the memory is needed, [`Tuning::unload_timeout`] applies
    /// instead.
    #[serde(rename = "stop_timeout_seconds", with = "serde_seconds")]
    pub stop_timeout: Duration,
    /// How long a process may take to free its memory before it is killed.
    #[serde(rename = "unload_timeout_seconds", with = "serde_seconds")]
    pub unload_timeout: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            idle_unload: None,
            keep_loaded: false,
            memory_budget_bytes: None,
            queue_limit: 16,
            client_queue_limit: 8,
            // Those of eight programs, and one of a person.
            parallel_requests: 9,
            // Longer than the longest quiet time, so that a request can outlast heat.
            max_blocked_time: Duration::from_secs(90),
            finish_timeout: Duration::from_secs(20),
            stop_timeout: Duration::from_secs(10),
            unload_timeout: Duration::from_secs(3),
        }
    }
}

/// What models and requests may use and do at present.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Restrictions {
    /// Effective memory pressure: rises at once, falls after a quiet time.
    pub memory: MemoryPressure,
    /// Running responses must stop now, because the system swaps memory out under critical
    /// pressure.
    pub stop_answers: bool,
    /// Maximum context in tokens, for conversations that can be shortened.
    pub context_length: Option<usize>,
    /// Maximum number of tokens of a prefill step.
    pub prefill_chunk: Option<usize>,
    /// Maximum number of tokens of a response that has not started.
    pub max_tokens: Option<usize>,
    /// Speculative decoding is allowed.
    pub speculation: bool,
    /// Minimum time between two repaints of a streaming response.
    #[serde(rename = "repaint_interval_seconds", with = "serde_seconds")]
    pub repaint_interval: Duration,
    /// Idle time after which a model is unloaded; `None` keeps it loaded.
    #[serde(rename = "idle_unload_seconds", with = "serde_seconds::option")]
    pub idle_unload: Option<Duration>,
    /// Why no request may start; `None` if requests may start.
    pub blocked_by: Option<LimitReason>,
    /// Programs should offer a smaller model.
    pub offer_smaller_model: bool,
    /// Every limit in force that differs from its default, with its reason; for people.
    pub limits: Vec<ActiveLimit>,
}

/// A limit in force and its reason. Displayed as `shorter responses (1024 tokens): Low Power Mode`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveLimit {
    /// The limit.
    pub limit: Limit,
    /// The reason.
    pub reason: LimitReason,
}

/// Something that is limited. Displayed as `shorter responses (1024 tokens)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum Limit {
    /// Running responses are stopped.
    RunningAnswers,
    /// New requests wait.
    NewAnswers,
    /// Responses that have not started are limited in length.
    AnswerLength {
        /// Maximum number of tokens.
        tokens: usize,
    },
    /// Conversations that can be shortened are limited in length.
    Context {
        /// Maximum number of tokens.
        tokens: usize,
    },
    /// Prefill steps are smaller.
    PrefillStep {
        /// Maximum number of tokens of a step.
        tokens: usize,
    },
    /// Speculative decoding is off.
    Speculation,
    /// Streaming responses are repainted less often.
    Repaint {
        /// Minimum milliseconds between two repaints.
        milliseconds: u64,
    },
    /// The idle time before an unload differs from the default.
    IdleUnload {
        /// Idle time in seconds; 0 unloads at once.
        seconds: u64,
    },
    /// A smaller model is recommended.
    SmallerModel,
}

/// Why something is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum LimitReason {
    /// The system reports memory pressure.
    Memory {
        /// The level.
        pressure: MemoryPressure,
    },
    /// The system is swapping memory out.
    Thrashing,
    /// The machine is hot.
    Heat {
        /// The thermal state.
        state: ThermalState,
    },
    /// Low Power Mode is on.
    LowPower,
    /// The machine runs on battery.
    Battery,
    /// The machine has little memory.
    SmallMachine,
    /// The user's setting.
    Setting,
    /// The user paused all models.
    Paused,
}

impl fmt::Display for ActiveLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.limit, self.reason)
    }
}

/// Computes the [`Restrictions`] from signals. Pure: `now` is an argument, and must not go back.
#[derive(Debug, Clone)]
pub struct Governor {
    size: MachineSize,
    /// Minimum time between two repaints on this machine.
    min_repaint_interval: Duration,
    tuning: Tuning,
    latest: SystemSignals,
    memory: Hysteresis<MemoryPressure>,
    is_thrashing: Hysteresis<bool>,
    /// Thrashing and critical pressure at the same time. Not derived from the two fields above,
    /// because a response must not be stopped for a combination that never occurred.
    stop_answers: Hysteresis<bool>,
    is_paused: bool,
    thermal: Hysteresis<ThermalState>,
    is_low_power: Hysteresis<bool>,
    is_on_battery: Hysteresis<bool>,
    restrictions: Restrictions,
}

impl Governor {
    /// Creates a governor before the first signal.
    pub fn new(hardware: &Hardware, tuning: &Tuning) -> Self {
        let size = MachineSize::of(hardware.memory_bytes);
        let min_repaint_interval = limits::min_repaint_interval(hardware);
        let latest = SystemSignals::default();
        Self {
            size,
            min_repaint_interval,
            tuning: tuning.clone(),
            latest,
            memory: Hysteresis::new(MEMORY_QUIET_TIME),
            is_thrashing: Hysteresis::new(THRASHING_QUIET_TIME),
            stop_answers: Hysteresis::new(MEMORY_QUIET_TIME),
            is_paused: false,
            thermal: Hysteresis::new(HEAT_QUIET_TIME),
            is_low_power: Hysteresis::new(POWER_QUIET_TIME),
            is_on_battery: Hysteresis::new(POWER_QUIET_TIME),
            restrictions: limits::restrictions(
                size,
                min_repaint_interval,
                tuning,
                &latest,
                OtherInputs::default(),
            ),
        }
    }

    /// Takes the signals at `now`. Worse levels apply at once, better ones after a quiet time.
    pub fn observe(&mut self, signals: SystemSignals, now: Duration) {
        self.relax(now);
        self.latest = signals;
        self.memory.observe(signals.memory, now);
        self.is_thrashing.observe(signals.is_thrashing, now);
        let is_critical = signals.is_thrashing && signals.memory == MemoryPressure::Critical;
        self.stop_answers.observe(is_critical, now);
        self.thermal.observe(signals.thermal, now);
        self.is_low_power.observe(signals.is_low_power, now);
        self.is_on_battery.observe(signals.is_on_battery, now);
        self.update_restrictions();
    }

    /// Applies new settings at once.
    pub fn set_tuning(&mut self, tuning: &Tuning) {
        self.tuning = tuning.clone();
        self.update_restrictions();
    }

    /// Pauses or resumes, at once.
    pub fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.update_restrictions();
    }

    /// Returns true if the user has paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Lowers the signals whose quiet time is over. May be called at any time.
    pub fn tick(&mut self, now: Duration) {
        if self.next_deadline().is_some_and(|due| due <= now) {
            self.relax(now);
            self.update_restrictions();
        }
    }

    /// Returns when the next quiet time ends, which is later than the last `now`; `None` if the
    /// passing of time changes nothing.
    pub fn next_deadline(&self) -> Option<Duration> {
        let due = [
            self.memory.due(),
            self.is_thrashing.due(),
            self.stop_answers.due(),
            self.thermal.due(),
            self.is_low_power.due(),
            self.is_on_battery.due(),
        ];
        due.into_iter().flatten().min()
    }

    /// Returns the present restrictions.
    pub fn restrictions(&self) -> &Restrictions {
        &self.restrictions
    }

    /// Returns the idle time after which a model is unloaded whose last request set `keep_alive`,
    /// which takes the place of the user's setting; `None` keeps it loaded.
    pub fn idle_unload_with(&self, keep_alive: KeepAlive) -> Option<Duration> {
        let tuning = match keep_alive {
            KeepAlive::Idle { time } => Tuning {
                idle_unload: Some(time.min(MAX_KEEP_ALIVE)),
                ..Tuning::default()
            },
            KeepAlive::Forever => Tuning {
                keep_loaded: true,
                ..Tuning::default()
            },
        };
        limits::idle_unload(self.size, &tuning, &self.effective_signals())
    }

    /// Returns true if several responses may be generated at the same time.
    pub fn allows_parallel(&self) -> bool {
        limits::allows_parallel(&self.effective_signals())
    }

    /// Returns the latest signals.
    pub fn signals(&self) -> SystemSignals {
        self.latest
    }

    fn relax(&mut self, now: Duration) {
        self.memory.tick(now);
        self.is_thrashing.tick(now);
        self.stop_answers.tick(now);
        self.thermal.tick(now);
        self.is_low_power.tick(now);
        self.is_on_battery.tick(now);
    }

    /// Returns the signals as they apply: the worst of each quiet time.
    fn effective_signals(&self) -> SystemSignals {
        SystemSignals {
            memory: self.memory.level(),
            is_thrashing: self.is_thrashing.level(),
            thermal: self.thermal.level(),
            is_low_power: self.is_low_power.level(),
            is_on_battery: self.is_on_battery.level(),
        }
    }

    fn update_restrictions(&mut self) {
        let other = OtherInputs {
            stop_answers: self.stop_answers.level(),
            is_paused: self.is_paused,
        };
        self.restrictions = limits::restrictions(
            self.size,
            self.min_repaint_interval,
            &self.tuning,
            &self.effective_signals(),
            other,
        );
    }
}

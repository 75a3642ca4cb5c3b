//! From the machine's signals to what is allowed now, and why.
//!
//! | while | context | answers | prefill step | speculation | repaint | unused models go after (≤ 16 GB) | new asks | smaller model |
//! |---|---|---|---|---|---|---|---|---|
//! | all is well | | | | yes | 16 ms | 3 min (2 min); 10 min from 32 GB | | |
//! | memory warning, or thrashing | 4096 | 1024 | 512 | | | 60 s (30 s) | | |
//! | memory critical | 4096 | 1024 | 512 | no | | at once | wait | |
//! | heat serious | | 1024 | 256 | no | 100 ms | | | offered |
//! | heat critical | | 1024 | 256 | no | 100 ms | | wait | offered |
//! | Low Power Mode | 4096 | 1024 | | no | 100 ms | 90 s (60 s) | | offered |
//! | on battery | | | | | | 2 min (90 s) | | |
//!
//! While the user pauses, new asks wait, whatever the machine says.
//!
//! Without a GPU that shares the memory a repaint waits 80 ms at least: models compute on the
//! processor that draws.
//!
//! Where several apply, the tightest of each column holds. The user's own idle wait yields to
//! memory pressure and thrashing only, and the wish to keep models to critical pressure only.
//! Running answers go on, except when swap grows under critical pressure.
//!
//! A signal eases when it was quiet for a while: memory 15 s, thrashing 30 s, heat 60 s, power
//! mode and battery 5 s. It then comes down to the worst that was seen in that time.
//!
//! Rule: tightening is immediate, easing waits for a quiet spell, and every limit that differs from
//! its default carries its reason.

mod display;
mod hysteresis;
mod limits;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_signals::{Hardware, MemoryPressure, SystemSignals, ThermalState};

use hysteresis::Hysteresis;
use limits::{MachineSize, OtherInputs};

/// Quiet that memory pressure needs before it eases. Shorter than [`Tuning::finish_timeout`] and
/// [`Tuning::max_blocked_time`] by default, so that a short peak costs neither an answer nor an ask.
const MEMORY_QUIET_TIME: Duration = Duration::from_secs(15);

/// Longer, because swap is written in bursts.
const THRASHING_QUIET_TIME: Duration = Duration::from_secs(30);

/// A case takes about a minute to follow its chip.
const HEAT_QUIET_TIME: Duration = Duration::from_secs(60);

/// Only against a loose plug: people expect to see what they switched.
const POWER_QUIET_TIME: Duration = Duration::from_secs(5);

/// What the user may set. Everything else follows from the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// Unload a model after this long without use; `None` chooses by machine and power.
    #[serde(
        rename = "idle_unload_seconds",
        with = "transom_engine::seconds::option"
    )]
    pub idle_unload: Option<Duration>,
    /// A wish to keep the chat model loaded; critical memory pressure overrides it.
    pub keep_loaded: bool,
    /// Bytes that models may use together; `None` chooses by machine.
    pub memory_budget_bytes: Option<u64>,
    /// Asks that may wait; the next is refused as busy.
    pub queue_limit: usize,
    /// How long an ask waits for the machine to allow work again before it is refused.
    #[serde(rename = "longest_hold_seconds", with = "transom_engine::seconds")]
    pub max_blocked_time: Duration,
    /// How long a running answer may go on under critical memory pressure before it is ended.
    #[serde(rename = "finish_within_seconds", with = "transom_engine::seconds")]
    pub finish_timeout: Duration,
    /// How long a stopped answer may take to end before its process is killed. Where the memory is
    /// needed, [`Tuning::unload_timeout`] holds instead.
    #[serde(rename = "stop_within_seconds", with = "transom_engine::seconds")]
    pub stop_timeout: Duration,
    /// How long a process may take to give its memory back before it is killed.
    #[serde(rename = "unload_within_seconds", with = "transom_engine::seconds")]
    pub unload_timeout: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            idle_unload: None,
            keep_loaded: false,
            memory_budget_bytes: None,
            queue_limit: 8,
            // Longer than the longest quiet spell, so that whoever waits for heat to pass has a
            // chance.
            max_blocked_time: Duration::from_secs(90),
            finish_timeout: Duration::from_secs(20),
            stop_timeout: Duration::from_secs(10),
            unload_timeout: Duration::from_secs(3),
        }
    }
}

/// What the machine allows now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// Memory pressure as it is effective on: raised at once, lowered after a quiet spell.
    pub memory: MemoryPressure,
    /// Stop running answers now, for swap grows under critical pressure.
    pub stop_answers: bool,
    /// Most tokens of context for conversations that can be shortened.
    pub context_length: Option<usize>,
    /// Most tokens of a prefill step.
    pub prefill_chunk: Option<usize>,
    /// Most tokens of an answer not yet begun.
    pub max_tokens: Option<usize>,
    /// Whether tokens may be guessed ahead.
    pub speculation: bool,
    /// Least time between two repaints of a streaming answer.
    #[serde(rename = "repaint_interval_seconds", with = "transom_engine::seconds")]
    pub repaint_interval: Duration,
    /// Unload a model after this long without use; `None` keeps it.
    #[serde(
        rename = "idle_unload_seconds",
        with = "transom_engine::seconds::option"
    )]
    pub idle_unload: Option<Duration>,
    /// Whether asks may begin, else why not.
    #[serde(rename = "held")]
    pub blocked_by: Option<LimitReason>,
    /// Whether shells should offer a smaller model.
    pub offer_smaller_model: bool,
    /// Every limit above that differs from its default, with its reason; for people.
    #[serde(rename = "restraints")]
    pub limits: Vec<ActiveLimit>,
}

/// One limit in force and its reason. Reads as `shorter answers (1024 tokens): Low Power Mode`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveLimit {
    /// What is limited, and how far.
    pub limit: Limit,
    /// Why.
    #[serde(rename = "because")]
    pub reason: LimitReason,
}

/// What is limited. Reads as `shorter answers (1024 tokens)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum Limit {
    /// Running answers are ended.
    RunningAnswers,
    /// New answers wait.
    NewAnswers,
    /// Answers not yet begun end after so many tokens.
    AnswerLength {
        /// Most tokens.
        tokens: usize,
    },
    /// Conversations that can be shortened are read back so far.
    Context {
        /// Most tokens.
        tokens: usize,
    },
    /// Prompts are read in smaller steps.
    PrefillStep {
        /// Most tokens of one.
        tokens: usize,
    },
    /// No token is guessed ahead.
    Speculation,
    /// Growing answers are repainted less often.
    Repaint {
        /// Least milliseconds between two repaints.
        milliseconds: u64,
    },
    /// Unused models go sooner, or later, than is usual.
    IdleUnload {
        /// After so many seconds; 0 is at once.
        seconds: u64,
    },
    /// A smaller model would do better.
    SmallerModel,
}

/// Why something is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum LimitReason {
    /// The system asks for memory back.
    Memory {
        /// How urgently.
        pressure: MemoryPressure,
    },
    /// Swap grows.
    Thrashing,
    /// It is hot.
    Heat {
        /// How hot.
        state: ThermalState,
    },
    /// Low Power Mode is on.
    LowPower,
    /// No mains power.
    Battery,
    /// The machine has little memory.
    SmallMachine,
    /// The user's setting.
    Setting,
    /// The user paused everything.
    Paused,
}

impl fmt::Display for ActiveLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.limit, self.reason)
    }
}

/// Turns signals into an [`Allowance`]. Pure: `now` is an argument, and never goes back.
#[derive(Debug, Clone)]
pub struct Governor {
    size: MachineSize,
    /// Least time between two repaints on this machine.
    min_repaint_interval: Duration,
    tuning: Tuning,
    latest: SystemSignals,
    memory: Hysteresis<MemoryPressure>,
    is_thrashing: Hysteresis<bool>,
    /// Thrashing and critical pressure at one time. Not the two eased ones together: an answer is
    /// not ended for what is over.
    stop_answers: Hysteresis<bool>,
    is_paused: bool,
    thermal: Hysteresis<ThermalState>,
    is_low_power: Hysteresis<bool>,
    is_on_battery: Hysteresis<bool>,
    allowance: Allowance,
}

impl Governor {
    /// A machine that has not said anything yet.
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
            allowance: limits::allowance(
                size,
                min_repaint_interval,
                tuning,
                &latest,
                OtherInputs::default(),
            ),
        }
    }

    /// Takes the machine's state at `now`. What is worse holds at once; what is better, after a
    /// quiet spell.
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
        self.update_allowance();
    }

    /// Takes new settings; they hold at once.
    pub fn set_tuning(&mut self, tuning: &Tuning) {
        self.tuning = tuning.clone();
        self.update_allowance();
    }

    /// The user pauses everything, or lets it go on; it holds at once.
    pub fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.update_allowance();
    }

    /// Whether the user paused everything.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Eases what was quiet for long enough. Harmless at any time.
    pub fn tick(&mut self, now: Duration) {
        if self.next_deadline().is_some_and(|due| due <= now) {
            self.relax(now);
            self.update_allowance();
        }
    }

    /// When the next easing is due; `None` while time alone changes nothing. Later than the last
    /// `now`.
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

    /// What is allowed now.
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// What the machine said last.
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

    fn update_allowance(&mut self) {
        let effective = SystemSignals {
            memory: self.memory.level(),
            is_thrashing: self.is_thrashing.level(),
            thermal: self.thermal.level(),
            is_low_power: self.is_low_power.level(),
            is_on_battery: self.is_on_battery.level(),
        };
        let other = OtherInputs {
            stop_answers: self.stop_answers.level(),
            is_paused: self.is_paused,
        };
        self.allowance = limits::allowance(
            self.size,
            self.min_repaint_interval,
            &self.tuning,
            &effective,
            other,
        );
    }
}

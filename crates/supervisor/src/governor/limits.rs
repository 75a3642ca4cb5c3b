//! The limits that each signal sets. The table in the documentation of [`super`] describes this
//! file.
//!
//! Rule: each limit is the strictest one of all active signals, and its reason is that signal. So a
//! worse signal never allows more. No other file defines limits.

use std::time::Duration;

use transom_signals::{Hardware, MemoryPressure, SystemSignals, ThermalState};

use super::{ActiveLimit, Limit, LimitReason, Restrictions, Tuning};

const GIB: u64 = 1 << 30;

/// One frame of a usual display (60 Hz); more frequent repaints are not visible.
const REPAINT_INTERVAL: Duration = Duration::from_millis(16);

/// Longer, because drawing takes CPU time from the model; text still flows at twelve repaints a
/// second.
const REPAINT_INTERVAL_WITHOUT_GPU: Duration = Duration::from_millis(80);

/// The longest of the three intervals, while a signal slows repaints.
const SLOW_REPAINT_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the minimum time between two repaints without any limit.
pub(super) fn min_repaint_interval(hardware: &Hardware) -> Duration {
    match hardware.working_set_bytes {
        Some(_) => REPAINT_INTERVAL,
        None => REPAINT_INTERVAL_WITHOUT_GPU,
    }
}

/// The limits of one signal. `None` and `false` limit nothing.
#[derive(Debug, Clone, Copy)]
struct SignalLimits {
    reason: LimitReason,
    context_length: Option<usize>,
    max_tokens: Option<usize>,
    prefill_chunk: Option<usize>,
    disables_speculation: bool,
    /// Responses that have not started wait until no other one runs.
    one_at_a_time: bool,
    slows_repaint: bool,
    idle: Option<Idle>,
    blocks_requests: bool,
    suggests_smaller_model: bool,
}

/// The idle time before an unload.
#[derive(Debug, Clone, Copy)]
struct Idle {
    usual: Duration,
    /// On small machines.
    small: Duration,
    /// The strongest setting that it overrides.
    overrides: IdleSource,
}

/// Where the idle time without signals comes from, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IdleSource {
    Default,
    Setting,
    KeepLoaded,
}

const fn idle(usual: u64, small: u64, overrides: IdleSource) -> Option<Idle> {
    Some(Idle {
        usual: Duration::from_secs(usual),
        small: Duration::from_secs(small),
        overrides,
    })
}

const fn no_limits(reason: LimitReason) -> SignalLimits {
    SignalLimits {
        reason,
        context_length: None,
        max_tokens: None,
        prefill_chunk: None,
        disables_speculation: false,
        one_at_a_time: false,
        slows_repaint: false,
        idle: None,
        blocks_requests: false,
        suggests_smaller_model: false,
    }
}

const fn memory(pressure: MemoryPressure) -> LimitReason {
    LimitReason::Memory { pressure }
}

const fn heat(state: ThermalState) -> LimitReason {
    LimitReason::Heat { state }
}

const MEMORY_WARNING: SignalLimits = SignalLimits {
    context_length: Some(4096),
    max_tokens: Some(1024),
    prefill_chunk: Some(512),
    one_at_a_time: true,
    idle: idle(60, 30, IdleSource::Setting),
    ..no_limits(memory(MemoryPressure::Warning))
};

const MEMORY_CRITICAL: SignalLimits = SignalLimits {
    reason: memory(MemoryPressure::Critical),
    disables_speculation: true,
    idle: idle(0, 0, IdleSource::KeepLoaded),
    blocks_requests: true,
    ..MEMORY_WARNING
};

const THRASHING: SignalLimits = SignalLimits {
    reason: LimitReason::Thrashing,
    ..MEMORY_WARNING
};

const HEAT_SERIOUS: SignalLimits = SignalLimits {
    max_tokens: Some(1024),
    prefill_chunk: Some(256),
    disables_speculation: true,
    one_at_a_time: true,
    slows_repaint: true,
    suggests_smaller_model: true,
    ..no_limits(heat(ThermalState::Serious))
};

const HEAT_CRITICAL: SignalLimits = SignalLimits {
    reason: heat(ThermalState::Critical),
    blocks_requests: true,
    ..HEAT_SERIOUS
};

const LOW_POWER: SignalLimits = SignalLimits {
    context_length: Some(4096),
    max_tokens: Some(1024),
    disables_speculation: true,
    one_at_a_time: true,
    slows_repaint: true,
    idle: idle(90, 60, IdleSource::Default),
    suggests_smaller_model: true,
    ..no_limits(LimitReason::LowPower)
};

const BATTERY: SignalLimits = SignalLimits {
    idle: idle(120, 90, IdleSource::Default),
    ..no_limits(LimitReason::Battery)
};

/// The limits of all signals. If two signals set the same limit, the first one is the reason.
const ALL_SIGNALS: [SignalLimits; 7] = [
    MEMORY_CRITICAL,
    HEAT_CRITICAL,
    MEMORY_WARNING,
    THRASHING,
    HEAT_SERIOUS,
    LOW_POWER,
    BATTERY,
];

impl SignalLimits {
    fn is_active(&self, effective: &SystemSignals) -> bool {
        match self.reason {
            LimitReason::Memory { pressure } => effective.memory == pressure,
            LimitReason::Thrashing => effective.is_thrashing,
            LimitReason::Heat { state } => effective.thermal == state,
            LimitReason::LowPower => effective.is_low_power,
            LimitReason::Battery => effective.is_on_battery,
            LimitReason::SmallMachine | LimitReason::Setting | LimitReason::Paused => false,
        }
    }
}

/// Classes of machines by memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MachineSize {
    /// Up to 16 GB.
    Small,
    /// More than 16 GB and less than 32 GB.
    Medium,
    /// From 32 GB.
    Large,
}

impl MachineSize {
    pub(super) fn of(memory_bytes: u64) -> Self {
        // Below 32, because Linux does not count the memory of the firmware and the kernel.
        match memory_bytes {
            bytes if bytes <= 16 * GIB => Self::Small,
            bytes if bytes < 30 * GIB => Self::Medium,
            _ => Self::Large,
        }
    }
}

/// Inputs besides the signals.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OtherInputs {
    /// Running responses must stop.
    pub(super) stop_answers: bool,
    /// The user has paused.
    pub(super) is_paused: bool,
}

/// Returns what is allowed for these `effective` signals.
pub(super) fn restrictions(
    size: MachineSize,
    min_repaint_interval: Duration,
    tuning: &Tuning,
    effective: &SystemSignals,
    other: OtherInputs,
) -> Restrictions {
    let active = ActiveSignals::of(effective);
    let paused = other.is_paused.then_some(LimitReason::Paused);
    let stop_answers = other.stop_answers.then_some(LimitReason::Thrashing);
    let blocked_by = paused.or_else(|| active.first(|signal| signal.blocks_requests));
    let max_tokens = active.strictest(|signal| signal.max_tokens);
    let context_length = active.strictest(|signal| signal.context_length);
    let prefill_chunk = active.strictest(|signal| signal.prefill_chunk);
    let speculation_off = active.first(|signal| signal.disables_speculation);
    let slow_repaint = active.first(|signal| signal.slows_repaint);
    let repaint_limit = slow_repaint.map(|reason| {
        let milliseconds = u64::try_from(SLOW_REPAINT_INTERVAL.as_millis()).unwrap_or(u64::MAX);
        (Limit::Repaint { milliseconds }, reason)
    });
    let idle = active.idle(size, tuning);
    let idle_limit = idle.and_then(|(wait, reason)| {
        let seconds = wait.as_secs();
        Some((Limit::IdleUnload { seconds }, reason?))
    });
    let smaller_model = active.first(|signal| signal.suggests_smaller_model);
    // The most noticeable first.
    let limits = [
        stop_answers.map(|reason| (Limit::RunningAnswers, reason)),
        blocked_by.map(|reason| (Limit::NewAnswers, reason)),
        max_tokens.map(|(tokens, reason)| (Limit::AnswerLength { tokens }, reason)),
        context_length.map(|(tokens, reason)| (Limit::Context { tokens }, reason)),
        prefill_chunk.map(|(tokens, reason)| (Limit::PrefillStep { tokens }, reason)),
        speculation_off.map(|reason| (Limit::Speculation, reason)),
        repaint_limit,
        idle_limit,
        smaller_model.map(|reason| (Limit::SmallerModel, reason)),
    ];
    let limits = limits.into_iter().flatten();
    Restrictions {
        memory: match effective.is_thrashing {
            true => effective.memory.max(MemoryPressure::Warning),
            false => effective.memory,
        },
        stop_answers: other.stop_answers,
        context_length: context_length.map(|(n, _)| n),
        prefill_chunk: prefill_chunk.map(|(n, _)| n),
        max_tokens: max_tokens.map(|(n, _)| n),
        speculation: speculation_off.is_none(),
        repaint_interval: match slow_repaint {
            Some(_) => SLOW_REPAINT_INTERVAL,
            None => min_repaint_interval,
        },
        idle_unload: idle.map(|(wait, _)| wait),
        blocked_by,
        offer_smaller_model: smaller_model.is_some(),
        limits: limits
            .map(|(limit, reason)| ActiveLimit { limit, reason })
            .collect(),
    }
}

/// Returns the idle time before an unload for these `effective` signals; `None` keeps models
/// loaded.
pub(super) fn idle_unload(
    size: MachineSize,
    tuning: &Tuning,
    effective: &SystemSignals,
) -> Option<Duration> {
    let idle = ActiveSignals::of(effective).idle(size, tuning);
    idle.map(|(wait, _)| wait)
}

/// Returns true if several responses may be generated at the same time under these `effective`
/// signals.
pub(super) fn allows_parallel(effective: &SystemSignals) -> bool {
    let active = ActiveSignals::of(effective);
    active.first(|signal| signal.one_at_a_time).is_none()
}

/// The limits of the active signals, in the order of [`ALL_SIGNALS`].
struct ActiveSignals(Vec<&'static SignalLimits>);

impl ActiveSignals {
    fn of(effective: &SystemSignals) -> Self {
        let active = ALL_SIGNALS.iter().filter(|it| it.is_active(effective));
        Self(active.collect())
    }

    fn first(&self, has_limit: impl Fn(&SignalLimits) -> bool) -> Option<LimitReason> {
        let signal = self.0.iter().find(|signal| has_limit(signal));
        signal.map(|signal| signal.reason)
    }

    fn strictest<T: Ord>(
        &self,
        limit: impl Fn(&SignalLimits) -> Option<T>,
    ) -> Option<(T, LimitReason)> {
        let signals = self.0.iter();
        signals
            .filter_map(|signal| Some((limit(signal)?, signal.reason)))
            .reduce(|best, next| if next.0 < best.0 { next } else { best })
    }

    /// Returns the idle time and its reason if it is not the default; `None` keeps models loaded.
    fn idle(&self, size: MachineSize, tuning: &Tuning) -> Option<(Duration, Option<LimitReason>)> {
        let (source, base) = default_idle(size, tuning);
        let limited = self.strictest(|signal| {
            let idle = signal.idle.filter(|idle| idle.overrides >= source)?;
            Some(match size {
                MachineSize::Small => idle.small,
                MachineSize::Medium | MachineSize::Large => idle.usual,
            })
        });
        match (base, limited) {
            (Some(base), Some((wait, _))) if base.0 <= wait => Some(base),
            (base, None) => base,
            (_, Some((wait, reason))) => Some((wait, Some(reason))),
        }
    }
}

/// Returns the idle time without any signal.
fn default_idle(
    size: MachineSize,
    tuning: &Tuning,
) -> (IdleSource, Option<(Duration, Option<LimitReason>)>) {
    if tuning.keep_loaded {
        return (IdleSource::KeepLoaded, None);
    }
    if let Some(wait) = tuning.idle_unload {
        return (
            IdleSource::Setting,
            Some((wait, Some(LimitReason::Setting))),
        );
    }
    let (seconds, reason) = match size {
        MachineSize::Small => (120, Some(LimitReason::SmallMachine)),
        MachineSize::Medium => (180, None),
        MachineSize::Large => (600, None),
    };
    let wait = Duration::from_secs(seconds);
    (IdleSource::Default, Some((wait, reason)))
}

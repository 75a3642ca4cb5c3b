//! The ladder: what each signal costs. The table at the head of [`super`] is this file in words.
//!
//! Rule: a limit is the tightest that any rung in force demands, and its reason is that rung. So
//! worse signals never allow more. Which limits there are is said here and nowhere else.

use std::time::Duration;

use transom_signals::{Hardware, MemoryPressure, SystemSignals, ThermalState};

use super::{Allowance, Because, Tuning};

const GIB: u64 = 1 << 30;

/// One frame of a usual display (60 Hz): a repaint sooner than that is never seen.
const FRAME: Duration = Duration::from_millis(16);

/// The same where models compute on the processor: drawing takes it from them, and a text that grows
/// twelve times a second still flows.
const FRAME_WITHOUT_GPU: Duration = Duration::from_millis(80);

/// Least time between two repaints when nothing demands more.
pub(super) fn frame(hardware: &Hardware) -> Duration {
    match hardware.working_set_bytes {
        Some(_) => FRAME,
        None => FRAME_WITHOUT_GPU,
    }
}

/// What one signal demands. `None` and `false` demand nothing.
#[derive(Debug, Clone, Copy)]
struct Rung {
    because: Because,
    context_length: Option<usize>,
    max_tokens: Option<usize>,
    prefill_chunk: Option<usize>,
    stops_speculation: bool,
    repaint: Option<Duration>,
    idle: Option<Idle>,
    holds: bool,
    offers_smaller: bool,
}

/// When models unload.
#[derive(Debug, Clone, Copy)]
struct Idle {
    usual: Duration,
    /// On small machines.
    small: Duration,
    /// The strongest wish that it overrides.
    over: Wish,
}

/// What decides the idle wait before any signal does, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    Default,
    Setting,
    KeepLoaded,
}

const fn idle(usual: u64, small: u64, over: Wish) -> Option<Idle> {
    Some(Idle {
        usual: Duration::from_secs(usual),
        small: Duration::from_secs(small),
        over,
    })
}

const fn nothing(because: Because) -> Rung {
    Rung {
        because,
        context_length: None,
        max_tokens: None,
        prefill_chunk: None,
        stops_speculation: false,
        repaint: None,
        idle: None,
        holds: false,
        offers_smaller: false,
    }
}

const fn memory(pressure: MemoryPressure) -> Because {
    Because::Memory { pressure }
}

const fn heat(state: ThermalState) -> Because {
    Because::Heat { state }
}

const MEMORY_WARNING: Rung = Rung {
    context_length: Some(4096),
    max_tokens: Some(1024),
    prefill_chunk: Some(512),
    idle: idle(60, 30, Wish::Setting),
    ..nothing(memory(MemoryPressure::Warning))
};

const MEMORY_CRITICAL: Rung = Rung {
    because: memory(MemoryPressure::Critical),
    stops_speculation: true,
    idle: idle(0, 0, Wish::KeepLoaded),
    holds: true,
    ..MEMORY_WARNING
};

const THRASHING: Rung = Rung {
    because: Because::Thrashing,
    ..MEMORY_WARNING
};

const HEAT_SERIOUS: Rung = Rung {
    max_tokens: Some(1024),
    prefill_chunk: Some(256),
    stops_speculation: true,
    repaint: Some(Duration::from_millis(100)),
    offers_smaller: true,
    ..nothing(heat(ThermalState::Serious))
};

const HEAT_CRITICAL: Rung = Rung {
    because: heat(ThermalState::Critical),
    holds: true,
    ..HEAT_SERIOUS
};

const LOW_POWER: Rung = Rung {
    context_length: Some(4096),
    max_tokens: Some(1024),
    stops_speculation: true,
    repaint: Some(Duration::from_millis(100)),
    idle: idle(90, 60, Wish::Default),
    offers_smaller: true,
    ..nothing(Because::LowPower)
};

const BATTERY: Rung = Rung {
    idle: idle(120, 90, Wish::Default),
    ..nothing(Because::Battery)
};

/// The reason that is named first when two demand the same comes first.
const LADDER: [Rung; 7] = [
    MEMORY_CRITICAL,
    HEAT_CRITICAL,
    MEMORY_WARNING,
    THRASHING,
    HEAT_SERIOUS,
    LOW_POWER,
    BATTERY,
];

impl Rung {
    fn is_in_force(&self, acted: &SystemSignals) -> bool {
        match self.because {
            Because::Memory { pressure } => acted.memory == pressure,
            Because::Thrashing => acted.is_thrashing,
            Because::Heat { state } => acted.thermal == state,
            Because::LowPower => acted.is_low_power,
            Because::Battery => acted.is_on_battery,
            Because::SmallMachine | Because::Setting | Because::Paused => false,
        }
    }
}

/// The machine, as far as the ladder cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Up to 16 GB.
    Small,
    /// Between.
    Usual,
    /// From 32 GB.
    Roomy,
}

impl Size {
    pub(super) fn of(memory_bytes: u64) -> Self {
        // Below 32, because Linux leaves out what the firmware and the kernel took.
        match memory_bytes {
            bytes if bytes <= 16 * GIB => Self::Small,
            bytes if bytes < 30 * GIB => Self::Usual,
            _ => Self::Roomy,
        }
    }
}

/// What is wanted beside what each signal demands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    /// Running answers end.
    pub(super) stop_answers: bool,
    /// The user paused.
    pub(super) is_paused: bool,
}

/// What is allowed while signals are acted on as `acted`.
pub(super) fn allowance(
    size: Size,
    frame: Duration,
    tuning: &Tuning,
    acted: &SystemSignals,
    wanted: Wanted,
) -> Allowance {
    let demands = Demands::of(size, tuning, acted, wanted);
    Allowance {
        memory: match acted.is_thrashing {
            true => acted.memory.max(MemoryPressure::Warning),
            false => acted.memory,
        },
        stop_answers: wanted.stop_answers,
        context_length: demands.context_length.map(|(n, _)| n),
        prefill_chunk: demands.prefill_chunk.map(|(n, _)| n),
        max_tokens: demands.max_tokens.map(|(n, _)| n),
        speculation: demands.no_speculation.is_none(),
        repaint_interval: demands.repaint.map_or(frame, |(wait, _)| wait.max(frame)),
        idle_unload: demands.idle.map(|(wait, _)| wait),
        held: demands.held,
        offer_smaller_model: demands.smaller_model.is_some(),
        restraints: demands.restraints(),
    }
}

/// Every limit in force and its reason.
pub(super) struct Demands {
    pub(super) stop_answers: Option<Because>,
    pub(super) held: Option<Because>,
    pub(super) max_tokens: Option<(usize, Because)>,
    pub(super) context_length: Option<(usize, Because)>,
    pub(super) prefill_chunk: Option<(usize, Because)>,
    pub(super) no_speculation: Option<Because>,
    pub(super) repaint: Option<(Duration, Because)>,
    /// `None` keeps models; no reason, if it is this machine's usual wait.
    pub(super) idle: Option<(Duration, Option<Because>)>,
    pub(super) smaller_model: Option<Because>,
}

impl Demands {
    fn of(size: Size, tuning: &Tuning, acted: &SystemSignals, wanted: Wanted) -> Self {
        let in_force = LADDER.iter().filter(|rung| rung.is_in_force(acted));
        let climbed = Climbed {
            rungs: in_force.collect(),
        };
        let paused = wanted.is_paused.then_some(Because::Paused);
        Self {
            stop_answers: wanted.stop_answers.then_some(Because::Thrashing),
            held: paused.or_else(|| climbed.first(|rung| rung.holds)),
            max_tokens: climbed.tightest(|rung| rung.max_tokens),
            context_length: climbed.tightest(|rung| rung.context_length),
            prefill_chunk: climbed.tightest(|rung| rung.prefill_chunk),
            no_speculation: climbed.first(|rung| rung.stops_speculation),
            repaint: climbed.slowest(|rung| rung.repaint),
            idle: climbed.idle(size, tuning),
            smaller_model: climbed.first(|rung| rung.offers_smaller),
        }
    }
}

/// The rungs in force, in the ladder's order.
struct Climbed {
    rungs: Vec<&'static Rung>,
}

impl Climbed {
    fn first(&self, demands: impl Fn(&Rung) -> bool) -> Option<Because> {
        let rung = self.rungs.iter().find(|rung| demands(rung));
        rung.map(|rung| rung.because)
    }

    fn tightest<T: Ord>(&self, limit: impl Fn(&Rung) -> Option<T>) -> Option<(T, Because)> {
        let limits = self.rungs.iter();
        limits
            .filter_map(|rung| Some((limit(rung)?, rung.because)))
            .reduce(|best, next| if next.0 < best.0 { next } else { best })
    }

    fn slowest<T: Ord>(&self, wait: impl Fn(&Rung) -> Option<T>) -> Option<(T, Because)> {
        let slowest = self.tightest(|rung| wait(rung).map(std::cmp::Reverse));
        slowest.map(|(wait, because)| (wait.0, because))
    }

    /// The idle wait and why it is not the usual one; `None` keeps models.
    fn idle(&self, size: Size, tuning: &Tuning) -> Option<(Duration, Option<Because>)> {
        let (wish, base) = wished_idle(size, tuning);
        let demanded = self.tightest(|rung| {
            let idle = rung.idle.filter(|idle| idle.over >= wish)?;
            Some(match size {
                Size::Small => idle.small,
                Size::Usual | Size::Roomy => idle.usual,
            })
        });
        match (base, demanded) {
            (Some(base), Some((wait, _))) if base.0 <= wait => Some(base),
            (base, None) => base,
            (_, Some((wait, because))) => Some((wait, Some(because))),
        }
    }
}

/// The idle wait without any signal.
fn wished_idle(size: Size, tuning: &Tuning) -> (Wish, Option<(Duration, Option<Because>)>) {
    if tuning.keep_loaded {
        return (Wish::KeepLoaded, None);
    }
    if let Some(wait) = tuning.idle_unload {
        return (Wish::Setting, Some((wait, Some(Because::Setting))));
    }
    let (seconds, because) = match size {
        Size::Small => (120, Some(Because::SmallMachine)),
        Size::Usual => (180, None),
        Size::Roomy => (600, None),
    };
    let wait = Duration::from_secs(seconds);
    (Wish::Default, Some((wait, because)))
}

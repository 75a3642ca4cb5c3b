//! The speed over minutes: windows of ten seconds, the point where the machine slows down, and the
//! comparison with the prediction.
//!
//! Rule: everything here is computed from times that the caller passes, so that tests need no clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_signals::ThermalState;

/// Length of a window.
pub const WINDOW: Duration = Duration::from_secs(10);

/// Windows in a minute, over which a speed is a median.
const WINDOWS_PER_MINUTE: usize = 6;

/// The machine has slowed down if this many windows in a row are below [`SLOWER`] of the speed in the
/// first minute.
const SLOW_WINDOWS: usize = 3;
const SLOWER: f64 = 0.9;

/// A measured speed is far from the prediction if it is so much below or above its range.
const FAR_OFF: f64 = 1.25;

/// The state of the machine at the end of a window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MachineState {
    /// The thermal state.
    pub thermal: ThermalState,
    /// The limits in force, for people.
    pub limits: Vec<String>,
    /// Joules since the start of the measurement; `None` if they are unknown.
    pub joules: Option<f64>,
}

/// Ten seconds of the measurement, or less at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS), ts(rename = "SpeedWindow"))]
pub struct Window {
    /// Start, from the start of the measurement.
    pub start_seconds: f64,
    /// Length.
    pub seconds: f64,
    /// Tokens that were generated after the first of each response.
    pub tokens: f64,
    /// The speed while tokens were generated, without reading prompts; `None` if none were generated.
    pub tokens_per_second: Option<f64>,
    /// The thermal state at the end.
    pub thermal: ThermalState,
    /// The limits in force at the end.
    pub limits: Vec<String>,
    /// Energy of the window; `None` if it is unknown.
    pub joules: Option<f64>,
}

/// Collects the tokens of responses in windows.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Tokens, and the time in which they were generated, of each window.
    sums: Vec<(f64, Duration)>,
    closed: Vec<Window>,
    joules: f64,
}

impl Recorder {
    /// Adds `n_tokens` that were generated from `from` to `to`, evenly. Times are from the start of
    /// the measurement.
    pub fn add_tokens(&mut self, from: Duration, to: Duration, n_tokens: usize) {
        let length = to.saturating_sub(from);
        if n_tokens == 0 || length.is_zero() {
            return;
        }
        let mut begin = from;
        while begin < to {
            let index = window_at(begin);
            let end = to.min(WINDOW * (index as u32 + 1));
            let part = end - begin;
            if self.sums.len() <= index {
                self.sums.resize(index + 1, (0.0, Duration::ZERO));
            }
            let (tokens, seconds) = &mut self.sums[index];
            *tokens += n_tokens as f64 * part.as_secs_f64() / length.as_secs_f64();
            *seconds += part;
            begin = end;
        }
    }

    /// Returns true if a window has ended before `now` whose state is not known yet.
    pub fn needs_state(&self, now: Duration) -> bool {
        self.closed.len() < window_at(now)
    }

    /// Records the state of the machine for all windows that have ended before `now`.
    pub fn add_state(&mut self, now: Duration, state: &MachineState) {
        self.close(window_at(now), WINDOW, state);
    }

    /// Returns all windows of a measurement that ended at `end`. The last one counts if it is at least
    /// half as long as the others, or the only one.
    pub fn finish(mut self, end: Duration, state: &MachineState) -> Vec<Window> {
        let n_whole = window_at(end);
        self.close(n_whole, WINDOW, state);
        let rest = end - WINDOW * n_whole as u32;
        if rest * 2 >= WINDOW || (n_whole == 0 && !rest.is_zero()) {
            self.close(n_whole + 1, rest, state);
        }
        self.closed
    }

    fn close(&mut self, n_windows: usize, length: Duration, state: &MachineState) {
        let n_new = n_windows.saturating_sub(self.closed.len());
        let total = state.joules.map(|total| total - self.joules);
        self.joules = state.joules.filter(|_| n_new > 0).unwrap_or(self.joules);
        for index in self.closed.len()..n_windows {
            let (tokens, seconds) = self.sums.get(index).copied().unwrap_or_default();
            let seconds = seconds.as_secs_f64();
            self.closed.push(Window {
                start_seconds: (WINDOW * index as u32).as_secs_f64(),
                seconds: length.as_secs_f64(),
                tokens,
                tokens_per_second: (seconds > 0.0).then(|| tokens / seconds),
                thermal: state.thermal,
                limits: state.limits.clone(),
                joules: total.map(|total| total / n_new as f64),
            });
        }
    }
}

fn window_at(time: Duration) -> usize {
    (time.as_millis() / WINDOW.as_millis()) as usize
}

/// The point where the machine slowed down.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Throttling {
    /// Start of the first slow window.
    pub at_seconds: f64,
    /// The speed before: the median of the first minute, in tokens per second.
    pub before: f64,
    /// The median of the speeds from this point on.
    pub after: f64,
}

/// Returns the point where the machine slowed down: the first of three windows in a row that are more
/// than a tenth slower than the first minute.
pub fn throttling(windows: &[Window]) -> Option<Throttling> {
    let speeds: Vec<(f64, f64)> = windows
        .iter()
        .filter_map(|window| Some((window.start_seconds, window.tokens_per_second?)))
        .collect();
    let first_minute = speeds
        .iter()
        .take(WINDOWS_PER_MINUTE)
        .map(|(_, speed)| *speed);
    let before = median(first_minute)?;
    let is_slow = |speeds: &[(f64, f64)]| speeds.iter().all(|(_, speed)| *speed < before * SLOWER);
    let at = speeds.windows(SLOW_WINDOWS).position(is_slow)?;
    Some(Throttling {
        at_seconds: speeds[at].0,
        before,
        after: median(speeds[at..].iter().map(|(_, speed)| *speed))?,
    })
}

/// The speed in one minute.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct MinuteSpeed {
    /// Number of the minute, from 1.
    pub minute: usize,
    /// Median of its windows, in tokens per second.
    pub tokens_per_second: f64,
}

/// Returns the speeds of the first, the fifth, the tenth and the last whole minute, as far as they were
/// measured; of a measurement of less than a minute, the speed of that.
pub fn minutes(windows: &[Window]) -> Vec<MinuteSpeed> {
    let whole: Vec<&[Window]> = windows.chunks(WINDOWS_PER_MINUTE).collect();
    let n_whole = (windows.len() / WINDOWS_PER_MINUTE).max(1);
    let mut chosen = vec![1, 5, 10, n_whole];
    chosen.retain(|minute| *minute <= n_whole);
    chosen.sort_unstable();
    chosen.dedup();
    let speed = |minute: usize| {
        let of_minute = whole.get(minute - 1)?;
        let speeds = of_minute
            .iter()
            .filter_map(|window| window.tokens_per_second);
        Some(MinuteSpeed {
            minute,
            tokens_per_second: median(speeds)?,
        })
    };
    chosen.into_iter().filter_map(speed).collect()
}

/// The energy of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Energy {
    /// Joules of all windows. They include reading the prompts, and every other program.
    pub joules: f64,
    /// Mean power.
    pub watts: f64,
    /// Generated tokens per joule.
    pub tokens_per_joule: f64,
}

/// Returns the energy of the windows; `None` if it is unknown.
pub fn energy(windows: &[Window]) -> Option<Energy> {
    let joules: f64 = windows
        .iter()
        .map(|window| window.joules)
        .sum::<Option<f64>>()?;
    let seconds: f64 = windows.iter().map(|window| window.seconds).sum();
    let tokens: f64 = windows.iter().map(|window| window.tokens).sum();
    (joules > 0.0 && seconds > 0.0).then(|| Energy {
        joules,
        watts: joules / seconds,
        tokens_per_joule: tokens / joules,
    })
}

/// The predicted speed beside the measured one, in tokens per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Prediction {
    /// The predicted range.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The measured speed: the median of the first minute.
    pub measured: f64,
    /// The measured speed is more than a quarter below or above the range.
    pub is_far_off: bool,
}

impl Prediction {
    /// Compares the range from `low` to `high` with the first minute.
    pub fn new(low: f64, high: f64, windows: &[Window]) -> Option<Self> {
        let measured = minutes(windows).first()?.tokens_per_second;
        Some(Self {
            low,
            high,
            measured,
            is_far_off: measured * FAR_OFF < low || measured > high * FAR_OFF,
        })
    }
}

/// Joins neighbors until there are at most `max` windows. A joined window has the state at its end.
pub(crate) fn joined(windows: &[Window], max: usize) -> Vec<Window> {
    if windows.len() <= max {
        return windows.to_vec();
    }
    let n_neighbors = windows.len().div_ceil(max.max(1));
    let join = |windows: &[Window]| {
        let (first, last) = (windows.first()?, windows.last()?);
        let sum = |of: fn(&Window) -> f64| windows.iter().map(of).sum::<f64>();
        let tokens = sum(|window| window.tokens);
        let speeds = windows.iter().filter_map(|window| {
            let speed = window.tokens_per_second.filter(|speed| *speed > 0.0)?;
            Some(window.tokens / speed)
        });
        let generating: f64 = speeds.sum();
        Some(Window {
            start_seconds: first.start_seconds,
            seconds: sum(|window| window.seconds),
            tokens,
            tokens_per_second: (generating > 0.0).then(|| tokens / generating),
            joules: windows.iter().map(|window| window.joules).sum(),
            ..last.clone()
        })
    };
    windows.chunks(n_neighbors).filter_map(join).collect()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let above = values.get(values.len() / 2)?;
    match values.len() % 2 {
        1 => Some(*above),
        _ => Some((values[values.len() / 2 - 1] + above) / 2.0),
    }
}

#[cfg(test)]
mod tests;

//! Measurements of the app's speed and memory. Each returns lines for a table.
//!
//! Values are medians of several rounds, with their range. They are meaningful only on an otherwise
//! idle machine with release builds.

mod decode;
mod focus;
mod memory;
mod start;
mod stream;

use std::fmt;
use std::io::{Write, stderr};

use crate::failure::Outcome;

/// A line of the table.
#[derive(Debug, Clone)]
pub struct Figure {
    what: String,
    unit: &'static str,
    rounds: Vec<f64>,
}

impl Figure {
    fn new(what: impl Into<String>, unit: &'static str, rounds: Vec<f64>) -> Self {
        let figure = Self {
            what: what.into(),
            unit,
            rounds,
        };
        let _ = writeln!(stderr(), "  {figure}");
        figure
    }
}

/// Returns the median, or NaN if there are no values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = self.rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self
            .rounds
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let (what, unit, n) = (&self.what, self.unit, self.rounds.len());
        let precision = if most < 20.0 { 2 } else { 0 };
        let middle = median(&self.rounds);
        write!(
            f,
            "| {what} | {middle:.precision$} {unit} | {least:.precision$}-{most:.precision$} | {n} |"
        )
    }
}

/// The names of the measurements in order.
pub const NAMES: [&str; 5] = ["start", "memory", "focus", "stream", "decode"];

/// Runs one measurement with `n_rounds` rounds.
///
/// # Errors
/// If the app or the gallery does not do what is measured.
pub async fn measure(name: &str, n_rounds: usize) -> Outcome<Vec<Figure>> {
    match name {
        "start" => start::measure(n_rounds).await,
        "memory" => memory::measure().await,
        "focus" => focus::measure(n_rounds).await,
        "stream" => stream::measure().await,
        _ => decode::measure(n_rounds).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&[3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(&[4.0, 1.0]).to_bits(), 2.5_f64.to_bits());
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_line_has_median_range_and_rounds() {
        let figure = Figure {
            what: "start".into(),
            unit: "ms",
            rounds: vec![30.0, 10.0, 20.0],
        };
        assert_eq!(figure.to_string(), "| start | 20 ms | 10-30 | 3 |");
    }
}

//! Whether a model fits, and how fast it is, in a few words.
//!
//! Rule: the verdict is `catalog`'s, and so is every number; an estimate says that it is one.

use transom_library::{EstimatedFit, Speed};

use crate::output::stats::{bytes_text, rate_text};
use crate::output::tokens::tokens_short;

/// A verdict in a column.
pub(crate) fn verdict_short(verdict: EstimatedFit) -> String {
    match verdict {
        EstimatedFit::Fits => "fits".to_owned(),
        EstimatedFit::FitsWithContext { context_length } => {
            format!("fits with {}", tokens_short(context_length))
        }
        EstimatedFit::FitsIfOthersClose { .. } => "if others close".to_owned(),
        EstimatedFit::DoesNotFit { .. } => "too large".to_owned(),
    }
}

/// A verdict in a sentence, with these numbers.
pub(crate) fn verdict_text(verdict: EstimatedFit, numbers: &str) -> String {
    match verdict {
        EstimatedFit::Fits => format!("fits: {numbers}"),
        EstimatedFit::FitsWithContext { context_length } => {
            format!("fits with a context of {context_length} tokens: {numbers}")
        }
        EstimatedFit::FitsIfOthersClose { needs_bytes_free } => format!(
            "fits if other apps free {}: {numbers}",
            bytes_text(needs_bytes_free)
        ),
        EstimatedFit::DoesNotFit { .. } => format!("does not fit: {numbers}"),
    }
}

/// `20 to 34 tokens a second, estimated`.
pub(crate) fn speed_text(speed: Speed) -> String {
    let how = match speed.is_measured {
        true => "measured here",
        false => "estimated",
    };
    format!("{} tokens a second, {how}", speed_range(speed))
}

/// `20 to 34`.
pub(crate) fn speed_range(speed: Speed) -> String {
    let (low, high) = (figure(speed.low), figure(speed.high));
    match low == high {
        true => low,
        false => format!("{low} to {high}"),
    }
}

/// Estimates deserve no decimals, unless they are tiny.
fn figure(rate: f64) -> String {
    match rate {
        ..0.05 => "under 0.1".to_owned(),
        ..9.95 => rate_text(rate),
        _ => format!("{rate:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_words_in_a_column() {
        let check = |verdict, expect: &str| assert_eq!(verdict_short(verdict), expect);
        check(EstimatedFit::Fits, "fits");
        let context_length = 16_384;
        check(
            EstimatedFit::FitsWithContext { context_length },
            "fits with 16k",
        );
        let needs_bytes_free = 1;
        check(
            EstimatedFit::FitsIfOthersClose { needs_bytes_free },
            "if others close",
        );
        check(EstimatedFit::DoesNotFit { missing_bytes: 1 }, "too large");
    }

    #[test]
    fn a_speed_has_no_more_figures_than_it_deserves_and_says_how_it_is_known() {
        let speed = |low, high, is_measured| Speed {
            low,
            high,
            is_measured,
        };
        let check = |low, high, expect: &str| {
            assert_eq!(speed_range(speed(low, high, false)), expect);
        };
        check(20.4, 34.2, "20 to 34");
        check(2.04, 3.46, "2.0 to 3.5");
        check(33.9, 34.2, "34");
        check(0.01, 0.02, "under 0.1");
        let told = speed_text(speed(20.0, 30.0, true));
        assert_eq!(told, "20 to 30 tokens a second, measured here");
    }
}

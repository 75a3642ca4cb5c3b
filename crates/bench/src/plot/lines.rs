//! The speed over time: a line for each engine, and the range that was predicted for it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{EDGE, WIDTH, image, line, number, style, text};
use crate::result::SustainedReport;
use crate::sustained::Window;

/// Height of the image without its legend.
const HEIGHT: f64 = 364.0;

/// Margins of the area with the lines.
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - EDGE;
const TOP: f64 = 78.0;
const BOTTOM: f64 = 70.0;

/// Height of a line of the legend.
const LEGEND: f64 = 22.0;

/// Intervals of an axis, at most.
const MAX_STEPS: f64 = 6.0;

/// A predicted range counts for the axis up to this multiple of the fastest window, so that a wrong
/// prediction does not make the lines flat.
const MAX_RANGE: f64 = 1.5;

/// The labels of an axis: 0, and `n_steps` multiples of `step`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Axis {
    /// Distance of two labels.
    pub step: f64,
    /// Number of distances.
    pub n_steps: u32,
}

/// The axes of a plot of speeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Axes {
    /// Time in seconds.
    pub seconds: Axis,
    /// Tokens per second.
    pub speed: Axis,
}

impl Axis {
    fn new(most: f64, step: f64) -> Self {
        let n_steps = (most / step).ceil().max(1.0) as u32;
        Self { step, n_steps }
    }

    fn end(self) -> f64 {
        self.step * f64::from(self.n_steps)
    }

    fn labels(self) -> impl Iterator<Item = f64> {
        (0..=self.n_steps).map(move |index| self.step * f64::from(index))
    }
}

/// Returns the axes that all windows fit in.
pub fn axes(forms: &[SustainedReport]) -> Axes {
    let windows = || forms.iter().flat_map(|form| &form.windows);
    let ends = windows().map(|window| window.start_seconds + window.seconds);
    let longest = ends.fold(10.0, f64::max);
    let speeds = windows().filter_map(|window| window.tokens_per_second);
    let fastest = speeds.fold(1.0, f64::max);
    let ranges = forms.iter().filter_map(|form| form.prediction);
    let highest = ranges.map(|range| range.high).fold(fastest, f64::max);
    let most = highest.min(fastest * MAX_RANGE);
    Axes {
        seconds: Axis::new(longest, time_step(longest)),
        speed: Axis::new(most, step(most)),
    }
}

/// Returns the plot of `model`.
pub fn speeds(model: &str, forms: &[SustainedReport]) -> String {
    let axes = axes(forms);
    let (x_end, y_end) = (axes.seconds.end(), axes.speed.end());
    let low = HEIGHT - BOTTOM;
    let x = |time: f64| LEFT + time / x_end * (RIGHT - LEFT);
    let y = |speed: f64| low - (speed / y_end).min(1.0) * (low - TOP);
    let mut body = String::new();
    for (index, form) in forms.iter().enumerate() {
        if let Some(range) = form.prediction {
            let (color, top) = (style(index).0, y(range.high));
            let _ = writeln!(
                body,
                "<rect fill=\"{color}\" fill-opacity=\"0.12\" x=\"{LEFT}\" y=\"{top:.1}\" \
                 width=\"{}\" height=\"{:.1}\"/>",
                RIGHT - LEFT,
                y(range.low) - top
            );
        }
    }
    for value in axes.speed.labels() {
        line(
            &mut body,
            "class=\"grid\"",
            (LEFT, y(value)),
            (RIGHT, y(value)),
        );
        let place = (LEFT - 8.0, y(value) + 4.0);
        text(&mut body, place, "end", "faint", &number(value));
    }
    for value in axes.seconds.labels() {
        let place = (x(value), low + 20.0);
        text(&mut body, place, "middle", "faint", &clock(value));
    }
    let below = ((LEFT + RIGHT) / 2.0, low + 40.0);
    text(&mut body, below, "middle", "faint", "minutes");
    for (index, form) in forms.iter().enumerate() {
        let (color, dashes) = style(index);
        let style = format!("class=\"speed\" stroke=\"{color}\" stroke-dasharray=\"{dashes}\"");
        let points: Vec<(f64, f64)> = points(form).collect();
        let points = points.iter().map(|(time, speed)| (x(*time), y(*speed)));
        let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(body, "<polyline {style} points=\"{}\"/>", points.join(" "));
        if let Some(found) = form.throttling {
            let at = x(found.at_seconds);
            line(
                &mut body,
                &format!("stroke=\"{color}\""),
                (at, TOP),
                (at, low),
            );
        }
        let at = HEIGHT + LEGEND * index as f64;
        line(&mut body, &style, (EDGE, at), (EDGE + 32.0, at));
        text(
            &mut body,
            (EDGE + 42.0, at + 4.0),
            "start",
            "",
            &legend(form),
        );
    }
    let height = HEIGHT + LEGEND * forms.len() as f64;
    let title = format!("Sustained speed of {model}");
    image(
        &title,
        "tokens per second",
        &alternative(forms),
        height,
        &body,
    )
}

/// Returns what the plot shows, for people who cannot see it.
pub fn alternative(forms: &[SustainedReport]) -> String {
    let lines = forms.iter().map(|form| {
        let speeds: Vec<f64> = points(form).map(|(_, speed)| speed).collect();
        let (Some(first), Some(last)) = (speeds.first(), speeds.last()) else {
            return format!("{}: nothing was measured.", form.title());
        };
        let throttled = form.throttling.map_or_else(String::new, |found| {
            format!(
                " It became slower after {} minutes.",
                clock(found.at_seconds)
            )
        });
        let predicted = form.prediction.map_or_else(String::new, |range| {
            let far_off = match range.is_far_off {
                true => ", which is far off",
                false => "",
            };
            let (low, high) = (number(range.low), number(range.high));
            format!(" Predicted: {low} to {high}{far_off}.")
        });
        format!(
            "{}: {} tokens per second at first, {} at the end.{throttled}{predicted}",
            form.title(),
            number(*first),
            number(*last)
        )
    });
    lines.collect::<Vec<String>>().join(" ")
}

/// Returns the middle of each window and its speed.
fn points(form: &SustainedReport) -> impl Iterator<Item = (f64, f64)> {
    let point = |window: &Window| {
        let middle = window.start_seconds + window.seconds / 2.0;
        Some((middle, window.tokens_per_second?))
    };
    form.windows.iter().filter_map(point)
}

fn legend(form: &SustainedReport) -> String {
    let throttled = form.throttling.map_or_else(String::new, |found| {
        format!("; slower from {} (vertical line)", clock(found.at_seconds))
    });
    let predicted = form.prediction.map_or_else(String::new, |range| {
        let far_off = match range.is_far_off {
            true => ", FAR OFF",
            false => "",
        };
        let (low, high) = (number(range.low), number(range.high));
        format!("; predicted {low} to {high} (band){far_off}")
    });
    format!("{}{throttled}{predicted}", form.title())
}

/// Returns 1, 2 or 5 times a power of ten, so that the axis has at most six intervals.
fn step(most: f64) -> f64 {
    let least = most / MAX_STEPS;
    let power = 10_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0].into_iter();
    let mut steps = factors.map(|factor| factor * power);
    steps.find(|step| *step >= least).unwrap_or(most)
}

/// Returns a number of seconds that people divide time by.
fn time_step(most: f64) -> f64 {
    let steps = [10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0];
    let found = steps.into_iter().find(|step| most / step <= MAX_STEPS);
    found.unwrap_or_else(|| step(most / 3600.0) * 3600.0)
}

/// Returns minutes and seconds, such as `2:30`.
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::super::attribute;
    use super::*;
    use crate::result::tests::form;
    use crate::sustained::Prediction;

    #[test]
    fn axes_have_round_steps() {
        assert_eq!([0.9, 7.0, 61.0, 350.0].map(step), [0.2, 2.0, 20.0, 100.0]);
        assert_eq!([10.0, 115.0, 600.0].map(time_step), [10.0, 20.0, 120.0]);
        let axis = Axis::new(61.0, 20.0);
        assert_eq!((axis.n_steps, axis.end()), (4, 80.0));
        assert_eq!(clock(125.0), "2:05");
    }

    /// Every point is within the area of the lines, and higher speeds are higher.
    #[test]
    fn points_are_within_the_axes() {
        let image = speeds("t", &[form("MLX", &[10.0, 57.0])]);
        let points: Vec<(f64, f64)> = attribute(&image, "points")
            .split(' ')
            .map(|point| point.split_once(',').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect();
        assert_eq!(points.len(), 2);
        for (x, y) in &points {
            assert!((LEFT..=RIGHT).contains(x) && (TOP..=HEIGHT).contains(y));
        }
        assert!(points[0].0 < points[1].0 && points[0].1 > points[1].1);
    }

    #[test]
    fn a_wrong_prediction_does_not_make_the_lines_flat() {
        let mut one = form("MLX", &[50.0]);
        let end = |form: &SustainedReport| axes(std::slice::from_ref(form)).speed.end();
        assert_eq!(end(&one), 50.0);
        let mut predict = |high| {
            one.prediction = Some(Prediction {
                low: 40.0,
                high,
                measured: 50.0,
                is_far_off: high > 100.0,
            });
            end(&one)
        };
        assert_eq!([predict(58.0), predict(900.0)], [60.0, 80.0]);
        let image = speeds("t", &[one]);
        assert!(
            image.contains("predicted 40 to 900 (band), FAR OFF"),
            "{image}"
        );
    }

    #[test]
    fn the_text_says_what_the_plot_shows() {
        let mut slower = form("MLX", &[50.0, 50.0, 50.0, 38.0, 38.0, 38.0]);
        slower.throttling = Some(crate::sustained::Throttling {
            at_seconds: 30.0,
            before: 50.0,
            after: 38.0,
        });
        slower.prediction = Some(Prediction {
            low: 100.0,
            high: 200.0,
            measured: 44.0,
            is_far_off: true,
        });
        let forms = [slower, form("llama.cpp", &[])];
        let text = alternative(&forms);
        assert_eq!(
            text,
            "MLX: 4-bit: 50 tokens per second at first, 38 at the end. It became slower after 0:30 \
             minutes. Predicted: 100 to 200, which is far off. llama.cpp: 4-bit: nothing was measured."
        );
        let image = speeds("t", &forms);
        assert!(image.contains(&format!("<desc id=\"desc\">{text}</desc>")));
        assert!(image.contains("slower from 0:30 (vertical line)"));
    }
}

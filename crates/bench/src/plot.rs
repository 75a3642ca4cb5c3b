//! A plot of speeds over time, as an SVG image that needs nothing else: it follows a light or dark
//! appearance, has a text alternative, and its lines differ in more than their color.

use std::fmt::Write as _;

/// A line of the plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Seconds and tokens per second, in the order of time.
    pub points: Vec<(f64, f64)>,
    /// Where the machine slowed down, in seconds.
    pub throttled_at: Option<f64>,
}

/// Size of the image, and the margins of the area with the lines.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 32.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 56.0;

/// Height of a line of the legend.
const LEGEND: f64 = 20.0;

/// Intervals of an axis, at most.
const MAX_TICKS: f64 = 6.0;

/// Color and dashes of the lines. The colors have a contrast of at least 3 on white and on #1c1c1e.
const STYLES: [(&str, &str); 4] = [
    ("#0a74da", "none"),
    ("#d0570e", "7 4"),
    ("#248a3d", "2 4"),
    ("#a05ac8", "9 3 2 3"),
];

/// Returns the image. `title` stands above the lines.
pub fn svg(title: &str, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|one| &one.points);
    let longest = points().map(|(time, _)| *time).fold(10.0, f64::max);
    let fastest = points().map(|(_, speed)| *speed).fold(1.0, f64::max);
    let (x_step, y_step) = (time_step(longest), step(fastest));
    let (x_end, y_end) = (end(longest, x_step), end(fastest, y_step));
    let bottom = BOTTOM + LEGEND * series.len() as f64;
    let height = HEIGHT + LEGEND * series.len() as f64;
    let x = |time: f64| LEFT + time / x_end * (WIDTH - LEFT - RIGHT);
    let y = |speed: f64| height - bottom - speed / y_end * (height - bottom - TOP);
    let mut body = String::new();
    for index in 0..=(y_end / y_step).round() as usize {
        let value = index as f64 * y_step;
        let (at, label) = (y(value), number(value));
        let (left, right, text) = (LEFT, WIDTH - RIGHT, LEFT - 8.0);
        let _ = writeln!(
            body,
            "<line class=\"grid\" x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>\
             <text x=\"{text}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            at + 4.0
        );
    }
    for index in 0..=(x_end / x_step).round() as usize {
        let value = index as f64 * x_step;
        let label = clock(value);
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            x(value),
            height - bottom + 20.0
        );
    }
    for (index, one) in series.iter().enumerate() {
        let (color, dashes) = STYLES[index % STYLES.len()];
        let style = format!("stroke=\"{color}\" stroke-dasharray=\"{dashes}\"");
        let points = one.points.iter();
        let points = points.map(|(time, speed)| format!("{:.1},{:.1}", x(*time), y(*speed)));
        let points = points.collect::<Vec<String>>().join(" ");
        let _ = writeln!(
            body,
            "<polyline class=\"speed\" {style} points=\"{points}\"/>"
        );
        if let Some(at) = one.throttled_at {
            let (at, top, low) = (x(at), TOP, height - bottom);
            let _ = writeln!(
                body,
                "<line stroke=\"{color}\" x1=\"{at:.1}\" y1=\"{top}\" x2=\"{at:.1}\" y2=\"{low:.1}\"/>"
            );
        }
        let line = height - LEGEND * (series.len() - index) as f64;
        let _ = writeln!(
            body,
            "<line class=\"speed\" {style} x1=\"{LEFT}\" y1=\"{line:.1}\" x2=\"{:.1}\" y2=\"{line:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT + 32.0,
            LEFT + 40.0,
            line + 4.0,
            escaped(&legend(one))
        );
    }
    let (title, text) = (escaped(title), escaped(&alternative(series)));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">{title}</title>\n<desc id=\"desc\">{text}</desc>\n\
         <style>text{{font:13px system-ui,sans-serif;fill:#1c1c1e}}.title{{font-size:16px;\
         font-weight:600}}.back{{fill:#fff}}.grid{{stroke:#d8d8dc}}.speed{{fill:none;\
         stroke-width:2.5;stroke-linejoin:round}}@media(prefers-color-scheme:dark){{\
         text{{fill:#f2f2f7}}.back{{fill:#1c1c1e}}.grid{{stroke:#48484a}}}}</style>\n\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"16\" y=\"26\">{title}</text>\n\
         <text x=\"16\" y=\"46\">tokens per second</text>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">minutes</text>\n{body}</svg>\n",
        (LEFT + WIDTH - RIGHT) / 2.0,
        height - bottom + 38.0,
    )
}

/// Returns what the plot shows, for people who cannot see it.
pub fn alternative(series: &[Series]) -> String {
    let lines = series.iter().map(|one| match ends(one) {
        None => format!("{}: nothing was measured.", one.name),
        Some((first, last)) => {
            let throttled = one.throttled_at.map_or_else(String::new, |at| {
                format!(" It became slower after {} minutes.", clock(at))
            });
            format!(
                "{}: {} tokens per second at first, {} at the end.{throttled}",
                one.name,
                number(first),
                number(last)
            )
        }
    });
    lines.collect::<Vec<String>>().join(" ")
}

fn ends(series: &Series) -> Option<(f64, f64)> {
    let speed = |point: &(f64, f64)| point.1;
    Some((
        series.points.first().map(speed)?,
        series.points.last().map(speed)?,
    ))
}

fn legend(series: &Series) -> String {
    let throttled = series.throttled_at.map_or_else(String::new, |at| {
        format!(" (vertical line: slower from {})", clock(at))
    });
    format!("{}{throttled}", series.name)
}

/// Returns 1, 2 or 5 times a power of ten, so that the axis has at most six intervals.
fn step(most: f64) -> f64 {
    let least = most / MAX_TICKS;
    let power = 10_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0].into_iter();
    let mut steps = factors.map(|factor| factor * power);
    steps.find(|step| *step >= least).unwrap_or(most)
}

/// Returns a number of seconds that people divide time by.
fn time_step(most: f64) -> f64 {
    let steps = [10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0];
    let found = steps.into_iter().find(|step| most / step <= MAX_TICKS);
    found.unwrap_or_else(|| step(most / 3600.0) * 3600.0)
}

fn end(most: f64, step: f64) -> f64 {
    (most / step).ceil().max(1.0) * step
}

/// Returns minutes and seconds, such as `2:30`.
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// Returns a number with at most one digit after the point, which only small numbers have.
fn number(value: f64) -> String {
    match value < 10.0 && value.fract() > 0.04 {
        true => format!("{value:.1}"),
        false => format!("{value:.0}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .chars()
        .filter(|character| !character.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        Series {
            name: name.to_owned(),
            points: points.to_vec(),
            throttled_at: None,
        }
    }

    #[test]
    fn axes_have_round_steps() {
        assert_eq!([0.9, 7.0, 61.0, 350.0].map(step), [0.2, 2.0, 20.0, 100.0]);
        assert_eq!([10.0, 115.0, 600.0].map(time_step), [10.0, 20.0, 120.0]);
        assert_eq!(end(61.0, 20.0), 80.0);
        assert_eq!(
            (clock(125.0), number(0.5), number(40.0)),
            ("2:05".into(), "0.5".into(), "40".into())
        );
    }

    /// Every point is within the area of the lines, and higher speeds are higher.
    #[test]
    fn points_are_within_the_axes() {
        let image = svg("t", &[series("a", &[(5.0, 10.0), (115.0, 57.0)])]);
        let (_, rest) = image.split_once("points=\"").unwrap();
        let (points, _) = rest.split_once('"').unwrap();
        let points: Vec<(f64, f64)> = points
            .split(' ')
            .map(|point| point.split_once(',').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect();
        assert_eq!(points.len(), 2);
        for (x, y) in &points {
            assert!(
                (LEFT..=WIDTH - RIGHT).contains(x) && (TOP..=HEIGHT).contains(y),
                "{points:?}"
            );
        }
        assert!(points[0].0 < points[1].0 && points[0].1 > points[1].1);
    }

    #[test]
    fn names_cannot_break_the_image() {
        let image = svg("<script>", &[series("a\"</svg>&\u{1b}", &[(5.0, 1.0)])]);
        assert!(!image.contains("<script>") && !image.contains('\u{1b}'));
        assert_eq!(image.matches("</svg>").count(), 1);
        assert!(image.contains("a&quot;&lt;/svg&gt;&amp;"));
    }

    #[test]
    fn the_text_says_what_the_plot_shows() {
        let slower = Series {
            throttled_at: Some(70.0),
            ..series("MLX", &[(5.0, 50.0), (115.0, 38.4)])
        };
        let nothing = series("llama.cpp", &[]);
        let text = alternative(&[slower.clone(), nothing.clone()]);
        assert_eq!(
            text,
            "MLX: 50 tokens per second at first, 38 at the end. It became slower after 1:10 \
             minutes. llama.cpp: nothing was measured."
        );
        let image = svg("t", &[slower, nothing]);
        assert!(image.contains(&format!("<desc id=\"desc\">{text}</desc>")));
        assert!(image.contains("(vertical line: slower from 1:10)"));
    }
}

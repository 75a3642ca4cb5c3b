//! Plots of results, as SVG images that need nothing else: they follow a light or dark appearance, have
//! a text alternative, and their lines differ in more than their color.
//!
//! Rule: names come from the files of models, so every text is escaped.

mod bars;
mod lines;

use std::fmt::Write as _;

use crate::result::{Benchmark, Measured};

pub use bars::perplexities;
pub use lines::{Axes, Axis, alternative, axes, speeds};

/// Width of an image.
const WIDTH: f64 = 720.0;

/// Space around an image.
const EDGE: f64 = 24.0;

/// Color and dashes of the lines and bars. The colors have a contrast of at least 3 on white and on
/// #1c1c1e.
const STYLES: [(&str, &str); 4] = [
    ("#0a74da", "none"),
    ("#d0570e", "7 4"),
    ("#248a3d", "2 4"),
    ("#a05ac8", "9 3 2 3"),
];

impl Benchmark {
    /// Returns the axes of the plot; `None` if it has bars.
    pub fn axes(&self) -> Option<Axes> {
        match &self.measured {
            Measured::Sustained { forms } => Some(axes(forms)),
            Measured::Quality { .. } => None,
        }
    }

    /// Returns the plot as an SVG image.
    pub fn svg(&self) -> String {
        match &self.measured {
            Measured::Sustained { forms } => speeds(&self.model, forms),
            Measured::Quality { forms } => perplexities(&self.model, forms),
        }
    }
}

/// Returns color and dashes of the line or bar with this number.
fn style(index: usize) -> (&'static str, &'static str) {
    STYLES[index % STYLES.len()]
}

/// Returns an image with a title, a line of text below it, the text alternative, and a body.
fn image(title: &str, subtitle: &str, alternative: &str, height: f64, body: &str) -> String {
    let (title, subtitle, alternative) = (escaped(title), escaped(subtitle), escaped(alternative));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">{title}</title>\n<desc id=\"desc\">{alternative}</desc>\n\
         <style>text{{font:13px system-ui,sans-serif;fill:#1c1c1e}}.title{{font-size:16px;\
         font-weight:600}}.faint{{fill:#5c5c61}}.back{{fill:#fff}}.grid{{stroke:#d8d8dc}}\
         .mark{{stroke:#1c1c1e;stroke-width:1.5}}.speed{{fill:none;stroke-width:2.5;\
         stroke-linejoin:round}}@media(prefers-color-scheme:dark){{text{{fill:#f2f2f7}}\
         .faint{{fill:#a1a1a6}}.back{{fill:#1c1c1e}}.grid{{stroke:#48484a}}\
         .mark{{stroke:#f2f2f7}}}}</style>\n\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{EDGE}\" y=\"34\">{title}</text>\n\
         <text class=\"faint\" x=\"{EDGE}\" y=\"54\">{subtitle}</text>\n{body}</svg>\n"
    )
}

/// Writes a text that starts, is centered or ends (`anchor`) at a point.
fn text(body: &mut String, (x, y): (f64, f64), anchor: &str, class: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(
        body,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

/// Writes a line between two points.
fn line(body: &mut String, attributes: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(
        body,
        "<line {attributes} x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
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

/// Returns the value of the first attribute of this name.
#[cfg(test)]
fn attribute<'a>(image: &'a str, name: &str) -> &'a str {
    let (_, rest) = image.split_once(&format!("{name}=\"")).unwrap();
    rest.split_once('"').unwrap().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{form, quality};

    #[test]
    fn names_cannot_break_the_image() {
        let mut speed = form("a\"</svg>&\u{1b}", &[1.0]);
        speed.settings.stored_as = "<script>".to_owned();
        let mut bar = quality("a\"</svg>&\u{1b}", 2.0);
        bar.stored_as = "<script>".to_owned();
        for image in [
            speeds("<script>", &[speed]),
            perplexities("<script>", &[bar]),
        ] {
            assert!(!image.contains("<script>") && !image.contains('\u{1b}'));
            assert_eq!(image.matches("</svg>").count(), 1);
            assert!(image.contains("a&quot;&lt;/svg&gt;&amp;"));
        }
    }

    #[test]
    fn small_numbers_have_a_digit_after_the_point() {
        assert_eq!(
            [0.5, 40.0, 12.34, 2.0].map(number),
            ["0.5", "40", "12", "2"]
        );
    }
}

//! The quality of the forms of a model: a bar for the perplexity of each, with its standard error.

use std::fmt::Write as _;

use super::{EDGE, WIDTH, image, line, style, text};
use crate::result::QualityReport;

/// Where the first form begins, and the height of a form and of its bar.
const TOP: f64 = 70.0;
const ROW: f64 = 80.0;
const BAR: f64 = 20.0;

/// Space to the right of the longest bar, for its number.
const NUMBER: f64 = 110.0;

/// Returns the plot of `model`.
pub fn perplexities(model: &str, forms: &[QualityReport]) -> String {
    let ends = forms.iter().map(end);
    let most = ends.fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| EDGE + value.max(0.0) / most * (WIDTH - 2.0 * EDGE - NUMBER);
    let mut body = String::new();
    for (index, form) in forms.iter().enumerate() {
        let top = TOP + ROW * index as f64;
        let name = format!("{}, {}", form.title(), form.computed_as);
        text(&mut body, (EDGE, top + 14.0), "start", "", &name);
        let (bar, color) = (top + 22.0, style(index).0);
        let quality = &form.quality;
        let width = x(quality.perplexity) - EDGE;
        let _ = writeln!(
            body,
            "<rect fill=\"{color}\" x=\"{EDGE}\" y=\"{bar:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>"
        );
        let (low, high) = (quality.perplexity - quality.perplexity_error, end(form));
        let middle = bar + BAR / 2.0;
        let mark = "class=\"mark\"";
        line(&mut body, mark, (x(low), middle), (x(high), middle));
        for at in [x(low), x(high)] {
            line(&mut body, mark, (at, middle - 5.0), (at, middle + 5.0));
        }
        let number = format!(
            "{:.2} ± {:.2}",
            quality.perplexity, quality.perplexity_error
        );
        text(
            &mut body,
            (x(high) + 10.0, middle + 4.0),
            "start",
            "",
            &number,
        );
        let below = (EDGE, bar + BAR + 17.0);
        text(&mut body, below, "start", "faint", &distance(form));
    }
    let height = TOP + ROW * forms.len() as f64;
    let title = format!("Quality of {model}");
    let subtitle = "perplexity of a fixed text with its standard error; lower is better";
    image(&title, subtitle, &alternative(forms), height, &body)
}

fn end(form: &QualityReport) -> f64 {
    form.quality.perplexity + form.quality.perplexity_error
}

fn distance(form: &QualityReport) -> String {
    match &form.divergence {
        Some(found) => format!(
            "KL {:.4} nats, {:.1} % same token",
            found.kl_nats,
            found.same_top * 100.0
        ),
        None if form.is_reference => "reference".to_owned(),
        None => "other tokens".to_owned(),
    }
}

fn alternative(forms: &[QualityReport]) -> String {
    let lines = forms.iter().map(|form| {
        format!(
            "{}: perplexity {:.2} ± {:.2}, {:.3} bits per byte, {}.",
            form.title(),
            form.quality.perplexity,
            form.quality.perplexity_error,
            form.quality.bits_per_byte,
            distance(form)
        )
    });
    lines.collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::attribute;
    use super::*;
    use crate::result::tests::quality;

    /// Returns the widths of the bars.
    fn widths(image: &str) -> Vec<f64> {
        let bars = image.split("<rect fill=").skip(1);
        bars.map(|bar| attribute(bar, "width").parse().unwrap())
            .collect()
    }

    #[test]
    fn bars_are_as_long_as_the_perplexities() {
        let image = perplexities("t", &[quality("MLX", 40.0), quality("llama.cpp", 20.0)]);
        let [long, short] = widths(&image)[..] else {
            panic!("{image}");
        };
        assert!((long - 2.0 * short).abs() < 0.2, "{long} {short}");
        assert!(EDGE + long + NUMBER <= WIDTH);
        assert!(image.contains("40.00 ± 2.00") && image.contains("reference"));
    }

    #[test]
    fn the_text_says_what_the_bars_show() {
        let text = alternative(&[quality("MLX", 57.9), quality("llama.cpp", 58.0)]);
        assert_eq!(
            text,
            "MLX: 4-bit: perplexity 57.90 ± 2.00, 1.400 bits per byte, reference. llama.cpp: 4-bit: \
             perplexity 58.00 ± 2.00, 1.400 bits per byte, KL 0.0002 nats, 98.7 % same token."
        );
        assert_eq!(widths(&perplexities("t", &[])), Vec::<f64>::new());
    }
}

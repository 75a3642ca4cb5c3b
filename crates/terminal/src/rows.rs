//! Labeled lines in two columns, and wrapped text.
//!
//! Rule: readable without color; on a terminal the labels are dimmed. A word is never split, so that
//! a path or a command can be copied.

use comfy_table::{ColumnConstraint, Table, Width, presets};
use transom_files::visible;
use unicode_width::UnicodeWidthStr;

use crate::Layout;

/// Labeled lines under construction.
pub struct Rows {
    text: String,
    label_width: usize,
    layout: Layout,
}

impl Rows {
    /// Returns no lines yet. Labels get `label_width` columns.
    pub fn new(label_width: usize, layout: Layout) -> Self {
        Self {
            text: String::new(),
            label_width,
            layout,
        }
    }

    /// Adds a line above the rows that follow, with a blank line before it unless it is the first.
    pub fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&visible(text));
        self.text.push('\n');
    }

    /// Adds one row, of one or more lines; long ones are wrapped. An empty value adds none. Control
    /// characters in both texts are replaced, so neither may contain styles.
    pub fn row(&mut self, label: &str, value: &str) {
        let width = self.layout.text_width().saturating_sub(self.label_width);
        let lines = value.lines().flat_map(|line| wrap(&visible(line), width));
        let mut label = visible(label).into_owned();
        for line in lines {
            let padded = format!("{label:<width$}", width = self.label_width);
            let padded = match label.is_empty() {
                true => padded,
                false => self.layout.dim(&padded),
            };
            let line = padded + &line;
            self.text.push_str(line.trim_end());
            self.text.push('\n');
            label.clear();
        }
    }

    /// Returns all lines; every line ends with a newline.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Wraps `text` at blanks into lines of at most `width` columns.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let longest_word = text.split(' ').map(UnicodeWidthStr::width).max();
    let width = width.max(longest_word.unwrap_or(0)).max(1);
    let width = Width::Fixed(u16::try_from(width).unwrap_or(u16::MAX));
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).add_row([text]);
    if let Some(column) = table.column_mut(0) {
        column
            .set_padding((0, 0))
            .set_constraint(ColumnConstraint::UpperBoundary(width));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Wraps a sentence for `layout`. Control characters in it are replaced.
pub fn paragraph(text: &str, layout: Layout) -> String {
    let lines = wrap(&visible(text), layout.text_width()).into_iter();
    lines.map(|line| line + "\n").collect()
}

/// Returns a bar of `width` columns that shows how much of `total` is `part`. A part that is not zero
/// fills at least one column.
pub fn bar(part: u64, total: u64, width: usize) -> String {
    let share = (u128::from(part.min(total)) * width as u128).checked_div(u128::from(total));
    let n_full = usize::try_from(share.unwrap_or(0)).unwrap_or(width);
    let n_full = n_full.max(usize::from(part > 0)).min(width);
    "█".repeat(n_full) + &"░".repeat(width - n_full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(label_width: usize) -> Rows {
        Rows::new(label_width, Layout::default())
    }

    #[test]
    fn values_are_aligned_and_a_label_is_written_once() {
        let mut rows = rows(8);
        rows.heading("Machine");
        rows.row("memory", "one\ntwo");
        rows.row("heat", "fair");
        rows.heading("Limits");
        let expect = "Machine\nmemory  one\n        two\nheat    fair\n\nLimits\n";
        assert_eq!(rows.finish(), expect);
    }

    #[test]
    fn a_long_value_is_wrapped_at_blanks() {
        let mut wrapped = rows(8);
        wrapped.row("error", &format!("{} {}", "a".repeat(60), "b".repeat(20)));
        let expect = format!("error   {}\n        {}\n", "a".repeat(60), "b".repeat(20));
        assert_eq!(wrapped.finish(), expect);
        for letter in ["/", "日"] {
            let path = letter.repeat(90);
            let mut whole = rows(8);
            whole.row("path", &path);
            assert_eq!(whole.finish(), format!("path    {path}\n"), "no blank");
        }
    }

    #[test]
    fn a_value_cannot_forge_a_label_or_contain_an_escape_sequence() {
        let mut rows = rows(6);
        rows.heading("a\x1b[2J");
        rows.row("b\u{202e}", "c\x1b]0;d\x07\nmodel e");
        assert_eq!(rows.finish(), "a�[2J\nb�    c�]0;d�\n      model e\n");
    }

    #[test]
    fn labels_are_dimmed_only_if_the_layout_says_so() {
        let layout = Layout {
            is_dimmed: true,
            columns: None,
        };
        let mut rows = Rows::new(6, layout);
        rows.row("heat", "fair");
        assert_eq!(rows.finish(), "\x1b[2mheat  \x1b[0mfair\n");
    }

    #[test]
    fn a_bar_is_full_only_when_its_part_is_the_total() {
        let check = |part, total, expect: &str| assert_eq!(bar(part, total, 4), expect);
        check(0, 100, "░░░░");
        check(1, 100, "█░░░");
        check(50, 100, "██░░");
        check(99, 100, "███░");
        check(100, 100, "████");
        check(500, 100, "████");
        check(0, 0, "░░░░");
    }
}

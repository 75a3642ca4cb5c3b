//! Tables that fit the terminal: columns where there is room for them, else an entry over several
//! short lines.
//!
//! Rule: nothing is cut off, for names in a table are what a person types next. Columns that can be
//! spared go before the table does.

use transom_files::visible;
use unicode_width::UnicodeWidthStr;

use crate::console::{DIM, RESET};
use crate::output::rows::broken;

/// A column: its heading, which side its cells keep to, and what stands before a cell where entries
/// have several lines and no headings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    is_right: bool,
    prefix: &'static str,
    /// Goes where there is no room; the one with the highest number first. 0 stays.
    spare: u8,
}

impl Column {
    /// The same, to be left out where there is no room: the one with the highest number first.
    pub(crate) const fn spare(self, number: u8) -> Self {
        Self {
            spare: number,
            ..self
        }
    }
}

/// A column of words.
pub(crate) const fn words(heading: &'static str) -> Column {
    Column {
        heading,
        is_right: false,
        prefix: "",
        spare: 0,
    }
}

/// A column of numbers, which without its heading needs `prefix`.
pub(crate) const fn numbers(heading: &'static str, prefix: &'static str) -> Column {
    Column {
        heading,
        is_right: true,
        prefix,
        spare: 0,
    }
}

/// Entries under construction. The first column is the entry's name.
pub(crate) struct Table {
    columns: Vec<Column>,
    lines: Vec<Line>,
}

enum Line {
    Section(String),
    Entry(Vec<String>),
}

/// Blanks between two columns.
const GAP: &str = "  ";

impl Table {
    /// No entries yet.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
            lines: Vec::new(),
        }
    }

    /// Adds an entry with a cell a column. Control characters in a cell become visible.
    pub(crate) fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().map(|cell| visible(&cell).into_owned());
        let mut cells: Vec<String> = cells.collect();
        cells.resize(self.columns.len(), String::new());
        self.lines.push(Line::Entry(cells));
    }

    /// A line over the entries that follow.
    pub(crate) fn section(&mut self, text: String) {
        self.lines.push(Line::Section(visible(&text).into_owned()));
    }

    /// Whether there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries().next().is_none()
    }

    fn entries(&self) -> impl Iterator<Item = &Vec<String>> {
        self.lines.iter().filter_map(|line| match line {
            Line::Entry(cells) => Some(cells),
            Line::Section(_) => None,
        })
    }

    /// All of it for a terminal of `columns` columns, or for no terminal. Columns with nothing in
    /// them are left out.
    pub(crate) fn text(&self, columns: Option<usize>, is_dimmed: bool) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|n| self.width_of(n)).collect();
        let mut shown: Vec<usize> = (0..widths.len()).filter(|&n| widths[n] > 0).collect();
        let Some(columns) = columns else {
            return self.lined_up(&shown, &widths, is_dimmed);
        };
        loop {
            let total: usize = shown.iter().map(|&n| widths[n] + GAP.len()).sum();
            // The last column has no gap behind it, the terminal's last stays free.
            if total.saturating_sub(GAP.len()) < columns {
                return self.lined_up(&shown, &widths, is_dimmed);
            }
            let spare = shown.iter().copied().max_by_key(|&n| self.columns[n].spare);
            match spare.filter(|&n| self.columns[n].spare > 0) {
                Some(spare) => shown.retain(|&n| n != spare),
                None => return self.stacked(columns, is_dimmed),
            }
        }
    }

    /// Columns of the widest cell; 0 where every cell is empty.
    fn width_of(&self, column: usize) -> usize {
        let cells = self.entries().map(|cells| cells[column].width());
        match cells.max().unwrap_or(0) {
            0 => 0,
            widest => widest.max(self.columns[column].heading.width()),
        }
    }

    fn lined_up(&self, shown: &[usize], widths: &[usize], is_dimmed: bool) -> String {
        let line = |cell: &dyn Fn(usize) -> String| {
            let cells = shown.iter().map(|&n| {
                let cell = cell(n);
                let blanks = " ".repeat(widths[n].saturating_sub(cell.width()));
                match self.columns[n].is_right {
                    true => blanks + &cell,
                    false => cell + &blanks,
                }
            });
            cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
        };
        let headings = line(&|n| self.columns[n].heading.to_owned());
        let mut text = match is_dimmed {
            true => format!("{DIM}{headings}{RESET}\n"),
            false => format!("{headings}\n"),
        };
        for row in &self.lines {
            match row {
                Line::Section(section) => text.push_str(&format!("\n{section}\n")),
                Line::Entry(cells) => text.push_str(&(line(&|n| cells[n].clone()) + "\n")),
            }
        }
        text
    }

    fn stacked(&self, columns: usize, is_dimmed: bool) -> String {
        let mut text = String::new();
        for row in &self.lines {
            let cells = match row {
                Line::Section(section) => {
                    let gap = if text.is_empty() { "" } else { "\n" };
                    text.push_str(&format!("{gap}{section}\n"));
                    continue;
                }
                Line::Entry(cells) => cells,
            };
            text.push_str(&cells[0]);
            text.push('\n');
            let rest = cells.iter().zip(&self.columns).skip(1);
            let rest = rest.filter(|(cell, _)| !cell.is_empty());
            let rest = rest.map(|(cell, column)| format!("{}{cell}", column.prefix));
            let rest = rest.collect::<Vec<_>>().join(", ");
            for line in broken(&rest, columns.saturating_sub(INDENT.len() + 1)) {
                text.push_str(&match is_dimmed {
                    true => format!("{INDENT}{DIM}{line}{RESET}\n"),
                    false => format!("{INDENT}{line}\n"),
                });
            }
        }
        text
    }
}

/// Before the lines below an entry's name.
const INDENT: &str = "  ";

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[
            words("MODEL"),
            words("FORM"),
            numbers("CONTEXT", "context "),
            words("NOTE"),
        ]);
        let cells = |cells: [&str; 4]| cells.map(str::to_owned);
        table.add(cells(["qwen3-4b", "GGUF Q4_K_M", "40k", ""]));
        table.add(cells(["日本", "MLX 4-bit", "8k", ""]));
        table
    }

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let expect = "MODEL     FORM         CONTEXT\n\
                      qwen3-4b  GGUF Q4_K_M      40k\n\
                      日本      MLX 4-bit         8k\n";
        assert_eq!(table().text(None, false), expect);
        assert_eq!(table().text(Some(31), false), expect, "just fits");
    }

    #[test]
    fn columns_that_can_be_spared_go_before_the_table_does() {
        let mut table = Table::new(&[
            words("NAME"),
            words("A").spare(1),
            words("B"),
            words("C").spare(2),
        ]);
        table.add(["n", "aaaa", "bbbb", "cccc"].map(str::to_owned));
        let headings = |columns| {
            let text = table.text(Some(columns), false);
            text.lines().next().map(str::to_owned)
        };
        assert_eq!(headings(23).as_deref(), Some("NAME  A     B     C"));
        assert_eq!(headings(22).as_deref(), Some("NAME  A     B"));
        assert_eq!(headings(16).as_deref(), Some("NAME  B"));
        assert_eq!(
            headings(10).as_deref(),
            Some("n"),
            "all of it, over two lines"
        );
    }

    #[test]
    fn where_columns_do_not_fit_an_entry_has_several_lines_and_loses_nothing() {
        let expect = "qwen3-4b\n  GGUF Q4_K_M,\n  context 40k\n\
                      日本\n  MLX 4-bit,\n  context 8k\n";
        assert_eq!(table().text(Some(20), false), expect);
    }

    #[test]
    fn a_cell_cannot_forge_a_row_or_hold_an_escape_sequence() {
        let mut table = Table::new(&[words("NAME"), words("FORM")]);
        table.add(["a\nb".to_owned(), "\x1b[31mc".to_owned()]);
        table.section("d\x1b[2J".to_owned());
        let expect = "NAME  FORM\na b   �[31mc\n\nd�[2J\n";
        assert_eq!(table.text(None, false), expect);
    }

    #[test]
    fn headings_are_dimmed_only_where_that_is_welcome() {
        let text = table().text(None, true);
        assert!(text.starts_with("\x1b[2mMODEL"), "{text:?}");
        assert_eq!(text.matches("\x1b[2m").count(), 1);
    }
}

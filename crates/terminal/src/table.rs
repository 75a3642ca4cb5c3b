//! Tables that fit the terminal: columns if there is room for them, else an entry over several short
//! lines.
//!
//! Rule: nothing is cut off, because the user types the names of a table next. Columns that can be
//! left out go first.

use comfy_table::{CellAlignment, ColumnConstraint, presets};
use transom_files::visible;

use crate::{Layout, paragraph};

/// A column of rows of type `T`.
pub struct Column<T> {
    heading: &'static str,
    alignment: CellAlignment,
    /// The text before a cell if entries have several lines and no headings.
    prefix: &'static str,
    /// If there is no room, the column with the highest number is left out first. 0 stays.
    optional: u8,
    /// Returns the cell of a row.
    cell: fn(&T) -> String,
}

impl<T> Column<T> {
    /// Lets the column be left out; the one with the highest number goes first.
    pub fn optional(self, number: u8) -> Self {
        Self {
            optional: number,
            ..self
        }
    }
}

/// Returns a column of words.
pub fn words<T>(heading: &'static str, cell: fn(&T) -> String) -> Column<T> {
    Column {
        heading,
        alignment: CellAlignment::Left,
        prefix: "",
        optional: 0,
        cell,
    }
}

/// Returns a column of numbers, which need `prefix` if there is no heading.
pub fn numbers<T>(
    heading: &'static str,
    prefix: &'static str,
    cell: fn(&T) -> String,
) -> Column<T> {
    Column {
        alignment: CellAlignment::Right,
        prefix,
        ..words(heading, cell)
    }
}

/// Entries under construction. The first column is the entry's name.
pub struct Table<T> {
    columns: Vec<Column<T>>,
    entries: Vec<Vec<String>>,
    /// The lines above each entry, and those below the last one.
    sections: Vec<String>,
}

/// Blanks between two columns.
const GAP: u16 = 2;

impl<T> Table<T> {
    /// Returns a table without entries.
    pub fn new(columns: impl Into<Vec<Column<T>>>) -> Self {
        Self {
            columns: columns.into(),
            entries: Vec::new(),
            sections: vec![String::new()],
        }
    }

    /// Adds an entry for each row. Control characters in a cell are replaced.
    pub fn with(mut self, rows: &[T]) -> Self {
        for row in rows {
            let cells = self.columns.iter().map(|column| (column.cell)(row));
            let cells = cells.map(|cell| visible(&cell).into_owned()).collect();
            self.entries.push(cells);
            self.sections.push(String::new());
        }
        self
    }

    /// Adds a line above the entries that follow.
    pub fn section(&mut self, text: &str) {
        self.sections[self.entries.len()] += &format!("\n{}\n", visible(text));
    }

    /// Returns all lines. Columns without any text are left out.
    pub fn text(&self, layout: Layout) -> String {
        let is_filled = |n: &usize| self.entries.iter().any(|cells| !cells[*n].is_empty());
        let mut shown: Vec<usize> = (0..self.columns.len()).filter(is_filled).collect();
        let mut table = self.aligned();
        let widths = table.column_max_content_widths();
        loop {
            let total: usize = shown.iter().map(|&n| usize::from(widths[n] + GAP)).sum();
            let fits = |columns| total.saturating_sub(usize::from(GAP)) < columns;
            if layout.columns.is_none_or(fits) {
                break;
            }
            let optional = |n: &usize| self.columns[*n].optional;
            match shown.iter().copied().max_by_key(optional) {
                Some(last) if optional(&last) > 0 => shown.retain(|&n| n != last),
                _ => return self.stacked(layout),
            }
        }
        for (n, column) in table.column_iter_mut().enumerate() {
            if !shown.contains(&n) {
                column.set_constraint(ColumnConstraint::Hidden);
            }
        }
        let mut lines = table.lines().map(|line| line.trim_end().to_owned());
        let headings = layout.dim(&lines.next().unwrap_or_default());
        headings + "\n" + &self.with_sections(lines.map(|line| line + "\n"))
    }

    /// Returns the table of all columns.
    fn aligned(&self) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_header(self.columns.iter().map(|column| column.heading))
            .add_rows(&self.entries);
        for (column, of) in table.column_iter_mut().zip(&self.columns) {
            column.set_padding((0, GAP));
            column.set_cell_alignment(of.alignment);
        }
        table
    }

    /// Returns each entry as its name and, below it, its other cells.
    fn stacked(&self, layout: Layout) -> String {
        let narrower = Layout {
            columns: layout.columns.map(|n| n.saturating_sub(INDENT.len())),
            ..layout
        };
        let entry = |cells: &Vec<String>| {
            let others = cells.iter().zip(&self.columns).skip(1);
            let others = others.filter(|(cell, _)| !cell.is_empty());
            let others = others.map(|(cell, column)| format!("{}{cell}", column.prefix));
            let others = paragraph(&others.collect::<Vec<_>>().join(", "), narrower);
            let lines = others.lines().filter(|line| !line.is_empty());
            let lines = lines.map(|line| format!("{INDENT}{}\n", layout.dim(line)));
            format!("{}\n{}", cells[0], lines.collect::<String>())
        };
        let text = self.with_sections(self.entries.iter().map(entry));
        text.trim_start_matches('\n').to_owned()
    }

    fn with_sections(&self, entries: impl Iterator<Item = String>) -> String {
        let entries = entries.chain([String::new()]);
        let pairs = self.sections.iter().zip(entries);
        pairs
            .map(|(above, entry)| format!("{above}{entry}"))
            .collect()
    }
}

/// Indentation of the lines below an entry's name.
const INDENT: &str = "  ";

#[cfg(test)]
mod tests {
    use super::*;

    type Row = [&'static str; 4];

    fn table() -> Table<Row> {
        let columns = [
            words("MODEL", |row: &Row| row[0].to_owned()),
            words("FORM", |row| row[1].to_owned()),
            numbers("CONTEXT", "context ", |row| row[2].to_owned()),
            words("NOTE", |row| row[3].to_owned()),
        ];
        Table::new(columns).with(&[
            ["qwen3-4b", "GGUF Q4_K_M", "40k", ""],
            ["日本", "MLX 4-bit", "8k", ""],
        ])
    }

    fn narrow(columns: usize) -> Layout {
        Layout {
            columns: Some(columns),
            is_dimmed: false,
        }
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let expect = "MODEL     FORM         CONTEXT\n\
                      qwen3-4b  GGUF Q4_K_M      40k\n\
                      日本      MLX 4-bit         8k\n";
        assert_eq!(table().text(Layout::default()), expect);
        assert_eq!(table().text(narrow(31)), expect, "just fits");
    }

    #[test]
    fn optional_columns_are_left_out_before_entries_are_stacked() {
        let columns = [
            words("NAME", |row: &Row| row[0].to_owned()),
            words("A", |row: &Row| row[1].to_owned()).optional(1),
            words("B", |row| row[2].to_owned()),
            words("C", |row: &Row| row[3].to_owned()).optional(2),
        ];
        let table = Table::new(columns).with(&[["n", "aaaa", "bbbb", "cccc"]]);
        let headings = |columns| {
            let text = table.text(narrow(columns));
            text.lines().next().map(str::to_owned)
        };
        assert_eq!(headings(23).as_deref(), Some("NAME  A     B     C"));
        assert_eq!(headings(22).as_deref(), Some("NAME  A     B"));
        assert_eq!(headings(16).as_deref(), Some("NAME  B"));
        assert_eq!(headings(10).as_deref(), Some("n"), "stacked");
    }

    #[test]
    fn a_stacked_entry_has_every_cell() {
        let expect = "qwen3-4b\n  GGUF Q4_K_M,\n  context 40k\n\
                      日本\n  MLX 4-bit,\n  context 8k\n";
        assert_eq!(table().text(narrow(20)), expect);
    }

    #[test]
    fn a_cell_cannot_forge_a_row_or_contain_an_escape_sequence() {
        let columns = [
            words("NAME", |row: &[&str; 2]| row[0].to_owned()),
            words("FORM", |row| row[1].to_owned()),
        ];
        let mut table = Table::new(columns).with(&[["a\nb", "\x1b[31mc"]]);
        table.section("d\x1b[2J");
        let expect = "NAME  FORM\na b   �[31mc\n\nd�[2J\n";
        assert_eq!(table.text(Layout::default()), expect);
    }

    #[test]
    fn only_headings_are_dimmed() {
        let dimmed = Layout {
            is_dimmed: true,
            columns: None,
        };
        let text = table().text(dimmed);
        assert!(text.starts_with("\x1b[2mMODEL"), "{text:?}");
        assert_eq!(text.matches("\x1b[2m").count(), 1);
    }
}

//! Output for a terminal, hidden input, and its Ctrl-C key: tables, labeled lines, one line of progress, numbers.
//!
//! Rule: this crate knows nothing about models. Text of callers is made safe to show, and nothing is
//! longer than the terminal is wide unless a word is.

mod draw_target;
mod hidden_text;
mod home;
mod interrupt;
mod json;
mod layout;
mod line_editor;
mod progress;
mod rows;
pub mod screen;
mod sizes;
mod table;

pub use draw_target::draw_target;
pub use hidden_text::read_hidden_line;
pub use home::{expand_tilde, tilde};
pub use interrupt::{Interrupt, Watch};
pub use json::write_json_line;
pub use layout::{
    DEFAULT_COLUMNS, DIM, Layout, RESET, allows_color, columns_of_terminal, without_controls,
};
pub use line_editor::{Line, LineSource};
pub use progress::{Progress, percent_of};
pub use rows::{Rows, bar, paragraph};
pub use sizes::{
    count_short, gigabytes, parameters_text, rate_text, rough_time, seconds, tokens_short,
};
pub use table::{Column, Table, numbers, words};
pub use transom_files::{GB, disk_text, memory_text, of_disk, of_memory, size_text};

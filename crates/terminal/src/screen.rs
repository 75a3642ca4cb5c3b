//! The alternate screen of a terminal, whose contents are gone when it is left.

/// Switches to the alternate screen.
pub const ENTER: &str = "\x1b[?1049h";
/// Switches back.
pub const LEAVE: &str = "\x1b[?1049l";
/// Moves the cursor to the top.
pub const TOP: &str = "\x1b[H";
/// Clears the rest of the line.
pub const CLEAR_LINE: &str = "\x1b[K";
/// Clears everything below the cursor.
pub const CLEAR_BELOW: &str = "\x1b[J";

/// Returns what draws `text` in place of all that the screen shows.
pub fn frame(text: &str) -> String {
    let lines = text.replace('\n', &format!("{CLEAR_LINE}\n"));
    format!("{TOP}{lines}{CLEAR_BELOW}")
}

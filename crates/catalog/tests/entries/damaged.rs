//! Reading damaged catalogs.
//!
//! Rule: every text is either a catalog or an error with a line and column inside the text.

use proptest::prelude::*;

use super::{FULL, read};

/// Whatever happens to one place of a file, it is a list or a error inside the file.
fn holds(text: &str) -> Result<(), TestCaseError> {
    if let Err(error) = read(text) {
        let lines: Vec<&str> = text.split('\n').collect();
        prop_assert!((1..=lines.len()).contains(&error.line), "{}", error);
        let n_characters = lines[error.line - 1].chars().count();
        prop_assert!((1..=n_characters + 1).contains(&error.column), "{}", error);
        prop_assert!(!error.reason.is_empty());
        prop_assert!(!error.to_string().contains('\n'), "{}", error);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_character_makes_a_list_or_a_mistake_inside_the_file(
        at in 0..FULL.len(),
        other in prop_oneof![any::<char>(), "[ -~\n\"=\\[\\]{}#]".prop_map(|s| s.chars().next().unwrap())],
    ) {
        let mut text: Vec<char> = FULL.chars().collect();
        text[at] = other;
        holds(&text.iter().collect::<String>())?;
    }

    #[test]
    fn a_piece_that_is_lost_or_doubled_is_no_worse(at in 0..FULL.len(), n in 0..40usize, is_lost: bool) {
        let end = (at + n).min(FULL.len());
        let piece = if is_lost { "" } else { &FULL[at..end] };
        holds(&format!("{}{piece}{}", &FULL[..at], &FULL[if is_lost { end } else { at }..]))?;
    }

    #[test]
    fn any_text_is_a_list_or_a_mistake_inside_it(text in "\\PC{0,200}|([a-z\\[\\]={}\"\n.#0-9_-]{0,200})") {
        holds(&text)?;
    }
}

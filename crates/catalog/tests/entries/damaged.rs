//! Reading damaged catalogs.
//!
//! Rule: every text is either a catalog or an error with a line and column inside the text.

use proptest::prelude::*;

use super::{FULL, read};

/// Checks that a text is a catalog, or has an error with a position inside the text.
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
    fn a_damaged_character_gives_a_catalog_or_an_error_inside_the_file(
        at in 0..FULL.len(),
        other in prop_oneof![any::<char>(), "[ -~\n\"=\\[\\]{}#]".prop_map(|s| s.chars().next().unwrap())],
    ) {
        let mut text: Vec<char> = FULL.chars().collect();
        text[at] = other;
        holds(&text.iter().collect::<String>())?;
    }

    #[test]
    fn a_lost_or_repeated_piece_gives_a_catalog_or_an_error_inside_the_file(at in 0..FULL.len(), n in 0..40usize, is_lost: bool) {
        let end = (at + n).min(FULL.len());
        let piece = if is_lost { "" } else { &FULL[at..end] };
        holds(&format!("{}{piece}{}", &FULL[..at], &FULL[if is_lost { end } else { at }..]))?;
    }

    #[test]
    fn any_text_gives_a_catalog_or_an_error_inside_it(text in "\\PC{0,200}|([a-z\\[\\]={}\"\n.#0-9_-]{0,200})") {
        holds(&text)?;
    }
}

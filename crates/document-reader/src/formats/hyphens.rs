//! Words that were hyphenated at the end of a line.

use std::collections::HashSet;

/// Words after a hyphen that stands for a part of a compound, as in "pre- and post-war".
const AFTER_SUSPENDED: [&str; 12] = [
    "and", "as", "bis", "en", "et", "nor", "oder", "or", "ou", "sowie", "to", "und",
];

/// Joins words that are divided by a hyphen and a space or line break. The hyphen stays if the text
/// contains the word with it elsewhere and not without it, or if the word has another one.
pub(super) fn join(text: &str) -> String {
    if !text.contains("- ") && !text.contains("-\n") {
        return text.to_owned();
    }
    let words = text.split(|c: char| !is_of_word(c));
    let words: HashSet<String> = words.map(str::to_lowercase).collect();
    let mut joined = String::with_capacity(text.len());
    let mut copied = 0;
    for (at, _) in text.match_indices('-') {
        let Some((start, end)) = halves(&text[..at], &text[at + 1..]) else {
            continue;
        };
        let is_known = |hyphen: &str| {
            let word = format!("{start}{hyphen}{end}").to_lowercase();
            words.contains(&word)
        };
        let keeps_hyphen = start.contains('-') || (is_known("-") && !is_known(""));
        joined += &text[copied..at + usize::from(keeps_hyphen)];
        // Without the space or line break.
        copied = at + 2;
    }
    joined + &text[copied..]
}

/// Returns the halves of a word around a hyphen, if it seems to be divided there.
fn halves<'a>(before: &'a str, after: &'a str) -> Option<(&'a str, &'a str)> {
    let start = match before.rfind(|c: char| !is_of_word(c)) {
        Some(at) => before[at..].trim_start_matches(|c: char| !is_of_word(c)),
        None => before,
    };
    let after = after.strip_prefix([' ', '\n'])?;
    let end = after.find(|c: char| !c.is_alphabetic());
    let end = &after[..end.unwrap_or(after.len())];
    let is_start = start.ends_with(char::is_alphabetic) && start.chars().nth(1).is_some();
    let is_end = end.starts_with(char::is_lowercase) && end.chars().nth(1).is_some();
    (is_start && is_end && !AFTER_SUSPENDED.contains(&end)).then_some((start, end))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(join(text), expect);
    }

    #[test]
    fn a_divided_word_is_joined() {
        check("an exam-\nple of it", "an example of it");
        check("an exam- ple", "an example");
        check("größ- te Mühe", "größte Mühe");
        check("Exam- ple, exam-ple, example", "Example, exam-ple, example");
    }

    #[test]
    fn the_hyphen_of_a_compound_stays() {
        check(
            "a well-\nknown word, well-known",
            "a well-known word, well-known",
        );
        check("state-of-the- art", "state-of-the-art");
    }

    #[test]
    fn other_hyphens_are_left_alone() {
        for text in [
            "pre- and post-war",
            "Ein- und Ausgabe",
            "- a list\n- another item",
            "yes - no",
            "the Meyer-\nSchmidt family",
            "an exam-\n\nple",
            "page 12- end",
            "x- axis",
            "ends with a hyphen-",
        ] {
            check(text, text);
        }
    }
}

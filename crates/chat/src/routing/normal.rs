//! The normal form in which prompts and cues are compared.
//!
//! Lower case, without accents, with one space between words and `|` between clauses. Names of
//! languages, quoted texts and polite words are replaced, so one cue covers many sentences:
//! "Could you translate “hi” to French?" becomes ` | translate #quote to #language | `.
//!
//! Chinese and Japanese have no spaces between words. A run of their characters is one word here,
//! and cues in them match any part of it.

use super::classify::Names;

/// A text in normal form.
pub(super) struct Normal {
    /// The clauses, with a space at both ends.
    pub(super) text: String,
    /// Characters of the longest quoted text; 0 if nothing is quoted.
    pub(super) quoted_chars: usize,
}

/// Returns the normal form of `text`. Takes linear time but for unmatched quotes, so callers pass
/// short texts.
pub(super) fn normal(text: &str, names: &Names) -> Normal {
    let (words, quoted_chars) = words(text);
    let mut normal = String::from(" ");
    for word in words {
        let named = named(&word, names);
        for part in named.split_whitespace() {
            normal.push_str(part);
            normal.push(' ');
        }
    }
    for polite in &names.polite {
        if normal.contains(polite.as_str()) {
            normal = normal.replace(polite.as_str(), " ");
        }
    }
    while normal.contains(" | | ") {
        normal = normal.replace(" | | ", " | ");
    }
    Normal {
        text: normal,
        quoted_chars,
    }
}

/// Returns true for a character of Chinese, Japanese or Korean.
pub(super) fn is_cjk(letter: char) -> bool {
    matches!(letter, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
        && !is_pause(letter)
        && !is_cjk_quote(letter)
}

/// Returns the words, with `|` between clauses, and the length of the longest quoted text.
fn words(text: &str) -> (Vec<String>, usize) {
    let letters: Vec<char> = text.chars().collect();
    let mut words = vec!["|".to_owned()];
    let mut word = String::new();
    let mut quoted_chars = 0;
    let mut at = 0;
    while let Some(&letter) = letters.get(at) {
        at += 1;
        let n_quoted = closing_quote(letter)
            .and_then(|closing| letters[at..].iter().position(|&other| other == closing))
            .filter(|&n_quoted| n_quoted > 0);
        if let Some(n_quoted) = n_quoted {
            end_word(&mut words, &mut word);
            words.push("#quote".to_owned());
            quoted_chars = quoted_chars.max(n_quoted);
            at += n_quoted + 1;
        } else if is_cjk(letter) || letter.is_alphanumeric() || matches!(letter, '+' | '#') {
            if word
                .chars()
                .next_back()
                .is_some_and(|last| is_cjk(last) != is_cjk(letter))
            {
                end_word(&mut words, &mut word);
            }
            for lower in letter.to_lowercase() {
                push_folded(&mut word, lower);
            }
        } else {
            end_word(&mut words, &mut word);
            if is_pause(letter) && words.last().is_some_and(|last| last != "|") {
                words.push("|".to_owned());
            }
        }
    }
    end_word(&mut words, &mut word);
    if words.last().is_some_and(|last| last != "|") {
        words.push("|".to_owned());
    }
    (words, quoted_chars)
}

fn end_word(words: &mut Vec<String>, word: &mut String) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

/// Replaces names by their kind, and removes polite words inside of a run of Chinese characters.
fn named(word: &str, names: &Names) -> String {
    if names.languages.contains(word) {
        return "#language".to_owned();
    }
    if names.code.contains(word) {
        return "#code".to_owned();
    }
    let mut word = word.to_owned();
    if word.chars().any(is_cjk) {
        for language in &names.cjk_languages {
            word = word.replace(language.as_str(), " #language ");
        }
        for polite in &names.cjk_polite {
            word = word.replace(polite.as_str(), "");
        }
    }
    word
}

fn is_pause(letter: char) -> bool {
    ".!?;,:\n。！？；，：、…¿¡()（）—–".contains(letter)
}

fn is_cjk_quote(letter: char) -> bool {
    matches!(letter, '「'..='』')
}

/// Returns the end of a quoted text that `letter` begins.
fn closing_quote(letter: char) -> Option<char> {
    Some(match letter {
        '"' => '"',
        '“' => '”',
        '„' => '“',
        '«' => '»',
        '「' => '」',
        '『' => '』',
        '‘' => '’',
        _ => return None,
    })
}

/// Appends a lower-case letter without its accent, because people leave accents out.
fn push_folded(word: &mut String, letter: char) {
    let plain = match letter {
        'à'..='å' => "a",
        'ç' => "c",
        'è'..='ë' => "e",
        'ì'..='ï' => "i",
        'ñ' => "n",
        'ò'..='ö' => "o",
        'ù'..='ü' => "u",
        'ý' | 'ÿ' => "y",
        'ß' => "ss",
        'œ' => "oe",
        'æ' => "ae",
        _ => return word.push(letter),
    };
    word.push_str(plain);
}

//! Finds the route that a text asks for, from the cues of `cues.toml`.
//!
//! Pure functions, without a model. Only the first and the last [`MAX_CHARS`] characters of a text
//! are compared with the cues, so a long text costs one pass over it.
//!
//! Rule: a wrong route is worse than none. Every route but `code` needs a text to work on, and the
//! best route needs a margin over the others.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde::Deserialize;

use super::normal::{Normal, is_cjk, normal};
use super::{Route, SelectionKind, Signals};

/// The cues, parsed once.
static CUES: LazyLock<Cues> = LazyLock::new(|| {
    let file: CuesFile = toml::from_str(include_str!("cues.toml")).expect("a test parses it");
    Cues::from(file)
});

/// Characters at each end of a text that are compared with the cues.
const MAX_CHARS: usize = 200;
/// No cue is longer.
const MAX_CUE_CHARS: usize = 60;
/// A quoted text of at least so many characters is a text to work on, and not a title.
const LONG_QUOTE_CHARS: usize = 30;
/// The weight of a part of a program or an error message.
const CODE_MARK_WEIGHT: i32 = 4;
/// The weight of selected code, which most likely is what the text is about.
const SELECTED_CODE_WEIGHT: i32 = 5;
/// The weight of a question mark.
const QUESTION_MARK_WEIGHT: i32 = 4;

/// The routes that cues ask for. A question about a text is what remains.
const TASKS: [Route; 5] = [
    Route::Code,
    Route::Summarize,
    Route::Rewrite,
    Route::Translate,
    Route::Extract,
];

/// `cues.toml` as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CuesFile {
    threshold: i32,
    margin: i32,
    code_marks: Vec<String>,
    polite: Vec<String>,
    languages: Vec<String>,
    code: Vec<String>,
    earlier: Vec<String>,
    cue: Vec<Cue>,
}

/// A group of words that count once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cue {
    route: Route,
    weight: i32,
    /// The sentence itself contains the text to work on.
    #[serde(default)]
    has_text: bool,
    words: Vec<String>,
}

/// `cues.toml` for comparisons: words with the spaces around them.
struct Cues {
    threshold: i32,
    margin: i32,
    code_marks: Vec<String>,
    names: Names,
    earlier: Vec<String>,
    cues: Vec<Cue>,
}

/// Words that the normal form replaces.
pub(super) struct Names {
    pub(super) languages: HashSet<String>,
    pub(super) cjk_languages: Vec<String>,
    pub(super) code: HashSet<String>,
    /// With a space at both ends.
    pub(super) polite: Vec<String>,
    pub(super) cjk_polite: Vec<String>,
}

impl From<CuesFile> for Cues {
    fn from(file: CuesFile) -> Self {
        let has_cjk = |word: &String| word.chars().any(is_cjk);
        let (cjk_languages, languages): (Vec<_>, Vec<_>) =
            file.languages.into_iter().partition(has_cjk);
        let (cjk_polite, polite): (Vec<_>, Vec<_>) = file.polite.into_iter().partition(has_cjk);
        let cues = file.cue.into_iter().map(|cue| Cue {
            words: cue.words.iter().map(|word| pattern(word)).collect(),
            ..cue
        });
        Self {
            threshold: file.threshold,
            margin: file.margin,
            code_marks: file.code_marks,
            earlier: file.earlier.iter().map(|word| pattern(word)).collect(),
            names: Names {
                languages: languages.into_iter().collect(),
                cjk_languages,
                code: file.code.into_iter().collect(),
                polite: polite.iter().map(|word| format!(" {word} ")).collect(),
                cjk_polite,
            },
            cues: cues.collect(),
        }
    }
}

/// Returns a cue as the part of a normal form that it matches.
fn pattern(cue: &str) -> String {
    let starts_clause = cue.starts_with('^');
    let is_prefix = cue.ends_with('*');
    let word = cue.trim_matches(['^', '$', '*']);
    let before = match word.chars().next() {
        _ if starts_clause => " | ",
        Some(first) if is_cjk(first) => "",
        _ => " ",
    };
    let after = match word.chars().next_back() {
        _ if cue.ends_with('$') => " | ",
        _ if is_prefix => "",
        Some(last) if is_cjk(last) => "",
        _ => " ",
    };
    format!("{before}{word}{after}")
}

/// Returns the route that `signals` ask for.
pub(super) fn classify(signals: &Signals<'_>) -> Route {
    let text = signals.text.trim();
    // A fenced block in the message is as good as selected code.
    let selection = match signals.selection {
        SelectionKind::None if text.contains("```") => SelectionKind::Code,
        selection => selection,
    };
    let requests = requests_beside_texts(text);
    let chosen = requests.iter().find_map(|request| {
        let route = scores(request, selection, true).best();
        (route != Route::Chat).then_some(route)
    });
    chosen.unwrap_or_else(|| scores(text, selection, false).best())
}

/// Returns the parts of `text` that may be a request about the rest of it, as in "Translate this:
/// …": what is before the first colon or line break, and the last line.
fn requests_beside_texts(text: &str) -> Vec<&str> {
    let parts = parts(text).into_iter();
    let beside_texts = parts.filter(|(_, rest)| is_a_text(rest));
    beside_texts.map(|(request, _)| request).collect()
}

/// Returns what is before the first colon or line break of `text`, and its last line, each with the rest.
fn parts(text: &str) -> Vec<(&str, &str)> {
    let first = text.split_once([':', '：', '\n']);
    let last = text.rsplit_once('\n').map(|(rest, line)| (line, rest));
    first.into_iter().chain(last).collect()
}

/// Returns true if the words of a message on this route are, or contain, the text to work on. Words that ask
/// for the route themselves, such as "into German" or the text of a saved prompt, do not; neither does a
/// question, or a message that only keeps the route of the one before it. Only a text that is too long for
/// a request is one whatever its words are.
pub(super) fn is_worked_on(words: &str, route: Route) -> bool {
    let is_request = |text: &str| scores(text, SelectionKind::None, true).of(route) > 0;
    let is_long = |text: &str| text.chars().nth(MAX_CHARS).is_some();
    let is_text = |text: &str| is_a_text(text) && (is_long(text) || !is_request(text));
    if route == Route::Question || words.trim().is_empty() {
        return false;
    }
    let follows_up = route.settings().is_sticky;
    (!is_request(words) && !follows_up) || parts(words).iter().any(|(_, rest)| is_text(rest))
}

/// Returns true if a message speaks of the earlier ones, as in "your last answer". Only its request counts,
/// if there is a text beside it.
pub(super) fn names_earlier_messages(text: &str) -> bool {
    let mut requests = requests_beside_texts(text);
    if requests.is_empty() {
        requests.push(text);
    }
    requests.iter().any(|request| {
        let form = normal(&ends_of(request), &CUES.names).text;
        CUES.earlier.iter().any(|cue| form.contains(cue.as_str()))
    })
}

/// Returns true if a text is long enough to work on. Chinese and Japanese need fewer characters.
fn is_a_text(text: &str) -> bool {
    let text = text.trim();
    text.chars().nth(19).is_some() || text.chars().filter(|&letter| is_cjk(letter)).count() >= 6
}

/// The weights of the cues in a text.
#[derive(Default)]
struct Scores {
    tasks: [i32; TASKS.len()],
    question: i32,
}

impl Scores {
    fn add(&mut self, route: Route, weight: i32) {
        if route == Route::Question {
            self.question += weight;
        } else if let Some(at) = TASKS.iter().position(|&task| task == route) {
            self.tasks[at] += weight;
        }
    }

    fn of(&self, route: Route) -> i32 {
        let at = TASKS.iter().position(|&task| task == route);
        at.map_or(0, |at| self.tasks[at])
    }

    /// Removes the routes for which `is_possible` returns false.
    fn retain(&mut self, is_possible: impl Fn(Route) -> bool) {
        for (route, score) in TASKS.into_iter().zip(&mut self.tasks) {
            if !is_possible(route) {
                *score = 0;
            }
        }
        if !is_possible(Route::Question) {
            self.question = 0;
        }
    }

    fn best(&self) -> Route {
        let mut ranked: Vec<(i32, Route)> = self.tasks.into_iter().zip(TASKS).collect();
        ranked.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        let ((first, route), (second, _)) = (ranked[0], ranked[1]);
        match first >= CUES.threshold {
            true if first - second.max(0) >= CUES.margin => route,
            true => Route::Chat,
            false if self.question >= CUES.threshold => Route::Question,
            false => Route::Chat,
        }
    }
}

/// Returns the scores of `request`. `has_text` is true if the rest of the message is a text to work
/// on.
fn scores(request: &str, selection: SelectionKind, has_text: bool) -> Scores {
    let request = ends_of(request);
    let forms = forms(&request);
    let mut scores = Scores::default();
    let mut translates_itself = false;
    for cue in &CUES.cues {
        let is_in = |word: &String| forms.iter().any(|form| form.text.contains(word.as_str()));
        if cue.words.iter().any(is_in) {
            scores.add(cue.route, cue.weight);
            translates_itself |= cue.has_text;
        }
    }
    if request.contains(['?', '？']) {
        scores.question = scores.question.max(QUESTION_MARK_WEIGHT);
    }
    let lower = request.to_lowercase();
    if CUES
        .code_marks
        .iter()
        .any(|mark| lower.contains(mark.as_str()))
    {
        scores.add(Route::Code, CODE_MARK_WEIGHT);
    }
    if selection == SelectionKind::Code {
        scores.add(Route::Code, SELECTED_CODE_WEIGHT);
    }
    let quoted_chars = forms.iter().map(|form| form.quoted_chars).max();
    let quoted_chars = quoted_chars.unwrap_or(0);
    let has_text = has_text || selection != SelectionKind::None || quoted_chars >= LONG_QUOTE_CHARS;
    scores.retain(|route| match route {
        Route::Chat | Route::Code => true,
        Route::Translate => has_text || translates_itself || quoted_chars > 0,
        Route::Summarize | Route::Rewrite | Route::Extract => has_text,
        Route::Question => matches!(selection, SelectionKind::Text | SelectionKind::Document),
    });
    scores
}

/// Returns a long text without its middle.
fn ends_of(text: &str) -> String {
    if text.chars().nth(2 * MAX_CHARS).is_none() {
        return text.to_owned();
    }
    let head = text.char_indices().nth(MAX_CHARS);
    let head = head.map_or(text.len(), |(at, _)| at);
    let tail = text.char_indices().nth_back(MAX_CHARS - 1);
    let tail = tail.map_or(0, |(at, _)| at);
    format!("{}\n{}", &text[..head], &text[tail..])
}

/// Returns the normal form of a text, and the end of that of the text without its last letter:
/// someone who types one letter too many, or begins the next word, wants the same route.
fn forms(text: &str) -> Vec<Normal> {
    let mut forms = vec![normal(text, &CUES.names)];
    let last = text.chars().next_back();
    if let Some(letter) = last.filter(|letter| letter.is_alphabetic()) {
        let mut shorter = normal(&text[..text.len() - letter.len_utf8()], &CUES.names);
        // Only cues at the end can differ.
        let end = shorter.text.char_indices().nth_back(MAX_CUE_CHARS);
        shorter.text.drain(..end.map_or(0, |(at, _)| at));
        forms.push(shorter);
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cues_match_words_and_clauses() {
        assert_eq!(pattern("^fix"), " | fix ");
        assert_eq!(pattern("tldr$"), " tldr | ");
        assert_eq!(pattern("ubersetz*"), " ubersetz");
        assert_eq!(pattern("翻译成"), "翻译成");
        assert_eq!(pattern("用 #language"), "用 #language ");
    }

    #[test]
    fn every_cue_is_in_normal_form() {
        let file: CuesFile = toml::from_str(include_str!("cues.toml")).unwrap();
        let cues = file.cue.into_iter().map(|cue| cue.words);
        for words in cues.chain([file.earlier]) {
            for word in &words {
                let plain = word.trim_matches(['^', '$', '*']);
                // The normal form of a cue of one clause is the cue.
                let clauses = plain.replace(" | ", ".");
                let form = normal(&clauses, &CUES.names).text;
                let has_mark = plain.contains('#');
                assert!(has_mark || form.contains(plain), "{word}: {form}");
            }
            let different: HashSet<&String> = words.iter().collect();
            assert_eq!(different.len(), words.len(), "a cue is listed twice");
            let mut lengths = words.iter().map(|word| pattern(word).chars().count());
            assert!(lengths.all(|n_chars| n_chars <= MAX_CUE_CHARS));
        }
    }

    #[test]
    fn a_long_text_is_compared_at_its_ends() {
        let long = format!("start {} end", "ä".repeat(5000));
        let ends = ends_of(&long);
        assert!(ends.starts_with("start ä") && ends.ends_with("ä end"));
        assert_eq!(ends.chars().count(), 2 * MAX_CHARS + 1);
        assert_eq!(ends_of("short"), "short");
    }
}

//! How well routes are chosen: 600 labeled prompts in six languages, a third of them chat that looks
//! like something else.
//!
//! `held-out.tsv` was written before any rule, and `development.tsv` is the half that the rules were
//! written with. Change rules by the development half only.

use transom_chat::routing::{Route, SelectionKind, Signals, route};

const HALVES: [(&str, &str); 2] = [
    (
        "development",
        include_str!("fixtures/routing/development.tsv"),
    ),
    ("held-out", include_str!("fixtures/routing/held-out.tsv")),
];
const LANGUAGES: [&str; 6] = ["en", "de", "fr", "es", "zh", "ja"];

/// Letters that may be typed after a prompt.
const LATIN_LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
const CJK_LETTERS: &str = "了的吗のかを";

struct Prompt {
    language: &'static str,
    label: Route,
    text: String,
    selection: SelectionKind,
}

impl Prompt {
    fn route_of(&self, text: &str) -> Route {
        route(&Signals {
            text,
            selection: self.selection,
            previous: Route::Chat,
        })
    }

    fn route(&self) -> Route {
        self.route_of(&self.text)
    }

    /// Returns true if a letter more changes the route.
    fn flips(&self) -> bool {
        let is_cjk = ["zh", "ja"].contains(&self.language);
        let more = if is_cjk { CJK_LETTERS } else { "" };
        let mut letters = LATIN_LETTERS.chars().chain(more.chars());
        let found = self.route();
        letters.any(|letter| self.route_of(&format!("{}{letter}", self.text)) != found)
    }
}

fn prompts(half: &'static str) -> Vec<Prompt> {
    let lines = half.lines().skip(1);
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [language, label, selection, text] = fields[..] else {
                panic!("{line:?} has other fields than language, route, selection, prompt");
            };
            let label = Route::ALL.into_iter().find(|route| route.name() == label);
            Prompt {
                language,
                label: label.unwrap_or_else(|| panic!("{line:?} names no route")),
                text: text.replace("\\n", "\n"),
                selection: match selection {
                    "none" => SelectionKind::None,
                    "text" => SelectionKind::Text,
                    "code" => SelectionKind::Code,
                    "document" => SelectionKind::Document,
                    other => panic!("{other:?} is no kind of selection"),
                },
            }
        })
        .collect()
}

#[test]
fn the_set_has_100_prompts_in_each_language_and_40_of_them_are_chat() {
    let all: Vec<Prompt> = HALVES
        .into_iter()
        .flat_map(|(_, half)| prompts(half))
        .collect();
    for language in LANGUAGES {
        let count = |is_it: fn(&&Prompt) -> bool| {
            let own = all.iter().filter(|prompt| prompt.language == language);
            own.filter(is_it).count()
        };
        assert_eq!(count(|_| true), 100, "{language}");
        assert_eq!(
            count(|prompt| prompt.label == Route::Chat),
            40,
            "{language}"
        );
    }
    let mut texts: Vec<&str> = all.iter().map(|prompt| &*prompt.text).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), all.len(), "a prompt is there twice");
}

#[test]
fn at_least_90_percent_are_right_and_at_most_2_percent_get_a_wrong_route() {
    for (name, half) in HALVES {
        let prompts = prompts(half);
        let wrong: Vec<&Prompt> = prompts
            .iter()
            .filter(|prompt| prompt.route() != prompt.label)
            .collect();
        let of = |route: Route, list: &[&Prompt]| {
            list.iter().filter(|prompt| prompt.label == route).count() as f64
        };
        let all: Vec<&Prompt> = prompts.iter().collect();
        let shares = Route::ALL.map(|route| 1.0 - of(route, &wrong) / of(route, &all));
        let macro_accuracy = shares.iter().sum::<f64>() / shares.len() as f64;
        let is_false = |prompt: &&&Prompt| prompt.route() != Route::Chat;
        let n_false = wrong.iter().filter(is_false).count();
        let shown: Vec<String> = wrong
            .iter()
            .map(|prompt| format!("{} is {:?}", prompt.text, prompt.route()))
            .collect();
        assert!(macro_accuracy >= 0.9, "{name}: {macro_accuracy} {shown:#?}");
        assert!(50 * n_false <= prompts.len(), "{name}: {shown:#?}");
    }
}

#[test]
fn a_typed_letter_changes_the_route_of_less_than_1_percent() {
    for (name, half) in HALVES {
        let prompts = prompts(half);
        let flipping = prompts.iter().filter(|prompt| prompt.flips());
        let flipping: Vec<&str> = flipping.map(|prompt| &*prompt.text).collect();
        assert!(
            100 * flipping.len() < prompts.len(),
            "{name}: {flipping:#?}"
        );
    }
}

#[test]
fn the_same_prompt_always_has_the_same_route() {
    for (_, half) in HALVES {
        for prompt in prompts(half) {
            let first = prompt.route();
            assert!((0..3).all(|_| prompt.route() == first), "{}", prompt.text);
        }
    }
}

#[test]
fn commands_are_always_obeyed() {
    for (_, half) in HALVES {
        for prompt in prompts(half) {
            for expected in Route::ALL {
                let text = format!("/{} {}", expected.name(), prompt.text);
                assert_eq!(prompt.route_of(&text), expected, "{text}");
            }
        }
    }
}

#[test]
fn a_text_after_or_before_the_request_does_not_hide_it() {
    let text = "Der Verein hat im letzten Jahr viele neue Mitglieder gewonnen. ".repeat(200);
    for prompt in [
        format!("Translate this to English:\n\n{text}"),
        format!("{text}\n\nTranslate this to English"),
    ] {
        let signals = Signals {
            text: &prompt,
            selection: SelectionKind::None,
            previous: Route::Chat,
        };
        assert_eq!(route(&signals), Route::Translate);
    }
}

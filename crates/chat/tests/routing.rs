//! How well routes are chosen: labeled prompts in six languages, a third of them chat that looks like
//! something else. `fixtures/routing/README.md` says which sets the rules were written with.

use transom_chat::routing::{Route, SelectionKind, Signals, route};

const SETS: [(&str, &str); 4] = [
    (
        "development",
        include_str!("fixtures/routing/development.tsv"),
    ),
    ("held-out", include_str!("fixtures/routing/held-out.tsv")),
    ("second", include_str!("fixtures/routing/second.tsv")),
    ("third", include_str!("fixtures/routing/third.tsv")),
];
const LANGUAGES: [&str; 6] = ["en", "de", "fr", "es", "zh", "ja"];

/// Letters that may be typed after a prompt: the most frequent ones.
const LATIN_LETTERS: &str = "etaoinshrd";
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

fn prompts(set: &'static str) -> Vec<Prompt> {
    let lines = set.lines().skip(1);
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
fn every_set_has_as_many_prompts_in_each_language_and_a_third_of_them_are_chat() {
    let mut texts = Vec::new();
    for (name, set) in SETS {
        let prompts = prompts(set);
        for language in LANGUAGES {
            let own = || prompts.iter().filter(|prompt| prompt.language == language);
            let n_chat = own().filter(|prompt| prompt.label == Route::Chat).count();
            assert_eq!(
                own().count(),
                prompts.len() / LANGUAGES.len(),
                "{name} {language}"
            );
            assert!(3 * n_chat >= own().count(), "{name} {language}");
        }
        texts.extend(prompts.into_iter().map(|prompt| prompt.text));
    }
    let n_texts = texts.len();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), n_texts, "a prompt is there twice");
}

#[test]
fn at_least_90_percent_are_right_and_at_most_2_percent_get_a_wrong_route() {
    for (name, set) in SETS {
        let prompts = prompts(set);
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
    for (name, set) in SETS {
        let prompts = prompts(set);
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
    for (_, set) in SETS {
        for prompt in prompts(set) {
            let first = prompt.route();
            assert!((0..3).all(|_| prompt.route() == first), "{}", prompt.text);
        }
    }
}

#[test]
fn commands_are_always_obeyed() {
    for (_, set) in SETS {
        for prompt in prompts(set) {
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

//! The pipeline against pulldown-cmark's own HTML.

mod inert;
mod plain;

use proptest::prelude::*;

use plain::{one_shot, streamed, streamed_at};

fn check_all_cuts(text: &str) {
    let whole = one_shot(text);
    assert_eq!(streamed(text, &[]), whole, "whole: {text:?}");
    for cut in (1..text.len()).filter(|&cut| text.is_char_boundary(cut)) {
        assert_eq!(streamed_at(text, cut), whole, "cut at {cut}: {text:?}");
    }
}

fn examples() -> Vec<(String, String)> {
    let file = include_str!("../../tests/fixtures/markdown/examples.json");
    let read: serde_json::Value = serde_json::from_str(file).unwrap();
    read["examples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|example| {
            let word = |key: &str| example[key].as_str().unwrap().to_string();
            (word("name"), word("markdown"))
        })
        .collect()
}

#[test]
fn every_example_of_the_specifications_cut_anywhere_equals_one_reading() {
    let examples = examples();
    assert!(examples.len() > 900, "only {} examples", examples.len());
    for (_, text) in &examples {
        check_all_cuts(text);
    }
}

#[test]
fn an_example_may_come_letter_by_letter() {
    for (name, text) in examples() {
        let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        assert_eq!(streamed(&text, &cuts), one_shot(&text), "{name}: {text:?}");
    }
}

#[test]
fn examples_one_after_the_other_equal_one_reading() {
    let examples = examples();
    for pair in examples.windows(2) {
        for gap in ["", "\n"] {
            let text = format!("{}{gap}{}", pair[0].1, pair[1].1);
            assert_eq!(streamed(&text, &[]), one_shot(&text), "{text:?}");
        }
    }
}

fn line() -> impl Strategy<Value = String> {
    let indent = prop_oneof![4 => Just(""), 1 => Just(" "), 2 => Just("  "), 2 => Just("   "), 1 => Just("    "), 1 => Just("\t"), 1 => Just("> "), 1 => Just(">")];
    let mark = prop_oneof![
        8 => Just(""), 3 => Just("- "), 2 => Just("* "), 1 => Just("+ "), 2 => Just("1. "), 1 => Just("7) "),
        1 => Just("# "), 1 => Just("```"), 1 => Just("~~~rust"), 1 => Just("---"), 1 => Just("==="), 1 => Just("***"),
        2 => Just("| a | b |"), 2 => Just("|---|:-:|"), 1 => Just("<div>"), 1 => Just("</div>"), 1 => Just("<!--"), 1 => Just("-->"),
        1 => Just("<script>"), 1 => Just("</script>"), 1 => Just("<b>"), 1 => Just("- [ ] "), 1 => Just("- [x] "),
        2 => Just("[a]: /one"), 1 => Just("[b]:"), 1 => Just("[a]: /two 'title"), 1 => Just("'title'"), 1 => Just("\"more\""), 1 => Just("[^1]: "), 1 => Just("[^n]: note"),
        1 => Just("> [!NOTE]"), 1 => Just("> "), 1 => Just("    "), 1 => Just("-"), 1 => Just("1."),
    ];
    let words = prop::collection::vec(
        prop_oneof![
            4 => Just("text"), 2 => Just("**bold**"), 1 => Just("*half"), 1 => Just("`code`"), 1 => Just("`"),
            2 => Just("[a]"), 1 => Just("[b][a]"), 1 => Just("[b]"), 1 => Just("[link](/to)"), 1 => Just("![a]"), 1 => Just("[^1]"), 1 => Just("[^n]"),
            1 => Just("~~gone~~"), 1 => Just("<i>"), 1 => Just("a|b"), 1 => Just("\\"), 1 => Just("'"), 1 => Just("é 漢"), 1 => Just("&amp;"),
        ],
        0..4,
    );
    (indent, mark, words)
        .prop_map(|(indent, mark, words)| format!("{indent}{mark}{}", words.join(" ")))
}

fn markdown(n_lines: usize) -> impl Strategy<Value = String> {
    let end = prop_oneof![6 => Just("\n"), 3 => Just("\n\n"), 1 => Just("\r\n")];
    prop::collection::vec((line(), end), 0..n_lines).prop_map(|lines| {
        lines
            .iter()
            .map(|(line, end)| format!("{line}{end}"))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn any_lines_in_any_pieces_equal_one_reading(
        text in markdown(14),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).filter(|&cut| text.is_char_boundary(cut)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(streamed(&text, &cuts), one_shot(&text));
    }

    #[test]
    fn long_lists_tables_and_code_equal_one_reading(
        head in line(), item in line(), more in line(), after in line(), n_items in 1usize..120, every in 1usize..60,
        mark in prop_oneof![Just("- "), Just("1. "), Just(" * "), Just("| "), Just("```\n"), Just("> ")],
    ) {
        let mut text = format!("{head}\n");
        for i in 0..n_items {
            text.push_str(&format!("{mark}{item} number {i} and some words to make it longer\n"));
            if i % every == every - 1 { text.push_str(&format!("{more}\n")); }
        }
        text.push_str(&format!("{after}\n"));
        let middle = text.floor_char_boundary(text.len() / 2);
        prop_assert_eq!(streamed(&text, &[middle]), one_shot(&text));
    }
}

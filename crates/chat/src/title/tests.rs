use proptest::prelude::*;

use super::*;

fn check(question: &str, expect: &str) {
    assert_eq!(title(question, ""), expect, "{question:?}");
}

#[test]
fn a_short_question_is_its_own_title() {
    check(
        "What is the capital of France?",
        "What is the capital of France?",
    );
    check("  Hello.\n", "Hello");
    check("为什么天空是蓝色的？", "为什么天空是蓝色的？");
}

#[test]
fn control_characters_become_visible() {
    check("Open \u{202e}fdp.exe\u{1b}[2J", "Open �fdp.exe�[2J");
}

#[test]
fn only_the_first_sentence_counts() {
    check("Fix this. It fails on Tuesdays.", "Fix this");
    check("Really? Tell me more.", "Really?");
    check("Translate:\n\nGuten Tag, wie geht es?", "Translate");
    check("修正这个。它在星期二失败。", "修正这个");
}

#[test]
fn markup_is_left_out() {
    check("# **Bold** and `code`", "Bold and code");
    check(
        "See [the docs](https://example.org/a/b) please",
        "See the docs please",
    );
    check("- one\n- two", "one");
    check("> quoted\n\nand more", "quoted");
    check("Is a <b> c?", "Is a <b> c?");
}

#[test]
fn code_is_used_if_there_is_no_other_text() {
    check("```rust\nfn main() {}\n```", "fn main() {}");
    check("Explain this\n```rust\nfn main() {}\n```", "Explain this");
}

#[test]
fn a_long_title_is_cut_between_words() {
    check(
        "Please explain to me in great detail how a transformer model attends to its own tokens",
        "Please explain to me in great detail how a transformer…",
    );
    check(&"字".repeat(100), &format!("{}…", "字".repeat(59)));
    check(&"x".repeat(100), &format!("{}…", "x".repeat(59)));
}

#[test]
fn the_attachment_gives_the_title_if_the_question_is_empty() {
    assert_eq!(
        title("", "Some selected words. And more."),
        "Some selected words"
    );
    let file = r##"[{"name":"report_v2.final.pdf","text":"# A"}]"##;
    assert_eq!(title("", file), "report_v2.final.pdf");
    assert_eq!(title("\u{a0}", ""), "");
    assert_eq!(title("Shorten", "Some selected words."), "Shorten");
}

proptest! {
    #[test]
    fn a_title_is_always_one_short_line(question in "\\PC{0,300}|[a-z\\n #*`>。]{0,300}") {
        let title = title(&question, "");
        prop_assert!(title.graphemes(true).count() <= MAX_CHARACTERS, "{}", title);
        prop_assert!(!title.contains('\n'));
        prop_assert_eq!(title.trim(), &title);
    }
}

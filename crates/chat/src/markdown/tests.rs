//! Any text, rendered in any pieces, ends with the result of one render, and matches
//! pulldown-cmark.

mod security;

use dom_query::Document as Page;
use proptest::prelude::*;
use pulldown_cmark::html::push_html;
use pulldown_cmark::{Event, Tag};

use super::*;

/// The product's document without the sanitizer, which takes most of the time.
fn document() -> Document {
    Document {
        is_unsanitized: true,
        ..Document::default()
    }
}

fn rendered(text: &str) -> Vec<Block> {
    let mut document = document();
    document.update(text, true);
    document.blocks
}

/// Returns the HTML that a page would show.
fn shown(blocks: &[Block]) -> String {
    let mut html = String::new();
    // The position for blocks inside the last outer block.
    let mut slot = 0;
    for block in blocks {
        if block.is_inside {
            html.insert_str(slot, &block.html);
            slot += block.html.len();
        } else {
            let ends = ["</tbody>", "</code>", "</ul>", "</ol>"];
            let end = ends.iter().find_map(|end| block.html.rfind(end));
            slot = html.len() + end.unwrap_or(block.html.len());
            html.push_str(&block.html);
        }
    }
    html
}

/// Applies `change` as a follower does.
fn apply(blocks: &mut Vec<Block>, change: Change) {
    blocks.truncate(change.n_blocks as usize);
    for (index, block) in change.blocks {
        match blocks.get_mut(index as usize) {
            Some(known) => *known = block,
            None => blocks.push(block),
        }
    }
    assert_eq!(blocks.len(), change.n_blocks as usize);
}

/// Renders `text` up to each of `cuts` and then whole, and checks a follower's blocks each time.
fn check_pieces(text: &str, cuts: impl IntoIterator<Item = usize>) {
    let mut document = document();
    let mut followed = Vec::new();
    let mut version = 0;
    for cut in cuts {
        document.update(&text[..cut], false);
        apply(&mut followed, document.change_since(version));
        version = document.version();
        assert_eq!(followed, document.blocks(), "up to {cut}: {text:?}");
    }
    document.update(text, true);
    apply(&mut followed, document.change_since(version));
    assert_eq!(followed, rendered(text), "{text:?}");
}

fn check_all_cuts(text: &str) {
    let cuts = (1..text.len()).filter(|&cut| text.is_char_boundary(cut));
    for cut in cuts.clone() {
        check_pieces(text, [cut]);
    }
    check_pieces(text, cuts);
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
fn every_spec_example_cut_anywhere_equals_one_render() {
    let examples = examples();
    assert!(examples.len() > 900, "only {} examples", examples.len());
    for (_, text) in &examples {
        check_all_cuts(text);
    }
}

/// Returns the element names and the letters of some HTML.
fn outline(html: &str) -> (Vec<String>, String) {
    const ELEMENTS: &str = "p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre table thead tbody tr th td \
        em strong del hr br";
    let page = Page::fragment(html);
    page.select("figcaption").remove();
    let names = page.root().descendants().into_iter();
    let names = names.filter_map(|node| node.node_name());
    let names = names.map(|name| name.to_string());
    let text = page.root().text();
    let letters = text.chars().filter(|letter| !letter.is_whitespace());
    (
        names
            .filter(|name| ELEMENTS.split_whitespace().any(|known| known == name))
            .collect(),
        letters.collect(),
    )
}

#[test]
fn spec_examples_match_the_structure_and_text_of_pulldown_cmark() {
    let mut n_compared = 0;
    for (name, text) in examples() {
        let text = normalized(&text);
        let events: Vec<_> = Parser::new_ext(&text, options()).collect();
        // These elements are written differently here, and formulas are not Markdown.
        let is_ours = Formulas::default()
            .replace(&text, true)
            .contains(math::BEGIN)
            || events.iter().any(|event| {
                matches!(
                    event,
                    Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Image { .. })
                )
            });
        if is_ours {
            continue;
        }
        n_compared += 1;
        let mut html = String::new();
        push_html(&mut html, events.into_iter());
        assert_eq!(
            outline(&shown(&rendered(&text))),
            outline(&html),
            "{name}: {text:?}"
        );
    }
    assert!(n_compared > 600, "only {n_compared}");
}

#[test]
fn a_long_list_is_loose_as_a_whole() {
    let mut text = "    \n".to_string();
    for i in 0..38 {
        text.push_str(&format!(
            "- - [b][a] number {i} and some words to make it longer\n"
        ));
        if i % 3 == 2 {
            text.push('\n');
        }
    }
    text.push_str("- text\n");
    check_pieces(&text, (0..text.len()).step_by(7));
    let html = shown(&rendered(&text));
    assert!(html.contains("<li><p>text</p>"), "{html}");
}

#[test]
fn a_list_that_becomes_loose_changes_only_its_items() {
    let mut document = document();
    let before = "A paragraph.\n\n- one\n- two\n";
    document.update(before, false);
    assert!(!shown(document.blocks()).contains("<li><p>"));
    let version = document.version();
    document.update(&format!("{before}\n- three"), false);
    let change = document.change_since(version);
    let changed: Vec<u32> = change.blocks.iter().map(|(index, _)| *index).collect();
    assert_eq!(changed, [2, 3, 4]);
    for (_, block) in change.blocks {
        assert!(block.is_inside && block.html.starts_with("<li><p>"));
    }
}

#[test]
fn a_definition_changes_only_the_blocks_that_refer_to_it() {
    let mut document = document();
    let before = "See [it][1] and a note[^n].\n\nMore.\n\n[1]: https://example.org\n";
    document.update("See [it][1] and a note[^n].\n\nMore.\n\n", false);
    assert!(!document.blocks()[0].html.contains("<a"));
    let version = document.version();
    document.update(before, false);
    let change = document.change_since(version);
    assert_eq!(change.blocks.len(), 1);
    assert_eq!(change.blocks[0].0, 0);
    let version = document.version();
    document.update(&format!("{before}[^n]: The note.\n"), false);
    let change = document.change_since(version);
    let changed: Vec<u32> = change.blocks.iter().map(|(index, _)| *index).collect();
    assert_eq!(changed, [0, 2]);
    assert!(document.blocks()[0].html.contains("href=\"#fn-1\""));
    assert!(document.blocks()[2].html.contains("id=\"fn-1\""));
}

#[test]
fn long_blocks_grow_at_their_end_only() {
    let list: String = (0..400).map(|i| format!("{i}. item **{i}**\n")).collect();
    let code: String = (0..800)
        .map(|i| format!("def function_{i}(x):  # a comment\n"))
        .collect();
    let rows: String = (0..500)
        .map(|i| format!("| row {i} | **{i}** |\n"))
        .collect();
    let table = format!("| a | b |\n|---|---|\n{rows}");
    let code = format!("```python\n{code}```\n");
    let formulas: String = (0..200).map(|i| format!("So $x_{i}$ is.\n\n")).collect();
    for text in [list, code, table, formulas] {
        let mut document = document();
        let mut end = 0;
        while end < text.len() {
            end = (end + 32).min(text.len());
            let version = document.version();
            document.update(&text[..end], false);
            let change = document.change_since(version);
            let n_bytes: usize = change
                .blocks
                .iter()
                .map(|(_, block)| block.html.len())
                .sum();
            assert!(n_bytes < 4_000, "{n_bytes} bytes for {:?}", &text[..40]);
        }
        document.update(&text, true);
        assert_eq!(document.blocks(), rendered(&text));
    }
}

#[test]
fn a_document_can_be_updated_with_a_different_text() {
    let mut document = document();
    let texts = [
        "```rust\nfn a() {}\nfn b() {}\n```\n\n```rust\nlet x = 1;\n```\n$x$ and $y$",
        "```rust\nfn a() {}\nfn c() {}\n```\n\n$y$ and $$x$$",
        "",
        "- a\n- b[^1]\n\n[^1]: c",
    ];
    for text in texts.iter().chain(&texts) {
        document.update(text, true);
        assert_eq!(document.blocks(), rendered(text));
    }
}

#[test]
fn entities_that_decode_to_placeholders_are_not_formulas() {
    for number in ["0", "7", "x", ""] {
        let mark = format!("&#xFDD0;{number}&#xFDD1;");
        let text =
            format!("{mark} `{mark}` [a](https://example.org/{mark} \"{mark}\") ![{mark}](b)");
        assert!(shown(&rendered(&text)).contains("<a href="), "{text}");
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
        1 => Just("> [!NOTE]"), 1 => Just("> "), 1 => Just("    "), 1 => Just("-"), 1 => Just("1."), 1 => Just("$$"), 1 => Just("\\["), 1 => Just("\\]"),
    ];
    let words = prop::collection::vec(
        prop_oneof![
            4 => Just("text"), 2 => Just("**bold**"), 1 => Just("*half"), 1 => Just("`code`"), 1 => Just("`"),
            2 => Just("[a]"), 1 => Just("[b][a]"), 1 => Just("[b]"), 1 => Just("[link](/to)"), 1 => Just("![a]"), 1 => Just("[^1]"), 1 => Just("[^n]"),
            1 => Just("~~gone~~"), 1 => Just("<i>"), 1 => Just("a|b"), 1 => Just("\\"), 1 => Just("'"), 1 => Just("é 漢"), 1 => Just("&amp;"),
            1 => Just("$x^2$"), 1 => Just("\\(y"), 1 => Just("\\)"), 1 => Just("$$"),
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
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_lines_in_any_pieces_equal_one_render(
        text in markdown(14),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        cuts.sort_unstable();
        check_pieces(&text, cuts);
        let has_mark = shown(&rendered(&text)).contains([math::BEGIN, math::END]);
        prop_assert!(!has_mark);
    }

    #[test]
    fn any_characters_in_any_pieces_equal_one_render(
        text in "([a-z $`*_\\[\\]()<>|#\\-+\\\\\n~!^:.1é漢\r\t&;\"'/=]|\n\n|```|\\$\\$|\n- |\n1\\. |\n\\| a \\| b \\|\n\\|---\\|---\\|\n|\\\\\\[|\\\\\\]|\\[\\^1\\]|\n\\[a\\]: /x\n){0,80}",
        n in 1_usize..9,
    ) {
        let cuts = text.char_indices().map(|(at, _)| at).step_by(n);
        check_pieces(&text, cuts);
    }

    #[test]
    fn long_lists_tables_and_code_equal_one_render(
        head in line(), item in line(), more in line(), after in line(), n_items in 1usize..120, every in 1usize..60,
        mark in prop_oneof![Just("- "), Just("1. "), Just(" * "), Just("| "), Just("```\n"), Just("> ")],
    ) {
        let mut text = format!("{head}\n");
        for i in 0..n_items {
            text.push_str(&format!("{mark}{item} number {i} and some words to make it longer\n"));
            if i % every == every - 1 { text.push_str(&format!("{more}\n")); }
        }
        text.push_str(&format!("{after}\n"));
        check_pieces(&text, [text.floor_char_boundary(text.len() / 2)]);
    }
}

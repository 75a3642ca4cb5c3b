//! Attacks, through both layers of protection and through each alone.
//!
//! Rule: a real HTML parser checks the output against a list that is separate from the product's.

use dom_query::Document;
use proptest::prelude::*;

use super::document;
use crate::block::Block;
use crate::markdown::sanitize::sanitized;
use crate::markdown::{Document as Markdown, render};

const ATTACKS: &str = include_str!("../../../tests/fixtures/markdown/attacks.md");

const ELEMENTS: &str = "a blockquote br button code del div em figcaption figure h1 h2 h3 h4 h5 h6 \
    hr input li ol p pre span strong sup table tbody td th thead tr ul html b i math menclose mfrac \
    mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow mspace msqrt mstyle msub \
    msubsup msup mtable mtd mtext mtr munder munderover none";

const ATTRIBUTES: &str = "href title rel class type id alttext tabindex data-language disabled checked \
    aria-label start data-address accent accentunder columnalign depth display displaystyle fence \
    form height largeop linethickness lspace mathvariant maxsize minsize movablelimits notation \
    rspace scriptlevel separator stretchy symmetric width";

/// Lists everything in `html` that is not allowed.
fn wrong_in(html: &str) -> Vec<String> {
    let is_in = |list: &str, name: &str| list.split_ascii_whitespace().any(|known| known == name);
    let document = Document::fragment(format!("<div>{html}</div>"));
    let mut wrong = Vec::new();
    for node in document.root().descendants() {
        let Some(name) = node.node_name().filter(|_| node.is_element()) else {
            if node.is_comment() {
                wrong.push("a comment".to_string());
            }
            continue;
        };
        if !is_in(ELEMENTS, &name) {
            wrong.push(format!("<{name}>"));
        }
        for attribute in node.attrs() {
            let attribute_name = attribute.name.local.to_string();
            let value = attribute.value.to_string();
            // Only operators of formulas may have `form`.
            let is_known =
                is_in(ATTRIBUTES, &attribute_name) && (attribute_name != "form" || &*name == "mo");
            if !is_known {
                wrong.push(format!("<{name} {attribute_name}>"));
            }
            let is_safe = attribute_name != "href"
                || ["http://", "https://", "https:", "http:", "mailto:", "#fn-"]
                    .iter()
                    .any(|start| value.to_ascii_lowercase().starts_with(start));
            if !is_safe {
                wrong.push(format!("<{name} href={value:?}>"));
            }
        }
        let is_input = &*name == "input";
        if is_input && node.attr("type").is_none_or(|kind| &*kind != "checkbox") {
            wrong.push("an input that is no checkbox".to_string());
        }
    }
    wrong
}

fn joined(blocks: &[Block]) -> String {
    blocks.iter().map(|block| block.html.as_str()).collect()
}

#[test]
fn every_attack_is_harmless() {
    assert!(ATTACKS.lines().count() > 150);
    for attack in ATTACKS.lines() {
        let html = joined(&render(attack));
        assert_eq!(wrong_in(&html), [""; 0], "{attack}\n{html}");
    }
}

#[test]
fn attacks_are_harmless_inside_of_any_markdown() {
    for attack in ATTACKS.lines() {
        for (before, after) in [
            ("- ", "\n- x\n"),
            ("> ", "\n"),
            ("| a |\n|---|\n| ", " |\n"),
            ("**", "**"),
            ("[", "](https://example.org)"),
            ("```html\n", "\n```\n"),
            ("- ```js\n  ", "\n  ```\n"),
            ("[js]: javascript:alert(1)\n\n", "\n"),
            ("x[^1]\n\n[^1]: ", "\n"),
            ("$$\n", "\n$$\n"),
            ("<div>\n", "\n"),
        ] {
            let html = joined(&render(&format!("{before}{attack}{after}")));
            assert_eq!(wrong_in(&html), [""; 0], "{before}{attack}{after}\n{html}");
        }
    }
}

#[test]
fn unfinished_attacks_are_harmless() {
    for attack in ATTACKS.lines() {
        let mut document = Markdown::default();
        for (end, _) in attack.char_indices() {
            document.update(&attack[..end], false);
            let html = joined(document.blocks());
            assert_eq!(wrong_in(&html), [""; 0], "{attack}\n{html}");
        }
    }
}

#[test]
fn all_attacks_in_one_text_are_harmless() {
    let html = joined(&render(ATTACKS));
    assert_eq!(wrong_in(&html), [""; 0]);
}

#[test]
fn the_html_writer_is_safe_without_the_sanitizer() {
    for attack in ATTACKS.lines() {
        let mut document = document();
        document.update(attack, true);
        let html = joined(document.blocks());
        assert_eq!(wrong_in(&html), [""; 0], "{attack}\n{html}");
    }
}

#[test]
fn the_sanitizer_is_safe_without_the_html_writer() {
    for attack in ATTACKS.lines() {
        let mut html = String::new();
        pulldown_cmark::html::push_html(&mut html, pulldown_cmark::Parser::new(attack));
        for html in [html.as_str(), attack] {
            let clean = sanitized(html);
            assert_eq!(wrong_in(&clean), [""; 0], "{attack}\n{clean}");
        }
    }
}

#[test]
fn the_checker_detects_forbidden_html() {
    for html in [
        "<img>",
        "<a href=\"javascript:x\">",
        "<p onclick=x>",
        "<p style=x>",
        "<!--x-->",
        "<input>",
        "<p form=x>",
    ] {
        assert!(!wrong_in(html).is_empty(), "{html}");
    }
}

#[test]
fn no_letters_of_the_text_are_lost() {
    for attack in ATTACKS.lines().filter(|line| line.starts_with('<')) {
        let html = joined(&render(attack));
        let text = Document::fragment(html.as_str()).root().text().to_string();
        let letters = |text: &str| -> String {
            text.chars()
                .filter(|letter| letter.is_alphanumeric())
                .collect()
        };
        // A bare line break is rendered as one, and entities outside of HTML are decoded.
        if attack.contains("<br") || attack.contains('&') {
            continue;
        }
        assert_eq!(letters(&text), letters(attack), "{attack}\n{html}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn randomly_combined_attacks_are_harmless(
        parts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 1..6),
    ) {
        let attacks: Vec<&str> = ATTACKS.lines().collect();
        let mut text = String::new();
        for (which, end, breaks) in parts {
            let attack = which.get(&attacks);
            text.push_str(&attack[..attack.floor_char_boundary(end.index(attack.len() + 1))]);
            if breaks { text.push('\n'); }
        }
        prop_assert_eq!(wrong_in(&joined(&render(&text))), [""; 0], "{}", text);
        let mut document = Markdown::default();
        document.update(&text, false);
        prop_assert_eq!(wrong_in(&joined(document.blocks())), [""; 0], "{}", text);
    }
}

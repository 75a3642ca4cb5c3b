//! Markdown as windows get it: what it looks like, how it grows, and what it costs at the worst.
//!
//! That it is read as pulldown-cmark reads it, and that it is inert, is tested beside the code.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use transom_chat::Block;
use transom_chat::block::settle;
use transom_chat::markdown::{Speech, Stream, render};

fn html(text: &str) -> String {
    render(text).into_iter().map(|block| block.html).collect()
}

fn check(text: &str, parts: &[&str]) {
    let html = html(text);
    for part in parts {
        assert!(html.contains(part), "{text:?} lacks {part:?}:\n{html}");
    }
}

fn check_not(text: &str, parts: &[&str]) {
    let html = html(text);
    for part in parts {
        assert!(!html.contains(part), "{text:?} has {part:?}:\n{html}");
    }
}

fn tail(text: &str) -> String {
    let mut stream = Stream::new();
    let mut blocks = stream.push(text);
    let tail = stream.tail();
    blocks.retain(|block| !block.continues);
    tail.html
}

#[test]
fn a_table_scrolls_and_aligns() {
    check(
        "| a | b | c |\n|:--|:-:|--:|\n| 1 | **2** | 3 |\n",
        &[
            "<div class=\"table\" tabindex=\"0\"><table><thead>",
            "<th class=\"align-left\">a</th>",
            "<td class=\"align-center\"><strong>2</strong></td>",
            "<td class=\"align-right\">3</td>",
        ],
    );
    check("| a |\n|---|\n| x<br>y |\n", &["<td>x<br>"]);
}

#[test]
fn tasks_have_names() {
    check(
        "- [x] buy `milk`\n- [ ] rest\n",
        &[
            "<li class=\"task\">",
            "aria-label=\"buy milk\"",
            "checked=\"\"",
            "disabled=\"\"",
        ],
    );
}

#[test]
fn code_has_a_header_colours_and_no_inline_style() {
    let text = "```rust\nfn main() { let x = \"<b>\"; } // done\n```\n";
    check(
        text,
        &[
            "<figure class=\"code\" data-language=\"rust\">",
            "<span class=\"language\">rust</span>",
            "class=\"copy\"",
            "<span class=\"hl-string\">\"&lt;b&gt;\"</span>",
            "hl-comment",
            "hl-keyword",
        ],
    );
    check_not(text, &["style="]);
    check(
        "```nosuch\na < b\n```\n",
        &["data-language=\"nosuch\"", "a &lt; b"],
    );
    check("```html\n<p class=\"a\">x</p>\n```\n", &["hl-tag"]);
    for language in [
        "typescript",
        "toml",
        "swift",
        "python",
        "json",
        "bash",
        "c++",
        "sql",
        "go",
        "kotlin",
        "yaml",
        "dockerfile",
    ] {
        let text = format!("```{language}\n# \"a\" 1 // class if select FROM {{}}\n```\n");
        assert!(html(&text).contains("hl-"), "{language}");
    }
}

#[test]
fn links_open_only_what_may_be_opened() {
    check(
        "[a](https://example.org \"t\")",
        &[
            "href=\"https://example.org\"",
            "rel=\"noopener noreferrer\"",
            "title=\"t\"",
        ],
    );
    check("<me@example.org>", &["href=\"mailto:me@example.org\""]);
    check_not("[a](file:///x) [b](/x) [c](ftp://x)", &["<a"]);
}

#[test]
fn images_are_named_and_not_loaded() {
    check(
        "![a *cat*](https://example.org/cat.png)",
        &["<span class=\"image\" data-address=\"https://example.org/cat.png\">a cat</span>"],
    );
    check(
        "![](https://example.org/cat.png)",
        &[">https://example.org/cat.png</span>"],
    );
}

#[test]
fn definitions_at_the_end_reach_back() {
    let text =
        "See [it][1] and a note[^n].\n\nMore.\n\n[1]: https://example.org\n[^n]: The note.\n";
    let mut stream = Stream::new();
    let early = stream.push(text);
    assert!(!early[0].html.contains("<a"), "{early:?}");
    let late = stream.finish();
    let replaced: Vec<u32> = late.iter().map(|block| block.index).collect();
    assert!(replaced.contains(&0) && !replaced.contains(&1), "{late:?}");
    let mut blocks = early;
    settle(&mut blocks, late);
    assert_eq!(blocks, render(text));
    assert!(blocks[0].html.contains("href=\"https://example.org\""));
    assert!(blocks[0].html.contains("href=\"#fn-1\""), "{blocks:?}");
    check(text, &["<div class=\"footnote\" id=\"fn-1\">"]);
}

#[test]
fn formulas_are_set_in_all_four_spellings() {
    for text in [
        "so $x^2$ is",
        "so \\(x^2\\) is",
        "$$x^2$$",
        "\\[x^2\\]",
        "$$\nx^2\n$$",
        "\\[\nx^2\n\\]\n",
        "1. first\n   \\[\n   x^2\n   \\]\n2. second",
        "> $$\n> x^2\n> $$",
        "| a |\n|---|\n| $x^2$ |",
        "**bold $x^2$**",
        "公式$x^2$是",
        "\\[\n- y\n+ x^2\n= z\n\\]",
        "是\\(x^2\\)。",
        "```rust\nlet x = 1;\n```\n\nso $x^2$ is",
        "- a\n  ```rust\n  let x = 1;\n  ```\n\n  so $x^2$ is",
        "so \\(\\text{``x''} = x^2\\) is",
    ] {
        check(text, &["<math", "<msup>"]);
        check_not(text, &["$", "\\[", "\\(", "style="]);
    }
    check("$$x$$", &["display=\"block\""]);
    check("\\boxed{42} and $\\boxed{42}$", &["class=\"boxed\""]);
    check(
        "$$\\begin{aligned} a &= b \\\\ &= c \\end{aligned}$$",
        &["<mtable", "cell-right"],
    );
    check(
        "$\\nosuchcommand{x}$",
        &["<code class=\"math-error\">$\\nosuchcommand{x}$</code>"],
    );
}

#[test]
fn dollars_in_prose_are_no_formulas() {
    for text in [
        "It costs $5 and $6.",
        "from $5 to 6$ or so",
        "US$5/A$7",
        "between $1,000 and $2,000",
        "$5-$10",
        "$HOME/$USER",
        "价格是$5和$6元",
        "只要$5或者5$吧",
        "原价¥100（约$15），现价$10。",
        "| $5 | $6 |\n|---|---|\n| $7 | $8 |",
        "a \\$x\\$ b",
        "`$x$` and `\\(x\\)`",
        "```\n$x$ and \\(x\\)\n```",
        "- ```\n  $$x$$\n  ```",
        "    $x$",
        "```\\[``````\\]$$",
        "```\\[``\n\\]\n",
        "a $ b $ c",
        "$$",
        "[link](https://example.org/$a$b)",
    ] {
        check_not(text, &["<math", "math-", "\u{FDD0}", "\u{FDD1}"]);
    }
    check("costs $5 and $x$ is", &["costs $5 and <math"]);
    check("- ```\n  $$x$$\n  ```", &["$$x$$"]);
}

#[test]
fn the_tail_closes_what_is_open() {
    for (text, part) in [
        ("some **bold", "<strong>bold</strong>"),
        ("some **bold *both", "<strong>bold <em>both</em></strong>"),
        ("some **bold*", "<strong>bold</strong>"),
        ("a `co", "<code>co</code>"),
        ("see [the te", "see the te"),
        ("see [the text](https://exam", "see the text"),
        ("see ![the cat](https://exam", "see the cat"),
        ("~~go", "<del>go</del>"),
        ("- one\n- **tw", "<strong>tw</strong>"),
        ("| a | b |", "<th>a</th>"),
        ("| a | b |\n|--", "<th>a</th><th>b</th>"),
        ("| a | b |\n|---|---|\n| 1", "<td>1</td><td></td>"),
        ("so \\(x^", "<code class=\"math-pending\">x^</code>"),
        ("\\[\nx +\ny", "math-pending"),
        (
            "```rust\nfn ma",
            "<figure class=\"code\" data-language=\"rust\">",
        ),
    ] {
        let tail = tail(text);
        assert!(tail.contains(part), "{text:?} lacks {part:?}:\n{tail}");
        assert!(
            !tail.contains('*') && !tail.contains("]("),
            "{text:?}:\n{tail}"
        );
    }
}

#[test]
fn marks_that_may_mean_anything_are_not_drawn_yet() {
    for (before, mark) in [
        ("text\n", "-"),
        ("text\n", "="),
        ("- a\n", "-"),
        ("1. a\n", "2"),
        ("1. a\n", "2."),
        ("text\n\n", "#"),
        ("text\n\n", "``"),
        ("text **a** ", "**"),
    ] {
        let with = tail(&format!("{before}{mark}"));
        assert_eq!(
            with.trim_end(),
            tail(before).trim_end(),
            "{before:?} {mark:?}"
        );
    }
}

#[test]
fn a_growing_answer_keeps_its_tail_small() {
    let mut answer = String::new();
    for i in 0..400 {
        answer.push_str(&format!(
            "{i}. item **{i}** with `code` and a few more words\n"
        ));
    }
    answer.push_str("\n```python\n");
    for i in 0..800 {
        answer.push_str(&format!(
            "def function_{i}(x):  # a comment\n    return x + {i}\n"
        ));
    }
    answer.push_str("```\n\n| a | b |\n|---|---|\n");
    for i in 0..500 {
        answer.push_str(&format!("| row {i} | **value** {i} |\n"));
    }
    let mut stream = Stream::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut n_sent = 0;
    for piece in answer.as_bytes().chunks(32) {
        let new = stream.push(std::str::from_utf8(piece).unwrap());
        n_sent += new.len();
        settle(&mut blocks, new);
        let tail = stream.tail();
        assert!(
            tail.html.len() < 10_000,
            "{} bytes of tail",
            tail.html.len()
        );
    }
    let rest = stream.finish();
    n_sent += rest.len();
    settle(&mut blocks, rest);
    assert_eq!(blocks.len(), n_sent, "a block was sent twice");
    assert_eq!(blocks, render(&answer));
    assert!(blocks.len() > 50);
    assert!(blocks.iter().all(|block| block.html.len() < 12_000));
}

#[test]
fn a_list_that_turns_loose_late_is_sent_again_once() {
    let mut text: String = (0..200)
        .map(|i| format!("- item {i} and some words\n"))
        .collect();
    let mut stream = Stream::new();
    let mut blocks = stream.push(&text);
    assert!(blocks.len() > 1 && !blocks[0].html.contains("<p>"));
    let more = "\n- loose\n- end\n";
    text.push_str(more);
    let new = stream.push(more);
    assert_eq!(new.iter().filter(|block| block.index == 0).count(), 1);
    settle(&mut blocks, new);
    settle(&mut blocks, stream.finish());
    assert!(blocks.iter().all(|block| block.html.contains("<p>")));
    assert_eq!(blocks, render(&text));
}

#[test]
fn hostile_sizes_take_linear_time_and_no_stack() {
    let deep_list: String = (0..500)
        .map(|i| format!("{}- x\n", "  ".repeat(i)))
        .collect();
    let braces = format!("${}${}", "{".repeat(3000), "}".repeat(3000));
    let cases = [
        ("quotes", ">".repeat(10_000)),
        ("quotes with text", format!("{}x\n", "> ".repeat(10_000))),
        ("brackets", "[".repeat(10_000)),
        ("images", "![".repeat(10_000)),
        ("links", "[a](".repeat(10_000)),
        ("stars", "*".repeat(10_000)),
        ("strong", "**a ".repeat(10_000)),
        ("marks", "*a_ ".repeat(10_000)),
        ("ticks", "`a``".repeat(10_000)),
        ("items", "- ".repeat(10_000)),
        ("deep list", deep_list),
        ("tags", "<div>".repeat(10_000)),
        ("entities", "&#x41;".repeat(10_000)),
        ("line", "word ".repeat(200_000)),
        ("letters", "x".repeat(1_000_000)),
        (
            "table",
            format!("|a|b|\n|-|-|\n{}", "|1|2|\n".repeat(10_000)),
        ),
        (
            "wide table",
            format!("{}\n{}\n", "|a".repeat(3000), "|-".repeat(3000)),
        ),
        (
            "definitions",
            (0..3000).map(|i| format!("[{i}]: /x\n")).collect(),
        ),
        (
            "references",
            (0..3000).map(|i| format!("[{i}] [^{i}] ")).collect(),
        ),
        ("formulas", "$x$ ".repeat(5_000)),
        ("roots", format!("${}x$", "\\sqrt".repeat(1400))),
        ("braces", braces),
        (
            "code",
            format!("```rust\n{}", "let x = \"y\"; // z\n".repeat(5_000)),
        ),
        (
            "long line of code",
            format!("```js\n{}\n```", "x(".repeat(100_000)),
        ),
        ("lines of a quote", "> text\n".repeat(10_000)),
        ("lines of a paragraph", "text of a line\n".repeat(10_000)),
        ("held formula", format!("$$\n{}", "x\n".repeat(20_000))),
    ];
    for (name, text) in cases {
        let start = Instant::now();
        let blocks = render(&text);
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{name}: {:?} whole",
            start.elapsed()
        );
        drop(blocks);
        let start = Instant::now();
        let mut stream = Stream::new();
        let step = (text.len() / 20).max(1);
        let mut at = 0;
        while at < text.len() {
            let end = text.floor_char_boundary((at + step).min(text.len()));
            stream.push(&text[at..end]);
            stream.tail();
            at = end;
        }
        stream.finish();
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{name}: {:?} growing",
            start.elapsed()
        );
    }
}

#[test]
fn sentences_are_spoken_whole_and_once() {
    let text = "# Title\n\nFirst **sentence** here. Second, with [a link](https://example.org)! Third\nover lines? \n\n```rust\nfn x() {}\n```\n\n- one item\n- two $x^2$ items\n\nLast";
    let expected = [
        "Title",
        "First sentence here.",
        "Second, with a link!",
        "Third over lines?",
        "code block, rust",
        "one item",
        "two x^2 items",
        "Last",
    ];
    for n in [1, 3, 7, 1000] {
        let mut speech = Speech::new();
        let mut said = Vec::new();
        for piece in text.as_bytes().chunks(n) {
            said.extend(speech.push(std::str::from_utf8(piece).unwrap()));
        }
        said.extend(speech.finish());
        assert_eq!(said, expected, "in pieces of {n}");
    }
    let mut speech = Speech::new();
    assert_eq!(speech.push("One. Two begins"), ["One."]);
    assert_eq!(speech.push(" and ends. Three"), ["Two begins and ends."]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_in_any_pieces_ends_the_same(
        text in "([a-z $`*_\\[\\]()<>|#\\-+\\\\\n~!^:.1é漢\r\t&;\"'/=]|\n\n|```|\\$\\$|\n- |\n1\\. |\n\\| a \\| b \\|\n\\|---\\|---\\|\n|\\\\\\[|\\\\\\]|\\[\\^1\\]|\n\\[a\\]: /x\n){0,160}",
        n in 1_usize..9,
    ) {
        let mut stream = Stream::new();
        let mut speech = Speech::new();
        let mut blocks = Vec::new();
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(n) {
            let piece: String = piece.iter().collect();
            settle(&mut blocks, stream.push(&piece));
            speech.push(&piece);
            stream.tail();
        }
        settle(&mut blocks, stream.finish());
        speech.finish();
        prop_assert_eq!(&blocks, &render(&text));
        for (at, block) in blocks.iter().enumerate() {
            prop_assert_eq!(block.index as usize, at);
            prop_assert!(!(at == 0 && block.continues));
            let has_mark = block.html.contains(['\u{FDD0}', '\u{FDD1}']);
            prop_assert!(!has_mark);
        }
    }
}

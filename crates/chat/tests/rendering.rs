//! Markdown as windows get it: its HTML, how it grows, and hostile texts.
//!
//! Tests next to the code check that it matches pulldown-cmark and that it is safe.

use transom_chat::markdown::{Document, render};

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

fn growing(text: &str) -> String {
    let mut document = Document::default();
    document.update(text, false);
    let blocks = document.blocks().iter();
    blocks.map(|block| block.html.as_str()).collect()
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
fn code_has_a_header_colors_and_no_inline_style() {
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
fn only_allowed_links_are_written() {
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
fn images_are_described_and_not_loaded() {
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
fn formulas_render_with_all_four_delimiters() {
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
fn dollar_amounts_are_not_formulas() {
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
fn open_syntax_at_the_end_is_closed() {
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
        let html = growing(text);
        assert!(html.contains(part), "{text:?} lacks {part:?}:\n{html}");
        assert!(
            !html.contains('*') && !html.contains("]("),
            "{text:?}:\n{html}"
        );
    }
}

#[test]
fn ambiguous_markers_at_the_end_are_not_drawn_yet() {
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
        let with = growing(&format!("{before}{mark}"));
        assert_eq!(
            with.trim_end(),
            growing(before).trim_end(),
            "{before:?} {mark:?}"
        );
    }
}

#[test]
fn hostile_texts_are_rendered_whole_and_growing() {
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
    for (_, text) in cases {
        render(&text);
        let mut document = Document::default();
        for part in 1..=5 {
            let end = text.floor_char_boundary(text.len() * part / 5);
            document.update(&text[..end], false);
        }
    }
}

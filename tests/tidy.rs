//! Rules of style that a test can check: file lengths, names, headers, unfinished code.
//!
//! A rule takes one file and returns its violations as `path:line: reason`. Each rule has a test with
//! a bad sample on which it fails, and one test applies all rules to the checkout.

use transom_tests::{SourceFile, files_with};

/// Maximum number of lines of a source file.
const MAX_LINES: usize = 500;

/// Source files that may be longer, with reasons.
const LONG_FILES: &[(&str, &str)] = &[("ui/src/ipc/bindings.ts", "generated from Rust")];

/// Words in type names that do not say what the type does.
const EMPTY_NAMES: [&str; 6] = [
    "Manager",
    "Service",
    "Helper",
    "Util",
    "Handler",
    "Processor",
];

/// Marks of unfinished or disabled code, in two halves so that the rule does not find them here.
const UNFINISHED: [&str; 4] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[", "ignore"),
    concat!("FIX", "ME"),
];

/// Starts of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 6] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/tm", "p/"),
    concat!("/Use", "rs/"),
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
];

/// Words that were replaced, in two halves, and their successors: one idea has one word, in American
/// English.
const REPLACED: [(&str, &str); 7] = [
    (concat!("cancel", "led"), "canceled"),
    (concat!("cancel", "ling"), "canceling"),
    (concat!("one a ", "line"), "one per line"),
    (concat!("settle", "_by"), "end_by"),
    (concat!("kept", "Place"), "placeToRestore"),
    (concat!("kept", "NewChat"), "newChatToRestore"),
    (concat!("enum Ver", "dict"), "ResponseCheck"),
];

/// Files and folders in which those words may stay, with reasons.
const WITH_REPLACED: [(&str, &str); 3] = [
    (
        "assets/starter/recipe/",
        "texts that the starter was trained on",
    ),
    ("crates/store/src/conversation.rs", "the name in databases"),
    ("crates/store/src/schema.rs", "the name in databases"),
];

type Rule = fn(&SourceFile) -> Vec<String>;

const RULES: [Rule; 8] = [
    lines_end_cleanly,
    has_a_header,
    is_not_mod_rs,
    names_say_something,
    nothing_is_unfinished,
    no_sleeping_in_tests,
    no_random_seeds_in_tests,
    no_paths_of_one_machine,
];

#[test]
fn the_checkout_is_tidy() {
    let files = files_with(&["rs", "toml", "md", "yml", "h", "c", "sh"]).unwrap();
    assert!(files.len() > 20, "the walk found {} files", files.len());
    let wrong: Vec<String> = files
        .iter()
        .flat_map(|file| RULES.iter().flat_map(|rule| rule(file)))
        .collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn only_the_listed_files_are_long() {
    let files = files_with(&["rs", "ts", "svelte"]).unwrap();
    let long = files.iter().flat_map(is_not_too_long);
    let listed = LONG_FILES.iter().map(|(path, _)| *path);
    let (long, listed) = (long.collect::<Vec<_>>(), listed.collect::<Vec<_>>());
    let is_listed = |wrong: &String| listed.iter().any(|path| wrong.starts_with(path));
    assert!(long.iter().all(is_listed), "\n{}\n", long.join("\n"));
    assert_eq!(long.len(), listed.len(), "an exception is not needed");
}

#[test]
fn replaced_words_do_not_return() {
    let types = [
        "rs", "ts", "svelte", "json", "txt", "md", "py", "toml", "yml",
    ];
    let files = files_with(&types).unwrap();
    let has_replaced = |path: &str| {
        let files = files.iter().filter(|file| file.path.starts_with(path));
        files.flat_map(says_replaced_words).next().is_some()
    };
    for (path, reason) in WITH_REPLACED {
        assert!(has_replaced(path), "{path} needs no exception ({reason})");
    }
    let others = files.iter().filter(|file| {
        let exceptions = WITH_REPLACED.iter().map(|(path, _)| path);
        !exceptions
            .into_iter()
            .any(|path| file.path.starts_with(path))
    });
    let wrong: Vec<String> = others.flat_map(says_replaced_words).collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

fn says_replaced_words(file: &SourceFile) -> Vec<String> {
    let wrong = REPLACED.iter().flat_map(|(word, successor)| {
        let reason = format!("says {successor} in another word");
        lines_where(file, &reason, |line| {
            line.to_lowercase().contains(&word.to_lowercase())
        })
    });
    wrong.collect()
}

/// Lines of code of the command line, at most: it parses arguments and asks others. What it shows is in
/// `crates/reports`.
const MAX_LINES_OF_COMMANDS: usize = 5000;

#[test]
fn the_command_line_is_small() {
    let files = files_with(&["rs"]).unwrap();
    let commands = files.iter().filter(|file| {
        let is_of_tests = ["/test_", "/tests"]
            .iter()
            .any(|part| file.path.contains(part));
        file.path.starts_with("crates/cli/src/") && !is_of_tests
    });
    let n_lines: usize = commands.map(|file| lines_of_code(&file.text)).sum();
    assert!(n_lines > 1000, "only {n_lines} were found");
    assert!(n_lines <= MAX_LINES_OF_COMMANDS, "{n_lines} lines of code");
}

/// Returns the number of lines that are neither blank nor comments, before the tests.
fn lines_of_code(text: &str) -> usize {
    let product = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = product.unwrap_or_default().lines().map(str::trim_start);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

fn lines_end_cleanly(file: &SourceFile) -> Vec<String> {
    let mut wrong = lines_where(file, "ends in blanks", |line| {
        line.ends_with([' ', '\t', '\r'])
    });
    if is_rust(file) {
        wrong.extend(lines_where(file, "has a tab", |line| line.contains('\t')));
    }
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        wrong.push(format!("{}: must end in one line break", file.path));
    }
    wrong
}

fn is_not_too_long(file: &SourceFile) -> Vec<String> {
    let n_lines = file.text.lines().count();
    if n_lines <= MAX_LINES {
        return Vec::new();
    }
    vec![format!("{}: {n_lines} lines, over {MAX_LINES}", file.path)]
}

/// The header says what the file contains and which rule holds in it. The tests of a file, in
/// `tests.rs`, need no header of their own.
fn has_a_header(file: &SourceFile) -> Vec<String> {
    let is_moved_out = file.path.ends_with("/tests.rs");
    if !is_rust(file) || is_moved_out || file.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![format!("{}: must open with a //! header", file.path)]
}

fn is_not_mod_rs(file: &SourceFile) -> Vec<String> {
    if file.path.rsplit('/').next() != Some("mod.rs") {
        return Vec::new();
    }
    vec![format!(
        "{}: name it after its folder, beside it",
        file.path
    )]
}

fn names_say_something(file: &SourceFile) -> Vec<String> {
    if !is_rust(file) {
        return Vec::new();
    }
    lines_where(file, "a name that says nothing", |line| {
        declared_type(line)
            .is_some_and(|name| EMPTY_NAMES.iter().any(|empty| has_word(name, empty)))
    })
}

/// Returns the name of the type that the line declares, as in `pub(crate) struct Name<T>`.
fn declared_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) if rest.starts_with(' ') => rest,
        _ => line,
    };
    let (keyword, rest) = line.trim_start().split_once(' ')?;
    if !["struct", "enum", "trait", "type", "union"].contains(&keyword) {
        return None;
    }
    rest.split(|letter: char| !letter.is_alphanumeric()).next()
}

/// Returns true if a camel-case name contains the word or its plural as a whole word.
fn has_word(name: &str, word: &str) -> bool {
    name.match_indices(word).any(|(start, _)| {
        let rest = &name[start + word.len()..];
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        !rest.starts_with(|letter: char| letter.is_lowercase())
    })
}

fn nothing_is_unfinished(file: &SourceFile) -> Vec<String> {
    if !is_rust(file) {
        return Vec::new();
    }
    lines_where(file, "is unfinished or switched off", |line| {
        UNFINISHED.iter().any(|mark| line.contains(mark))
    })
}

/// A test that waits for a fixed time is slow if it passes, and fails on a busy machine.
fn no_sleeping_in_tests(file: &SourceFile) -> Vec<String> {
    let sleep = concat!("sl", "eep(");
    let n_product_lines = product_lines(file);
    lines_where(file, "sleeps in a test", |line| line.contains(sleep))
        .into_iter()
        .filter(|wrong| line_number(wrong) > n_product_lines)
        .collect()
}

/// Tests with random seeds fail in changes that did not cause the failure. Cargo's configuration sets
/// the seed of proptest.
fn no_random_seeds_in_tests(file: &SourceFile) -> Vec<String> {
    let sources = [
        concat!("from_", "os_rng"),
        concat!("from_", "entropy"),
        concat!("RngSeed::", "Random"),
    ];
    let n_product_lines = product_lines(file);
    let is_random = |line: &str| sources.iter().any(|source| line.contains(source));
    lines_where(file, "draws a random seed in a test", is_random)
        .into_iter()
        .filter(|wrong| line_number(wrong) > n_product_lines)
        .collect()
}

#[test]
fn property_tests_have_a_fixed_seed() {
    let seed = std::env::var("PROPTEST_RNG_SEED");
    let seed = seed.map(|seed| seed.parse::<u64>());
    assert!(
        matches!(seed, Ok(Ok(_))),
        "{seed:?}: .cargo/config.toml names it"
    );
}

fn no_paths_of_one_machine(file: &SourceFile) -> Vec<String> {
    let n_product_lines = product_lines(file);
    lines_where(file, "names a folder of one machine", |line| {
        MACHINE_PATHS.iter().any(|path| {
            line.match_indices(path).any(|(start, _)| {
                // `crates/tmp/` and `a.org/home/` are not absolute paths.
                !line[..start].ends_with(|before: char| before.is_alphanumeric() || before == '.')
            })
        })
    })
    .into_iter()
    .filter(|wrong| line_number(wrong) <= n_product_lines)
    .collect()
}

/// Returns the number of lines before the file's tests.
fn product_lines(file: &SourceFile) -> usize {
    if !is_rust(file) {
        return usize::MAX;
    }
    let is_test_file = file.path.starts_with("tests/") || file.path.contains("/tests/");
    if is_test_file || file.path.ends_with("tests.rs") {
        return 0;
    }
    let tests = file.text.lines().position(|line| line == "#[cfg(test)]");
    tests.unwrap_or(usize::MAX)
}

fn is_rust(file: &SourceFile) -> bool {
    file.path.ends_with(".rs")
}

fn lines_where(file: &SourceFile, reason: &str, is_wrong: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = file.text.split_terminator('\n').enumerate();
    lines
        .filter(|(_, line)| is_wrong(line))
        .map(|(index, _)| format!("{}:{}: {reason}", file.path, index + 1))
        .collect()
}

fn line_number(wrong: &str) -> usize {
    let number = wrong.split(':').nth(1);
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

mod rules_can_fail {
    use super::*;

    #[track_caller]
    fn check(rule: Rule, path: &str, text: &str, expected: &[&str]) {
        let file = SourceFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        assert_eq!(rule(&file), expected);
    }

    #[test]
    fn blanks_tabs_and_missing_line_breaks() {
        let rule = lines_end_cleanly;
        check(rule, "a.md", "x \ny\n", &["a.md:1: ends in blanks"]);
        check(rule, "a.rs", "x\n\ty\n", &["a.rs:2: has a tab"]);
        check(rule, "a.md", "x", &["a.md: must end in one line break"]);
        check(rule, "a.md", "x\n\n", &["a.md: must end in one line break"]);
        check(rule, "a.md", "x\n\ty\n", &[]);
    }

    #[test]
    fn length() {
        let text = "x\n".repeat(501);
        check(
            is_not_too_long,
            "a.rs",
            &text,
            &["a.rs: 501 lines, over 500"],
        );
        check(is_not_too_long, "a.rs", &text[2..], &[]);
    }

    #[test]
    fn headers_and_mod_rs() {
        let missing = "a.rs: must open with a //! header";
        check(has_a_header, "a.rs", "fn a() {}\n", &[missing]);
        check(has_a_header, "a.rs", "//! What it is.\n", &[]);
        check(has_a_header, "a/tests.rs", "fn a() {}\n", &[]);
        let named = "b/mod.rs: name it after its folder, beside it";
        check(is_not_mod_rs, "b/mod.rs", "", &[named]);
        check(is_not_mod_rs, "b/model.rs", "", &[]);
    }

    #[test]
    fn names() {
        let wrong = &["a.rs:1: a name that says nothing"];
        for line in [
            "struct ModelManager;",
            "pub enum Handlers {",
            "    pub(crate) trait HelperFor<T> {",
        ] {
            check(names_say_something, "a.rs", line, wrong);
        }
        for line in [
            "struct Utility;",
            "let a = ModelManager;",
            "pub struct Decoder;",
        ] {
            check(names_say_something, "a.rs", line, &[]);
        }
    }

    #[test]
    fn only_code_counts() {
        let text = "//! A.\n\nfn a() {\n    // B\n    b();\n}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(lines_of_code(text), 3);
    }

    #[test]
    fn replaced_words() {
        for (word, successor) in REPLACED {
            let wrong = format!("a.ts:1: says {successor} in another word");
            check(
                says_replaced_words,
                "a.ts",
                &format!("a {word} b"),
                &[&wrong],
            );
            check(says_replaced_words, "a.ts", successor, &[]);
        }
    }

    #[test]
    fn leftovers() {
        let wrong = &["a.rs:1: is unfinished or switched off"];
        for mark in UNFINISHED {
            check(nothing_is_unfinished, "a.rs", mark, wrong);
        }
    }

    #[test]
    fn sleeps() {
        let sleep = format!("{}1);\n", concat!("thread::sl", "eep("));
        let tested = format!("{sleep}#[cfg(test)]\n{sleep}");
        check(
            no_sleeping_in_tests,
            "a.rs",
            &tested,
            &["a.rs:3: sleeps in a test"],
        );
        check(
            no_sleeping_in_tests,
            "tests/a.rs",
            &sleep,
            &["tests/a.rs:1: sleeps in a test"],
        );
        check(no_sleeping_in_tests, "a.rs", &sleep, &[]);
    }

    #[test]
    fn random_seeds() {
        let seed = format!("let draws = Rng::{}();\n", concat!("from_", "os_rng"));
        let wrong = &["tests/a.rs:1: draws a random seed in a test"];
        check(no_random_seeds_in_tests, "tests/a.rs", &seed, wrong);
        check(no_random_seeds_in_tests, "a.rs", &seed, &[]);
    }

    #[test]
    fn machine_paths() {
        let rule = no_paths_of_one_machine;
        let wrong = &["a.md:1: names a folder of one machine"];
        for path in MACHINE_PATHS {
            check(rule, "a.md", &format!("see {path}x"), wrong);
            check(rule, "a.md", &format!("see crates{path}x"), &[]);
            check(rule, "tests/a.rs", &format!("\"{path}x\""), &[]);
        }
    }
}

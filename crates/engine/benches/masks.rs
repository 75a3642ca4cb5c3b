//! Measures what constraints cost: `cargo bench -p transom-engine
//! --features test-support --bench masks`.
//!
//! The schemas are the 500 of MaskBench that the tests have. A folder with MaskBench's schemas
//! (`maskbench/data` of github.com/guidance-ai/jsonschemabench) is measured instead with
//! `… --bench masks -- FOLDER`; 500 of its files are taken, or as many as a number after it says.
//!
//! Two vocabularies: that of the starter model, and 200,000 tokens, which are those and pairs of them.
//! `first` is the time until the first token can be drawn, `mask` that of each later token. `33 tools` is
//! the time until the first token of a response that may call one of 33 tools, with these schemas. Texts
//! that are valid and cannot be written, and the opposite, are counted and named. `forced` tokens are those
//! that a response gets without sampling.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints a table and stops at the first error"
)]

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use transom_engine::test_support::{one_line, start_constraint, starter_tokens};
use transom_engine::{
    ChatPrompt, ChatTemplate, Constraint, Constraints, Grammar, Message, PreparedTools,
    ResponseConstraint, TokenTable, TokenText, Tokenizer,
};

const N_FILES: usize = 500;
const LARGE: usize = 200_000;
const N_TOOLS: usize = 33;
/// Of the sets of tools.
const N_ROUNDS: usize = 7;

/// A schema, and texts with whether they are valid under it.
struct Case {
    name: String,
    schema: Value,
    texts: Vec<(bool, String)>,
}

fn main() {
    // Cargo passes `--bench`.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|text| !text.starts_with('-'));
    let cases = match (arguments.next(), arguments.next()) {
        (Some(folder), n_files) => {
            let n_files = n_files.map_or(N_FILES, |text| text.parse().unwrap());
            of_mask_bench(Path::new(&folder), n_files)
        }
        (None, _) => of_tests(),
    };
    let (tokenizer, small) = starter_tokens().unwrap();
    let tokenizer = Rc::new(tokenizer);
    println!("{} schemas", cases.len());
    println!(
        "{:>10} {:>8} {:>8} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "tokens", "refused", "what", "n", "mean us", "p50", "p90", "p99", "max"
    );
    let large = enlarged(&small);
    for table in [small, large] {
        measure(&cases, &tokenizer, &table);
        measure_forced(&cases, &tokenizer, &table);
        measure_tools(&cases, &table);
    }
}

fn of_tests() -> Vec<Case> {
    let path = "tests/fixtures/mask_bench/cases.jsonl";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let lines = std::fs::read_to_string(path).unwrap();
    let case = |line: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        let tests = value["tests"].as_array().unwrap().iter();
        Case {
            name: value["name"].to_string(),
            texts: tests
                .map(|test| (test[0] == true, one_line(&test[2])))
                .collect(),
            schema: value["schema"].take(),
        }
    };
    lines.lines().map(case).collect()
}

fn of_mask_bench(folder: &Path, n_files: usize) -> Vec<Case> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let step = paths.len().div_ceil(n_files);
    let case = |path: &PathBuf| {
        let mut value: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let tests = value["tests"].as_array().unwrap().iter();
        Case {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            texts: tests
                .map(|test| (test["valid"] == true, one_line(&test["data"])))
                .collect(),
            schema: value["schema"].take(),
        }
    };
    paths.iter().step_by(step).map(case).collect()
}

/// Adds pairs of tokens.
fn enlarged(small: &TokenTable) -> TokenTable {
    let mut table = small.clone();
    let words = small.tokens.iter().filter_map(|token| match token {
        TokenText::Text(bytes) => Some(bytes.clone()),
        TokenText::Special(_) => None,
    });
    let words: Vec<Vec<u8>> = words.collect();
    let mut seen: HashSet<Vec<u8>> = words.iter().cloned().collect();
    let pairs = (1..words.len()).flat_map(|step| {
        let others = words.iter().cycle().skip(step);
        words.iter().zip(others).map(|(a, b)| [&a[..], b].concat())
    });
    for pair in pairs {
        if table.tokens.len() == LARGE {
            break;
        }
        if pair.len() <= 12 && seen.insert(pair.clone()) {
            table.tokens.push(TokenText::Text(pair));
        }
    }
    table
}

fn measure(cases: &[Case], tokenizer: &Tokenizer, table: &TokenTable) {
    let mut constraints = Constraints::default();
    let warm = Constraint::on_answer(Grammar::JsonObject);
    let _ = start(&mut constraints, &warm, table);
    let (mut first, mut masks) = (Vec::new(), Vec::new());
    let mut n_refused = 0;
    let mut wrong = [0; 2];
    for case in cases {
        let constraint = Constraint::on_answer(Grammar::JsonSchema(case.schema.clone()));
        let began = Instant::now();
        if start(&mut constraints, &constraint, table).is_none() {
            n_refused += 1;
            continue;
        }
        first.push(began.elapsed());
        for (is_valid, text) in &case.texts {
            let mut response = start(&mut constraints, &constraint, table).unwrap();
            let (mut is_written, mut n_bytes) = (true, 0);
            for token in tokenizer.encode(text, false).unwrap() {
                let began = Instant::now();
                let mask = response.mask().ok().flatten();
                let is_allowed = mask.is_some_and(|mask| mask.allows(token));
                masks.extend(is_valid.then(|| began.elapsed()));
                is_written = is_allowed && !response.is_complete();
                if !is_written || response.accept(token).is_err() {
                    break;
                }
                if let TokenText::Text(bytes) = &table.tokens[token as usize] {
                    n_bytes += bytes.len();
                }
            }
            let may_end = |response: &mut ResponseConstraint| {
                let mask = response.mask().ok().flatten();
                mask.is_some_and(|mask| mask.allows(table.end_tokens[0]))
            };
            is_written = is_written && (response.is_complete() || may_end(&mut response));
            if is_written != *is_valid {
                wrong[usize::from(*is_valid)] += 1;
                let rest = String::from_utf8_lossy(&text.as_bytes()[n_bytes..]);
                let rest: String = rest.chars().take(60).collect();
                let name = &case.name;
                println!("{name}: valid: {is_valid}, written: {is_written}, before {rest:?}");
            }
        }
    }
    let [accepted, refused] = wrong;
    println!("{refused} valid texts cannot be written, {accepted} can that are not valid");
    for (what, mut times) in [("first", first), ("mask", masks)] {
        times.sort_unstable();
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let at = |share: f64| us(times[((times.len() - 1) as f64 * share) as usize]);
        let mean = us(times.iter().sum::<Duration>()) / times.len() as f64;
        println!(
            "{:>10} {n_refused:>8} {what:>8} {:>9} {mean:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1}",
            table.tokens.len(),
            times.len(),
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0),
        );
    }
}

/// Prints how many tokens of the valid texts are written without sampling, because the schema leaves no
/// choice: in one line, which is the default, in compact texts, and where white space is free.
fn measure_forced(cases: &[Case], tokenizer: &Rc<Tokenizer>, table: &TokenTable) {
    let mut constraints = Constraints::default();
    let indented = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    for (layout, is_flexible, write) in [
        ("one line", None, one_line as fn(&Value) -> String),
        ("no white space", Some(false), Value::to_string),
        ("free white space, one line", Some(true), one_line),
        ("free white space, indented", Some(true), indented),
    ] {
        let (mut n_tokens, mut n_forced, mut n_runs) = (0, 0, 0);
        for case in cases {
            let mut schema = case.schema.clone();
            if let (Some(is_flexible), Some(map)) = (is_flexible, schema.as_object_mut()) {
                let options = json!({ "whitespace_flexible": is_flexible });
                map.insert("x-guidance".to_owned(), options);
            }
            let constraint = Constraint::on_answer(Grammar::JsonSchema(schema));
            for (_, text) in case.texts.iter().filter(|(is_valid, _)| *is_valid) {
                let text = write(&serde_json::from_str(text).unwrap());
                let Some(response) = start(&mut constraints, &constraint, table) else {
                    break;
                };
                let spell = tokenizer.clone();
                let spell = move |text: &str| spell.encode(text, false).ok();
                let mut response = response.spelled_by(spell);
                let mut rest = text.as_str();
                while !rest.is_empty() && !response.is_complete() {
                    let mut tokens = response.forced(usize::MAX);
                    n_runs += usize::from(!tokens.is_empty());
                    n_forced += tokens.len();
                    if tokens.is_empty() {
                        tokens.push(tokenizer.encode(rest, false).unwrap()[0]);
                    }
                    let mut n_bytes = 0;
                    let is_written = tokens.iter().all(|token| {
                        if let TokenText::Text(bytes) = &table.tokens[*token as usize] {
                            n_bytes += bytes.len();
                        }
                        n_tokens += 1;
                        let mask = response.mask().ok().flatten();
                        mask.is_some_and(|mask| mask.allows(*token))
                            && response.accept(*token).is_ok()
                    });
                    match rest.get(n_bytes..) {
                        Some(after) if is_written => rest = after,
                        _ => break,
                    }
                }
            }
        }
        println!(
            "{:>10} {layout}: {n_forced} of {n_tokens} tokens are forced, in {n_runs} runs",
            table.tokens.len()
        );
    }
}

/// Prints the time until the first token of responses that may call one of [`N_TOOLS`] tools.
fn measure_tools(cases: &[Case], table: &TokenTable) {
    let control = ["<|im_end|>"].into_iter().collect();
    let template = ChatTemplate::new("{{ messages[0].content }}", [("", "")], control).unwrap();
    let is_object = |case: &&Case| case.schema["type"] == "object";
    let schemas: Vec<&Value> = cases
        .iter()
        .filter(is_object)
        .map(|case| &case.schema)
        .collect();
    let mut constraints = Constraints::default();
    let _ = start(
        &mut constraints,
        &Constraint::on_answer(Grammar::JsonObject),
        table,
    );
    // The fastest of several rounds, because other programs slow some of them. Between two rounds, the
    // other sets take the place of a compiled grammar.
    let mut fastest: BTreeMap<usize, [Duration; 2]> = BTreeMap::new();
    for _ in 0..N_ROUNDS {
        for (index, schemas) in schemas.chunks_exact(N_TOOLS).enumerate() {
            let tool = |(index, schema): (usize, &&Value)| json!({ "name": format!("tool_{index}"), "parameters": schema });
            let chat = ChatPrompt {
                messages: vec![Message::user("Hello")],
                tools: schemas.iter().enumerate().map(tool).collect(),
                ..ChatPrompt::default()
            };
            let began = Instant::now();
            let tools = PreparedTools::new(&template, &chat, |_| None)
                .unwrap()
                .unwrap();
            let read = began.elapsed();
            let constraint = tools.constraint().unwrap();
            if let Some(mut response) = start(&mut constraints, constraint, table) {
                let _ = response.mask();
                let times = [read, began.elapsed()];
                let least = fastest.entry(index).or_insert(times);
                *least = [least[0].min(times[0]), least[1].min(times[1])];
            }
        }
    }
    let sorted = |which: usize| {
        let mut times: Vec<Duration> = fastest.values().map(|times| times[which]).collect();
        times.sort_unstable();
        times
    };
    let (read, all) = (sorted(0), sorted(1));
    if let (Some(median), Some(max), Some(read)) =
        (all.get(all.len() / 2), all.last(), read.get(read.len() / 2))
    {
        println!(
            "{N_TOOLS} tools: {median:.1?} to the first token, at most {max:.1?}, {} sets; {read:.1?} of it to check the tools",
            all.len()
        );
    }
}

/// Returns the constraint before its first token; `None` if it is refused.
fn start(
    constraints: &mut Constraints,
    constraint: &Constraint,
    table: &TokenTable,
) -> Option<ResponseConstraint> {
    start_constraint(constraints, constraint, None, table).ok()
}

use std::sync::Arc;

use transom_engine::{Constraint, EngineError, Grammar, Section};
use transom_signals::SystemSignals;

use super::*;
use crate::failure;
use crate::test_console::TestConsole;
use crate::test_engine::{Reply, TestEngine};
use transom_terminal::Interrupt;

/// The result of a run.
struct Outcome {
    code: u8,
    out: String,
    err: String,
}

fn args(words: &[&str]) -> AskArgs {
    AskArgs {
        prompt: words.iter().map(|word| (*word).to_owned()).collect(),
        model: ModelArgs {
            model: Some("./scripted".into()),
            ..ModelArgs::default()
        },
        ..AskArgs::default()
    }
}

fn run_on(streams: &mut TestConsole, args: &AskArgs, engine: &TestEngine) -> Outcome {
    run_with(streams, args, &engine.client())
}

fn run_with(streams: &mut TestConsole, args: &AskArgs, client: &Client) -> Outcome {
    let mut console = streams.console();
    let result = run(args, client, &mut console);
    let code = failure::report(result, console.err);
    Outcome {
        code,
        out: streams.out_text(),
        err: streams.err_text(),
    }
}

fn ask(words: &[&str], input: &str, engine: &TestEngine) -> Outcome {
    run_on(&mut TestConsole::typing(input), &args(words), engine)
}

fn last_messages(engine: &TestEngine) -> Vec<(Role, String)> {
    match engine.last_prompt() {
        Some(Prompt::Chat(chat)) => {
            let messages = chat.messages.iter();
            messages.map(|m| (m.role, m.content.clone())).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_response_goes_to_standard_output_and_nothing_to_standard_error() {
    let engine = TestEngine::answering(&["Paris."]);
    let outcome = ask(&["Capital", "of France?"], "", &engine);
    assert_eq!((outcome.code, &*outcome.out), (0, "Paris.\n"));
    assert_eq!(outcome.err, "");
    assert_eq!(
        last_messages(&engine),
        [(Role::User, "Capital of France?".into())]
    );
}

#[test]
fn the_prompt_is_the_words_then_the_piped_text() {
    let check = |words: &[&str], input: &str, expect: &str| {
        let engine = TestEngine::answering(&["ok"]);
        assert_eq!(ask(words, input, &engine).code, 0);
        assert_eq!(last_messages(&engine), [(Role::User, expect.into())]);
    };
    check(&["Sum up:"], "some\ntext\n", "Sum up:\n\nsome\ntext");
    check(&[], "  indented\n\n", "  indented");
    check(&["Hi"], "\n", "Hi");
}

#[test]
fn an_empty_prompt_is_refused_before_a_model_is_loaded() {
    for words in [&[][..], &[" "][..]] {
        let engine = TestEngine::answering(&["never"]);
        let outcome = ask(words, " \n", &engine);
        assert_eq!(outcome.code, 2);
        assert!(
            outcome.err.contains("the prompt is empty"),
            "{}",
            outcome.err
        );
        assert_eq!(engine.n_loads(), 0);
    }
}

#[test]
fn piped_bytes_that_are_not_utf8_are_refused() {
    let engine = TestEngine::answering(&["never"]);
    let mut streams = TestConsole::typing(b"caf\xe9");
    let outcome = run_on(&mut streams, &args(&["Hi"]), &engine);
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("(byte 3)"), "{}", outcome.err);
}

#[test]
fn a_terminal_is_not_read() {
    let engine = TestEngine::answering(&["ok"]);
    let mut streams = TestConsole::typing("typed ahead");
    streams.terminals.stdin = true;
    assert_eq!(run_on(&mut streams, &args(&["Hi"]), &engine).code, 0);
    assert_eq!(last_messages(&engine), [(Role::User, "Hi".into())]);
}

#[test]
fn the_system_prompt_and_thinking_reach_the_template() {
    let engine = TestEngine::answering(&["ok"]);
    let mut args = args(&["Hi"]);
    args.system = Some("Be brief.".into());
    args.generation.no_think = true;
    run_on(&mut TestConsole::default(), &args, &engine);
    assert_eq!(
        last_messages(&engine)[0],
        (Role::System, "Be brief.".into())
    );
    let prompts = engine.requests.prompts.lock().unwrap();
    let is_off = matches!(&prompts[0], Prompt::Chat(chat) if chat.enable_thinking == Some(false));
    assert!(is_off);
}

#[test]
fn a_model_without_a_template_continues_the_text() {
    let mut engine = TestEngine::answering(&["time"]);
    engine.info.has_chat_template = false;
    let outcome = ask(&["Once upon a"], "", &engine);
    assert_eq!(outcome.out, "time\n");
    let expect = Prompt::Text("Once upon a".into());
    assert_eq!(*engine.requests.prompts.lock().unwrap(), [expect]);

    let mut args = args(&["Hi"]);
    args.system = Some("Be brief.".into());
    let outcome = run_on(&mut TestConsole::default(), &args, &engine);
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("--system"), "{}", outcome.err);
}

#[test]
fn json_lines_contain_every_event() {
    let engine = TestEngine::answering(&["Paris."]);
    let mut args = args(&["Hi"]);
    args.json = true;
    let outcome = run_on(&mut TestConsole::default(), &args, &engine);
    let lines: Vec<serde_json::Value> = outcome
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<_> = lines.iter().map(|line| line["event"].clone()).collect();
    let begin = names.iter().position(|name| name == "started").unwrap();
    assert!(names[..begin].iter().all(|name| name == "loading"));
    assert_eq!(names[begin..], ["started", "prefill", "text", "finished"]);
    let text = &lines[begin + 2];
    assert_eq!(text["text"], "Paris.");
    assert_eq!(text["section"], "answer");
    assert_eq!(lines[begin + 3]["reason"], "stop");
    assert_eq!(lines[begin + 3]["stats"]["generated_tokens"], 1);
}

#[test]
fn a_failure_is_one_line_and_with_json_also_an_event() {
    let engine = TestEngine::replying([Reply::Fails("the GPU\nis gone")]);
    let mut args = args(&["Hi"]);
    args.json = true;
    let outcome = run_on(&mut TestConsole::default(), &args, &engine);
    assert_eq!(outcome.code, 1);
    assert_eq!(
        outcome.err,
        "transom: decode: the GPU is gone; the model is unloaded; ask again to reload it\n"
    );
    let last: serde_json::Value =
        serde_json::from_str(outcome.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "error");
    assert_eq!(last["exit_code"], 1);
}

#[test]
fn a_bad_model_has_its_own_exit_code() {
    let mut engine = TestEngine::answering(&[]);
    engine.load_error = Some(EngineError::NotFound {
        path: "scripted".into(),
        what: "config.json".into(),
        hint: "name a model folder".into(),
    });
    let outcome = ask(&["Hi"], "", &engine);
    assert_eq!(outcome.code, 3);
    assert_eq!(
        outcome.err,
        "transom: scripted: config.json not found; name a model folder\n"
    );
}

#[test]
fn ctrl_c_keeps_the_partial_response_and_exits_with_130() {
    let interrupt = Interrupt::default();
    let pressed = interrupt.clone();
    let press: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        pressed.press();
    });
    let engine = TestEngine::replying([Reply::Hooked(vec!["One", " two", " three"], 2, press)]);
    let mut streams = TestConsole::default();
    let client = engine.client_with(&interrupt);
    let outcome = run_with(&mut streams, &args(&["Count"]), &client);
    assert_eq!(outcome.code, 130);
    assert_eq!(outcome.out, "One two\n");
    assert_eq!(outcome.err, "");
}

#[test]
fn progress_is_drawn_on_a_terminal_and_removed_before_the_response() {
    let engine = TestEngine::answering(&["ok"]);
    let mut streams = TestConsole::default().on_terminal(80);
    streams.terminals.stdin = false;
    let outcome = run_on(&mut streams, &args(&["Hi"]), &engine);
    assert_eq!((&*outcome.out, &*outcome.err), ("ok\n", ""));
    let drawn = streams.screen.moves_since_last_check();
    assert!(drawn.contains("Loading scripted … 100 %"), "{drawn}");
    assert!(
        drawn.contains("Reading the prompt … 1 of 1 tokens"),
        "{drawn}"
    );
    assert_eq!(streams.screen.contents(), "");
}

#[test]
fn stats_are_one_line_on_standard_error() {
    let engine = TestEngine::answering(&["ok"]);
    let mut args = args(&["Hi"]);
    args.stats = true;
    let outcome = run_on(&mut TestConsole::default(), &args, &engine);
    assert_eq!(
        outcome.err,
        "1 prompt tokens, 1 generated, first after 1 ms, prefill 1000 tok/s, peak 40 MB\n"
    );
}

#[test]
fn reasoning_is_hidden_in_pipes_unless_requested() {
    let pieces = vec![(Section::Reasoning, "Hm."), (Section::Answer, "Paris.")];
    let check = |is_requested: bool, expect: &str| {
        let engine = TestEngine::replying([Reply::Says(pieces.clone())]);
        let mut args = args(&["Hi"]);
        args.show_reasoning = is_requested;
        let outcome = run_on(&mut TestConsole::default(), &args, &engine);
        assert_eq!(outcome.out, expect);
    };
    check(false, "Paris.\n");
    check(true, "<think>\nHm.\n</think>\n\nParis.\n");
}

#[test]
fn a_bad_parameter_is_refused_before_a_model_is_loaded() {
    let engine = TestEngine::answering(&["never"]);
    let mut args = args(&["Hi"]);
    args.generation.max_tokens = Some(0);
    let outcome = run_on(&mut TestConsole::default(), &args, &engine);
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("max-tokens is 0"), "{}", outcome.err);
    assert_eq!(engine.n_loads(), 0);
}

/// A note tells that Low Power Mode shortened the response.
#[test]
fn a_response_that_the_machine_limited_has_a_note() {
    let mut engine = TestEngine::answering(&[]);
    engine.info.context_length = 100_000;
    let low_power = SystemSignals {
        is_low_power: true,
        ..SystemSignals::default()
    };
    let client = engine.client_on(low_power);
    let check = |max_tokens: usize, expect: bool| {
        let mut args = args(&["Hi"]);
        args.generation.max_tokens = Some(max_tokens);
        let streams = &mut TestConsole::default();
        let outcome = run_with(streams, &args, &client);
        assert_eq!(outcome.code, 0);
        let is_noted = outcome.err.contains("shorter responses");
        assert_eq!(is_noted, expect, "{max_tokens}: {}", outcome.err);
        assert!(outcome.err.lines().count() <= 1, "{}", outcome.err);
    };
    check(50_000, true);
    check(5, false);
}

/// A model that exceeds the budget is refused with numbers, and loads only with an option.
#[test]
fn a_model_over_the_budget_is_refused_unless_the_user_insists() {
    let mut engine = TestEngine::answering(&["ok"]);
    engine.weight_bytes = 9_000_000_000_000;
    let outcome = ask(&["Hi"], "", &engine);
    assert_eq!(outcome.code, 3);
    for part in [
        "scripted needs 8381.90 GB",
        "models may use",
        "--over-budget",
    ] {
        assert!(outcome.err.contains(part), "{part}: {}", outcome.err);
    }
    assert_eq!(engine.n_loads(), 0);

    let mut args = args(&["Hi"]);
    args.model.over_budget = true;
    let outcome = run_on(&mut TestConsole::default(), &args, &engine);
    assert_eq!(
        (outcome.code, &*outcome.out),
        (0, "ok\n"),
        "{}",
        outcome.err
    );
}

#[test]
fn a_constraint_is_sent_with_the_request() {
    let engine = TestEngine::answering(&["yes"]);
    let mut args = args(&["Is it?"]);
    args.constraint.choice = vec!["yes".to_owned(), "no".to_owned()];
    let outcome = run_on(&mut TestConsole::typing(""), &args, &engine);
    assert_eq!((outcome.code, outcome.out.trim_end()), (0, "yes"));
    let params = engine.requests.params.lock().unwrap();
    let choice = Grammar::Choice(args.constraint.choice.clone());
    assert_eq!(params[0].constraint, Some(Constraint::on_answer(choice)));
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_before_a_model_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    for (schema, expected) in [
        (
            r#"{"properties": {"a": {"$ref": "https://a.example/b"}}}"#,
            "`$ref` at /properties/a",
        ),
        ("{", "not valid JSON"),
    ] {
        std::fs::write(&path, schema).unwrap();
        let engine = TestEngine::answering(&["{}"]);
        let mut args = args(&["Hi"]);
        args.constraint.schema = Some(path.display().to_string());
        let outcome = run_on(&mut TestConsole::typing(""), &args, &engine);
        assert_eq!(outcome.code, 2);
        assert!(outcome.err.contains(expected), "{}", outcome.err);
    }
}

/// `not` is a keyword that no grammar holds.
const FREE: &str =
    r#"{"type": "object", "properties": {"age": {"type": "integer", "not": {"const": 3}}}}"#;
const HELD: &str = r#"{"type": "object", "properties": {"age": {"type": "integer"}}}"#;

fn reply_that_is_cut(text: &'static str) -> Reply {
    Reply::Shifts(text, 1)
}

fn ask_for(schema: &str, streams: &mut TestConsole, engine: &TestEngine) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    std::fs::write(&path, schema).unwrap();
    let mut args = args(&["How old?"]);
    args.constraint.schema = Some(path.display().to_string());
    run_on(streams, &args, engine)
}

#[test]
fn a_response_that_is_not_valid_is_asked_for_again_and_only_the_valid_one_is_written() {
    let engine = TestEngine::answering(&[r#"{"age":3}"#, r#"{"age":"x"}"#, r#"{"age":4}"#]);
    let outcome = ask_for(FREE, &mut TestConsole::typing(""), &engine);
    assert_eq!((outcome.code, &*outcome.out), (0, "{\"age\":4}\n"));
    let notes: Vec<&str> = outcome.err.lines().collect();
    assert_eq!(notes.len(), 3, "{}", outcome.err);
    assert!(notes[0].contains("can't be held"), "{}", notes[0]);
    assert!(notes[1].contains("at /age"), "{}", notes[1]);
    let messages = last_messages(&engine);
    assert_eq!(messages[1], (Role::Assistant, r#"{"age":"x"}"#.into()));
    assert!(messages[2].1.contains("at /age"), "{}", messages[2].1);
    let params = engine.requests.params.lock().unwrap();
    let constraint = Some(Constraint::on_answer(Grammar::JsonObject));
    assert!(params.iter().all(|params| params.constraint == constraint));
    assert!(params[1].sampling.temperature <= 0.3);
}

#[test]
fn without_a_valid_response_the_last_one_is_written_and_the_exit_code_is_4() {
    let engine = TestEngine::answering(&[r#"{"age":3}"#; 4]);
    let outcome = ask_for(FREE, &mut TestConsole::typing(""), &engine);
    assert_eq!((outcome.code, &*outcome.out), (4, "{\"age\":3}\n"));
    let last = outcome.err.lines().last().unwrap();
    assert!(
        last.starts_with("transom: the response is not valid: at /age"),
        "{last}"
    );
    assert_eq!(engine.requests.params.lock().unwrap().len(), 3);
}

#[test]
fn a_cut_response_is_asked_for_again() {
    let replies = || {
        let valid = Reply::Says(vec![(Section::Answer, r#"{"age":4}"#)]);
        [reply_that_is_cut(r#"{"age""#), valid]
    };
    let engine = TestEngine::replying(replies());
    let outcome = ask_for(HELD, &mut TestConsole::typing(""), &engine);
    assert_eq!((outcome.code, &*outcome.out), (0, "{\"age\":4}\n"));
    assert!(outcome.err.contains("cut off"), "{}", outcome.err);
    // A person sees both.
    let engine = TestEngine::replying(replies());
    let mut streams = TestConsole::typing("").on_terminal(80);
    streams.terminals.stdin = false;
    let outcome = ask_for(HELD, &mut streams, &engine);
    assert_eq!(
        (outcome.code, &*outcome.out),
        (0, "{\"age\"\n{\"age\":4}\n")
    );
}

#[test]
fn json_lines_tell_of_each_retry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    std::fs::write(&path, FREE).unwrap();
    let engine = TestEngine::answering(&["{\"age\":3}"; 3]);
    let mut args = args(&["Hi"]);
    args.json = true;
    args.constraint.schema = Some(path.display().to_string());
    let outcome = run_on(&mut TestConsole::typing(""), &args, &engine);
    let names = outcome.out.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["event"].as_str().unwrap().to_owned()
    });
    let names: Vec<String> = names.filter(|name| name != "loading").collect();
    let attempt = ["started", "prefill", "text", "finished"];
    let retry = ["retry"];
    let expected = [&attempt[..], &retry, &attempt, &retry, &attempt, &["error"]].concat();
    assert_eq!(names, expected);
    assert_eq!(outcome.code, 4);
}

#[test]
fn a_response_to_an_expression_or_choice_that_was_cut_has_exit_code_4() {
    let mut by_regex = args(&["Hi"]);
    by_regex.constraint.regex = Some("[0-9]+x".to_owned());
    let mut by_choice = args(&["Hi"]);
    by_choice.constraint.choice = vec!["12x".to_owned()];
    for args in [by_regex, by_choice] {
        let engine = TestEngine::replying([reply_that_is_cut("12")]);
        let outcome = run_on(&mut TestConsole::typing(""), &args, &engine);
        assert_eq!(
            (outcome.code, &*outcome.out),
            (4, "12\n"),
            "{}",
            outcome.err
        );
        assert!(outcome.err.contains("--max-tokens"), "{}", outcome.err);
    }
}

#[test]
fn a_regular_expression_is_sent_with_the_request_and_a_wrong_one_is_refused() {
    let engine = TestEngine::answering(&["12"]);
    let mut args = args(&["Hi"]);
    args.constraint.regex = Some("[0-9]+".to_owned());
    let outcome = run_on(&mut TestConsole::typing(""), &args, &engine);
    assert_eq!((outcome.code, &*outcome.out), (0, "12\n"));
    let regex = Constraint::on_answer(Grammar::Regex("[0-9]+".to_owned()));
    let sent = engine.requests.params.lock().unwrap()[0].constraint.clone();
    assert_eq!(sent, Some(regex));
    args.constraint.regex = Some("[0-9".to_owned());
    let engine = TestEngine::answering(&["never"]);
    let outcome = run_on(&mut TestConsole::typing(""), &args, &engine);
    assert_eq!((outcome.code, engine.n_loads()), (2, 0));
}

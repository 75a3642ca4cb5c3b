//! The command with a made-up and with the built-in catalog, on made-up machines.
//!
//! Rule: figures depend on the catalogs, so the tests check only relations between them.

use serde_json::Value;
use transom_library::test_support::{computer, install, library};
use transom_library::{Catalog, Format, Places};

use super::*;
use crate::test_console::TestConsole;
use crate::test_engine::TestEngine;

/// The built-in catalog on a machine, with nothing installed.
fn built_in(machine: Machine) -> Library {
    let machine = ThisMachine::simulated(machine);
    Library::new(Catalog::built_in(), Places::default(), machine)
}

fn report(args: &InspectArgs) -> Value {
    let library = built_in(Machine::with_memory(args.memory.unwrap()));
    let model = args.model.as_deref().unwrap();
    let (name, mut streams) = ("a Mac".to_owned(), TestConsole::default());
    let report = estimate(args, model, &library, name, &mut streams.console()).unwrap();
    serde_json::to_value(report).unwrap()
}

fn args(model: &str, draft: Option<&str>, gigabytes: u64) -> InspectArgs {
    InspectArgs {
        model: Some(model.to_owned()),
        draft: draft.map(str::to_owned),
        memory: Some(gigabytes << 30),
        ..InspectArgs::default()
    }
}

fn part(report: &Value, kind: &str) -> u64 {
    let parts = report["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["kind"] == kind).unwrap();
    part["bytes"].as_u64().unwrap()
}

#[test]
fn a_draft_model_is_part_of_the_need_and_has_the_form_of_the_first() {
    let alone = report(&args("qwen3-8b", None, 32));
    let both = report(&args("qwen3-8b", Some("qwen3-0.6b"), 32));
    let share = part(&both, "draft");
    assert!(share > 300_000_000, "{both}");
    assert_eq!(part(&alone, "draft"), 0);
    let need = |report: &Value| report["need_bytes"].as_u64().unwrap();
    assert_eq!(need(&both), need(&alone) + share);
    assert!(both["form"].as_str().unwrap().starts_with("MLX"), "{both}");
    assert_eq!(both["draft"]["model"], "Qwen3 0.6B");
    assert!(both["draft"]["form"].as_str().unwrap().starts_with("MLX"));
    assert_eq!(both["fit"], "fits");
    assert_eq!(both.get("suggested_draft"), None);
    assert_eq!(alone["draft"], Value::Null);
}

#[test]
fn a_draft_model_is_suggested_only_where_it_makes_responses_faster() {
    let large = report(&args("qwen3-14b", None, 64));
    assert_eq!(large["suggested_draft"]["id"], "qwen3-0.6b");
    for (model, gigabytes) in [("qwen3-14b", 16), ("qwen3-8b", 64)] {
        let gains_little = report(&args(model, None, gigabytes));
        assert_eq!(gains_little.get("suggested_draft"), None, "{gains_little}");
    }
    let without = report(&args("gpt-oss-20b", None, 64));
    assert_eq!(without.get("suggested_draft"), None);
}

#[test]
fn a_draft_model_that_gains_nothing_is_noted() {
    let library = built_in(Machine::with_memory(64 << 30));
    let find = |id: &str| library.subject(id).unwrap();
    let doubt = |main: &str, draft: &str| doubt(&find(main), &find(draft));
    assert_eq!(doubt("qwen3-8b", "qwen3-0.6b"), None);
    let other = doubt("qwen3-8b", "llama-3.2-1b").unwrap();
    assert!(other.contains("another vocabulary"), "{other}");
    let larger = doubt("qwen3-0.6b", "qwen3-8b").unwrap();
    assert!(larger.contains("no smaller"), "{larger}");
}

/// The variant suits the Mac in question and not this computer.
#[test]
fn the_estimate_for_another_mac_uses_its_variant() {
    let on_a_mac = report(&args("qwen3-4b", None, 16));
    assert!(
        on_a_mac["form"].as_str().unwrap().starts_with("MLX"),
        "{on_a_mac}"
    );
    assert_eq!(computer().preferred_format(), Format::Gguf);
}

#[test]
fn memory_is_parsed_with_or_without_a_unit() {
    let check = |text: &str, expect: u64| assert_eq!(memory(text), Ok(expect), "{text}");
    check("16G", 16 << 30);
    check("16", 16 << 30);
    check("16 GB", 16 << 30);
    check("16GiB", 16 << 30);
    check("512m", 512 << 20);
    check("1.5t", 3 << 39);
    for bad in ["", "G", "much", "-1G", "0", "1M", "1e9G", "nan"] {
        assert!(memory(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_context_is_parsed_as_a_count_of_tokens() {
    assert_eq!(context("8192"), Ok(8192));
    assert_eq!(context("32k"), Ok(32_768));
    for bad in ["", "0", "k", "-1", "1.5k", "99999999999999999999k"] {
        assert!(context(bad).is_err(), "{bad}");
    }
}

/// Runs the command for a Mac with 16 GB, with a library that contains only `other-F16`. Returns both
/// streams.
fn inspected(model: &str, json: bool) -> (String, String) {
    run_inspect(model, None, json).unwrap()
}

fn run_inspect(model: &str, draft: Option<&str>, json: bool) -> Result<(String, String)> {
    let data = tempfile::tempdir().unwrap();
    install(data.path(), "owner/other-GGUF", "other-F16.gguf");
    let library = library(data.path(), computer());
    let client = TestEngine::answering(&[]).client();
    let args = InspectArgs {
        json,
        ..args(model, draft, 16)
    };
    let mut streams = TestConsole::default();
    inspect(&args, model, &library, &client, &mut streams.console())?;
    Ok((streams.out_text(), streams.err_text()))
}

#[test]
fn a_draft_or_a_variant_that_does_not_exist_is_an_error() {
    for (model, draft) in [
        ("huge", Some("nope")),
        ("huge@nope", None),
        ("other-F16", Some("nope")),
    ] {
        for json in [false, true] {
            let failure = run_inspect(model, draft, json).unwrap_err();
            assert_eq!(failure.exit_code(), 3, "{failure}");
            assert!(failure.to_string().contains("nope"), "{failure}");
        }
    }
}

#[test]
fn the_variants_of_a_model_are_judged_on_the_machine_in_question() {
    let (json, _) = inspected("huge", true);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["estimates"][0]["fit"], json["estimate"]["fit"],
        "{json}"
    );
}

#[test]
fn an_installed_model_is_described_and_estimated() {
    let (text, notes) = inspected("other-F16", false);
    let (facts, estimate) = text.split_once("\n\n").unwrap();
    assert!(facts.contains("\nchat template  "), "{text}");
    assert!(
        estimate.starts_with("other-F16, GGUF F16, on a Mac with 16 GB\n"),
        "{text}"
    );
    assert!(estimate.contains("\nIt fits, with a context of "), "{text}");
    assert_eq!(notes, "");
    let (json, _) = inspected("other-F16", true);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["architecture"], "llama");
    assert!(json["memory"].is_array());
    assert_eq!(json["estimate"]["fit"], "fits");
}

#[test]
fn a_model_of_the_catalog_is_described_and_estimated() {
    let (text, notes) = inspected("huge", false);
    assert!(
        text.contains("\nhuge@Q4_K_M  GGUF Q4_K_M  230 GB  too large\n"),
        "{text}"
    );
    assert!(text.contains("\nIt does not fit: it needs "), "{text}");
    let advice = "It is not installed; `transom models install huge` downloads it.\n";
    assert_eq!(notes, advice);
    let (json, notes) = inspected("huge", true);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["estimates"][0]["name"], "huge@Q4_K_M");
    assert_eq!(json["estimate"]["fit"], "does_not_fit");
    assert_eq!(notes, "");
}

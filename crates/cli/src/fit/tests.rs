//! The command over the made-up list and over the built-in one, on made-up machines.
//!
//! Rule: figures follow from the lists, so only what is told of them is held here.

use serde_json::Value;
use transom_library::test_support::computer;
use transom_library::{Catalog, Format, Places};

use super::*;

/// The built-in catalog on a machine, with nothing installed.
fn built_in(machine: Machine) -> Library {
    let machine = ThisMachine::simulated(machine);
    Library::new(Catalog::built_in(), Places::default(), machine)
}

fn report(args: &FitArgs) -> Value {
    let library = built_in(Machine::with_memory(args.memory.unwrap()));
    let case = Case {
        args,
        library: &library,
    };
    let subject = Subject::find(args.model.as_deref().unwrap(), &case).unwrap();
    let draft = args.draft.as_deref();
    let draft = draft.map(|draft| subject.beside(draft, &case).unwrap());
    serde_json::to_value(subject.report(draft, &case, "a Mac".to_owned())).unwrap()
}

fn args(model: &str, draft: Option<&str>, gigabytes: u64) -> FitArgs {
    FitArgs {
        model: Some(model.to_owned()),
        draft: draft.map(str::to_owned),
        memory: Some(gigabytes << 30),
        ..FitArgs::default()
    }
}

fn part(report: &Value, kind: &str) -> u64 {
    let parts = report["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["kind"] == kind).unwrap();
    part["bytes"].as_u64().unwrap()
}

#[test]
fn a_draft_is_part_of_the_need_and_in_the_form_of_the_first() {
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
    assert_eq!(both["verdict"], "fits");
    assert_eq!(both.get("suggested_draft"), None);
    assert_eq!(alone["draft"], Value::Null);
}

#[test]
fn the_lists_draft_is_mentioned_where_both_would_fit_and_only_there() {
    let large = report(&args("qwen3-8b", None, 32));
    assert_eq!(large["suggested_draft"]["id"], "qwen3-0.6b");
    let small = report(&args("qwen3-8b", None, 8));
    assert_eq!(small.get("suggested_draft"), None, "{small}");
    let without = report(&args("gpt-oss-20b", None, 64));
    assert_eq!(without.get("suggested_draft"), None);
}

#[test]
fn a_second_model_that_cannot_guess_is_doubted() {
    let library = built_in(Machine::with_memory(64 << 30));
    let args = FitArgs::default();
    let case = Case {
        args: &args,
        library: &library,
    };
    let find = |id: &str| Subject::find(id, &case).unwrap();
    let doubt = |main: &str, draft: &str| find(main).doubt(&find(draft));
    assert_eq!(doubt("qwen3-8b", "qwen3-0.6b"), None);
    let other = doubt("qwen3-8b", "llama-3.2-1b").unwrap();
    assert!(other.contains("another vocabulary"), "{other}");
    let larger = doubt("qwen3-0.6b", "qwen3-8b").unwrap();
    assert!(larger.contains("no smaller"), "{larger}");
}

/// The list is asked what suits the Mac in question, not the computer that asks.
#[test]
fn a_made_up_mac_is_told_what_would_run_there() {
    let on_a_mac = report(&args("qwen3-4b", None, 16));
    assert!(
        on_a_mac["form"].as_str().unwrap().starts_with("MLX"),
        "{on_a_mac}"
    );
    assert_eq!(computer().preferred_format(), Format::Gguf);
}

#[test]
fn memory_is_a_size_with_or_without_a_unit() {
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
fn a_context_is_a_count_of_tokens() {
    assert_eq!(context("8192"), Ok(8192));
    assert_eq!(context("32k"), Ok(32_768));
    for bad in ["", "0", "k", "-1", "1.5k", "99999999999999999999k"] {
        assert!(context(bad).is_err(), "{bad}");
    }
}

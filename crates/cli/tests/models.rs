//! The real program against a hub on this machine: models are found, downloaded, used and removed, and
//! every failure is one sentence and leaves nothing incomplete.
//!
//! Rule: a test has a data folder, a home and a hub of its own; no test uses the network, a keychain
//! or models of the person who runs it. Tests wait for lines and files, never for a time.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/hub.rs"]
mod hub;
#[path = "fixtures/program.rs"]
#[expect(dead_code, reason = "other tests of the program need more of it")]
mod program;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Child;

use hub::{FILE, REPOSITORY, TestHub, code, err, out};
use serde_json::Value;
use transom_hub::test_support::{Fault, Route};

/// Sends a signal to a program.
fn signal(child: &Child, signal: rustix::process::Signal) {
    let id = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(id, signal).unwrap();
}

/// Reads lines of standard error until one has `text`, and returns the reader for what follows.
fn wait_for(child: &mut Child, text: &str) -> BufReader<std::process::ChildStderr> {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut seen = String::new();
    while !seen.contains(text) {
        let n = lines.read_line(&mut seen).unwrap();
        assert!(n > 0, "{text:?} was never written:\n{seen}");
    }
    lines
}

#[test]
fn a_model_is_installed_listed_used_and_removed() {
    let fixture = TestHub::start();
    let before = out(&fixture.run(&["models", "list"]));
    assert!(
        before.contains("starter") && !before.contains("tiny"),
        "{before}"
    );

    let installed = fixture.run(&["models", "install", "tiny"]);
    assert_eq!(code(&installed), 0, "{}", err(&installed));
    let told = err(&installed);
    for part in [
        "Tiny, GGUF F16 (MIT)\n",
        "fits: needs ",
        " free\n",
        "tiny is installed, ",
        "Try it: transom chat --model tiny\n",
    ] {
        assert!(told.contains(part), "{part:?} is not in:\n{told}");
    }
    assert_eq!(fs::read(fixture.file()).unwrap(), fixture.bytes());
    let parts = fixture.data().join("models/.downloads");
    let left = fs::read_dir(parts).into_iter().flatten().flatten();
    let left: Vec<_> = left.map(|entry| entry.path()).collect();
    assert!(
        left.iter()
            .all(|path| path.extension().is_none_or(|e| e != "part")),
        "{left:?}"
    );

    let list = fixture.json(&["models", "list", "--json"]);
    let tiny = &list["installed"][1];
    assert_eq!(tiny["name"], "tiny", "{list}");
    assert_eq!(tiny["origin"], "models folder");
    assert_eq!(tiny["fit"], "fits");

    let again = fixture.run(&["models", "install", "tiny"]);
    assert_eq!(code(&again), 0);
    assert!(
        err(&again).contains("tiny is installed already"),
        "{}",
        err(&again)
    );

    let predicted = fixture.json(&["inspect", "tiny", "--json"]);
    assert_eq!(predicted["estimate"]["fit"], "fits", "{predicted}");
    assert_ne!(
        predicted["estimate"]["speed"]["is_measured"], true,
        "{predicted}"
    );
    let ask = [
        "ask",
        "Hello",
        "--model",
        "tiny",
        "--max-tokens",
        "24",
        "--temperature",
        "0",
    ];
    let answer = fixture.run(&ask);
    assert_eq!(code(&answer), 0, "{}", err(&answer));
    assert_eq!(err(&answer), "", "the measurement is saved silently");
    let measured = fixture.json(&["inspect", "tiny", "--json"]);
    assert_eq!(
        measured["estimate"]["speed"]["is_measured"], true,
        "{measured}"
    );

    let removed = fixture.run(&["models", "remove", "tiny", "--yes"]);
    assert_eq!(code(&removed), 0, "{}", err(&removed));
    assert!(out(&removed).starts_with("tiny: removed, ") && out(&removed).ends_with(" freed.\n"));
    assert!(!fixture.file().exists());
    assert!(!out(&fixture.run(&["models", "list"])).contains("tiny"));
    let gone = fixture.run(&["ask", "Hello", "--model", "tiny"]);
    assert_eq!(code(&gone), 3);
    assert!(
        err(&gone).contains("`transom models install tiny`"),
        "{}",
        err(&gone)
    );
}

#[test]
fn a_repository_of_the_hub_is_installed_and_used_by_its_name() {
    let fixture = TestHub::start();
    let part = format!("{REPOSITORY}:F16");
    let installed = fixture.run(&["models", "install", &part]);
    assert_eq!(code(&installed), 0, "{}", err(&installed));
    assert!(fixture.file().is_file());
    // The estimate depends on the free memory at this moment.
    let facts = |arguments: &[&str]| {
        let mut json = fixture.json(arguments);
        assert!(json["estimate"].is_object(), "{json}");
        json["estimate"] = Value::Null;
        json
    };
    let inspected = facts(&["inspect", REPOSITORY, "--json"]);
    assert_eq!(inspected["architecture"], "llama");
    assert_eq!(inspected, facts(&["inspect", "tiny", "--json"]));
}

#[test]
fn a_model_on_the_disk_is_added_used_and_removed_from_the_list() {
    let fixture = TestHub::start();
    let file = fixture.home().join(FILE);
    let path = file.to_str().unwrap();
    let added = fixture.run(&["models", "install", path]);
    assert_eq!(code(&added), 0, "{}", err(&added));
    let told = err(&added);
    assert!(
        told.contains("tiny was added and is used in place, in ~/"),
        "{told}"
    );
    let list = fixture.json(&["models", "list", "--json"]);
    assert_eq!(list["installed"][1]["name"], "tiny", "{list}");
    assert_eq!(list["installed"][1]["origin"], "added");
    let inspected = fixture.json(&["inspect", "tiny", "--json"]);
    assert_eq!(inspected["architecture"], "llama");
    let ask = ["ask", "Hello", "--model", "tiny", "--max-tokens", "4"];
    let answer = fixture.run(&ask);
    assert_eq!(code(&answer), 0, "{}", err(&answer));
    let removed = fixture.run(&["models", "remove", "tiny"]);
    assert_eq!(code(&removed), 0, "{}", err(&removed));
    assert!(out(&removed).starts_with("tiny: removed from the list; its files stay in ~/"));
    assert_eq!(fs::read(&file).unwrap(), fixture.bytes());
    assert_eq!(code(&fixture.run(&ask)), 3);
    let refused = fixture.run(&["models", "install", "./nothing-here"]);
    assert_eq!(code(&refused), 3);
    assert!(err(&refused).contains("nothing-here"), "{}", err(&refused));
}

#[test]
fn a_download_survives_dropped_connections() {
    let fixture = TestHub::start();
    fixture.hub.fail(Route::Blob, Fault::Drop(300_000), 3);
    let installed = fixture.run(&["models", "install", "tiny"]);
    assert_eq!(code(&installed), 0, "{}", err(&installed));
    assert_eq!(fs::read(fixture.file()).unwrap(), fixture.bytes());
}

#[test]
fn a_file_with_a_wrong_checksum_is_not_installed() {
    let fixture = TestHub::start();
    fixture.hub.put(REPOSITORY, FILE, vec![7; 2_000_000]);
    let failed = fixture.run(&["models", "install", "tiny"]);
    assert_eq!(code(&failed), 1);
    assert!(
        err(&failed).contains("doesn't match the list of models"),
        "{}",
        err(&failed)
    );
    assert!(!fixture.file().exists());
}

#[test]
fn an_interrupted_install_resumes() {
    end_and_install_again(rustix::process::Signal::INT);
}

#[test]
fn a_killed_install_is_finished_by_the_next_one() {
    end_and_install_again(rustix::process::Signal::KILL);
}

/// Ctrl-C saves the downloaded bytes. A killed process has saved them up to its last sync, and so small
/// a file has none; the file is complete in the end either way.
fn end_and_install_again(ending: rustix::process::Signal) {
    let fixture = TestHub::start();
    let n_bytes = fixture.bytes().len() as u64;
    // The whole takes some seconds, far longer than the test needs to see it and end it.
    fixture
        .hub
        .fail(Route::Blob, Fault::Slow(n_bytes / 20), u32::MAX);
    let mut child = fixture.spawn(&["models", "install", "tiny"]);
    let mut rest = wait_for(&mut child, " %, ");
    signal(&child, ending);
    let status = child.wait().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut rest, &mut text).unwrap();
    assert!(!fixture.file().exists());
    if ending == rustix::process::Signal::INT {
        assert_eq!(status.code(), Some(130), "{text}");
        assert!(
            text.contains(" are kept. To continue: transom models install tiny\n"),
            "{text}"
        );
    }
    fixture.hub.clear_faults();
    let seen_before = fixture.hub.requests().len();
    let installed = fixture.run(&["models", "install", "tiny"]);
    assert_eq!(code(&installed), 0, "{}", err(&installed));
    assert_eq!(fs::read(fixture.file()).unwrap(), fixture.bytes());
    let asked = fixture.hub.requests().split_off(seen_before);
    let from_start = asked
        .iter()
        .filter(|seen| seen.route == Route::Blob)
        .any(|seen| {
            seen.range
                .as_deref()
                .is_none_or(|range| range.starts_with("bytes=0-"))
        });
    let is_saved = ending == rustix::process::Signal::INT;
    assert!(!(is_saved && from_start), "it began again: {asked:#?}");
}

#[test]
fn refusals_of_the_hub_have_a_sentence_and_an_exit_code() {
    let fixture = TestHub::start();
    let check = |arguments: &[&str], expect_code: i32, expect: &str| {
        let failed = fixture.run(arguments);
        let last = err(&failed);
        let last = last.lines().last().unwrap();
        assert_eq!(code(&failed), expect_code, "{arguments:?}: {last}");
        assert!(
            last.starts_with("transom: ") && last.contains(expect),
            "{last}"
        );
        assert!(!last.contains("hf_"), "{last}");
    };
    check(
        &["models", "install", "nobody/nothing"],
        3,
        "nobody/nothing",
    );
    check(
        &["models", "install", "zzz-none"],
        3,
        "`transom models search zzz-none`",
    );
    check(
        &["models", "install", "owner/name/more/x"],
        3,
        "no model is called",
    );
    check(
        &["models", "install", &format!("{REPOSITORY}:Q1_0")],
        2,
        "F16",
    );
    check(&["models", "install", "tiny@3-bit"], 3, "choose F16");
    fixture.hub.accept_token("hf_right");
    fixture.hub.gate(REPOSITORY);
    check(
        &["models", "install", REPOSITORY],
        3,
        "transom models token set",
    );
    fixture
        .hub
        .fail(Route::Listing, Fault::Status(404, None), 1);
    check(&["models", "install", REPOSITORY], 3, REPOSITORY);
    let mut with_token = fixture.command(&["models", "install", REPOSITORY]);
    let installed = with_token.env("HF_TOKEN", "hf_right").output().unwrap();
    assert_eq!(code(&installed), 0, "{}", err(&installed));
    assert!(!err(&installed).contains("hf_right"));
}

#[test]
fn the_list_is_searched_without_a_network() {
    let fixture = TestHub::start();
    let offline = |arguments: &[&str]| {
        let mut command = fixture.command(arguments);
        command.env("HF_HUB_OFFLINE", "1").output().unwrap()
    };
    let found = offline(&["models", "search", "tiny"]);
    assert_eq!(code(&found), 0);
    assert!(
        out(&found).contains("tiny") && !out(&found).contains("On "),
        "{}",
        out(&found)
    );
    assert!(err(&found).contains("HF_HUB_OFFLINE"), "{}", err(&found));
    let nothing = offline(&["models", "search", "zzz"]);
    assert_eq!(code(&nothing), 1);
    let failed = offline(&["models", "install", "tiny"]);
    assert_eq!(code(&failed), 1);
    assert!(err(&failed).contains("HF_HUB_OFFLINE"), "{}", err(&failed));
    assert_eq!(fixture.hub.requests(), []);
}

#[test]
fn the_hub_is_searched_after_the_list() {
    let fixture = TestHub::start();
    let found = fixture.run(&["models", "search", "tiny"]);
    assert_eq!(code(&found), 0, "{}", err(&found));
    let text = out(&found);
    let (listed, on_hub) = text.split_once("\nOn 127.0.0.1:").unwrap();
    assert!(listed.starts_with("In the catalog:\n"), "{text}");
    assert!(on_hub.contains(REPOSITORY), "{text}");
    let json = fixture.json(&["models", "search", "tiny", "--fits", "--json"]);
    assert_eq!(json["hub"][0]["form"], "GGUF F16", "{json}");
    assert_eq!(json["hub"][0]["fit"], "fits");
}

#[test]
fn a_model_too_large_for_disk_or_memory_is_refused_before_any_request() {
    let fixture = TestHub::start();
    let failed = fixture.run(&["models", "install", "vast", "--anyway"]);
    assert_eq!(code(&failed), 1);
    assert!(
        err(&failed).contains("Not enough disk space"),
        "{}",
        err(&failed)
    );
    let failed = fixture.run(&["models", "install", "vast"]);
    assert_eq!(code(&failed), 3);
    assert!(err(&failed).contains("--anyway"), "{}", err(&failed));
    assert_eq!(fixture.hub.requests(), []);
    assert!(!fixture.data().join("models").exists());
}

#[test]
fn a_mistake_in_the_users_list_is_noted_once() {
    let fixture = TestHub::start();
    let list = fixture.data().join("models.toml");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, text.replace("layers = 2", "layers = \"two\"")).unwrap();
    let listed = fixture.run(&["models", "list", "--all"]);
    assert_eq!(code(&listed), 0);
    let told = err(&listed);
    assert_eq!(told.lines().count(), 1, "{told}");
    let place = told.split("models.toml:").nth(1).unwrap();
    let numbers: Vec<&str> = place.split(':').take(2).collect();
    let line: usize = numbers[0].parse().unwrap();
    assert!(numbers[1].parse::<usize>().unwrap() > 0, "{told}");
    let wrong = fs::read_to_string(&list).unwrap();
    assert!(
        wrong.lines().nth(line - 1).unwrap().contains("layers"),
        "{told}"
    );
    assert!(
        out(&listed).contains("qwen3-0.6b"),
        "the built-in list stays: {}",
        out(&listed)
    );
    // A command that needs no list does not mention it.
    let answer = fixture.run(&["ask", "Hello", "--max-tokens", "2"]);
    assert_eq!(code(&answer), 0);
    assert!(!err(&answer).contains("models.toml"), "{}", err(&answer));
}

#[test]
fn a_failed_install_does_not_stop_the_next() {
    let fixture = TestHub::start();
    fixture
        .hub
        .put("owner/other-GGUF", "other-F16.gguf", fixture.bytes());
    fixture.hub.put(REPOSITORY, FILE, vec![7; 2_000_000]);
    let output = fixture.run(&["models", "install", "tiny", "owner/other-GGUF"]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    let told = err(&output);
    assert!(
        told.ends_with("transom: not installed: tiny; see above\n"),
        "{told}"
    );
    assert!(told.contains("owner/other-GGUF is installed"), "{told}");
}

#[test]
fn the_json_of_an_install_has_its_progress() {
    let fixture = TestHub::start();
    let output = fixture.run(&["models", "install", "tiny", "--json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(err(&output), "");
    for line in out(&output).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["key"], "tiny@F16");
        assert!(line["state"]["is"].is_string(), "{line}");
    }
    assert_eq!(fs::read(fixture.file()).unwrap(), fixture.bytes());
}

#[test]
fn a_model_of_another_app_is_used_in_place_and_not_removed() {
    let fixture = TestHub::start();
    let folder = fixture.home().join("cache/hub/models--owner--tiny-GGUF");
    let snapshot = folder.join("snapshots/0123456789012345678901234567890123456789");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(folder.join("blobs")).unwrap();
    fs::write(folder.join("blobs/b"), fixture.bytes()).unwrap();
    std::os::unix::fs::symlink("../../blobs/b", snapshot.join(FILE)).unwrap();
    fs::create_dir_all(folder.join("refs")).unwrap();
    fs::write(
        folder.join("refs/main"),
        "0123456789012345678901234567890123456789",
    )
    .unwrap();
    let run = |arguments: &[&str]| {
        let mut command = fixture.command(arguments);
        command
            .env("HF_HOME", fixture.home().join("cache"))
            .output()
            .unwrap()
    };
    let listed = run(&["models", "list"]);
    assert!(out(&listed).contains("Hugging Face"), "{}", out(&listed));
    let answer = run(&["ask", "Hello", "--model", "tiny", "--max-tokens", "2"]);
    assert_eq!(code(&answer), 0, "{}", err(&answer));
    let removed = run(&["models", "remove", "tiny", "--yes"]);
    assert_eq!(code(&removed), 2);
    assert!(err(&removed).contains("Hugging Face"), "{}", err(&removed));
    assert!(snapshot.join(FILE).exists());
}

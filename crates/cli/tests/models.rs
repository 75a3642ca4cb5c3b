//! The real program against a hub on this machine: models are found, fetched, used and removed, and
//! whatever goes wrong is told in a sentence and leaves nothing half.
//!
//! Rule: a test has a data folder, a home and a hub of its own; no test meets the network, a keychain
//! or models of the person who runs it. Waits are for lines and files, never for times.

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

use hub::{FILE, REPOSITORY, Shop, code, err, out};
use serde_json::Value;
use transom_hub::test_support::{Fault, Route};

/// Ends a program as a person or the system does.
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
        assert!(n > 0, "{text:?} was never said:\n{seen}");
    }
    lines
}

#[test]
fn a_model_is_installed_listed_used_and_removed() {
    let shop = Shop::open();
    let before = out(&shop.run(&["models", "list"]));
    assert!(
        before.contains("starter") && !before.contains("tiny"),
        "{before}"
    );

    let installed = shop.run(&["models", "install", "tiny"]);
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
    assert_eq!(fs::read(shop.file()).unwrap(), shop.bytes());
    let parts = shop.data().join("models/.downloads");
    let left = fs::read_dir(parts).into_iter().flatten().flatten();
    let left: Vec<_> = left.map(|entry| entry.path()).collect();
    assert!(
        left.iter()
            .all(|path| path.extension().is_none_or(|e| e != "part")),
        "{left:?}"
    );

    let list = shop.json(&["models", "list", "--json"]);
    let tiny = &list["installed"][1];
    assert_eq!(tiny["name"], "tiny", "{list}");
    assert_eq!(tiny["origin"], "models folder");
    assert_eq!(tiny["verdict"], "fits");

    let again = shop.run(&["models", "install", "tiny"]);
    assert_eq!(code(&again), 0);
    assert!(
        err(&again).contains("tiny is installed already"),
        "{}",
        err(&again)
    );

    let predicted = shop.json(&["fit", "tiny", "--json"]);
    assert_ne!(predicted["speed"]["is_measured"], true, "{predicted}");
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
    let answer = shop.run(&ask);
    assert_eq!(code(&answer), 0, "{}", err(&answer));
    assert_eq!(err(&answer), "", "what was measured is kept quietly");
    let measured = shop.json(&["fit", "tiny", "--json"]);
    assert_eq!(measured["speed"]["is_measured"], true, "{measured}");

    let removed = shop.run(&["models", "remove", "tiny", "--yes"]);
    assert_eq!(code(&removed), 0, "{}", err(&removed));
    assert!(out(&removed).starts_with("tiny: removed, ") && out(&removed).ends_with(" freed.\n"));
    assert!(!shop.file().exists());
    assert!(!out(&shop.run(&["models", "list"])).contains("tiny"));
    let gone = shop.run(&["ask", "Hello", "--model", "tiny"]);
    assert_eq!(code(&gone), 3);
    assert!(
        err(&gone).contains("`transom models install tiny`"),
        "{}",
        err(&gone)
    );
}

#[test]
fn a_repository_of_the_hub_is_installed_by_its_name_and_used_by_it() {
    let shop = Shop::open();
    let part = format!("{REPOSITORY}:F16");
    let installed = shop.run(&["models", "install", &part]);
    assert_eq!(code(&installed), 0, "{}", err(&installed));
    assert!(shop.file().is_file());
    let inspected = shop.json(&["models", "inspect", REPOSITORY, "--json"]);
    assert_eq!(inspected["architecture"], "llama");
    assert_eq!(inspected, shop.json(&["inspect", "tiny", "--json"]));
}

#[test]
fn a_model_on_the_disk_is_added_by_its_path_used_by_its_name_and_forgotten() {
    let shop = Shop::open();
    let file = shop.home().join(FILE);
    let path = file.to_str().unwrap();
    let added = shop.run(&["models", "install", path]);
    assert_eq!(code(&added), 0, "{}", err(&added));
    let told = err(&added);
    assert!(
        told.contains("tiny is on the list now, and used where it lies, in ~/"),
        "{told}"
    );
    let list = shop.json(&["models", "list", "--json"]);
    assert_eq!(list["installed"][1]["name"], "tiny", "{list}");
    assert_eq!(list["installed"][1]["origin"], "added");
    let inspected = shop.json(&["models", "inspect", "tiny", "--json"]);
    assert_eq!(inspected["architecture"], "llama");
    let ask = ["ask", "Hello", "--model", "tiny", "--max-tokens", "4"];
    let answer = shop.run(&ask);
    assert_eq!(code(&answer), 0, "{}", err(&answer));
    let removed = shop.run(&["models", "remove", "tiny"]);
    assert_eq!(code(&removed), 0, "{}", err(&removed));
    assert!(out(&removed).starts_with("tiny: taken off the list; its files stay in ~/"));
    assert_eq!(fs::read(&file).unwrap(), shop.bytes());
    assert_eq!(code(&shop.run(&ask)), 3);
    let refused = shop.run(&["models", "install", "./nothing-here"]);
    assert_eq!(code(&refused), 3);
    assert!(err(&refused).contains("nothing-here"), "{}", err(&refused));
}

#[test]
fn dropped_connections_are_gone_over() {
    let shop = Shop::open();
    shop.hub.fail(Route::Blob, Fault::Drop(300_000), 3);
    let installed = shop.run(&["models", "install", "tiny"]);
    assert_eq!(code(&installed), 0, "{}", err(&installed));
    assert_eq!(fs::read(shop.file()).unwrap(), shop.bytes());
}

#[test]
fn a_file_that_is_not_the_listed_one_is_never_in_place() {
    let shop = Shop::open();
    shop.hub.put(REPOSITORY, FILE, vec![7; 2_000_000]);
    let failed = shop.run(&["models", "install", "tiny"]);
    assert_eq!(code(&failed), 1);
    assert!(
        err(&failed).contains("doesn't match the list of models"),
        "{}",
        err(&failed)
    );
    assert!(!shop.file().exists());
}

/// Ctrl-C settles what came. A process that is killed has settled it up to its last sync, which of so
/// small a file there was none of; it ends whole all the same.
#[test]
fn an_interrupted_install_goes_on_where_it_was() {
    end_and_install_again(rustix::process::Signal::INT);
}

#[test]
fn a_killed_install_is_finished_by_the_next_one() {
    end_and_install_again(rustix::process::Signal::KILL);
}

fn end_and_install_again(ending: rustix::process::Signal) {
    let shop = Shop::open();
    let n_bytes = shop.bytes().len() as u64;
    // Some seconds for the whole, far longer than it takes to be seen and ended.
    shop.hub
        .fail(Route::Blob, Fault::Slow(n_bytes / 20), u32::MAX);
    let mut child = shop.start(&["models", "install", "tiny"]);
    let mut rest = wait_for(&mut child, " %, ");
    signal(&child, ending);
    let status = child.wait().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut rest, &mut text).unwrap();
    assert!(!shop.file().exists());
    if ending == rustix::process::Signal::INT {
        assert_eq!(status.code(), Some(130), "{text}");
        assert!(
            text.contains(" are kept. To go on: transom models install tiny\n"),
            "{text}"
        );
    }
    shop.hub.clear_faults();
    let seen_before = shop.hub.requests().len();
    let installed = shop.run(&["models", "install", "tiny"]);
    assert_eq!(code(&installed), 0, "{}", err(&installed));
    assert_eq!(fs::read(shop.file()).unwrap(), shop.bytes());
    let asked = shop.hub.requests().split_off(seen_before);
    let from_start = asked
        .iter()
        .filter(|seen| seen.route == Route::Blob)
        .any(|seen| {
            seen.range
                .as_deref()
                .is_none_or(|range| range.starts_with("bytes=0-"))
        });
    let is_settled = ending == rustix::process::Signal::INT;
    assert!(!(is_settled && from_start), "it began again: {asked:#?}");
}

#[test]
fn what_the_hub_refuses_is_told_in_a_sentence_with_its_exit_code() {
    let shop = Shop::open();
    let check = |arguments: &[&str], expect_code: i32, expect: &str| {
        let failed = shop.run(arguments);
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
    shop.hub.accept_token("hf_right");
    shop.hub.gate(REPOSITORY);
    check(
        &["models", "install", REPOSITORY],
        3,
        "transom models token set",
    );
    shop.hub.fail(Route::Listing, Fault::Status(404, None), 1);
    check(&["models", "install", REPOSITORY], 3, REPOSITORY);
    let mut with_token = shop.command(&["models", "install", REPOSITORY]);
    let installed = with_token.env("HF_TOKEN", "hf_right").output().unwrap();
    assert_eq!(code(&installed), 0, "{}", err(&installed));
    assert!(!err(&installed).contains("hf_right"));
}

#[test]
fn without_a_network_the_list_still_answers() {
    let shop = Shop::open();
    let offline = |arguments: &[&str]| {
        let mut command = shop.command(arguments);
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
    assert_eq!(shop.hub.requests(), []);
}

#[test]
fn the_hub_is_searched_after_the_list() {
    let shop = Shop::open();
    let found = shop.run(&["models", "search", "tiny"]);
    assert_eq!(code(&found), 0, "{}", err(&found));
    let text = out(&found);
    let (listed, on_hub) = text.split_once("\nOn 127.0.0.1:").unwrap();
    assert!(listed.starts_with("In the list:\n"), "{text}");
    assert!(on_hub.contains(REPOSITORY), "{text}");
    let json = shop.json(&["models", "search", "tiny", "--fits", "--json"]);
    assert_eq!(json["hub"][0]["form"], "GGUF F16", "{json}");
    assert_eq!(json["hub"][0]["verdict"], "fits");
}

#[test]
fn what_does_not_fit_on_the_disk_or_in_memory_is_refused_before_anything_is_asked() {
    let shop = Shop::open();
    let failed = shop.run(&["models", "install", "vast", "--anyway"]);
    assert_eq!(code(&failed), 1);
    assert!(
        err(&failed).contains("Not enough disk space"),
        "{}",
        err(&failed)
    );
    let failed = shop.run(&["models", "install", "vast"]);
    assert_eq!(code(&failed), 3);
    assert!(err(&failed).contains("--anyway"), "{}", err(&failed));
    assert_eq!(shop.hub.requests(), []);
    assert!(!shop.data().join("models").exists());
}

#[test]
fn a_mistake_in_the_users_list_is_told_once_and_stops_nothing() {
    let shop = Shop::open();
    let list = shop.data().join("models.toml");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, text.replace("layers = 2", "layers = \"two\"")).unwrap();
    let listed = shop.run(&["models", "list", "--all"]);
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
    // A command that needs no list says nothing of it.
    let answer = shop.run(&["ask", "Hello", "--max-tokens", "2"]);
    assert_eq!(code(&answer), 0);
    assert!(!err(&answer).contains("models.toml"), "{}", err(&answer));
}

#[test]
fn several_are_installed_in_order_and_one_that_fails_stops_no_other() {
    let shop = Shop::open();
    shop.hub
        .put("owner/other-GGUF", "other-F16.gguf", shop.bytes());
    shop.hub.put(REPOSITORY, FILE, vec![7; 2_000_000]);
    let output = shop.run(&["models", "install", "tiny", "owner/other-GGUF"]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    let told = err(&output);
    assert!(
        told.ends_with("transom: not installed: tiny; see above\n"),
        "{told}"
    );
    assert!(told.contains("owner/other-GGUF is installed"), "{told}");
}

#[test]
fn programs_follow_an_install_as_json() {
    let shop = Shop::open();
    let output = shop.run(&["models", "install", "tiny", "--json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(err(&output), "");
    for line in out(&output).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["key"], "tiny@F16");
        assert!(line["state"]["is"].is_string(), "{line}");
    }
    assert_eq!(fs::read(shop.file()).unwrap(), shop.bytes());
}

#[test]
fn a_model_of_another_app_is_used_in_place_and_never_removed() {
    let shop = Shop::open();
    let folder = shop.home().join("cache/hub/models--owner--tiny-GGUF");
    let snapshot = folder.join("snapshots/0123456789012345678901234567890123456789");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(folder.join("blobs")).unwrap();
    fs::write(folder.join("blobs/b"), shop.bytes()).unwrap();
    std::os::unix::fs::symlink("../../blobs/b", snapshot.join(FILE)).unwrap();
    fs::create_dir_all(folder.join("refs")).unwrap();
    fs::write(
        folder.join("refs/main"),
        "0123456789012345678901234567890123456789",
    )
    .unwrap();
    let run = |arguments: &[&str]| {
        let mut command = shop.command(arguments);
        command
            .env("HF_HOME", shop.home().join("cache"))
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

/// What a person sees at a terminal of this width while a model is fetched.
fn on_terminal(shop: &Shop, columns: usize, words: &str) -> rexpect::session::PtySession {
    let mut command = shop.command(&[]);
    let program = command.get_program().to_owned();
    let variables: Vec<_> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.map(std::ffi::OsStr::to_owned)))
        .collect();
    command = std::process::Command::new("sh");
    let program = program.to_string_lossy();
    command.args([
        "-c",
        &format!("stty rows 24 cols {columns}; exec '{program}' {words}"),
    ]);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let options = rexpect::session::Options::new().timeout_ms(Some(60_000));
    rexpect::session::spawn_with_options(command, options).unwrap()
}

#[test]
fn at_a_terminal_progress_is_one_line_that_fits_80_columns() {
    install_and_remove_at_a_terminal(80);
}

#[test]
fn at_a_terminal_progress_is_one_line_that_fits_50_columns() {
    install_and_remove_at_a_terminal(50);
}

fn install_and_remove_at_a_terminal(columns: usize) {
    let shop = Shop::open();
    // Some seconds for the whole: long enough that a busy machine, too, draws it on its way.
    let bytes_per_second = shop.bytes().len() as u64 / 4;
    shop.hub
        .fail(Route::Blob, Fault::Slow(bytes_per_second), u32::MAX);
    let mut session = on_terminal(&shop, columns, "models install tiny");
    let seen = session.exp_string("is installed, ").unwrap();
    session.exp_eof().unwrap();
    // The library gives each byte as a letter.
    let bytes: Vec<u8> = seen.chars().map(|byte| byte as u8).collect();
    let seen = String::from_utf8(bytes).unwrap();
    let drawn: Vec<&str> = seen.split("\r\x1b[2K").skip(1).collect();
    let is_progress = |line: &&&str| line.contains('█') && line.contains("of 4.9 MB");
    let n_progress = drawn.iter().filter(is_progress).count();
    assert!(n_progress > 0, "{seen:?}");
    for line in &drawn[..drawn.len() - 1] {
        assert!(
            line.chars().count() < columns && !line.contains('\n'),
            "{line:?}"
        );
    }
    let mut session = on_terminal(&shop, columns, "models remove tiny");
    session.exp_string("Remove tiny (4.9 MB) from ").unwrap();
    session.exp_string("[y/N] ").unwrap();
    session.send_line("y").unwrap();
    session.exp_string("tiny: removed, 4.9 MB freed.").unwrap();
    session.exp_eof().unwrap();
    assert!(!shop.file().exists());
}

#[test]
fn a_model_in_memory_is_not_removed_and_the_refusal_says_how() {
    let shop = Shop::open();
    assert_eq!(code(&shop.run(&["models", "install", "tiny"])), 0);
    let mut chat = on_terminal(&shop, 80, "chat --model tiny");
    chat.exp_string("Type a message").unwrap();
    let removed = shop.run(&["models", "remove", "tiny", "--yes"]);
    assert_eq!(code(&removed), 1);
    assert!(
        err(&removed).contains("`transom unload tiny`"),
        "{}",
        err(&removed)
    );
    assert!(shop.file().exists());
    let unloaded = shop.run(&["unload", "tiny"]);
    assert!(
        out(&unloaded).contains("Tiny · F16: "),
        "{}",
        out(&unloaded)
    );
    let removed = shop.run(&["models", "remove", "tiny", "--yes"]);
    assert_eq!(code(&removed), 0, "{}", err(&removed));
    chat.send_line("/quit").unwrap();
    chat.exp_eof().unwrap();
}

#[test]
fn a_token_is_not_shown_while_it_is_typed_and_needs_a_keychain() {
    let shop = Shop::open();
    let mut session = on_terminal(&shop, 80, "models token set");
    session.exp_string("(it is not shown): ").unwrap();
    session.send_line("hf_secret").unwrap();
    let seen = session.exp_eof().unwrap();
    assert!(!seen.contains("hf_secret"), "{seen:?}");
    assert!(seen.contains("No keychain was found"), "{seen:?}");
    let mut command = shop.command(&["models", "token", "status", "--json"]);
    let status = command.env("HF_TOKEN", "hf_secret").output().unwrap();
    let json: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(json["token_from"], "environment");
    assert!(!out(&status).contains("hf_secret"));
}

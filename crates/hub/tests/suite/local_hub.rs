//! The program `local-hub`, as tests of other programs use it.
//!
//! Rule: it is started as a process and ends with its standard input.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use transom_hub::{Hub, HubOptions, TokenSource};

#[tokio::test]
async fn the_program_serves_a_folder_with_faults() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("owner/model");
    std::fs::create_dir_all(model.join("sub")).unwrap();
    std::fs::write(model.join("config.json"), "{}").unwrap();
    std::fs::write(model.join("sub/a.gguf"), "x".repeat(2000)).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_local-hub"))
        .arg(folder.path())
        .args(["--fault", "listing:status=503*1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    let stdout = program.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut address).unwrap();
    let hub = Hub::new(HubOptions {
        endpoint: address.trim().to_owned(),
        token: TokenSource::Nothing,
        uses_proxies: false,
        ..HubOptions::default()
    });
    let hub = hub.unwrap();
    let error = hub.files("owner/model", "main").await.unwrap_err();
    assert_eq!(error.code(), "server_trouble");
    let listing = hub.files("owner/model", "main").await.unwrap();
    assert_eq!(listing.files.len(), 2);
    assert_eq!(listing.files[1].name, "sub/a.gguf");
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

#[test]
fn an_unknown_fault_prints_the_valid_ones() {
    let output = Command::new(env!("CARGO_BIN_EXE_local-hub"))
        .args([".", "--fault", "blob:explode"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("is not a fault"), "{text}");
}

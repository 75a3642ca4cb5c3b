use std::path::PathBuf;
use std::time::Duration;

use transom_hub::{Download, DownloadId, DownloadRequest, HubError, RequestedFile, State};
use transom_library::EstimatedFit;
use transom_library::Format;

use transom_library::download::PlanFit;

use super::fetch::{End, Screen};
use super::*;
use crate::console::Terminals;
use crate::test_console::TestConsole;

fn a_plan() -> Plan {
    Plan {
        id: "qwen3-4b@Q4_K_M".to_owned(),
        name: "qwen3-4b".to_owned(),
        title: "Qwen3 4B".to_owned(),
        format: Format::Gguf,
        quantization: "Q4_K_M".to_owned(),
        license: "Apache-2.0".to_owned(),
        wanted: DownloadRequest {
            key: "qwen3-4b@Q4_K_M".to_owned(),
            name: "qwen3-4b".to_owned(),
            repository: "Qwen/Qwen3-4B-GGUF".to_owned(),
            revision: "main".to_owned(),
            files: vec![RequestedFile::named("Qwen3-4B-Q4_K_M.gguf")],
            folder: PathBuf::from("/data/models/Qwen/Qwen3-4B-GGUF"),
        },
        size_bytes: Some(2_497_280_256),
        fit: Some(PlanFit {
            verdict: EstimatedFit::Fits,
            need_bytes: 4 << 30,
            room_bytes: 12 << 30,
            context_length: Some(8192),
        }),
        unverified: Vec::new(),
        is_gated: false,
    }
}

pub(super) fn download(state: State, done_bytes: u64) -> Download {
    Download {
        id: DownloadId(1),
        key: "qwen3-4b@Q4_K_M".to_owned(),
        name: "qwen3-4b".to_owned(),
        repository: "Qwen/Qwen3-4B-GGUF".to_owned(),
        folder: PathBuf::from("/data/models/Qwen/Qwen3-4B-GGUF"),
        state,
        done_bytes,
        total_bytes: Some(2_000_000_000),
        bytes_per_second: 20_000_000,
        seconds_left: Some(42),
        last_error: None,
    }
}

/// What is seen while `states` follow each other, and of `end`.
fn seen(streams: &mut TestConsole, json: bool, states: &[(State, u64)], end: &End) {
    let mut console = streams.console();
    let mut screen = Screen::new(&mut console, json);
    let plan = a_plan();
    screen.begin(&plan, None);
    for (state, done_bytes) in states {
        screen
            .show(&plan, &download(state.clone(), *done_bytes))
            .unwrap();
    }
    screen.end(&plan, end);
}

fn some_states() -> Vec<(State, u64)> {
    let dropped = HubError::Dropped {
        file: "Qwen3-4B-Q4_K_M.gguf".to_owned(),
    };
    let retrying = State::Retrying {
        seconds: 2,
        error: dropped,
    };
    let verifying = State::Verifying {
        done_bytes: 0,
        total_bytes: 2_000_000_000,
    };
    vec![
        (State::Queued, 0),
        (State::Downloading, 0),
        (State::Downloading, 190_000_000),
        (State::Downloading, 210_000_000),
        (State::Downloading, 220_000_000),
        (retrying, 220_000_000),
        (State::Downloading, 1_900_000_000),
        (verifying, 2_000_000_000),
    ]
}

const DONE: End = End::Done {
    took: Duration::from_secs(103),
};

#[test]
fn what_will_be_fetched_is_told_before() {
    let expect = "\
Qwen3 4B, GGUF Q4_K_M (Apache-2.0)
  from     huggingface.co/Qwen/Qwen3-4B-GGUF
  fetches  2.50 GB in one file
  memory   fits: needs 4.00 GB of 12.00 GB with a context of 8192 tokens
  disk     41.2 GB free
  goes to  /data/models/Qwen/Qwen3-4B-GGUF
";
    let shown = plan::text(&a_plan(), "huggingface.co", Some(41_200_000_000), 80);
    assert_eq!(shown, expect);
}

#[test]
fn what_is_not_known_is_said_and_a_narrow_terminal_breaks_lines() {
    let plan = Plan {
        license: String::new(),
        size_bytes: None,
        fit: None,
        unverified: vec!["files".to_owned()],
        is_gated: true,
        ..a_plan()
    };
    let expect = "\
Qwen3 4B, GGUF Q4_K_M
  from     huggingface.co/Qwen/Qwen3-4B-GGUF
  fetches  a size that the hub does not say in
           one file
  goes to  /data/models/Qwen/Qwen3-4B-GGUF
  note     not verified in the list: files
  note     its authors ask you to accept their
           conditions on its page first
";
    assert_eq!(plan::text(&plan, "huggingface.co", None, 50), expect);
}

#[test]
fn what_does_not_fit_is_refused_unless_the_user_insists() {
    let fit = |verdict| {
        let plan = a_plan();
        let fit = plan.fit.map(|fit| PlanFit { verdict, ..fit });
        Plan { fit, ..plan }
    };
    let missing_bytes = 1 << 30;
    let too_large = fit(EstimatedFit::DoesNotFit { missing_bytes });
    let failure = check(&too_large, false).unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert!(failure.to_string().contains("--anyway"), "{failure}");
    check(&too_large, true).unwrap();
    let needs_bytes_free = 1;
    check(
        &fit(EstimatedFit::FitsIfOthersClose { needs_bytes_free }),
        false,
    )
    .unwrap();
    let unknown = Plan {
        fit: None,
        ..a_plan()
    };
    check(&unknown, false).unwrap();
}

#[test]
fn without_a_terminal_progress_is_a_line_a_tenth() {
    let mut streams = TestConsole::default();
    seen(&mut streams, false, &some_states(), &DONE);
    assert_eq!(streams.out_text(), "");
    let expect = "\
qwen3-4b: fetching
qwen3-4b: 10 %, 0.21 of 2.00 GB
qwen3-4b: connection lost; again in 2 s
qwen3-4b: 90 %, 1.90 of 2.00 GB
qwen3-4b: verifying
qwen3-4b is installed, 2.50 GB in 2 min.
";
    assert_eq!(streams.err_text(), expect);
}

fn terminal(columns: fn() -> usize) -> TestConsole {
    let mut streams = TestConsole::default();
    streams.terminals = Terminals {
        stdin: true,
        stdout: true,
        stderr: true,
    };
    streams.colour = true;
    streams.columns = columns;
    streams
}

#[test]
fn on_a_terminal_one_line_is_drawn_anew_and_gone_at_the_end() {
    let mut streams = terminal(|| 60);
    seen(&mut streams, false, &some_states(), &DONE);
    let text = streams.err_text();
    let lines: Vec<&str> = text.split("\r\x1b[2K").skip(1).collect();
    assert_eq!(lines.len(), some_states().len() + 1, "{lines:#?}");
    for line in &lines[..lines.len() - 1] {
        assert!(
            line.chars().count() < 60 && !line.contains('\n'),
            "{line:?}"
        );
    }
    assert!(lines[5].ends_with("again in 2 s"), "{lines:#?}");
    assert!(lines[7].ends_with("verifying"), "{lines:#?}");
    assert_eq!(
        lines[8],
        "\x1b[2mqwen3-4b is installed, 2.50 GB in 2 min.\x1b[0m\n"
    );
}

#[test]
fn programs_get_an_object_a_line_and_nothing_else() {
    let mut streams = TestConsole::default();
    seen(&mut streams, true, &some_states(), &DONE);
    assert_eq!(streams.err_text(), "");
    let text = streams.out_text();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), some_states().len());
    assert_eq!(lines[5]["state"]["error"]["code"], "dropped");
    assert_eq!(lines[6]["done_bytes"], 1_900_000_000);
}

#[test]
fn after_a_failure_it_is_told_what_is_kept() {
    let mut streams = TestConsole::default();
    let silent = HubError::Silent {
        host: "hub".to_owned(),
        seconds: 30,
    };
    seen(
        &mut streams,
        false,
        &some_states()[..4],
        &End::Failed(silent),
    );
    let text = streams.err_text();
    assert!(
        text.ends_with("210 MB are kept; the same command goes on from there.\n"),
        "{text}"
    );
}

#[test]
fn the_end_says_how_to_go_on_and_fails_if_anything_failed() {
    let failed = || End::Failed(HubError::Offline);
    let mut streams = TestConsole::default();
    finish(&[a_plan()], &[DONE], false, &mut streams.console()).unwrap();
    assert_eq!(
        streams.err_text(),
        "Try it: transom chat --model qwen3-4b\n"
    );
    let mut console = TestConsole::default();
    let one = finish(&[a_plan()], &[failed()], false, &mut console.console());
    assert!(matches!(one.unwrap_err(), Failure::Hub(HubError::Offline)));
    let plans = [a_plan(), a_plan()];
    let mut console = TestConsole::default();
    let some = finish(&plans, &[DONE, failed()], false, &mut console.console()).unwrap_err();
    assert_eq!(some.exit_code(), 1);
    assert_eq!(some.to_string(), "not installed: qwen3-4b; see above");
}

#[test]
fn what_the_disk_cannot_hold_is_refused_and_what_came_counts() {
    let parts = tempfile::tempdir().unwrap();
    let free = |bytes| check_disk(&[a_plan()], Some(bytes), parts.path());
    free(2_497_280_256).unwrap();
    let failure = free(2_497_280_255).unwrap_err();
    assert_eq!(failure.exit_code(), 1);
    let text = failure.to_string();
    assert!(text.contains("2.5 GB more are needed"), "{text}");
    std::fs::write(parts.path().join("part"), b"x").unwrap();
    free(2_497_280_255).unwrap();
}

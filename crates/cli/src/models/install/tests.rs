use std::path::PathBuf;
use std::time::Duration;

use transom_hub::{Download, DownloadId, DownloadRequest, HubError, RequestedFile, State};
use transom_library::EstimatedFit;
use transom_library::Format;

use transom_library::download::PlanEstimate;

use super::display::Display;
use super::*;
use crate::test_console::TestConsole;

fn narrow(columns: usize) -> Layout {
    Layout {
        columns: Some(columns),
        is_dimmed: false,
    }
}

fn a_plan() -> Plan {
    Plan {
        id: "qwen3-4b@Q4_K_M".to_owned(),
        name: "qwen3-4b".to_owned(),
        title: "Qwen3 4B".to_owned(),
        format: Format::Gguf,
        quantization: "Q4_K_M".to_owned(),
        license: "Apache-2.0".to_owned(),
        request: DownloadRequest {
            key: "qwen3-4b@Q4_K_M".to_owned(),
            name: "qwen3-4b".to_owned(),
            repository: "Qwen/Qwen3-4B-GGUF".to_owned(),
            revision: "main".to_owned(),
            files: vec![RequestedFile::named("Qwen3-4B-Q4_K_M.gguf")],
            folder: PathBuf::from("/data/models/Qwen/Qwen3-4B-GGUF"),
        },
        size_bytes: Some(2_497_280_256),
        estimate: Some(PlanEstimate {
            fit: EstimatedFit::Fits,
            need_bytes: 4 << 30,
            room_bytes: 12 << 30,
            context_length: Some(8192),
        }),
        unverified: Vec::new(),
        is_gated: false,
    }
}

fn download(state: State, done_bytes: u64) -> Download {
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

/// Shows a download with these states and this end.
fn show(streams: &mut TestConsole, json: bool, states: &[(State, u64)], end: &End) {
    let mut console = streams.console();
    let mut display = Display::new(&mut console, json);
    let plan = a_plan();
    display.begin(&plan, None);
    for (state, done_bytes) in states {
        display
            .show(&plan, &download(state.clone(), *done_bytes))
            .unwrap();
    }
    display.end(&plan, end);
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

const DONE: End = Ok(Duration::from_secs(103));

#[test]
fn the_plan_is_shown_before_the_download() {
    let expect = "\
Qwen3 4B, GGUF Q4_K_M (Apache-2.0)
  from     huggingface.co/Qwen/Qwen3-4B-GGUF
  size     2.50 GB in one file
  memory   fits: needs 4.00 GB of 12.00 GB with a context of 8192 tokens
  disk     41.2 GB free
  folder   /data/models/Qwen/Qwen3-4B-GGUF
";
    let shown = plan::text(
        &a_plan(),
        "huggingface.co",
        Some(41_200_000_000),
        narrow(80),
    );
    assert_eq!(shown, expect);
}

#[test]
fn the_plan_names_unknown_values_and_wraps_lines() {
    let plan = Plan {
        license: String::new(),
        size_bytes: None,
        estimate: None,
        unverified: vec!["files".to_owned()],
        is_gated: true,
        ..a_plan()
    };
    let expect = "\
Qwen3 4B, GGUF Q4_K_M
  from     huggingface.co/Qwen/Qwen3-4B-GGUF
  size     a size that the hub does not report in
           one file
  folder   /data/models/Qwen/Qwen3-4B-GGUF
  note     not verified in the catalog: files
  note     accept its conditions on its page of
           the hub first
";
    assert_eq!(
        plan::text(&plan, "huggingface.co", None, narrow(50)),
        expect
    );
}

#[test]
fn a_model_that_does_not_fit_is_refused_unless_the_user_insists() {
    let plan = |fit| {
        let plan = a_plan();
        let estimate = plan.estimate;
        let estimate = estimate.map(|estimate| PlanEstimate { fit, ..estimate });
        Plan { estimate, ..plan }
    };
    let missing_bytes = 1 << 30;
    let too_large = plan(EstimatedFit::DoesNotFit { missing_bytes });
    let failure = check_memory(&too_large, false).unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert!(failure.to_string().contains("--anyway"), "{failure}");
    check_memory(&too_large, true).unwrap();
    let needs_bytes_free = 1;
    check_memory(
        &plan(EstimatedFit::FitsIfOthersClose { needs_bytes_free }),
        false,
    )
    .unwrap();
    let unknown = Plan {
        estimate: None,
        ..a_plan()
    };
    check_memory(&unknown, false).unwrap();
}

#[test]
fn without_a_terminal_each_tenth_is_a_line() {
    let mut streams = TestConsole::default();
    show(&mut streams, false, &some_states(), &DONE);
    assert_eq!(streams.out_text(), "");
    let expect = "\
qwen3-4b: downloading
qwen3-4b: 10 %, 0.21 of 2.00 GB
qwen3-4b: connection lost; again in 2 s
qwen3-4b: 90 %, 1.90 of 2.00 GB
qwen3-4b: verifying
qwen3-4b is installed, 2.50 GB in 2 min.
";
    assert_eq!(streams.err_text(), expect);
}

/// What a terminal of this width shows after each of the states, and at the end.
fn drawn(width: u16) -> (Vec<String>, String) {
    let mut streams = TestConsole::default().on_terminal(width);
    let screen = streams.screen.clone();
    let mut console = streams.console();
    let mut display = Display::new(&mut console, false);
    let plan = a_plan();
    display.begin(&plan, None);
    let states = some_states().into_iter().map(|(state, done_bytes)| {
        display.show(&plan, &download(state, done_bytes)).unwrap();
        screen.contents()
    });
    let states = states.collect();
    display.end(&plan, &DONE);
    assert_eq!(screen.contents(), "", "the line is removed");
    (states, streams.err_text())
}

#[test]
fn on_a_terminal_one_line_is_redrawn_and_removed_at_the_end() {
    let (states, end) = drawn(80);
    let expect = "█░░░░░░░░░░░░░░░    9 %  0.19 of 2.00 GB  20 MB/s  42 s left  qwen3-4b";
    assert_eq!(states[2], expect);
    let expect = "  0.22 of 2.00 GB  again in 2 s (connection lost)  ";
    assert!(states[5].contains(expect), "{states:#?}");
    assert!(states[7].contains("  verifying  "), "{states:#?}");
    let expect = "\x1b[2mqwen3-4b is installed, 2.50 GB in 2 min.\x1b[0m\n";
    assert_eq!(end, expect);
}

#[test]
fn no_line_is_wider_than_its_terminal() {
    for width in 4..120 {
        for line in drawn(width).0 {
            assert_eq!(line.lines().count(), 1, "{width}: {line:?}");
        }
    }
}

#[test]
fn the_json_is_one_object_per_line() {
    let mut streams = TestConsole::default();
    show(&mut streams, true, &some_states(), &DONE);
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
fn after_a_failure_the_kept_bytes_are_shown() {
    let mut streams = TestConsole::default();
    let silent = HubError::Silent {
        host: "hub".to_owned(),
        seconds: 30,
    };
    show(&mut streams, false, &some_states()[..4], &Err(silent));
    let text = streams.err_text();
    assert!(
        text.ends_with("210 MB are kept; the same command continues from there.\n"),
        "{text}"
    );
}

#[test]
fn the_command_fails_if_any_download_failed() {
    let failed = || Err(HubError::Offline);
    let mut streams = TestConsole::default();
    finish(&[a_plan()], &[DONE], false, &mut streams.console()).unwrap();
    assert_eq!(
        streams.err_text(),
        "Try it: transom chat --model qwen3-4b\n"
    );
    let mut console = TestConsole::default();
    let one = finish(&[a_plan()], &[failed()], false, &mut console.console());
    let expect = Failure::from(HubError::Offline).to_string();
    assert_eq!(one.unwrap_err().to_string(), expect);
    let plans = [a_plan(), a_plan()];
    let mut console = TestConsole::default();
    let some = finish(&plans, &[DONE, failed()], false, &mut console.console()).unwrap_err();
    assert_eq!(some.exit_code(), 1);
    assert_eq!(some.to_string(), "not installed: qwen3-4b; see above");
}

#[test]
fn a_full_disk_is_refused_and_part_files_count() {
    let parts = tempfile::tempdir().unwrap();
    let free = |bytes| check_disk(&[a_plan()], Some(bytes), parts.path());
    free(2_497_280_256).unwrap();
    let failure = free(2_497_280_255).unwrap_err();
    assert_eq!(failure.exit_code(), 1);
    let text = failure.to_string();
    assert!(text.contains("needs 2.50 GB more"), "{text}");
    std::fs::write(parts.path().join("part"), b"x").unwrap();
    free(2_497_280_255).unwrap();
}

use super::*;

fn narrow(columns: usize) -> Layout {
    Layout {
        columns: Some(columns),
        is_dimmed: false,
    }
}

fn report() -> FitReport {
    let part = |kind, gigabytes: f64| Part {
        kind,
        bytes: (gigabytes * (1u64 << 30) as f64) as u64,
    };
    let parts = vec![
        part(PartKind::Weights, 2.5),
        part(PartKind::KvCache, 1.0),
        part(PartKind::Working, 0.5),
        part(PartKind::Draft, 0.0),
    ];
    FitReport {
        model: "Qwen3 4B".to_owned(),
        form: "GGUF Q4_K_M".to_owned(),
        machine: "this computer with 16 GB".to_owned(),
        room_bytes: 12 << 30,
        context_length: 8192,
        need_bytes: parts.iter().map(|part| part.bytes).sum(),
        parts,
        is_corrected: false,
        fit: EstimatedFit::Fits,
        longest_context: Some(40_960),
        model_context: Some(40_960),
        speed: Some(Speed {
            low: 20.4,
            high: 34.2,
            is_measured: false,
        }),
        draft: None,
        suggested_draft: None,
        unverified: Vec::new(),
    }
}

#[test]
fn a_model_that_fits_has_its_parts_and_a_sentence() {
    let expect = "\
Qwen3 4B, GGUF Q4_K_M, on this computer with 16 GB

  ████████████████▓▓▓▓▓▓▒▒▒····················································

  █ weights         2.50 GB
  ▓ context         1.00 GB  for 8192 tokens
  ▒ working memory   512 MB
    together        4.00 GB of 12.00 GB for models

It fits, with a context of 8192 tokens.

  longest context   40960 tokens, all that the model supports
  speed             20 to 34 tokens a second, estimated
";
    assert_eq!(report().text(Layout::default()), expect);
}

#[test]
fn the_bar_marks_how_much_of_a_large_model_fits() {
    let report = FitReport {
        room_bytes: 3 << 30,
        fit: EstimatedFit::DoesNotFit {
            missing_bytes: 1 << 30,
        },
        longest_context: None,
        speed: None,
        unverified: vec!["size_bytes".to_owned()],
        ..report()
    };
    let expect = "\
Qwen3 4B, GGUF Q4_K_M, on this computer with 16
GB

  █████████████████████████████▓▓▓▓▓▓▓▓▓▓▓▓▒▒▒▒▒▒
                                    ▲ 3.00 GB

  █ weights         2.50 GB
  ▓ context         1.00 GB  for 8192 tokens
  ▒ working memory   512 MB
    together        4.00 GB of 3.00 GB for models

It does not fit: it needs 1.00 GB more than
models may use here.

  longest context   none fits
  speed             unknown for this computer;
                    `transom bench` measures it
  not verified      size_bytes, which could not
                    be read from the model's own
                    files
";
    assert_eq!(report.text(narrow(50)), expect);
}

#[test]
fn the_figure_at_the_mark_is_where_there_is_room() {
    let report = FitReport {
        room_bytes: 4290 << 20,
        need_bytes: 4300 << 20,
        fit: EstimatedFit::DoesNotFit {
            missing_bytes: 10 << 20,
        },
        ..report()
    };
    let text = report.text(narrow(50));
    let mark = text.lines().nth(4).unwrap();
    assert!(mark.ends_with("4.19 GB ▲"), "{text}");
    assert!(mark.chars().count() < 50, "{text}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in 30..100 {
        let text = report().text(narrow(columns));
        for line in text.lines() {
            // Words are not cut.
            assert!(
                line.chars().count() < columns.max(52),
                "{columns}: {line:?}"
            );
        }
    }
}

#[test]
fn a_draft_model_is_part_of_the_bar_and_of_the_fit() {
    let mut report = FitReport {
        draft: Some(DraftModel {
            model: "Qwen3 0.6B".to_owned(),
            form: "GGUF Q4_K_M".to_owned(),
        }),
        ..report()
    };
    report.parts[3].bytes = 1 << 30;
    report.need_bytes = 5 << 30;
    let expect = "\
Qwen3 4B, GGUF Q4_K_M, with Qwen3 0.6B, GGUF Q4_K_M, on this computer with 16
GB

  ████████████████▓▓▓▓▓▓▒▒▒▚▚▚▚▚▚▚·············································

  █ weights         2.50 GB
  ▓ context         1.00 GB  for 8192 tokens
  ▒ working memory   512 MB
  ▚ draft model     1.00 GB
    together        5.00 GB of 12.00 GB for models

Both fit, with a context of 8192 tokens.

  longest context   40960 tokens, all that the model supports
  speed             20 to 34 tokens a second, estimated, without the draft
";
    assert_eq!(report.text(Layout::default()), expect);
    let with = |fit| {
        FitReport {
            fit,
            ..report.clone()
        }
        .sentence()
    };
    let missing_bytes = 1 << 30;
    assert_eq!(
        with(EstimatedFit::DoesNotFit { missing_bytes }),
        "The two do not fit together: they need 1.00 GB more than models may use here."
    );
    let needs_bytes_free = 1 << 30;
    assert_eq!(
        with(EstimatedFit::FitsIfOthersClose { needs_bytes_free }),
        "Both fit if you close other apps, which use 1.00 GB that they need."
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["draft"]["model"], "Qwen3 0.6B");
    assert_eq!(json["parts"][3]["kind"], "draft");
    assert_eq!(json["parts"][3]["bytes"], 1u64 << 30);
}

#[test]
fn a_suggested_draft_model_has_one_line() {
    let report = FitReport {
        suggested_draft: Some(Suggestion {
            id: "qwen3-0.6b".to_owned(),
            model: "Qwen3 0.6B".to_owned(),
        }),
        ..report()
    };
    let text = report.text(Layout::default());
    let line = "  draft             Qwen3 0.6B would make it faster: --draft qwen3-0.6b\n";
    assert!(text.ends_with(line), "{text}");
}

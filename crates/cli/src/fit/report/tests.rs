use super::*;

fn report() -> Report {
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
    Report {
        model: "Qwen3 4B".to_owned(),
        form: "GGUF Q4_K_M".to_owned(),
        machine: "this computer (16.00 GB)".to_owned(),
        room_bytes: 12 << 30,
        context_length: 8192,
        need_bytes: parts.iter().map(|part| part.bytes).sum(),
        parts,
        is_corrected: false,
        verdict: Verdict::Fits,
        longest_context: Some(40_960),
        model_context: Some(40_960),
        speed: Some(Speed {
            low: 20.4,
            high: 34.2,
            is_measured: false,
        }),
        unverified: Vec::new(),
    }
}

#[test]
fn a_model_that_fits_is_told_by_its_parts_and_in_words() {
    let expect = "\
Qwen3 4B, GGUF Q4_K_M, on this computer (16.00 GB)
";
    assert_eq!(report().text(None, false), expect);
}

#[test]
fn what_does_not_fit_is_marked_in_the_bar_and_told_in_numbers() {
    let report = Report {
        room_bytes: 3 << 30,
        verdict: Verdict::DoesNotFit {
            missing_bytes: 1 << 30,
        },
        longest_context: None,
        speed: None,
        unverified: vec!["size_bytes".to_owned()],
        ..report()
    };
    let expect = "";
    assert_eq!(report.text(Some(50), false), expect);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in 30..100 {
        let text = report().text(Some(columns), false);
        for line in text.lines() {
            // Words are not cut.
            assert!(
                line.chars().count() < columns.max(44),
                "{columns}: {line:?}"
            );
        }
    }
}

//! The table of cases: installed models with budgets and measurements, and what every shell shows of
//! them. Shells only format these results, so their tests need no such table.

use transom_catalog::model_files::format_of;
use transom_engine::Stats;
use transom_signals::Hardware;

use crate::test_support::{computer, install, library};
use crate::*;

const GIB: u64 = 1 << 30;

/// An installed model on a computer with 16 GB.
struct Case {
    repository: &'static str,
    file: &'static str,
    /// The user's memory budget in bytes.
    budget_bytes: Option<u64>,
    /// Measured peak memory of an earlier response in bytes.
    peak_bytes: Option<u64>,
    /// Names that find the model, the short one first.
    names: &'static [&'static str],
    /// Id, display name, format and quantization that run, and whether the model fits.
    shown: [&'static str; 4],
}

const TINY: Case = Case {
    repository: "owner/tiny-GGUF",
    file: "tiny-Q8_0.gguf",
    budget_bytes: None,
    peak_bytes: None,
    names: &[
        "tiny",
        "TINY@q8_0",
        "tiny 1b · q8_0",
        "owner/tiny-GGUF",
        "tiny@gguf",
    ],
    shown: ["tiny@Q8_0", "Tiny 1B · Q8_0", "GGUF Q8_0", "fits"],
};

const CASES: [Case; 5] = [
    TINY,
    Case {
        budget_bytes: Some(1000),
        shown: ["tiny@Q8_0", "Tiny 1B · Q8_0", "GGUF Q8_0", "does not fit"],
        ..TINY
    },
    Case {
        peak_bytes: Some(2 * GIB),
        shown: [
            "tiny@Q8_0",
            "Tiny 1B · Q8_0",
            "GGUF Q8_0",
            "fits, corrected",
        ],
        ..TINY
    },
    Case {
        budget_bytes: Some(4 * GIB),
        peak_bytes: Some(8 * GIB),
        shown: [
            "tiny@Q8_0",
            "Tiny 1B · Q8_0",
            "GGUF Q8_0",
            "does not fit, corrected",
        ],
        ..TINY
    },
    Case {
        repository: "owner/other-GGUF",
        file: "other-F16.gguf",
        budget_bytes: None,
        peak_bytes: None,
        names: &[
            "other-F16",
            "OTHER-f16",
            "owner/other-GGUF",
            "owner/other-gguf:F16",
        ],
        shown: ["owner/other-GGUF:F16", "other-F16", "GGUF F16", "fits"],
    },
];

#[test]
fn a_model_has_one_id_one_name_one_format_and_one_estimate() {
    for case in &CASES {
        let data = tempfile::tempdir().unwrap();
        let path = install(data.path(), case.repository, case.file);
        let read = || {
            let hardware = Hardware {
                memory_bytes: 16 * GIB,
                working_set_bytes: None,
                ..Hardware::detect()
            };
            let machine = ThisMachine::read(&hardware, data.path(), case.budget_bytes);
            library(data.path(), computer()).with_machine(machine)
        };
        if let Some(peak_bytes) = case.peak_bytes {
            record_peak(&read(), peak_bytes);
        }
        let library = read();
        let model = &library.installed()[0];
        assert_eq!(shown(&library, model), case.shown, "{}", case.file);
        for text in case.names.iter().chain([&case.shown[0]]) {
            let found = library.find(text).map(|found| &found.id);
            assert_eq!(found, Some(&path.canonicalize().unwrap()), "{text}");
        }
        assert_eq!(library.find(path.to_str().unwrap()), Some(model));
        assert_eq!(library.short_name(model), case.names[0]);
        assert_eq!(library.find("owner/other-GGUF:Q8_0"), None);
    }
}

fn record_peak(library: &Library, peak_memory_bytes: u64) {
    let settings = LoadSettings::default();
    let (path, facts) = library.runnable_variant(&library.installed()[0]).unwrap();
    let usage = UsageRecorder::new(library, &facts, &path, &settings);
    usage.record(&Stats {
        prompt_tokens: 700,
        generated_tokens: 100,
        peak_memory_bytes,
        ..Stats::default()
    });
}

fn shown(library: &Library, model: &InstalledModel) -> [String; 4] {
    let settings = LoadSettings::default();
    let spec = library.spec(model, &settings);
    let estimate = library.estimate(model, &settings).unwrap();
    // The request to the supervisor has the same name and correction as the estimate.
    assert_eq!(spec.name, model.title(library.catalog()));
    let correction = spec.corrections.first().map_or(0, |first| first.bytes);
    assert_eq!(correction, estimate.need.correction_bytes);
    let (path, _) = library.runnable_variant(model).unwrap();
    let quantization = model.quantization(library.catalog());
    let fit = match estimate.fit.is_usable() {
        true => "fits",
        false => "does not fit",
    };
    let corrected = match estimate.is_corrected {
        true => ", corrected",
        false => "",
    };
    [
        library.id_of(model),
        spec.name,
        variant_text(format_of(&path), &quantization),
        format!("{fit}{corrected}"),
    ]
}

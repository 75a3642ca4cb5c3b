//! Tests of names, suggestions and estimates, which are the same in every shell.

mod cases;

use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use transom_catalog::entries::FILE_NAME;
use transom_catalog::estimate::{AvailableMemory, EstimatedFit};
use transom_catalog::machine::{Bandwidth, Machine};
use transom_catalog::measured;
use transom_catalog::recommendations::{MEMORY_SIZES, recommended_for_mac};
use transom_catalog::{Catalog, Format};
use transom_engine::Stats;
use transom_signals::Hardware;
use transom_supervisor::KvCacheChoice;
use transom_supervisor::settings::Settings;

use crate::download::{PlanError, Reference};
use crate::test_support::{CATALOG, computer, install, library, mac, with_available_memory};
use crate::*;

const GIB: u64 = 1 << 30;

/// Returns a library without installed models.
fn empty(machine: Machine) -> Library {
    library(Path::new("/nowhere"), machine)
}

#[test]
fn an_id_stays_when_others_are_installed_and_a_second_copy_has_its_path() {
    let data = tempfile::tempdir().unwrap();
    let first = install(data.path(), "owner/other-GGUF", "a-F16.gguf");
    let ids = || -> Vec<String> {
        let library = library(data.path(), computer());
        let models = library.installed().iter();
        models.map(|model| library.id_of(model)).collect()
    };
    assert_eq!(ids(), ["owner/other-GGUF:F16"]);
    fs::copy(&first, first.with_file_name("b-F16.gguf")).unwrap();
    let second = first.with_file_name("b-F16.gguf").canonicalize().unwrap();
    assert_eq!(ids(), ["owner/other-GGUF:F16", second.to_str().unwrap()]);
}

#[test]
fn the_default_model_is_the_starter_or_else_the_first_installed_one() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(library(data.path(), computer()).default_model(), None);
    install(data.path(), "owner/other-GGUF", "a-F16.gguf");
    let first = library(data.path(), computer()).default_model().unwrap();
    assert_eq!(first.repository.as_deref(), Some("owner/other-GGUF"));

    let starter = data.path().join("assets/starter");
    fs::create_dir_all(&starter).unwrap();
    fs::write(starter.join("config.json"), "{}").unwrap();
    let places = Places {
        executable: Some(data.path().join("transom")),
        data_folder: Some(data.path().to_owned()),
        ..Places::default()
    };
    let library = Library::new(Catalog::built_in(), places, mac(16));
    // Before and after the search for other models.
    for _ in 0..2 {
        assert_eq!(library.default_model().unwrap().origin, Origin::Starter);
        assert_eq!(library.installed().len(), 2);
    }
}

#[test]
fn a_model_that_is_no_longer_installed_has_the_title_of_the_catalog() {
    let library = empty(computer());
    assert_eq!(library.title_of("tiny@Q8_0"), "Tiny 1B · Q8_0");
    assert_eq!(library.title_of("tiny"), "Tiny 1B");
    assert_eq!(library.title_of("owner/other:F16"), "owner/other:F16");
}

#[test]
fn ids_of_the_built_in_catalog_are_unique() {
    let catalog = Catalog::built_in();
    let library = Library::new(catalog.clone(), Places::default(), mac(16));
    for entry in &catalog.entries {
        for variant in &entry.variants {
            let id = Library::id_of_variant(entry, variant);
            let (_, text) = id.split_once('@').unwrap();
            assert_eq!(library.variant_named(entry, text).unwrap(), variant, "{id}");
        }
    }
}

#[test]
fn the_error_for_an_unknown_name_has_suggestions() {
    let library = empty(computer());
    let message = |text: &str| library.resolve(text).unwrap_err().to_string();
    assert_eq!(message("tiny"), "Tiny 1B is not installed");
    assert!(message("owner/name").starts_with("nothing is at owner/name"));
    assert_eq!(message("nothing"), "no model is called nothing");
    let gone = library.resolve("/nowhere/gone.gguf").unwrap();
    assert!(
        gone.facts.is_err(),
        "a chosen model is shown after it was deleted"
    );
}

#[test]
fn text_is_a_path_only_if_it_can_be_nothing_else() {
    for text in ["/a", "./a", "../a/b", "~/a", "a/b/c", "a.gguf", "a/b.GGUF"] {
        assert!(is_path(text), "{text}");
    }
    for text in [
        "qwen3-4b",
        "owner/name",
        "qwen3-4b@8-bit",
        "owner/name:Q8_0",
    ] {
        assert!(!is_path(text), "{text}");
    }
    assert!(is_repository("Qwen/Qwen3-4B-GGUF"));
    for text in ["a", "a/b/c", "/a", "a/", "../a", "a b/c", "ä/b"] {
        assert!(!is_repository(text), "{text}");
    }
}

#[test]
fn the_suggested_variant_is_in_the_preferred_format_and_fits() {
    let suggested = |machine: Machine, id: &str| {
        let library = empty(machine);
        let entry = library.catalog().find(id).unwrap();
        let variant = library.suggested_variant(entry).unwrap();
        variant_text(variant.format, &variant.quantization)
    };
    assert_eq!(suggested(computer(), "tiny"), "GGUF Q4_K_M");
    assert_eq!(
        suggested(Machine::with_memory(16 * GIB), "tiny"),
        "MLX 4-bit"
    );
    assert_eq!(suggested(computer(), "huge"), "GGUF Q4_K_M", "the only one");
    // An installed variant has priority over a better one.
    let data = tempfile::tempdir().unwrap();
    install(data.path(), "owner/tiny-GGUF", "tiny-Q8_0.gguf");
    let library = library(data.path(), computer());
    let entry = library.catalog().find("tiny").unwrap();
    assert_eq!(
        library.suggested_variant(entry).unwrap().quantization,
        "Q8_0"
    );
}

#[test]
fn the_suggested_variant_is_the_recommended_one_for_every_memory_size() {
    let catalog = Catalog::built_in();
    for bytes in MEMORY_SIZES {
        let library = Library::new(catalog.clone(), Places::default(), mac(bytes >> 30));
        let recommended = recommended_for_mac(bytes, &catalog);
        assert_eq!(
            recommended.budget_bytes,
            library.machine().available_memory().budget_bytes
        );
        for pick in [&recommended.chat, &recommended.code, &recommended.small]
            .into_iter()
            .flatten()
        {
            let entry = catalog.find(&pick.id).unwrap();
            let suggested = library.suggested_variant(entry).unwrap();
            assert_eq!(
                (suggested.format, &suggested.quantization),
                (pick.format, &pick.quantization)
            );
            let estimate = library.estimate_variant(entry, suggested).unwrap();
            assert_eq!(estimate.need, pick.estimate.need, "{}", pick.id);
        }
    }
}

#[test]
fn this_machine_is_among_the_recommendations_once_with_its_own_budget() {
    let catalog = Catalog::built_in();
    for (gigabytes, n_rows) in [(16, 9), (18, 10), (512, 10)] {
        let library = Library::new(catalog.clone(), Places::default(), mac(gigabytes));
        let recommendations = library.recommended_by_memory();
        assert_eq!(recommendations.len(), n_rows, "{gigabytes} GB");
        assert!(recommendations.is_sorted_by(|a, b| a.memory_bytes < b.memory_bytes));
        let own = recommendations
            .iter()
            .filter(|recommended| recommended.memory_bytes == gigabytes * GIB);
        assert_eq!(own.count(), 1);
    }
    let room = AvailableMemory {
        budget_bytes: 8 * GIB,
        in_use_bytes: 0,
        available_bytes: None,
    };
    let machine = with_available_memory(mac(64), room);
    let library = Library::new(catalog, Places::default(), machine);
    let own = library.recommended();
    assert!(own.chat.unwrap().estimate.need.total_bytes() <= 8 * GIB);
}

#[test]
fn a_load_request_has_id_name_variants_and_measurements() {
    let data = tempfile::tempdir().unwrap();
    let path = install(data.path(), "owner/tiny-GGUF", "tiny-Q8_0.gguf");
    let settings = LoadSettings {
        context_length: Some(1024),
        kv_cache: KvCacheChoice::Small,
    };
    let library = || {
        let (library, problems) = Library::open(data.path(), &Hardware::detect());
        assert_eq!(problems, Vec::<String>::new());
        library
    };
    fs::write(data.path().join(FILE_NAME), CATALOG).unwrap();
    let first = library();
    let model = first.find("tiny").unwrap();
    let spec = first.spec(model, &settings);
    assert_eq!((&*spec.id, &*spec.name), ("tiny@Q8_0", "Tiny 1B · Q8_0"));
    assert_eq!(spec.variants[0].path, path.canonicalize().unwrap());
    assert_eq!(
        (spec.context_length, spec.kv_cache),
        (Some(1024), settings.kv_cache)
    );
    assert_eq!(spec.corrections, []);
    // A response that needed far more memory than estimated corrects the next estimate.
    let (path, facts) = first.runnable_variant(model).unwrap();
    let usage = load::UsageRecorder::new(&first, &facts, &path, &settings);
    usage.record(&Stats {
        prompt_tokens: 700,
        generated_tokens: 100,
        peak_memory_bytes: 1024 * GIB,
        ..Stats::default()
    });
    let second = library();
    let model = second.find("tiny").unwrap();
    let spec = second.spec(model, &settings);
    assert!(spec.corrections[0].bytes > 0);
    let estimate = second.estimate(model, &settings).unwrap();
    assert!(estimate.is_corrected);
    assert_eq!(estimate.need.correction_bytes, spec.corrections[0].bytes);
    let other = LoadSettings::default();
    assert!(!second.estimate(model, &other).unwrap().is_corrected);
}

#[test]
fn the_budget_is_the_one_that_the_user_set() {
    let data = tempfile::tempdir().unwrap();
    let hardware = Hardware::detect();
    let open = || Library::open(data.path(), &hardware);
    let budget = || open().0.machine().available_memory().budget_bytes;
    let usual = budget();
    let chosen = Settings {
        memory_budget_bytes: Some(usual / 2),
        ..Settings::default()
    };
    chosen.write(data.path()).unwrap();
    assert_eq!(budget(), usual / 2);
    let machine = open().0.machine().clone().with_status(8 * GIB, 1 << 50);
    assert_eq!(machine.available_memory().budget_bytes, 8 * GIB);
    let available = machine.available_memory().available_bytes.unwrap();
    assert!(
        available > 1 << 50,
        "loaded models are unloaded for the next one"
    );
    // Settings that can't be read are renamed, and this is reported.
    fs::write(data.path().join("supervisor.json"), "oops").unwrap();
    let (library, problems) = open();
    assert_eq!(library.machine().available_memory().budget_bytes, usual);
    assert!(
        problems[0].contains("supervisor.json.damaged"),
        "{problems:?}"
    );
}

#[test]
fn the_memory_bandwidth_is_measured_only_if_it_is_unknown() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join(measured::FILE_NAME);
    let rate_of = |chip: &str, once: &OnceLock<u64>, measure: &dyn Fn() -> u64| {
        let hardware = Hardware {
            chip_name: chip.to_owned(),
            ..Hardware::detect()
        };
        let machine = ThisMachine::read(&hardware, data.path(), None);
        let machine = machine.with_bandwidth_by(once, measure);
        machine.specs().bandwidth.unwrap().low_bytes_per_second
    };
    let never = || panic!("it is known");
    let (unknown, once) = ("of tomorrow", OnceLock::new());
    assert_eq!(rate_of(unknown, &once, &|| 20_000_000_000), 20_000_000_000);
    assert_eq!(rate_of(unknown, &once, &never), 20_000_000_000);
    // A program that starts later measures again, and the highest measurement counts.
    for _ in 0..3 {
        measured::record_bandwidth(&file, unknown, 40_000_000_000).unwrap();
    }
    assert_eq!(rate_of(unknown, &OnceLock::new(), &never), 40_000_000_000);
    let published = Bandwidth::of_chip("Apple M3").unwrap();
    let rate = rate_of("Apple M3", &OnceLock::new(), &never);
    assert_eq!(rate, published.low_bytes_per_second);
}

#[test]
fn after_an_error_in_the_users_catalog_the_built_in_one_is_used() {
    let data = tempfile::tempdir().unwrap();
    let open = || Library::open(data.path(), &Hardware::detect());
    let (library, problems) = open();
    let whole = library.catalog().entries.len();
    assert_eq!(problems.len(), 0, "no file is no error");
    fs::write(data.path().join(FILE_NAME), "[[model]]\nid = 3\n").unwrap();
    let (library, problems) = open();
    assert_eq!(library.catalog().entries.len(), whole);
    assert!(problems[0].contains("models.toml:1:1: "), "{problems:?}");
    fs::write(data.path().join(FILE_NAME), CATALOG).unwrap();
    let (library, problems) = open();
    assert_eq!(problems.len(), 0);
    assert!(library.catalog().find("tiny").is_some() && library.catalog().entries.len() > whole);
}

#[test]
fn a_named_variant_is_returned_and_an_unknown_one_is_an_error_with_choices() {
    let library = empty(computer());
    let entry = library.catalog().find("tiny").unwrap();
    let quantization = |text| {
        library
            .variant_named(entry, text)
            .map(|v| v.quantization.clone())
    };
    assert_eq!(quantization("q8_0").unwrap(), "Q8_0");
    assert_eq!(quantization("mlx").unwrap(), "4-bit");
    assert_eq!(quantization("gguf").unwrap(), "Q4_K_M");
    assert_eq!(
        quantization("3-bit").unwrap_err().to_string(),
        "tiny is not available as 3-bit; choose Q8_0, Q4_K_M, 4-bit"
    );
}

const HUB: &str = "https://huggingface.co";

/// Texts, with the repository and part that they name.
const REPOSITORIES: &[(&str, &str, Option<&str>)] = &[
    ("Qwen/Qwen3-4B-GGUF", "Qwen/Qwen3-4B-GGUF", None),
    (
        "Qwen/Qwen3-4B-GGUF:Q8_0",
        "Qwen/Qwen3-4B-GGUF",
        Some("Q8_0"),
    ),
    ("a/b:sub/c.gguf", "a/b", Some("sub/c.gguf")),
    ("a/b:", "a/b", None),
    ("https://huggingface.co/a/b", "a/b", None),
    ("hf.co/a/b:Q4_K_M", "a/b", Some("Q4_K_M")),
    ("https://huggingface.co/a/b/tree/main", "a/b", None),
    (
        "https://huggingface.co/a/b/blob/main/sub/c.gguf?download=true",
        "a/b",
        Some("sub/c.gguf"),
    ),
];

#[test]
fn a_download_is_named_by_an_id_a_repository_or_the_url_of_its_page() {
    let library = empty(computer());
    let parse = |text| Reference::parse(text, library.catalog(), HUB);
    for (text, repository, part) in REPOSITORIES {
        let expected = Reference::Hub {
            repository: (*repository).to_owned(),
            part: part.map(str::to_owned),
        };
        assert_eq!(parse(text).unwrap(), expected, "{text}");
    }
    let listed = |variant: Option<&str>| Reference::InCatalog {
        id: "tiny".to_owned(),
        variant: variant.map(str::to_owned),
    };
    assert_eq!(parse("Tiny").unwrap(), listed(None));
    assert_eq!(parse("tiny@8-bit").unwrap(), listed(Some("8-bit")));
    assert_eq!(parse("tin").unwrap_err().similar, ["tiny"]);
    for text in ["no-such-model", "", "a/b/c/d", "../x", "a b/c"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_plan_has_the_id_that_the_installed_model_will_have() {
    let library = empty(computer());
    let parse = |text| Reference::parse(text, library.catalog(), HUB).unwrap();
    let plan = |text| library.plan(&parse(text), None);
    let chosen = plan("tiny").unwrap();
    assert_eq!((&*chosen.id, &*chosen.name), ("tiny@Q4_K_M", "tiny"));
    assert_eq!(chosen.request.key, chosen.id);
    assert_eq!(chosen.request.files[0].name, "tiny-Q4_K_M.gguf");
    assert_eq!(chosen.size_bytes, Some(700_000_000));
    assert!(chosen.request.folder.ends_with("models/owner/tiny-GGUF"));
    assert_eq!(chosen.estimate.unwrap().fit, EstimatedFit::Fits);
    let named = plan("tiny@Q8_0").unwrap();
    assert_eq!((&*named.id, &*named.name), ("tiny@Q8_0", "tiny@Q8_0"));
    // The files of a folder are listed when its download starts.
    let folder = parse("tiny@mlx");
    let query = library.listing_of(&folder).unwrap().unwrap();
    assert!(!query.is_required);
    let folder = library.plan(&folder, None).unwrap();
    assert_eq!(
        (folder.format, folder.request.files.len()),
        (Format::Safetensors, 0)
    );
    assert_eq!(library.listing_of(&parse("tiny")).unwrap(), None);
    assert!(
        library
            .listing_of(&parse("a/b"))
            .unwrap()
            .unwrap()
            .is_required
    );
    let huge = plan("huge").unwrap();
    assert!(!huge.estimate.unwrap().fit.is_usable());
    assert!(matches!(plan("tiny@3-bit"), Err(PlanError::Lookup(_))));
}

#[test]
fn an_installed_draft_model_is_loaded_and_estimated_on_a_large_machine() {
    let data = tempfile::tempdir().unwrap();
    let text = CATALOG.replace("id = \"huge\"", "id = \"huge\"\ndraft = \"tiny\"");
    let catalog = Catalog::default().merged_with(&text, Path::new(FILE_NAME));
    let catalog = Arc::new(catalog.unwrap());
    install(data.path(), "owner/huge-GGUF", "huge-Q4_K_M.gguf");
    let draft = install(data.path(), "owner/tiny-GGUF", "tiny-Q8_0.gguf");
    let settings = LoadSettings::default();
    let drafts = |name: &str, gigabytes| {
        let places = Places {
            data_folder: Some(data.path().to_owned()),
            ..Places::default()
        };
        let library = Library::new(catalog.clone(), places, mac(gigabytes));
        let model = library.find(name).unwrap();
        let drafts = library.spec(model, &settings).drafts;
        let estimate = library.estimate(model, &settings).unwrap();
        assert_eq!(estimate.need.draft_bytes > 0, !drafts.is_empty(), "{name}");
        drafts
    };
    let of_huge = drafts("huge", 64);
    assert_eq!(of_huge.len(), 1);
    assert_eq!(of_huge[0].path, draft.canonicalize().unwrap());
    assert_eq!(drafts("huge", 16), []);
    assert_eq!(drafts("tiny", 64), []);
}

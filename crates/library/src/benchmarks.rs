//! The last benchmarks of this person's models, in `benchmarks.json` of the data folder: one of each kind
//! for each model. The command line and the app write it, and the app shows it.
//!
//! Rule: the file is helpful but never required. A damaged file or one of a newer version is set aside
//! and a new one is started. A failed write only loses the result.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use transom_bench::{Benchmark, Measured};
use transom_catalog::InstalledModel;
use transom_catalog::versioned_file::{MAX_BYTES, read_or_set_aside};

use crate::{Library, is_path};

/// Name of the file in the data folder.
pub const FILE_NAME: &str = "benchmarks.json";

const VERSION: u64 = 1;

/// Maximum number of results; the oldest are removed first.
const MAX_RESULTS: usize = 40;
/// Maximum windows of a form: fifteen minutes of ten seconds each. Longer measurements have longer ones.
const MAX_WINDOWS: usize = 90;

#[derive(Serialize, Deserialize)]
struct Contents {
    version: u64,
    /// The newest first.
    benchmarks: Vec<Benchmark>,
}

/// Returns the last results, the newest first. Never fails: a missing, damaged or newer file has none. A
/// damaged or newer file is renamed. Results with numbers that no measurement has are left out.
pub fn read(data_folder: &Path) -> Vec<Benchmark> {
    let contents = read_or_set_aside::<Contents>(&data_folder.join(FILE_NAME), VERSION);
    let mut benchmarks = contents.map_or_else(Vec::new, |contents| contents.benchmarks);
    benchmarks.retain(Benchmark::is_plausible);
    benchmarks
}

/// Saves a result in place of the last one of its kind and model. If two programs write at once, the
/// later one wins. A result without numbers is not saved.
///
/// # Errors
/// The system's error if the file can't be written. The result is then only shown once.
pub fn save(data_folder: &Path, benchmark: &Benchmark) -> io::Result<()> {
    if !benchmark.is_plausible() {
        return Ok(());
    }
    let mut benchmarks = read(data_folder);
    benchmarks.retain(|other| other.key() != benchmark.key());
    benchmarks.insert(0, benchmark.clone().with_windows(MAX_WINDOWS));
    benchmarks.truncate(MAX_RESULTS);
    let mut contents = Contents {
        version: VERSION,
        benchmarks,
    };
    let text = loop {
        let text = serde_json::to_vec(&contents)?;
        if text.len() as u64 <= MAX_BYTES || contents.benchmarks.pop().is_none() {
            break text;
        }
    };
    transom_files::replace(&data_folder.join(FILE_NAME), &text)
}

/// Returns the result as a person may pass it on: without the path of a model that has no other id.
pub fn exported(benchmark: &Benchmark) -> Benchmark {
    let mut exported = benchmark.clone();
    if is_path(&exported.model_id) {
        exported.model_id.clone_from(&exported.model);
    }
    exported
}

impl Library {
    /// Returns a benchmark of `model` on this machine that ended now.
    pub fn benchmark(&self, model: &InstalledModel, measured: Measured) -> Benchmark {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Benchmark {
            model_id: self.id_of(model),
            model: model.title(&self.catalog),
            chip: self.machine.chip_name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ended_at: now.map_or(0, |time| time.as_secs()),
            measured,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;
    use crate::test_support::{computer, install, library};

    /// The speed of a model in windows of ten seconds, which is also its number.
    fn speed(model_id: &str, speed: f64, n_windows: usize) -> Benchmark {
        let window = |index: usize| {
            json!({ "start_seconds": index * 10, "seconds": 10, "tokens": speed * 10.0,
                "tokens_per_second": speed, "thermal": "nominal", "limits": [], "joules": null })
        };
        let windows: Vec<Value> = (0..n_windows).map(window).collect();
        let settings = json!({ "stored_as": "4-bit", "computed_as": "f16", "context_length": 1024,
            "prompt_tokens": 64, "generate_tokens": 256, "temperature": 0.0, "speculation": false,
            "weight_bytes": null, "kv_cache_bytes": null, "budget_bytes": 8_000_000_000_u64 });
        let form = json!({ "model": "m", "engine": "MLX", "settings": settings, "windows": windows,
            "minutes": [], "throttling": null, "energy": null, "prediction": null });
        serde_json::from_value(json!({
            "model_id": model_id, "model": "A Model", "chip": "", "version": "0.1.0", "ended_at": 1,
            "measured": { "kind": "sustained", "forms": [form] },
        }))
        .unwrap()
    }

    fn ids(data_folder: &Path) -> Vec<String> {
        let read = read(data_folder);
        read.into_iter().map(|one| one.model_id).collect()
    }

    #[test]
    fn the_last_result_of_a_model_replaces_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), []);
        for one in [speed("a", 1.0, 2), speed("b", 2.0, 2), speed("a", 3.0, 2)] {
            save(folder.path(), &one).unwrap();
        }
        assert_eq!(
            read(folder.path()),
            [speed("a", 3.0, 2), speed("b", 2.0, 2)]
        );
        save(folder.path(), &speed("c", 1.0, 0)).unwrap();
        assert_eq!(ids(folder.path()), ["a", "b"], "nothing was measured");
    }

    #[test]
    fn the_file_has_limits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        for index in 0..MAX_RESULTS + 3 {
            save(folder.path(), &speed(&index.to_string(), 1.0, 1)).unwrap();
        }
        let read = read(folder.path());
        assert_eq!(read.len(), MAX_RESULTS);
        assert_eq!(read[0].model_id, (MAX_RESULTS + 2).to_string());
        // The oldest make room for a long one.
        let mut long = speed("long", 1.0, 1000);
        long.chip = "x".repeat(MAX_BYTES as usize - 20_000);
        save(folder.path(), &long).unwrap();
        assert!(fs::metadata(&path).unwrap().len() <= MAX_BYTES);
        let kept = ids(folder.path());
        assert!(
            kept[0] == "long" && (2..MAX_RESULTS).contains(&kept.len()),
            "{kept:?}"
        );
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let newer = format!("{{\"version\":{},\"benchmarks\":[]}}", VERSION + 1);
        for text in ["{\"version\":", &newer, "[]"] {
            fs::write(&path, text).unwrap();
            assert_eq!(read(folder.path()), []);
            let aside = fs::read_to_string(path.with_extension("json.damaged"));
            assert_eq!(aside.unwrap(), text);
            assert!(!path.exists());
        }
        save(folder.path(), &speed("a", 1.0, 1)).unwrap();
        assert_eq!(ids(folder.path()), ["a"]);
    }

    #[test]
    fn numbers_that_no_measurement_has_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &speed("a", 1.0, 1)).unwrap();
        let path = folder.path().join(FILE_NAME);
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("\"tokens_per_second\":1.0", "\"tokens_per_second\":1e99");
        fs::write(&path, text).unwrap();
        assert_eq!(read(folder.path()), []);
        assert!(path.exists(), "the file is not damaged");
    }

    #[test]
    fn a_result_names_its_model_and_an_export_no_path() {
        let root = tempfile::tempdir().unwrap();
        let file = install(root.path(), "owner/tiny-GGUF", "tiny-Q8_0.gguf");
        let library = library(root.path(), computer());
        let model = library.resolve(&file.to_string_lossy()).unwrap();
        let Measured::Sustained { forms } = speed("", 1.0, 1).measured else {
            panic!("it is a speed");
        };
        let made = library.benchmark(&model, Measured::Sustained { forms });
        assert_eq!(made.model_id, "tiny@Q8_0");
        assert_eq!(made.model, model.title(library.catalog()));
        assert!(made.ended_at > 1_700_000_000);
        assert_eq!(exported(&made), made);
        let added = Benchmark {
            model_id: "/people/somebody/own.gguf".to_owned(),
            ..made.clone()
        };
        assert_eq!(exported(&added).model_id, made.model);
    }
}

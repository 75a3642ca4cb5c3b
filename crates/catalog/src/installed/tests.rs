//! Tests of listing models in folders of many layouts.
//!
//! Rule: results depend only on the files in the test's folders.

mod added;
mod at;
mod catalog_entry;
mod hostile;
mod other_apps;
mod remove;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;
use crate::gguf::TensorType;
use crate::test_support::GgufWriter;

const STARTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/starter");

/// A temporary folder with model files. They are empty, unless a test needs valid ones.
struct TestFolder {
    root: tempfile::TempDir,
}

impl TestFolder {
    fn with(files: &[&str]) -> Self {
        let test_folder = Self {
            root: tempfile::tempdir().unwrap(),
        };
        files.iter().for_each(|file| test_folder.put(file));
        test_folder
    }

    fn path(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }

    fn put(&self, file: &str) {
        let path = self.root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    /// Creates a valid folder of safetensors, with a tokenizer.
    fn put_folder(&self, folder: &str) -> PathBuf {
        let path = self.root.path().join(folder);
        fs::create_dir_all(&path).unwrap();
        let config = json!({
            "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
            "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        });
        fs::write(path.join("config.json"), config.to_string()).unwrap();
        fs::write(path.join("tokenizer.json"), "{}").unwrap();
        fs::write(path.join("model.safetensors"), safetensors()).unwrap();
        path
    }

    /// Creates a valid GGUF file.
    fn put_gguf(&self, file: &str) -> PathBuf {
        let path = self.root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, gguf("qwen3")).unwrap();
        path
    }

    /// Copies the starter's safetensors to `folder`.
    fn put_starter(&self, folder: &str) -> PathBuf {
        let folder = self.root.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        for name in ["config.json", "model.safetensors"] {
            fs::copy(Path::new(STARTER).join(name), folder.join(name)).unwrap();
        }
        folder
    }

    /// Returns places with only one folder of another app.
    fn of_app(&self, app: App, folder: &str) -> Places {
        let folder = self.path().join(folder);
        Places {
            data_folder: Some(self.path().join("data")),
            app_folders: vec![AppFolder { app, folder }],
            ..Places::default()
        }
    }

    fn places(&self, added: &[&str]) -> Places {
        Places {
            executable: Some(self.path().join("bin/transom")),
            data_folder: Some(self.path().join("data")),
            added: added.iter().map(|path| self.path().join(path)).collect(),
            app_folders: Vec::new(),
        }
    }

    /// Returns each model as `name: paths below the root`.
    fn list(&self, added: &[&str]) -> Vec<String> {
        let root = self.path();
        let below = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
        let models = list(&self.places(added)).into_iter();
        let lines = models.map(|model| {
            let paths: Vec<String> = model.files.paths.iter().map(below).collect();
            format!("{}: {}", model.name(), paths.join(" "))
        });
        lines.collect()
    }
}

#[test]
fn the_starter_is_found_in_every_layout() {
    let check = |starter: &str, executable: &str, is_found: bool| {
        let test_folder = TestFolder::with(&[&format!("{starter}/config.json")]);
        let found = starter_near(&test_folder.path().join(executable));
        let expected = is_found.then(|| test_folder.path().join(starter));
        assert_eq!(found, expected, "{starter}");
    };
    check("assets/starter", "transom", true);
    check("assets/starter", "target/release/transom", true);
    check(
        "Transom.app/Contents/Resources/assets/starter",
        "Transom.app/Contents/MacOS/transom",
        true,
    );
    check("usr/lib/transom/assets/starter", "usr/bin/transom", true);
    check("elsewhere/assets/starter", "bin/transom", false);
}

/// Returns a safetensors file with one tensor.
fn safetensors() -> Vec<u8> {
    let header = json!({"w": {"dtype": "F16", "shape": [8], "data_offsets": [0, 16]}}).to_string();
    let length = (header.len() as u64).to_le_bytes();
    [&length, header.as_bytes(), &[0; 16]].concat()
}

/// Returns a GGUF file with one tensor and the numbers of a small model.
fn gguf(architecture: &str) -> Vec<u8> {
    let mut writer = GgufWriter::new();
    writer
        .string("general.architecture", architecture)
        .u32(&format!("{architecture}.block_count"), 2)
        .u32(&format!("{architecture}.embedding_length"), 64)
        .u32(&format!("{architecture}.attention.head_count"), 4)
        .tensor("w", &[8], TensorType::F32, vec![0; 32]);
    let mut bytes = std::io::Cursor::new(Vec::new());
    writer.write(&mut bytes).unwrap();
    bytes.into_inner()
}

/// Returns the names and repositories of the models in `places`.
fn named(places: &Places) -> Vec<String> {
    let models = list(places).into_iter();
    let named = models.map(|model| {
        let repository = model.repository.as_deref().unwrap_or("nowhere");
        format!("{} of {repository}", model.name())
    });
    named.collect()
}

#[test]
fn the_starter_comes_first_and_the_others_are_sorted_by_name() {
    let test_folder = TestFolder::with(&[
        "assets/starter/config.json",
        "data/models/b.gguf",
        "data/models/Alpha/config.json",
        "data/models/owner/C/config.json",
        "data/models/owner/C/model.safetensors",
        "data/models/owner/a/a-Q4.gguf",
        "elsewhere/Z.gguf",
    ]);
    let expected = [
        "starter: assets/starter",
        "a-Q4: data/models/owner/a/a-Q4.gguf",
        "Alpha: data/models/Alpha",
        "b: data/models/b.gguf",
        "C: data/models/owner/C",
        "Z: elsewhere/Z.gguf",
    ];
    assert_eq!(test_folder.list(&["elsewhere/Z.gguf"]), expected);
    assert_eq!(
        test_folder.list(&["elsewhere"]),
        expected,
        "a folder of models"
    );
    assert_eq!(
        test_folder.list(&["elsewhere", "elsewhere/Z.gguf", "data/models/b.gguf"]),
        expected,
        "each once"
    );
    let models = list(&test_folder.places(&["elsewhere"]));
    assert_eq!(models[0].origin, Origin::Starter);
    assert_eq!(models[1].origin, Origin::ModelsFolder);
    let path = test_folder.path().join("elsewhere");
    assert_eq!(models[5].origin, Origin::Added { path });
}

#[test]
fn files_that_are_no_models_or_too_deep_are_not_listed() {
    let test_folder = TestFolder::with(&[
        "data/models/README.md",
        "data/models/.cache/x.gguf",
        "data/models/a/b/c/d/deep.gguf",
        "data/models/mmproj-a.gguf",
        "data/models/lost-00002-of-00002.gguf",
    ]);
    assert_eq!(test_folder.list(&[]), Vec::<String>::new());
    assert_eq!(list(&Places::default()), [], "no places to search");
}

#[test]
fn a_repository_of_files_is_several_models_and_a_split_one_is_one_model() {
    let test_folder = TestFolder::with(&[
        "data/models/owner/M-GGUF/config.json",
        "data/models/owner/M-GGUF/M-Q4_K_M.gguf",
        "data/models/owner/M-GGUF/M-Q8_0-00001-of-00002.gguf",
        "data/models/owner/M-GGUF/M-Q8_0-00002-of-00002.gguf",
    ]);
    let expected = [
        "M-Q4_K_M: data/models/owner/M-GGUF/M-Q4_K_M.gguf",
        "M-Q8_0: data/models/owner/M-GGUF/M-Q8_0-00001-of-00002.gguf",
    ];
    assert_eq!(test_folder.list(&[]), expected);
}

#[test]
fn a_model_that_cannot_be_used_is_listed_with_its_problem() {
    let test_folder = TestFolder::with(&[
        "data/models/empty.gguf",
        "data/models/half/config.json",
        "notes/README.md",
    ]);
    let models = list(&test_folder.places(&["gone/away.gguf", "notes"]));
    let problem = |name: &str| {
        let model = models.iter().find(|model| model.name() == name).unwrap();
        model.facts.clone().unwrap_err().to_string()
    };
    assert_eq!(models.len(), 4, "{models:?}");
    assert!(problem("empty").contains("empty.gguf"));
    assert!(problem("half").contains("half"));
    assert!(problem("away").contains("name a GGUF file or a model folder"));
    assert!(problem("notes").contains("config.json"));
}

#[test]
fn facts_sizes_and_formats_are_those_of_the_files() {
    let test_folder = TestFolder::with(&[]);
    let folder = test_folder.put_starter("data/models/Copy");
    let models = list(&test_folder.places(&[]));
    let [model] = models.as_slice() else {
        panic!("{models:?}");
    };
    let facts = model.facts.as_ref().unwrap();
    assert_eq!(facts.architecture, "qwen3");
    assert_eq!(facts.quantization(), "4-bit");
    assert_eq!(model.id, folder.canonicalize().unwrap());
    assert_eq!(model.formats(), [Format::Safetensors]);
    let sizes = ["config.json", "model.safetensors"];
    let sizes = sizes.map(|name| folder.join(name).metadata().unwrap().len());
    assert_eq!(model.size_bytes, sizes.iter().sum::<u64>());
}

#[test]
fn headers_are_read_again_only_if_a_file_changes() {
    let test_folder = TestFolder::with(&[]);
    let folder = test_folder.put_starter("data/models/Copy");
    let facts = || list(&test_folder.places(&[]))[0].facts.clone();
    let first = facts().unwrap();
    assert!(Arc::ptr_eq(&first, &facts().unwrap()), "remembered");
    let weights = folder.join("model.safetensors");
    let whole = fs::read(&weights).unwrap();
    fs::write(&weights, &whole[..whole.len() / 2]).unwrap();
    let problem = facts().unwrap_err().to_string();
    assert!(problem.contains("cut short"), "{problem}");
    fs::write(&weights, &whole).unwrap();
    assert_eq!(facts().unwrap(), first);
}

#[cfg(unix)]
#[test]
fn models_behind_several_links_are_listed_once_and_link_cycles_end() {
    use std::os::unix::fs::symlink;
    let test_folder = TestFolder::with(&["elsewhere/m/config.json", "data/models/x.gguf"]);
    let models = test_folder.path().join("data/models");
    symlink(
        test_folder.path().join("elsewhere/m"),
        models.join("linked"),
    )
    .unwrap();
    symlink(&models, models.join("circle")).unwrap();
    let expected = ["m: elsewhere/m", "x: data/models/x.gguf"];
    assert_eq!(test_folder.list(&["elsewhere"]), expected);
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_read_counts_as_empty() {
    use std::os::unix::fs::PermissionsExt;
    let test_folder = TestFolder::with(&["data/models/locked/m.gguf", "data/models/n.gguf"]);
    let locked = test_folder.path().join("data/models/locked");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser can read everything.
    let is_readable = locked.read_dir().is_ok();
    let found = test_folder.list(&[]);
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(found.last().unwrap(), "n: data/models/n.gguf");
    assert_eq!(found.len(), if is_readable { 2 } else { 1 });
}

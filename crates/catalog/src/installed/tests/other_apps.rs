//! Tests of model folders of other apps, in the layouts of those apps.
//!
//! Rule: every listed model can be used in place.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::super::other_apps::app_folders_for;
use super::{App, AppFolder, InstalledModel, Origin, TestFolder, gguf, list, named, safetensors};
use crate::facts::Format;

/// Adds a file to a Hugging Face cache: a blob, and a link to it.
fn put(test_folder: &TestFolder, snapshot: &str, name: &str, blob: &str, bytes: &[u8]) {
    let snapshot = test_folder.path().join(snapshot);
    let blobs = snapshot.join("../../blobs");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(blob), bytes).unwrap();
    let link = snapshot.join(name);
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    let up = "../".repeat(2 + name.matches('/').count());
    symlink(format!("{up}blobs/{blob}"), link).unwrap();
}

const CONFIG: &str = r#"{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}"#;

/// Adds a complete safetensors model to a snapshot.
fn put_model(test_folder: &TestFolder, snapshot: &str) {
    let commit = snapshot.rsplit('/').next().unwrap();
    let blob = |name: &str| format!("{name}-{commit}");
    put(
        test_folder,
        snapshot,
        "config.json",
        &blob("c"),
        CONFIG.as_bytes(),
    );
    put(test_folder, snapshot, "tokenizer.json", &blob("t"), b"{}");
    put(
        test_folder,
        snapshot,
        "model.safetensors",
        &blob("w"),
        &safetensors(),
    );
}

fn branch(test_folder: &TestFolder, repository: &str, name: &str, commit: &str) {
    let refs = test_folder.path().join(repository).join("refs");
    fs::create_dir_all(&refs).unwrap();
    fs::write(refs.join(name), commit).unwrap();
}

const QWEN: &str = "hub/models--Qwen--Qwen3-0.6B";

#[test]
fn a_snapshot_has_the_name_of_its_repository_and_is_used_in_place() {
    let test_folder = TestFolder::with(&["hub/version.txt", "hub/models--a--b/.no_exist/x"]);
    put_model(&test_folder, &format!("{QWEN}/snapshots/1a2b"));
    branch(&test_folder, QWEN, "main", "1a2b");
    let places = test_folder.of_app(App::HuggingFace, "hub");
    assert_eq!(named(&places), ["Qwen3-0.6B of Qwen/Qwen3-0.6B"]);
    let models = list(&places);
    let app = App::HuggingFace;
    assert_eq!(models[0].origin, Origin::OtherApp { app });
    assert_eq!(
        models[0].id,
        test_folder.path().join(QWEN).join("snapshots/1a2b")
    );
    assert!(models[0].size_bytes > 64, "of the link targets");
    // Its path finds the same model.
    let path = models[0].id.clone();
    let by_path = InstalledModel::at(&path, Origin::Added { path: path.clone() }).unwrap();
    assert_eq!(by_path.name(), "Qwen3-0.6B");
    assert_eq!(by_path.repository, models[0].repository);
}

#[test]
fn gguf_files_of_a_cache_have_their_file_names_and_are_listed_once() {
    let test_folder = TestFolder::with(&[]);
    let repository = "hub/models--o--M-GGUF";
    for commit in ["new", "old"] {
        let snapshot = format!("{repository}/snapshots/{commit}");
        put(
            &test_folder,
            &snapshot,
            "M-Q8_0.gguf",
            &format!("b-{commit}"),
            &gguf("qwen3"),
        );
        put(
            &test_folder,
            &snapshot,
            "mmproj-M.gguf",
            &format!("p-{commit}"),
            &gguf("clip"),
        );
    }
    let old = format!("{repository}/snapshots/old");
    put(
        &test_folder,
        &old,
        "sub/M-Q4_K_M.gguf",
        "b4",
        &gguf("qwen3"),
    );
    branch(&test_folder, repository, "main", "new\n");
    let places = test_folder.of_app(App::HuggingFace, "hub");
    let expected = ["M-Q4_K_M of o/M-GGUF", "M-Q8_0 of o/M-GGUF"];
    assert_eq!(named(&places), expected);
    let newest = &list(&places)[1];
    assert!(
        newest.id.ends_with("snapshots/new/M-Q8_0.gguf"),
        "{newest:?}"
    );
}

#[test]
fn incomplete_downloads_are_not_listed() {
    let test_folder = TestFolder::with(&[]);
    let snapshot = |name: &str| format!("hub/models--o--{name}/snapshots/1");
    let places = test_folder.of_app(App::HuggingFace, "hub");
    for name in ["dangling", "index", "part", "tokenizer", "empty", "cut"] {
        put_model(&test_folder, &snapshot(name));
    }
    assert_eq!(named(&places).len(), 6);
    let path = |name: &str, file: &str| test_folder.path().join(snapshot(name)).join(file);
    fs::remove_file(test_folder.path().join("hub/models--o--dangling/blobs/w-1")).unwrap();
    let index = br#"{"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}"#;
    put(
        &test_folder,
        &snapshot("index"),
        "model.safetensors.index.json",
        "i",
        index,
    );
    let weights = path("part", "model.safetensors");
    fs::rename(weights, path("part", "model-00001-of-00002.safetensors")).unwrap();
    fs::remove_file(path("tokenizer", "tokenizer.json")).unwrap();
    fs::remove_file(path("empty", "model.safetensors")).unwrap();
    let cut = test_folder.path().join("hub/models--o--cut/blobs/w-1");
    fs::write(cut, &safetensors()[..40]).unwrap();
    assert_eq!(named(&places), Vec::<String>::new());
    // The remaining files arrive.
    put(
        &test_folder,
        &snapshot("index"),
        "model-2.safetensors",
        "w2",
        &safetensors(),
    );
    let second = "model-00002-of-00002.safetensors";
    put(
        &test_folder,
        &snapshot("part"),
        second,
        "w2",
        &safetensors(),
    );
    assert_eq!(named(&places), ["index of o/index", "part of o/part"]);
}

#[test]
fn an_incomplete_snapshot_does_not_hide_a_complete_one() {
    let test_folder = TestFolder::with(&[]);
    put_model(&test_folder, &format!("{QWEN}/snapshots/old"));
    put(
        &test_folder,
        &format!("{QWEN}/snapshots/new"),
        "config.json",
        "c",
        CONFIG.as_bytes(),
    );
    branch(&test_folder, QWEN, "main", "new");
    let models = list(&test_folder.of_app(App::HuggingFace, "hub"));
    assert_eq!(models.len(), 1, "{models:?}");
    assert!(models[0].id.ends_with("old"));
    put_model(&test_folder, &format!("{QWEN}/snapshots/other"));
    branch(&test_folder, QWEN, "main", "other");
    let models = list(&test_folder.of_app(App::HuggingFace, "hub"));
    assert_eq!(models.len(), 1, "the older snapshot is not listed as well");
    assert!(models[0].id.ends_with("other"));
}

#[test]
fn models_for_speech_images_and_search_are_not_listed() {
    let test_folder = TestFolder::with(&[]);
    let configs = [
        ("bert", r#"{"architectures": ["BertModel"]}"#),
        (
            "whisper",
            r#"{"architectures": ["WhisperForConditionalGeneration"], "is_encoder_decoder": true}"#,
        ),
        ("clip", r#"{"architectures": ["CLIPModel"]}"#),
    ];
    for (name, config) in configs {
        let snapshot = format!("hub/models--o--{name}/snapshots/1");
        put_model(&test_folder, &snapshot);
        let blob = test_folder
            .path()
            .join(format!("hub/models--o--{name}/blobs/c-1"));
        fs::write(blob, config).unwrap();
    }
    assert_eq!(
        named(&test_folder.of_app(App::HuggingFace, "hub")),
        Vec::<String>::new()
    );
}

#[test]
fn models_of_lm_studio_are_identified_by_their_folders() {
    let test_folder =
        TestFolder::with(&["lms/o/broken-GGUF/broken.gguf", "lms/o/M-GGUF/M.gguf.part"]);
    test_folder.put_gguf("lms/o/M-GGUF/M-Q4_K_M.gguf");
    test_folder.put_gguf("lms/o/M-GGUF/mmproj-M-f16.gguf");
    test_folder.put_folder("lms/mlx-community/M-4bit");
    let half = test_folder.put_folder("lms/mlx-community/Half");
    fs::write(
        half.join("model.safetensors.index.json"),
        r#"{"weight_map": {"a": "b"}}"#,
    )
    .unwrap();
    let expected = ["M-4bit of mlx-community/M-4bit", "M-Q4_K_M of o/M-GGUF"];
    assert_eq!(named(&test_folder.of_app(App::LmStudio, "lms")), expected);
}

#[test]
fn names_in_llama_cpps_flat_cache_are_split_with_its_manifests() {
    let test_folder = TestFolder::with(&[
        "cache/manifest=o=M-GGUF=latest.json",
        "cache/manifest=o_x=M_2=Q8_0.json",
        "cache/o_M-GGUF_M-Q4_K_M.gguf.downloadInProgress",
    ]);
    test_folder.put_gguf("cache/o_M-GGUF_M-Q4_K_M.gguf");
    test_folder.put_gguf("cache/o_M-GGUF_mmproj-M-Q8_0.gguf");
    test_folder.put_gguf("cache/o_x_M_2_N-Q8_0.gguf");
    test_folder.put_gguf("cache/by-address.gguf");
    let expected = [
        "by-address of nowhere",
        "M-Q4_K_M of o/M-GGUF",
        "N-Q8_0 of o_x/M_2",
    ];
    assert_eq!(named(&test_folder.of_app(App::LlamaCpp, "cache")), expected);
    // Current llama.cpp uses the layout of the Hugging Face cache.
    put_model(&test_folder, "cache/models--o--New/snapshots/1");
    assert_eq!(named(&test_folder.of_app(App::LlamaCpp, "cache")).len(), 4);
}

#[test]
fn a_model_behind_links_in_several_folders_is_listed_once_and_as_ours() {
    let test_folder = TestFolder::with(&[]);
    put_model(&test_folder, &format!("{QWEN}/snapshots/1"));
    put(
        &test_folder,
        "hub/models--o--G/snapshots/1",
        "G.gguf",
        "g",
        &gguf("qwen3"),
    );
    fs::create_dir_all(test_folder.path().join("data/models/o/G")).unwrap();
    fs::create_dir_all(test_folder.path().join("lms/o/Linked")).unwrap();
    let blob = test_folder.path().join("hub/models--o--G/blobs/g");
    symlink(&blob, test_folder.path().join("data/models/o/G/mine.gguf")).unwrap();
    let hard = test_folder.path().join("lms/o/Linked/hard.gguf");
    fs::hard_link(&blob, hard).unwrap();
    let mut places = test_folder.of_app(App::HuggingFace, "hub");
    let app = App::LmStudio;
    let folder = test_folder.path().join("lms");
    places.app_folders.push(AppFolder { app, folder });
    assert_eq!(
        named(&places),
        ["mine of o/G", "Qwen3-0.6B of Qwen/Qwen3-0.6B"]
    );
    assert_eq!(list(&places)[0].origin, Origin::ModelsFolder);
}

#[test]
fn models_of_ollama_have_the_names_that_it_shows_and_are_used_in_place() {
    let test_folder = TestFolder::with(&[]);
    let digest = |letter: &str| letter.repeat(64);
    let blob = |letter: &str| format!("ollama/blobs/sha256-{}", digest(letter));
    let put = |tag: &str, layers: &[(&str, String)]| {
        let layers = layers.iter().map(|(kind, digest)| {
            let kind = format!("application/vnd.ollama.image.{kind}");
            json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": 1})
        });
        let layers: Vec<serde_json::Value> = layers.collect();
        let path = test_folder.path().join("ollama/manifests").join(tag);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, json!({ "layers": layers }).to_string()).unwrap();
    };
    for letter in ["a", "b", "c", "d"] {
        test_folder.put_gguf(&blob(letter));
    }
    let library = "registry.ollama.ai/library";
    put(
        &format!("{library}/qwen3/8b"),
        &[("model", digest("a")), ("template", digest("e"))],
    );
    put(
        &format!("{library}/qwen3/latest"),
        &[("model", digest("a"))],
    );
    put(
        "registry.ollama.ai/someone/tuned/latest",
        &[("model", digest("b"))],
    );
    put("hf.co/o/M-GGUF/Q4_K_M", &[("model", digest("c"))]);
    put(
        &format!("{library}/adapted/latest"),
        &[("model", digest("d")), ("adapter", digest("e"))],
    );
    put(
        &format!("{library}/split/latest"),
        &[("model", digest("a")), ("model", digest("b"))],
    );
    put(&format!("{library}/gone/latest"), &[("model", digest("f"))]);
    put(
        &format!("{library}/outside/latest"),
        &[("model", "/../../x".to_owned())],
    );
    test_folder.put("ollama/manifests/registry.ollama.ai/library/empty/latest");

    let places = test_folder.of_app(App::Ollama, "ollama");
    assert_eq!(
        named(&places),
        [
            "hf.co/o/M-GGUF:Q4_K_M of nowhere",
            "qwen3:8b of nowhere",
            "someone/tuned:latest of nowhere"
        ]
    );
    let model = &list(&places)[1];
    assert_eq!(model.id, test_folder.path().join(blob("a")));
    assert_eq!(model.formats(), [Format::Gguf]);
    assert_eq!(
        InstalledModel::of_places(&model.id, &places).as_ref(),
        Ok(model)
    );
}

#[test]
fn missing_folders_and_folders_that_are_no_caches_count_as_empty() {
    let test_folder = TestFolder::with(&[
        "hub/models--odd",
        "hub/models--o--x/snapshots",
        "hub/models--",
        "file",
    ]);
    for app in [App::HuggingFace, App::LmStudio, App::LlamaCpp, App::Ollama] {
        for folder in ["hub", "nowhere", "file"] {
            assert_eq!(
                named(&test_folder.of_app(app, folder)),
                Vec::<String>::new()
            );
        }
    }
}

/// Returns the model folders of apps, with these variables and files in the home folder.
fn found(home: &Path, is_mac: bool, variables: &[(&str, &str)]) -> HashMap<App, Vec<PathBuf>> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(other, _)| *other == name)?;
        Some(OsString::from(found.1))
    };
    let mut folders: HashMap<App, Vec<PathBuf>> = HashMap::new();
    for one in app_folders_for(Some(home), is_mac, &variable) {
        folders.entry(one.app).or_default().push(one.folder);
    }
    folders
}

#[test]
fn caches_are_where_variables_say_else_in_the_default_places() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let hub = |variables: &[(&str, &str)]| found(home, false, variables)[&App::HuggingFace].clone();
    assert_eq!(hub(&[]), [home.join(".cache/huggingface/hub")]);
    assert_eq!(
        hub(&[("XDG_CACHE_HOME", "/c")]),
        [Path::new("/c/huggingface/hub")]
    );
    assert_eq!(
        hub(&[("HF_HOME", "/h"), ("XDG_CACHE_HOME", "/c")]),
        [Path::new("/h/hub")]
    );
    assert_eq!(hub(&[("HF_HOME", "~/h")]), [home.join("h/hub")]);
    assert_eq!(
        hub(&[("HF_HOME", "/h"), ("HF_HUB_CACHE", "/k")]),
        [Path::new("/k")]
    );
    assert_eq!(
        hub(&[("HF_HUB_CACHE", "")]),
        [home.join(".cache/huggingface/hub")]
    );
    let llama =
        |is_mac, variables: &[(&str, &str)]| found(home, is_mac, variables)[&App::LlamaCpp].clone();
    assert_eq!(llama(false, &[]), [home.join(".cache/llama.cpp")]);
    assert_eq!(llama(true, &[]), [home.join("Library/Caches/llama.cpp")]);
    assert_eq!(llama(true, &[("LLAMA_CACHE", "/l")]), [Path::new("/l")]);
    let ollama = |variables: &[(&str, &str)]| found(home, true, variables)[&App::Ollama].clone();
    assert_eq!(ollama(&[]), [home.join(".ollama/models")]);
    assert_eq!(ollama(&[("OLLAMA_MODELS", "/o")]), [Path::new("/o")]);
    assert_eq!(app_folders_for(None, false, &|_| None), []);
}

#[test]
fn lm_studios_folders_are_the_one_in_its_settings_and_the_default_ones() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let folders = |is_mac| found(home, is_mac, &[])[&App::LmStudio].clone();
    let usual = [
        home.join(".lmstudio/models"),
        home.join(".cache/lm-studio/models"),
    ];
    assert_eq!(folders(false), usual);
    let settings = home.join("Library/Application Support/LM Studio");
    fs::create_dir_all(&settings).unwrap();
    fs::write(
        settings.join("settings.json"),
        r#"{"downloadsFolder": "/Volumes/Big/models"}"#,
    )
    .unwrap();
    assert_eq!(folders(true)[0], Path::new("/Volumes/Big/models"));
    assert_eq!(folders(false), usual, "not a Mac");
    fs::write(home.join(".lmstudio-home-pointer"), "/elsewhere/lms\n").unwrap();
    assert_eq!(folders(false)[0], Path::new("/elsewhere/lms/models"));
    fs::write(settings.join("settings.json"), "{").unwrap();
    assert_eq!(folders(true)[0], Path::new("/elsewhere/lms/models"));
}

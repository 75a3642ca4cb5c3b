//! Fuzz target that reads arbitrary bytes as a model folder: `config.json`, then after a zero byte the
//! safetensors file. See `../README.md`.
#![no_main]

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use transom_catalog::{KvType, safetensors};

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = env::temp_dir().join("transom-fuzz-model-folder");
    fs::create_dir_all(&folder).expect("the folder can be made");
    folder
});

fuzz_target!(|bytes: &[u8]| {
    let mut files = bytes.splitn(2, |&byte| byte == 0);
    for name in ["config.json", "model.safetensors"] {
        let contents = files.next().unwrap_or_default();
        fs::write(FOLDER.join(name), contents).expect("the file can be written");
    }
    if let Ok(facts) = safetensors::facts(&FOLDER) {
        for kind in [KvType::F16, KvType::Q8_0] {
            let _ = facts.kv_cache_bytes(facts.context_length.unwrap_or(u64::MAX), kind);
        }
    }
});

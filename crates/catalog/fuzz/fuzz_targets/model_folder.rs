//! Fuzz target that reads arbitrary bytes as a model folder: `config.json`, then after a zero byte the
//! safetensors file. See `../README.md`.
#![no_main]

use std::env;
use std::fs;

use libfuzzer_sys::fuzz_target;
use transom_catalog::{KvType, safetensors};

fuzz_target!(|bytes: &[u8]| {
    let folder = env::temp_dir().join("transom-fuzz-model-folder");
    fs::create_dir_all(&folder).expect("the folder can be made");
    let mut files = bytes.splitn(2, |&byte| byte == 0);
    for name in ["config.json", "model.safetensors"] {
        let contents = files.next().unwrap_or_default();
        fs::write(folder.join(name), contents).expect("the file can be written");
    }
    if let Ok(facts) = safetensors::facts(&folder) {
        for kind in [KvType::F16, KvType::Q8_0] {
            let _ = facts.kv_cache_bytes(facts.context_length.unwrap_or(u64::MAX), kind);
        }
    }
});

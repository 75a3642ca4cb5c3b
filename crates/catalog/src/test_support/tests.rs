use std::fs;

use super::*;
use crate::gguf::GgufFile;
use crate::{KvType, inspect};

fn every_quantization() -> [Quantization; 4] {
    use Quantization::*;
    [F32, F16, Q8_0, Q4_1]
}

fn small(architecture: &'static str) -> TinyModel {
    TinyModel {
        architecture,
        n_layers: 1,
        ..TinyModel::default()
    }
}

#[test]
fn every_family_and_quantization_is_a_valid_file() {
    let families = ["llama", "qwen2", "qwen3", "gemma3"].map(|family| (family, Quantization::F16));
    let quantizations = every_quantization().map(|quantization| ("llama", quantization));
    for (architecture, quantization) in families.into_iter().chain(quantizations) {
        let model = TinyModel {
            quantization,
            ..small(architecture)
        };
        let facts = inspect(&model.write_temporary().path).unwrap();
        assert_eq!(facts.architecture, architecture);
        assert_eq!((facts.n_layers, facts.vocab_size), (Some(1), Some(16_384)));
        assert!(facts.chat_template.is_some());
        assert!(facts.kv_cache_bytes(2048, KvType::F16).is_some());
    }
}

#[test]
fn equal_specifications_give_equal_files_and_other_seeds_do_not() {
    let bytes = |seed| {
        let model = TinyModel {
            seed,
            ..small("llama")
        };
        fs::read(model.write_temporary().path).unwrap()
    };
    let (one, again, other) = (bytes(1), bytes(1), bytes(2));
    assert!(one == again, "the same model twice differs");
    assert!(one != other, "another seed gives the same model");
    // The same on this machine and on all others.
    assert_eq!(crc32fast::hash(&one), 1_594_912_594);
}

#[test]
fn every_damage_is_an_error() {
    let open = |change: &dyn Fn(&Path)| {
        let model = small("llama").write_temporary();
        change(&model.path);
        GgufFile::open(&model.path)
    };
    let message = |change: &dyn Fn(&Path)| open(change).unwrap_err().to_string();
    assert!(message(&|path| damage::truncate(path, 1000)).contains("cut short"));
    assert!(message(&damage::truncate_in_tensors).contains("cut short"));
    assert!(message(&damage::magic).contains("not a GGUF file"));
    let file = open(&damage::architecture).unwrap();
    let view = file.view().unwrap();
    let name = view.get("general.architecture").unwrap();
    assert_eq!(name.as_str(), Some("xxxxx"));
    let file = open(&|path| damage::rename_tensor(path, "blk.0.ffn_up.weight")).unwrap();
    let view = file.view().unwrap();
    assert!(
        view.tensors()
            .any(|tensor| tensor.name == "Xlk.0.ffn_up.weight")
    );
}

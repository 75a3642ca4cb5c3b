//! Opens a GGUF model and checks its headers.

use std::path::Path;

use transom_catalog::gguf::{GgufModel, TensorInfo};
use transom_catalog::{FaultCode, FileError, KvType, LayerKind, ModelFacts};
use transom_engine::{EngineError, SamplingParams, UnsupportedFeature};

/// Architectures whose layers rotate keys differently or not at all, which llama.cpp respects in its
/// forward pass but not in a shift.
const MIXED_ROTATION: [&str; 13] = [
    "afmoe",
    "cohere2",
    "cohere2moe",
    "dots3note",
    "exaone-moe",
    "exaone4",
    "llama4",
    "maple",
    "mellum",
    "muse-glimmer",
    "olmo2",
    "smallthinker",
    "smollm3",
];

/// The factors for long texts of LongRoPE.
const LONG_FACTORS: &str = "rope_factors_long.weight";

#[derive(Debug)]
pub(crate) struct ModelFiles {
    pub(crate) files: GgufModel,
    pub(crate) facts: ModelFacts,
}

impl ModelFiles {
    /// Opens a model by the path of its file, or of any part of a split model.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Unsupported`] for files that are not GGUF;
    /// [`EngineError::BadFile`] for damaged ones.
    pub(crate) fn open(path: &Path) -> Result<Self, EngineError> {
        check_file(path)?;
        let files = GgufModel::open(path).map_err(engine_error)?;
        let facts = files.facts().map_err(engine_error)?;
        Ok(Self { files, facts })
    }

    /// Returns the file for llama.cpp, which finds the other parts by itself.
    pub(crate) fn first_path(&self) -> &Path {
        self.files.first().path()
    }

    /// Returns the display name: the file name without the number of its part.
    pub(crate) fn name(&self) -> String {
        let stem = self.first_path().file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy();
        let unnumbered = stem.split("-00001-of-").next().unwrap_or(&stem);
        unnumbered.to_owned()
    }

    /// Returns how the weights are stored, such as `Q4_K and Q6_K`: the types of all but small
    /// tensors.
    pub(crate) fn stored_as(&self) -> String {
        let notable = self.facts.weight_bytes / 20;
        let mix = self.facts.mix.iter();
        let kinds = mix.filter(|packed| packed.bytes >= notable);
        let kinds: Vec<&str> = kinds.map(|packed| packed.kind.as_str()).collect();
        kinds.join(" and ")
    }

    /// Returns the special tokens of the file by their names in chat templates. llama.cpp invents
    /// ids for tokens that the file does not name; templates must not get those.
    pub(crate) fn special_tokens(&self) -> Vec<(&'static str, u32)> {
        let Ok(view) = self.files.first().view() else {
            return Vec::new();
        };
        let id = |(name, key): (&'static str, &str)| {
            let id = view.get(&format!("tokenizer.ggml.{key}_token_id"))?;
            Some((name, u32::try_from(id.as_u64()?).ok()?))
        };
        let known = [
            ("bos_token", "bos"),
            ("eos_token", "eos"),
            ("pad_token", "padding"),
            ("unk_token", "unknown"),
        ];
        known.into_iter().filter_map(id).collect()
    }

    /// Returns true if the KV cache can be shifted. `sliding_window` is the window that llama.cpp
    /// uses; 0 if there is none.
    ///
    /// A shift rotates keys. llama.cpp has one cache for the layers with a sliding window and one
    /// for the others, and aborts the process if a cache has no layer whose keys rotate. In the
    /// architectures of [`MIXED_ROTATION`], it would rotate keys that must not be.
    pub(crate) fn can_shift(&self, sliding_window: usize, kind: KvType) -> bool {
        let has = |kind| self.facts.n_layers_of(kind) > 0;
        let fills_both_caches = has(LayerKind::Full) && has(LayerKind::Sliding);
        (sliding_window == 0 || fills_both_caches)
            && !self.has_layers_without_rotation()
            && (kind == KvType::F16 || self.rotates_whole_parts())
    }

    /// Returns true if llama.cpp can rotate keys that are stored with fewer bits. It stores these
    /// multiplied with a Hadamard matrix, part by part of a head, each of the largest power of two
    /// that divides its size, but at least 64. A shift undoes that in the values that rotate: it
    /// crashes if there is no such matrix, and mixes heads if a part has other values too.
    fn rotates_whole_parts(&self) -> bool {
        let Ok(view) = self.files.first().view() else {
            return false;
        };
        let architecture = &self.facts.architecture;
        let number = |name: &str| view.get(&format!("{architecture}.rope.{name}"))?.as_u64();
        let size = self.facts.key_length;
        let n_rotated = number("dimension_count").or(size);
        let sliding_size = self.facts.sliding_key_length.or(size);
        let n_sliding = number("dimension_count_swa").or(n_rotated);
        let heads = [(size, n_rotated), (sliding_size, n_sliding)];
        heads.into_iter().all(|(size, n_rotated)| {
            let part = size.filter(|size| *size > 0);
            let part = part.map_or(1, |size| 1 << size.trailing_zeros());
            part >= 64 && n_rotated.is_some_and(|n| n % part == 0)
        })
    }

    /// Returns true if the keys of some or all layers do not rotate. Only the files of Granite models
    /// say so.
    fn has_layers_without_rotation(&self) -> bool {
        let architecture = &self.facts.architecture;
        if MIXED_ROTATION.contains(&architecture.as_str()) {
            return true;
        }
        let Ok(view) = self.files.first().view() else {
            return false;
        };
        let value = |name: &str| view.get(&format!("{architecture}.{name}"));
        let rotates = value("rope.scaling.finetuned").and_then(|value| value.as_bool());
        architecture.starts_with("granite")
            && (rotates == Some(false) || value("attention.rope_pattern").is_some())
    }

    /// Returns the entry with the model's original context length if the keys must be rotated with the
    /// factors for long texts (LongRoPE), because the context may get longer than that.
    ///
    /// llama.cpp chooses the factors by the size of the cache. A cache that grows would keep keys that
    /// were rotated with other factors, so that the entry must not count.
    pub(crate) fn original_context_entry(&self, context_length: usize) -> Option<String> {
        let mut has_factors = false;
        let visit = |tensor: &TensorInfo<'_>| has_factors |= tensor.name == LONG_FACTORS;
        self.files.for_each_tensor(visit).ok()?;
        let architecture = &self.facts.architecture;
        let key = format!("{architecture}.rope.scaling.original_context_length");
        let original = self.files.first().view().ok()?.get(&key)?.as_u64()?;
        (has_factors && context_length as u64 > original).then_some(key)
    }

    /// Returns the sampling parameters that the file recommends, with defaults for the others. If a
    /// value is out of range, all are ignored.
    pub(crate) fn recommended_sampling(&self, vocab_size: usize) -> SamplingParams {
        let default = SamplingParams::default();
        let Ok(view) = self.files.first().view() else {
            return default;
        };
        let value = |name: &str| view.get(&format!("general.sampling.{name}"));
        let number = |name: &str, default: f32| {
            let value = value(name).and_then(|value| value.as_f64());
            value.map_or(default, |value| value as f32)
        };
        let top_k = value("top_k").and_then(|value| usize::try_from(value.as_u64()?).ok());
        let recommended = SamplingParams {
            temperature: number("temp", default.temperature),
            top_k: top_k.unwrap_or(default.top_k),
            top_p: number("top_p", default.top_p),
            min_p: number("min_p", default.min_p),
            repetition_penalty: number("penalty_repeat", default.repetition_penalty),
            ..default.clone()
        };
        match recommended.validate(vocab_size) {
            Ok(()) => recommended,
            Err(reason) => {
                tracing::warn!(%reason, "the file's recommended sampling is ignored");
                default
            }
        }
    }
}

fn check_file(path: &Path) -> Result<(), EngineError> {
    if path.is_dir() {
        let reason = "a folder; this engine runs single GGUF files";
        let feature = UnsupportedFeature::Format;
        return Err(EngineError::unsupported(path, feature, reason));
    }
    if path.exists() {
        return Ok(());
    }
    Err(EngineError::not_found(path, "model file", "check the path"))
}

fn engine_error(FileError { path, fault }: FileError) -> EngineError {
    match fault.code {
        FaultCode::WrongFormat => {
            EngineError::unsupported(path, UnsupportedFeature::Format, fault.to_string())
        }
        _ => EngineError::bad_file(path, fault),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use transom_catalog::gguf::TensorType;
    use transom_catalog::test_support::GgufWriter;
    use transom_catalog::test_support::convert::{Quantization, convert};

    use super::*;

    /// Returns whether a model of four layers with these further entries can shift F16 keys.
    fn can_shift(
        architecture: &str,
        sliding_window: u32,
        change: impl FnOnce(&mut GgufWriter),
    ) -> bool {
        can_shift_keys(KvType::F16, architecture, sliding_window, change)
    }

    fn can_shift_keys(
        kind: KvType,
        architecture: &str,
        sliding_window: u32,
        change: impl FnOnce(&mut GgufWriter),
    ) -> bool {
        let mut writer = GgufWriter::new();
        writer
            .string("general.architecture", architecture)
            .u32(&format!("{architecture}.block_count"), 4);
        if sliding_window > 0 {
            let key = format!("{architecture}.attention.sliding_window");
            writer.u32(&key, sliding_window);
        }
        change(&mut writer);
        let f32 = TensorType::from_number(0).unwrap();
        writer.tensor("output_norm.weight", &[256], f32, vec![0; 1024]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        writer.write(&mut fs::File::create(&path).unwrap()).unwrap();
        let files = ModelFiles::open(&path).unwrap();
        files.can_shift(sliding_window as usize, kind)
    }

    #[test]
    fn a_model_shifts_if_keys_of_both_kinds_of_layers_rotate() {
        assert!(can_shift("llama", 0, |_| ()));
        assert!(!can_shift("smollm3", 0, |_| ()), "every fourth layer");
        assert!(can_shift("gpt-oss", 128, |_| ()), "every second layer");
        assert!(!can_shift("gemma3", 512, |_| ()), "the first five layers");
        let pattern = |each| {
            move |writer: &mut GgufWriter| {
                writer.u32("gemma3.attention.sliding_window_pattern", each);
            }
        };
        assert!(can_shift("gemma3", 512, pattern(2)));
        assert!(!can_shift("gemma3", 512, pattern(1)), "no layer has it");
    }

    #[test]
    fn a_model_whose_keys_do_not_rotate_does_not_shift() {
        let rotates = |rotates| {
            move |writer: &mut GgufWriter| {
                writer.bool("granitehybrid.rope.scaling.finetuned", rotates);
            }
        };
        assert!(can_shift("granitehybrid", 0, |_| ()));
        assert!(can_shift("granitehybrid", 0, rotates(true)));
        assert!(!can_shift("granitehybrid", 0, rotates(false)));
        let of_another = |writer: &mut GgufWriter| {
            writer.bool("llama.rope.scaling.finetuned", false);
        };
        assert!(can_shift("llama", 0, of_another));
    }

    #[test]
    fn quantized_keys_are_shifted_if_whole_parts_of_a_head_rotate() {
        for (size, n_rotated, expected) in [
            (64, None, true),
            (128, None, true),
            (192, None, true),
            (576, Some(64), true),
            (32, None, false),
            (80, None, false),
            (96, None, false),
            (128, Some(64), false),
            (128, Some(96), false),
            (192, Some(128), true),
        ] {
            let change = |writer: &mut GgufWriter| {
                writer.u32("glm4.attention.key_length", size);
                if let Some(n_rotated) = n_rotated {
                    writer.u32("glm4.rope.dimension_count", n_rotated);
                }
            };
            assert!(can_shift("glm4", 0, change), "{size}");
            let found = can_shift_keys(KvType::Q8_0, "glm4", 0, change);
            assert_eq!(found, expected, "{n_rotated:?} of {size}");
        }
        let sizes = |writer: &mut GgufWriter| {
            writer.u32("gpt-oss.attention.key_length", 128);
            writer.u32("gpt-oss.attention.key_length_swa", 96);
        };
        assert!(can_shift("gpt-oss", 128, sizes));
        assert!(!can_shift_keys(KvType::Q8_0, "gpt-oss", 128, sizes));
    }

    /// Converts a model with this `generation_config.json` and returns its recommended sampling.
    fn recommended(generation: &str) -> SamplingParams {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine-mlx/tests/fixtures");
        let folder = tempfile::tempdir().unwrap();
        for part in ["tokenizer", "models/qwen3-bf16"] {
            for entry in fs::read_dir(fixtures.join(part)).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
            }
        }
        fs::write(folder.path().join("generation_config.json"), generation).unwrap();
        let path = folder.path().join("model.gguf");
        convert(folder.path(), &path, Quantization::F16).unwrap();
        ModelFiles::open(&path).unwrap().recommended_sampling(272)
    }

    #[test]
    fn sampling_is_what_the_file_recommends() {
        let found = recommended(r#"{"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.05}"#);
        let expected = SamplingParams {
            temperature: 0.6,
            top_k: 20,
            repetition_penalty: 1.05,
            ..SamplingParams::default()
        };
        assert_eq!(found, expected);
        assert_eq!(recommended(r#"{"do_sample": false}"#).temperature, 0.0);
        assert_eq!(recommended("{}"), SamplingParams::default());
    }

    #[test]
    fn a_recommendation_out_of_range_is_ignored() {
        let found = recommended(r#"{"temperature": -1.0, "top_k": 20}"#);
        assert_eq!(found, SamplingParams::default());
    }
}

//! Opens a GGUF model and checks its headers.

use std::path::Path;

use transom_catalog::gguf::GgufModel;
use transom_catalog::{Fault, FileError, ModelFacts};
use transom_engine::{EngineError, SamplingParams};

/// A model's files and metadata.
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
        return Err(EngineError::Unsupported {
            path: path.to_owned(),
            reason: "a folder; this engine runs single GGUF files".to_owned(),
        });
    }
    if path.exists() {
        return Ok(());
    }
    Err(EngineError::NotFound {
        path: path.to_owned(),
        what: "model file".to_owned(),
        hint: "check the path".to_owned(),
    })
}

fn engine_error(FileError { path, fault }: FileError) -> EngineError {
    let reason = fault.to_string();
    match fault {
        Fault::Magic { .. } => EngineError::Unsupported { path, reason },
        _ => EngineError::BadFile { path, reason },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use transom_catalog::convert::{Quantization, convert};

    use super::*;

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
        convert(folder.path(), &path, Quantization::F16, &mut |_, _| ()).unwrap();
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

//! The catalog of models that can be installed: the built-in `models.toml` and the user's own.
//!
//! Rule: an entry is complete or not in the catalog. Each error in a file is one sentence with a
//! line and column, and a catalog with an error never replaces one without.

mod error;
mod facts;
mod quantization;
mod read;
mod table;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

pub use error::{CatalogError, CatalogErrorCode};
pub(crate) use quantization::bits_of;
use serde::Serialize;

use crate::facts::Format;

/// Memory from which a draft model is worth its own. On smaller machines the memory is better used for
/// a larger model or a longer context.
const MIN_DRAFT_MEMORY: u64 = 32_000_000_000;

/// Number of parameters from which a model gains enough from a draft model. On Apple GPUs, mlx-lm was
/// measured at 1.2 times the speed with 32 billion parameters and a draft model of 0.6 billion; smaller
/// models gain less.
const MIN_DRAFTED_PARAMETERS: u64 = 14_000_000_000;

/// A draft model has at most one of this many parts of the parameters of its model. A larger one takes
/// more time than its tokens save.
const MAX_DRAFT_PART: u64 = 10;

/// The built-in catalog, as of the build of the program.
const BUILT_IN: &str = include_str!("../../../models.toml");

/// File name of a catalog: the built-in one in the root of a checkout, and the user's own in the
/// data folder.
pub const FILE_NAME: &str = "models.toml";

/// A catalog of models. Ids are unique.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Catalog {
    /// Entries in the order of the files; the user's own come last.
    pub entries: Vec<Entry>,
}

/// A model in the catalog, with all its variants.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Id that people type: lower case, never reused.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Name of the model family, such as `Qwen3`; empty if unknown.
    pub family: String,
    /// What the model is good for and what not; empty if unknown.
    pub description: String,
    /// SPDX expression, or `LicenseRef-…`; empty if unknown.
    pub license: String,
    /// Uses of the model.
    pub tags: Vec<Tag>,
    /// Context length in tokens that the model was trained for.
    pub context_length: u64,
    /// URL of the model card.
    pub source: Option<String>,
    /// The numbers that memory estimates need.
    pub architecture: Architecture,
    /// Sampling parameters that the authors recommend.
    pub sampling: Sampling,
    /// What an embedding model reads before the text of a search; empty if nothing.
    pub query_prefix: String,
    /// What an embedding model reads before the text of a document; empty if nothing.
    pub document_prefix: String,
    /// To how few numbers the vectors of an embedding model may be cut; 0 if they may not.
    pub min_dimensions: u64,
    /// Id of a smaller entry with the same tokenizer that can be the draft model.
    pub draft: Option<String>,
    /// Variants in the order of the file; empty for the model that comes with the program.
    pub variants: Vec<Variant>,
    /// Keys whose values were not verified with the model card or configuration.
    pub unverified: Vec<String>,
    /// Paths of the files, if the model comes with the program.
    pub bundled: Option<Bundled>,
    /// True if the entry is from the user's own catalog.
    pub is_users: bool,
}

/// A use of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS), ts(rename = "TagView"))]
#[serde(rename_all = "lowercase")]
pub enum Tag {
    /// Conversation.
    Chat,
    /// Writing and changing code.
    Code,
    /// Thinking before the response.
    Reasoning,
    /// Turning text into embedding vectors; such a model doesn't generate text.
    Embedding,
}

/// The numbers of a model's `config.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Architecture {
    /// `model_type` of `config.json`.
    pub model_type: String,
    /// Number of weights; tied weights count once.
    pub parameters: u64,
    /// Weights that a token uses, in a mixture of experts.
    pub active_parameters: Option<u64>,
    /// Experts per layer that a token uses, in a mixture of experts, if known.
    pub experts_per_token: Option<u64>,
    /// Weights for images and audio. Files for MLX contain them in 16 bits, in addition to
    /// `parameters`; they are not loaded.
    pub vision_parameters: u64,
    /// Number of layers of all kinds.
    pub layers: u64,
    /// Elements of a token's hidden state.
    pub hidden_size: u64,
    /// Query heads per layer.
    pub heads: u64,
    /// Key-value heads per layer.
    pub kv_heads: u64,
    /// Elements of a key head.
    pub head_dim: u64,
    /// Elements of a value head.
    pub value_dim: u64,
    /// Width of the feed-forward layer; in a mixture of experts, of all experts that a token uses.
    pub intermediate_size: u64,
    /// Number of tokens in the vocabulary.
    pub vocabulary: u64,
    /// Context length in tokens that the model was trained for.
    pub context_length: u64,
    /// Size of the sliding window in tokens.
    pub sliding_window: Option<u64>,
    /// Number of layers with a sliding window.
    pub sliding_layers: u64,
    /// Key-value heads of layers with a sliding window.
    pub sliding_kv_heads: u64,
    /// Elements of a key head and of a value head in layers with a sliding window, if different.
    pub sliding_head_dim: Option<u64>,
    /// Number of layers at the end that have no KV cache, because they read that of earlier layers.
    pub shared_layers: u64,
    /// Number of layers with a state of fixed size instead of keys and values.
    pub linear_layers: u64,
    /// Bytes of that state per layer, at 4 bytes per element.
    pub linear_state_bytes: u64,
}

/// Sampling parameters that the authors of a model recommend.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS), ts(rename = "SamplingView"))]
pub struct Sampling {
    /// 0 always takes the most likely token.
    pub temperature: Option<f64>,
    /// Keeps the most likely tokens that together have this probability.
    pub top_p: Option<f64>,
    /// Keeps this many of the most likely tokens; 0 keeps all.
    pub top_k: Option<u64>,
    /// Keeps tokens with at least this probability relative to the most likely one.
    pub min_p: Option<f64>,
    /// 1 turns the penalty off.
    pub repetition_penalty: Option<f64>,
}

/// A model in one format and quantization, as a download from the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variant {
    /// Format of the files.
    pub format: Format,
    /// Name of the quantization: `4-bit`, `Q4_K_M`, ….
    pub quantization: String,
    /// Repository, `owner/name`.
    pub repository: String,
    /// Branch, tag or commit of the repository.
    pub revision: String,
    /// Files to download; empty if the hub must be asked for them.
    pub files: Vec<RemoteFile>,
    /// Bytes of all files as the catalog states them; see [`Variant::size_bytes`].
    pub stated_size_bytes: Option<u64>,
    /// Keys whose values were not verified with the hub.
    pub unverified: Vec<String>,
}

/// A file on the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemoteFile {
    /// Path in the repository: relative, and without `..`.
    pub name: String,
    /// Size in bytes, if known.
    pub size_bytes: Option<u64>,
    /// SHA-256 checksum as 64 lower-case hexadecimal digits, if known.
    pub sha256: Option<String>,
}

/// Paths of the model that comes with the program, relative to the built-in catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bundled {
    /// Folder of safetensors files.
    pub path: PathBuf,
    /// The same weights as a GGUF file.
    pub gguf: Option<PathBuf>,
}

impl Catalog {
    /// Returns the built-in catalog. It is read once.
    pub fn built_in() -> Arc<Self> {
        static LIST: LazyLock<Arc<Catalog>> = LazyLock::new(|| {
            // A test checks that it has no errors. With one, that entry would be missing and all
            // others would still work.
            let (entries, _) =
                read::list(BUILT_IN, Path::new(FILE_NAME), &Catalog::default(), false);
            Arc::new(Catalog { entries })
        });
        LIST.clone()
    }

    /// Reads a built-in catalog.
    ///
    /// # Errors
    /// The first [`CatalogError`] in `text`, with `file` as the name of the file.
    pub fn read(text: &str, file: &Path) -> Result<Self, CatalogError> {
        Self::default().with(text, file, false)
    }

    /// Returns this catalog with the user's own entries. An entry with an id of this catalog replaces
    /// that entry; all others come last.
    ///
    /// # Errors
    /// The first [`CatalogError`] in `text`, with `file` as the name of the file.
    pub fn merged_with(&self, text: &str, file: &Path) -> Result<Self, CatalogError> {
        self.with(text, file, true)
    }

    fn with(&self, text: &str, file: &Path, is_users: bool) -> Result<Self, CatalogError> {
        let (new, errors) = read::list(text, file, self, is_users);
        if let Some(first) = errors.into_iter().next() {
            return Err(first);
        }
        let mut entries = self.entries.clone();
        for entry in new {
            match entries.iter_mut().find(|old| old.id == entry.id) {
                Some(old) => *old = entry,
                None => entries.push(entry),
            }
        }
        Ok(Self { entries })
    }

    /// Returns the entry with this id, in upper or lower case.
    pub fn find(&self, id: &str) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.id.eq_ignore_ascii_case(id))
    }

    /// Returns the draft model of `entry` that makes its responses faster on a machine with this much
    /// memory; `None` if it has none, or where no gain was measured.
    pub fn draft_of(&self, entry: &Entry, memory_bytes: u64) -> Option<&Entry> {
        let draft = self.find(entry.draft.as_deref()?)?;
        let (parameters, of_draft) = (entry.architecture.parameters, draft.architecture.parameters);
        let pays = memory_bytes >= MIN_DRAFT_MEMORY
            && parameters >= MIN_DRAFTED_PARAMETERS
            && of_draft <= parameters / MAX_DRAFT_PART;
        pays.then_some(draft)
    }

    /// Returns the entries that contain every one of these words in their id, name, family, license,
    /// tags, repositories or description. Entries with all words in the id or name come first; else
    /// the order is that of the catalog. An empty text returns all entries.
    pub fn search(&self, words: &str) -> Vec<&Entry> {
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let found = self.entries.iter();
        let mut found: Vec<&Entry> = found.filter(|entry| entry.has(&words)).collect();
        found.sort_by_key(|entry| !entry.is_named(&words));
        found
    }
}

impl Entry {
    fn has(&self, words: &[String]) -> bool {
        let tags = self.tags.iter().map(|tag| tag.name());
        let repositories = self.variants.iter().map(|variant| &*variant.repository);
        let own = [
            &self.id,
            &self.name,
            &self.family,
            &self.license,
            &self.description,
        ];
        let texts = own.into_iter().map(|text| &**text);
        let texts: Vec<String> = texts
            .chain(tags)
            .chain(repositories)
            .map(str::to_lowercase)
            .collect();
        let is_in = |word: &String| texts.iter().any(|text| text.contains(&**word));
        words.iter().all(is_in)
    }

    fn is_named(&self, words: &[String]) -> bool {
        let names = [&self.id, &self.name].map(|text| text.to_lowercase());
        let is_in = |word: &String| names.iter().any(|text| text.contains(&**word));
        words.iter().all(is_in)
    }
}

impl Tag {
    /// All tags, in display order.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Code, Self::Reasoning, Self::Embedding];

    /// Returns the name of the tag in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Code => "code",
            Self::Reasoning => "reasoning",
            Self::Embedding => "embedding",
        }
    }
}

impl Variant {
    /// Returns the bytes of all files to download: their sum if each size is known, else the bytes
    /// that the catalog states.
    pub fn size_bytes(&self) -> Option<u64> {
        let sum = sum_of(self.files.iter());
        match self.lists_all_files() {
            true => sum.or(self.stated_size_bytes),
            false => self.stated_size_bytes.or(sum),
        }
    }

    /// Returns the bytes of the weight files, if each size is known.
    pub(crate) fn weight_files_bytes(&self) -> Option<u64> {
        sum_of(self.files.iter().filter(|file| self.is_weights(file)))
    }

    /// Returns true if `file` contains weights in this variant's format.
    pub fn is_weights(&self, file: &RemoteFile) -> bool {
        let extension = match self.format {
            Format::Gguf => ".gguf",
            Format::Safetensors => ".safetensors",
        };
        file.name.to_ascii_lowercase().ends_with(extension)
    }

    /// Returns true if [`Self::files`] lists every file that the model needs, so that the hub need not
    /// be asked. A folder needs its configuration and tokenizer in addition to the weights; if only
    /// weights are listed, their sizes and checksums serve to check the hub's list.
    pub fn lists_all_files(&self) -> bool {
        let has = |name: &str| self.files.iter().any(|file| file.name == name);
        match self.format {
            Format::Gguf => !self.files.is_empty(),
            Format::Safetensors => has("config.json") && has("tokenizer.json"),
        }
    }
}

/// Returns the bytes of all these files; `None` for no files, or if a size is unknown.
fn sum_of<'a>(files: impl Iterator<Item = &'a RemoteFile>) -> Option<u64> {
    let sizes = files.map(|file| file.size_bytes);
    sizes.reduce(|sum, size| sum?.checked_add(size?)).flatten()
}

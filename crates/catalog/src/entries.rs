//! The list of models that can be installed: the built-in `models.toml`, and a user's own over it.
//!
//! Rule: an entry is whole or it is not in the list. Every error in a file is one sentence with its
//! line and column, and a list with a error never takes the place of one without.

mod error;
mod facts;
mod packing;
mod read;
mod table;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

pub use error::CatalogError;
pub(crate) use packing::bits_of;
use serde::Serialize;

use crate::facts::Format;

/// The built-in list, as it was when the program was built.
const BUILT_IN: &str = include_str!("../../../models.toml");

/// Name of a list in the file system: the built-in one at the root of a checkout, a user's own in
/// the data folder.
pub const FILE_NAME: &str = "models.toml";

/// A list of models; each has an id of its own.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Catalog {
    /// In the order of the files, the user's own last.
    pub entries: Vec<Entry>,
}

/// A model in the list, in all its variants.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// What people type: lower case, never reused.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Name of its family, such as `Qwen3`; empty where the list does not say.
    pub family: String,
    /// What it is good for, and what not; empty where the list does not say.
    pub description: String,
    /// SPDX expression, or `LicenseRef-…`; empty where the list does not say.
    #[serde(rename = "licence")]
    pub license: String,
    /// What it is for.
    pub tags: Vec<Tag>,
    /// Tokens that it was made to attend to.
    pub context_length: u64,
    /// Address of its card.
    pub source: Option<String>,
    /// Numbers of a memory estimate.
    pub architecture: Architecture,
    /// What its makers recommend.
    pub sampling: Sampling,
    /// Id of a smaller entry with the same tokenizer, which may guess for it.
    pub draft: Option<String>,
    /// In the order of the file; empty of a model that ships with the program.
    pub variants: Vec<Variant>,
    /// Keys whose values could not be read from the model's card or configuration.
    pub unverified: Vec<String>,
    /// Where it lies, if it ships with the program.
    pub bundled: Option<Bundled>,
    /// It is from the user's own list.
    pub is_users: bool,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tag {
    /// Conversation.
    Chat,
    /// Writing and changing programs.
    Code,
    /// Thinking before it answers.
    Reasoning,
    /// Turning text into vectors; it does not answer.
    Embedding,
}

/// Numbers of a model's own `config.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Architecture {
    /// As in `config.json`.
    pub model_type: String,
    /// Weights in all, tied ones once.
    pub parameters: u64,
    /// Of a mixture of experts: weights that a token uses.
    pub active_parameters: Option<u64>,
    /// Of a mixture of experts: how many of a layer's a token passes through, where the list says.
    pub experts_per_token: Option<u64>,
    /// Weights for pictures and sound, in 16 bits beside `parameters` in files for MLX; not loaded.
    pub vision_parameters: u64,
    /// Layers of all kinds.
    pub layers: u64,
    /// Elements of a token between two layers.
    pub hidden_size: u64,
    /// Query heads of a layer.
    pub heads: u64,
    /// Key-value heads of a layer.
    pub kv_heads: u64,
    /// Size of a key's head.
    pub head_dim: u64,
    /// Size of a value's head.
    pub value_dim: u64,
    /// Elements of a token inside the feed-forward part; of a mixture what a token uses together.
    pub intermediate_size: u64,
    /// Tokens in the vocabulary.
    pub vocabulary: u64,
    /// Tokens that it was made to attend to.
    pub context_length: u64,
    /// Tokens that the layers with a sliding window attend to.
    pub sliding_window: Option<u64>,
    /// How many layers have the window.
    pub sliding_layers: u64,
    /// Key-value heads of layers with the window.
    pub sliding_kv_heads: u64,
    /// Size of a key's head, and of a value's, in layers with the window, where it is another.
    pub sliding_head_dim: Option<u64>,
    /// How many of the last layers keep nothing, for they read what earlier ones keep.
    pub shared_layers: u64,
    /// How many layers keep a state of fixed size in place of keys and values.
    pub linear_layers: u64,
    /// Bytes of that state, a layer, at 4 bytes an element.
    pub linear_state_bytes: u64,
    /// How a model is packed that ships with the program.
    pub bundled: Option<BundledPacking>,
}

/// How the weights of a model are packed that ships with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BundledPacking {
    /// Bits of a quantized weight.
    pub bits: u64,
    /// Weights that share a scale.
    pub group_size: u64,
    /// Bytes of its safetensors file.
    pub weight_bytes: u64,
}

/// What a model's makers recommend for sampling.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Sampling {
    /// 0 for always the likeliest token.
    pub temperature: Option<f64>,
    /// The likeliest tokens that together have this probability.
    pub top_p: Option<f64>,
    /// So many of the likeliest tokens; 0 for all.
    pub top_k: Option<u64>,
    /// Tokens at least this probable relative to the likeliest.
    pub min_p: Option<f64>,
    /// 1 for none.
    pub repetition_penalty: Option<f64>,
}

/// A model in one form and packing, as it lies on the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variant {
    /// Form of its files.
    pub format: Format,
    /// `4-bit`, `Q4_K_M`, ….
    pub packing: String,
    /// `owner/name`.
    pub repository: String,
    /// A branch, tag or commit of the repository.
    pub revision: String,
    /// What is fetched; empty where the hub is to be asked.
    pub files: Vec<RemoteFile>,
    /// Bytes of all files as the list states them; see [`Variant::size_bytes`].
    pub stated_size_bytes: Option<u64>,
    /// Keys whose values could not be read from the hub.
    pub unverified: Vec<String>,
}

/// A file on the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemoteFile {
    /// Path in the repository; never absolute, never leading out.
    pub name: String,
    /// Its size, if known.
    pub size_bytes: Option<u64>,
    /// Its checksum in 64 lower-case hexadecimal digits, if known.
    pub sha256: Option<String>,
}

/// Where a model lies that ships with the program, relative to the built-in list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bundled {
    /// Folder of safetensors.
    pub path: PathBuf,
    /// The same weights as one file for llama.cpp.
    pub gguf: Option<PathBuf>,
}

impl Catalog {
    /// The built-in list. Read once.
    pub fn built_in() -> Arc<Self> {
        static LIST: LazyLock<Arc<Catalog>> = LazyLock::new(|| {
            // A test holds that there are no errors in it; were there one, an entry would be missing
            // and all else go on.
            let (entries, _) =
                read::list(BUILT_IN, Path::new(FILE_NAME), &Catalog::default(), false);
            Arc::new(Catalog { entries })
        });
        LIST.clone()
    }

    /// Reads a built-in list.
    ///
    /// # Errors
    /// The first [`CatalogError`] in it; `file` is the name that it gives.
    pub fn read(text: &str, file: &Path) -> Result<Self, CatalogError> {
        Self::default().with(text, file, false)
    }

    /// This list with the user's own entries: one with the id of an entry here takes its place, the
    /// others come last.
    ///
    /// # Errors
    /// The first [`CatalogError`] in `text`; `file` is the name that it gives.
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

    /// The entry of an id; upper case in it does not matter.
    pub fn find(&self, id: &str) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.id.eq_ignore_ascii_case(id))
    }

    /// Entries that have every one of these words in their id, name, family, license, tags, repositories
    /// or description: those with all of them in the id or name first, else in the order of the list.
    /// No words find all.
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
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Code, Self::Reasoning, Self::Embedding];

    /// As in the list.
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
    /// Bytes of all files that are fetched: their sum where each is known, else what the list states.
    pub fn size_bytes(&self) -> Option<u64> {
        let sum = sum_of(self.files.iter());
        match self.lists_all_files() {
            true => sum.or(self.stated_size_bytes),
            false => self.stated_size_bytes.or(sum),
        }
    }

    /// Bytes of the files that hold the weights, where each is known.
    pub(crate) fn weight_files_bytes(&self) -> Option<u64> {
        sum_of(self.files.iter().filter(|file| self.is_weights(file)))
    }

    /// Whether a file holds weights of this form.
    pub fn is_weights(&self, file: &RemoteFile) -> bool {
        let extension = match self.format {
            Format::Gguf => ".gguf",
            Format::Safetensors => ".safetensors",
        };
        file.name.to_ascii_lowercase().ends_with(extension)
    }

    /// Whether [`Self::files`] are all that the model needs, so that it can be fetched without asking
    /// the hub what there is. A folder needs its configuration and tokenizer beside the weights; where
    /// only weights are listed, their sizes and checksums are for checking what the hub lists.
    pub fn lists_all_files(&self) -> bool {
        let has = |name: &str| self.files.iter().any(|file| file.name == name);
        match self.format {
            Format::Gguf => !self.files.is_empty(),
            Format::Safetensors => has("config.json") && has("tokenizer.json"),
        }
    }
}

/// Bytes of all these files; `None` where there are none, or one's size is not known.
fn sum_of<'a>(files: impl Iterator<Item = &'a RemoteFile>) -> Option<u64> {
    let sizes = files.map(|file| file.size_bytes);
    sizes.reduce(|sum, size| sum?.checked_add(size?)).flatten()
}

//! Repositories and their files, and which of the files make a model.
//!
//! Rule: the choice of files depends on the listing alone, so tests check it with listings.

use std::collections::HashSet;

use serde::Serialize;

use crate::{HubError, RequestedFile};

/// A repository in a search result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundRepository {
    /// `owner/name`.
    pub repository: String,
    /// Downloads in the last month.
    pub downloads: u64,
    /// Likes by users.
    pub likes: u64,
    /// Whether users must accept the authors' license before they can download.
    pub is_gated: bool,
    /// The formats among the repository's tags that Transom can run; may be empty.
    pub formats: Vec<ModelFormat>,
    /// The license tag, such as `apache-2.0`.
    pub license: Option<String>,
    /// The time of the last change, as the hub writes it (ISO 8601).
    pub updated: Option<String>,
}

/// A format of models that Transom can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFormat {
    /// Safetensors for MLX.
    Mlx,
    /// GGUF files.
    Gguf,
}

impl ModelFormat {
    /// Returns the hub's tag for the format.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Mlx => "mlx",
            Self::Gguf => "gguf",
        }
    }
}

/// The files of a repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The requested `owner/name`, in the hub's spelling of upper and lower case.
    pub repository: String,
    /// The commit that the revision resolved to.
    pub commit: String,
    /// Whether users must accept the authors' license before they can download.
    pub is_gated: bool,
    /// The files in the hub's order.
    pub files: Vec<RemoteFile>,
}

/// A file in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// The path, with `/`.
    pub name: String,
    /// The size, if the hub knows it.
    pub size_bytes: Option<u64>,
    /// The SHA-256 in hexadecimal; only of LFS files.
    pub sha256: Option<String>,
    /// Git's checksum in hexadecimal; only of files that are not in LFS.
    pub git_sha1: Option<String>,
}

/// A model that can be downloaded from a repository: a folder of safetensors, or one quantization
/// as GGUF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryVariant {
    /// `Q4_K_M` and the like; "safetensors" for a folder of safetensors.
    pub quantization: String,
    /// True for a GGUF file, which may be split; false for a folder of safetensors.
    pub is_gguf: bool,
    /// The files to download.
    pub files: Vec<RequestedFile>,
    /// The size of all files; `None` if the hub does not know all sizes.
    pub size_bytes: Option<u64>,
}

const SAFETENSORS: &str = "safetensors";

/// Endings of the files that belong to a folder of safetensors.
const BESIDE: [&str; 5] = [".json", ".jinja", ".model", ".tiktoken", ".txt"];
/// Beginnings of file names with terms, which must be distributed with the model.
const TERMS: [&str; 3] = ["LICENSE", "NOTICE", "USE_POLICY"];

impl Listing {
    /// Returns the variants in this repository: a folder of safetensors first, then the GGUF
    /// quantizations by size.
    pub fn variants(&self) -> Vec<RepositoryVariant> {
        let mut models: Vec<(&str, Vec<&RemoteFile>)> = Vec::new();
        for file in self.files.iter().filter(|file| is_gguf_model(&file.name)) {
            let model = stem_of(&file.name);
            match models.iter_mut().find(|(known, _)| *known == model) {
                Some((_, files)) => files.push(file),
                None => models.push((model, vec![file])),
            }
        }
        // If several models have the same quantization, the one with the shortest name gets the
        // quantization as its name, and the others get their own names.
        models.sort_by_key(|(model, _)| model.len());
        let mut named = HashSet::new();
        let mut variants = Vec::with_capacity(models.len() + 1);
        for (model, files) in models {
            let quantization = quantization_of(model);
            let name = match named.insert(quantization.clone()) {
                true => quantization,
                false => model.to_owned(),
            };
            variants.push(variant(name, true, files));
        }
        variants.sort_by_key(|variant| variant.size_bytes);
        let folder = self.safetensors_files();
        if !folder.is_empty() {
            variants.insert(0, variant(SAFETENSORS.to_owned(), false, folder));
        }
        variants
    }

    /// Returns the variant to use when the user chose none: the only one, or the folder of
    /// safetensors, or `Q4_K_M`, which fits most machines.
    pub fn default_variant(&self) -> Result<RepositoryVariant, HubError> {
        let variants = self.variants();
        let is_usual = |variant: &&RepositoryVariant| {
            !variant.is_gguf || variants.len() == 1 || variant.quantization == "Q4_K_M"
        };
        let usual = variants.iter().find(is_usual).cloned();
        usual.ok_or_else(|| self.no_choice(&variants))
    }

    /// Returns the error if none of these variants was chosen: there is none, or there are several.
    pub fn no_choice(&self, variants: &[RepositoryVariant]) -> HubError {
        let repository = self.repository.clone();
        let names = variants.iter().map(|variant| variant.quantization.clone());
        match variants {
            [] => HubError::NoModelFiles { repository },
            _ => HubError::SeveralQuantizations {
                repository,
                quantizations: names.collect(),
            },
        }
    }

    fn safetensors_files(&self) -> Vec<&RemoteFile> {
        let at_top = |file: &&RemoteFile| !file.name.contains('/');
        let top: Vec<&RemoteFile> = self.files.iter().filter(at_top).collect();
        let weights = |file: &RemoteFile| file.name.ends_with(".safetensors");
        // Some repositories contain the weights twice, once in the authors' own layout.
        let own_layout = |file: &RemoteFile| file.name.starts_with("consolidated");
        let has_usual = top.iter().any(|file| weights(file) && !own_layout(file));
        if !has_usual || !top.iter().any(|file| file.name == "config.json") {
            return Vec::new();
        }
        top.into_iter()
            .filter(|file| {
                (weights(file) && !own_layout(file))
                    || BESIDE.iter().any(|end| file.name.ends_with(end))
                    || TERMS.iter().any(|start| file.name.starts_with(start))
            })
            .collect()
    }
}

fn variant(quantization: String, is_gguf: bool, files: Vec<&RemoteFile>) -> RepositoryVariant {
    let size_bytes = files.iter().map(|file| file.size_bytes).sum();
    let files = files
        .into_iter()
        .map(|file| RequestedFile {
            name: file.name.clone(),
            size_bytes: file.size_bytes,
            sha256: file.sha256.clone(),
        })
        .collect();
    RepositoryVariant {
        quantization,
        is_gguf,
        files,
        size_bytes,
    }
}

/// Returns true for GGUF models. Vision projectors and importance matrices are not models.
fn is_gguf_model(path: &str) -> bool {
    let name = file_name(path).to_ascii_lowercase();
    name.ends_with(".gguf") && !name.contains("mmproj") && !name.contains("imatrix")
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns `Qwen3-4B-Q4_K_M` for `Q4_K_M/Qwen3-4B-Q4_K_M-00001-of-00002.gguf`.
fn stem_of(path: &str) -> &str {
    let name = file_name(path);
    without_split(name.get(..name.len() - ".gguf".len()).unwrap_or(name))
}

/// Returns `Q4_K_M` for `Qwen3-4B-Q4_K_M`, and the entire stem if no word is a quantization.
fn quantization_of(stem: &str) -> String {
    let words: Vec<&str> = stem.split(['-', '.']).collect();
    let Some(at) = words.iter().rposition(|word| is_quantization(word)) else {
        return stem.to_owned();
    };
    let quantization = words[at].to_ascii_uppercase();
    match at.checked_sub(1).map(|before| words[before]) {
        Some("UD") => format!("UD-{quantization}"),
        _ => quantization,
    }
}

/// Removes `-00001-of-00002`.
pub(crate) fn without_split(stem: &str) -> &str {
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let split = stem.rsplit_once("-of-").and_then(|(before, of)| {
        let (name, at) = before.rsplit_once('-')?;
        (is_number(of) && is_number(at)).then_some(name)
    });
    split.unwrap_or(stem)
}

fn is_quantization(word: &str) -> bool {
    let word = word.to_ascii_uppercase();
    if ["F16", "BF16", "F32", "FP16"].contains(&&*word) || word.starts_with("MXFP4") {
        return true;
    }
    let bits = ["IQ", "TQ", "Q"]
        .iter()
        .find_map(|family| word.strip_prefix(family));
    bits.is_some_and(|bits| {
        bits.starts_with(|first: char| first.is_ascii_digit()) && bits.contains('_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[&str]) -> Listing {
        Listing {
            repository: "owner/name".to_owned(),
            commit: "c".to_owned(),
            is_gated: false,
            files: names
                .iter()
                .enumerate()
                .map(|(index, name)| RemoteFile {
                    name: (*name).to_owned(),
                    size_bytes: Some(index as u64 + 1),
                    sha256: None,
                    git_sha1: None,
                })
                .collect(),
        }
    }

    fn names(variant: &RepositoryVariant) -> Vec<&str> {
        variant.files.iter().map(|file| &*file.name).collect()
    }

    #[test]
    fn a_safetensors_variant_contains_only_files_of_the_model() {
        let listing = listing(&[
            ".gitattributes",
            "README.md",
            "LICENSE",
            "config.json",
            "model.safetensors",
            "consolidated.safetensors",
            "tokenizer.json",
            "tokenizer.model",
            "merges.txt",
            "chat_template.jinja",
            "modeling.py",
            "pytorch_model.bin",
            "original/params.json",
        ]);
        let variant = listing.default_variant().unwrap();
        assert_eq!(variant.quantization, "safetensors");
        assert_eq!(
            names(&variant),
            [
                "LICENSE",
                "config.json",
                "model.safetensors",
                "tokenizer.json",
                "tokenizer.model",
                "merges.txt",
                "chat_template.jinja"
            ]
        );
    }

    #[test]
    fn split_files_are_one_variant_and_variants_are_sorted_by_size() {
        let listing = listing(&[
            "Q8_0/m-Q8_0-00001-of-00002.gguf",
            "Q8_0/m-Q8_0-00002-of-00002.gguf",
            "m-Q4_K_M.gguf",
            "m-UD-Q4_K_XL.gguf",
            "mmproj-F16.gguf",
            "config.json",
        ]);
        let variants = listing.variants();
        let names_by_size: Vec<&str> = variants
            .iter()
            .map(|variant| &*variant.quantization)
            .collect();
        assert_eq!(names_by_size, ["Q8_0", "Q4_K_M", "UD-Q4_K_XL"]);
        assert_eq!(variants[0].files.len(), 2);
        assert_eq!(listing.default_variant().unwrap().quantization, "Q4_K_M");
    }

    #[test]
    fn several_models_with_one_quantization_are_separate_variants() {
        let listing = listing(&[
            "m-draft-Q4_K_M.gguf",
            "m-Q4_K_M-00001-of-00002.gguf",
            "m-Q4_K_M-00002-of-00002.gguf",
        ]);
        let variants = listing.variants();
        let names_by_size: Vec<&str> = variants
            .iter()
            .map(|variant| &*variant.quantization)
            .collect();
        assert_eq!(names_by_size, ["m-draft-Q4_K_M", "Q4_K_M"]);
        let usual = listing.default_variant().unwrap();
        assert_eq!((&*usual.quantization, usual.files.len()), ("Q4_K_M", 2));
    }

    #[test]
    fn several_quantizations_without_the_default_one_are_an_error() {
        let error = listing(&["m-Q8_0.gguf", "m.q5_k_m.gguf"])
            .default_variant()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "owner/name has the model in several quantizations. Choose one of Q8_0, Q5_K_M."
        );
    }

    #[test]
    fn a_repository_without_a_model_is_an_error() {
        for names in [
            &["README.md", "pytorch_model.bin"][..],
            &["model.safetensors"],
        ] {
            let error = listing(names).default_variant().unwrap_err();
            assert_eq!(error.code(), "no_model_files");
        }
    }

    #[test]
    fn quantizations_are_parsed_from_names() {
        for (name, quantization) in [
            ("Qwen3-4B-Q4_K_M.gguf", "Q4_K_M"),
            ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
            ("model-bf16.gguf", "BF16"),
            ("a.IQ3_XXS.gguf", "IQ3_XXS"),
            ("Qwen3-starter.gguf", "Qwen3-starter"),
        ] {
            assert_eq!(quantization_of(stem_of(name)), quantization);
        }
    }
}

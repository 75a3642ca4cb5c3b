//! What a hub lists: repositories, their files, and which of these make a model.
//!
//! Rule: choosing files is a function of the list alone, so every choice is tested on lists.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::{HubError, WantedFile};

/// A repository that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Found {
    /// `owner/name`.
    pub repository: String,
    /// In the last month.
    #[cfg_attr(feature = "bindings", ts(type = "number"))]
    pub downloads: u64,
    /// Of people.
    #[cfg_attr(feature = "bindings", ts(type = "number"))]
    pub likes: u64,
    /// Whether its authors want their conditions accepted first.
    pub is_gated: bool,
    /// The forms that its tags name; empty where they name none that Transom runs.
    pub libraries: Vec<Library>,
    /// The licence as tagged, such as `apache-2.0`.
    pub licence: Option<String>,
    /// When it was changed last, as the hub writes it (ISO 8601).
    pub updated: Option<String>,
}

/// Which form of models to search for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// Safetensors made for MLX.
    Mlx,
    /// GGUF files.
    Gguf,
}

impl Library {
    /// The hub's tag for it.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Mlx => "mlx",
            Self::Gguf => "gguf",
        }
    }
}

/// All files of a repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// `owner/name` as it was asked for, in the hub's spelling of upper and lower case.
    pub repository: String,
    /// What the revision stood for when it was asked.
    pub commit: String,
    /// Whether its authors want their conditions accepted first.
    pub is_gated: bool,
    /// In the hub's order.
    pub files: Vec<RemoteFile>,
}

/// A file in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteFile {
    /// Its path, with `/`.
    pub name: String,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// In hexadecimal; only of large files.
    pub sha256: Option<String>,
    /// Git's checksum of it, in hexadecimal; only of small files.
    pub git_sha1: Option<String>,
}

/// One of the models that a repository's files make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// `Q4_K_M` and the like; "safetensors" for a folder of them.
    pub packing: String,
    /// A GGUF file, maybe split; otherwise a folder of safetensors.
    pub is_gguf: bool,
    /// What to fetch.
    pub files: Vec<WantedFile>,
    /// Of all files; `None` when the hub does not say all sizes.
    pub size_bytes: Option<u64>,
}

/// The packing of a folder of safetensors.
const SAFETENSORS: &str = "safetensors";

/// What belongs to a folder of safetensors besides them.
const BESIDE: [&str; 5] = [".json", ".jinja", ".model", ".tiktoken", ".txt"];
/// Terms travel with the model.
const TERMS: [&str; 3] = ["LICENSE", "NOTICE", "USE_POLICY"];

impl Listing {
    /// The models that the files make: a folder of safetensors first, then each GGUF packing in
    /// the order of its size.
    pub fn offers(&self) -> Vec<Offer> {
        let mut models: Vec<(&str, Vec<&RemoteFile>)> = Vec::new();
        for file in self.files.iter().filter(|file| is_gguf_model(&file.name)) {
            let model = stem_of(&file.name);
            match models.iter_mut().find(|(known, _)| *known == model) {
                Some((_, files)) => files.push(file),
                None => models.push((model, vec![file])),
            }
        }
        // Of several models in one packing the plainest name has the packing's; others their own.
        models.sort_by_key(|(model, _)| model.len());
        let mut named = HashSet::new();
        let mut offers = Vec::with_capacity(models.len() + 1);
        for (model, files) in models {
            let packing = packing_of(model);
            let is_first = named.insert(packing.clone());
            let name = if is_first { packing } else { model.to_owned() };
            offers.push(offer(name, true, files));
        }
        offers.sort_by_key(|offer| offer.size_bytes);
        let folder = self.safetensors_folder();
        if !folder.is_empty() {
            offers.insert(0, offer(SAFETENSORS.to_owned(), false, folder));
        }
        offers
    }

    /// The offer to take when nobody chose: the only one, or the folder of safetensors, or
    /// `Q4_K_M`, which fits most machines.
    pub fn only_offer(&self) -> Result<Offer, HubError> {
        let offers = self.offers();
        let is_usual =
            |offer: &&Offer| !offer.is_gguf || offers.len() == 1 || offer.packing == "Q4_K_M";
        if let Some(usual) = offers.iter().find(is_usual) {
            return Ok(usual.clone());
        }
        if offers.is_empty() {
            return Err(HubError::NoModelFiles {
                repository: self.repository.clone(),
            });
        }
        Err(HubError::SeveralPackings {
            repository: self.repository.clone(),
            packings: offers.into_iter().map(|offer| offer.packing).collect(),
        })
    }

    fn safetensors_folder(&self) -> Vec<&RemoteFile> {
        let at_top = |file: &&RemoteFile| !file.name.contains('/');
        let top: Vec<&RemoteFile> = self.files.iter().filter(at_top).collect();
        let weights = |file: &RemoteFile| file.name.ends_with(".safetensors");
        // Some repositories hold the weights twice, once in their authors' own layout.
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

fn offer(packing: String, is_gguf: bool, files: Vec<&RemoteFile>) -> Offer {
    let size_bytes = files.iter().map(|file| file.size_bytes).sum();
    let files = files
        .into_iter()
        .map(|file| WantedFile {
            name: file.name.clone(),
            size_bytes: file.size_bytes,
            sha256: file.sha256.clone(),
        })
        .collect();
    Offer {
        packing,
        is_gguf,
        files,
        size_bytes,
    }
}

/// Eyes and adapters of a model are not a model.
fn is_gguf_model(path: &str) -> bool {
    let name = file_name(path).to_ascii_lowercase();
    name.ends_with(".gguf") && !name.contains("mmproj") && !name.contains("imatrix")
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `Qwen3-4B-Q4_K_M` of `Q4_K_M/Qwen3-4B-Q4_K_M-00001-of-00002.gguf`.
fn stem_of(path: &str) -> &str {
    let name = file_name(path);
    without_split(name.get(..name.len() - ".gguf".len()).unwrap_or(name))
}

/// `Q4_K_M` of `Qwen3-4B-Q4_K_M`; the whole stem where no word is a packing.
fn packing_of(stem: &str) -> String {
    let words: Vec<&str> = stem.split(['-', '.']).collect();
    let Some(at) = words.iter().rposition(|word| is_packing(word)) else {
        return stem.to_owned();
    };
    let packing = words[at].to_ascii_uppercase();
    match at.checked_sub(1).map(|before| words[before]) {
        Some("UD") => format!("UD-{packing}"),
        _ => packing,
    }
}

/// Without `-00001-of-00002`.
pub(crate) fn without_split(stem: &str) -> &str {
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let split = stem.rsplit_once("-of-").and_then(|(before, of)| {
        let (name, at) = before.rsplit_once('-')?;
        (is_number(of) && is_number(at)).then_some(name)
    });
    split.unwrap_or(stem)
}

fn is_packing(word: &str) -> bool {
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

    fn names(offer: &Offer) -> Vec<&str> {
        offer.files.iter().map(|file| &*file.name).collect()
    }

    #[test]
    fn a_folder_takes_what_a_model_needs_and_leaves_the_rest() {
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
        let offer = listing.only_offer().unwrap();
        assert_eq!(offer.packing, "safetensors");
        assert_eq!(
            names(&offer),
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
    fn split_files_are_one_packing_and_packings_stand_by_size() {
        let listing = listing(&[
            "Q8_0/m-Q8_0-00001-of-00002.gguf",
            "Q8_0/m-Q8_0-00002-of-00002.gguf",
            "m-Q4_K_M.gguf",
            "m-UD-Q4_K_XL.gguf",
            "mmproj-F16.gguf",
            "config.json",
        ]);
        let offers = listing.offers();
        let packings: Vec<&str> = offers.iter().map(|offer| &*offer.packing).collect();
        assert_eq!(packings, ["Q8_0", "Q4_K_M", "UD-Q4_K_XL"]);
        assert_eq!(offers[0].files.len(), 2);
        assert_eq!(listing.only_offer().unwrap().packing, "Q4_K_M");
    }

    #[test]
    fn several_models_in_one_packing_are_not_fetched_as_one() {
        let listing = listing(&[
            "m-draft-Q4_K_M.gguf",
            "m-Q4_K_M-00001-of-00002.gguf",
            "m-Q4_K_M-00002-of-00002.gguf",
        ]);
        let offers = listing.offers();
        let packings: Vec<&str> = offers.iter().map(|offer| &*offer.packing).collect();
        assert_eq!(packings, ["m-draft-Q4_K_M", "Q4_K_M"]);
        let usual = listing.only_offer().unwrap();
        assert_eq!((&*usual.packing, usual.files.len()), ("Q4_K_M", 2));
    }

    #[test]
    fn several_packings_without_the_usual_one_are_a_question() {
        let error = listing(&["m-Q8_0.gguf", "m.q5_k_m.gguf"])
            .only_offer()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "owner/name has the model in several packings. Choose one of Q8_0, Q5_K_M."
        );
    }

    #[test]
    fn a_repository_without_a_model_says_so() {
        for names in [
            &["README.md", "pytorch_model.bin"][..],
            &["model.safetensors"],
        ] {
            let error = listing(names).only_offer().unwrap_err();
            assert_eq!(error.code(), "no_model_files");
        }
    }

    #[test]
    fn packings_are_read_from_names() {
        for (name, packing) in [
            ("Qwen3-4B-Q4_K_M.gguf", "Q4_K_M"),
            ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
            ("model-bf16.gguf", "BF16"),
            ("a.IQ3_XXS.gguf", "IQ3_XXS"),
            ("Qwen3-starter.gguf", "Qwen3-starter"),
        ] {
            assert_eq!(packing_of(stem_of(name)), packing);
        }
    }
}

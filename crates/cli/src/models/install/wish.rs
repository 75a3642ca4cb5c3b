//! What a person wrote after `install`: an entry of the list, or a repository of the hub.
//!
//! Rule: what can be meant in one way only is taken; a page's address from the browser too.

use transom_catalog::Catalogue;

use crate::failure::Failure;
use crate::library::is_repository;

/// A model that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// An entry of the list.
    Listed {
        /// Its id.
        id: String,
        /// The packing or form, if one was named.
        variant: Option<String>,
    },
    /// A repository of the hub.
    Hub {
        /// `owner/name`.
        repository: String,
        /// The packing or file, if one was named.
        part: Option<String>,
    },
}

impl Wish {
    /// What `text` means. `endpoint` is the hub's address.
    pub(super) fn read(text: &str, catalogue: &Catalogue, endpoint: &str) -> Result<Self, Failure> {
        let text = text.trim();
        let (id, variant) = split(text, '@');
        if catalogue.find(id).is_some() {
            let id = id.to_lowercase();
            return Ok(Self::Listed { id, variant });
        }
        let page = without_host(text, endpoint);
        if let Some(wish) = Self::of_page(page) {
            return Ok(wish);
        }
        let near = catalogue.search(&id.replace(['-', '_', '/', ':'], " "));
        let near: Vec<&str> = near.iter().take(3).map(|entry| &*entry.id).collect();
        let advice = match near.as_slice() {
            [] => format!("`transom models search {id}` looks on the hub"),
            near => format!("there is {}", near.join(", ")),
        };
        Err(Failure::Model(format!(
            "no model is called {text}; {advice}"
        )))
    }

    /// `owner/name`, perhaps with `:part`, or the path of a page about it or about a file in it.
    fn of_page(page: &str) -> Option<Self> {
        let (repository, part) = split(page, ':');
        if is_repository(repository) {
            let repository = repository.to_owned();
            return Some(Self::Hub { repository, part });
        }
        let page = page.split(['?', '#']).next().unwrap_or(page);
        let parts: Vec<&str> = page.trim_end_matches('/').splitn(5, '/').collect();
        let (owner, name, file) = match parts.as_slice() {
            [owner, name] => (owner, name, None),
            [owner, name, "tree", ..] => (owner, name, None),
            [owner, name, "blob" | "resolve", _, file] => (owner, name, Some((*file).to_owned())),
            _ => return None,
        };
        let repository = format!("{owner}/{name}");
        is_repository(&repository).then_some(Self::Hub {
            repository,
            part: file,
        })
    }
}

fn split(text: &str, at: char) -> (&str, Option<String>) {
    match text.split_once(at) {
        Some((base, rest)) if !rest.is_empty() => (base, Some(rest.to_owned())),
        Some((base, _)) => (base, None),
        None => (text, None),
    }
}

/// The path of a page, from an address that begins as the hub's do.
fn without_host<'a>(text: &'a str, endpoint: &str) -> &'a str {
    let bare = |text: &'a str| text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, host)| host);
    let text = bare(text);
    for host in [host, "huggingface.co", "hf.co"] {
        if let Some(page) = text
            .strip_prefix(host)
            .and_then(|rest| rest.strip_prefix('/'))
        {
            return page;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::tests::LIST;
    use std::path::Path;

    const HUB: &str = "https://huggingface.co";

    fn read(text: &str) -> Result<Wish, Failure> {
        Wish::read(text, &Catalogue::built_in(), HUB)
    }

    #[track_caller]
    fn is_hub(text: &str, repository: &str, part: Option<&str>) {
        let expect = Wish::Hub {
            repository: repository.to_owned(),
            part: part.map(str::to_owned),
        };
        assert_eq!(read(text).unwrap(), expect, "{text}");
    }

    #[test]
    fn a_repository_may_have_a_packing_or_a_file() {
        is_hub("Qwen/Qwen3-4B-GGUF", "Qwen/Qwen3-4B-GGUF", None);
        is_hub(
            "Qwen/Qwen3-4B-GGUF:Q8_0",
            "Qwen/Qwen3-4B-GGUF",
            Some("Q8_0"),
        );
        is_hub("a/b:sub/c.gguf", "a/b", Some("sub/c.gguf"));
        is_hub("a/b:", "a/b", None);
    }

    #[test]
    fn the_address_of_a_page_is_a_repository_too() {
        is_hub("https://huggingface.co/a/b", "a/b", None);
        is_hub("hf.co/a/b:Q4_K_M", "a/b", Some("Q4_K_M"));
        is_hub("https://huggingface.co/a/b/tree/main", "a/b", None);
        is_hub(
            "https://huggingface.co/a/b/blob/main/sub/c.gguf?download=true",
            "a/b",
            Some("sub/c.gguf"),
        );
    }

    #[test]
    fn what_is_neither_is_refused_with_what_comes_near() {
        for text in ["no-such-model", "", "a/b/c/d", "../x", "a b/c"] {
            let failure = read(text).unwrap_err();
            assert_eq!(failure.exit_code(), 3, "{text}: {failure}");
        }
    }

    #[test]
    fn an_entry_is_named_by_its_id_and_perhaps_a_packing() {
        let catalogue = Catalogue::default().merged_with(LIST, Path::new("models.toml"));
        let catalogue = catalogue.unwrap();
        let read = |text| Wish::read(text, &catalogue, HUB).unwrap();
        let listed = |variant: Option<&str>| Wish::Listed {
            id: "tiny".to_owned(),
            variant: variant.map(str::to_owned),
        };
        assert_eq!(read("Tiny"), listed(None));
        assert_eq!(read("tiny@8-bit"), listed(Some("8-bit")));
        let failure = Wish::read("tin", &catalogue, HUB).unwrap_err();
        assert!(failure.to_string().ends_with("there is tiny"), "{failure}");
    }
}

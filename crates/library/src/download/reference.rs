//! Parses the text by which a person names a model to download.

use transom_catalog::Catalog;

use crate::names::is_repository;

/// A model to download, as a person named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// An entry of the catalog.
    InCatalog {
        /// The entry's id.
        id: String,
        /// The quantization or format, if one was named.
        variant: Option<String>,
    },
    /// A repository of the hub.
    Hub {
        /// `owner/name`.
        repository: String,
        /// The quantization or file, if one was named.
        part: Option<String>,
    },
}

/// The text names neither a catalog entry nor a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no model is called {text}")]
pub struct UnknownModel {
    /// The given text.
    pub text: String,
    /// Ids of up to three similar entries.
    pub similar: Vec<String>,
}

impl Reference {
    /// Parses a catalog id, also with `@quantization`; a repository, also with `:quantization` or `:file`;
    /// or the URL of a repository's page. `endpoint` is the hub's URL.
    ///
    /// # Errors
    /// [`UnknownModel`], with similar ids.
    pub fn parse(text: &str, catalog: &Catalog, endpoint: &str) -> Result<Self, UnknownModel> {
        let text = text.trim();
        let (id, variant) = split(text, '@');
        if let Some(entry) = catalog.find(id) {
            let id = entry.id.clone();
            return Ok(Self::InCatalog { id, variant });
        }
        if let Some(reference) = Self::of_page(without_host(text, endpoint)) {
            return Ok(reference);
        }
        let similar = catalog.search(&id.replace(['-', '_', '/', ':'], " "));
        Err(UnknownModel {
            text: text.to_owned(),
            similar: similar
                .iter()
                .take(3)
                .map(|entry| entry.id.clone())
                .collect(),
        })
    }

    /// Parses `owner/name`, also with `:part`, or the path of a page about it or about a file in it.
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

/// Returns the path of a page, from a URL of the hub.
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

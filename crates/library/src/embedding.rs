//! Which models make embedding vectors, and what they read before a text.

use std::ops::RangeInclusive;

use transom_catalog::InstalledModel;
use transom_catalog::entries::Tag;

use crate::Library;

/// The side of a search that a text is on, which decides its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextSide {
    /// None: the text has no prefix.
    #[default]
    Neither,
    /// The text of a search.
    Query,
    /// The text of a document that searches find.
    Document,
}

impl Library {
    /// Returns true if the model makes embedding vectors and does not generate text.
    pub fn is_embedder(&self, model: &InstalledModel) -> bool {
        let facts = model.facts.as_ref();
        let entry = model.entry(&self.catalog);
        facts.is_ok_and(|facts| facts.embedding.is_some())
            || entry.is_some_and(|(entry, _)| entry.tags.contains(&Tag::Embedding))
    }

    /// Returns the first installed model that makes embedding vectors.
    pub fn first_embedder(&self) -> Option<&InstalledModel> {
        let mut models = self.installed().iter();
        models.find(|model| self.is_embedder(model))
    }

    /// Returns the prefix of texts on this side of a search, by the authors of the model. `None` if the
    /// catalog does not know the model, or no prefix of its.
    pub fn embedding_prefix(&self, model: &InstalledModel, side: TextSide) -> Option<&str> {
        let (entry, _) = model.entry(&self.catalog)?;
        if entry.query_prefix.is_empty() && entry.document_prefix.is_empty() {
            return None;
        }
        Some(match side {
            TextSide::Neither => "",
            TextSide::Query => &entry.query_prefix,
            TextSide::Document => &entry.document_prefix,
        })
    }

    /// Returns how many numbers a vector of the model may have: all of them, and fewer if its authors
    /// trained it for that. `None` if the size of the vectors is not known.
    pub fn embedding_dimensions(&self, model: &InstalledModel) -> Option<RangeInclusive<usize>> {
        let entry = model.entry(&self.catalog).map(|(entry, _)| entry);
        let facts = model.facts.as_ref().ok();
        let of_entry = entry.map(|entry| entry.architecture.hidden_size);
        let all = of_entry.or_else(|| facts.and_then(|facts| facts.hidden_size))?;
        let least = entry.map_or(0, |entry| entry.min_dimensions);
        let least = if least == 0 { all } else { least.min(all) };
        let count = |n: u64| usize::try_from(n).ok();
        Some(count(least)?..=count(all)?)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use transom_catalog::entries::FILE_NAME;
    use transom_supervisor::ModelRole;

    use super::*;
    use crate::test_support::{computer, install};
    use crate::{Catalog, LoadSettings, Places, ThisMachine};

    /// An embedding model, and a chat model.
    const CATALOG: &str = r#"
[[model]]
id = "vectors"
name = "Vectors"
tags = ["embedding"]
query_prefix = "query: "
min_dimensions = 64
variant = [{ format = "gguf", quantization = "F16", repository = "owner/vectors-GGUF", files = [{ name = "vectors-F16.gguf" }] }]
architecture = { model_type = "llama", parameters = 10_000_000, layers = 2, heads = 4, kv_heads = 2, hidden_size = 256, head_dim = 64, intermediate_size = 512, vocabulary = 16_384, context_length = 2048 }

[[model]]
id = "chat"
name = "Chat"
tags = ["chat"]
variant = [{ format = "gguf", quantization = "F16", repository = "owner/chat-GGUF", files = [{ name = "chat-F16.gguf" }] }]
architecture = { model_type = "llama", parameters = 10_000_000, layers = 2, heads = 4, kv_heads = 2, hidden_size = 256, head_dim = 64, intermediate_size = 512, vocabulary = 16_384, context_length = 2048 }
"#;

    #[test]
    fn an_embedding_model_has_its_role_and_its_prefixes() {
        let data = tempfile::tempdir().unwrap();
        for name in ["chat", "vectors"] {
            let repository = format!("owner/{name}-GGUF");
            install(data.path(), &repository, &format!("{name}-F16.gguf"));
        }
        let catalog = Catalog::default().merged_with(CATALOG, Path::new(FILE_NAME));
        let places = Places {
            data_folder: Some(data.path().to_owned()),
            ..Places::default()
        };
        let machine = ThisMachine::simulated(computer());
        let library = Library::new(Arc::new(catalog.unwrap()), places, machine);
        let [chat, vectors] = library.installed() else {
            panic!("two models");
        };
        assert_eq!(library.first_embedder(), Some(vectors));
        let role = |model| library.spec(model, &LoadSettings::default()).role;
        assert_eq!(role(chat), ModelRole::Chat);
        assert_eq!(role(vectors), ModelRole::Embedder);
        let prefix = |side| library.embedding_prefix(vectors, side);
        assert_eq!(prefix(TextSide::Query), Some("query: "));
        assert_eq!(prefix(TextSide::Document), Some(""));
        assert_eq!(library.embedding_prefix(chat, TextSide::Query), None);
        assert_eq!(library.embedding_dimensions(vectors), Some(64..=256));
        assert_eq!(library.embedding_dimensions(chat), Some(256..=256));
    }
}

//! The documents of `--attach`: their text before the prompt, and their share of its tokens.

use std::path::PathBuf;

use transom_documents::Document;
use transom_engine::{Attachment, with_attachments};
use transom_supervisor::Outcome;

use crate::{Failure, Result, client};

/// Reads the documents.
pub(super) fn read_all(paths: &[PathBuf]) -> Result<Vec<Document>> {
    let program = transom_documents::program();
    let documents = paths.iter();
    let documents = documents.map(|path| transom_documents::read(&program, path));
    Ok(documents.collect::<Result<_, _>>()?)
}

/// Returns the prompt with the documents before it.
pub(super) fn before(documents: &[Document], prompt: &str) -> String {
    let attachments = documents.iter().map(|document| Attachment {
        name: Some(&document.name),
        text: &document.text,
    });
    with_attachments(attachments, prompt)
}

/// If the prompt, which has `prompt_bytes`, was too long, returns the failure with the share of each
/// document. Only the model process can count tokens, so the shares are estimates by length.
pub(super) fn too_long(
    outcome: &Outcome,
    documents: &[Document],
    prompt_bytes: usize,
) -> Option<Failure> {
    let Outcome::Failed { error } = outcome else {
        return None;
    };
    let (prompt_tokens, _) = client::too_long(outcome).filter(|_| !documents.is_empty())?;
    let shares = documents.iter().map(|document| {
        let tokens = prompt_tokens * document.text.len() / prompt_bytes.max(1);
        format!("about {tokens} in {}", document.name)
    });
    let shares = shares.collect::<Vec<_>>().join(", ");
    Some(Failure::Usage(format!(
        "{error}; tokens of the documents: {shares}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_documents::Format;
    use transom_engine::EngineError;
    use transom_supervisor::RequestError;

    fn document(name: &str, text: &str) -> Document {
        Document {
            name: name.to_owned(),
            format: Format::Text,
            text: text.to_owned(),
            pages: None,
        }
    }

    #[test]
    fn documents_precede_the_prompt_with_their_names() {
        let documents = [document("a.md", "# A\n"), document("b.md", "# B")];
        assert_eq!(
            before(&documents, "Compare"),
            "<text name=\"a.md\">\n# A\n</text>\n\n<text name=\"b.md\">\n# B\n</text>\n\nCompare"
        );
        assert_eq!(before(&[], "Hi"), "Hi");
    }

    #[test]
    fn a_prompt_that_is_too_long_names_the_share_of_each_document() {
        let failed = |source| Outcome::Failed {
            error: RequestError::Engine { source },
        };
        let too_many = failed(EngineError::PromptTooLong {
            prompt_tokens: 400,
            context_length: 256,
        });
        let documents = [
            document("a.md", &"a".repeat(600)),
            document("b.md", &"b".repeat(200)),
        ];
        let failure = too_long(&too_many, &documents, 1000).unwrap();
        assert_eq!(failure.exit_code(), 2);
        let message = failure.to_string();
        assert!(message.contains("the context holds 256"), "{message}");
        assert!(
            message.ends_with("tokens of the documents: about 240 in a.md, about 80 in b.md"),
            "{message}"
        );
        assert!(too_long(&too_many, &[], 1000).is_none());
        assert!(too_long(&failed(EngineError::EmptyPrompt), &documents, 1000).is_none());
    }
}

//! Tokens of texts, and prompts that the engine builds from several texts.

use transom_engine::{EngineError, FillIn, Prompt, TokenInput, Tokenizer};

use crate::models;
use crate::process::{TestProcess, limits};
use crate::request::TestRequest;
use crate::subject::Subject;

/// Tokens of the tiny model that become the markers around a gap. In many files, such markers are not
/// special, like the last two here.
const RENAMED: [(&str, &str); 3] = [
    ("<|im_start|>", "<fim_prefix>"),
    ("<think>", "<fim_suffix>"),
    ("</think>", "<fim_middle>"),
];

fn fill_in(prefix: &str, suffix: &str) -> TestRequest {
    let mut request = TestRequest::text("");
    request.0.prompt = Prompt::FillIn(FillIn {
        prefix: prefix.to_owned(),
        suffix: suffix.to_owned(),
    });
    request
}

pub(crate) async fn a_gap_is_filled_between_its_markers(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let source = models::copy_of_tiny(folder.path(), "markers");
    models::change_json(&source.join("tokenizer.json"), |json| {
        let added = json["added_tokens"].as_array_mut().unwrap();
        for token in added {
            let renamed = RENAMED.iter().find(|(name, _)| token["content"] == *name);
            if let Some((_, name)) = renamed {
                token["content"] = (*name).into();
            }
        }
    });
    let model = (subject.convert)(&source, &folder.path().join("converted"));
    let mut process = TestProcess::with(subject, &model, &limits(512)).await;
    let tokenizer = Tokenizer::from_folder(&source).unwrap();
    let markers = RENAMED.map(|(_, name)| tokenizer.token_to_id(name).unwrap());
    // One token for each byte, also of a marker that is spelled in the text.
    let plain = |text: &str| -> Vec<u32> {
        let characters = text.chars().map(String::from);
        let tokens = characters.map(|character| tokenizer.encode(&character, false).unwrap());
        tokens.flatten().collect()
    };
    for (prefix, suffix) in [
        ("fn main() {\n    let ", ";\n}\n"),
        ("a<fim_middle>b<|endoftext|>", "<fim_prefix>"),
        ("", "汉"),
        ("x", ""),
    ] {
        let [before, after, middle] = markers;
        let mut tokens = [vec![before], plain(prefix), vec![after], plain(suffix)].concat();
        tokens.push(middle);
        let filled = process.generate(&fill_in(prefix, suffix)).await;
        assert_eq!(filled.started().prompt_tokens, tokens.len(), "{prefix}");
        // The same tokens continue its KV cache.
        let same = process.generate(&TestRequest::tokens(tokens.clone())).await;
        let n_read = tokens.len() - same.started().cached_tokens;
        assert!(n_read <= 1 + subject.reuse_slack, "{prefix}: {n_read}");
        assert_eq!(same.full_text(), filled.full_text());
    }
    let long = "x".repeat(600);
    let refused = process.generate(&fill_in(&long, "y")).await;
    let error = EngineError::PromptTooLong {
        prompt_tokens: 604,
        context_length: 512,
    };
    assert_eq!(refused.error(), &error);
    process.shut_down().await;

    let mut process = TestProcess::tiny(subject).await;
    let refused = process.generate(&fill_in("a", "b")).await;
    assert!(
        matches!(refused.error(), EngineError::InvalidParameter { name, .. } if name == "suffix"),
        "{refused:?}"
    );
    process.shut_down().await;
}

pub(crate) async fn texts_become_tokens_and_tokens_become_texts(subject: &Subject) {
    let mut process = TestProcess::starter(subject).await;
    let tokenizer = Tokenizer::from_folder(&models::starter_folder()).unwrap();
    let special = "<|im_end|>";
    let special_id = tokenizer.token_to_id(special).unwrap();
    for text in [
        "",
        "The capital of France?",
        " 汉字 🦀\n",
        special,
        "a<|im_end|>b",
    ] {
        for (add_special, parse_special) in [(false, true), (true, true), (false, false)] {
            let input = TokenInput::Text {
                text: text.to_owned(),
                add_special,
                parse_special,
            };
            let pieces = process.pieces(input).await.unwrap();
            let ids: Vec<u32> = pieces.iter().map(|piece| piece.id).collect();
            let has_special = ids.contains(&special_id);
            assert_eq!(
                has_special,
                parse_special && text.contains(special),
                "{text}"
            );
            if parse_special {
                assert_eq!(ids, tokenizer.encode(text, add_special).unwrap(), "{text}");
            }
            let back = process.pieces(TokenInput::Tokens(ids)).await.unwrap();
            assert_eq!(back, pieces);
            let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.bytes).collect();
            assert_eq!(String::from_utf8(bytes).unwrap(), text);
        }
    }
    let unknown = process.pieces(TokenInput::Tokens(vec![1, 1 << 20])).await;
    assert!(
        matches!(&unknown, Err(EngineError::InvalidParameter { name, .. }) if name == "token"),
        "{unknown:?}"
    );
    process.shut_down().await;
}

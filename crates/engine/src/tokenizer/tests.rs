//! The detokenizer equals the `tokenizers` crate's decode; errors name the file.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::chat::{ChatPrompt, Message, Role};
use crate::template::ChatTemplate;
use crate::text::utf8::Utf8Buffer;

/// The starter model's tokenizer: byte-level BPE.
static STARTER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
    Tokenizer::from_folder(&folder).unwrap()
});

static LLAMA_STYLE: LazyLock<Tokenizer> = LazyLock::new(|| {
    let normalizer = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ]});
    let decoder = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]});
    sentence_piece(&normalizer, &decoder)
});

static GEMMA_STYLE: LazyLock<Tokenizer> = LazyLock::new(|| {
    let normalizer = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let decoder = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]});
    sentence_piece(&normalizer, &decoder)
});

/// A tiny SentencePiece-style BPE: letters, some merges, and byte tokens.
fn sentence_piece(normalizer: &Value, decoder: &Value) -> Tokenizer {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>", "<think>"]
        .map(str::to_owned)
        .into();
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(["▁", "▁▁", "é", "th", "▁a", "the", "▁the", "日"].map(str::to_owned));
    tokens.extend(('a'..='z').map(String::from));
    let vocab: serde_json::Map<String, Value> = tokens
        .iter()
        .enumerate()
        .map(|(id, token)| (token.clone(), json!(id)))
        .collect();
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "special": true,
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
    };
    tokenizer(&json!({
        "version": "1.0",
        "added_tokens": [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>"),
            special(3, "<think>")],
        "normalizer": normalizer,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": decoder,
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": vocab,
            "merges": [["t", "h"], ["th", "e"], ["▁", "▁"], ["▁", "a"], ["▁", "the"]]},
    }))
    .unwrap()
}

/// A word-level tokenizer with this decoder.
fn words(decoder: &Value) -> Result<Tokenizer, EngineError> {
    tokenizer(&json!({
        "version": "1.0",
        "decoder": decoder,
        "model": {"type": "WordLevel", "unk_token": "a", "vocab": {
            "a": 0, "▁b": 1, "##c": 2, "d</w>": 3, "▁▁e": 4, "n't": 5, ".": 6, "  ": 7, "x": 8}},
    }))
}

fn tokenizer(json: &Value) -> Result<Tokenizer, EngineError> {
    let folder = folder(&[("tokenizer.json", &json.to_string())]);
    Tokenizer::from_folder(folder.path())
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// Decodes `ids` token by token.
fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut detokenizer = tokenizer.detokenizer();
    let mut buffer = Utf8Buffer::default();
    let mut text: String = ids
        .iter()
        .map(|&id| buffer.push(&detokenizer.push(id)))
        .collect();
    text.push_str(buffer.finish());
    text
}

#[test]
fn special_tokens_in_text_become_their_ids() {
    let ids = STARTER
        .encode("<|im_start|>user\nHi<|im_end|>", true)
        .unwrap();
    assert_eq!(ids.first(), STARTER.token_to_id("<|im_start|>").as_ref());
    assert_eq!(ids.last(), STARTER.token_to_id("<|im_end|>").as_ref());
    assert_eq!(streamed(&STARTER, &ids), "user\nHi");
    assert_eq!(LLAMA_STYLE.encode("a", true).unwrap().first(), Some(&1));
    assert_ne!(LLAMA_STYLE.encode("a", false).unwrap().first(), Some(&1));
}

#[test]
fn a_plain_text_has_no_special_tokens() {
    assert_eq!(LLAMA_STYLE.start_tokens().unwrap(), [1]);
    for text in ["", "a<s>b", "<s></s><think>", "日<s"] {
        let ids = LLAMA_STYLE.encode_plain(text).unwrap();
        assert!(ids.iter().all(|id| *id > 3), "{text}: {ids:?}");
        let input = TokenInput::Text {
            text: text.to_owned(),
            add_special: true,
            parse_special: false,
        };
        let pieces = LLAMA_STYLE.pieces(&input).unwrap();
        let (start, rest) = pieces.split_first().unwrap();
        assert_eq!((start.id, &*start.bytes), (1, &b"<s>"[..]));
        let bytes: Vec<u8> = rest.iter().flat_map(|piece| piece.bytes.clone()).collect();
        // Such tokenizers begin every text with a space.
        assert_eq!(String::from_utf8(bytes).unwrap().trim_start(), text);
    }
}

#[test]
fn a_token_has_an_id() {
    let id = STARTER.token_to_id("<|im_end|>").unwrap();
    let token = STARTER.inner.id_to_token(id);
    assert_eq!(token.as_deref(), Some("<|im_end|>"));
    assert_eq!(STARTER.token_to_id("no such token"), None);
}

#[test]
fn only_reasoning_markers_among_special_tokens_have_text() {
    let mut detokenizer = LLAMA_STYLE.detokenizer();
    assert_eq!(detokenizer.push(1), b"");
    assert_eq!(detokenizer.push(99_999), b"");
    assert_eq!(detokenizer.push(u32::MAX), b"");
    assert_eq!(detokenizer.push(3), b"<think>");
}

#[test]
fn only_the_first_space_of_a_llama_text_is_dropped() {
    let ids = LLAMA_STYLE.encode("the  the", false).unwrap();
    assert_eq!(streamed(&LLAMA_STYLE, &ids), "the  the");
    let ids = LLAMA_STYLE.encode(" a", false).unwrap();
    assert_eq!(streamed(&LLAMA_STYLE, &ids), " a");
}

#[test]
fn a_character_may_span_tokens() {
    let mut detokenizer = GEMMA_STYLE.detokenizer();
    let pieces: Vec<Vec<u8>> = GEMMA_STYLE
        .encode("€", false)
        .unwrap()
        .into_iter()
        .map(|id| detokenizer.push(id))
        .collect();
    assert_eq!(pieces, [[0xE2], [0x82], [0xAC]]);
}

#[test]
fn every_byte_has_its_character_in_the_byte_level_alphabet() {
    let alphabet: Vec<char> = ('\0'..='\u{143}')
        .filter(|&c| detokenizer::byte_of(c).is_some())
        .collect();
    let mut bytes: Vec<u8> = alphabet
        .iter()
        .filter_map(|&c| detokenizer::byte_of(c))
        .collect();
    bytes.sort_unstable();
    assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
    let crates_own = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
    assert_eq!(
        alphabet
            .into_iter()
            .collect::<std::collections::HashSet<_>>(),
        crates_own.into_iter().collect()
    );
}

#[test]
fn errors_name_missing_and_invalid_files() {
    let empty = folder(&[]);
    let error = Tokenizer::from_folder(empty.path()).unwrap_err();
    assert!(
        matches!(&error, EngineError::NotFound { path, .. } if path.ends_with("tokenizer.json"))
    );

    let broken = folder(&[("tokenizer.json", "{\n  \"version\": ,\n}")]);
    let error = Tokenizer::from_folder(broken.path()).unwrap_err();
    let EngineError::BadFile { path, reason } = &error else {
        panic!("{error:?}");
    };
    assert!(path.ends_with("tokenizer.json"));
    assert!(reason.contains("line 2 column 14"), "{reason}");

    let sound = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter/tokenizer.json"),
    )
    .unwrap();
    let broken = folder(&[
        ("tokenizer.json", &sound),
        ("tokenizer_config.json", "{\"bos_token\": 3}"),
    ]);
    let error = Tokenizer::from_folder(broken.path()).unwrap_err();
    assert!(
        error.to_string().contains("tokenizer_config.json"),
        "{error}"
    );
    assert!(error.to_string().contains("line 1 column"), "{error}");

    let cut = folder(&[("tokenizer.json", &sound[..sound.len() / 2])]);
    let error = Tokenizer::from_folder(cut.path()).unwrap_err();
    assert!(matches!(error, EngineError::BadFile { .. }));
}

#[test]
fn an_empty_vocabulary_is_refused() {
    let json = json!({"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}});
    let error = tokenizer(&json).unwrap_err();
    assert!(
        error.to_string().ends_with("the vocabulary is empty"),
        "{error}"
    );
}

#[test]
fn an_inconsistent_file_is_an_error() {
    let tokenizer = tokenizer(&json!({
        "version": "1.0",
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {}},
        "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}},
    }));
    let error = tokenizer.and_then(|t| t.encode("a", true)).unwrap_err();
    assert!(error.to_string().contains("contradicts itself"), "{error}");
}

#[test]
fn decoders_that_cannot_run_token_by_token_are_unsupported() {
    let late_replace = json!({"type": "Sequence", "decoders": [
        {"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "ab"}, "content": "c"}]});
    let late_strip = json!({"type": "Sequence", "decoders": [
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 0, "stop": 1}]});
    let ctc =
        json!({"type": "CTC", "pad_token": "a", "word_delimiter_token": "|", "cleanup": true});
    for decoder in [late_replace, late_strip, ctc] {
        let error = words(&decoder).unwrap_err();
        assert!(
            matches!(error, EngineError::Unsupported { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn training_settings_neither_truncate_nor_pad_prompts() {
    let tokenizer = tokenizer(&json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "a"},
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1}},
    }))
    .unwrap();
    assert_eq!(tokenizer.encode("b a b", true).unwrap(), [1, 0, 1]);
}

#[test]
fn special_tokens_are_read_as_text_or_object_from_either_file() {
    let folder = folder(&[
        (
            "tokenizer_config.json",
            r#"{"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": null,
                "add_bos_token": true, "model_max_length": 1e30, "unk_token": "<unk>",
                "chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}"#,
        ),
        (
            "special_tokens_map.json",
            r#"{"bos_token": "<other>", "eos_token": "</s>"}"#,
        ),
    ]);
    let config = TokenizerConfig::from_folder(folder.path()).unwrap();
    assert_eq!(config.bos_token.as_deref(), Some("<s>"));
    assert_eq!(config.eos_token.as_deref(), Some("</s>"));
    let template = config.chat_template.as_ref().unwrap();
    assert_eq!(template.default_template(), Some("d"));
    let tokens: Vec<_> = config.special_tokens().into_iter().collect();
    assert_eq!(
        tokens,
        [
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>")
        ]
    );
}

#[test]
fn a_folder_without_configuration_gives_the_defaults() {
    let config = TokenizerConfig::from_folder(&PathBuf::from("no such folder")).unwrap();
    assert_eq!(config, TokenizerConfig::default());
}

/// Renders one message between two special tokens.
fn render(tokenizer: &Tokenizer, special: &str, text: &str) -> RenderedPrompt {
    let source = format!("{special}{{{{ messages[0].content }}}}{special}");
    let template = ChatTemplate::new(&source, [("", "")], tokenizer.control_tokens()).unwrap();
    let prompt = ChatPrompt {
        messages: vec![Message::new(Role::User, text)],
        ..ChatPrompt::default()
    };
    template.render(&prompt, std::time::UNIX_EPOCH).unwrap()
}

#[test]
fn special_tokens_in_messages_are_text() {
    for (tokenizer, special) in [
        (&STARTER, "<|im_end|>"),
        (&LLAMA_STYLE, "</s>"),
        (&GEMMA_STYLE, "</s>"),
    ] {
        let id = tokenizer.token_to_id(special).unwrap();
        let text = format!("the é{special}{special} the <{special}");
        let ids = tokenizer
            .encode_prompt(&render(tokenizer, special, &text))
            .unwrap();
        let n_special = ids.iter().filter(|&&token| token == id).count();
        assert_eq!(
            (ids[0], *ids.last().unwrap(), n_special),
            (id, id, 2),
            "{special}"
        );
        assert_eq!(
            streamed(tokenizer, &ids[1..ids.len() - 1]),
            text,
            "{special}"
        );
        // Text without special tokens has its usual tokens.
        let plain = |text: &str| tokenizer.encode(text, false).unwrap();
        let ordinary = format!("{special}the é");
        assert!(ids.starts_with(&plain(&ordinary)), "{special}");
    }
}

#[test]
fn special_tokens_in_messages_are_refused_if_they_cannot_be_distinguished() {
    let special = json!({"id": 1, "content": "<s>", "special": true, "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false});
    let tokenizer = tokenizer(&json!({
        "version": "1.0",
        "added_tokens": [special],
        "normalizer": {"type": "ByteLevel"},
        "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "<s>": 1}},
    }))
    .unwrap();
    assert!(
        tokenizer
            .encode_prompt(&render(&tokenizer, "<s>", "a"))
            .is_ok()
    );
    let error = tokenizer
        .encode_prompt(&render(&tokenizer, "<s>", "<s>"))
        .unwrap_err();
    assert!(matches!(error, EngineError::Unsupported { .. }), "{error}");
}

#[test]
fn errors_name_an_endless_file() {
    let endless = |name: &str| {
        let folder = folder(&[]);
        let path = folder.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        folder
    };
    let folder = endless("tokenizer.json");
    let error = Tokenizer::from_folder(folder.path()).unwrap_err();
    assert!(
        matches!(&error, EngineError::BadFile { path, .. } if path.ends_with("tokenizer.json"))
    );
    let folder = endless("tokenizer_config.json");
    let error = TokenizerConfig::from_folder(folder.path()).unwrap_err();
    assert!(matches!(error, EngineError::BadFile { .. }));
    for name in ["chat_template.jinja", "chat_template.json"] {
        let folder = endless(name);
        let config = TokenizerConfig::default();
        let template = ChatTemplate::from_folder(folder.path(), &config, ControlTokens::default());
        let error = template.unwrap_err();
        assert!(matches!(&error, EngineError::BadFile { path, .. } if path.ends_with(name)));
    }
}

/// Decoders for word-level tokenizers.
fn word_decoders() -> Vec<Value> {
    vec![
        Value::Null,
        json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        json!({"type": "WordPiece", "prefix": "##", "cleanup": false}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}),
        json!({"type": "BPEDecoder", "suffix": "</w>"}),
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"Regex": "[▁x]+"}, "content": " "},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "Fuse"}]}),
    ]
}

proptest! {
    #[test]
    fn the_starter_tokenizer_decodes_any_text_as_the_crate_does(text in "\\PC*") {
        let ids = STARTER.encode(&text, false).unwrap();
        let decoded = STARTER.inner.decode(&ids, true).unwrap();
        prop_assert_eq!(streamed(&STARTER, &ids), decoded);
    }

    #[test]
    fn composed_text_round_trips(text in "[ -~\n\t«»äöüßéñ€中文日本語한국😀👍🏽‍]*") {
        let ids = STARTER.encode(&text, false).unwrap();
        prop_assert_eq!(streamed(&STARTER, &ids), text);
    }

    #[test]
    fn any_ids_decode_as_the_crate_does(ids in prop::collection::vec(0..4096_u32, 0..40)) {
        let decoded = STARTER.inner.decode(&ids, true).unwrap();
        prop_assert_eq!(streamed(&STARTER, &ids), decoded);
    }

    #[test]
    fn byte_fallback_round_trips_any_text(text in "[ a-zé日€😀\n]*") {
        for tokenizer in [&LLAMA_STYLE, &GEMMA_STYLE] {
            let ids = tokenizer.encode(&text, true).unwrap();
            prop_assert_eq!(&tokenizer.inner.decode(&ids, true).unwrap(), &text);
            prop_assert_eq!(&streamed(tokenizer, &ids), &text);
        }
    }

    #[test]
    fn word_vocabularies_decode_as_the_crate_does(
        ids in prop::collection::vec(0..9_u32, 1..12),
        decoder in prop::sample::select(word_decoders()),
    ) {
        let tokenizer = words(&decoder).unwrap();
        let decoded = tokenizer.inner.decode(&ids, true).unwrap();
        prop_assert_eq!(streamed(&tokenizer, &ids), decoded, "{}", decoder);
    }

    #[test]
    fn a_damaged_file_never_panics(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = LLAMA_STYLE.inner.to_string(false).unwrap().into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let path = PathBuf::from("tokenizer.json");
        match Tokenizer::from_parts(path, &bytes, TokenizerConfig::default()) {
            Ok(tokenizer) => {
                let ids = tokenizer.encode("the é 日", true).unwrap_or_default();
                streamed(&tokenizer, &ids);
            }
            Err(EngineError::BadFile { .. } | EngineError::Unsupported { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

//! Tests of the errors in a catalog file and their positions.
//!
//! Rule: each error is one clear sentence, with the line and column of the text to change.

use std::path::Path;

use transom_catalog::{Catalog, CatalogErrorCode};

use super::{FULL, read};

/// Replaces `from` with `to` in the full catalog, and compares the error with `line:column: reason`.
/// The position is that of `«` in `to`.
#[track_caller]
fn check(from: &str, to: &str, reason: &str) {
    assert_eq!(FULL.matches(from).count(), 1, "{from:?} must occur once");
    let marked = FULL.replace(from, to);
    let text = marked.replace('«', "");
    let before = &marked[..marked.find('«').unwrap_or(0)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let error = read(&text).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("models.toml:{line}:{column}: {reason}")
    );
}

/// Like [`check`], for the beginning of a reason.
#[track_caller]
fn check_start(from: &str, to: &str, start: &str) {
    let text = FULL.replace(from, to);
    assert_ne!(text, FULL);
    let error = read(&text).unwrap_err();
    assert!(error.reason.starts_with(start), "{error}");
}

#[test]
fn a_catalog_with_every_key_is_read_completely() {
    let list = read(FULL).unwrap();
    let [big, small] = list.entries.as_slice() else {
        panic!("{list:?}");
    };
    assert_eq!((&*big.id, &*small.id), ("big", "small"));
    assert_eq!(big.draft.as_deref(), Some("small"));
    assert_eq!(big.context_length, 40_960);
    assert_eq!(big.sampling.min_p, Some(0.0));
    assert_eq!(big.architecture.experts_per_token, Some(8));
    assert_eq!(big.variants.len(), 2);
    let [weights, config] = big.variants[0].files.as_slice() else {
        panic!("{big:?}");
    };
    let sha256 = "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999";
    assert_eq!(weights.sha256.as_deref(), Some(sha256));
    assert_eq!(config.size_bytes, Some(1000));
    assert_eq!(big.variants[1].revision, "main");
    assert_eq!(small.license, "");
    assert!(!big.is_users);
}

#[test]
fn text_that_is_not_toml_is_reported_where_it_begins() {
    check(
        "name = \"Small\"",
        "name = «Small",
        "text must be in quotes: \"…\"",
    );
    check(
        "name = \"Small\"",
        "name = \"Small«",
        "this text has no closing quote on its line",
    );
    check(
        "name = \"Small\"",
        "name «\"Small\"",
        "a key needs `=` and a value",
    );
    check(
        "id = \"small\"",
        "id = \"small\"\n«id = \"small\"",
        "this key is repeated; remove one of the two",
    );
    check(
        "id = \"small\"",
        "id = \"small\" «name = 3",
        "begin a new line here",
    );
    check_start("layers = 28", "layers = 28__0", "this is not TOML: ");
    let error = read("[[model]\nid = \"a\"").unwrap_err();
    assert_eq!(error.reason, "the closing `]` is missing");
    assert_eq!(
        read("models = 1").unwrap_err().to_string(),
        "models.toml:1:1: there is no key `models`; did you mean `model`?"
    );
    assert_eq!(
        read("[model]\nid = \"a\"").unwrap_err().to_string(),
        "models.toml:1:1: begin each `model` with [[model]]"
    );
}

#[test]
fn an_unknown_key_is_reported_with_a_similar_one() {
    check(
        "license = \"Apache-2.0\"",
        "«licens = \"Apache-2.0\"",
        "there is no key `licens`; did you mean `license`?",
    );
    check(
        "top_k = 20",
        "«topk = 20",
        "there is no key `topk`; did you mean `top_k`?",
    );
    check(
        "value_dim = 64",
        "«value_dims = 64",
        "there is no key `value_dims`; did you mean `value_dim`?",
    );
    check(
        "size_bytes = 4_000_000_000",
        "«size = 4_000_000_000",
        "there is no key `size`; did you mean `size_bytes`?",
    );
    check(
        "size_bytes = 1000 }",
        "size_bytes = 1000, «mode = 1 }",
        "there is no key `mode` here; the keys are name, size_bytes, sha256",
    );
}

#[test]
fn the_old_spelling_of_a_key_is_still_read() {
    let old = FULL
        .replace("license =", "licence =")
        .replace("quantization =", "packing =")
        .replace("[\"sampling\"]", "[\"sampling\", \"licence\"]");
    let big = read(&old).unwrap().entries.swap_remove(0);
    assert_eq!(big.license, "Apache-2.0");
    assert_eq!(big.unverified, ["sampling", "license"]);
    assert_eq!(big.variants[0].quantization, "4-bit");
    check(
        "license = \"Apache-2.0\"",
        "license = \"Apache-2.0\"\n«licence = \"MIT\"",
        "`licence` is the old name of `license`; remove one of the two",
    );
}

/// Windows translate an error by its code and name the key.
#[test]
fn an_error_has_a_code_and_a_key() {
    use CatalogErrorCode::*;
    for (from, to, code, key) in [
        ("layers = 28", "layers = 28__0", Syntax, ""),
        ("value_dim =", "value_dims =", UnknownKey, "value_dims"),
        ("hidden_size = 1024\n", "", MissingKey, "hidden_size"),
        ("top_k = 20", "top_k = \"20\"", WrongType, "top_k"),
        ("top_p = 0.95", "top_p = 2", WrongValue, "top_p"),
        (
            "license =",
            "licence = \"MIT\"\nlicense =",
            Duplicate,
            "licence",
        ),
    ] {
        let error = read(&FULL.replace(from, to)).unwrap_err();
        assert_eq!((error.code, &*error.key), (code, key), "{error}");
    }
}

#[test]
fn every_code_has_a_sentence_in_the_app() {
    use CatalogErrorCode::*;
    let texts = include_str!("../../../../ui/src/i18n/en/models.json");
    for code in [
        Unreadable, Syntax, UnknownKey, MissingKey, WrongType, WrongValue, Duplicate,
    ] {
        let code = serde_json::json!(code);
        let key = format!("\"catalog_error.{}\"", code.as_str().unwrap());
        assert!(texts.contains(&key), "{key}");
    }
}

#[test]
fn a_missing_key_is_reported_at_its_table_with_an_example() {
    let text = FULL.replace("id = \"big\"\n", "");
    let expected = "models.toml:1:1: this model has no `id`; write id = \"my-model\"";
    assert_eq!(read(&text).unwrap_err().to_string(), expected);
    check(
        "[model.architecture]\nmodel_type = \"qwen3\"\nparameters = 6",
        "«[model.architecture]\nparameters = 6",
        "[model.architecture] has no `model_type`; write model_type = \"qwen3\"",
    );
    check(
        "[[model.variant]]\nformat = \"gguf\"\nquantization = \"Q8_0\"",
        "«[[model.variant]]\nformat = \"gguf\"",
        "this variant has no `quantization`; write quantization = \"Q4_K_M\"",
    );
    check(
        "{ name = \"config.json\", size_bytes = 1000 }",
        "«{ size_bytes = 1000 }",
        "this file has no `name`; write name = \"model.safetensors\"",
    );
    let small = FULL.find("[[model]]\nid = \"small\"").unwrap();
    let architecture = FULL[small..].find("[model.architecture]").unwrap();
    let bare = read(&FULL[small..small + architecture]).unwrap_err();
    assert!(
        bare.reason.contains("has no [model.architecture]"),
        "{bare}"
    );
    let variant = FULL[small..].find("[[model.variant]]").unwrap();
    let bare = read(&FULL[small..small + variant]).unwrap_err();
    assert!(bare.reason.contains("has no [[model.variant]]"), "{bare}");
    assert_eq!(bare.line, 1);
}

#[test]
fn a_value_of_the_wrong_type_is_reported_with_its_type() {
    check(
        "layers = 28",
        "layers = «\"28\"",
        "`layers` must be a whole number, not text in quotes",
    );
    check(
        "layers = 28",
        "layers = «28.5",
        "`layers` must be a whole number, not a number with a fraction",
    );
    check(
        "name = \"Small\"",
        "name = «3",
        "`name` must be text in quotes, not a whole number",
    );
    check(
        "tags = [\"chat\", \"reasoning\"]",
        "tags = «\"chat\"",
        "`tags` must be a list such as tags = [\"…\"], not text in quotes",
    );
    check(
        "tags = [\"chat\", \"reasoning\"]",
        "tags = [\"chat\", «1979-05-27]",
        "each of `tags` must be text in quotes, not a date",
    );
    check(
        "temperature = 0.6",
        "temperature = «true",
        "`temperature` must be a number, not true or false",
    );
}

#[test]
fn an_impossible_value_is_reported_with_the_possible_ones() {
    check(
        "layers = 28",
        "layers = «0",
        "`layers` must be from 1 to 4096",
    );
    check(
        "layers = 28",
        "layers = «-28",
        "`layers` must be from 1 to 4096",
    );
    check(
        "top_p = 0.95",
        "top_p = «1.5",
        "`top_p` must be from 0.01 to 1",
    );
    check(
        "top_p = 0.95",
        "top_p = «nan",
        "`top_p` must be from 0.01 to 1",
    );
    check(
        "name = \"Small\"",
        "name = «\" \"",
        "`name` is empty; write something, or remove the key",
    );
    check(
        "name = \"Small\"",
        "name = «\"Small\\u001B[2J\"",
        "`name` contains an invisible character (U+001B); remove it",
    );
    check_start(
        "id = \"big\"",
        "id = \"Big Model\"",
        "`id` is what people type",
    );
    check_start(
        "id = \"big\"",
        "id = \"owner/big\"",
        "`id` is what people type",
    );
    check(
        "source = \"https://example.org/big\"",
        "source = «\"http://example.org/big\"",
        "`source` must be an address that begins with https://",
    );
    check_start(
        "\"Apache-2.0\"",
        "\"Apache 2.0, see file\"",
        "`license` must be an SPDX",
    );
    check(
        "repository = \"owner/Big-GGUF\"",
        "repository = «\"https://huggingface.co/owner/Big-GGUF\"",
        "`repository` must be \"owner/name\" as on the hub",
    );
    check_start("\"0123abc\"", "\"../main\"", "`revision` must be");
    check(
        "format = \"mlx\"",
        "format = «\"safetensors\"",
        "`format` must be \"mlx\" or \"gguf\", not \"safetensors\"",
    );
    check(
        "\"AAAABBBB",
        "«\"AAAABBB",
        "`sha256` must have 64 hexadecimal digits, not 63 characters",
    );
}

#[test]
fn inconsistent_numbers_are_reported() {
    check(
        "parameters = 600_000_000",
        "parameters = «6_000_000",
        "`parameters` are fewer than the vocabulary alone has (`vocabulary` times `hidden_size`)",
    );
    check(
        "active_parameters = 3_000_000_000",
        "active_parameters = «30_000_000_000",
        "`active_parameters` cannot be more than `parameters`",
    );
    check(
        "active_parameters = 3_000_000_000\nexperts_per_token = 8",
        "experts_per_token = «8",
        "`experts_per_token` needs `active_parameters`; write how many weights a token uses",
    );
    check(
        "linear_layers = 10",
        "linear_layers = «17",
        "`sliding_layers` and `linear_layers` together are more than `layers`",
    );
    check_start(
        "sliding_window = 1024\n",
        "",
        "`sliding_layers` needs a `sliding_window`",
    );
    check_start(
        "linear_state_bytes = 123_456\n",
        "",
        "`linear_layers` needs",
    );
    check_start("linear_layers = 10\n", "", "`linear_state_bytes` needs");
    let heads = FULL.replace("heads = 16\nkv_heads = 8", "heads = 16\nkv_heads = 7");
    let error = read(&heads).unwrap_err();
    assert_eq!(error.reason, "`heads` must be a multiple of `kv_heads`");
}

#[test]
fn names_of_other_entries_tags_and_quantizations_must_exist() {
    check(
        "draft = \"small\"",
        "draft = «\"smal\"",
        "no model has the id `smal`; did you mean `small`?",
    );
    check(
        "draft = \"small\"",
        "draft = «\"big\"",
        "a draft must be smaller than its model, and `big` is not",
    );
    let text = FULL.replace("id = \"small\"", "id = \"big\"");
    let error = read(&text.replace("draft = \"small\"\n", "")).unwrap_err();
    let expected = "models.toml:51:6: `big` is already the id of the model at line 2";
    assert_eq!(error.to_string(), expected);
    check(
        "\"reasoning\"]",
        "«\"reasonning\"]",
        "there is no tag `reasonning`; did you mean `reasoning`?",
    );
    check(
        "\"reasoning\"]",
        "«\"vision\"]",
        "there is no tag `vision`; the tags are chat, code, reasoning, embedding",
    );
    check(
        "\"reasoning\"]",
        "«\"chat\"]",
        "the tag `chat` is listed twice",
    );
    check(
        "quantization = \"Q4_K_M\"",
        "quantization = «\"q4_k_m\"",
        "there is no quantization `q4_k_m` of GGUF; did you mean `Q4_K_M`?",
    );
    check(
        "quantization = \"4-bit\"",
        "quantization = «\"4bit\"",
        "there is no quantization `4bit` of MLX; did you mean `4-bit`?",
    );
    check(
        "unverified = [\"sampling\"]",
        "unverified = [«\"samplings\"]",
        "`unverified` lists keys of this table, not `samplings`; did you mean `sampling`?",
    );
}

#[test]
fn file_names_must_stay_inside_the_download_folder() {
    for name in [
        "../x.safetensors",
        "/etc/x.safetensors",
        "a/../../x",
        "a//b",
        "C:x",
        "a\\b",
        ".x",
    ] {
        let text = FULL.replace("name = \"model.safetensors\"", &format!("name = '{name}'"));
        let error = read(&text).unwrap_err();
        let expected = "the name of a file must be a path inside the repository";
        assert!(error.reason.starts_with(expected), "{error}");
    }
    let below = FULL.replace(
        "name = \"model.safetensors\"",
        "name = \"a/b/model.safetensors\"",
    );
    assert!(read(&below).is_ok());
    let twice = FULL.replace("name = \"config.json\"", "name = \"Model.safetensors\"");
    let error = read(&twice).unwrap_err();
    assert_eq!(error.reason, "the file `Model.safetensors` is listed twice");
    check_start(
        "name = \"model.safetensors\"",
        "name = \"model.gguf\"",
        "none of the files is a *.safetensors file",
    );
}

#[test]
fn sizes_must_match_each_other_and_the_parameters() {
    check(
        "size_bytes = 4_000_000_000",
        "size_bytes = «3_900_000_999",
        "the files have 3900001000 bytes together, more than the `size_bytes` of 3900000999",
    );
    check_start(
        "size_bytes = 3_900_000_000",
        "size_bytes = 390_000_000",
        "390000000 bytes are not",
    );
    let text = FULL.replace("size_bytes = 4_000_000_000", "size_bytes = 40_000_000_000");
    assert!(read(&text).is_err(), "ten times too large");
}

#[test]
fn the_first_error_of_a_file_is_reported() {
    let text = FULL
        .replace("layers = 28", "layers = 0")
        .replace("layers = 36", "layers = 0");
    assert_eq!(read(&text).unwrap_err().line, 22);
}

#[test]
fn columns_count_characters_and_windows_line_ends_are_allowed() {
    let text = FULL
        .replace('\n', "\r\n")
        .replace("\"For tests,", "\"Für Tests, größere,");
    assert!(read(&text).is_ok());
    let text = "[[model]]\r\nname = \"größer\" 3\r\n";
    let error = read(text).unwrap_err();
    assert_eq!((error.line, error.column), (2, 17), "{error}");
}

#[test]
fn a_users_catalog_cannot_contain_the_bundled_model() {
    let text = FULL.replace("id = \"small\"", "id = \"small\"\npath = \"assets\"");
    assert!(read(&text).is_ok());
    let merged = Catalog::default().merged_with(&text, Path::new("mine.toml"));
    let error = merged.unwrap_err();
    assert!(error.to_string().starts_with("mine.toml:"), "{error}");
    assert!(
        error.reason.contains("add your own folder by its path"),
        "{error}"
    );
    let outside = text.replace("\"assets\"", "\"../assets\"");
    let error = read(&outside).unwrap_err();
    assert!(
        error.reason.contains("below the catalog's own folder"),
        "{error}"
    );
    let starter = FULL
        .replace("id = \"small\"", "id = \"starter\"")
        .replace("draft = \"small\"\n", "");
    let error = Catalog::built_in().merged_with(&starter, Path::new("mine.toml"));
    let error = error.unwrap_err();
    assert!(error.reason.contains("comes with the program"), "{error}");
}

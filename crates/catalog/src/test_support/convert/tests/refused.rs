//! Tests of folders that are refused, each with a message that names the file and the value.

use super::*;

/// Applies `change` to the JSON file `file` of `name`, converts it, and returns the message.
fn refused(name: &str, file: &str, change: impl FnOnce(&mut Json)) -> String {
    let folder = model(name);
    let path = folder.path().join(file);
    let mut json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut json);
    fs::write(&path, json.to_string()).unwrap();
    let message = converted(folder.path(), Quantization::F16)
        .unwrap_err()
        .to_string();
    let left = fs::read_dir(folder.path()).unwrap();
    let parts = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().contains("converted")
    });
    assert_eq!(parts.count(), 0, "a part file is left");
    message
}

#[track_caller]
fn check(message: &str, expected: &[&str]) {
    for expected in expected {
        assert!(
            message.contains(expected),
            "{message:?} does not say {expected:?}"
        );
    }
}

#[test]
fn values_of_the_configuration_are_supported_or_refused() {
    let config =
        |key: &str, value: Json| refused("qwen3-bf16", "config.json", |json| json[key] = value);
    check(
        &config("model_type", "mamba".into()),
        &["config.json: model_type is \"mamba\""],
    );
    check(
        &config("hidden_act", "gelu".into()),
        &["hidden_act is \"gelu\""],
    );
    check(&config("rope_theta", Json::Null), &["rope_theta is null"]);
    check(&config("hidden_size", 0.into()), &["hidden_size is 0"]);
    check(
        &config("partial_rotary_factor", 0.5.into()),
        &["partial_rotary_factor is 0.5"],
    );
    check(
        &config("num_hidden_layers", 3.into()),
        &["no file has the tensor model.layers.2"],
    );
    check(
        &config("num_hidden_layers", 1.into()),
        &["a tensor of a qwen3 model is model.layers.1"],
    );
    check(
        &config("intermediate_size", 46.into()),
        &["45", "but config.json makes it 46 x"],
    );
    let yarn = serde_json::json!({"rope_type": "yarn", "factor": 4.0});
    check(&config("rope_scaling", yarn), &["rope_scaling is", "yarn"]);
    let gptq = serde_json::json!({"quant_method": "gptq", "bits": 4});
    check(
        &config("quantization_config", gptq),
        &["quantization_config is", "gptq"],
    );
    check(
        &config("vocab_size", 200.into()),
        &["embed_tokens.weight is 272 x 64, but config.json makes it 200 x 64"],
    );
}

#[test]
fn quantizations_are_supported_or_refused() {
    let with = |change: fn(&mut Json)| refused("qwen3-q4-g64", "config.json", change);
    check(
        &with(|json| json["quantization"]["mode"] = "mxfp4".into()),
        &["quantization is", "mxfp4"],
    );
    check(
        &with(|json| json["quantization"]["bits"] = 7.into()),
        &["quantization is", "7"],
    );
    check(
        &with(|json| json["quantization"] = Json::Null),
        &["quantization_config"],
    );
    check(
        &with(|json| json["quantization"]["group_size"] = 32.into()),
        &["scales is", "groups of 32"],
    );
}

#[test]
fn tokenizers_are_supported_or_refused() {
    let with = |change: fn(&mut Json)| refused("qwen3-bf16", "tokenizer.json", change);
    check(
        &with(|json| json["model"]["type"] = "Unigram".into()),
        &["tokenizer.json: model.type is Unigram"],
    );
    check(
        &with(|json| json["normalizer"] = serde_json::json!({"type": "Lowercase"})),
        &["normalizer is", "Lowercase"],
    );
    check(
        &with(|json| json["pre_tokenizer"]["add_prefix_space"] = true.into()),
        &["pre_tokenizer is", "add_prefix_space"],
    );
    check(
        &with(|json| json["model"]["ignore_merges"] = true.into()),
        &["with ignore_merges true"],
    );
    check(
        &with(|json| json["added_tokens"][0]["lstrip"] = true.into()),
        &["<|endoftext|>", "takes its neighbors in"],
    );
    check(
        &with(|json| json["added_tokens"][1]["content"] = "<|endoftext|>".into()),
        &["a token's text that is there twice is <|endoftext|>"],
    );
    check(
        &with(|json| json["model"]["dropout"] = 0.1.into()),
        &["model.dropout is Some(0.1)"],
    );
    check(
        &with(|json| json["model"]["byte_fallback"] = true.into()),
        &["model.byte_fallback is true"],
    );
}

#[test]
fn end_tokens_that_llama_cpp_does_not_know_are_refused() {
    let folder = model("qwen3-bf16");
    let write = |ids: &str| {
        let text = format!("{{\"eos_token_id\": {ids}}}");
        fs::write(folder.path().join("generation_config.json"), text).unwrap();
        converted(folder.path(), Quantization::F16)
    };
    let file = write("[258, 256]").unwrap();
    let eos = file.view().unwrap().get("tokenizer.ggml.eos_token_id");
    assert_eq!(eos.and_then(|value| value.as_u64()), Some(258));
    let message = write("[258, 5]").unwrap_err().to_string();
    check(&message, &["generation_config.json: eos_token_id is 5"]);
}

#[test]
fn weights_that_are_not_numbers_or_too_large_are_refused() {
    let folder = model("qwen3-f32-nested-rope");
    let path = folder.path().join("model.safetensors");
    let good = fs::read(&path).unwrap();
    let with_last = |value: f32| {
        let mut bytes = good.clone();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&value.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        converted(folder.path(), Quantization::F16)
    };
    let message = with_last(f32::NAN).unwrap_err().to_string();
    check(&message, &["model.safetensors: an element of", "is NaN"]);
    fs::write(&path, &good[..good.len() - 1]).unwrap();
    let message = converted(folder.path(), Quantization::F16)
        .unwrap_err()
        .to_string();
    check(&message, &["cut short"]);
}

#[test]
fn an_output_path_that_cannot_be_written_is_named() {
    let to = starter().join("no folder/model.gguf");
    let message = convert(&starter(), &to, Quantization::F16).unwrap_err();
    check(&message.to_string(), &["no folder/model.gguf"]);
}

//! Settings: defaults, changes, refusals, unknown fields of newer versions, and invalid stored
//! values.
//!
//! Rule: a refused change changes nothing, and an unreadable field costs no other field.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use serde_json::{Value, json};
use transom_store::{
    Appearance, Assistant, ConversationId, ConversationSettings, KvCache, ModelSettings, Notice,
    Overflow, RouteChanges, RouteThinking, SavedPrompt, Settings, Store, StoreError, Timestamp,
};

const NOW: Timestamp = Timestamp(1_795_000_000_000);

/// Returns settings with every field set, and none at its default.
fn full() -> Settings {
    let mut settings = Settings {
        model: Some("/m.gguf".to_string()),
        added_models: vec!["/a".into()],
        recent_models: vec!["/m.gguf".to_string()],
        prompts: Some(vec![SavedPrompt {
            name: "fix".to_string(),
            text: "Fix: {text}".to_string(),
        }]),
        assistants: vec![Assistant {
            name: "Strict editor".to_string(),
            settings: full_of_conversation(),
        }],
        routes: [("translate".to_string(), full_of_route())].into(),
        declined_offers: vec!["code".to_string()],
        ..Settings::default()
    };
    settings.general.hotkey = Some("Alt+Space".to_string());
    settings.general.launch_at_login = true;
    settings.general.show_in_dock = true;
    settings.general.chat_in_window = true;
    settings.general.pin_chat = true;
    settings.general.pin_prompt = true;
    settings.general.zoom = Some(125);
    settings.general.appearance = Appearance::Dark;
    settings.general.language = Some("de".to_string());
    settings.general.was_welcomed = true;
    settings.behavior.idle_unload_seconds = Some(60);
    settings.behavior.keep_loaded = true;
    settings.behavior.memory_budget_bytes = Some(1 << 33);
    let model = ModelSettings {
        context_length: Some(4096),
        kv_cache: KvCache::Small,
        max_tokens: Some(100),
        temperature: Some(0.5),
        top_p: Some(0.25),
        top_k: Some(40),
        min_p: Some(0.125),
        repetition_penalty: Some(1.5),
        seed: Some(u32::MAX),
        system_prompt: Some("Be brief.".to_string()),
        thinking: Some(false),
    };
    settings.models.insert("/m.gguf".to_string(), model);
    settings
}

/// Returns changes of a route with every field set.
fn full_of_route() -> RouteChanges {
    RouteChanges {
        is_off: true,
        instructions: Some(String::new()),
        temperature: Some(0.5),
        thinking: Some(RouteThinking::Model),
        reserve: Some(0.25),
        history: Some(0.75),
        attached: Some(0.5),
    }
}

/// Returns settings of a conversation with every field set.
fn full_of_conversation() -> ConversationSettings {
    ConversationSettings {
        model: Some("/m.gguf".to_string()),
        instructions: Some("Answer in one sentence.".to_string()),
        temperature: Some(0.7),
        context_length: Some(4096),
        thinking: Some(true),
        overflow: Overflow::Stop,
    }
}

#[test]
fn every_field_can_be_set_and_read_back() {
    let store = Store::in_memory().unwrap();
    assert_eq!(store.settings().unwrap(), Settings::default());
    let patch = serde_json::to_value(full()).unwrap();
    assert_eq!(store.patch_settings(&patch).unwrap(), full());
    assert_eq!(store.settings().unwrap(), full());
}

#[test]
fn null_resets_a_field_to_its_default() {
    let store = Store::in_memory().unwrap();
    store
        .patch_settings(&serde_json::to_value(full()).unwrap())
        .unwrap();
    let patch = json!({"general": {"appearance": null}, "models": {"/m.gguf": {"top_k": null}}});
    let settings = store.patch_settings(&patch).unwrap();
    assert_eq!(settings.general.appearance, Appearance::System);
    assert_eq!(settings.models["/m.gguf"].top_k, None);
    assert_eq!(settings.models["/m.gguf"].seed, Some(u32::MAX));
    let all = json!({"general": null, "behavior": null, "model": null, "models": null,
        "added_models": null, "recent_models": null, "local_api": null, "prompts": null, "assistants": null, "routes": null,
        "declined_offers": null});
    assert_eq!(store.patch_settings(&all).unwrap(), Settings::default());
}

#[test]
fn an_invalid_value_is_refused_with_its_path_and_the_allowed_values() {
    let store = Store::in_memory().unwrap();
    store.patch_settings(&json!({"model": "kept"})).unwrap();
    let model = |field: &str, value: Value| json!({"models": {"/a b.gguf": {field: value}}});
    let cases = [
        (
            json!({"general": {"pin_chat": 1}}),
            "general.pin_chat cannot be 1: it takes true or false",
        ),
        (
            json!({"general": {"appearance": "pink"}}),
            "general.appearance cannot be \"pink\": it takes one of system, light, dark",
        ),
        (
            json!({"general": 3}),
            "general cannot be 3: it takes an object",
        ),
        (
            json!({"general": {"hotkey": "x".repeat(101)}}),
            "at most 100 characters",
        ),
        (
            json!({"behavior": {"idle_unload_seconds": -1}}),
            "behavior.idle_unload_seconds cannot be -1: it takes whole numbers from 0 to 4294967295",
        ),
        (
            json!({"behavior": {"memory_budget_bytes": 1.5}}),
            "behavior.memory_budget_bytes cannot be 1.5",
        ),
        (
            json!({"behavior": {"memory_budget_bytes": 1_u64 << 60}}),
            "9007199254740991",
        ),
        (
            model("temperature", json!(2.5)),
            "models[\"/a b.gguf\"].temperature cannot be 2.5: it takes numbers from 0 to 2",
        ),
        (model("top_p", json!(0)), "above 0, to 1"),
        (model("min_p", json!("0.1")), "min_p cannot be \"0.1\""),
        (model("repetition_penalty", json!(1e-40)), "from 0.01 to 10"),
        (model("context_length", json!(0)), "from 1"),
        (model("kv_cache", json!("Small")), "automatic, full, small"),
        (
            json!({"prompts": [{"name": "ok"}, {"name": "two words"}]}),
            "prompts[1].name",
        ),
        (json!({"prompts": [{"name": "/x"}]}), "prompts[0].name"),
        (
            json!({"added_models": "x"}),
            "added_models cannot be \"x\": it takes a list",
        ),
        (json!({"recent_models": ["a", 1]}), "recent_models[1]"),
        (
            json!({"assistants": [{"name": "a", "settings": {"temperature": 3}}]}),
            "assistants[0].settings.temperature cannot be 3: it takes numbers from 0 to 2",
        ),
        (
            json!({"assistants": [{"name": "a", "settings": {"overflow": "shift"}}]}),
            "overflow cannot be \"shift\": it takes one of drop_oldest, stop, summarize",
        ),
        (json!([1]), "settings cannot be [1]: it takes an object"),
    ];
    for (patch, message) in cases {
        let mut with_good = patch.clone();
        if let Some(fields) = with_good.as_object_mut() {
            fields.insert("model".to_string(), json!("changed"));
        }
        let error = store.patch_settings(&with_good).unwrap_err();
        assert!(matches!(error, StoreError::Setting(_)), "{error:?}");
        assert!(error.to_string().contains(message), "{patch}: {error}");
        let kept = Settings {
            model: Some("kept".to_string()),
            ..Settings::default()
        };
        assert_eq!(store.settings().unwrap(), kept);
    }
}

#[test]
fn a_conversation_has_its_own_settings() {
    let store = Store::temporary().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let settings = |id| store.conversation_settings(id).unwrap();
    assert_eq!(settings(id), ConversationSettings::default());
    store.set_model_if_unset(id, "/first.gguf").unwrap();
    store.set_model_if_unset(id, "/second.gguf").unwrap();
    assert_eq!(settings(id).model.as_deref(), Some("/first.gguf"));
    let full = full_of_conversation();
    let all = serde_json::to_value(&full).unwrap();
    store.set_conversation_settings(id, &all).unwrap();
    assert_eq!(settings(id), full);
    let other = store.create_conversation_with(NOW, &full).unwrap();
    assert_eq!(settings(other), full);

    let hot = json!({"model": "/other.gguf", "temperature": 2.5});
    let error = store.set_conversation_settings(id, &hot).unwrap_err();
    let message = "conversation.temperature cannot be 2.5: it takes numbers from 0 to 2";
    assert!(error.to_string().contains(message), "{error}");
    let hot = ConversationSettings {
        temperature: Some(2.5),
        ..ConversationSettings::default()
    };
    assert!(store.create_conversation_with(NOW, &hot).is_err());
    assert_eq!(settings(id), full, "a refused change changes nothing");
    assert_eq!(store.conversations(0, 9).unwrap().len(), 2);
    let gone = store.set_conversation_settings(ConversationId(99), &all);
    assert!(matches!(gone, Err(StoreError::NoConversation(_))));
}

#[test]
fn a_change_of_a_conversation_keeps_its_other_settings() {
    let store = Store::temporary().unwrap();
    let full = full_of_conversation();
    let id = store.create_conversation_with(NOW, &full).unwrap();
    let patch = json!({
        "model": "/other.gguf", "temperature": null, "thinking": false, "overflow": null
    });
    store.set_conversation_settings(id, &patch).unwrap();
    let changed = ConversationSettings {
        model: Some("/other.gguf".to_string()),
        temperature: None,
        thinking: Some(false),
        overflow: Overflow::DropOldest,
        ..full
    };
    assert_eq!(store.conversation_settings(id).unwrap(), changed);
    let error = store.set_conversation_settings(id, &json!([1]));
    assert!(matches!(error, Err(StoreError::Setting(_))), "{error:?}");
    assert_eq!(store.conversation_settings(id).unwrap(), changed);
}

/// Writes the stored document directly, as another version or an error would.
fn with_stored(document: &str) -> (tempfile::TempDir, Store, Vec<Notice>) {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path(), NOW).unwrap());
    let file = rusqlite::Connection::open(folder.path().join("transom.db")).unwrap();
    file.execute(
        "INSERT INTO setting (only, json) VALUES (1, ?1)",
        [document],
    )
    .unwrap();
    drop(file);
    let opened = Store::open(folder.path(), NOW).unwrap();
    (folder, opened.store, opened.notices)
}

#[test]
fn unknown_fields_of_a_newer_version_are_kept() {
    let (folder, store, notices) =
        with_stored(r#"{"theme": {"accent": 3}, "general": {"glow": true, "pin_chat": true}}"#);
    assert_eq!(notices, []);
    assert!(store.settings().unwrap().general.pin_chat);
    store
        .patch_settings(&json!({"general": {"pin_chat": false}}))
        .unwrap();
    drop(store);
    let file = rusqlite::Connection::open(folder.path().join("transom.db")).unwrap();
    let stored: String = file
        .query_row("SELECT json FROM setting", [], |row| row.get(0))
        .unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(
        stored,
        json!({"theme": {"accent": 3}, "general": {"glow": true, "pin_chat": false}})
    );
}

#[test]
fn values_stored_with_the_old_spelling_of_behavior_are_kept() {
    let (folder, store, notices) = with_stored(
        r#"{"behaviour": {"idle_unload_seconds": 60, "keep_loaded": true, "later": 1}, "model": "m"}"#,
    );
    assert_eq!(notices, []);
    let behavior = store.settings().unwrap().behavior;
    assert_eq!(
        (behavior.idle_unload_seconds, behavior.keep_loaded),
        (Some(60), true)
    );
    let patch = json!({"behavior": {"keep_loaded": false}});
    let behavior = store.patch_settings(&patch).unwrap().behavior;
    assert_eq!(
        (behavior.idle_unload_seconds, behavior.keep_loaded),
        (Some(60), false)
    );
    drop(store);
    let file = rusqlite::Connection::open(folder.path().join("transom.db")).unwrap();
    let stored: String = file
        .query_row("SELECT json FROM setting", [], |row| row.get(0))
        .unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(
        stored,
        json!({"behavior": {"idle_unload_seconds": 60, "keep_loaded": false, "later": 1}, "model": "m"})
    );
}

#[test]
fn an_unreadable_value_costs_no_other_value() {
    let (_folder, store, notices) = with_stored(
        r#"{"general": {"pin_chat": "yes", "language": "fr"}, "behavior": 7, "model": "m",
            "models": {"m": {"top_p": 9, "seed": 4}}, "recent_models": ["a", {}, "b"]}"#,
    );
    let settings = store.settings().unwrap();
    assert!(!settings.general.pin_chat);
    assert_eq!(settings.general.language.as_deref(), Some("fr"));
    assert_eq!(settings.model.as_deref(), Some("m"));
    assert_eq!(
        (settings.models["m"].top_p, settings.models["m"].seed),
        (None, Some(4))
    );
    assert_eq!(settings.recent_models, ["a", "b"]);
    let mut fields: Vec<String> = notices.iter().map(ToString::to_string).collect();
    fields.sort();
    assert_eq!(fields.len(), 4, "{fields:?}");
    assert!(fields[0].contains("behavior cannot be 7"), "{fields:?}");
    // An earlier invalid value does not prevent a change, and can be corrected.
    store.patch_settings(&json!({"model": "n"})).unwrap();
    let settings = store
        .patch_settings(&json!({"general": {"pin_chat": true}}))
        .unwrap();
    assert!(settings.general.pin_chat);
    assert_eq!(settings.model.as_deref(), Some("n"));
}

#[test]
fn settings_that_are_not_json_are_set_aside() {
    let (folder, store, notices) = with_stored("{\"model\": ");
    assert!(
        notices[0].to_string().contains("it takes a JSON object"),
        "{notices:?}"
    );
    assert_eq!(notices[0].code(), "setting_ignored");
    store.patch_settings(&json!({"model": "n"})).unwrap();
    drop(store);
    let opened = Store::open(folder.path(), NOW).unwrap();
    assert_eq!(opened.notices, []);
    assert_eq!(opened.store.settings().unwrap().model.as_deref(), Some("n"));
    let file = rusqlite::Connection::open(folder.path().join("transom.db")).unwrap();
    let select = "SELECT value FROM meta WHERE key = 'unreadable_settings'";
    let aside: String = file.query_row(select, [], |row| row.get(0)).unwrap();
    assert_eq!(aside, "{\"model\": ");
}

//! Installed models as pages see them, and requests for the selected model.
//!
//! Rule: these functions read files, so call them only where blocking is allowed.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use transom_chat::Failure;
use transom_chat::request::settings_in;
use transom_chat::routing::{Routes, Routing};
use transom_chat::turns::TurnOptions;
use transom_engine::KvCacheChoice;
use transom_library::{
    InstalledModel, Library, LoadSettings, LookupError, ModelFacts, Origin, Places, always_reasons,
    default_thinking, format_name,
};
use transom_store::{ConversationSettings, KvCache, ModelSettings, Settings};

use crate::catalog;
use crate::model_errors::file_error;
use crate::wire::{CommandResult, FactsView, FitView, ModelErrorView, ModelView, OriginView};

/// Maximum number of recent models.
pub(crate) const MAX_RECENT: usize = 8;

/// Display names of models by id.
pub(crate) type Names = BTreeMap<String, String>;

/// Returns the folders with models. Models that the user added are listed in a file there, except
/// those that an older version stored in the settings and that could not be moved yet.
pub(crate) fn places(data_folder: &Path, settings: &Settings) -> Places {
    Places {
        added: settings.added_models.clone(),
        ..Places::of(data_folder)
    }
}

/// Returns every installed model. The selected model is included even if it is no longer installed.
pub(crate) fn list(library: &Library, settings: &Settings) -> Vec<ModelView> {
    let chosen = chosen_id(library, settings);
    let models = library.installed().iter();
    let mut views: Vec<ModelView> = models
        .map(|model| view(model, chosen.as_deref(), library))
        .collect();
    if let Some(id) = &chosen
        && !views.iter().any(|view| view.is_chosen)
    {
        views.push(match library.resolve(id) {
            Ok(model) => view(&model, Some(id), library),
            Err(error) => missing_view(id, &error, library),
        });
    }
    views
}

/// Returns the id of the model to use: the selected one, else the library's default.
pub(crate) fn chosen_id(library: &Library, settings: &Settings) -> Option<String> {
    let default = || Some(library.id_of(&library.default_model()?));
    settings.model.clone().or_else(default)
}

/// Returns the view of an installed model; `chosen` is the id of the model to use.
pub(crate) fn view(model: &InstalledModel, chosen: Option<&str>, library: &Library) -> ModelView {
    let entry = model.entry(library.catalog()).map(|(entry, _)| entry);
    let id = library.id_of(model);
    let facts = model.facts.as_ref();
    ModelView {
        name: model.title(library.catalog()),
        origin: match &model.origin {
            Origin::Starter => OriginView::Starter,
            Origin::ModelsFolder => OriginView::Ours,
            Origin::Added { .. } => OriginView::Added,
            Origin::OtherApp { app } => OriginView::Elsewhere {
                app: app.name().to_owned(),
            },
        },
        can_be_removed: model.origin == Origin::ModelsFolder,
        is_chosen: chosen == Some(&id),
        id,
        entry: entry.map(|entry| entry.id.clone()),
        size_bytes: model.size_bytes,
        sampling: entry.map(|entry| entry.sampling),
        facts: facts.ok().map(|facts| facts_view(model, facts)),
        problem: facts.err().map(file_error),
        is_embedder: library.is_embedder(model),
        is_missing: false,
    }
}

/// Returns the view of a selected model that is no longer installed.
fn missing_view(id: &str, error: &LookupError, library: &Library) -> ModelView {
    ModelView {
        id: id.to_owned(),
        name: library.title_of(id),
        origin: OriginView::Ours,
        can_be_removed: false,
        is_chosen: true,
        entry: None,
        size_bytes: 0,
        sampling: None,
        facts: None,
        problem: Some(match error {
            LookupError::Path(error) => file_error(error),
            _ => ModelErrorView {
                code: "not_found".to_owned(),
                file: id.to_owned(),
                value: String::new(),
                detail: error.to_string(),
            },
        }),
        is_embedder: false,
        // At a path, there may be files that cannot be used.
        is_missing: !matches!(error, LookupError::Path(_)),
    }
}

/// Returns the names of the recent models.
pub(crate) fn names_of_recent(library: &Library, settings: &Settings) -> Names {
    let ids = settings.recent_models.iter();
    ids.map(|id| (id.clone(), library.title_of(id))).collect()
}

/// Returns a settings patch that replaces paths by ids, or `None` if there is nothing to replace.
/// Older versions identified models by path.
pub(crate) fn replace_paths_by_ids(library: &Library, settings: &Settings) -> Option<Value> {
    let new_id = |old: &String| -> Option<String> {
        let model = library
            .resolve(old)
            .ok()
            .filter(|_| Path::new(old).is_absolute())?;
        Some(library.id_of(&model)).filter(|id| id != old)
    };
    let mut patch = json!({});
    if let Some(id) = settings.model.as_ref().and_then(new_id) {
        patch["model"] = id.into();
    }
    let recent = &settings.recent_models;
    if recent.iter().any(|old| new_id(old).is_some()) {
        let ids = recent
            .iter()
            .map(|old| new_id(old).unwrap_or_else(|| old.clone()));
        patch["recent_models"] = ids.collect();
    }
    for (old, chosen) in &settings.models {
        if let Some(id) = new_id(old) {
            patch["models"][old] = Value::Null;
            patch["models"][id] = json!(chosen);
        }
    }
    (patch != json!({})).then_some(patch)
}

fn facts_view(model: &InstalledModel, facts: &ModelFacts) -> FactsView {
    let formats = model.formats().into_iter();
    FactsView {
        n_parameters: facts.n_parameters,
        quantization: facts.quantization(),
        formats: formats
            .map(|format| format_name(format).to_lowercase())
            .collect(),
        size_bytes: model.size_bytes,
        max_context_length: facts.context_length,
        has_chat_template: facts.chat_template.is_some(),
        default_thinking: default_thinking(facts),
    }
}

/// Returns the model to use, and the model and settings for a turn with it: the model with the id
/// `model`, else the one of the conversation if it is still installed, else the selected one.
pub(crate) fn prepare_request(
    library: &Library,
    settings: &Settings,
    conversation: ConversationSettings,
    model: Option<String>,
    over_budget: bool,
) -> CommandResult<(TurnOptions, InstalledModel)> {
    let is_installed = |id: &String| library.resolve(id).is_ok();
    let id = model
        .or_else(|| conversation.model.clone().filter(is_installed))
        .or_else(|| chosen_id(library, settings));
    let id = id.ok_or(Failure::NoModel)?;
    let model = match library.resolve(&id) {
        Err(_) if library.default_model().is_none() => return Err(Failure::NoModel.into()),
        resolved => resolved?,
    };
    let chosen = settings.models.get(&id).cloned().unwrap_or_default();
    let chosen = settings_in(&conversation, &chosen);
    let chosen = with_reasoning(chosen, &model);
    let options = TurnOptions {
        model: library.spec(&model, &load_settings(&chosen)),
        settings: chosen,
        conversation,
        over_budget,
        is_private: false,
        routing: Routing::unless_off(settings.general.routing_off),
        routes: Routes::with(&settings.routes),
        contained_tokens: 0,
    };
    Ok((options, model))
}

/// Turns reasoning on for a model that always reasons, so that nothing counts on it being off.
fn with_reasoning(chosen: ModelSettings, model: &InstalledModel) -> ModelSettings {
    let always = model
        .facts
        .as_ref()
        .is_ok_and(|facts| always_reasons(facts));
    ModelSettings {
        thinking: if always { Some(true) } else { chosen.thinking },
        ..chosen
    }
}

/// Returns the settings that affect the load.
pub(crate) fn load_settings(settings: &ModelSettings) -> LoadSettings {
    LoadSettings {
        context_length: settings.context_length.map(|tokens| tokens as usize),
        kv_cache: match settings.kv_cache {
            KvCache::Automatic => KvCacheChoice::Automatic,
            KvCache::Full => KvCacheChoice::Full,
            KvCache::Small => KvCacheChoice::Small,
        },
    }
}

/// Returns whether a model fits in memory with `settings`.
pub(crate) fn fit(
    library: &Library,
    model: &InstalledModel,
    settings: &ModelSettings,
) -> CommandResult<FitView> {
    let estimate = library.estimate(model, &load_settings(settings))?;
    let (need, room) = (&estimate.need, library.machine().available_memory());
    let prefix_bytes = need.cache_bytes + estimate.parked_bytes;
    let parts = need.weight_bytes + need.kv_cache_bytes + need.draft_bytes + prefix_bytes;
    let total = need.total_bytes() + estimate.parked_bytes;
    Ok(FitView {
        weight_bytes: need.weight_bytes,
        kv_cache_bytes: need.kv_cache_bytes,
        headroom_bytes: total.saturating_sub(parts),
        draft_bytes: need.draft_bytes,
        prefix_bytes,
        budget_bytes: room.budget_bytes,
        taken_bytes: room.in_use_bytes,
        context_length: need.context_length,
        context_that_fits: estimate.context_that_fits,
        fits: total <= estimate.room_bytes,
        summary: catalog::fit_summary(&estimate),
        speed: estimate.speed,
        is_measured: estimate.is_corrected,
    })
}

/// Moves `id` to the front of the recent models.
pub(crate) fn add_recent(recent: &[String], id: &str) -> Vec<String> {
    let others = recent.iter().filter(|other| *other != id).cloned();
    std::iter::once(id.to_owned())
        .chain(others)
        .take(MAX_RECENT)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use transom_library::Catalog;
    use transom_library::test_support::{install, mac};

    /// A library with the starter and a damaged model, and a catalog without names for them.
    fn library_with_starter() -> (tempfile::TempDir, Library) {
        let root = tempfile::tempdir().unwrap();
        let starter = root.path().join("assets/starter");
        std::fs::create_dir_all(&starter).unwrap();
        std::fs::write(starter.join("config.json"), "{}").unwrap();
        std::fs::create_dir_all(root.path().join("data/models/own")).unwrap();
        std::fs::write(root.path().join("data/models/own/own.gguf"), "GGUF").unwrap();
        let places = Places {
            executable: Some(root.path().join("transom-app")),
            data_folder: Some(root.path().join("data")),
            ..Places::default()
        };
        let library = Library::new(Catalog::built_in(), places, mac(16));
        (root, library)
    }

    #[test]
    fn the_starter_is_used_until_another_model_is_selected() {
        let (_root, library) = library_with_starter();
        let mut settings = Settings::default();
        let models = list(&library, &settings);
        assert_eq!(models.len(), 2);
        assert!(models[0].origin == OriginView::Starter && models[0].is_chosen);
        assert_eq!(models[0].id, "starter");
        settings.model = Some(models[1].id.clone());
        let models = list(&library, &settings);
        assert!(!models[0].is_chosen && models[1].is_chosen);
        let prepare = |model, over_budget| {
            let conversation = ConversationSettings::default();
            prepare_request(&library, &settings, conversation, model, over_budget).unwrap()
        };
        let (options, _) = prepare(None, true);
        assert_eq!(options.model.name, "own");
        assert!(options.over_budget);
        let (options, _) = prepare(Some("starter".to_owned()), false);
        assert_eq!(options.model.id, "starter");
    }

    #[test]
    fn a_damaged_model_is_listed_with_its_problem() {
        let (_root, library) = library_with_starter();
        let models = list(&library, &Settings::default());
        let problem = models[1].problem.as_ref().unwrap();
        assert_eq!((&*problem.code, &*problem.file), ("truncated", "own.gguf"));
        assert!(problem.detail.contains("cut short") && models[1].facts.is_none());
    }

    #[test]
    fn a_missing_selected_model_is_listed_with_its_problem() {
        let (_root, library) = library_with_starter();
        for (id, name) in [
            ("/nowhere/gone.gguf", "gone"),
            ("qwen3-4b@Q4_K_M", "Qwen3 4B · Q4_K_M"),
            ("owner/gone", "owner/gone"),
        ] {
            let settings = Settings {
                model: Some(id.to_owned()),
                recent_models: vec![id.to_owned()],
                ..Settings::default()
            };
            let models = list(&library, &settings);
            let chosen = models.iter().find(|model| model.is_chosen).unwrap();
            assert_eq!((&*chosen.id, &*chosen.name), (id, name));
            assert!(chosen.problem.is_some());
            assert_eq!(names_of_recent(&library, &settings)[id], name);
        }
    }

    #[test]
    fn each_model_has_its_own_settings() {
        let (_root, library) = library_with_starter();
        let mut settings = Settings::default();
        let chosen = ModelSettings {
            context_length: Some(1024),
            kv_cache: KvCache::Small,
            ..ModelSettings::default()
        };
        settings.models.insert("starter".to_owned(), chosen.clone());
        let prepare = |conversation| {
            let request = prepare_request(&library, &settings, conversation, None, false);
            request.unwrap().0
        };
        let options = prepare(ConversationSettings::default());
        assert_eq!(options.model.context_length, Some(1024));
        assert_eq!(options.model.kv_cache, KvCacheChoice::Small);
        assert_eq!(options.settings, chosen);
        // A conversation replaces some of them.
        let conversation = ConversationSettings {
            temperature: Some(0.25),
            context_length: Some(512),
            ..ConversationSettings::default()
        };
        let options = prepare(conversation.clone());
        assert_eq!(options.model.context_length, Some(512));
        assert_eq!(options.model.kv_cache, KvCacheChoice::Small);
        assert_eq!(options.settings.temperature, Some(0.25));
        assert_eq!(options.conversation, conversation);
    }

    #[test]
    fn the_settings_of_a_model_that_always_reasons_say_so() {
        let data = tempfile::tempdir().unwrap();
        install(data.path(), "owner/talk-GGUF", "talk-F16.gguf");
        let places = Places {
            data_folder: Some(data.path().to_owned()),
            ..Places::default()
        };
        let library = Library::new(Catalog::built_in(), places, mac(16));
        let mut model = library.installed()[0].clone();
        let mut thinking = |template: &str, chosen| {
            let facts = Arc::make_mut(model.facts.as_mut().unwrap());
            facts.chat_template = Some(template.to_owned());
            let chosen = ModelSettings {
                thinking: chosen,
                ..ModelSettings::default()
            };
            with_reasoning(chosen, &model).thinking
        };
        let always = "{{ messages[0].content }}<think>";
        assert_eq!(thinking(always, None), Some(true));
        assert_eq!(thinking(always, Some(false)), Some(true));
        let switched = "{{ messages[0].content }}{% if enable_thinking %}<think>{% endif %}";
        for template in [switched, "{{ messages[0].content }}"] {
            assert_eq!(thinking(template, None), None);
            assert_eq!(thinking(template, Some(false)), Some(false));
        }
    }

    #[test]
    fn a_conversation_keeps_its_model_as_long_as_it_is_installed() {
        let (_root, library) = library_with_starter();
        let settings = Settings {
            model: Some("starter".to_owned()),
            ..Settings::default()
        };
        let own = list(&library, &settings)[1].id.clone();
        let used = |conversation: &str, model: Option<&str>| {
            let conversation = ConversationSettings {
                model: Some(conversation.to_owned()),
                ..ConversationSettings::default()
            };
            let model = model.map(str::to_owned);
            let request = prepare_request(&library, &settings, conversation, model, false);
            request.unwrap().0.model.id
        };
        assert_eq!(used(&own, None), own);
        assert_eq!(used(&own, Some("starter")), "starter");
        assert_eq!(used("owner/gone", None), "starter");
    }

    #[test]
    fn an_embedding_model_is_listed_and_never_the_default() {
        let data = tempfile::tempdir().unwrap();
        let repository = "nomic-ai/nomic-embed-text-v1.5-GGUF";
        install(data.path(), repository, "nomic-embed-text-v1.5.f16.gguf");
        let library = || {
            let places = Places {
                data_folder: Some(data.path().to_owned()),
                ..Places::default()
            };
            Library::new(Catalog::built_in(), places, mac(16))
        };
        let settings = Settings::default();
        let models = list(&library(), &settings);
        let [only] = &models[..] else {
            panic!("{models:?}");
        };
        assert!(only.is_embedder && !only.is_chosen, "{only:?}");
        install(data.path(), "owner/talk-GGUF", "talk-F16.gguf");
        let models = list(&library(), &settings);
        let chosen: Vec<_> = models.iter().filter(|model| model.is_chosen).collect();
        assert!(models.len() == 2 && chosen.len() == 1 && !chosen[0].is_embedder);
    }

    #[test]
    fn paths_in_old_settings_are_replaced_by_ids() {
        let (root, library) = library_with_starter();
        let path = root.path().join("assets/starter").canonicalize().unwrap();
        let path = path.to_string_lossy().into_owned();
        let chosen = ModelSettings {
            context_length: Some(1024),
            ..ModelSettings::default()
        };
        let settings = Settings {
            model: Some(path.clone()),
            recent_models: vec!["/nowhere/gone.gguf".to_owned(), path.clone()],
            models: [(path.clone(), chosen)].into(),
            ..Settings::default()
        };
        let store = transom_store::Store::in_memory().unwrap();
        store.patch_settings(&json!(settings)).unwrap();
        let patch = replace_paths_by_ids(&library, &store.settings().unwrap()).unwrap();
        let moved = store.patch_settings(&patch).unwrap();
        assert_eq!(moved.model.as_deref(), Some("starter"));
        assert_eq!(moved.recent_models, ["/nowhere/gone.gguf", "starter"]);
        assert_eq!(moved.models["starter"].context_length, Some(1024));
        assert!(!moved.models.contains_key(&path));
        assert_eq!(
            replace_paths_by_ids(&library, &moved),
            None,
            "nothing is left to replace"
        );
    }

    #[test]
    fn recent_models_have_the_names_of_the_list() {
        let (_root, library) = library_with_starter();
        let shown = list(&library, &Settings::default());
        let settings = Settings {
            recent_models: shown.iter().map(|view| view.id.clone()).collect(),
            ..Settings::default()
        };
        let names = names_of_recent(&library, &settings);
        for view in shown {
            assert_eq!(names[&view.id], view.name);
        }
        assert!(names.values().any(|name| name == "Starter"));
    }

    #[test]
    fn recent_models_are_unique_and_latest_first() {
        let recent: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(add_recent(&recent, "c"), ["c", "a", "b"]);
        let many: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(add_recent(&many, "x").len(), MAX_RECENT);
    }
}

//! The models that there are, in a window's terms, and what is asked of the one that was chosen.
//!
//! Rule: reading files blocks, so all of this runs where it may.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use transom_catalog::entries::{Catalogue, Sampling};
use transom_catalog::fit::KvChoice;
use transom_catalog::installed::AddedError;
use transom_catalog::{Installed, ModelFacts, Origin, Places, installed};
use transom_chat::turns::Asking;
use transom_engine::{KvCacheChoice, Limits, ModelSource};
use transom_signals::Hardware;
use transom_store::{KvCache, ModelSettings, Settings};
use transom_supervisor::{Correction, ModelSpec, Role, variants};

use crate::catalogue;
use crate::here::{self, Here};
use crate::wire::{FactsView, FitView, ModelView, OriginView, Refusal, SamplingView};

/// Most models that are remembered as recently used.
pub(crate) const MAX_RECENT: usize = 8;

/// Names of models for people, by id.
pub(crate) type Names = BTreeMap<String, String>;

/// Where to look for models. What the user added stands in a file there, but for what an older version
/// kept in the settings and could not be moved yet.
pub(crate) fn places(data_folder: &Path, settings: &Settings) -> Places {
    Places {
        added: settings.added_models.clone(),
        ..Places::of(data_folder)
    }
}

/// Every model that is there, and the chosen one also if it is not. `list` knows their names.
pub(crate) fn list(places: &Places, settings: &Settings, list: &Catalogue) -> Vec<ModelView> {
    let models = installed::list(places);
    let chosen = chosen_id(&models, settings);
    let mut views: Vec<ModelView> = models
        .iter()
        .map(|model| view(model, chosen.as_deref(), list))
        .collect();
    if let Some(id) = &chosen
        && !views.iter().any(|view| view.is_chosen)
        && let Ok(model) = Installed::of_places(id, places)
    {
        views.push(view(&model, Some(&model.id), list));
    }
    views
}

/// The model that is asked: the chosen one, else the starter, else the first that there is.
fn chosen_id(models: &[Installed], settings: &Settings) -> Option<PathBuf> {
    let chosen = settings.model.as_ref().map(PathBuf::from);
    // The starter stands first.
    chosen.or_else(|| Some(models.first()?.id.clone()))
}

fn view(model: &Installed, chosen: Option<&Path>, list: &Catalogue) -> ModelView {
    let entry = model.entry(list).map(|(entry, _)| entry);
    ModelView {
        id: id_of(model),
        name: model.title(list),
        origin: match &model.origin {
            Origin::Starter => OriginView::Starter,
            Origin::ModelsFolder => OriginView::Ours,
            Origin::Added { .. } => OriginView::Added,
            Origin::Elsewhere { app } => OriginView::Elsewhere {
                app: app.name().to_owned(),
            },
        },
        is_starter: model.origin == Origin::Starter,
        is_added: matches!(model.origin, Origin::Added { .. }),
        can_be_removed: model.origin == Origin::ModelsFolder,
        is_chosen: chosen == Some(&*model.id),
        entry: entry.map(|entry| entry.id.clone()),
        size_bytes: model.size_bytes,
        sampling: entry.map(|entry| sampling_view(&entry.sampling)),
        facts: model
            .facts
            .as_ref()
            .ok()
            .map(|facts| facts_view(model, facts)),
        problem: model.facts.as_ref().err().cloned(),
    }
}

/// The name by which commands and settings know a model.
pub(crate) fn id_of(model: &Installed) -> String {
    model.id.to_string_lossy().into_owned()
}

/// Names of the models that were used last.
pub(crate) fn names_of_recent(places: &Places, settings: &Settings, list: &Catalogue) -> Names {
    let ids = settings.recent_models.iter();
    let names = ids.filter_map(|id| {
        let model = Installed::of_places(Path::new(id), places).ok()?;
        Some((id.clone(), model.title(list)))
    });
    names.collect()
}

fn facts_view(model: &Installed, facts: &ModelFacts) -> FactsView {
    let formats = model.formats().into_iter();
    FactsView {
        architecture: facts.architecture.clone(),
        n_parameters: facts.n_parameters,
        quantisation: facts.packing(),
        formats: formats
            .map(|format| catalogue::format_name(format).to_owned())
            .collect(),
        size_bytes: model.size_bytes,
        max_context_length: facts.context_length.map(tokens),
        has_chat_template: facts.chat_template.is_some(),
    }
}

fn sampling_view(sampling: &Sampling) -> SamplingView {
    let number = |value: Option<f64>| value.map(|value| value as f32);
    SamplingView {
        temperature: number(sampling.temperature),
        top_p: number(sampling.top_p),
        top_k: sampling.top_k.map(tokens),
        min_p: number(sampling.min_p),
        repetition_penalty: number(sampling.repetition_penalty),
    }
}

fn tokens(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// What is asked, and of which model.
pub(crate) struct Asked {
    /// What the turns take.
    pub(crate) asking: Asking,
    /// The model, with all its forms.
    pub(crate) model: Installed,
}

/// What is asked of the chosen model.
pub(crate) fn asking(
    places: &Places,
    settings: &Settings,
    list: &Catalogue,
    here: &Here,
    insist: bool,
) -> Result<Asked, Refusal> {
    let model = match &settings.model {
        Some(id) => at(places, Path::new(id))?,
        None => {
            let mut models = installed::list(places).into_iter();
            // The starter stands first.
            models.next().ok_or_else(|| Refusal::Other {
                reason: "there is no model; get one in Settings".to_owned(),
            })?
        }
    };
    let chosen = settings
        .models
        .get(&id_of(&model))
        .cloned()
        .unwrap_or_default();
    let asking = Asking {
        model: spec(&model, &chosen, list, here),
        settings: chosen,
        insist,
    };
    Ok(Asked { asking, model })
}

fn spec(model: &Installed, settings: &ModelSettings, list: &Catalogue, here: &Here) -> ModelSpec {
    let kv = kv_choice(settings);
    let corrections = sources(model).into_iter().filter_map(|form| {
        let facts = model.facts_of(&form.path).ok()?;
        let bytes = here.correction(&facts, &form.path, kv);
        (bytes != 0).then_some(Correction {
            path: form.path,
            bytes,
        })
    });
    ModelSpec {
        name: model.title(list),
        role: Role::Chat,
        variants: sources(model),
        context_length: settings.context_length.map(|tokens| tokens as usize),
        kv_cache: match settings.kv_cache {
            KvCache::Automatic => KvCacheChoice::Automatic,
            KvCache::Full => KvCacheChoice::Full,
            KvCache::Small => KvCacheChoice::Small,
        },
        corrections: corrections.collect(),
    }
}

/// The model of an id.
pub(crate) fn find(places: &Places, id: &str) -> Result<Installed, Refusal> {
    let path = Path::new(id);
    let mut listed = installed::list(places).into_iter();
    match listed.find(|model| model.id == path) {
        Some(model) => Ok(model),
        None => at(places, path),
    }
}

/// The model at a path, which need not be on the list.
fn at(places: &Places, path: &Path) -> Result<Installed, Refusal> {
    let found = Installed::of_places(path, places);
    found.map_err(|error| Refusal::Invalid {
        field: "model".to_owned(),
        reason: error.to_string(),
    })
}

impl From<AddedError> for Refusal {
    fn from(error: AddedError) -> Self {
        let reason = error.to_string();
        match error {
            AddedError::NoModel { .. } | AddedError::NotText { .. } => Self::Invalid {
                field: "model".to_owned(),
                reason,
            },
            AddedError::Damaged { .. }
            | AddedError::Newer { .. }
            | AddedError::Unreadable { .. }
            | AddedError::NotWritable { .. } => Self::Storage { reason },
        }
    }
}

/// Whether a model fits here under `settings`.
pub(crate) fn fit(
    model: &Installed,
    settings: &ModelSettings,
    hardware: &Hardware,
    here: &Here,
) -> Result<FitView, Refusal> {
    let (path, facts) =
        form_that_runs(model, hardware).map_err(|reason| Refusal::Other { reason })?;
    let context_length = settings
        .context_length
        .map_or(Limits::default().context_length as u64, u64::from);
    let estimate = here.estimate(&facts, Some(&path), kv_choice(settings), context_length);
    let need = &estimate.need;
    let parts = need.weight_bytes + need.kv_cache_bytes + need.draft_bytes + need.cache_bytes;
    let total = need.total_bytes();
    Ok(FitView {
        weight_bytes: need.weight_bytes,
        kv_cache_bytes: need.kv_cache_bytes,
        headroom_bytes: total.saturating_sub(parts),
        draft_bytes: need.draft_bytes,
        prefix_bytes: need.cache_bytes,
        budget_bytes: here.room.budget_bytes,
        taken_bytes: here.room.taken_bytes,
        context_length: tokens(need.context_length),
        context_that_fits: estimate.context_that_fits.map(tokens),
        fits: total <= estimate.room_bytes,
        verdict: here::verdict_view(&estimate),
        speed: here::speed_view(&estimate),
        is_measured: estimate.is_corrected,
    })
}

/// How keys and values are kept, in the catalogue's terms.
pub(crate) fn kv_choice(settings: &ModelSettings) -> KvChoice {
    match settings.kv_cache {
        KvCache::Automatic => KvChoice::Automatic,
        KvCache::Full => KvChoice::Full,
        KvCache::Small => KvChoice::Small,
    }
}

/// The form that is tried first here, of those that can be used, with what it is.
fn form_that_runs(
    model: &Installed,
    hardware: &Hardware,
) -> Result<(PathBuf, Arc<ModelFacts>), String> {
    let forms = variants::in_order(sources(model), hardware).into_iter();
    let mut usable = forms.filter_map(|form| {
        let facts = model.facts_of(&form.path).ok()?;
        Some((form.path, facts))
    });
    match usable.next() {
        Some(usable) => Ok(usable),
        None => Ok((model.id.clone(), model.facts.clone()?)),
    }
}

/// A model's forms, as an engine takes them.
fn sources(model: &Installed) -> Vec<ModelSource> {
    let paths = model.variants().into_iter();
    paths.map(|path| ModelSource { path }).collect()
}

/// The models last used, with `id` as the latest.
pub(crate) fn with_recent(recent: &[String], id: &str) -> Vec<String> {
    let others = recent.iter().filter(|other| *other != id).cloned();
    std::iter::once(id.to_owned())
        .chain(others)
        .take(MAX_RECENT)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::here::tests::mac;

    /// A list that knows no names.
    fn nothing() -> Catalogue {
        Catalogue::default()
    }

    fn places_with_starter() -> (tempfile::TempDir, Places) {
        let root = tempfile::tempdir().unwrap();
        let starter = root.path().join("assets/starter");
        std::fs::create_dir_all(&starter).unwrap();
        std::fs::write(starter.join("config.json"), "{}").unwrap();
        std::fs::create_dir_all(root.path().join("data/models/own")).unwrap();
        std::fs::write(root.path().join("data/models/own/own.gguf"), "GGUF").unwrap();
        let places = Places {
            executable: Some(root.path().join("transom-app")),
            data_folder: Some(root.path().join("data")),
            added: Vec::new(),
            elsewhere: Vec::new(),
        };
        (root, places)
    }

    #[test]
    fn the_starter_is_asked_until_another_is_chosen() {
        let (_root, places) = places_with_starter();
        let mut settings = Settings::default();
        let models = list(&places, &settings, &nothing());
        assert_eq!(models.len(), 2);
        assert!(models[0].is_starter && models[0].is_chosen);
        settings.model = Some(models[1].id.clone());
        let models = list(&places, &settings, &nothing());
        assert!(!models[0].is_chosen && models[1].is_chosen);
        let asking = asking(&places, &settings, &nothing(), &mac(16), true)
            .unwrap()
            .asking;
        assert_eq!(asking.model.name, "own");
        assert!(asking.insist);
    }

    #[test]
    fn a_damaged_model_is_listed_with_its_problem() {
        let (_root, places) = places_with_starter();
        let models = list(&places, &Settings::default(), &nothing());
        assert!(models[1].problem.is_some() && models[1].facts.is_none());
    }

    #[test]
    fn a_chosen_model_that_went_away_is_shown_with_its_problem_and_not_replaced() {
        let (_root, places) = places_with_starter();
        let settings = Settings {
            model: Some("/nowhere/gone.gguf".to_owned()),
            ..Settings::default()
        };
        let models = list(&places, &settings, &nothing());
        let chosen = models.iter().find(|model| model.is_chosen).unwrap();
        assert_eq!(chosen.id, "/nowhere/gone.gguf");
        assert!(chosen.problem.is_some());
        assert_eq!(
            asking(&places, &settings, &nothing(), &mac(16), false)
                .unwrap()
                .asking
                .model
                .name,
            "gone"
        );
    }

    #[test]
    fn each_model_is_asked_with_its_own_settings() {
        let (_root, places) = places_with_starter();
        let mut settings = Settings::default();
        let id = list(&places, &settings, &nothing())[0].id.clone();
        let chosen = ModelSettings {
            context_length: Some(1024),
            kv_cache: KvCache::Small,
            ..ModelSettings::default()
        };
        settings.models.insert(id, chosen.clone());
        let asking = asking(&places, &settings, &nothing(), &mac(16), false)
            .unwrap()
            .asking;
        assert_eq!(asking.model.context_length, Some(1024));
        assert_eq!(asking.model.kv_cache, KvCacheChoice::Small);
        assert_eq!(asking.settings, chosen);
    }

    #[test]
    fn recent_models_have_the_names_that_lists_show() {
        let (_root, places) = places_with_starter();
        let built_in = Catalogue::built_in();
        let shown = list(&places, &Settings::default(), &built_in);
        let mut recent: Vec<String> = shown.iter().map(|view| view.id.clone()).collect();
        recent.push("/nowhere/gone.gguf".to_owned());
        let settings = Settings {
            recent_models: recent,
            ..Settings::default()
        };
        let names = names_of_recent(&places, &settings, &built_in);
        for view in shown {
            assert_eq!(names[&view.id], view.name);
        }
        assert_eq!(names["/nowhere/gone.gguf"], "gone");
        assert!(names.values().any(|name| name == "Starter"));
    }

    #[test]
    fn recent_models_are_each_there_once_latest_first() {
        let recent: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(with_recent(&recent, "c"), ["c", "a", "b"]);
        let many: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(with_recent(&many, "x").len(), MAX_RECENT);
    }
}

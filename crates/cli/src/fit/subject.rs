//! The model that `transom fit` is asked about: installed, in the list, or at a path.
//!
//! Rule: an installed model is judged by its files and by what earlier uses measured, one that is not
//! by what the list says.

use std::path::Path;
use std::sync::Arc;

use transom_catalog::estimate::{Machine, Room, Wish, estimate};
use transom_catalog::fit::KvChoice;
use transom_catalog::{Installed, ModelFacts, Origin};

use crate::failure::Failure;
use crate::fit::FitArgs;
use crate::fit::report::{Part, PartKind, Report};
use crate::library::judge::usual_context;
use crate::library::{self, Library, form_text};

/// A model that is asked about.
pub(super) struct Subject {
    title: String,
    form: String,
    facts: Arc<ModelFacts>,
    installed: Option<Installed>,
    unverified: Vec<String>,
}

impl Subject {
    /// What `text` names.
    pub(super) fn find(text: &str, library: &Library) -> Result<Self, Failure> {
        let path = Path::new(text);
        if library::forms_at(path)?.is_some() {
            let origin = Origin::Added {
                path: path.to_owned(),
            };
            let model = Installed::at(path, origin);
            return Self::of_installed(model.map_err(|e| Failure::Model(e.to_string()))?, library);
        }
        if let Some(model) = library.named(text).first() {
            return Self::of_installed((*model).clone(), library);
        }
        let (id, packing) = text.split_once('@').unwrap_or((text, ""));
        let Some(entry) = library.catalogue.find(id) else {
            return Err(library.not_here(text));
        };
        let variant = match packing {
            "" => library.variant_for(entry),
            packing => Some(library.variant_named(entry, packing)?),
        };
        let Some(variant) = variant else {
            return Err(Failure::Model(format!(
                "{id} comes with Transom, and is not beside the program"
            )));
        };
        if variant.size_bytes().is_none() {
            return Err(Failure::Model(format!(
                "the list does not say how large {id} is as {}",
                form_text(variant.format, &variant.packing)
            )));
        }
        let unverified = entry.unverified.iter().chain(&variant.unverified);
        Ok(Self {
            title: entry.name.clone(),
            form: form_text(variant.format, &variant.packing),
            facts: Arc::new(entry.facts(variant)),
            installed: None,
            unverified: unverified.cloned().collect(),
        })
    }

    fn of_installed(model: Installed, library: &Library) -> Result<Self, Failure> {
        let Some(facts) = library.facts_that_run(&model) else {
            let problem = model.facts.err().unwrap_or_default();
            return Err(Failure::Model(problem));
        };
        let entry = library.entry_of(&model);
        Ok(Self {
            title: match entry {
                Some((entry, _)) => entry.name.clone(),
                None => model.name().to_owned(),
            },
            form: form_text(facts.format, &library.packing(&model)),
            facts,
            installed: Some(model),
            unverified: Vec::new(),
        })
    }

    /// What it needs on `machine`, which is `called` so, where there is `room`.
    pub(super) fn report(
        self,
        args: &FitArgs,
        library: &Library,
        machine: &Machine,
        room: &Room,
        called: String,
    ) -> Report {
        let facts = &*self.facts;
        let kv = args.kv.map_or(KvChoice::Automatic, super::Kv::choice);
        let is_here = args.memory.is_none();
        let installed = self.installed.as_ref().filter(|_| is_here);
        let wish = Wish {
            kv,
            context_length: args.context.unwrap_or_else(|| usual_context(facts)),
            known: installed.and_then(|model| library.known(model, facts, kv)),
            ..Wish::of(facts)
        };
        let estimate = estimate(&wish, machine, room);
        let need = &estimate.need;
        let corrected = need
            .activation_bytes
            .saturating_add_signed(need.correction_bytes);
        let part = |kind, bytes| Part { kind, bytes };
        Report {
            model: self.title,
            form: self.form,
            machine: called,
            room_bytes: estimate.room_bytes,
            context_length: need.context_length,
            parts: vec![
                part(PartKind::Weights, need.weight_bytes),
                part(PartKind::KvCache, need.kv_cache_bytes),
                part(PartKind::Working, corrected),
                part(PartKind::Draft, need.draft_bytes),
                part(PartKind::PrefixCache, need.cache_bytes),
            ],
            need_bytes: need.total_bytes(),
            is_corrected: estimate.is_corrected,
            verdict: estimate.verdict,
            longest_context: estimate.context_that_fits,
            model_context: facts.context_length,
            speed: estimate.speed,
            unverified: self.unverified,
        }
    }
}

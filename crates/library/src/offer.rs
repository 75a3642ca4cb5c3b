//! Which installed model to offer in place of the current one for a task.
//!
//! Rule: a task never switches the model; the person does. In doubt there is no offer: not in place of a model
//! that the catalog does not know, and not for a model that does not fit now. Only code has models that are
//! made for it: no entry of the catalog is made for translations or another task.

use std::cmp::Reverse;

use transom_catalog::entries::Tag;
use transom_catalog::estimate::EstimatedFit;
use transom_catalog::{Entry, InstalledModel};
use transom_engine::Route;

use crate::{Library, LoadSettings};

/// A model that is made for a task may be smaller than a general model by this factor.
const MAX_SMALLER: u64 = 3;

/// Returns the tag of models that are good at what a route asks for.
fn tag_of(route: Route) -> Option<Tag> {
    match route {
        Route::Code => Some(Tag::Code),
        Route::Chat
        | Route::Summarize
        | Route::Rewrite
        | Route::Translate
        | Route::Question
        | Route::Extract => None,
    }
}

/// What decides whether a model is offered for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Suitability {
    /// It is good at the task.
    is_tagged: bool,
    /// It is made for the task, and for nothing else.
    is_specialist: bool,
    n_parameters: u64,
    /// It fits now, with the context that it would get.
    fits: bool,
}

/// Returns the index of the model to offer in place of `current`: one that is made for the task before a
/// general one, then the largest.
fn offer(current: Suitability, others: &[Suitability]) -> Option<usize> {
    if current.is_tagged {
        return None;
    }
    let is_better = |(_, other): &(usize, &Suitability)| {
        let factor = if other.is_specialist { MAX_SMALLER } else { 1 };
        let is_large = other.n_parameters.saturating_mul(factor) >= current.n_parameters;
        other.is_tagged && other.fits && is_large
    };
    let better = others.iter().enumerate().filter(is_better);
    let best = better.min_by_key(|(_, other)| (!other.is_specialist, Reverse(other.n_parameters)));
    best.map(|(at, _)| at)
}

impl Library {
    /// Returns an installed model of the catalog that is better suited for what `route` asks for than
    /// `current`, and fits now with the `settings` that it would be loaded with. `None` if there is none, and
    /// for a route without models that are made for it.
    pub fn offer_for(
        &self,
        route: Route,
        current: &InstalledModel,
        settings: impl Fn(&InstalledModel) -> LoadSettings,
    ) -> Option<&InstalledModel> {
        let tag = tag_of(route)?;
        let of_entry = |entry: &Entry, fits: bool| Suitability {
            is_tagged: entry.tags.contains(&tag),
            is_specialist: entry.tags == [tag],
            n_parameters: entry.architecture.parameters,
            fits,
        };
        let (entry, _) = current.entry(&self.catalog)?;
        let current = of_entry(entry, true);
        let known = self.installed().iter().filter_map(|model| {
            let (entry, _) = model.entry(&self.catalog)?;
            // Only these need an estimate.
            let fits = entry.tags.contains(&tag) && self.fits_now(model, &settings(model));
            Some((model, of_entry(entry, fits)))
        });
        let (models, others): (Vec<&InstalledModel>, Vec<Suitability>) = known.unzip();
        offer(current, &others).map(|at| models[at])
    }

    fn fits_now(&self, model: &InstalledModel, settings: &LoadSettings) -> bool {
        let estimate = self.estimate(model, settings);
        estimate.is_ok_and(|estimate| estimate.fit == EstimatedFit::Fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{install, library, mac, with_available_memory};
    use transom_catalog::estimate::AvailableMemory;
    use transom_catalog::machine::Machine;

    const BILLION: u64 = 1_000_000_000;

    /// A model that is made for the task, a general model that is good at it, and another one.
    #[derive(Clone, Copy)]
    enum Kind {
        Made,
        Good,
        Other,
    }
    use Kind::{Good, Made, Other};

    fn model((kind, billions, fits): (Kind, u64, bool)) -> Suitability {
        Suitability {
            is_tagged: !matches!(kind, Other),
            is_specialist: matches!(kind, Made),
            n_parameters: billions * BILLION,
            fits,
        }
    }

    #[test]
    fn a_model_is_offered_if_it_is_better_at_the_task_and_fits() {
        type Row = (Kind, u64, bool);
        let table: &[(Row, &[Row], Option<usize>)] = &[
            // Nothing else is installed, or nothing that is good at it.
            ((Other, 8, true), &[], None),
            (
                (Other, 8, true),
                &[(Other, 8, true), (Other, 70, true)],
                None,
            ),
            // The current model is good at it.
            ((Good, 4, true), &[(Made, 30, true)], None),
            ((Made, 7, true), &[(Made, 30, true), (Good, 30, true)], None),
            // One that is made for it may be smaller, but not by much.
            (
                (Other, 8, true),
                &[(Other, 8, true), (Made, 7, true)],
                Some(1),
            ),
            ((Other, 24, true), &[(Made, 8, true)], Some(0)),
            ((Other, 24, true), &[(Made, 7, true)], None),
            // A general one may not.
            ((Other, 8, true), &[(Good, 9, true)], Some(0)),
            ((Other, 8, true), &[(Good, 8, true)], Some(0)),
            ((Other, 12, true), &[(Good, 9, true)], None),
            // It must fit, and a larger one that does not is no reason against another one.
            ((Other, 8, true), &[(Made, 30, false)], None),
            (
                (Other, 8, true),
                &[(Made, 30, false), (Made, 7, true)],
                Some(1),
            ),
            // The one that is made for it wins, then the largest, then the first.
            (
                (Other, 8, true),
                &[(Good, 27, true), (Made, 7, true)],
                Some(1),
            ),
            (
                (Other, 8, true),
                &[(Made, 7, true), (Made, 14, true)],
                Some(1),
            ),
            (
                (Other, 8, true),
                &[(Good, 9, true), (Good, 27, true)],
                Some(1),
            ),
            (
                (Other, 8, true),
                &[(Made, 7, true), (Made, 7, true)],
                Some(0),
            ),
        ];
        for (current, others, expected) in table {
            let others: Vec<Suitability> = others.iter().copied().map(model).collect();
            assert_eq!(offer(model(*current), &others), *expected, "{others:?}");
        }
    }

    #[test]
    fn an_installed_model_of_the_catalog_is_offered_for_its_task_if_it_fits_now() {
        let data = tempfile::tempdir().unwrap();
        install(data.path(), "owner/tiny-GGUF", "tiny-Q4_K_M.gguf");
        install(data.path(), "owner/huge-GGUF", "huge-Q4_K_M.gguf");
        install(data.path(), "owner/mine-GGUF", "mine-F16.gguf");
        let library = library(data.path(), Machine::with_memory(16 << 30));
        let find = |library: &Library, name: &str| {
            let mut models = library.installed().iter();
            let found = models.find(|model| model.id.to_string_lossy().contains(name));
            found.unwrap().clone()
        };
        let (tiny, huge) = (find(&library, "tiny"), find(&library, "huge"));
        let offered = |library: &Library, route, current: &InstalledModel| {
            let usual = |_: &InstalledModel| LoadSettings::default();
            library
                .offer_for(route, current, usual)
                .map(|model| model.id.clone())
        };
        // Its file is tiny here, so that it fits.
        assert_eq!(offered(&library, Route::Code, &tiny), Some(huge.id.clone()));
        assert_eq!(offered(&library, Route::Code, &huge), None);
        for route in Route::ALL.into_iter().filter(|route| *route != Route::Code) {
            assert_eq!(offered(&library, route, &tiny), None, "{route:?}");
        }
        let mine = find(&library, "mine");
        assert!(mine.entry(library.catalog()).is_none());
        assert_eq!(
            offered(&library, Route::Code, &mine),
            None,
            "nobody knows what it is good at"
        );

        let full = AvailableMemory {
            available_bytes: Some(0),
            ..*library.machine().available_memory()
        };
        let full = library.with_machine(with_available_memory(mac(16), full));
        assert_eq!(offered(&full, Route::Code, &tiny), None);
    }
}

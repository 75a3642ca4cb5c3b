//! What is here and what may be installed, as lists show it.
//!
//! Rule: a name in a list is one that commands take.

use transom_catalog::{Entry, Installed, Origin};

use crate::library::{Library, form_text, word};
use crate::models::list::{Here, Offered, STARTER};

impl Library {
    /// Every model that is here.
    pub(crate) fn here(&self) -> Vec<Here> {
        self.installed()
            .iter()
            .map(|model| self.one_here(model))
            .collect()
    }

    fn one_here(&self, model: &Installed) -> Here {
        let facts = model.facts.as_ref();
        Here {
            name: self.name_of(model),
            title: model.title(&self.catalogue),
            form: self.form_of(model),
            size_bytes: model.size_bytes,
            context_length: facts.ok().and_then(|facts| facts.context_length),
            verdict: self.fit_of_installed(model).map(|fit| fit.verdict),
            origin: match &model.origin {
                Origin::Starter => STARTER.to_owned(),
                Origin::ModelsFolder => "models folder".to_owned(),
                Origin::Added { .. } => "added".to_owned(),
                Origin::Elsewhere { app } => app.name().to_owned(),
            },
            path: model.id.clone(),
            problem: facts.err().cloned(),
        }
    }

    /// The forms of a model and how it is packed.
    fn form_of(&self, model: &Installed) -> String {
        let packing = self.packing(model);
        match model.formats().as_slice() {
            [] => packing,
            [format] => form_text(*format, &packing),
            formats => {
                let mut words: Vec<&str> = formats.iter().map(|format| word(*format)).collect();
                words.sort_unstable_by(|a, b| b.cmp(a));
                format!("{} {packing}", words.join("+"))
            }
        }
    }

    /// Entries of the list with these words that can be installed, each in the variant that suits
    /// this machine. No words find all.
    pub(crate) fn offered(&self, words: &str) -> Vec<Offered> {
        let found = self.catalogue.search(words).into_iter();
        found.filter_map(|entry| self.one_offered(entry)).collect()
    }

    fn one_offered(&self, entry: &Entry) -> Option<Offered> {
        let variant = self.variant_for(entry)?;
        let tags = entry.tags.iter().map(|tag| tag.name());
        Some(Offered {
            id: entry.id.clone(),
            form: form_text(variant.format, &variant.packing),
            size_bytes: variant.size_bytes(),
            context_length: entry.context_length,
            good_for: tags.collect::<Vec<_>>().join(", "),
            verdict: self.fit_of(entry, variant).map(|fit| fit.verdict),
            is_here: !self.named(&entry.id).is_empty(),
        })
    }
}

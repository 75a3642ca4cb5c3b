//! The offer of another installed model for a task, as pages see it.
//!
//! Rule: the library decides; this adds what the user set. Reads files, so call it only where blocking is
//! allowed.

use transom_chat::Route;
use transom_chat::request::settings_in;
use transom_library::{InstalledModel, Library};
use transom_store::{ConversationSettings, Settings};

use crate::models::load_settings;
use crate::wire::ModelOffer;

/// Returns the model to offer in place of the one with the id `model`, for a message on `route` in a
/// conversation with these settings. An offer that the user did not take is not made again.
pub(crate) fn offer(
    library: &Library,
    settings: &Settings,
    route: Route,
    model: &str,
    conversation: &ConversationSettings,
) -> Option<ModelOffer> {
    let declined = &settings.declined_offers;
    if settings.general.routing_off || declined.iter().any(|name| name == route.name()) {
        return None;
    }
    let current = library.resolve(model).ok()?;
    let load = |model: &InstalledModel| {
        let own = settings.models.get(&library.id_of(model)).cloned();
        load_settings(&settings_in(conversation, &own.unwrap_or_default()))
    };
    let offered = library.offer_for(route, &current, load)?;
    Some(ModelOffer {
        id: library.id_of(offered),
        name: offered.title(library.catalog()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_library::Machine;
    use transom_library::test_support::{install, library};
    use transom_store::General;

    #[test]
    fn a_model_is_offered_unless_the_user_did_not_take_it_or_turned_routes_off() {
        let data = tempfile::tempdir().unwrap();
        install(data.path(), "owner/tiny-GGUF", "tiny-Q4_K_M.gguf");
        install(data.path(), "owner/huge-GGUF", "huge-Q4_K_M.gguf");
        let library = library(data.path(), Machine::with_memory(16 << 30));
        let chat = ConversationSettings::default();
        let offered = |settings: &Settings, model: &str, chat: &ConversationSettings| {
            offer(&library, settings, Route::Code, model, chat)
        };
        let usual = Settings::default();
        let found = offered(&usual, "tiny@Q4_K_M", &chat).expect("the other model");
        assert_eq!(found.id, "huge@Q4_K_M");
        assert_eq!(found.name, "Huge 400B · Q4_K_M");
        assert_eq!(offered(&usual, &found.id, &chat), None);
        assert_eq!(offered(&usual, "gone@Q4_K_M", &chat), None);

        let declined = |name: &str| Settings {
            declined_offers: vec![name.to_owned()],
            ..Settings::default()
        };
        assert_eq!(offered(&declined("code"), "tiny@Q4_K_M", &chat), None);
        assert!(offered(&declined("translate"), "tiny@Q4_K_M", &chat).is_some());
        let off = Settings {
            general: General {
                routing_off: true,
                ..General::default()
            },
            ..Settings::default()
        };
        assert_eq!(offered(&off, "tiny@Q4_K_M", &chat), None);
    }
}

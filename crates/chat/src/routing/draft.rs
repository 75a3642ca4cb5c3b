//! The route and the limits of a message before it is sent, so that a window can show them.

use serde::{Deserialize, Serialize};
use transom_store::{AttachedText, ConversationId, Store, StoreError};

use super::limits::{SentMessage, is_too_long, size_of};
use super::{Route, RouteLimits, Routes, Routing, Signals, previous_route, route, selection_kind};

/// A message that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Draft {
    /// Its conversation; `None` for a new one.
    pub conversation: Option<ConversationId>,
    /// The message as it would be sent.
    pub text: String,
    /// The attached texts. Only the start of a long one is needed.
    pub attachments: Vec<AttachedText>,
    /// Bytes of UTF-8 of the message and of all of its attached texts.
    pub n_bytes: u64,
    /// Estimated tokens of all attached texts, also of one that the message contains, such as a selection
    /// in a saved prompt.
    pub attached_tokens: u32,
    /// The route that the user chose; `None` lets the app decide.
    pub route: Option<Route>,
    /// The context length of the model that it would be sent to; `None` if that is not known.
    pub context_length: Option<u32>,
}

/// The route of a message that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct DraftRoute {
    /// The route.
    pub route: Route,
    /// What its request may contain; without limits while the context length is not known.
    pub limits: RouteLimits,
    /// The attached text is too long for the route, so the message must not be sent on it.
    pub is_attached_too_long: bool,
}

/// Returns the route that a message would get, and the limits of its request, by the same functions as for
/// the request. Reads no more of the conversation than the request contains.
///
/// # Errors
/// Those of the store.
pub fn route_of_draft(
    store: &Store,
    draft: &Draft,
    routing: Routing,
    routes: &Routes,
) -> Result<DraftRoute, StoreError> {
    let routing = match (routing, draft.route) {
        (Routing::Automatic, Some(route)) => Routing::Chosen(route),
        (routing, _) => routing,
    };
    let path = match (routing, draft.conversation) {
        (Routing::Off, _) | (_, None) => Vec::new(),
        (_, Some(id)) => store.path(id)?,
    };
    let route = match routing {
        Routing::Off => Route::Chat,
        Routing::Chosen(route) => route,
        Routing::Automatic => {
            let last = path.last().map(|head| store.message(head.id)).transpose()?;
            route(&Signals {
                text: &draft.text,
                selection: selection_kind(&draft.attachments),
                previous: last.as_ref().map_or(Route::Chat, previous_route),
            })
        }
    };
    let route = routes.or_chat(route);
    let Some(context_length) = draft.context_length else {
        return Ok(DraftRoute {
            route,
            ..DraftRoute::default()
        });
    };
    let message = SentMessage {
        text: &draft.text,
        has_attachment: draft
            .attachments
            .iter()
            .any(|one| !one.text.trim().is_empty()),
        n_bytes: usize::try_from(draft.n_bytes).unwrap_or(usize::MAX),
    };
    let earlier = path.iter().rev();
    let earlier = earlier.map(|head| store.message(head.id).map(|message| size_of(&message)));
    let limits = RouteLimits::new((route, routes), message, earlier, context_length as usize)?;
    Ok(DraftRoute {
        route,
        limits,
        is_attached_too_long: is_too_long(draft.attached_tokens, limits.attached_tokens),
    })
}

#[cfg(test)]
mod tests {
    use transom_engine::{Prompt, Truncation};
    use transom_store::{
        Ending, MessageRole, ModelSettings, NewMessage, Overflow, RouteChanges, Timestamp,
        attached_text,
    };

    use super::*;
    use crate::request::tests::info;
    use crate::request::{request, routed_request};
    use crate::routing::{check_attached, estimated_tokens, route_of};

    const CONTEXT: usize = 4096;

    /// A conversation of exchanges with 150 and 300 bytes.
    struct Chat {
        store: Store,
        id: ConversationId,
    }

    impl Chat {
        fn new(n_exchanges: usize) -> Self {
            let store = Store::in_memory().unwrap();
            let id = store.create_conversation(Timestamp(1)).unwrap();
            let chat = Self { store, id };
            for _ in 0..n_exchanges {
                let question = chat.add(MessageRole::User, &"a".repeat(150), "");
                let response = chat.add(MessageRole::Assistant, &"b".repeat(300), "");
                assert!(question < response);
            }
            chat
        }

        fn add(&self, role: MessageRole, text: &str, attachment: &str) -> i64 {
            let path = self.store.path(self.id).unwrap();
            let message = NewMessage {
                role,
                attachment: attachment.to_owned(),
                ending: Ending::Stop,
                ..NewMessage::from_user(self.id, path.last().map(|it| it.id), text, Timestamp(1))
            };
            self.store.add_message(message).unwrap().0
        }

        fn draft(&self, text: &str, attached: &str) -> Draft {
            let attachment = (!attached.is_empty()).then(|| AttachedText {
                name: None,
                text: attached.to_owned(),
            });
            Draft {
                conversation: Some(self.id),
                text: text.to_owned(),
                attachments: attachment.into_iter().collect(),
                n_bytes: (text.len() + attached.len()) as u64,
                attached_tokens: estimated_tokens(attached) as u32,
                route: None,
                context_length: Some(CONTEXT as u32),
            }
        }
    }

    /// Sends the draft, and compares its request with what was said before.
    fn check(n_exchanges: usize, text: &str, attached: &str, routing: Routing, routes: &Routes) {
        let chat = Chat::new(n_exchanges);
        let draft = chat.draft(text, attached);
        let shown = route_of_draft(&chat.store, &draft, routing, routes).unwrap();
        chat.add(
            MessageRole::User,
            text,
            &attached_text::join(&draft.attachments),
        );
        let leaf = chat.store.path(chat.id).unwrap().last().unwrap().id;
        let path = chat.store.history(leaf).unwrap();
        assert_eq!(shown.route, route_of(&path, routing, routes), "{text}");
        let checked = check_attached(&path, 0, (shown.route, routes), CONTEXT);
        assert_eq!(shown.is_attached_too_long, checked.is_err(), "{text}");
        // The same text within the message.
        let mut alone = chat.store.message(leaf).unwrap();
        alone.attachment.clear();
        let alone = std::slice::from_ref(&alone);
        let n_tokens = estimated_tokens(attached);
        let checked = check_attached(alone, n_tokens, (shown.route, routes), CONTEXT);
        assert_eq!(shown.is_attached_too_long, checked.is_err(), "{text}");

        let settings = ModelSettings::default();
        let sent = |on_route| {
            let overflow = Overflow::DropOldest;
            match on_route {
                Some(route) => routed_request(&path, &settings, overflow, route, &info()),
                None => request(&path, &settings, overflow, &info()),
            }
        };
        let routed = sent(Some((shown.route, routes)));
        let Prompt::Chat(prompt) = &routed.prompt else {
            panic!("a model with a template is given a conversation");
        };
        let turns = prompt.messages.iter();
        let n_turns = turns.filter(|turn| turn.role.as_str() != "system").count();
        let n_earlier = shown.limits.earlier_messages.map(|n| n as usize);
        assert_eq!(n_earlier.unwrap_or(path.len() - 1), n_turns - 1, "{text}");
        let reserved = |truncation| match truncation {
            Truncation::DropOldest {
                response_tokens, ..
            } => response_tokens,
            Truncation::Disabled => panic!("the conversation may be shortened"),
        };
        let usual = reserved(sent(None).truncation);
        let expected = shown.limits.response_tokens.map_or(usual, |n| n as usize);
        assert_eq!(reserved(routed.truncation), expected, "{text}");
    }

    #[test]
    fn a_draft_is_shown_as_its_request_is_sent() {
        let all = RouteChanges {
            history: Some(1.0),
            ..RouteChanges::default()
        };
        let half = RouteChanges {
            history: Some(0.1),
            reserve: Some(0.2),
            ..RouteChanges::default()
        };
        let named = [
            ("summarize".to_owned(), all),
            ("translate".to_owned(), half),
        ];
        let long = "Guten Tag, wir sind um drei am Bahnhof. ".repeat(20);
        let longer = "Guten Tag, wir sind um drei am Bahnhof. ".repeat(200);
        for routes in [Routes::default(), Routes::with(&named.into())] {
            for n_exchanges in [0, 1, 3, 9] {
                for (text, attached) in [
                    ("hello", ""),
                    ("in english please", &*long),
                    ("in english please", &longer),
                    ("/translate into German", ""),
                    ("/translate Guten Tag, bis morgen um drei", ""),
                    ("summarize this", &long),
                    ("shorten your last answer like this: one line", ""),
                    ("when do they arrive?", &long),
                    ("write a python function that sorts a list", ""),
                ] {
                    for routing in [
                        Routing::Off,
                        Routing::Automatic,
                        Routing::Chosen(Route::Chat),
                        Routing::Chosen(Route::Question),
                    ] {
                        check(n_exchanges, text, attached, routing, &routes);
                    }
                }
            }
        }
    }

    #[test]
    fn what_the_user_chose_wins_unless_routes_are_off_and_limits_need_the_context_length() {
        let chat = Chat::new(0);
        let routes = Routes::default();
        let draft = Draft {
            route: Some(Route::Rewrite),
            ..chat.draft("in english please", "Guten Tag")
        };
        let of =
            |draft: &Draft, routing| route_of_draft(&chat.store, draft, routing, &routes).unwrap();
        let shown = of(&draft, Routing::Automatic);
        assert_eq!(shown.route, Route::Rewrite);
        let expected = RouteLimits {
            earlier_messages: Some(0),
            attached_tokens: Some(1638),
            response_tokens: Some(11),
        };
        assert_eq!(shown.limits, expected);
        assert_eq!(of(&draft, Routing::Off), DraftRoute::default());
        let unknown = Draft {
            context_length: None,
            ..draft
        };
        let shown = of(&unknown, Routing::Automatic);
        assert_eq!(
            (shown.route, shown.limits),
            (Route::Rewrite, RouteLimits::default())
        );
        let gone = Draft {
            conversation: Some(ConversationId(99)),
            ..unknown
        };
        let path = chat.store.path(ConversationId(99));
        assert_eq!(
            route_of_draft(&chat.store, &gone, Routing::Automatic, &routes).is_err(),
            path.is_err()
        );
    }
}

//! Requests of routes.

use transom_store::{AttachedText, RouteChanges};

use super::*;
use crate::failure::Failure;
use crate::routing::{Routing, check_attached, route_of};

/// As [`routed_request`], with the built-in routes.
fn request_of_route(
    path: &[Message],
    settings: &ModelSettings,
    overflow: Overflow,
    route: Route,
    info: &ModelInfo,
) -> Request {
    routed_request(path, settings, overflow, (route, &Routes::default()), info)
}

/// Returns the messages of the prompt of a route, as `role: text`.
fn routed(path: &[Message], settings: &ModelSettings, route: Route) -> Vec<String> {
    let request = request_of_route(path, settings, Overflow::DropOldest, route, &info());
    let Prompt::Chat(chat) = request.prompt else {
        panic!("a model with a template is given a conversation");
    };
    let turns = chat.messages.iter();
    turns
        .map(|turn| format!("{}: {}", turn.role.as_str(), turn.content))
        .collect()
}

#[test]
fn a_chat_is_sent_as_without_routes() {
    let path = [person("One?"), model("Yes.", Ending::Stop), person("Two?")];
    let settings = ModelSettings::default();
    assert_eq!(
        request_of_route(&path, &settings, Overflow::DropOldest, Route::Chat, &info()),
        request(&path, &settings, Overflow::DropOldest, &info())
    );
    let base = ModelInfo {
        has_chat_template: false,
        ..info()
    };
    assert_eq!(
        request_of_route(&path, &settings, Overflow::Stop, Route::Translate, &base),
        request(&path, &settings, Overflow::Stop, &base)
    );
}

#[test]
fn a_translation_carries_no_history_and_the_instructions_of_the_user_stay_first() {
    let path = [
        person("One?"),
        model("Yes.", Ending::Stop),
        taken_along("Guten Tag", "in english"),
    ];
    let settings = ModelSettings {
        system_prompt: Some("Be brief.".to_owned()),
        ..ModelSettings::default()
    };
    let instructions = &Route::Translate.settings().instructions;
    assert_eq!(
        routed(&path, &settings, Route::Translate),
        [
            format!("system: Be brief.\n\n{instructions}"),
            "user: <text>\nGuten Tag\n</text>\n\nin english".to_owned()
        ]
    );
    let request = |path: &[Message], route| {
        request_of_route(path, &settings, Overflow::DropOldest, route, &info())
    };
    let conversation = |path: &[Message], route| request(path, route).params.conversation;
    // So the KV cache of the conversation stays for its next turn.
    let [whole, aside] = request_ids(path[0].conversation).map(Some);
    assert_eq!(conversation(&path, Route::Translate), aside);
    assert_eq!(conversation(&path, Route::Chat), whole);
    let continued = [&path[..], &[model("Good", Ending::Length)]].concat();
    let prompt = routed(&continued, &settings, Route::Translate);
    assert_eq!(prompt.last().unwrap(), "assistant: Good");
    assert_eq!(prompt.len(), 3);
}

#[test]
fn the_prompt_of_a_routed_message_begins_the_next_one() {
    let written = AnswerStats {
        route: Route::Code,
        ..AnswerStats::default()
    };
    let response = Message {
        stats: Some(json(&written)),
        ..model("Here.", Ending::Stop)
    };
    let path = [person("sort a list"), response, person("thanks")];
    let settings = ModelSettings::default();
    let first = routed(&path[..1], &settings, Route::Code);
    let instructions = &Route::Code.settings().instructions;
    assert_eq!(first, [format!("user: {instructions}\n\nsort a list")]);
    let next = routed(&path, &settings, Route::Chat);
    assert_eq!(next[..1], first[..]);
    assert_eq!(next[1..], ["assistant: Here.", "user: thanks"]);
}

#[test]
fn a_route_reserves_room_for_its_response_unless_the_user_set_a_limit() {
    let reserved = |settings: &ModelSettings, route| {
        let path = [taken_along(&"a".repeat(3000), "in english")];
        let request = request_of_route(&path, settings, Overflow::DropOldest, route, &info());
        match request.truncation {
            Truncation::DropOldest {
                response_tokens, ..
            } => response_tokens,
            Truncation::Disabled => 0,
        }
    };
    let free = ModelSettings::default();
    assert_eq!(reserved(&free, Route::Chat), RESERVED_FOR_RESPONSE);
    assert_eq!(reserved(&free, Route::Translate), 1304);
    assert_eq!(reserved(&free, Route::Summarize), 512);
    let limited = ModelSettings {
        max_tokens: Some(100),
        ..free
    };
    assert_eq!(reserved(&limited, Route::Translate), 100);
}

/// Returns how many messages of three exchanges before it the request of a message contains.
fn n_earlier(message: Message, route: Route) -> usize {
    let exchange = |text: &str| [person(text), model(&"word ".repeat(60), Ending::Stop)];
    let path = [exchange("One?"), exchange("Two?"), exchange("Three?")].concat();
    let path = [path, vec![message]].concat();
    let prompt = routed(&path, &ModelSettings::default(), route);
    let n_system = usize::from(prompt[0].starts_with("system"));
    prompt.len() - n_system - 1
}

#[test]
fn a_message_with_a_text_of_its_own_carries_the_share_of_history_of_its_route() {
    let attached = || taken_along("Guten Tag", "please");
    for route in [
        Route::Summarize,
        Route::Rewrite,
        Route::Translate,
        Route::Extract,
    ] {
        assert_eq!(n_earlier(attached(), route), 0, "{route:?}");
        assert_eq!(
            n_earlier(person(&"a text ".repeat(5)), route),
            0,
            "{route:?}"
        );
    }
    // A sixteenth of 4,096 tokens holds two exchanges of 300 bytes, of three bytes a token.
    assert_eq!(n_earlier(attached(), Route::Question), 4);
    assert_eq!(n_earlier(attached(), Route::Code), 6);
    assert_eq!(n_earlier(attached(), Route::Chat), 6);
}

#[test]
fn a_message_without_a_text_is_about_the_earlier_ones() {
    for (text, route) in [
        ("/translate", Route::Translate),
        ("/translate into German", Route::Translate),
        ("/rewrite shorter", Route::Rewrite),
        ("/summarize", Route::Summarize),
        ("/extract all names", Route::Extract),
        ("/question who is it?", Route::Question),
        ("auf Deutsch", Route::Translate),
        ("/extract all names and email addresses", Route::Extract),
        ("/rewrite a bit shorter and friendlier", Route::Rewrite),
    ] {
        assert_eq!(n_earlier(person(text), route), 6, "{text}");
    }
    for (text, route) in [
        ("/translate Guten Tag", Route::Translate),
        ("Guten Tag", Route::Translate),
        ("/rewrite i has a cat", Route::Rewrite),
    ] {
        assert_eq!(n_earlier(person(text), route), 0, "{text}");
    }
}

/// Returns the texts of the built-in prompts of the pages that have a route, in all languages.
fn built_in_prompts() -> Vec<(Route, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/src/i18n");
    let mut prompts = Vec::new();
    for language in ["de", "en", "es", "fr", "ja", "zh-Hans"] {
        let file = std::fs::read_to_string(format!("{folder}/{language}/chat.json")).unwrap();
        let texts: serde_json::Value = serde_json::from_str(&file).unwrap();
        for (name, route) in [
            ("summarize", Route::Summarize),
            ("fix", Route::Rewrite),
            ("translate", Route::Translate),
        ] {
            let text = texts[format!("prompts.{name}_text")].as_str().unwrap();
            prompts.push((route, text.to_owned()));
        }
    }
    prompts
}

/// Pages send the text of a saved prompt in place of its name.
#[test]
fn a_built_in_prompt_without_a_text_is_about_the_earlier_messages() {
    for (route, prompt) in built_in_prompts() {
        let filled = |text: &str| prompt.replace("{text}", text).trim().to_owned();
        assert_eq!(n_earlier(person(&filled("")), route), 6, "{prompt}");
        let text = "Guten Tag, wir sind um drei am Bahnhof und bringen Kuchen mit.";
        assert_eq!(n_earlier(person(&filled(text)), route), 0, "{prompt}");
    }
    let more = "Translate this into English:\n\ninto German";
    assert_eq!(n_earlier(person(more), Route::Translate), 6);
}

#[test]
fn a_long_text_is_worked_on_although_its_words_are_those_of_requests() {
    let text = "The summary of the main points, in short: the key points. ".repeat(5);
    let message = format!("Summarize this:\n\n{text}");
    assert_eq!(n_earlier(person(&message), Route::Summarize), 0);
}

#[test]
fn a_message_about_earlier_ones_carries_all_of_them() {
    for (text, route) in [
        (
            "Rewrite your last answer like this: shorter, friendlier, and in bullet points",
            Route::Rewrite,
        ),
        (
            "Summarize our conversation like this: one line for each topic",
            Route::Summarize,
        ),
        (
            "Schreib deine letzte Antwort so um: alles in der Vergangenheit",
            Route::Rewrite,
        ),
        (
            "Résume notre conversation ainsi : une ligne pour chaque sujet",
            Route::Summarize,
        ),
        (
            "Reescribe tu última respuesta así: todo en tiempo pasado",
            Route::Rewrite,
        ),
        (
            "请这样改写你的上一个回答：全部使用过去时，并且删掉例子",
            Route::Rewrite,
        ),
        (
            "さっきの回答を次のように直して：すべて過去形で、例は省いてください",
            Route::Rewrite,
        ),
    ] {
        assert_eq!(n_earlier(person(text), route), 6, "{text}");
        let with_text = Message {
            attachment: "Guten Tag".to_owned(),
            ..person(text)
        };
        assert_eq!(n_earlier(with_text, route), 6, "{text}");
    }
    // In a text they are its words.
    let text = "Translate this into German:\nThank you for your last answer.\nBest, Tom and Ann";
    assert_eq!(n_earlier(person(text), Route::Translate), 0);
}

#[test]
fn a_request_follows_what_the_user_changed_about_its_route() {
    let changes = RouteChanges {
        instructions: Some("Translate as a poet.".to_owned()),
        temperature: Some(0.9),
        reserve: Some(0.25),
        history: Some(1.0),
        ..RouteChanges::default()
    };
    let changed = Routes::with(&[("translate".to_owned(), changes)].into());
    let path = [
        person("One?"),
        model("Yes.", Ending::Stop),
        taken_along("Guten Tag", "in english"),
    ];
    let settings = ModelSettings::default();
    let request = |routes| {
        let route = (Route::Translate, routes);
        routed_request(&path, &settings, Overflow::DropOldest, route, &info())
    };
    let sent = request(&changed);
    assert_eq!(Some(sent.params.sampling.temperature), Some(0.9));
    let Prompt::Chat(chat) = sent.prompt else {
        panic!("a model with a template is given a conversation");
    };
    assert_eq!(chat.messages.len(), 3, "all earlier messages");
    assert!(chat.messages[2].content.contains("Translate as a poet."));
    let Truncation::DropOldest {
        response_tokens, ..
    } = sent.truncation
    else {
        panic!("a conversation that may be shortened");
    };
    assert_eq!(response_tokens, info().context_length / 4);

    // Without instructions and without history, nothing but the message is sent.
    let changes = RouteChanges {
        instructions: Some(String::new()),
        ..RouteChanges::default()
    };
    let changed = Routes::with(&[("translate".to_owned(), changes)].into());
    let Prompt::Chat(chat) = request(&changed).prompt else {
        panic!("a model with a template is given a conversation");
    };
    assert_eq!(chat.messages.len(), 1);
}

#[test]
fn a_follow_up_about_code_carries_the_code_even_if_earlier_messages_may_take_little() {
    let little = RouteChanges {
        history: Some(0.0),
        ..RouteChanges::default()
    };
    let routes = Routes::with(&[("code".to_owned(), little)].into());
    let written = AnswerStats {
        route: Route::Code,
        ..AnswerStats::default()
    };
    let response = Message {
        stats: Some(json(&written)),
        ..model("It sorts.", Ending::Stop)
    };
    let code = "fn sort(list: &mut [i32]) {}";
    let path = [taken_along(code, "what does this do"), response];
    let prompt = |message: Message| {
        let path = [&path[..], &[message]].concat();
        let route = route_of(&path, Routing::Automatic, &routes);
        assert_eq!(route, Route::Code, "{path:?}");
        let settings = ModelSettings::default();
        let on_route = (route, &routes);
        let request = routed_request(&path, &settings, Overflow::DropOldest, on_route, &info());
        let Prompt::Chat(chat) = request.prompt else {
            panic!("a model with a template is given a conversation");
        };
        chat.messages
    };
    for follow_up in [
        "and the last line, is that needed",
        "make it faster",
        "warum nicht in place",
        "/code make it faster",
    ] {
        let messages = prompt(person(follow_up));
        assert_eq!(messages.len(), 3, "{follow_up}");
        assert!(messages[0].content.contains(code), "{follow_up}");
    }
    // A message with code of its own is about that.
    let other = prompt(taken_along("fn other() {}", "why is this code slow"));
    assert_eq!(other.len(), 2, "the instructions and the message");
}

#[test]
fn attached_text_may_take_the_share_of_its_route() {
    // 0.4 of 4,096 tokens.
    let most = taken_along(&"a".repeat(4 * 1638), "in english");
    let more = taken_along(&"a".repeat(4 * 1638 + 1), "in english");
    let built_in = Routes::default();
    let check = |path: &[Message], route, routes: &Routes| {
        check_attached(path, 0, (route, routes), info().context_length)
    };
    let of = |message: &Message, route| check(std::slice::from_ref(message), route, &built_in);
    assert_eq!(of(&most, Route::Translate), Ok(()));
    let too_long = Failure::AttachedTooLong {
        route: Route::Translate,
        attached_tokens: 1639,
        max_tokens: 1638,
    };
    assert_eq!(of(&more, Route::Translate), Err(too_long.clone()));
    assert_eq!(of(&more, Route::Summarize), Ok(()));
    assert_eq!(of(&more, Route::Chat), Ok(()));
    let endless = taken_along(&"a".repeat(1_000_000), "in english");
    assert_eq!(of(&endless, Route::Chat), Ok(()), "the context decides");

    // All attached texts count together, and the message itself does not.
    let both = [1, 2].map(|n| AttachedText {
        name: Some(format!("{n}.txt")),
        text: "a".repeat(4 * 820),
    });
    let both = taken_along(&attached_text::join(&both), "in english");
    assert!(of(&both, Route::Rewrite).is_err());
    let typed = person(&format!("/translate {}", "word ".repeat(5000)));
    assert_eq!(of(&typed, Route::Translate), Ok(()));
    // Unless a window says that it contains attached text, which then counts with the others.
    let contains = |n_tokens| {
        let (path, route) = ([most.clone()], (Route::Translate, &built_in));
        check_attached(&path, n_tokens, route, info().context_length)
    };
    assert_eq!(contains(0), Ok(()));
    assert_eq!(contains(1), Err(too_long));

    // A response that is continued has it already.
    let continued = [more.clone(), model("Good", Ending::Length)];
    assert_eq!(check(&continued, Route::Translate, &built_in), Ok(()));

    for (share, is_ok) in [(0.1, false), (0.5, true), (1.0, true)] {
        let changes = RouteChanges {
            attached: Some(share),
            ..RouteChanges::default()
        };
        let changed = Routes::with(&[("translate".to_owned(), changes)].into());
        let result = check(std::slice::from_ref(&more), Route::Translate, &changed);
        assert_eq!(result.is_ok(), is_ok, "{share}");
    }
}

#[test]
fn a_message_about_earlier_ones_keeps_the_usual_room_for_its_response() {
    let path = [
        person("One?"),
        model("Yes.", Ending::Stop),
        person("/translate into German"),
    ];
    let settings = ModelSettings::default();
    let request = request_of_route(
        &path,
        &settings,
        Overflow::DropOldest,
        Route::Translate,
        &info(),
    );
    let usual = Truncation::DropOldest {
        response_tokens: RESERVED_FOR_RESPONSE,
        context_limit: None,
    };
    assert_eq!(request.truncation, usual);
}

//! Requests of routes.

use super::*;

/// Returns the messages of the prompt of a route, as `role: text`.
fn routed(path: &[Message], settings: &ModelSettings, route: Route) -> Vec<String> {
    let request = routed_request(path, settings, Overflow::DropOldest, route, &info());
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
        routed_request(&path, &settings, Overflow::DropOldest, Route::Chat, &info()),
        request(&path, &settings, Overflow::DropOldest, &info())
    );
    let base = ModelInfo {
        has_chat_template: false,
        ..info()
    };
    assert_eq!(
        routed_request(&path, &settings, Overflow::Stop, Route::Translate, &base),
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
        routed_request(path, &settings, Overflow::DropOldest, route, &info())
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
        let request = routed_request(&path, settings, Overflow::DropOldest, route, &info());
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

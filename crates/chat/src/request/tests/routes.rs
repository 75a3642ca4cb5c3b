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

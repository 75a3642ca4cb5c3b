use transom_store::RouteChanges;

use super::*;
use crate::ending::json;
use crate::tests::message;
use crate::update::AnswerStats;

fn attached(name: Option<&str>, text: &str) -> AttachedText {
    AttachedText {
        name: name.map(str::to_owned),
        text: text.to_owned(),
    }
}

fn follows(previous: Route, text: &str, selection: SelectionKind) -> Route {
    route(&Signals {
        text,
        selection,
        previous,
    })
}

#[test]
fn a_command_wins_over_every_word_and_over_the_conversation() {
    for expected in Route::ALL {
        let text = format!(
            "/{} summarize or translate this to French?",
            expected.name()
        );
        for selection in [
            SelectionKind::None,
            SelectionKind::Text,
            SelectionKind::Code,
        ] {
            for previous in Route::ALL {
                assert_eq!(follows(previous, &text, selection), expected, "{text}");
            }
        }
    }
    assert_eq!(command(" /Summarise\nthis"), Some(Route::Summarize));
    assert_eq!(command("/etc/hosts is empty"), None);
    assert_eq!(command("translate"), None);
    assert_eq!(command("/"), None);
}

#[test]
fn only_a_sticky_route_stays_and_only_while_nothing_new_is_attached() {
    let follow_up = "and the last line, is that needed";
    for previous in Route::ALL {
        // After a question about a text, one about anything else may not be answered from that text.
        let stays = previous == Route::Code;
        let expected = if stays { previous } else { Route::Chat };
        assert_eq!(follows(previous, follow_up, SelectionKind::None), expected);
        let other = follows(previous, "nice", SelectionKind::Text);
        assert_eq!(other, Route::Chat);
        let wordless = follows(previous, " ", SelectionKind::Code);
        assert_eq!(wordless, Route::Chat, "no chip was shown");
    }
}

#[test]
fn the_kind_of_an_attachment_follows_from_its_name_and_its_lines() {
    let code = "fn main() {\n    println!(\"hi\");\n}\n";
    let kind = |texts: &[AttachedText]| selection_kind(texts);
    assert_eq!(kind(&[]), SelectionKind::None);
    assert_eq!(kind(&[attached(None, " \n")]), SelectionKind::None);
    assert_eq!(kind(&[attached(None, code)]), SelectionKind::Code);
    assert_eq!(kind(&[attached(Some("a.PY"), "x")]), SelectionKind::Code);
    assert_eq!(
        kind(&[attached(Some("a.txt"), code)]),
        SelectionKind::Document
    );
    let letter = "Dear Ann,\nlet me know when you arrive.\nBest, Tom";
    assert_eq!(kind(&[attached(None, letter)]), SelectionKind::Text);
    let both = [
        attached(Some("a.rs"), code),
        attached(Some("b.pdf"), "text"),
    ];
    assert_eq!(kind(&both), SelectionKind::Document);
}

#[test]
fn the_route_of_a_path_is_that_of_its_last_question() {
    let stats = AnswerStats {
        route: Route::Code,
        ..AnswerStats::default()
    };
    let response = Message {
        stats: Some(json(&stats)),
        ..message(MessageRole::Assistant, "Here.")
    };
    let first = message(
        MessageRole::User,
        "write a python function that sorts a list",
    );
    let second = message(MessageRole::User, "shorter names are nicer");
    let path = [first, response, second];
    let built_in = |path: &[Message], routing| route_of(path, routing, &Routes::default());
    assert_eq!(built_in(&path[..1], Routing::Automatic), Route::Code);
    assert_eq!(built_in(&path, Routing::Automatic), Route::Code);
    assert_eq!(built_in(&path, Routing::Off), Route::Chat);
    let chosen = Routing::Chosen(Route::Extract);
    assert_eq!(built_in(&path, chosen), Route::Extract);
    let off = RouteChanges {
        is_off: true,
        ..RouteChanges::default()
    };
    let without_code = Routes::with(&[("code".to_owned(), off)].into());
    let route = route_of(&path, Routing::Automatic, &without_code);
    assert_eq!(route, Route::Chat);
    let chosen = Routing::Chosen(Route::Code);
    assert_eq!(route_of(&path, chosen, &without_code), Route::Chat);
    let selected = Message {
        attachment: "Guten Tag".to_owned(),
        ..message(MessageRole::User, "in english please")
    };
    assert_eq!(built_in(&[selected], Routing::Automatic), Route::Translate);
    assert_eq!(built_in(&[], Routing::Automatic), Route::Chat);
}

#[test]
fn the_user_wins_over_a_route() {
    let user = ModelSettings {
        temperature: Some(1.5),
        thinking: Some(true),
        ..ModelSettings::default()
    };
    let settings = Route::Translate.settings();
    assert_eq!(settings_under(settings, &user), user);
    // Authors recommend a temperature for reasoning.
    let reasoning = ModelSettings {
        thinking: Some(true),
        ..ModelSettings::default()
    };
    assert_eq!(settings_under(settings, &reasoning), reasoning);
    let set = settings_under(settings, &ModelSettings::default());
    assert_eq!((set.temperature, set.thinking), (Some(0.2), Some(false)));
}

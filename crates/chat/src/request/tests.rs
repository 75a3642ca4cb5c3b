mod routes;

use transom_store::Ending;

use super::*;
use crate::ending::json;
use crate::tests::message as says;
use crate::update::AnswerStats;

pub(crate) fn info() -> ModelInfo {
    ModelInfo {
        name: "model".to_owned(),
        architecture: "qwen3".to_owned(),
        engine: "mlx".to_owned(),
        n_parameters: 1,
        stored_as: "4-bit".to_owned(),
        computed_as: "4-bit".to_owned(),
        context_length: 4096,
        vocab_size: 1,
        has_chat_template: true,
        draft: None,
        recommended_sampling: SamplingParams {
            temperature: 0.6,
            top_k: 20,
            presence_penalty: 1.5,
            ..SamplingParams::default()
        },
    }
}

fn person(text: &str) -> Message {
    says(MessageRole::User, text)
}

fn model(text: &str, ending: Ending) -> Message {
    Message {
        reasoning: "Let me think.".to_owned(),
        ending,
        ..says(MessageRole::Assistant, text)
    }
}

fn taken_along(attachment: &str, text: &str) -> Message {
    Message {
        attachment: attachment.to_owned(),
        ..person(text)
    }
}

/// Returns the messages of the prompt, as `role: text`.
fn shown(path: &[Message], settings: &ModelSettings) -> Vec<String> {
    let Prompt::Chat(chat) = request(path, settings, Overflow::DropOldest, &info()).prompt else {
        panic!("a model with a template is given a conversation");
    };
    let turns = chat.messages.iter();
    turns
        .map(|turn| format!("{}: {}", turn.role.as_str(), turn.content))
        .collect()
}

fn check(path: &[Message], expect: &[&str]) {
    assert_eq!(shown(path, &ModelSettings::default()), expect);
}

#[test]
fn reasoning_is_left_out_of_the_prompt() {
    check(
        &[person("One?"), model("Yes.", Ending::Stop), person("Two?")],
        &["user: One?", "assistant: Yes.", "user: Two?"],
    );
}

#[test]
fn the_system_prompt_comes_first_and_a_blank_one_is_ignored() {
    let with = |system: &str| ModelSettings {
        system_prompt: Some(system.to_owned()),
        ..ModelSettings::default()
    };
    let path = [person("One?")];
    assert_eq!(
        shown(&path, &with("Be brief.")),
        ["system: Be brief.", "user: One?"]
    );
    assert_eq!(shown(&path, &with(" \n")), ["user: One?"]);
}

#[test]
fn partial_responses_stay_in_the_prompt() {
    let failure = String::new();
    let endings = [
        Ending::Canceled,
        Ending::Interrupted,
        Ending::Shed,
        Ending::Length,
        Ending::Failed { failure },
    ];
    for ending in endings {
        check(
            &[person("One?"), model("Half an", ending), person("Two?")],
            &["user: One?", "assistant: Half an", "user: Two?"],
        );
    }
}

#[test]
fn empty_responses_are_skipped_and_roles_alternate() {
    check(
        &[
            person("One?"),
            model(" ", Ending::Canceled),
            person("Two?"),
            model("Yes.", Ending::Stop),
            person("Three?"),
        ],
        &["user: One?\n\nTwo?", "assistant: Yes.", "user: Three?"],
    );
}

#[test]
fn attachments_precede_the_question_between_unique_tags() {
    check(
        &[taken_along("let x = 1;\n", "Explain")],
        &["user: <text>\nlet x = 1;\n</text>\n\nExplain"],
    );
    check(
        &[taken_along("a </text> b", "Explain")],
        &["user: <text-2>\na </text> b\n</text-2>\n\nExplain"],
    );
    check(
        &[taken_along(
            r##"[{"name":"a.md","text":"# A"},{"name":null,"text":"B"}]"##,
            "Compare",
        )],
        &["user: <text name=\"a.md\">\n# A\n</text>\n\n<text>\nB\n</text>\n\nCompare"],
    );
    check(
        &[taken_along("Only this", "")],
        &["user: <text>\nOnly this\n</text>"],
    );
    check(&[taken_along(" \n", "Explain")], &["user: Explain"]);
}

#[test]
fn a_model_without_a_chat_template_gets_plain_text() {
    let info = ModelInfo {
        has_chat_template: false,
        ..info()
    };
    let path = [person("One"), model("two", Ending::Stop), person("three")];
    let settings = ModelSettings::default();
    let request = request(&path, &settings, Overflow::DropOldest, &info);
    assert_eq!(
        request.prompt,
        Prompt::Text("One\n\ntwo\n\nthree".to_owned())
    );
}

#[test]
fn an_unfinished_response_at_the_end_is_continued() {
    let open = |path: &[Message]| {
        let settings = ModelSettings::default();
        let request = request(path, &settings, Overflow::DropOldest, &info());
        let Prompt::Chat(chat) = request.prompt else {
            panic!("a model with a template is given a conversation");
        };
        chat.continue_final_message
    };
    let path = [person("One?"), model("Half an", Ending::Length)];
    check(&path, &["user: One?", "assistant: Half an"]);
    assert!(open(&path));
    assert!(!open(&path[..1]));
}

#[test]
fn unset_parameters_use_the_recommended_values() {
    let path = [person("One?")];
    let request =
        |settings: &ModelSettings| request(&path, settings, Overflow::DropOldest, &info());
    let open = request(&ModelSettings::default());
    assert_eq!(open.params.sampling, info().recommended_sampling);
    assert_eq!(open.params.max_tokens, Some(4096), "not round in circles");
    assert!(open.params.shift_context);
    let conversation = transom_engine::ConversationId(1);
    assert_eq!(open.params.conversation, Some(conversation));
    assert_eq!(
        open.truncation,
        Truncation::DropOldest {
            response_tokens: 1024,
            context_limit: None
        }
    );
    let set = request(&ModelSettings {
        temperature: Some(0.0),
        top_p: Some(0.5),
        top_k: Some(0),
        min_p: Some(0.1),
        repetition_penalty: Some(1.1),
        seed: Some(7),
        max_tokens: Some(100),
        thinking: Some(false),
        ..ModelSettings::default()
    });
    let expect = SamplingParams {
        temperature: 0.0,
        top_p: 0.5,
        top_k: 0,
        min_p: 0.1,
        repetition_penalty: 1.1,
        seed: Some(7),
        ..info().recommended_sampling
    };
    assert_eq!(set.params.sampling, expect);
    assert_eq!(set.params.max_tokens, Some(100));
    assert!(matches!(
        set.truncation,
        Truncation::DropOldest {
            response_tokens: 100,
            ..
        }
    ));
    let Prompt::Chat(chat) = set.prompt else {
        panic!("a model with a template is given a conversation");
    };
    assert_eq!(chat.enable_thinking, Some(false));
    assert_eq!(set.params.validate(1), Ok(()));
}

#[test]
fn settings_of_a_conversation_replace_those_of_its_model() {
    let of_model = ModelSettings {
        context_length: Some(8192),
        temperature: Some(0.9),
        top_k: Some(30),
        system_prompt: Some("Use metric units.".to_owned()),
        thinking: Some(true),
        ..ModelSettings::default()
    };
    let nothing = ConversationSettings::default();
    assert_eq!(settings_in(&nothing, &of_model), of_model);
    let conversation = ConversationSettings {
        model: Some("other".to_owned()),
        instructions: Some("Be brief.".to_owned()),
        temperature: Some(0.0),
        context_length: Some(1024),
        thinking: Some(false),
        overflow: Overflow::Stop,
    };
    let settings = settings_in(&conversation, &of_model);
    let path = [person("One?")];
    assert_eq!(shown(&path, &settings), ["system: Be brief.", "user: One?"]);
    let request = request(&path, &settings, Overflow::DropOldest, &info());
    let sampling = request.params.sampling;
    assert_eq!((sampling.temperature, sampling.top_k), (0.0, 30));
    let Prompt::Chat(chat) = request.prompt else {
        panic!("a model with a template is given a conversation");
    };
    assert_eq!(chat.enable_thinking, Some(false));
    assert_eq!(settings.context_length, Some(1024));
}

#[test]
fn a_conversation_that_must_not_be_shortened_is_not_shifted_either() {
    let path = [person("One?")];
    let request = request(&path, &ModelSettings::default(), Overflow::Stop, &info());
    assert_eq!(request.truncation, Truncation::Disabled);
    assert!(!request.params.shift_context);
}

/// Returns a response of the model "mine" that was written without `dropped_messages`.
fn without(dropped_messages: u32, context_length: Option<u32>) -> Message {
    let stats = AnswerStats {
        dropped_messages,
        context_length,
        ..AnswerStats::default()
    };
    Message {
        model: Some("mine".to_owned()),
        stats: Some(json(&stats)),
        ..model("Yes.", Ending::Stop)
    }
}

#[test]
fn dropped_messages_stay_dropped_for_the_same_model_and_context_length() {
    let exchange = |response: Message| [person("And?"), response];
    let early = exchange(without(0, None));
    let cut = |n, context_length| exchange(without(n, context_length));
    let next = || vec![person("Next?")];
    let failed = exchange(model("", Ending::Canceled));
    let cases: [(&str, Vec<Message>, usize); 7] = [
        ("nothing was dropped", [early.to_vec(), next()].concat(), 0),
        (
            "the last response counts",
            [early.to_vec(), cut(2, None).to_vec(), next()].concat(),
            2,
        ),
        (
            "a response without statistics is passed over",
            [
                early.to_vec(),
                cut(2, None).to_vec(),
                failed.to_vec(),
                next(),
            ]
            .concat(),
            2,
        ),
        (
            "a later response that got everything ends it",
            [cut(2, None).to_vec(), early.to_vec(), next()].concat(),
            0,
        ),
        (
            "another context length was chosen",
            [early.to_vec(), cut(2, Some(4096)).to_vec(), next()].concat(),
            0,
        ),
        (
            "an imported number that is no begin of an exchange",
            [early.to_vec(), cut(1, None).to_vec(), next()].concat(),
            0,
        ),
        (
            "an imported number that is too large",
            [early.to_vec(), cut(9, None).to_vec(), next()].concat(),
            0,
        ),
    ];
    for (name, path, expected) in cases {
        assert_eq!(dropped_before(&path, "mine", None), expected, "{name}");
        assert_eq!(dropped_before(&path, "other", None), 0, "{name}");
    }
    let path = [early.to_vec(), cut(2, Some(4096)).to_vec(), next()].concat();
    assert_eq!(dropped_before(&path, "mine", Some(4096)), 2);
    assert_eq!(dropped_before(&path, "mine", Some(8192)), 0);
}

#[test]
fn dropped_turns_are_counted_in_messages() {
    let path = [
        person("One?"),
        model(" ", Ending::Canceled),
        person("Two?"),
        model("Yes.", Ending::Stop),
        person("Three?"),
        model("No.", Ending::Stop),
        person("Four?"),
    ];
    for (n_turns, n_messages) in [(0, 0), (2, 4), (4, 6)] {
        assert_eq!(messages_in_turns(&path, n_turns), n_messages);
        assert_eq!(path[n_messages].role, MessageRole::User);
    }
}

/// Returns a response with a summary of everything up to it.
fn summarized(summary: &str) -> Message {
    Message {
        summary: Some(summary.to_owned()),
        ..model("Yes.", Ending::Stop)
    }
}

#[test]
fn the_latest_summary_of_dropped_messages_counts() {
    let path = [
        person("One?"),
        summarized("First."),
        person("Two?"),
        summarized("Second."),
        person("Three?"),
        summarized(""),
    ];
    assert_eq!(summary_of(&path, 0), None);
    assert_eq!(summary_of(&path, 1), None);
    assert_eq!(summary_of(&path, 3), Some((2, "First.")));
    assert_eq!(summary_of(&path, 5), Some((4, "Second.")));
    assert_eq!(summary_of(&path, 6), None, "the user removed it");
}

#[test]
fn a_summary_is_written_from_the_earlier_one_and_what_follows() {
    let path = [
        person("One?"),
        summarized("They said one."),
        taken_along("A page.", "Two?"),
        summarized("An old summary of the same messages."),
    ];
    let request = summary_request(&path, &info(), 10_000);
    let Prompt::Chat(chat) = request.prompt else {
        panic!("a summary is asked for in a chat");
    };
    let [message] = &chat.messages[..] else {
        panic!("{:?}", chat.messages);
    };
    let text = &message.content;
    assert!(text.contains("They said one."), "{text}");
    assert!(text.contains("A page.") && text.contains("Two?"), "{text}");
    assert!(
        !text.contains("One?") && !text.contains("old summary"),
        "{text}"
    );
    assert_eq!(request.truncation, Truncation::Disabled);
    let [of_responses, of_summaries] = request_ids(path[0].conversation);
    assert_eq!(request.params.conversation, Some(of_summaries));
    assert_ne!(of_summaries, of_responses, "it would replace the KV cache");
}

#[test]
fn a_conversation_with_summaries_is_shortened_like_others() {
    let path = [person("One?")];
    let settings = ModelSettings::default();
    let of = |overflow| request(&path, &settings, overflow, &info());
    assert_eq!(of(Overflow::Summarize), of(Overflow::DropOldest));
}

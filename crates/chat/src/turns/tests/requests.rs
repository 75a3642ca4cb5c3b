//! Questions, their lock in the conversation, and the prompts that the model gets.

use super::*;
use crate::request::settings_in;

#[tokio::test(start_paused = true)]
async fn a_first_question_creates_a_titled_conversation_with_a_response() {
    let setup = TestSetup::new(WorkerScript::default());
    let started = setup
        .ask("# What is the **capital** of France? Say it.")
        .await;
    let question = setup.message(started.question.unwrap());
    assert_eq!(question.ending, Ending::Stop);
    assert_eq!(question.parent, None);
    let answer = setup.message(started.answer);
    assert_eq!(
        answer.ending,
        Ending::Writing,
        "it is there before it begins"
    );
    assert_eq!(answer.parent, started.question);
    assert_eq!(answer.model.as_deref(), Some("chat"));
    assert_eq!(setup.turns.running(), [started.answer]);

    let page = finish(&setup, started.answer).await;
    assert_eq!(page.ending, Some(EndingView::Stop));
    assert_eq!(page.text, "Paris is the capital.");
    let answer = setup.message(started.answer);
    assert_eq!(answer.text, "Paris is the capital.");
    assert_eq!(answer.ending, Ending::Stop);
    let conversation = setup.store.conversation(started.conversation).unwrap();
    assert_eq!(conversation.title, "What is the capital of France?");
    assert!(setup.turns.running().is_empty());
    let of_it = TurnEvent::ConversationChanged {
        id: started.conversation,
    };
    assert_eq!(*setup.events.lock().unwrap(), [of_it.clone(), of_it]);
}

#[tokio::test(start_paused = true)]
async fn stages_come_in_order_and_statistics_are_stored() {
    let setup = TestSetup::new(WorkerScript::default());
    let started = setup.ask("Hello").await;
    let page = finish(&setup, started.answer).await;
    let stages: Vec<&str> = page
        .stages
        .iter()
        .map(|stage| match stage {
            Stage::Waiting { .. } => "waiting",
            Stage::Loading { .. } => "loading",
            Stage::Prefill { .. } => "prefill",
            Stage::Writing { .. } => "writing",
        })
        .collect();
    let mut kinds = stages.clone();
    kinds.dedup();
    assert_eq!(kinds, ["waiting", "loading", "prefill"], "{stages:?}");
    let last_load = page.stages.iter().rev().find_map(|stage| match stage {
        Stage::Loading { fraction } => *fraction,
        _ => None,
    });
    assert_eq!(last_load, Some(1.0));
    let stats = page.stats.expect("an answer has figures");
    assert_eq!(stats.generated_tokens, 5);
    // The load takes 400 ms, the first token 20 ms.
    let first = stats.time_to_first_token_seconds;
    assert!((0.42..0.6).contains(&first), "{first}");
    let engine = stats.engine.expect("the engine measured too");
    assert!(engine.time_to_first_token.as_secs_f64() < 0.1);
    let stored = setup.turns.messages(&[started.answer]).await.unwrap();
    let stats = AnswerStats {
        engine: None,
        ..stats
    };
    assert_eq!(stored[0].stats, Some(stats));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_continues_with_its_history() {
    let setup = TestSetup::new(WorkerScript::default());
    let first = setup.ask("First?").await;
    finish(&setup, first.answer).await;
    let second = setup.ask_in(first.conversation, "Second?").await;
    finish(&setup, second.answer).await;
    assert_eq!(
        setup.last_prompt(),
        [
            "user: First?",
            "assistant: Paris is the capital.",
            "user: Second?"
        ]
    );
    let conversation = setup.store.conversation(first.conversation).unwrap();
    assert_eq!(conversation.title, "First?", "only the first names it");
}

#[tokio::test(start_paused = true)]
async fn a_regenerated_response_is_a_sibling_of_the_first() {
    let setup = TestSetup::new(WorkerScript::default());
    let first = setup.ask("First?").await;
    finish(&setup, first.answer).await;
    let second = setup.ask_in(first.conversation, "Second?").await;
    finish(&setup, second.answer).await;

    let again = setup
        .turns
        .regenerate(first.answer, options())
        .await
        .unwrap();
    assert_eq!(again.question, None);
    finish(&setup, again.answer).await;
    assert_eq!(setup.last_prompt(), ["user: First?"]);
    let answer = setup.message(again.answer);
    assert_eq!(answer.parent, first.question);
    assert_eq!(answer.siblings, [first.answer, again.answer]);
    let shown = setup.store.path(first.conversation).unwrap();
    let shown: Vec<_> = shown.iter().map(|head| head.id).collect();
    assert_eq!(shown, [first.question.unwrap(), again.answer]);

    // The question itself may be given instead of a response.
    let again = setup.turns.regenerate(first.question.unwrap(), options());
    let again = again.await.unwrap();
    assert_eq!(setup.message(again.answer).siblings.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_continued_response_grows_in_the_same_message() {
    let setup = TestSetup::new(WorkerScript::default());
    let short = TurnOptions {
        settings: ModelSettings {
            max_tokens: Some(2),
            ..ModelSettings::default()
        },
        ..options()
    };
    let first = setup.turns.ask(None, "Hello", "", short).await.unwrap();
    let page = finish(&setup, first.answer).await;
    assert_eq!(
        (page.ending, &*page.text),
        (Some(EndingView::Length), "Paris is")
    );
    // Caches the blocks of the first half.
    let views = setup.turns.messages(&[first.answer]).await.unwrap();
    assert_eq!(views[0].text, "Paris is");

    let more = setup.turns.continue_answer(first.answer, options()).await;
    let more = more.unwrap();
    assert_eq!((more.question, more.answer), (None, first.answer));
    assert_eq!(setup.message(first.answer).ending, Ending::Writing);
    let page = finish(&setup, first.answer).await;
    assert_eq!(page.ending, Some(EndingView::Stop));
    assert_eq!(page.text, "Paris isParis is the capital.");
    assert_eq!(setup.last_prompt(), ["user: Hello", "assistant: Paris is"]);
    let requests = setup.requests.lock().unwrap().clone();
    let is_open = requests.iter().map(
        |request| matches!(&request.prompt, Prompt::Chat(chat) if chat.continue_final_message),
    );
    assert_eq!(is_open.collect::<Vec<_>>(), [false, true]);
    let views = setup.turns.messages(&[first.answer]).await.unwrap();
    assert_eq!(views[0].text, page.text);
    assert_eq!(views[0].blocks, page.blocks);
    let path = setup.store.path(first.conversation).unwrap();
    assert_eq!(path.len(), 2, "no question was added");
}

#[tokio::test(start_paused = true)]
async fn a_continued_response_has_the_names_of_all_models_that_wrote_it() {
    let setup = TestSetup::new(WorkerScript::default());
    let first = setup.ask("Hello").await;
    let page = finish(&setup, first.answer).await;
    assert_eq!(page.model.as_deref(), Some("chat"));
    let by = |name: &str| TurnOptions {
        model: spec(name),
        ..options()
    };
    for _ in 0..2 {
        let more = setup.turns.continue_answer(first.answer, by("other")).await;
        let page = finish(&setup, more.unwrap().answer).await;
        assert_eq!(page.model.as_deref(), Some("chat + other"));
        let stored = setup.message(first.answer).model;
        assert_eq!(stored.as_deref(), Some("chat + other"));
    }
    // A model that was stopped before its first text wrote nothing.
    let more = setup.turns.continue_answer(first.answer, by("third")).await;
    setup.turns.stop(more.unwrap().answer);
    let page = finish(&setup, first.answer).await;
    assert_eq!(page.ending, Some(EndingView::Canceled));
    assert_eq!(page.model.as_deref(), Some("chat + other"));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_keeps_its_settings_and_its_first_model() {
    let setup = TestSetup::new(WorkerScript::default());
    let conversation = ConversationSettings {
        instructions: Some("Be brief.".to_owned()),
        ..ConversationSettings::default()
    };
    let first = TurnOptions {
        settings: settings_in(&conversation, &ModelSettings::default()),
        conversation: conversation.clone(),
        ..options()
    };
    let first = setup.turns.ask(None, "Hello", "", first).await.unwrap();
    finish(&setup, first.answer).await;
    assert_eq!(setup.last_prompt(), ["system: Be brief.", "user: Hello"]);
    let other = TurnOptions {
        model: spec("other"),
        ..options()
    };
    let id = first.conversation;
    let second = setup.turns.ask(Some(id), "And?", "", other).await.unwrap();
    finish(&setup, second.answer).await;
    let kept = setup.store.conversation_settings(id).unwrap();
    let expected = ConversationSettings {
        model: Some(spec("chat").id),
        ..conversation
    };
    assert_eq!(kept, expected);
}

#[tokio::test(start_paused = true)]
async fn an_edited_response_is_part_of_the_next_prompt() {
    let setup = TestSetup::new(WorkerScript::default());
    let first = setup.ask("First?").await;
    finish(&setup, first.answer).await;
    let views = setup.turns.messages(&[first.answer]).await.unwrap();
    assert_eq!(views[0].text, "Paris is the capital.");
    let turns = &setup.turns;
    turns.edit_answer(first.answer, "*Rome* \n").await.unwrap();
    let views = turns.messages(&[first.answer]).await.unwrap();
    assert_eq!(views[0].text, "*Rome*");
    assert!(views[0].blocks[0].html.contains("<em>Rome</em>"));
    let second = setup.ask_in(first.conversation, "Second?").await;
    let refused = turns.edit_answer(first.answer, "Bern").await;
    assert_eq!(refused, Err(Failure::Busy), "another response is running");
    finish(&setup, second.answer).await;
    assert_eq!(
        setup.last_prompt(),
        ["user: First?", "assistant: *Rome*", "user: Second?"]
    );
    let refused = turns.edit_answer(first.question.unwrap(), "Third?").await;
    assert!(matches!(refused, Err(Failure::Other { .. })), "{refused:?}");
    let refused = turns.edit_answer(first.answer, " ").await;
    assert!(matches!(refused, Err(Failure::Other { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn only_a_response_with_text_can_be_continued() {
    let setup = TestSetup::new(endless());
    let first = setup.ask("Hello").await;
    let refused = setup.turns.continue_answer(first.answer, options()).await;
    assert!(matches!(refused, Err(Failure::Other { .. })), "{refused:?}");
    let mut updates = setup.turns.follow(first.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    pass(Duration::from_secs(2)).await;
    let refused = setup.turns.continue_answer(first.answer, options()).await;
    assert_eq!(refused, Err(Failure::Busy), "it is being written");
    setup.turns.stop(first.answer);
    finish(&setup, first.answer).await;
    let question = first.question.unwrap();
    let refused = setup.turns.continue_answer(question, options()).await;
    assert!(matches!(refused, Err(Failure::Other { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn an_edited_question_is_a_sibling_with_its_attachment_and_its_own_response() {
    let setup = TestSetup::new(WorkerScript::default());
    let turns = &setup.turns;
    let first = turns.ask(None, "Explain", "let x = 1;", options()).await;
    let first = first.unwrap();
    finish(&setup, first.answer).await;
    let edited = turns.edit(first.question.unwrap(), "Translate", options());
    let edited = edited.await.unwrap();
    finish(&setup, edited.answer).await;
    assert_eq!(
        setup.last_prompt(),
        ["user: <text>\nlet x = 1;\n</text>\n\nTranslate"]
    );
    let question = setup.message(edited.question.unwrap());
    assert_eq!(question.attachment, "let x = 1;");
    assert_eq!(question.siblings.len(), 2);
    let old = setup.message(first.answer);
    assert_eq!(old.text, "Paris is the capital.", "the old branch stays");

    let refused = turns.edit(first.answer, "I said so", options()).await;
    assert!(matches!(refused, Err(Failure::Other { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_has_one_running_response_and_others_are_queued() {
    let setup = TestSetup::new(endless());
    let first = setup.ask("First?").await;
    let turns = &setup.turns;
    let same = turns
        .ask(Some(first.conversation), "And?", "", options())
        .await;
    assert_eq!(same, Err(Failure::Busy));
    let again = turns.regenerate(first.answer, options()).await;
    assert_eq!(again, Err(Failure::Busy));
    let path = setup.store.path(first.conversation).unwrap();
    assert_eq!(path.len(), 2, "a refused question is not stored");

    let mut updates = turns.follow(first.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    let second = setup.ask("Second?").await;
    let mut updates = turns.follow(second.answer);
    let mut page = Page::default();
    let waits = |page: &Page| page.stages.contains(&Stage::Waiting { position: 1 });
    page.read_until(&mut updates, waits).await;
    assert_eq!(turns.running(), [first.answer, second.answer]);
    assert_eq!(turns.running_in(second.conversation), Some(second.answer));
    turns.stop(first.answer);
    page.read_until(&mut updates, is_writing).await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_question_is_refused() {
    let setup = TestSetup::new(WorkerScript::default());
    let nothing = setup.turns.ask(None, " \n", "", options()).await;
    assert!(matches!(nothing, Err(Failure::Other { .. })), "{nothing:?}");
    assert!(setup.store.conversations(0, 10).unwrap().is_empty());
    let gone = ConversationId(99);
    let gone = setup.turns.ask(Some(gone), "Hello?", "", options()).await;
    assert!(matches!(gone, Err(Failure::Other { .. })), "{gone:?}");
    let gone = setup.turns.regenerate(MessageId(99), options()).await;
    assert!(matches!(gone, Err(Failure::Other { .. })), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_question_unlocks_its_conversation() {
    let setup = TestSetup::new(WorkerScript::default());
    let first = setup.ask("First?").await;
    finish(&setup, first.answer).await;
    let refused = setup
        .turns
        .edit(first.question.unwrap(), "", options())
        .await;
    assert!(refused.is_err());
    let other = ConversationId(99);
    assert!(
        setup
            .turns
            .ask(Some(other), "?", "", options())
            .await
            .is_err()
    );
    assert!(setup.turns.ask(Some(other), "?", "", options()).await != Err(Failure::Busy));
    setup.ask_in(first.conversation, "Second?").await;
}

#[tokio::test(start_paused = true)]
async fn the_speed_is_sent_after_a_second_of_text() {
    let setup = TestSetup::new(script_of(&"word ".repeat(100), Duration::from_millis(50)));
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    let mut speeds_sent = Vec::new();
    while let Some(update) = next(&mut updates).await {
        if let Update::Text {
            tokens_per_second, ..
        } = update
        {
            speeds_sent.push(tokens_per_second);
        }
    }
    assert_eq!(speeds_sent[..15], [None; 15]);
    let speeds: Vec<f32> = speeds_sent.into_iter().flatten().collect();
    assert!(speeds.len() > 70, "{}", speeds.len());
    assert!(
        speeds.iter().all(|it| (it - 20.0).abs() < 1.0),
        "{speeds:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_route_is_chosen_kept_with_the_response_and_used_when_it_is_written_again() {
    let setup = TestSetup::new(WorkerScript::default());
    let routed = |routing| TurnOptions {
        routing,
        ..options()
    };
    let turns = &setup.turns;
    let automatic = routed(Routing::Automatic);
    let first = turns.ask(None, "translate this", "Guten Tag", automatic.clone());
    let first = first.await.unwrap();
    let page = finish(&setup, first.answer).await;
    let stats = page.stats.unwrap();
    assert_eq!((stats.route, stats.is_partial), (Route::Translate, true));
    assert!(setup.last_prompt()[0].starts_with("system: Translate"));

    let plain = routed(Routing::Chosen(Route::Chat));
    let id = Some(first.conversation);
    let second = turns
        .ask(id, "translate this", "Guten Tag", plain)
        .await
        .unwrap();
    let page = finish(&setup, second.answer).await;
    let stats = page.stats.unwrap();
    assert_eq!((stats.route, stats.is_partial), (Route::Chat, false));
    assert_eq!(setup.last_prompt().len(), 3, "a chat has its history");
    let again = turns.regenerate(second.answer, automatic).await.unwrap();
    let page = finish(&setup, again.answer).await;
    assert_eq!(page.stats.unwrap().route, Route::Chat);
    let question = setup.message(second.question.unwrap());
    assert_eq!(
        question.text, "translate this",
        "the history has the user's words"
    );
}

#[tokio::test(start_paused = true)]
async fn a_chosen_route_survives_a_response_that_failed() {
    let setup = TestSetup::new(WorkerScript {
        weight_bytes: 40 << 30,
        ..WorkerScript::default()
    });
    let by_user = TurnOptions {
        routing: Routing::Chosen(Route::Chat),
        ..options()
    };
    let text = "translate this";
    let started = setup.turns.ask(None, text, "Guten Tag", by_user);
    let started = started.await.unwrap();
    assert_eq!(finish(&setup, started.answer).await.stats, None);
    let insisting = TurnOptions {
        over_budget: true,
        routing: Routing::Automatic,
        ..options()
    };
    let again = setup.turns.regenerate(started.answer, insisting);
    let page = finish(&setup, again.await.unwrap().answer).await;
    assert_eq!(page.stats.unwrap().route, Route::Chat);
}

//! What is asked, where it lands in the conversation, and what the model is shown.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_first_question_begins_a_titled_conversation_and_is_answered() {
    let world = World::new(WorkerScript::default());
    let begun = world
        .ask("# What is the **capital** of France? Say it.")
        .await;
    let question = world.message(begun.question.unwrap());
    assert_eq!(question.ending, Ending::Stop);
    assert_eq!(question.parent, None);
    let answer = world.message(begun.answer);
    assert_eq!(
        answer.ending,
        Ending::Writing,
        "it is there before it begins"
    );
    assert_eq!(answer.parent, begun.question);
    assert_eq!(answer.model.as_deref(), Some("chat"));
    assert_eq!(world.turns.running(), [begun.answer]);

    let page = finish(&world, begun.answer).await;
    assert_eq!(page.ending, Some(EndingView::Stop));
    assert_eq!(page.text, "Paris is the capital.");
    let answer = world.message(begun.answer);
    assert_eq!(answer.text, "Paris is the capital.");
    assert_eq!(answer.ending, Ending::Stop);
    let conversation = world.store.conversation(begun.conversation).unwrap();
    assert_eq!(conversation.title, "What is the capital of France?");
    assert!(world.turns.running().is_empty());
    let of_it = Happening::Conversation {
        id: begun.conversation,
    };
    assert_eq!(*world.heard.lock().unwrap(), [of_it.clone(), of_it]);
}

#[tokio::test(start_paused = true)]
async fn the_stages_come_in_order_and_the_figures_are_kept() {
    let world = World::new(WorkerScript::default());
    let begun = world.ask("Hello").await;
    let page = finish(&world, begun.answer).await;
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
    let of_engine = stats.of_engine.expect("the engine measured too");
    assert!(of_engine.time_to_first_token.as_secs_f64() < 0.1);
    let kept = world.turns.messages(&[begun.answer]).await.unwrap();
    let stats = AnswerStats {
        of_engine: None,
        ..stats
    };
    assert_eq!(kept[0].stats, Some(stats));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_goes_on_with_what_was_said() {
    let world = World::new(WorkerScript::default());
    let first = world.ask("First?").await;
    finish(&world, first.answer).await;
    let second = world.ask_in(first.conversation, "Second?").await;
    finish(&world, second.answer).await;
    assert_eq!(
        world.last_prompt(),
        [
            "user: First?",
            "assistant: Paris is the capital.",
            "user: Second?"
        ]
    );
    let conversation = world.store.conversation(first.conversation).unwrap();
    assert_eq!(conversation.title, "First?", "only the first names it");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_asked_for_again_is_a_sibling_of_the_first() {
    let world = World::new(WorkerScript::default());
    let first = world.ask("First?").await;
    finish(&world, first.answer).await;
    let second = world.ask_in(first.conversation, "Second?").await;
    finish(&world, second.answer).await;

    let again = world
        .turns
        .regenerate(first.answer, asking())
        .await
        .unwrap();
    assert_eq!(again.question, None);
    finish(&world, again.answer).await;
    assert_eq!(world.last_prompt(), ["user: First?"]);
    let answer = world.message(again.answer);
    assert_eq!(answer.parent, first.question);
    assert_eq!(answer.siblings, [first.answer, again.answer]);
    let shown = world.store.path(first.conversation).unwrap();
    let shown: Vec<_> = shown.iter().map(|head| head.id).collect();
    assert_eq!(shown, [first.question.unwrap(), again.answer]);

    // The question itself may be named, too.
    let again = world.turns.regenerate(first.question.unwrap(), asking());
    let again = again.await.unwrap();
    assert_eq!(world.message(again.answer).siblings.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_edited_question_is_a_sibling_with_its_attachment_and_its_own_answer() {
    let world = World::new(WorkerScript::default());
    let turns = &world.turns;
    let first = turns.ask(None, "Explain", "let x = 1;", asking()).await;
    let first = first.unwrap();
    finish(&world, first.answer).await;
    let edited = turns.edit(first.question.unwrap(), "Translate", asking());
    let edited = edited.await.unwrap();
    finish(&world, edited.answer).await;
    assert_eq!(
        world.last_prompt(),
        ["user: <text>\nlet x = 1;\n</text>\n\nTranslate"]
    );
    let question = world.message(edited.question.unwrap());
    assert_eq!(question.attachment, "let x = 1;");
    assert_eq!(question.siblings.len(), 2);
    let old = world.message(first.answer);
    assert_eq!(old.text, "Paris is the capital.", "the old branch stays");

    let refused = turns.edit(first.answer, "I said so", asking()).await;
    assert!(matches!(refused, Err(Failure::Other { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_has_one_answer_at_a_time_and_others_wait_their_turn() {
    let world = World::new(endless());
    let first = world.ask("First?").await;
    let turns = &world.turns;
    let same = turns
        .ask(Some(first.conversation), "And?", "", asking())
        .await;
    assert_eq!(same, Err(Failure::Busy));
    let again = turns.regenerate(first.answer, asking()).await;
    assert_eq!(again, Err(Failure::Busy));
    let path = world.store.path(first.conversation).unwrap();
    assert_eq!(path.len(), 2, "a refused question is not kept");

    let mut updates = turns.follow(first.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    let second = world.ask("Second?").await;
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
async fn nothing_is_no_question() {
    let world = World::new(WorkerScript::default());
    let nothing = world.turns.ask(None, " \n", "", asking()).await;
    assert!(matches!(nothing, Err(Failure::Other { .. })), "{nothing:?}");
    assert!(world.store.conversations(0, 10).unwrap().is_empty());
    let gone = ConversationId(99);
    let gone = world.turns.ask(Some(gone), "Hello?", "", asking()).await;
    assert!(matches!(gone, Err(Failure::Other { .. })), "{gone:?}");
    let gone = world.turns.regenerate(MessageId(99), asking()).await;
    assert!(matches!(gone, Err(Failure::Other { .. })), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_question_leaves_its_conversation_free() {
    let world = World::new(WorkerScript::default());
    let first = world.ask("First?").await;
    finish(&world, first.answer).await;
    let refused = world
        .turns
        .edit(first.question.unwrap(), "", asking())
        .await;
    assert!(refused.is_err());
    let other = ConversationId(99);
    assert!(
        world
            .turns
            .ask(Some(other), "?", "", asking())
            .await
            .is_err()
    );
    assert!(world.turns.ask(Some(other), "?", "", asking()).await != Err(Failure::Busy));
    world.ask_in(first.conversation, "Second?").await;
}

#[tokio::test(start_paused = true)]
async fn the_speed_is_told_after_a_second_of_text() {
    let world = World::new(saying(&"word ".repeat(100), Duration::from_millis(50)));
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    let mut told = Vec::new();
    while let Some(update) = next(&mut updates).await {
        if let Update::Text {
            tokens_per_second, ..
        } = update
        {
            told.push(tokens_per_second);
        }
    }
    assert_eq!(told[..15], [None; 15]);
    let speeds: Vec<f32> = told.into_iter().flatten().collect();
    assert!(speeds.len() > 70, "{}", speeds.len());
    assert!(
        speeds.iter().all(|it| (it - 20.0).abs() < 1.0),
        "{speeds:?}"
    );
}

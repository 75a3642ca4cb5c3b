//! Windows: several, late, slow, and no more often than the machine allows.

use transom_signals::ThermalState;

use super::*;

const TEXT: &str = "# Title\n\nSome *words* here, and a [link](https://example.org).\n\n\
                    - one\n- two\n\n```rust\nfn main() {}\n```\n\nThe end. ";

#[tokio::test(start_paused = true)]
async fn two_windows_are_told_the_same() {
    let world = World::new(saying(&TEXT.repeat(20), Duration::from_millis(7)));
    let begun = world.ask("Hello").await;
    let mut first = world.turns.follow(begun.answer);
    let mut second = world.turns.follow(begun.answer);
    let (first, second) = tokio::join!(Page::read(&mut first), Page::read(&mut second));
    assert!(first.n_texts > 10);
    assert_eq!(first.blocks, second.blocks);
    assert_eq!(first.blocks, crate::markdown::render(&first.text));
    assert_eq!(world.message(begun.answer).text, first.text);
}

#[tokio::test(start_paused = true)]
async fn a_window_that_joins_in_mid_answer_ends_with_the_same() {
    let world = World::new(saying(&TEXT.repeat(20), Duration::from_millis(7)));
    let begun = world.ask("Hello").await;
    let mut early = world.turns.follow(begun.answer);
    let mut page = Page::default();
    page.read_until(&mut early, |page| page.n_texts > 20).await;
    let mut late = world.turns.follow(begun.answer);
    let late = async { Page::read(&mut late).await };
    let (late, ()) = tokio::join!(late, page.read_on(&mut early));
    let begun_with = late.snapshot.as_ref().unwrap();
    assert!(!begun_with.message.text.is_empty());
    assert_eq!(late.blocks, page.blocks);
    assert_eq!(late.text, page.text);
}

#[tokio::test(start_paused = true)]
async fn a_window_that_reads_nothing_holds_nothing_up() {
    let world = World::new(saying(&TEXT.repeat(50), Duration::from_millis(2)));
    let begun = world.ask("Hello").await;
    let mut asleep = world.turns.follow(begun.answer);
    let began = Instant::now();
    let awake = finish(&world, begun.answer).await;
    let took = began.elapsed();
    let n_tokens = TEXT.repeat(50).split_inclusive(' ').count() as u32;
    let at_most = Duration::from_millis(2) * n_tokens + Duration::from_secs(1);
    assert!(took < at_most, "{took:?}");
    // What waits for it is one snapshot and the end.
    let mut page = Page::default();
    let mut n_updates = 0;
    while let Some(update) = next(&mut asleep).await {
        page.take(update);
        n_updates += 1;
    }
    assert_eq!(n_updates, 2);
    assert_eq!(page.blocks, awake.blocks);
}

#[tokio::test(start_paused = true)]
async fn windows_come_and_go_and_the_answer_goes_on() {
    let world = World::new(saying(&"word ".repeat(200), Duration::from_millis(20)));
    let begun = world.ask("Hello").await;
    for n in 1..4 {
        let mut updates = world.turns.follow(begun.answer);
        let mut page = Page::default();
        page.read_until(&mut updates, |page| page.n_texts >= n)
            .await;
    }
    pass(Duration::from_secs(1)).await;
    let page = finish(&world, begun.answer).await;
    assert_eq!(page.text, "word ".repeat(200));
}

/// Times between the texts that a window is told in `time` from now.
async fn gaps(updates: &mut Updates, time: Duration) -> Vec<Duration> {
    let until = Instant::now() + time;
    let mut at = Vec::new();
    while Instant::now() < until {
        if let Some(Update::Text { .. }) = next(updates).await {
            at.push(Instant::now());
        }
    }
    at.windows(2).map(|two| two[1] - two[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn text_is_told_no_more_often_than_the_governor_allows() {
    let world = World::new(WorkerScript {
        token_interval: Duration::from_millis(5),
        ..endless()
    });
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    let frame = Duration::from_millis(16);
    let cool = gaps(&mut updates, Duration::from_secs(1)).await;
    assert!(cool.len() > 40, "{} updates", cool.len());
    assert!(cool.iter().all(|gap| *gap >= frame), "{cool:?}");

    let saving = SystemSignals {
        is_low_power: true,
        ..SystemSignals::default()
    };
    set(&world, saving).await;
    // One may be under way.
    next(&mut updates).await;
    let saving = gaps(&mut updates, Duration::from_secs(2)).await;
    assert!(
        (15..=20).contains(&saving.len()),
        "{} updates",
        saving.len()
    );
    let least = Duration::from_millis(100);
    assert!(saving.iter().all(|gap| *gap >= least), "{saving:?}");

    // It eases after a quiet spell of five seconds; then updates come faster again.
    set(&world, SystemSignals::default()).await;
    gaps(&mut updates, Duration::from_secs(6)).await;
    let cool = gaps(&mut updates, Duration::from_secs(1)).await;
    assert!(cool.len() > 40, "{} updates", cool.len());
}

#[tokio::test(start_paused = true)]
async fn the_first_words_are_told_at_once() {
    let world = World::new(WorkerScript {
        token_interval: Duration::from_secs(1),
        ..endless()
    });
    let hot = SystemSignals {
        thermal: ThermalState::Serious,
        ..SystemSignals::default()
    };
    set(&world, hot).await;
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    let mut page = Page::default();
    let reads = |page: &Page| matches!(page.stages.last(), Some(Stage::Prefill { .. }));
    page.read_until(&mut updates, reads).await;
    let reading_since = Instant::now();
    page.read_until(&mut updates, is_writing).await;
    let waited = reading_since.elapsed();
    assert!(waited <= Duration::from_millis(1005), "{waited:?}");
    // A word each second is told when it comes.
    let gaps = gaps(&mut updates, Duration::from_secs(5)).await;
    let second = Duration::from_secs(1);
    assert!(
        gaps.iter().all(|gap| gap.abs_diff(second) < second / 100),
        "{gaps:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_answer_has_no_news() {
    let world = World::new(WorkerScript::default());
    assert_eq!(next(&mut world.turns.follow(MessageId(99))).await, None);
}

#[tokio::test(start_paused = true)]
async fn messages_are_drawn_in_the_order_that_was_asked_for() {
    let world = World::new(WorkerScript::default());
    let begun = world.ask("Is it *Paris*?").await;
    finish(&world, begun.answer).await;
    let question = begun.question.unwrap();
    let ids = [begun.answer, MessageId(99), question];
    let views = world.turns.messages(&ids).await.unwrap();
    let drawn: Vec<_> = views.iter().map(|view| view.id).collect();
    assert_eq!(drawn, [begun.answer, question]);
    assert!(views[1].blocks[0].html.contains("<em>Paris</em>"));
    // Drawn from what is kept, with siblings as they are now.
    world
        .turns
        .regenerate(begun.answer, asking())
        .await
        .unwrap();
    let again = world.turns.messages(&ids).await.unwrap();
    assert_eq!(again[0].blocks, views[0].blocks);
    assert_eq!(again[0].siblings.len(), 2);
}

//! Followers: several, late, slow, and no more often than the machine allows.

use transom_signals::ThermalState;

use super::*;

const TEXT: &str = "# Title\n\nSome *words* here, and a [link](https://example.org).\n\n\
                    - one\n- two\n\n```rust\nfn main() {}\n```\n\nThe end. ";

#[tokio::test(start_paused = true)]
async fn two_windows_receive_the_same_text() {
    let setup = TestSetup::new(script_of(&TEXT.repeat(20), Duration::from_millis(7)));
    let started = setup.ask("Hello").await;
    let mut first = setup.turns.follow(started.answer);
    let mut second = setup.turns.follow(started.answer);
    let (first, second) = tokio::join!(Page::read(&mut first), Page::read(&mut second));
    assert!(first.n_texts > 10);
    assert_eq!(first.blocks, second.blocks);
    assert_eq!(first.blocks, crate::markdown::render(&first.text));
    assert_eq!(setup.message(started.answer).text, first.text);
}

#[tokio::test(start_paused = true)]
async fn a_window_that_joins_late_ends_with_the_same_text() {
    let setup = TestSetup::new(script_of(&TEXT.repeat(20), Duration::from_millis(7)));
    let started = setup.ask("Hello").await;
    let mut early = setup.turns.follow(started.answer);
    let mut page = Page::default();
    page.read_until(&mut early, |page| page.n_texts > 20).await;
    let mut late = setup.turns.follow(started.answer);
    let late = async { Page::read(&mut late).await };
    let (late, ()) = tokio::join!(late, page.read_on(&mut early));
    let begun_with = late.snapshot.as_ref().unwrap();
    assert!(!begun_with.message.text.is_empty());
    assert_eq!(late.blocks, page.blocks);
    assert_eq!(late.text, page.text);
}

#[tokio::test(start_paused = true)]
async fn a_window_that_reads_nothing_delays_nothing() {
    let setup = TestSetup::new(script_of(&TEXT.repeat(50), Duration::from_millis(2)));
    let started = setup.ask("Hello").await;
    let mut asleep = setup.turns.follow(started.answer);
    let started_at = Instant::now();
    let awake = finish(&setup, started.answer).await;
    let took = started_at.elapsed();
    let n_tokens = TEXT.repeat(50).split_inclusive(' ').count() as u32;
    let at_most = Duration::from_millis(2) * n_tokens + Duration::from_secs(1);
    assert!(took < at_most, "{took:?}");
    // One snapshot and the end are waiting.
    let mut page = Page::default();
    let mut n_updates = 0;
    while let Some(update) = next(&mut asleep).await {
        page.apply_update(update);
        n_updates += 1;
    }
    assert_eq!(n_updates, 2);
    assert_eq!(page.blocks, awake.blocks);
}

#[tokio::test(start_paused = true)]
async fn a_response_continues_when_windows_come_and_go() {
    let setup = TestSetup::new(script_of(&"word ".repeat(200), Duration::from_millis(20)));
    let started = setup.ask("Hello").await;
    for n in 1..4 {
        let mut updates = setup.turns.follow(started.answer);
        let mut page = Page::default();
        page.read_until(&mut updates, |page| page.n_texts >= n)
            .await;
    }
    pass(Duration::from_secs(1)).await;
    let page = finish(&setup, started.answer).await;
    assert_eq!(page.text, "word ".repeat(200));
}

/// Returns the times between text updates during `time`.
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
async fn text_updates_respect_the_repaint_interval() {
    let setup = TestSetup::new(WorkerScript {
        token_interval: Duration::from_millis(5),
        ..endless()
    });
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    let frame = Duration::from_millis(16);
    let cool = gaps(&mut updates, Duration::from_secs(1)).await;
    assert!(cool.len() > 40, "{} updates", cool.len());
    assert!(cool.iter().all(|gap| *gap >= frame), "{cool:?}");

    let saving = SystemSignals {
        is_low_power: true,
        ..SystemSignals::default()
    };
    set(&setup, saving).await;
    // One update may be under way.
    next(&mut updates).await;
    let saving = gaps(&mut updates, Duration::from_secs(2)).await;
    assert!(
        (15..=20).contains(&saving.len()),
        "{} updates",
        saving.len()
    );
    let least = Duration::from_millis(100);
    assert!(saving.iter().all(|gap| *gap >= least), "{saving:?}");

    // The limit ends after five quiet seconds. Then updates are faster again.
    set(&setup, SystemSignals::default()).await;
    gaps(&mut updates, Duration::from_secs(6)).await;
    let cool = gaps(&mut updates, Duration::from_secs(1)).await;
    assert!(cool.len() > 40, "{} updates", cool.len());
}

#[tokio::test(start_paused = true)]
async fn the_first_text_is_sent_at_once() {
    let setup = TestSetup::new(WorkerScript {
        token_interval: Duration::from_secs(1),
        ..endless()
    });
    let hot = SystemSignals {
        thermal: ThermalState::Serious,
        ..SystemSignals::default()
    };
    set(&setup, hot).await;
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    let mut page = Page::default();
    let reads = |page: &Page| matches!(page.stages.last(), Some(Stage::Prefill { .. }));
    page.read_until(&mut updates, reads).await;
    let reading_since = Instant::now();
    page.read_until(&mut updates, is_writing).await;
    let waited = reading_since.elapsed();
    assert!(waited <= Duration::from_millis(1005), "{waited:?}");
    // One word per second is published as it arrives.
    let gaps = gaps(&mut updates, Duration::from_secs(5)).await;
    let second = Duration::from_secs(1);
    assert!(
        gaps.iter().all(|gap| gap.abs_diff(second) < second / 100),
        "{gaps:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_response_has_no_updates() {
    let setup = TestSetup::new(WorkerScript::default());
    assert_eq!(next(&mut setup.turns.follow(MessageId(99))).await, None);
}

#[tokio::test(start_paused = true)]
async fn messages_are_returned_in_the_requested_order() {
    let setup = TestSetup::new(WorkerScript::default());
    let started = setup.ask("Is it *Paris*?").await;
    finish(&setup, started.answer).await;
    let question = started.question.unwrap();
    let ids = [started.answer, MessageId(99), question];
    let views = setup.turns.messages(&ids).await.unwrap();
    let drawn: Vec<_> = views.iter().map(|view| view.id).collect();
    assert_eq!(drawn, [started.answer, question]);
    assert!(views[1].blocks[0].html.contains("<em>Paris</em>"));
    // Uses the cached blocks, with the current siblings.
    setup
        .turns
        .regenerate(started.answer, options())
        .await
        .unwrap();
    let again = setup.turns.messages(&ids).await.unwrap();
    assert_eq!(again[0].blocks, views[0].blocks);
    assert_eq!(again[0].siblings.len(), 2);
}

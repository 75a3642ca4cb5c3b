//! The live state alone: any pieces, any windows and any timing give one result.

use proptest::prelude::*;

use super::super::live_answer::{Cursor, LiveAnswer};
use super::*;

fn live() -> LiveAnswer {
    let message = Message {
        id: MessageId(1),
        conversation: ConversationId(1),
        parent: None,
        role: MessageRole::Assistant,
        reasoning: String::new(),
        text: String::new(),
        attachment: String::new(),
        ending: Ending::Writing,
        model: None,
        stats: None,
        summary: None,
        created_at: Timestamp(1),
        siblings: Vec::new(),
    };
    LiveAnswer::new(message)
}

/// A window that follows the live state.
struct Window {
    page: Page,
    cursor: Cursor,
    /// Held so that the text is rendered.
    _changes: watch::Receiver<()>,
}

impl Window {
    fn open(live: &LiveAnswer) -> Self {
        Self {
            page: Page::default(),
            cursor: Cursor::default(),
            _changes: live.subscribe(),
        }
    }

    fn read(&mut self, live: &LiveAnswer) {
        loop {
            let update = live.state().next(&mut self.cursor);
            let Some(update) = update else {
                return;
            };
            self.page.apply_update(update);
        }
    }
}

/// Returns a piece of Markdown; pieces are combined in any order.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{1,12}",
        Just("\n".to_owned()),
        Just("\n\n".to_owned()),
        Just("# Title\n".to_owned()),
        Just("- item\n".to_owned()),
        Just("1. one\n".to_owned()),
        Just("```rust\nlet x = 1;\n".to_owned()),
        Just("```\n".to_owned()),
        Just("> quoted\n".to_owned()),
        Just("**strong** and `code`. ".to_owned()),
        Just("[link][ref]".to_owned()),
        Just("\n[ref]: https://example.org\n".to_owned()),
        Just("| a | b |\n|---|---|\n| 1 | 2 |\n".to_owned()),
        Just("好。是的。".to_owned()),
        Just("<b>raw</b>".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_follower_ends_with_the_whole_text_rendered(
        thought in prop::collection::vec(piece(), 0..6),
        pieces in prop::collection::vec((piece(), any::<bool>(), any::<bool>()), 1..60),
        joins_at in 0usize..60,
    ) {
        let live = live();
        let mut first = Window::open(&live);
        let mut late = None;
        let mut source = String::new();
        for text in &thought {
            live.state().push(Section::Reasoning, text);
            live.publish();
        }
        for (n, (text, is_published, is_read)) in pieces.iter().enumerate() {
            source.push_str(text);
            live.state().push(Section::Answer, text);
            if *is_published {
                live.publish();
            }
            if n == joins_at {
                late = Some(Window::open(&live));
            }
            if *is_read {
                first.read(&live);
            }
            if let Some(late) = &mut late && !*is_read {
                late.read(&live);
            }
        }
        live.state().end(EndingView::Stop, None);
        live.publish();
        let after = Window::open(&live);
        let whole = crate::markdown::render(&source);
        let reasoning = crate::markdown::render(&thought.concat());
        for mut window in [Some(first), late, Some(after)].into_iter().flatten() {
            window.read(&live);
            prop_assert_eq!(&window.page.blocks, &whole);
            prop_assert_eq!(&window.page.reasoning, &reasoning);
            prop_assert_eq!(&window.page.text, &source);
            prop_assert_eq!(&window.page.ending, &Some(EndingView::Stop));
        }
    }
}

#[test]
fn nothing_is_rendered_without_followers() {
    let live = live();
    live.state().push(Section::Answer, "Hello\n\nthere");
    live.publish();
    assert_eq!(live.state().version(), 0);
    let mut window = Window::open(&live);
    assert!(live.state().version() > 0);
    window.read(&live);
    let snapshot = window.page.snapshot.as_ref().unwrap();
    assert_eq!(snapshot.message.text, "Hello\n\nthere");
}

#[test]
fn only_the_latest_progress_is_sent() {
    let live = live();
    let mut window = Window::open(&live);
    window.read(&live);
    for done in [10, 20, 30] {
        live.state().set_stage(Stage::Prefill { done, total: 30 });
        live.publish();
    }
    window.read(&live);
    assert_eq!(
        window.page.stages,
        [
            Stage::Waiting { position: 0 },
            Stage::Prefill {
                done: 30,
                total: 30
            }
        ]
    );
}

//! The board by itself: any pieces, any windows, any pace, one result.

use proptest::prelude::*;
use transom_engine::Section as Written;

use super::super::board::{Board, Seen};
use super::*;
use crate::view::Rendered;

fn board() -> Board {
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
        created_at: Timestamp(1),
        siblings: Vec::new(),
    };
    Board::new(view(message, &Rendered::default()))
}

/// A window of the board.
struct Window {
    page: Page,
    seen: Seen,
    /// Kept so that the board renders.
    _news: watch::Receiver<()>,
}

impl Window {
    fn open(board: &Board) -> Self {
        Self {
            page: Page::default(),
            seen: Seen::default(),
            _news: board.subscribe(),
        }
    }

    fn read(&mut self, board: &Board) {
        loop {
            let update = board.state().next(&mut self.seen);
            let Some(update) = update else {
                return;
            };
            self.page.take(update);
        }
    }
}

/// Pieces of Markdown, so that any of them may stand beside any other.
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
    fn whenever_a_window_joins_and_reads_it_ends_with_the_whole_text_rendered(
        thought in prop::collection::vec(piece(), 0..6),
        pieces in prop::collection::vec((piece(), any::<bool>(), any::<bool>()), 1..60),
        joins_at in 0usize..60,
    ) {
        let board = board();
        let mut first = Window::open(&board);
        let mut late = None;
        let mut source = String::new();
        for text in &thought {
            board.state().push(Written::Reasoning, text);
            board.publish();
        }
        for (n, (text, is_published, is_read)) in pieces.iter().enumerate() {
            source.push_str(text);
            board.state().push(Written::Answer, text);
            if *is_published {
                board.publish();
            }
            if n == joins_at {
                late = Some(Window::open(&board));
            }
            if *is_read {
                first.read(&board);
            }
            if let Some(late) = &mut late && !*is_read {
                late.read(&board);
            }
        }
        board.state().end(EndingView::Stop, None);
        board.publish();
        let after = Window::open(&board);
        let whole = crate::markdown::render(&source);
        let reasoning = crate::markdown::render(&thought.concat());
        for mut window in [Some(first), late, Some(after)].into_iter().flatten() {
            window.read(&board);
            prop_assert_eq!(&window.page.blocks, &whole);
            prop_assert_eq!(&window.page.reasoning, &reasoning);
            prop_assert_eq!(&window.page.text, &source);
            prop_assert_eq!(&window.page.ending, &Some(EndingView::Stop));
        }
    }
}

#[test]
fn nothing_is_rendered_for_nobody() {
    let board = board();
    board.state().push(Written::Answer, "Hello\n\nthere");
    board.publish();
    assert_eq!(board.state().version(), 0);
    let mut window = Window::open(&board);
    assert!(board.state().version() > 0);
    window.read(&board);
    let snapshot = window.page.snapshot.as_ref().unwrap();
    assert_eq!(snapshot.message.text, "Hello\n\nthere");
}

#[test]
fn progress_is_told_as_the_latest() {
    let board = board();
    let mut window = Window::open(&board);
    window.read(&board);
    for done in [10, 20, 30] {
        board.state().set_stage(Stage::Prefill { done, total: 30 });
        board.publish();
    }
    window.read(&board);
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

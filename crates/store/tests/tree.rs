//! Whatever is added, edited and shown, the path leads from a first message to a leaf.
//!
//! Rule: the store is compared with a short model that has all messages in memory.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::sample::Index;
use transom_store::{ConversationId, MessageId, NewMessage, Store, Timestamp};

const NOW: Timestamp = Timestamp(1_795_000_000_000);

#[derive(Debug, Clone)]
enum Step {
    /// Continues the path that is shown.
    Continue,
    /// Adds a new version of a message.
    Edit(Index),
    /// Adds a message below any message.
    Branch(Index),
    /// Adds another first message.
    Restart,
    Show(Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Continue),
        3 => any::<Index>().prop_map(Step::Edit),
        1 => any::<Index>().prop_map(Step::Branch),
        1 => Just(Step::Restart),
        4 => any::<Index>().prop_map(Step::Show),
    ]
}

/// All messages with their parents, and which child was last shown; `None` is the parent of first
/// messages.
#[derive(Default)]
struct Model {
    messages: Vec<(MessageId, Option<MessageId>)>,
    last_shown: HashMap<Option<MessageId>, MessageId>,
}

impl Model {
    fn parent(&self, id: MessageId) -> Option<MessageId> {
        self.messages.iter().find(|one| one.0 == id).unwrap().1
    }

    fn show(&mut self, id: MessageId) {
        let mut next = Some(id);
        while let Some(id) = next {
            let parent = self.parent(id);
            self.last_shown.insert(parent, id);
            next = parent;
        }
    }

    fn path(&self) -> Vec<MessageId> {
        let mut path = Vec::new();
        let mut next = self.last_shown.get(&None);
        while let Some(id) = next {
            path.push(*id);
            next = self.last_shown.get(&Some(*id));
        }
        path
    }

    fn siblings(&self, id: MessageId) -> Vec<MessageId> {
        let parent = self.parent(id);
        let siblings = self.messages.iter().filter(|one| one.1 == parent);
        siblings.map(|one| one.0).collect()
    }
}

fn add(store: &Store, conversation: ConversationId, parent: Option<MessageId>) -> MessageId {
    let message = NewMessage::from_user(conversation, parent, "x", NOW);
    store.add_message(message).unwrap()
}

proptest! {
    #[test]
    fn the_path_follows_the_last_shown_child_at_every_fork(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let store = Store::in_memory().unwrap();
        let id = store.create_conversation(NOW).unwrap();
        // Another conversation in between, so ids do not equal positions.
        let other = store.create_conversation(NOW).unwrap();
        let mut model = Model::default();
        for step in steps {
            let any = |index: Index| match model.messages.is_empty() {
                true => None,
                false => Some(index.get(&model.messages).0),
            };
            let parent = match &step {
                Step::Continue => model.path().last().copied(),
                Step::Edit(index) => any(*index).and_then(|id| model.parent(id)),
                Step::Branch(index) => any(*index),
                Step::Restart => None,
                Step::Show(index) => {
                    if let Some(message) = any(*index) {
                        store.show_branch(message).unwrap();
                        model.show(message);
                    }
                    None
                }
            };
            if !matches!(step, Step::Show(_)) {
                let message = add(&store, id, parent);
                model.messages.push((message, parent));
                model.show(message);
                add(&store, other, None);
            }
            let path: Vec<_> = store.path(id).unwrap().iter().map(|head| head.id).collect();
            prop_assert_eq!(&path, &model.path());
            prop_assert_eq!(store.conversation(id).unwrap().n_messages as usize, path.len());
            if let Some(leaf) = path.last() {
                let history = store.history(*leaf).unwrap();
                let ids: Vec<_> = history.iter().map(|message| message.id).collect();
                prop_assert_eq!(ids, path);
                for message in history {
                    prop_assert_eq!(message.siblings, model.siblings(message.id));
                }
            }
        }
    }
}

#[test]
fn a_path_of_thousands_of_messages_is_walked_and_deleted() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let mut last = None;
    for _ in 0..3000 {
        last = Some(add(&store, id, last));
    }
    let first = store.path(id).unwrap()[0].id;
    add(&store, id, None);
    store.show_branch(first).unwrap();
    assert_eq!(store.path(id).unwrap().len(), 3000);
    store.delete(id).unwrap();
    assert!(store.message(first).is_err());
}

//! Asks that wait, and what each was told last.

use std::collections::VecDeque;

use super::Effect;
use crate::answer::AnswerEvent;
use crate::request::{Ask, AskId, ModelSpec};

/// Asks that have not begun, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    asks: VecDeque<Queued>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct Queued {
    pub(super) id: AskId,
    pub(super) ask: Box<Ask>,
    told: Option<AnswerEvent>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.asks.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }

    pub(super) fn push(&mut self, id: AskId, ask: Box<Ask>) {
        let told = None;
        self.asks.push_back(Queued { id, ask, told });
    }

    /// The next to begin.
    pub(super) fn head(&self) -> Option<&Queued> {
        self.asks.front()
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        self.asks.pop_front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Queued> {
        self.asks.iter()
    }

    /// Whether somebody waits for this model.
    pub(super) fn wants(&self, spec: &ModelSpec) -> bool {
        self.asks.iter().any(|queued| queued.ask.model == *spec)
    }

    /// Removes an ask; whether it was there.
    pub(super) fn remove(&mut self, id: AskId) -> bool {
        !self.take(|queued| queued.id == id).is_empty()
    }

    /// Removes all asks of which `is_meant` is true, and returns their names.
    pub(super) fn take(&mut self, is_meant: impl Fn(&Queued) -> bool) -> Vec<AskId> {
        let meant = self.asks.iter().filter(|queued| is_meant(queued));
        let ids: Vec<AskId> = meant.map(|queued| queued.id).collect();
        self.asks.retain(|queued| !ids.contains(&queued.id));
        ids
    }

    /// Tells each ask what is new for it: `news` of its place and itself.
    pub(super) fn tell(
        &mut self,
        news: impl Fn(usize, &Queued) -> AnswerEvent,
        effects: &mut Vec<Effect>,
    ) {
        for (place, queued) in self.asks.iter_mut().enumerate() {
            let event = news(place, queued);
            if queued.told.as_ref() != Some(&event) {
                queued.told = Some(event.clone());
                effects.push(Effect::Tell(queued.id, event));
            }
        }
    }
}

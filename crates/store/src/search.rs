//! Full-text search in titles and messages of all branches.
//!
//! All words must match; the last one may be a prefix. A conversation in which one message or the
//! title has all words comes before one in which several messages have them together.

use std::collections::HashMap;

use rusqlite::Transaction;

use crate::conversation::{ConversationId, FoundConversation, MessageId};
use crate::error::StoreError;
use crate::snippet::{self, Phrase};
use crate::store::Store;
use crate::{conversations, messages, normalize};

/// The maximum number of phrases and their words, so that searching for a pasted page does not take
/// minutes.
const MAX_PHRASES: usize = 16;
const MAX_PHRASE_WORDS: usize = 64;

/// The weights of a word in a title, a text and an attachment.
const WEIGHTS: &str = "8.0, 1.0, 0.5";

/// The best match of a query in a conversation; a lower score is better.
#[derive(Clone, Copy)]
struct Hit {
    score: f64,
    /// The id of a message, or the negative id of a conversation for its title.
    row: i64,
}

impl Store {
    /// Returns conversations with all words, best first. The last word may be unfinished, and
    /// punctuation is ignored. Archived conversations are found too. Without any word it returns the list of
    /// [`Store::conversations`].
    pub fn search(
        &self,
        text: &str,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<FoundConversation>, StoreError> {
        if text.trim().is_empty() {
            let listed = self.conversations(offset, limit)?;
            return Ok(listed.into_iter().map(FoundConversation::from).collect());
        }
        let phrases = phrases(text);
        if phrases.is_empty() {
            return Ok(Vec::new());
        }
        self.read(|tx| {
            let n_wanted = (offset as usize).saturating_add(limit as usize);
            let page = ranked(tx, &phrases, n_wanted)?
                .into_iter()
                .take(n_wanted)
                .skip(offset as usize);
            page.map(|(id, hit)| found(tx, id, hit, &phrases)).collect()
        })
    }
}

fn phrases(text: &str) -> Vec<Phrase> {
    text.split_whitespace()
        .map(|chunk| {
            let words = normalize::words(chunk).map(|word| word.normalized);
            words.take(MAX_PHRASE_WORDS).collect::<Phrase>()
        })
        .filter(|phrase| !phrase.is_empty())
        .take(MAX_PHRASES)
        .collect()
}

/// Returns the matching conversations, best first, and at least `n_wanted` of them if there are as
/// many.
fn ranked(
    tx: &Transaction<'_>,
    phrases: &[Phrase],
    n_wanted: usize,
) -> Result<Vec<(ConversationId, Hit)>, StoreError> {
    let in_one_message = hits(tx, &expression(phrases, true))?;
    let mut ranked = by_score(&in_one_message);
    if phrases.len() > 1 && ranked.len() < n_wanted {
        let across_messages = hits_across_messages(tx, phrases)?;
        let others = by_score(&across_messages).into_iter();
        ranked.extend(others.filter(|(id, _)| !in_one_message.contains_key(&id.0)));
    }
    Ok(ranked)
}

/// Returns conversations that contain every phrase anywhere.
fn hits_across_messages(
    tx: &Transaction<'_>,
    phrases: &[Phrase],
) -> Result<HashMap<i64, Hit>, StoreError> {
    let mut all: Option<HashMap<i64, Hit>> = None;
    for (index, phrase) in phrases.iter().enumerate() {
        let is_last = index + 1 == phrases.len();
        let one = hits(tx, &expression(std::slice::from_ref(phrase), is_last))?;
        all = Some(match all {
            None => one,
            Some(all) => all
                .into_iter()
                .filter_map(|(id, hit)| Some((id, sum(hit, *one.get(&id)?))))
                .collect(),
        });
        if all.as_ref().is_some_and(HashMap::is_empty) {
            break;
        }
    }
    Ok(all.unwrap_or_default())
}

/// Adds the scores of two phrases. Keeps the row of the better one, and prefers messages to titles.
fn sum(a: Hit, b: Hit) -> Hit {
    let is_a_shown = (a.row > 0, -a.score) >= (b.row > 0, -b.score);
    Hit {
        score: a.score + b.score,
        row: if is_a_shown { a.row } else { b.row },
    }
}

fn by_score(hits: &HashMap<i64, Hit>) -> Vec<(ConversationId, Hit)> {
    let hits = hits.iter().map(|(id, hit)| (ConversationId(*id), *hit));
    let mut ranked: Vec<_> = hits.collect();
    // Newer conversations first if the scores are equal.
    ranked.sort_by(|(a, first), (b, second)| {
        first.score.total_cmp(&second.score).then_with(|| b.cmp(a))
    });
    ranked
}

/// Returns a query in the syntax of FTS5. Words contain only letters and digits, so quotes suffice.
fn expression(phrases: &[Phrase], is_last_unfinished: bool) -> String {
    let quoted = phrases.iter().map(|it| format!("\"{}\"", it.join(" ")));
    let star = if is_last_unfinished { " *" } else { "" };
    quoted.collect::<Vec<_>>().join(" AND ") + star
}

/// Returns the best row of each conversation.
fn hits(tx: &Transaction<'_>, expression: &str) -> Result<HashMap<i64, Hit>, StoreError> {
    let mut statement = tx.prepare_cached(&format!(
        "SELECT coalesce(m.conversation, -s.rowid), s.rowid, bm25(search, {WEIGHTS})
         FROM search s LEFT JOIN message m ON m.id = s.rowid WHERE search MATCH ?1"
    ))?;
    let mut rows = statement.query([expression])?;
    let mut best: HashMap<i64, Hit> = HashMap::new();
    while let Some(row) = rows.next()? {
        let hit = Hit {
            row: row.get(1)?,
            score: row.get(2)?,
        };
        let other = best.entry(row.get(0)?).or_insert(hit);
        if hit.score < other.score {
            *other = hit;
        }
    }
    Ok(best)
}

fn found(
    tx: &Transaction<'_>,
    id: ConversationId,
    hit: Hit,
    phrases: &[Phrase],
) -> Result<FoundConversation, StoreError> {
    let conversation = conversations::find(tx, id)?;
    let title_has_all = snippet::has_all(&conversation.title, phrases);
    let message = match hit.row > 0 && !title_has_all {
        true => messages::find(tx, MessageId(hit.row))?,
        false => None,
    };
    let snippet = message.and_then(|message| snippet::around(&message, phrases));
    Ok(FoundConversation {
        conversation,
        snippet,
    })
}

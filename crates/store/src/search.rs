//! Finding conversations by their words, in titles and messages of every branch.
//!
//! Every word must be there, the last one may be the beginning of one. A conversation in which one
//! message or the title has all words comes before one in which they are spread.
//!
//! Rule: the index changes in the transaction that changes the text, and a text is taken out with
//! the very words with which it was put in.

use std::collections::HashMap;

use rusqlite::{Connection, Transaction};

use crate::conversation::{ConversationId, FoundConversation, MessageId};
use crate::error::StoreError;
use crate::store::{Store, text};
use crate::{conversations, fold, messages, schema, snippet};

/// More words than anybody searches for; a pasted page must not become a search of minutes.
const MAX_PHRASES: usize = 16;
const MAX_PHRASE_WORDS: usize = 64;

/// How much a word in a title, a text or an attachment counts.
const WEIGHTS: &str = "8.0, 1.0, 0.5";

/// Words between blanks of the query: they must follow one another.
pub(crate) type Phrase = Vec<String>;

/// Where the words of a query were found best; a lower score is better.
#[derive(Clone, Copy)]
struct Hit {
    score: f64,
    /// A message, or minus a conversation for its title.
    row: i64,
}

impl Store {
    /// Conversations with all the words, best first; the last word may be unfinished. Punctuation
    /// means nothing. Without any word: the list, as [`Store::conversations`].
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn search(
        &self,
        text: &str,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<FoundConversation>, StoreError> {
        if text.trim().is_empty() {
            let listed = self.conversations(offset, limit)?;
            let found = listed.into_iter().map(|conversation| FoundConversation {
                conversation,
                snippet: None,
            });
            return Ok(found.collect());
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
            let words = fold::words(chunk).map(|word| word.folded);
            words.take(MAX_PHRASE_WORDS).collect::<Phrase>()
        })
        .filter(|phrase| !phrase.is_empty())
        .take(MAX_PHRASES)
        .collect()
}

/// The best first; at least `n_wanted` of them if there are so many.
fn ranked(
    tx: &Transaction<'_>,
    phrases: &[Phrase],
    n_wanted: usize,
) -> Result<Vec<(ConversationId, Hit)>, StoreError> {
    let together = hits(tx, &expression(phrases, true))?;
    let mut ranked = by_score(&together);
    if phrases.len() > 1 && ranked.len() < n_wanted {
        let spread = spread(tx, phrases)?;
        let others = by_score(&spread).into_iter();
        ranked.extend(others.filter(|(id, _)| !together.contains_key(&id.0)));
    }
    Ok(ranked)
}

/// Conversations that have every phrase somewhere.
fn spread(tx: &Transaction<'_>, phrases: &[Phrase]) -> Result<HashMap<i64, Hit>, StoreError> {
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

/// Of two phrases; shows where the better one is, rather in a message than in the title.
fn sum(a: Hit, b: Hit) -> Hit {
    let is_a_shown = (a.row > 0, -a.score) >= (b.row > 0, -b.score);
    Hit {
        score: a.score + b.score,
        row: if is_a_shown { a.row } else { b.row },
    }
}

fn by_score(hits: &HashMap<i64, Hit>) -> Vec<(ConversationId, Hit)> {
    let mut ranked: Vec<_> = hits.iter().map(|(id, hit)| (*id, *hit)).collect();
    // Of equal ones the latest.
    ranked.sort_by(|(a, first), (b, second)| {
        first.score.total_cmp(&second.score).then_with(|| b.cmp(a))
    });
    ranked
        .into_iter()
        .map(|(id, hit)| (ConversationId(id), hit))
        .collect()
}

/// In the index's own language. Words have only letters and digits, so quotes suffice.
fn expression(phrases: &[Phrase], is_last_unfinished: bool) -> String {
    let quoted: Vec<String> = phrases
        .iter()
        .map(|phrase| format!("\"{}\"", phrase.join(" ")))
        .collect();
    let star = if is_last_unfinished { " *" } else { "" };
    quoted.join(" AND ") + star
}

/// The best row of each conversation.
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
        best.entry(row.get(0)?)
            .and_modify(|other| {
                if hit.score < other.score {
                    *other = hit;
                }
            })
            .or_insert(hit);
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

pub(crate) fn index_title(
    tx: &Connection,
    id: ConversationId,
    title: &str,
) -> Result<(), StoreError> {
    put(tx, -id.0, [title, "", ""])
}

pub(crate) fn index_message(
    tx: &Connection,
    id: MessageId,
    text: &str,
    attachment: &str,
) -> Result<(), StoreError> {
    put(tx, id.0, ["", text, attachment])
}

pub(crate) fn forget_title(
    tx: &Connection,
    id: ConversationId,
    title: &str,
) -> Result<(), StoreError> {
    take(tx, -id.0, [title, "", ""])
}

/// Takes out every message of a conversation.
pub(crate) fn forget_messages(tx: &Connection, id: ConversationId) -> Result<(), StoreError> {
    let mut statement = tx.prepare(
        "SELECT m.id, b.text, b.attachment FROM message m JOIN body b ON b.message = m.id
         WHERE m.conversation = ?1 AND m.ending <> 'writing'",
    )?;
    let mut rows = statement.query([id.0])?;
    while let Some(row) = rows.next()? {
        let (text, attachment) = (text(row, 1)?, text(row, 2)?);
        take(tx, row.get(0)?, ["", &text, &attachment])?;
    }
    Ok(())
}

/// Makes the next opening build the index anew.
pub(crate) fn doubt(connection: &Connection) -> Result<(), StoreError> {
    schema::set_meta(connection, "search", "in doubt")
}

/// Builds the index anew if it was made by other rules.
pub(crate) fn rebuild_if_stale(tx: &Connection) -> Result<(), StoreError> {
    let version = fold::version();
    if schema::meta(tx, "search")?.as_deref() == Some(&version) {
        return Ok(());
    }
    tx.execute("INSERT INTO search (search) VALUES ('delete-all')", [])?;
    let mut titles = tx.prepare("SELECT id, title FROM conversation")?;
    let mut rows = titles.query([])?;
    while let Some(row) = rows.next()? {
        index_title(tx, ConversationId(row.get(0)?), &text(row, 1)?)?;
    }
    let mut texts = tx.prepare(
        "SELECT m.id, b.text, b.attachment FROM message m JOIN body b ON b.message = m.id
         WHERE m.ending <> 'writing'",
    )?;
    let mut rows = texts.query([])?;
    while let Some(row) = rows.next()? {
        let (text, attachment) = (text(row, 1)?, text(row, 2)?);
        index_message(tx, MessageId(row.get(0)?), &text, &attachment)?;
    }
    schema::set_meta(tx, "search", &version)
}

fn put(tx: &Connection, row: i64, texts: [&str; 3]) -> Result<(), StoreError> {
    if texts.iter().all(|text| text.is_empty()) {
        return Ok(());
    }
    let [title, text, attachment] = texts.map(fold::indexed);
    tx.prepare_cached(
        "INSERT INTO search (rowid, title, text, attachment) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute((row, title, text, attachment))?;
    Ok(())
}

fn take(tx: &Connection, row: i64, texts: [&str; 3]) -> Result<(), StoreError> {
    if texts.iter().all(|text| text.is_empty()) {
        return Ok(());
    }
    let [title, text, attachment] = texts.map(fold::indexed);
    tx.prepare_cached(
        "INSERT INTO search (search, rowid, title, text, attachment)
         VALUES ('delete', ?1, ?2, ?3, ?4)",
    )?
    .execute((row, title, text, attachment))?;
    Ok(())
}

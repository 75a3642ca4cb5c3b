//! Follows one response and says which tokens may come next.
//!
//! Rule: the grammar sees exactly the text of the answer. Reasoning, the markers around it and the
//! layout that the reader never sees come before it.

use std::sync::Arc;

use llguidance::Matcher;
use llguidance::toktrie::{SimpleVob, TokTrie};

use super::vocabulary::Vocabulary;
use super::{ConstraintStart, TokenMask};
use crate::error::EngineError;
use crate::event::Section;
use crate::text::OpenReasoning;
use crate::text::reasoning::{Place, ReasoningSplitter};
use crate::text::utf8::Utf8Buffer;

/// Forced tokens of a step. Longer text takes several, between which other responses take their turns.
const MAX_FORCED: usize = 64;

/// The state of a constraint within one response.
pub(super) struct Guide {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    stage: Stage,
    /// The tokens that may come next, once they are known.
    mask: Option<TokenMask>,
    is_complete: bool,
}

enum Stage {
    /// The text so far is before the answer.
    BeforeAnswer {
        utf8: Utf8Buffer,
        splitter: ReasoningSplitter,
    },
    /// The next token is the first of the answer.
    AnswerStart {
        /// A reasoning section may begin instead.
        may_open: bool,
        /// A space at its start is not part of the text.
        drops_space: bool,
        /// A line break may come first, which is not part of the text.
        may_break: bool,
    },
    /// Within the answer.
    Answer,
}

impl std::fmt::Debug for Guide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guide").finish_non_exhaustive()
    }
}

impl Guide {
    /// Creates the guide of a response. `open` is the reasoning section that the prompt has opened.
    /// `is_text_start` says that the detokenizer is at the start of a text.
    pub(super) fn new(
        vocabulary: Arc<Vocabulary>,
        matcher: Matcher,
        start: ConstraintStart,
        open: Option<OpenReasoning>,
        is_text_start: bool,
    ) -> Self {
        let stage = match (start, open) {
            (ConstraintStart::Answer, Some(_)) => Stage::BeforeAnswer {
                utf8: Utf8Buffer::default(),
                splitter: ReasoningSplitter::new(open),
            },
            _ => Stage::AnswerStart {
                may_open: start == ConstraintStart::Answer,
                drops_space: is_text_start && !vocabulary.first_spaces.is_empty(),
                may_break: false,
            },
        };
        Self {
            vocabulary,
            matcher,
            stage,
            mask: None,
            is_complete: false,
        }
    }

    /// Returns the tokens that may come next.
    pub(super) fn mask(&mut self) -> Result<&TokenMask, EngineError> {
        let mask = match self.mask.take() {
            Some(mask) => mask,
            None => self.compute_mask()?,
        };
        if mask.first().is_none() {
            return Err(failed("no token of the vocabulary may come next"));
        }
        Ok(self.mask.insert(mask))
    }

    fn compute_mask(&mut self) -> Result<TokenMask, EngineError> {
        let vocabulary = self.vocabulary.clone();
        let trie = vocabulary.trie();
        let set = match self.stage {
            Stage::BeforeAnswer { ref splitter, .. } => {
                let mut set = trie.alloc_token_set();
                if splitter.place() == Place::BetweenMessages {
                    allow(&mut set, &vocabulary.message_starts);
                } else {
                    // The answer has not begun, so the response cannot end.
                    set.set_all(true);
                    let ends = vocabulary.end_tokens();
                    ends.iter().for_each(|token| set.disallow_token(*token));
                }
                set
            }
            Stage::AnswerStart {
                may_open,
                drops_space,
                may_break,
            } => {
                let mut set = self.matching()?;
                if drops_space {
                    self.without_first_space(&mut set)?;
                }
                if may_open {
                    allow(&mut set, &vocabulary.openers);
                }
                if may_break {
                    allow(&mut set, &vocabulary.line_breaks);
                }
                set
            }
            Stage::Answer => self.matching()?,
        };
        Ok(TokenMask(set))
    }

    fn matching(&mut self) -> Result<SimpleVob, EngineError> {
        let mask = self.matcher.compute_mask_or_eos();
        mask.map_err(|_| self.failure())
    }

    /// Tokens with a leading space count as what remains of them.
    fn without_first_space(&mut self, set: &mut SimpleVob) -> Result<(), EngineError> {
        let vocabulary = self.vocabulary.clone();
        let trie = vocabulary.trie();
        let allowed = set.clone();
        for &token in &vocabulary.first_spaces {
            let rest = &trie.token(token)[1..];
            let is_allowed = match trie.token_id_at_bytes(rest) {
                Some(same) => allowed.is_allowed(same),
                None => {
                    let tokens = trie.greedy_tokenize(rest);
                    self.accepts(&tokens)?
                }
            };
            set.disallow_token(token);
            if is_allowed {
                set.allow_token(token);
            }
        }
        Ok(())
    }

    fn accepts(&mut self, tokens: &[u32]) -> Result<bool, EngineError> {
        let n_valid = self.matcher.validate_tokens(tokens);
        let n_valid = n_valid.map_err(|_| self.failure())?;
        Ok(n_valid == tokens.len())
    }

    /// Adds a token to the response.
    pub(super) fn accept(&mut self, token: u32) -> Result<(), EngineError> {
        self.mask = None;
        let vocabulary = self.vocabulary.clone();
        match &mut self.stage {
            Stage::BeforeAnswer { .. } => self.read(vocabulary.visible(token)),
            &mut Stage::AnswerStart {
                may_open,
                drops_space,
                may_break,
            } => {
                if may_break && vocabulary.line_breaks.contains(&token) {
                    self.stage = Stage::AnswerStart {
                        may_open: false,
                        drops_space: false,
                        may_break: false,
                    };
                    return Ok(());
                }
                let mut tokens = vec![token];
                if drops_space && vocabulary.first_spaces.contains(&token) {
                    tokens = vocabulary
                        .trie()
                        .greedy_tokenize(&vocabulary.visible(token)[1..]);
                }
                if may_open && vocabulary.openers.contains(&token) && !self.accepts(&tokens)? {
                    self.stage = Stage::BeforeAnswer {
                        utf8: Utf8Buffer::default(),
                        splitter: ReasoningSplitter::new(None),
                    };
                    return self.read(vocabulary.visible(token));
                }
                self.stage = Stage::Answer;
                self.consume(&tokens)
            }
            Stage::Answer => self.consume(&[token]),
        }
    }

    /// Reads text before the answer.
    fn read(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        let Stage::BeforeAnswer { utf8, splitter } = &mut self.stage else {
            return Ok(());
        };
        let text = utf8.push(bytes);
        let mut answer = String::new();
        splitter.push(&text, &mut |section, text| {
            if section == Section::Answer {
                answer.push_str(text);
            }
        });
        match splitter.place() {
            Place::BeforeAnswer | Place::BetweenMessages => return Ok(()),
            Place::ToolCall => return Err(failed("the model called a tool instead of answering")),
            Place::Answer => {}
        }
        // The token with the end of the marker may also have the start of the answer.
        answer.push_str(splitter.held());
        let rest = answer.trim_start_matches(['\n', '\r']);
        let tokens = self.vocabulary.trie().greedy_tokenize(rest.as_bytes());
        self.stage = Stage::AnswerStart {
            may_open: false,
            drops_space: false,
            may_break: true,
        };
        if tokens.is_empty() {
            return Ok(());
        }
        self.stage = Stage::Answer;
        self.consume(&tokens)
    }

    fn consume(&mut self, tokens: &[u32]) -> Result<(), EngineError> {
        let consumed = self.matcher.consume_tokens(tokens);
        consumed.map_err(|_| self.failure())?;
        if self.matcher.is_stopped() {
            if !self.matcher.stop_reason().is_ok() {
                return Err(self.failure());
            }
            self.is_complete = true;
        }
        Ok(())
    }

    /// Returns true if the answer matches and nothing may follow.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns tokens that spell the text that must come next, at most `max` and [`MAX_FORCED`]: those
    /// of `tokenize`, if they spell it exactly.
    pub(super) fn forced(
        &mut self,
        max: usize,
        tokenize: impl FnOnce(&str) -> Option<Vec<u32>>,
    ) -> Vec<u32> {
        if max == 0 || self.is_complete || !matches!(self.stage, Stage::Answer) {
            return Vec::new();
        }
        let mut bytes = self.matcher.compute_ff_bytes();
        // The name of a special token follows this byte, which no text contains. It is sampled.
        let special = |byte: &u8| *byte == TokTrie::SPECIAL_TOKEN_MARKER;
        if let Some(start) = bytes.iter().position(special) {
            bytes.truncate(start);
        }
        if bytes.is_empty() {
            return Vec::new();
        }
        let trie = self.vocabulary.trie();
        let spells = |tokens: &Vec<u32>| {
            let is_known = |token: &&u32| (**token as usize) < trie.vocab_size();
            let spelled = tokens.iter().take_while(is_known);
            let spelled = spelled.flat_map(|token| trie.token(*token));
            spelled.eq(&bytes)
        };
        let text = std::str::from_utf8(&bytes).ok();
        let tokens = text.and_then(tokenize).filter(spells);
        let greedy = || Some(trie.greedy_tokenize(&bytes)).filter(spells);
        let mut tokens = tokens.or_else(greedy).unwrap_or_default();
        let n_settled = self.n_settled(&bytes, &tokens, max.min(MAX_FORCED));
        tokens.truncate(n_settled);
        tokens
    }

    /// Returns how many of `tokens`, which spell the forced `text`, stay whatever follows, at most `max`. A
    /// token that begins within the text may end behind it: `": ` is no two tokens if a value `true`
    /// follows, but `":` and ` true`, and no model writes a space and `true`.
    fn n_settled(&mut self, text: &[u8], tokens: &[u32], max: usize) -> usize {
        let vocabulary = self.vocabulary.clone();
        let trie = vocabulary.trie();
        let mut start = 0;
        for (index, token) in tokens.iter().enumerate().take(max) {
            let end = start + trie.token_len(*token);
            if (start..end).any(|at| self.may_be_longer(tokens, &text[at..])) {
                return index;
            }
            start = end;
        }
        tokens.len().min(max)
    }

    /// Returns true if a token may begin with `rest`, the end of the text that `tokens` spell, and have
    /// a next byte that the grammar allows.
    fn may_be_longer(&mut self, tokens: &[u32], rest: &[u8]) -> bool {
        let vocabulary = self.vocabulary.clone();
        let trie = vocabulary.trie();
        let Some(node) = trie.child_at_bytes(trie.root(), rest) else {
            return false;
        };
        let mut bytes = trie.node_children(node).map(|child| child.byte());
        bytes.any(|byte| match trie.token_id_at_bytes(&[byte]) {
            Some(token) => self.accepts(&[tokens, &[token]].concat()).unwrap_or(true),
            None => true,
        })
    }

    /// Why the matcher has stopped. Its own message may quote the grammar and is left out.
    fn failure(&self) -> EngineError {
        failed(format!(
            "the grammar stopped ({})",
            self.matcher.stop_reason()
        ))
    }
}

fn allow(set: &mut SimpleVob, tokens: &[u32]) {
    tokens.iter().for_each(|token| set.allow_token(*token));
}

fn failed(message: impl Into<String>) -> EngineError {
    EngineError::ConstraintFailed {
        message: message.into(),
    }
}

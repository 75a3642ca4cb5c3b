//! Markdown to events, a part of a text at a time.
//!
//! Rule: a part is read as it would be inside the whole text. What the rest of the text says about
//! it comes along: definitions of links through [`References`], definitions of footnotes and the
//! list or table that the part goes on with as a [`Part::context`] before it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use pulldown_cmark::{BrokenLink, CowStr, Event, LinkType, Options, Parser, Tag};
use unicase::UniCase;

pub(super) fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM
}

/// What a text defines, by label. The first definition of a link counts.
#[derive(Debug, Default)]
pub(super) struct References {
    links: HashMap<UniCase<String>, (String, String)>,
    footnotes: HashSet<UniCase<String>>,
}

impl References {
    pub(super) fn defines_link(&self, label: &str) -> bool {
        self.links.contains_key(&UniCase::new(label.to_string()))
    }

    fn link(&self, label: &str) -> Option<(CowStr<'static>, CowStr<'static>)> {
        let (address, title) = self.links.get(&UniCase::new(label.to_string()))?;
        Some((address.clone().into(), title.clone().into()))
    }

    /// Takes up what a part defines. Parts come in the order of the text.
    pub(super) fn learn(&mut self, found: Found) {
        for (label, target) in found.links {
            self.links.entry(UniCase::new(label)).or_insert(target);
        }
        self.footnotes
            .extend(found.footnotes.into_iter().map(UniCase::new));
    }

    pub(super) fn n_footnotes(&self) -> usize {
        self.footnotes.len()
    }

    /// Markdown that defines the footnotes that `source` may speak of.
    fn footnotes_before(&self, source: &str) -> String {
        let mut before = String::new();
        if self.footnotes.is_empty() {
            return before;
        }
        let mut seen = HashSet::new();
        for (start, _) in source.match_indices("[^") {
            let rest = &source[start + 2..];
            let Some(label) = rest.find(']').map(|end| &rest[..end]) else {
                continue;
            };
            let is_known = self.footnotes.contains(&UniCase::new(label.to_string()));
            if is_known && !label.contains(['\n', '\\']) && seen.insert(label) {
                before.push_str(&format!("[^{label}]: x\n\n"));
            }
        }
        if !before.is_empty() {
            before.push_str("***\n\n");
        }
        before
    }
}

/// What a part defines and misses.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// In no order; a label once.
    links: Vec<(String, (String, String))>,
    footnotes: Vec<String>,
    /// Labels that look like a link's and were not defined so far.
    pub(super) missing: Vec<String>,
    /// Footnotes are defined or, it seems, spoken of.
    pub(super) has_footnotes: bool,
}

/// A part of a text with what has to stand before it, ready to be read.
#[derive(Debug)]
pub(super) struct Part {
    whole: String,
    /// Where what is the part's own, or its context's, begins.
    begins: usize,
    /// Length of all that stands before the part.
    n_before: usize,
}

impl Part {
    /// `context` is Markdown that the part goes on with, whose events are read too: they lie
    /// before 0, as it were, so [`Part::read`] gives their ranges as empty ones at 0.
    pub(super) fn new(context: &str, source: &str, references: &References) -> Self {
        let mut whole = references.footnotes_before(source);
        let begins = whole.len();
        whole.push_str(context);
        let n_before = whole.len();
        whole.push_str(source);
        Self {
            whole,
            begins,
            n_before,
        }
    }

    /// The events with their ranges in the source, and what the part defines. Of the context,
    /// `is_context` is true.
    pub(super) fn read<'a>(&'a self, references: &References) -> (Vec<Read<'a>>, Found) {
        let mut missing = Vec::new();
        let mut found = Found::default();
        let mut reads = Vec::new();
        {
            let mut resolve = |link: BrokenLink<'a>| {
                let known = references.link(&link.reference);
                if known.is_none() {
                    missing.push(link.reference.to_string());
                }
                known
            };
            let mut events =
                Parser::new_with_broken_link_callback(&self.whole, options(), Some(&mut resolve))
                    .into_offset_iter();
            found.links = events
                .reference_definitions()
                .iter()
                .map(|(label, definition)| {
                    let title = definition.title.as_deref().unwrap_or_default();
                    let target = (definition.dest.to_string(), title.to_string());
                    (label.to_string(), target)
                })
                .collect();
            for (event, range) in events.by_ref() {
                if range.start < self.begins {
                    continue;
                }
                if let Event::Start(Tag::FootnoteDefinition(label)) = &event {
                    found.footnotes.push(label.to_string());
                }
                reads.push(Read {
                    event: redirected(event, references),
                    is_context: range.start < self.n_before,
                    range: range.start.saturating_sub(self.n_before)
                        ..range.end.saturating_sub(self.n_before),
                });
            }
        }
        found.missing = missing;
        found.has_footnotes = self.whole[self.n_before..].contains("[^");
        (reads, found)
    }
}

/// An event and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Read<'a> {
    pub(super) event: Event<'a>,
    pub(super) range: Range<usize>,
    pub(super) is_context: bool,
}

/// A link to where its label was first defined, which may be before the part that defines it too.
fn redirected<'a>(mut event: Event<'a>, references: &References) -> Event<'a> {
    if let Event::Start(
        Tag::Link {
            link_type: LinkType::Reference | LinkType::Collapsed | LinkType::Shortcut,
            dest_url,
            title,
            id,
        }
        | Tag::Image {
            link_type: LinkType::Reference | LinkType::Collapsed | LinkType::Shortcut,
            dest_url,
            title,
            id,
        },
    ) = &mut event
        && let Some(first) = references.link(id)
    {
        (*dest_url, *title) = first;
    }
    event
}

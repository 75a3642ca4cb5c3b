//! Rendered pieces of a text.
//!
//! Rule: whoever applies the blocks of a growing text in the order in which they come shows, after
//! the last one, what rendering the whole text at once would show.

use serde::{Deserialize, Serialize};

/// A finished piece of Markdown, sent once.
///
/// How a page keeps the blocks of one text (see also [`settle`]):
///
/// 1. It keeps a list of groups. A block that does not continue begins a group: its HTML is one or
///    more elements in the flow of the text.
/// 2. A block that `continues` belongs to the group before it, and its HTML goes to the end of the
///    one element with the class `more` in there, after what earlier continuations put there. It
///    is then lines of code (in a `<code>`), items (in a list) or rows (in a `<tbody>`).
/// 3. A block whose `index` is new comes last. A block whose `index` is known is never a
///    continuation; it replaces that block **and the continuations in it**, which are sent again
///    after it, in order, with the indexes that they had. This is rare: a list turns loose, or a
///    link's or footnote's definition came only at the end of the text.
///
/// Nothing else changes a block that was sent. To parse the HTML a page puts it into a
/// `<template>`, where items and rows may stand alone.
///
/// Classes and attributes that a page styles or acts on:
///
/// - `figure.code[data-language]` holds `figcaption` (with `span.language` and an empty
///   `button.copy`, whose label and action are the page's) and `pre > code`. In the code are
///   `span`s with one of the classes `hl-comment`, `hl-string`, `hl-escape`, `hl-number`,
///   `hl-constant`, `hl-keyword`, `hl-operator`, `hl-function`, `hl-type`, `hl-tag`,
///   `hl-attribute`, `hl-variable`, `hl-heading`, `hl-emphasis`, `hl-strong`, `hl-link`,
///   `hl-inserted`, `hl-deleted`, `hl-invalid`. `data-language` is missing where none was named.
/// - `div.table[tabindex="0"] > table`: the `div` scrolls. Cells have `align-left`,
///   `align-center` or `align-right`.
/// - `li.task > input[type=checkbox][disabled][aria-label]`: the label is the item's text.
/// - `a[href][rel]`: http, https or mailto. The page opens nothing itself.
/// - `span.image[data-address]`: an image that was not loaded; its text is what it shows, or its
///   address.
/// - `sup.footnote-reference > a[href="#fn-…"]` and `div.footnote[id="fn-…"]` with
///   `sup.footnote-label`. An id is unique in its text only, so a page looks for it there.
/// - `math` (MathML; `display="block"` for formulas on their own), and `code.math-error` for the
///   source of a formula that cannot be set, `code.math-pending` for one that is still written.
///   A formula in a box is `math.boxed`. Cells (`mtd`) have some of `cell-left`, `cell-right`
///   (where their text stands), `cell-apart` (1 em before them), `rule-left`, `rule-right`,
///   `rule-top` and `rule-bottom` (lines); edges of a formula's table have no padding.
/// - `p.raw`: HTML that the text contains, shown as it was written.
/// - `blockquote.alert-note`, `-tip`, `-important`, `-warning`, `-caution`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Block {
    /// Its place in the text, from 0, continuations counted.
    pub index: u32,
    /// Whether it belongs inside the group before it.
    pub continues: bool,
    /// Sanitised HTML: nothing in it runs, loads or styles anything.
    pub html: String,
}

/// The unfinished end of a growing text, drawn anew with each update.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Tail {
    /// Whether it is drawn inside the last group, as a [`Block`] that continues is; else after it.
    pub continues: bool,
    /// Sanitised HTML; empty when everything so far is committed.
    pub html: String,
}

/// Applies blocks to those that were there before: for a snapshot, and wherever blocks are kept.
pub fn settle(blocks: &mut Vec<Block>, new: impl IntoIterator<Item = Block>) {
    for block in new {
        match blocks.get_mut(block.index as usize) {
            Some(known) => *known = block,
            None => blocks.push(block),
        }
    }
}

//! Blocks: the pieces of a rendered text.

use serde::{Deserialize, Serialize};

/// A piece of rendered Markdown.
///
/// A text is a list of blocks. A block is one top-level element: a paragraph, a heading, a quote.
/// Three kinds are split further, because they grow long: a list is an empty list element followed
/// by one block per item, a table is its header followed by one block per row, and code is an empty
/// frame followed by blocks of some lines. These following blocks have `is_inside` set: their HTML
/// is appended to the list, to the table's `tbody` or to the `code` of the last block before them
/// that is not inside. To parse an item or a row on its own, a page puts it into a `<template>`.
///
/// Classes and attributes that a page styles or acts on:
///
/// - `figure.code[data-language]` holds `figcaption` (with `span.language` and an empty
///   `button.copy`, whose label and action are the page's) and `pre > code`. In the code are
///   `span.lines`, and in these `span`s with one of the classes `hl-comment`, `hl-string`,
///   `hl-escape`, `hl-number`, `hl-constant`, `hl-keyword`, `hl-operator`, `hl-function`,
///   `hl-type`, `hl-tag`, `hl-attribute`, `hl-variable`, `hl-heading`, `hl-emphasis`, `hl-strong`,
///   `hl-link`, `hl-inserted`, `hl-deleted`, `hl-invalid`. `data-language` is missing if the text
///   names no language.
/// - `div.table[tabindex="0"] > table`: the `div` scrolls. Cells have `align-left`,
///   `align-center` or `align-right`.
/// - `li.task > input[type=checkbox][disabled][aria-label]`: the label is the item's text.
/// - `a[href][rel]`: http, https or mailto. The page opens nothing itself.
/// - `span.image[data-address]`: an image that was not loaded. Its text is the image's description,
///   or its address.
/// - `sup.footnote-reference > a[href="#fn-…"]` and `div.footnote[id="fn-…"]` with
///   `sup.footnote-label`. An id is unique only within its text, so a page searches it there.
/// - `math` (MathML; `display="block"` for display formulas, `alttext` is the TeX source),
///   `code.math-error` for the source of a formula that cannot be rendered, and `code.math-pending`
///   for one that is not complete yet. A boxed formula is `math.boxed`. Cells (`mtd`) have some of
///   `cell-left`, `cell-right` (alignment of their text), `cell-apart` (1 em before them),
///   `rule-left`, `rule-right`, `rule-top` and `rule-bottom` (lines). The outer edges of a formula's
///   table have no padding.
/// - `p.raw`: HTML in the text, shown as source.
/// - `blockquote.alert-note`, `-tip`, `-important`, `-warning`, `-caution`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Block {
    /// True if this block is appended inside the list, table or code before it.
    pub is_inside: bool,
    /// Sanitized HTML: it runs, loads and styles nothing.
    pub html: String,
}

/// The difference between the current blocks of a growing text and the ones that a follower has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Change {
    /// The number of blocks that the text has now. The follower drops the ones beyond it.
    pub n_blocks: u32,
    /// New and changed blocks with their indexes, in ascending order.
    pub blocks: Vec<(u32, Block)>,
}

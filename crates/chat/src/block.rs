//! Rendered pieces of a text.

use serde::{Deserialize, Serialize};

/// A piece of rendered Markdown.
///
/// A text is a list of blocks. A block is one element in the flow of the text: a paragraph, a
/// heading, a quote. Three kinds are split further, because they grow long: a list is an empty
/// list followed by one block for each item, a table is its head followed by one block for each
/// row, and code is an empty frame followed by blocks of some lines. These following blocks are
/// `is_inside`: their HTML goes to the end of the list, of the table's `tbody` or of the `code`
/// that the last block before them holds that is not inside. To parse an item or row, a page puts
/// it into a `<template>`, where it may stand alone.
///
/// Classes and attributes that a page styles or acts on:
///
/// - `figure.code[data-language]` holds `figcaption` (with `span.language` and an empty
///   `button.copy`, whose label and action are the page's) and `pre > code`. In the code are
///   `span.lines`, and in these `span`s with one of the classes `hl-comment`, `hl-string`,
///   `hl-escape`, `hl-number`, `hl-constant`, `hl-keyword`, `hl-operator`, `hl-function`,
///   `hl-type`, `hl-tag`, `hl-attribute`, `hl-variable`, `hl-heading`, `hl-emphasis`, `hl-strong`,
///   `hl-link`, `hl-inserted`, `hl-deleted`, `hl-invalid`. `data-language` is missing where none
///   was named.
/// - `div.table[tabindex="0"] > table`: the `div` scrolls. Cells have `align-left`,
///   `align-center` or `align-right`.
/// - `li.task > input[type=checkbox][disabled][aria-label]`: the label is the item's text.
/// - `a[href][rel]`: http, https or mailto. The page opens nothing itself.
/// - `span.image[data-address]`: an image that was not loaded; its text is what it shows, or its
///   address.
/// - `sup.footnote-reference > a[href="#fn-…"]` and `div.footnote[id="fn-…"]` with
///   `sup.footnote-label`. An id is unique in its text only, so a page looks for it there.
/// - `math` (MathML; `display="block"` for formulas on their own, `alttext` is its TeX), and
///   `code.math-error` for the source of a formula that cannot be set, `code.math-pending` for one
///   that is still written. A formula in a box is `math.boxed`. Cells (`mtd`) have some of
///   `cell-left`, `cell-right` (where their text stands), `cell-apart` (1 em before them),
///   `rule-left`, `rule-right`, `rule-top` and `rule-bottom` (lines); edges of a formula's table
///   have no padding.
/// - `p.raw`: HTML that the text contains, shown as it was written.
/// - `blockquote.alert-note`, `-tip`, `-important`, `-warning`, `-caution`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Block {
    /// Whether it belongs inside the list, table or code before it.
    pub is_inside: bool,
    /// Sanitized HTML: nothing in it runs, loads or styles anything.
    pub html: String,
}

/// How the blocks of a growing text differ from what a follower knows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Change {
    /// How many blocks the text has now. Known blocks beyond are gone.
    pub n_blocks: u32,
    /// The new and the changed blocks, each with its index, in ascending order.
    pub blocks: Vec<(u32, Block)>,
}

//! The second wall: HTML through ammonia, with a list of what may be in it.
//!
//! Rule: the first wall (`writer`) writes nothing that is not on this list, so ammonia finds
//! nothing to do; each wall holds without the other, and tests take one away.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

/// Addresses that a link may have.
pub(super) const SCHEMES: [&str; 3] = ["http", "https", "mailto"];

const TAGS: &[&str] = &[
    "a",
    "blockquote",
    "br",
    "button",
    "code",
    "del",
    "div",
    "em",
    "figcaption",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "input",
    "li",
    "ol",
    "p",
    "pre",
    "span",
    "strong",
    "sup",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
    // MathML Core, without what links, embeds or acts.
    "b",
    "i",
    "math",
    "menclose",
    "mfrac",
    "mi",
    "mmultiscripts",
    "mn",
    "mo",
    "mover",
    "mpadded",
    "mphantom",
    "mprescripts",
    "mroot",
    "mrow",
    "mspace",
    "msqrt",
    "mstyle",
    "msub",
    "msubsup",
    "msup",
    "mtable",
    "mtd",
    "mtext",
    "mtr",
    "munder",
    "munderover",
    "none",
];

const MATHS_ATTRIBUTES: [&str; 25] = [
    "accent",
    "accentunder",
    "alttext",
    "class",
    "columnalign",
    "depth",
    "display",
    "displaystyle",
    "fence",
    "form",
    "height",
    "largeop",
    "linethickness",
    "lspace",
    "mathvariant",
    "maxsize",
    "minsize",
    "movablelimits",
    "notation",
    "rspace",
    "scriptlevel",
    "separator",
    "stretchy",
    "symmetric",
    "width",
];

static WALL: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let tags: HashSet<&str> = TAGS.iter().copied().collect();
    let mut attributes: HashMap<&str, HashSet<&str>> = HashMap::from([
        ("a", HashSet::from(["href", "title"])),
        ("blockquote", HashSet::from(["class"])),
        ("button", HashSet::from(["class", "type"])),
        ("code", HashSet::from(["class"])),
        ("div", HashSet::from(["class", "id", "tabindex"])),
        ("figure", HashSet::from(["class", "data-language"])),
        (
            "input",
            HashSet::from(["type", "disabled", "checked", "aria-label"]),
        ),
        ("li", HashSet::from(["class"])),
        ("ol", HashSet::from(["start"])),
        ("p", HashSet::from(["class"])),
        ("span", HashSet::from(["class", "data-address"])),
        ("sup", HashSet::from(["class"])),
        ("td", HashSet::from(["class"])),
        ("th", HashSet::from(["class"])),
    ]);
    for tag in tags.iter().filter(|tag| is_maths(tag)) {
        attributes.insert(*tag, MATHS_ATTRIBUTES.into());
    }
    let mut wall = Builder::empty();
    wall.tags(tags)
        .tag_attributes(attributes)
        .clean_content_tags(HashSet::from(["script", "style"]))
        .url_schemes(SCHEMES.into())
        .url_relative(UrlRelative::Custom(Box::new(footnotes_only)))
        // A box that takes text, or a button that sends a form, would be none of ours.
        .set_tag_attribute_values(HashMap::from([
            (
                "input",
                HashMap::from([("type", "checkbox"), ("disabled", "")]),
            ),
            ("button", HashMap::from([("type", "button")])),
        ]))
        .link_rel(Some("noopener noreferrer"));
    wall
});

/// References to footnotes; other relative addresses lead nowhere.
fn footnotes_only(url: &str) -> Option<Cow<'_, str>> {
    url.starts_with("#fn-").then_some(Cow::Borrowed(url))
}

fn is_maths(tag: &str) -> bool {
    tag.starts_with('m') || tag == "none"
}

/// `html` with nothing in it that is not on the list.
pub(super) fn sanitised(html: &str) -> String {
    WALL.clean(html).to_string()
}

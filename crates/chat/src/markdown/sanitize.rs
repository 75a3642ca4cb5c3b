//! The second layer of protection: ammonia removes all HTML that is not on the list.
//!
//! Rule: the first layer (`writer`) writes nothing that is not on this list, so ammonia changes
//! nothing. Each layer is sufficient alone; tests check each without the other.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

/// The URL schemes that a link may have.
pub(super) const SCHEMES: [&str; 3] = ["http", "https", "mailto"];

const TAGS: &str = "a blockquote br button code del div em figcaption figure h1 h2 h3 h4 h5 h6 hr \
                    input li ol p pre span strong sup table tbody td th thead tr ul b i";

/// MathML Core without elements that link, embed or act.
const MATH_TAGS: &str = "math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom \
                         mprescripts mroot mrow mspace msqrt mstyle msub msubsup msup mtable mtd \
                         mtext mtr munder munderover none";

const MATH_ATTRIBUTES: &str = "accent accentunder alttext class columnalign depth display \
                               displaystyle fence form height largeop linethickness lspace \
                               mathvariant maxsize minsize movablelimits notation rspace \
                               scriptlevel separator stretchy symmetric width";

const ATTRIBUTES: [(&str, &str); 14] = [
    ("a", "href title"),
    ("blockquote", "class"),
    ("button", "class type"),
    ("code", "class"),
    ("div", "class id tabindex"),
    ("figure", "class data-language"),
    ("input", "type disabled checked aria-label"),
    ("li", "class"),
    ("ol", "start"),
    ("p", "class"),
    ("span", "class data-address"),
    ("sup", "class"),
    ("td", "class"),
    ("th", "class"),
];

static SANITIZER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let attributes = ATTRIBUTES.map(|(tag, names)| (tag, names.split(' ').collect()));
    let mut attributes: HashMap<&str, HashSet<&str>> = HashMap::from(attributes);
    for tag in MATH_TAGS.split(' ') {
        attributes.insert(tag, MATH_ATTRIBUTES.split(' ').collect());
    }
    let mut builder = Builder::empty();
    builder
        .tags(TAGS.split(' ').chain(MATH_TAGS.split(' ')).collect())
        .tag_attributes(attributes)
        .clean_content_tags(HashSet::from(["script", "style"]))
        .url_schemes(SCHEMES.into())
        .url_relative(UrlRelative::Custom(Box::new(footnotes_only)))
        // Text inputs and submit buttons are not allowed.
        .set_tag_attribute_values(HashMap::from([
            (
                "input",
                HashMap::from([("type", "checkbox"), ("disabled", "")]),
            ),
            ("button", HashMap::from([("type", "button")])),
        ]))
        .link_rel(Some("noopener noreferrer"));
    builder
});

/// Keeps references to footnotes. Other relative URLs lead nowhere.
fn footnotes_only(url: &str) -> Option<Cow<'_, str>> {
    url.starts_with("#fn-").then_some(Cow::Borrowed(url))
}

/// Removes everything from `html` that is not on the list.
pub(super) fn sanitized(html: &str) -> String {
    SANITIZER.clean(html).to_string()
}

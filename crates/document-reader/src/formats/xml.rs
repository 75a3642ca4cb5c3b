//! Values of XML files.

use std::borrow::Cow;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use transom_documents::DocumentProblem;

/// Returns these attributes of each element with the local name `name`, in order. A missing attribute
/// is empty.
pub(super) fn elements<const N: usize>(
    xml: &str,
    name: &str,
    attributes: [&str; N],
) -> Result<Vec<[String; N]>, DocumentProblem> {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().expand_empty_elements = true;
    let mut found = Vec::new();
    loop {
        match reader.read_event().map_err(DocumentProblem::damaged)? {
            Event::Start(element) if element.local_name().into_inner() == name => {
                found.push(attributes.map(|attribute| value(&element, attribute)));
            }
            Event::Eof => return Ok(found),
            _ => {}
        }
    }
}

/// Returns the value of an attribute, empty without it.
pub(super) fn value(element: &BytesStart<'_>, attribute: &str) -> String {
    let attribute = element.try_get_attribute(attribute).ok().flatten();
    let value = attribute.and_then(|found| found.normalized_value(XmlVersion::Implicit1_0).ok());
    value.map(Cow::into_owned).unwrap_or_default()
}

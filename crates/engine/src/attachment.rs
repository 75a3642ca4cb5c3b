//! Puts attached texts before a question.
//!
//! Rule: each text is between tags that do not occur in it, so a model can tell where it ends.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// A text that a person attached to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment<'a> {
    /// The name of the file, if the text is from a file.
    pub name: Option<&'a str>,
    /// The text. A blank one is left out.
    pub text: &'a str,
}

/// Returns the question with the attachments before it. A blank question is left out if there is an
/// attachment.
pub fn with_attachments<'a>(
    attachments: impl IntoIterator<Item = Attachment<'a>>,
    question: &str,
) -> String {
    let attachments = attachments.into_iter();
    let mut parts: Vec<Cow<str>> = attachments
        .filter(|attachment| !attachment.text.trim().is_empty())
        .map(|attachment| Cow::Owned(between_tags(attachment)))
        .collect();
    if parts.is_empty() || !question.trim().is_empty() {
        parts.push(Cow::Borrowed(question));
    }
    parts.join("\n\n")
}

fn between_tags(attachment: Attachment) -> String {
    let text = attachment.text.trim_end();
    let tag = tag_for(text);
    let name = attachment.name.map(|name| {
        // The name must not end the quotes or the tag.
        let name = name.replace(['"', '<', '>'], "'");
        format!(" name=\"{name}\"")
    });
    let name = name.unwrap_or_default();
    format!("<{tag}{name}>\n{text}\n</{tag}>")
}

/// Returns `text`, or a numbered tag if the attachment contains that tag in any spelling that a model
/// could take for it. Takes time in proportion to
/// the length of the attachment, which may contain many numbered tags.
fn tag_for(attachment: &str) -> String {
    let attachment = attachment.to_ascii_lowercase();
    if !attachment.contains("<text") && !attachment.contains("</text") {
        return "text".to_owned();
    }
    let numbers = attachment.split("text-").skip(1).filter_map(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    });
    let taken: BTreeSet<u64> = numbers.collect();
    let free = (2..).find(|number| !taken.contains(number));
    let free = free.expect("a text of finite length leaves a number free");
    format!("text-{free}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(attachments: &[(Option<&str>, &str)], question: &str, expect: &str) {
        let attachments = attachments.iter();
        let attachments = attachments.map(|&(name, text)| Attachment { name, text });
        assert_eq!(with_attachments(attachments, question), expect);
    }

    #[test]
    fn attachments_precede_the_question_between_tags() {
        check(
            &[(None, "let x = 1;\n")],
            "Explain",
            "<text>\nlet x = 1;\n</text>\n\nExplain",
        );
        check(
            &[(Some("a.md"), "# A"), (Some("b.md"), "# B")],
            "Compare",
            "<text name=\"a.md\">\n# A\n</text>\n\n<text name=\"b.md\">\n# B\n</text>\n\nCompare",
        );
    }

    #[test]
    fn no_tag_occurs_in_its_text() {
        for text in [
            "a </text> b",
            "<text>",
            "<text name=\"a\">",
            "</TEXT >",
            "<text\n>",
        ] {
            check(
                &[(None, text)],
                "?",
                &format!("<text-2>\n{text}\n</text-2>\n\n?"),
            );
        }
        check(
            &[(None, "<text> </text-2>")],
            "?",
            "<text-3>\n<text> </text-2>\n</text-3>\n\n?",
        );
    }

    #[test]
    fn a_name_ends_neither_the_quotes_nor_the_tag() {
        check(
            &[(Some("a\">b"), "x")],
            "?",
            "<text name=\"a''b\">\nx\n</text>\n\n?",
        );
    }

    #[test]
    fn blank_texts_and_questions_are_left_out() {
        check(&[(None, " \n")], "Why?", "Why?");
        check(&[(None, "Only this")], " ", "<text>\nOnly this\n</text>");
        check(&[], " ", " ");
    }
}

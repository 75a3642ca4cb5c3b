//! Writes a conversation as Markdown and reads it back.
//!
//! Users see headings, quotes and text. Data that only the app needs is in comments, one on a line
//! of its own before every section. Rule: a line of text that looks like such a comment gets a
//! backslash in front, so no text is read as a comment.

use serde::{Deserialize, Serialize};
use transom_files::visible;

use crate::attached_text::{self, AttachedText};
use crate::conversation::{Ending, MessageRole};
use crate::error::StoreError;
use crate::export_format::{ExportedConversation, ExportedMessage, VERSION, check_version};
use crate::settings::ConversationSettings;

const MARKER: &str = "<!-- transom ";
const MARKER_END: &str = " -->";

/// The JSON in the first comment.
#[derive(Serialize, Deserialize)]
struct ConversationHeader {
    version: u32,
    key: String,
    title: String,
    is_pinned: bool,
    #[serde(default)]
    is_archived: bool,
    created_at: i64,
    updated_at: i64,
}

/// The JSON in the comment of a message.
#[derive(Serialize, Deserialize)]
struct MessageHeader {
    #[serde(rename = "speaker")]
    role: MessageRole,
    created_at: i64,
    #[serde(flatten)]
    ending: Ending,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
}

/// The JSON in the comment of an attached text with a name.
#[derive(Serialize, Deserialize)]
struct AttachmentHeader {
    name: String,
}

/// The section that a line belongs to.
enum Section {
    /// Outside of sections: only for readers.
    Outside,
    /// An attached text, with its name.
    Attachment(Option<String>),
    Reasoning,
    Text,
}

/// Writes a conversation with a single path.
pub(crate) fn write(exported: &ExportedConversation) -> String {
    let mut out = String::new();
    let title = exported.title.replace(['\n', '\r'], " ");
    if !title.is_empty() {
        out += &format!("# {title}\n\n");
    }
    out += &marker(
        "conversation",
        &ConversationHeader {
            version: VERSION,
            key: exported.key.clone(),
            title: exported.title.clone(),
            is_pinned: exported.is_pinned,
            is_archived: exported.is_archived,
            created_at: exported.created_at,
            updated_at: exported.updated_at,
        },
    );
    out += "\n";
    for message in &exported.messages {
        write_message(&mut out, message);
    }
    out
}

fn write_message(out: &mut String, message: &ExportedMessage) {
    *out += &marker(
        "message",
        &MessageHeader {
            role: message.role,
            created_at: message.created_at,
            ending: message.ending.clone(),
            model: message.model.clone(),
            stats: message.stats.clone(),
            summary: message.summary.clone(),
        },
    );
    let name = match message.role {
        MessageRole::User => "You",
        MessageRole::Assistant => "Assistant",
    };
    let model = message.model.as_ref();
    let model = model.map_or_else(String::new, |it| format!(" ({})", it.replace('\n', " ")));
    *out += &format!("\n## {name}{model}\n\n");
    for attached in attached_text::split(&message.attachment) {
        write_attached(out, attached);
    }
    if !message.reasoning.is_empty() {
        *out += &format!(
            "<details><summary>Reasoning</summary>\n\n{MARKER}reasoning{MARKER_END}\n{}\n\n{MARKER}end{MARKER_END}\n</details>\n\n",
            escaped(&message.reasoning)
        );
    }
    let text = escaped(&message.text);
    *out += &format!("{MARKER}text{MARKER_END}\n{text}\n\n");
    if let Some(summary) = message.summary.as_deref().filter(|it| !it.is_empty()) {
        // For readers; the comment of the message has it too.
        *out += &format!(
            "{MARKER}end{MARKER_END}\n<details><summary>Summary of earlier messages</summary>\n\n{}\n\n</details>\n\n",
            escaped(summary)
        );
    }
}

/// Writes an attached text as a quote, below its name.
fn write_attached(out: &mut String, AttachedText { name, text }: AttachedText) {
    let text = quoted(&text);
    let marker = match name {
        Some(name) => {
            *out += &format!("`{}`\n\n", visible(&name).replace('`', "'"));
            marker("attachment", &AttachmentHeader { name })
        }
        None => format!("{MARKER}attachment{MARKER_END}\n"),
    };
    *out += &format!("{marker}{text}\n\n{MARKER}end{MARKER_END}\n\n");
}

/// Returns a comment with JSON that cannot contain the end of the comment.
fn marker(kind: &str, header: &impl Serialize) -> String {
    let json = serde_json::to_string(header).expect("texts and numbers are always JSON");
    format!(
        "{MARKER}{kind} {}{MARKER_END}\n",
        json.replace('>', "\\u003e")
    )
}

/// Removes the data that only the app needs from the output of [`write`].
pub(crate) fn without_markers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut was_marker = false;
    for line in text.split_inclusive('\n') {
        let is_marker = line.starts_with(MARKER);
        let is_blank_after_marker = was_marker && line == "\n";
        if !is_marker && !is_blank_after_marker {
            out += line;
        }
        was_marker = is_marker;
    }
    out
}

/// Reads the output of [`write`].
pub(crate) fn read(text: &str) -> Result<ExportedConversation, StoreError> {
    let mut exported: Option<ExportedConversation> = None;
    let mut section = Section::Outside;
    let mut lines: Vec<&str> = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let Some(marker) = marker_content(line) else {
            lines.push(line);
            continue;
        };
        let place = format!("line {}", index + 1);
        let last = exported.as_mut().and_then(|it| it.messages.last_mut());
        if let Some(message) = last {
            finish_section(message, section, &lines, 1);
        }
        lines.clear();
        section = Section::Outside;
        match marker.split_once(' ').unwrap_or((marker, "")) {
            ("conversation", json) if exported.is_none() => {
                exported = Some(parse_conversation(json, &place)?)
            }
            ("message", json) => {
                let exported = exported.as_mut().ok_or_else(|| not_an_export(&place))?;
                let id = exported.messages.len() as u64 + 1;
                exported.messages.push(parse_message(json, id, &place)?);
            }
            ("attachment", "") => section = Section::Attachment(None),
            ("attachment", json) => {
                let header: AttachmentHeader = parse(json, &place)?;
                section = Section::Attachment(Some(header.name));
            }
            ("reasoning", "") => section = Section::Reasoning,
            ("text", "") => section = Section::Text,
            ("end", "") => {}
            (kind, _) => {
                let problem = format!("the comment “{kind}” does not belong here");
                return Err(StoreError::import(&place, problem));
            }
        }
    }
    let mut exported = exported.ok_or_else(|| not_an_export("no line says so"))?;
    if let Some(message) = exported.messages.last_mut() {
        finish_section(message, section, &lines, 2);
    }
    Ok(exported)
}

fn parse_conversation(json: &str, place: &str) -> Result<ExportedConversation, StoreError> {
    let header: ConversationHeader = parse(json, place)?;
    check_version(header.version, place)?;
    Ok(ExportedConversation {
        key: header.key,
        title: header.title,
        is_pinned: header.is_pinned,
        is_archived: header.is_archived,
        created_at: header.created_at,
        updated_at: header.updated_at,
        settings: ConversationSettings::default(),
        messages: Vec::new(),
    })
}

fn parse_message(json: &str, id: u64, place: &str) -> Result<ExportedMessage, StoreError> {
    let header: MessageHeader = parse(json, place)?;
    Ok(ExportedMessage {
        id,
        parent: (id > 1).then(|| id - 1),
        is_shown: true,
        role: header.role,
        created_at: header.created_at,
        ending: header.ending,
        model: header.model,
        stats: header.stats,
        summary: header.summary,
        attachment: String::new(),
        reasoning: String::new(),
        text: String::new(),
    })
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str, place: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|error| StoreError::import(place, error.to_string()))
}

fn not_an_export(place: &str) -> StoreError {
    StoreError::import(place, "it is not a conversation that Transom exported")
}

/// Returns the content of one of our comments.
fn marker_content(line: &str) -> Option<&str> {
    line.strip_suffix('\r')
        .unwrap_or(line)
        .strip_prefix(MARKER)?
        .strip_suffix(MARKER_END)
}

/// Ends a section. Each is followed by `n_padding` empty lines, but an editor may have removed
/// those at the end of the file.
fn finish_section(
    message: &mut ExportedMessage,
    section: Section,
    lines: &[&str],
    n_padding: usize,
) {
    let n_empty = lines.iter().rev().take_while(|it| it.is_empty()).count();
    let kept = &lines[..lines.len() - n_empty.min(n_padding)];
    match section {
        Section::Outside => {}
        Section::Attachment(name) => {
            let text = unquoted(kept);
            let mut texts = attached_text::split(&message.attachment);
            texts.push(AttachedText { name, text });
            message.attachment = attached_text::join(&texts);
        }
        Section::Reasoning => message.reasoning = unescaped(kept),
        Section::Text => message.text = unescaped(kept),
    }
}

fn escaped(text: &str) -> String {
    let escaped = text.split('\n').map(|line| {
        let backslash = if is_like_a_marker(line) { "\\" } else { "" };
        format!("{backslash}{line}")
    });
    escaped.collect::<Vec<_>>().join("\n")
}

fn unescaped(lines: &[&str]) -> String {
    let plain = lines.iter().map(|line| match line.strip_prefix('\\') {
        Some(rest) if is_like_a_marker(line) => rest,
        _ => line,
    });
    plain.collect::<Vec<_>>().join("\n")
}

/// Returns true for our comments, with or without backslashes.
fn is_like_a_marker(line: &str) -> bool {
    line.trim_start_matches('\\').starts_with(MARKER)
}

fn quoted(text: &str) -> String {
    let quoted = text.split('\n').map(|line| match line {
        "" => ">".to_string(),
        line => format!("> {line}"),
    });
    quoted.collect::<Vec<_>>().join("\n")
}

fn unquoted(lines: &[&str]) -> String {
    let plain = lines.iter().map(|line| {
        let rest = line.strip_prefix("> ");
        rest.or_else(|| line.strip_prefix('>')).unwrap_or(line)
    });
    plain.collect::<Vec<_>>().join("\n")
}

//! A conversation as a Markdown file, and back.
//!
//! People see headings, quotes and texts. What only the app needs stands in comments, one on a line
//! of its own before every part. Rule: a line of a text that looks like such a comment gets a
//! backslash before it, so that no text is taken for one.

use serde::{Deserialize, Serialize};

use crate::conversation::{Ending, Speaker};
use crate::error::StoreError;
use crate::exchange::{Said, Talk, VERSION};

const MARK: &str = "<!-- transom ";
const MARK_END: &str = " -->";

/// What the first comment holds.
#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    key: String,
    title: String,
    is_pinned: bool,
    created_at: i64,
    updated_at: i64,
}

/// What a message's comment holds.
#[derive(Serialize, Deserialize)]
struct MessageHead {
    speaker: Speaker,
    created_at: i64,
    #[serde(flatten)]
    ending: Ending,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<String>,
}

/// The part that a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Between the parts: for people only.
    Frame,
    Attachment,
    Reasoning,
    Text,
}

/// `talk` is a single path.
pub(crate) fn write(talk: &Talk) -> String {
    let mut out = String::new();
    let title = talk.title.replace(['\n', '\r'], " ");
    if !title.is_empty() {
        out += &format!("# {title}\n\n");
    }
    out += &mark(
        "conversation",
        &Head {
            version: VERSION,
            key: talk.key.clone(),
            title: talk.title.clone(),
            is_pinned: talk.is_pinned,
            created_at: talk.created_at,
            updated_at: talk.updated_at,
        },
    );
    out += "\n";
    for said in &talk.messages {
        write_message(&mut out, said);
    }
    out
}

fn write_message(out: &mut String, said: &Said) {
    *out += &mark(
        "message",
        &MessageHead {
            speaker: said.speaker,
            created_at: said.created_at,
            ending: said.ending.clone(),
            model: said.model.clone(),
            stats: said.stats.clone(),
        },
    );
    let name = match said.speaker {
        Speaker::User => "You",
        Speaker::Assistant => "Assistant",
    };
    match &said.model {
        Some(model) => *out += &format!("\n## {name} ({})\n\n", model.replace('\n', " ")),
        None => *out += &format!("\n## {name}\n\n"),
    }
    if !said.attachment.is_empty() {
        *out += &format!(
            "{MARK}attachment{MARK_END}\n{}\n\n{MARK}end{MARK_END}\n\n",
            quoted(&said.attachment)
        );
    }
    if !said.reasoning.is_empty() {
        *out += &format!(
            "<details><summary>Reasoning</summary>\n\n{MARK}reasoning{MARK_END}\n{}\n\n{MARK}end{MARK_END}\n</details>\n\n",
            escaped(&said.reasoning)
        );
    }
    *out += &format!("{MARK}text{MARK_END}\n{}\n\n", escaped(&said.text));
}

/// A comment with JSON that cannot end it.
fn mark(kind: &str, head: &impl Serialize) -> String {
    let json = serde_json::to_string(head).expect("texts and numbers are always JSON");
    format!("{MARK}{kind} {}{MARK_END}\n", json.replace('>', "\\u003e"))
}

/// Reads what [`write`] wrote.
pub(crate) fn read(text: &str) -> Result<Talk, StoreError> {
    let mut talk: Option<Talk> = None;
    let mut part = Part::Frame;
    let mut lines: Vec<&str> = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let Some(mark) = marked(line) else {
            lines.push(line);
            continue;
        };
        let place = format!("line {}", index + 1);
        if let Some(said) = talk.as_mut().and_then(|talk| talk.messages.last_mut()) {
            end_part(said, part, &lines, 1);
        }
        lines.clear();
        part = Part::Frame;
        match mark.split_once(' ').unwrap_or((mark, "")) {
            ("conversation", json) if talk.is_none() => talk = Some(begin(json, &place)?),
            ("message", json) => {
                let talk = talk.as_mut().ok_or_else(|| not_ours(&place))?;
                let id = talk.messages.len() as u64 + 1;
                talk.messages.push(message(json, id, &place)?);
            }
            ("attachment", "") => part = Part::Attachment,
            ("reasoning", "") => part = Part::Reasoning,
            ("text", "") => part = Part::Text,
            ("end", "") => {}
            (kind, _) => {
                return Err(StoreError::Import {
                    place,
                    problem: format!("the comment “{kind}” does not belong here"),
                });
            }
        }
    }
    let mut talk = talk.ok_or_else(|| not_ours("no line says so"))?;
    if let Some(said) = talk.messages.last_mut() {
        end_part(said, part, &lines, 2);
    }
    Ok(talk)
}

fn begin(json: &str, place: &str) -> Result<Talk, StoreError> {
    let head: Head = parse(json, place)?;
    if head.version > VERSION {
        return Err(StoreError::Import {
            place: place.to_string(),
            problem: format!(
                "it has format {}, and this version of Transom reads up to {VERSION}",
                head.version
            ),
        });
    }
    Ok(Talk {
        key: head.key,
        title: head.title,
        is_pinned: head.is_pinned,
        created_at: head.created_at,
        updated_at: head.updated_at,
        messages: Vec::new(),
    })
}

fn message(json: &str, id: u64, place: &str) -> Result<Said, StoreError> {
    let head: MessageHead = parse(json, place)?;
    Ok(Said {
        id,
        parent: (id > 1).then(|| id - 1),
        is_shown: true,
        speaker: head.speaker,
        created_at: head.created_at,
        ending: head.ending,
        model: head.model,
        stats: head.stats,
        attachment: String::new(),
        reasoning: String::new(),
        text: String::new(),
    })
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str, place: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|error| StoreError::Import {
        place: place.to_string(),
        problem: error.to_string(),
    })
}

fn not_ours(place: &str) -> StoreError {
    StoreError::Import {
        place: place.to_string(),
        problem: "it is no conversation that Transom exported".to_string(),
    }
}

/// What stands in a comment of ours.
fn marked(line: &str) -> Option<&str> {
    line.strip_suffix('\r')
        .unwrap_or(line)
        .strip_prefix(MARK)?
        .strip_suffix(MARK_END)
}

/// Every part is followed by `n_padding` empty lines; an editor may have taken them from the end.
fn end_part(said: &mut Said, part: Part, lines: &[&str], n_padding: usize) {
    let n_empty = lines
        .iter()
        .rev()
        .take_while(|line| line.is_empty())
        .count();
    let kept = &lines[..lines.len() - n_empty.min(n_padding)];
    match part {
        Part::Frame => {}
        Part::Attachment => said.attachment = unquoted(kept),
        Part::Reasoning => said.reasoning = unescaped(kept),
        Part::Text => said.text = unescaped(kept),
    }
}

fn escaped(text: &str) -> String {
    let escaped = text.split('\n').map(|line| {
        let is_like_a_mark = line.trim_start_matches('\\').starts_with(MARK);
        let backslash = if is_like_a_mark { "\\" } else { "" };
        format!("{backslash}{line}")
    });
    escaped.collect::<Vec<_>>().join("\n")
}

fn unescaped(lines: &[&str]) -> String {
    let plain = lines.iter().map(|line| {
        let is_like_a_mark = line.trim_start_matches('\\').starts_with(MARK);
        match line.strip_prefix('\\') {
            Some(rest) if is_like_a_mark => rest,
            _ => line,
        }
    });
    plain.collect::<Vec<_>>().join("\n")
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

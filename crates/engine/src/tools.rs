//! Tool calls: how a conversation with tools is rendered, how a response may be constrained, and how its
//! calls are recognized.
//!
//! [`families`] has one row per family of models. Templates that know no tools get a standard prompt.
//!
//! Rule: a call names a declared tool. What is not a complete call of one is text, or a call without an
//! end; nothing panics.

mod declared;
mod fallback;
mod families;
mod grammar;
mod schema;
mod stream;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

use self::families::{Family, HERMES};
use self::grammar::Rules;
use self::schema::ValueTypes;
use crate::chat::{ChatPrompt, ToolChoice};
use crate::constraint::Constraint;
use crate::error::EngineError;
use crate::template::{ChatTemplate, RenderedPrompt};

pub(crate) use self::stream::{Part, Parts, ToolStream};

static FALLBACK: Family = HERMES;

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The JSON Schema of its arguments.
    pub(crate) schema: Value,
    /// The schema can be held while decoding. Else the arguments are any object.
    pub(crate) is_held: bool,
}

/// The tools of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Declared {
    pub(crate) tools: Vec<Tool>,
}

impl Declared {
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Returns true if `text` is the beginning of a name, or a name and what may follow one. White
    /// space before it does not count.
    fn may_begin_with(&self, text: &str) -> bool {
        let text = text.trim_start();
        let follows_name =
            |rest: &str| rest.starts_with(char::is_whitespace) || rest.starts_with(['[', '<', '`']);
        let mut names = self.tools.iter().map(|tool| tool.name.as_str());
        names
            .any(|name| name.starts_with(text) || text.strip_prefix(name).is_some_and(follows_name))
    }

    fn value_types(&self, name: &str, key: &str) -> ValueTypes {
        let tool = self.tools.iter().find(|tool| tool.name == name);
        tool.map_or_else(ValueTypes::default, |tool| {
            ValueTypes::of_property(&tool.schema, key)
        })
    }
}

/// What a response needs to know about the tools of its prompt.
#[derive(Debug, Clone)]
pub struct PreparedTools(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    family: &'static Family,
    declared: Declared,
    constraint: Option<Constraint>,
    /// The response is calls and nothing else.
    is_required: bool,
    /// Special tokens whose text belongs to calls.
    markers: BTreeMap<u32, &'static str>,
    unconstrained: Vec<String>,
}

impl PartialEq for PreparedTools {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for PreparedTools {}

impl PreparedTools {
    /// Returns what a response to `chat` needs; `None` if it may call no tool. `token_id` returns the
    /// id of a special token.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`] for a tool without a name, two with one name, or a choice that
    /// is no tool; [`EngineError::InvalidConstraint`] for a tool with `strict` whose schema cannot be
    /// held.
    pub fn new(
        template: &ChatTemplate,
        chat: &ChatPrompt,
        token_id: impl Fn(&str) -> Option<u32>,
    ) -> Result<Option<Self>, EngineError> {
        if chat.tools.is_empty() || chat.tool_choice == ToolChoice::None {
            return Ok(None);
        }
        let family = match template.knows_tools() {
            true => Family::of_template(&template.source()).unwrap_or(&FALLBACK),
            false => &FALLBACK,
        };
        let declared = declared::read(&chat.tools, family)?;
        if let ToolChoice::Named(name) = &chat.tool_choice
            && !declared.contains(name)
        {
            let expected = "the name of one of the tools";
            return Err(EngineError::invalid_parameter(
                "tool_choice",
                name,
                expected,
            ));
        }
        let control = template.control_tokens();
        let special = family.markers().chain(HEADER_TOKENS);
        let special = special.filter(|marker| control.contains(marker));
        let special: BTreeMap<&'static str, u32> = special
            .filter_map(|marker| Some((marker, token_id(marker)?)))
            .collect();
        let rules = Rules {
            family,
            declared: &declared,
            choice: &chat.tool_choice,
            is_single: chat.single_tool_call,
            special: &special,
        };
        let constraint = rules.constraint();
        let loose = declared.tools.iter().filter(|tool| !tool.is_held);
        let unconstrained = loose.map(|tool| tool.name.clone()).collect();
        let markers = special.iter().map(|(marker, id)| (*id, *marker)).collect();
        Ok(Some(Self(Arc::new(Inner {
            family,
            declared,
            constraint,
            is_required: chat.tool_choice != ToolChoice::Auto,
            markers,
            unconstrained,
        }))))
    }

    /// Returns what the tools require of the response, if anything.
    pub fn constraint(&self) -> Option<&Constraint> {
        self.0.constraint.as_ref()
    }

    /// Returns the names of the tools whose schemas cannot be held: their arguments are any JSON object.
    pub fn unconstrained(&self) -> &[String] {
        &self.0.unconstrained
    }

    /// Returns the text of a special token that belongs to calls.
    pub(crate) fn marker(&self, token: u32) -> Option<&'static str> {
        self.0.markers.get(&token).copied()
    }

    pub(crate) fn stream(&self) -> ToolStream {
        ToolStream::new(self.0.family, self.0.is_required)
    }

    pub(crate) fn declared(&self) -> &Declared {
        &self.0.declared
    }

    /// Returns the id of a new call.
    pub(crate) fn new_id(&self) -> String {
        const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        // Every hasher of the standard library starts with random keys.
        let mut number = RandomState::new().build_hasher().finish();
        let digits = (0..9).map(|_| {
            let digit = DIGITS[(number % 62) as usize];
            number /= 62;
            char::from(digit)
        });
        let digits: String = digits.collect();
        match self.0.family.has_short_ids {
            true => digits,
            false => format!("call_{digits}"),
        }
    }
}

/// Special tokens of messages with headers, which a grammar names.
const HEADER_TOKENS: [&str; 4] = ["<|channel|>", "<|message|>", "<|start|>", "<|end|>"];

/// Renders a conversation, with the standard prompt if the template knows no tools.
///
/// # Errors
/// Those of [`ChatTemplate::render`].
pub(crate) fn render(
    template: &ChatTemplate,
    chat: &ChatPrompt,
    now: SystemTime,
) -> Result<RenderedPrompt, EngineError> {
    let without_tools;
    let chat = match chat.tool_choice {
        // The prompt does not name the tools.
        ToolChoice::None if !chat.tools.is_empty() => {
            without_tools = ChatPrompt {
                tools: Vec::new(),
                ..chat.clone()
            };
            &without_tools
        }
        _ => chat,
    };
    let ignores_tools = !chat.tools.is_empty() && !template.knows_tools();
    let ignores_calls = chat.has_tool_calls() && !template.knows_tool_calls();
    if !ignores_tools && !ignores_calls {
        return template.render(chat, now);
    }
    let chat = fallback::rewrite(chat);
    match template.render(&chat, now) {
        Err(error) => {
            let moved = fallback::without_system(&chat);
            template.render(&moved, now).map_err(|_| error)
        }
        rendered => rendered,
    }
}

#[cfg(test)]
mod grammar_tests;
#[cfg(test)]
mod tests;

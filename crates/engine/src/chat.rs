//! A conversation as chat templates see it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The author of a message. Serialized in the spelling that chat templates use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions to the model.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// Returns the spelling that chat templates use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text. Empty in a response that only calls tools.
    #[serde(default)]
    pub content: String,
    /// The name of the author, or of the tool whose result this is. Few templates write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tools that the model called in this response, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call whose result this is: its [`ToolCall::id`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// Creates a message.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            name: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }

    /// Creates a message whose text was given in parts. Templates take it as one text, so line
    /// breaks join them.
    pub fn from_parts<T: AsRef<str>>(role: Role, parts: impl IntoIterator<Item = T>) -> Self {
        let mut content = String::new();
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                content.push('\n');
            }
            content.push_str(part.as_ref());
        }
        Self::new(role, content)
    }

    /// Creates instructions to the model.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// Creates a message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a response of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// Creates the result of `call`.
    pub fn tool_result(call: &ToolCall, content: impl Into<String>) -> Self {
        Self {
            name: Some(call.function.name.clone()),
            tool_call_id: Some(call.id.clone()),
            ..Self::new(Role::Tool, content)
        }
    }
}

/// A call of a tool by the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Connects the call with its result. Some templates require a form: Mistral's, nine letters
    /// and digits.
    pub id: String,
    /// What was called.
    pub function: FunctionCall,
}

/// The function that a tool call names, as templates read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Its name in [`ChatPrompt::tools`].
    pub name: String,
    /// Its arguments, usually a JSON object.
    pub arguments: serde_json::Value,
}

impl ToolCall {
    /// Creates a call of the function `name`.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: serde_json::Value,
    ) -> Self {
        Self {
            id: id.into(),
            function: FunctionCall {
                name: name.into(),
                arguments,
            },
        }
    }
}

/// Which of the tools of a request the model may or must call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None. The prompt does not name the tools.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// A conversation that the model continues.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ChatPrompt {
    /// Messages, oldest first; the last one is usually the user's.
    pub messages: Vec<Message>,
    /// Turns reasoning on or off, in models that can do both; `None` uses the template's default.
    pub enable_thinking: Option<bool>,
    /// The tools that the model may call: function declarations, as templates expect them, such as
    /// `{"type": "function", "function": {"name": …, "description": …, "parameters": …}}`.
    pub tools: Vec<serde_json::Value>,
    /// Which of the tools the model may or must call.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The response may call at most one tool.
    #[serde(default)]
    pub single_tool_call: bool,
    /// The last message is an unfinished one of the model, and the response continues its text.
    #[serde(default)]
    pub continue_final_message: bool,
}

impl ChatPrompt {
    /// Returns the unfinished message that the response continues.
    pub(crate) fn unfinished_message(&self) -> Option<&Message> {
        self.messages.last().filter(|_| self.continue_final_message)
    }

    /// Returns true if the model called a tool in an earlier response.
    pub(crate) fn has_tool_calls(&self) -> bool {
        let mut messages = self.messages.iter();
        messages.any(|message| !message.tool_calls.is_empty())
    }

    /// Returns every text that a template gets from the caller. Definitions and arguments are JSON.
    pub(crate) fn texts(&self) -> Vec<Cow<'_, str>> {
        let mut texts = Vec::new();
        for message in &self.messages {
            let others = message.name.iter().chain(&message.tool_call_id);
            let others = [&message.content].into_iter().chain(others);
            texts.extend(others.map(|text| Cow::Borrowed(text.as_str())));
            for ToolCall { id, function } in &message.tool_calls {
                texts.push(Cow::Borrowed(id.as_str()));
                texts.push(Cow::Borrowed(function.name.as_str()));
                texts.push(Cow::Owned(function.arguments.to_string()));
            }
        }
        texts.extend(self.tools.iter().map(|tool| Cow::Owned(tool.to_string())));
        texts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plain_message_is_written_with_role_and_content_only() {
        let message = Message::user("Hi");
        let json = json!({"role": "user", "content": "Hi"});
        assert_eq!(serde_json::to_value(&message).unwrap(), json);
        assert_eq!(serde_json::from_value::<Message>(json).unwrap(), message);
    }

    #[test]
    fn calls_and_results_are_read_as_templates_spell_them() {
        let call = ToolCall::new("id1", "now", json!({"zone": "UTC"}));
        let called = Message {
            tool_calls: vec![call.clone()],
            ..Message::assistant("")
        };
        let json = json!({"role": "assistant", "tool_calls": [
            {"id": "id1", "type": "function",
             "function": {"name": "now", "arguments": {"zone": "UTC"}}},
        ]});
        assert_eq!(serde_json::from_value::<Message>(json).unwrap(), called);
        let result = Message::tool_result(&call, "12:00");
        let json = serde_json::to_value(&result).unwrap();
        assert_eq!(json["tool_call_id"], "id1");
        assert_eq!(json["name"], "now");
        assert_eq!(serde_json::from_value::<Message>(json).unwrap(), result);
    }

    #[test]
    fn parts_are_joined_with_line_breaks() {
        let text = |parts: &[&str]| Message::from_parts(Role::User, parts).content;
        assert_eq!(text(&["a", "", "b"]), "a\n\nb");
        assert_eq!(text(&["a"]), "a");
        assert_eq!(text(&[]), "");
    }
}

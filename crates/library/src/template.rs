//! What the chat template of a model can do with a request.

use transom_catalog::ModelFacts;
use transom_engine::{ChatTemplate, ControlTokens};

/// Returns whether the model reasons if the user does not choose; `None` if its chat template can't
/// switch that.
pub fn default_thinking(facts: &ModelFacts) -> Option<bool> {
    template_with(facts, "enable_thinking")?.default_thinking()
}

/// Returns true if every response of the model begins with reasoning: its chat template has the marks of a
/// reasoning section, and can't switch it.
pub fn always_reasons(facts: &ModelFacts) -> bool {
    let template = facts.chat_template.as_deref().unwrap_or("");
    has_reasoning_marks(template) && default_thinking(facts).is_none()
}

/// Returns true if a chat template has the marks of a reasoning section.
pub fn has_reasoning_marks(template: &str) -> bool {
    let mut marks = ["<think>", "<|channel|>", "[THINK]"].iter();
    marks.any(|mark| template.contains(mark))
}

/// Returns true if the chat template writes the names of the authors of messages.
pub fn knows_names(facts: &ModelFacts) -> bool {
    template_with(facts, "name").is_some_and(|template| template.knows_names())
}

/// Returns the chat template of a model if it contains `word`. Most templates don't name an option,
/// and compiling one takes time.
fn template_with(facts: &ModelFacts, word: &str) -> Option<ChatTemplate> {
    let source = facts.chat_template.as_deref()?;
    if !source.contains(word) {
        return None;
    }
    let special_tokens = [("bos_token", ""), ("eos_token", "")];
    ChatTemplate::new(source, special_tokens, ControlTokens::default()).ok()
}

//! Whether the chat template of a model can switch its reasoning on and off.

use transom_catalog::ModelFacts;
use transom_engine::{ChatTemplate, ControlTokens};

/// Returns whether the model reasons if the user does not choose; `None` if its chat template can't
/// switch that.
pub fn default_thinking(facts: &ModelFacts) -> Option<bool> {
    let source = facts.chat_template.as_deref()?;
    // Most templates don't name the option, and compiling one takes time.
    if !source.contains("enable_thinking") {
        return None;
    }
    let special_tokens = [("bos_token", ""), ("eos_token", "")];
    let template = ChatTemplate::new(source, special_tokens, ControlTokens::default());
    template.ok()?.default_thinking()
}

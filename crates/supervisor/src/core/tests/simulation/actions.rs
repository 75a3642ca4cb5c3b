//! What may happen, and which of it is tried together.

/// What may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core::tests) enum Action {
    RequestChat,
    RequestEmbed,
    RequestOther,
    RequestTwo,
    RequestLean,
    RequestLong,
    RequestSmall,
    LoadChat,
    CancelOldest,
    CancelNewest,
    Wait,
    Calm,
    Warning,
    Critical,
    AdvanceOldest,
    AdvanceNewest,
    RefuseNewest,
    CrashOldest,
    CrashNewest,
    BreakNewest,
    HangNewest,
    StickNewest,
    LowerBudget,
    UnloadAll,
    Pause,
    Resume,
    Quit,
}

/// What happens to models of one form.
pub(in crate::core::tests) const ACTIONS: &[Action] = &[
    Action::RequestChat,
    Action::RequestEmbed,
    Action::RequestOther,
    Action::LoadChat,
    Action::CancelOldest,
    Action::CancelNewest,
    Action::Wait,
    Action::Calm,
    Action::Warning,
    Action::Critical,
    Action::AdvanceOldest,
    Action::AdvanceNewest,
    Action::CrashOldest,
    Action::CrashNewest,
    Action::UnloadAll,
    Action::Quit,
];

/// What happens to a model of two forms, of which one or both may be refused, and to one that fits
/// only with a small KV cache.
pub(in crate::core::tests) const VARIANT_ACTIONS: &[Action] = &[
    Action::RequestTwo,
    Action::RequestLean,
    Action::CancelOldest,
    Action::Wait,
    Action::Calm,
    Action::Warning,
    Action::AdvanceOldest,
    Action::AdvanceNewest,
    Action::RefuseNewest,
    Action::CrashNewest,
    Action::UnloadAll,
];

/// What happens round a pause.
pub(in crate::core::tests) const PAUSE_ACTIONS: &[Action] = &[
    Action::RequestChat,
    Action::RequestOther,
    Action::LoadChat,
    Action::CancelOldest,
    Action::Wait,
    Action::Calm,
    Action::Critical,
    Action::AdvanceOldest,
    Action::AdvanceNewest,
    Action::CrashNewest,
    Action::Pause,
    Action::Resume,
];

/// What happens to one model that is asked for with several settings, beside another.
pub(in crate::core::tests) const SETTING_ACTIONS: &[Action] = &[
    Action::RequestChat,
    Action::RequestLong,
    Action::RequestSmall,
    Action::RequestOther,
    Action::LoadChat,
    Action::CancelOldest,
    Action::Wait,
    Action::AdvanceOldest,
    Action::AdvanceNewest,
    Action::CrashNewest,
];

/// What happens to models whose engine breaks, whose process says nothing more, or cannot be ended.
pub(in crate::core::tests) const FAULT_ACTIONS: &[Action] = &[
    Action::RequestChat,
    Action::RequestEmbed,
    Action::RequestOther,
    Action::CancelOldest,
    Action::Wait,
    Action::Calm,
    Action::Critical,
    Action::AdvanceOldest,
    Action::AdvanceNewest,
    Action::BreakNewest,
    Action::HangNewest,
    Action::StickNewest,
    Action::LowerBudget,
    Action::UnloadAll,
    Action::Quit,
];

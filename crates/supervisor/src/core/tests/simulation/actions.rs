//! The actions of histories, and groups of them that are tried together.

/// An action of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core::tests) enum Action {
    RequestChat,
    RequestEmbed,
    RequestOther,
    RequestTwo,
    RequestLean,
    RequestTalker,
    RequestLong,
    RequestSmall,
    LoadChat,
    CancelOldest,
    CancelNewest,
    Wait,
    NoPressure,
    Warning,
    Critical,
    AdvanceOldest,
    AdvanceNewest,
    EndNewestJob,
    RejectNewest,
    CrashOldest,
    CrashNewest,
    BreakNewest,
    SilenceNewest,
    MakeNewestUnkillable,
    LowerBudget,
    Forget,
    UnloadAll,
    Pause,
    Resume,
    Quit,
}

/// Actions for models with one variant.
pub(in crate::core::tests) const ACTIONS: &[Action] = &[
    Action::RequestChat,
    Action::RequestEmbed,
    Action::RequestOther,
    Action::LoadChat,
    Action::CancelOldest,
    Action::CancelNewest,
    Action::Wait,
    Action::NoPressure,
    Action::Warning,
    Action::Critical,
    Action::AdvanceOldest,
    Action::AdvanceNewest,
    Action::CrashOldest,
    Action::CrashNewest,
    Action::UnloadAll,
    Action::Quit,
];

/// Actions for a model with two variants, of which one or both may be rejected, one that fits only
/// with a small KV cache, and one that keeps other conversations in memory if there is room.
pub(in crate::core::tests) const VARIANT_ACTIONS: &[Action] = &[
    Action::RequestTwo,
    Action::RequestLean,
    Action::RequestTalker,
    Action::CancelOldest,
    Action::Wait,
    Action::NoPressure,
    Action::Warning,
    Action::AdvanceOldest,
    Action::AdvanceNewest,
    Action::RejectNewest,
    Action::CrashNewest,
    Action::UnloadAll,
];

/// Actions around a pause.
pub(in crate::core::tests) const PAUSE_ACTIONS: &[Action] = &[
    Action::RequestChat,
    Action::RequestOther,
    Action::LoadChat,
    Action::CancelOldest,
    Action::Wait,
    Action::NoPressure,
    Action::Critical,
    Action::AdvanceOldest,
    Action::AdvanceNewest,
    Action::CrashNewest,
    Action::Pause,
    Action::Resume,
];

/// Actions for one model that is requested with several settings, and another one.
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

/// Actions for requests that run beside each other.
pub(in crate::core::tests) const PARALLEL_ACTIONS: &[Action] = &[
    Action::RequestChat,
    Action::RequestEmbed,
    Action::RequestOther,
    Action::LoadChat,
    Action::CancelOldest,
    Action::CancelNewest,
    Action::Wait,
    Action::Warning,
    Action::Critical,
    Action::AdvanceOldest,
    Action::EndNewestJob,
    Action::CrashNewest,
    Action::BreakNewest,
    Action::SilenceNewest,
    Action::MakeNewestUnkillable,
    Action::LowerBudget,
    Action::Forget,
    Action::UnloadAll,
    Action::Pause,
    Action::Quit,
];

/// Actions for models whose engine fails, and whose process hangs or cannot be killed.
pub(in crate::core::tests) const FAULT_ACTIONS: &[Action] = &[
    Action::RequestChat,
    Action::RequestEmbed,
    Action::RequestOther,
    Action::CancelOldest,
    Action::Wait,
    Action::NoPressure,
    Action::Critical,
    Action::AdvanceOldest,
    Action::AdvanceNewest,
    Action::BreakNewest,
    Action::SilenceNewest,
    Action::MakeNewestUnkillable,
    Action::LowerBudget,
    Action::UnloadAll,
    Action::Quit,
];

//! What may happen, and which of it is tried together.

/// What may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core::tests) enum Move {
    AskChat,
    AskEmbed,
    AskOther,
    AskTwo,
    AskLean,
    AskLong,
    AskSmall,
    LoadChat,
    CancelOldest,
    CancelNewest,
    Wait,
    Calm,
    Warning,
    Critical,
    AnswerOldest,
    AnswerNewest,
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
pub(in crate::core::tests) const MOVES: &[Move] = &[
    Move::AskChat,
    Move::AskEmbed,
    Move::AskOther,
    Move::LoadChat,
    Move::CancelOldest,
    Move::CancelNewest,
    Move::Wait,
    Move::Calm,
    Move::Warning,
    Move::Critical,
    Move::AnswerOldest,
    Move::AnswerNewest,
    Move::CrashOldest,
    Move::CrashNewest,
    Move::UnloadAll,
    Move::Quit,
];

/// What happens to a model of two forms, of which one or both may be refused, and to one that fits
/// only with a small KV cache.
pub(in crate::core::tests) const FORM_MOVES: &[Move] = &[
    Move::AskTwo,
    Move::AskLean,
    Move::CancelOldest,
    Move::Wait,
    Move::Calm,
    Move::Warning,
    Move::AnswerOldest,
    Move::AnswerNewest,
    Move::RefuseNewest,
    Move::CrashNewest,
    Move::UnloadAll,
];

/// What happens round a pause.
pub(in crate::core::tests) const PAUSE_MOVES: &[Move] = &[
    Move::AskChat,
    Move::AskOther,
    Move::LoadChat,
    Move::CancelOldest,
    Move::Wait,
    Move::Calm,
    Move::Critical,
    Move::AnswerOldest,
    Move::AnswerNewest,
    Move::CrashNewest,
    Move::Pause,
    Move::Resume,
];

/// What happens to one model that is asked for with several settings, beside another.
pub(in crate::core::tests) const SETTING_MOVES: &[Move] = &[
    Move::AskChat,
    Move::AskLong,
    Move::AskSmall,
    Move::AskOther,
    Move::LoadChat,
    Move::CancelOldest,
    Move::Wait,
    Move::AnswerOldest,
    Move::AnswerNewest,
    Move::CrashNewest,
];

/// What happens to models whose engine breaks, whose process says nothing more, or cannot be ended.
pub(in crate::core::tests) const FAULT_MOVES: &[Move] = &[
    Move::AskChat,
    Move::AskEmbed,
    Move::AskOther,
    Move::CancelOldest,
    Move::Wait,
    Move::Calm,
    Move::Critical,
    Move::AnswerOldest,
    Move::AnswerNewest,
    Move::BreakNewest,
    Move::HangNewest,
    Move::StickNewest,
    Move::LowerBudget,
    Move::UnloadAll,
    Move::Quit,
];

//! Tests of every level of every signal, with the text that users see.

use super::{Governor, Tuning, machine, signals, tuning};

fn limits(gigabytes: u64, settings: &str, words: &str) -> String {
    let tuning: Tuning = tuning(settings);
    let mut governor = Governor::new(&machine(gigabytes), &tuning);
    governor.observe(signals(words), std::time::Duration::ZERO);
    let limits = governor.restrictions().limits.iter();
    limits.map(|limit| format!("  {limit}\n")).collect()
}

#[track_caller]
fn check(gigabytes: u64, settings: &str, expected: &str) {
    let lines = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let levels = lines.clone().filter(|line| line.starts_with("# "));
    let text: String = levels
        .map(|line| format!("{line}\n{}", limits(gigabytes, settings, &line[2..])))
        .collect();
    let expected: String = lines
        .map(|line| match line.starts_with("# ") {
            true => format!("{line}\n"),
            false => format!("  {line}\n"),
        })
        .collect();
    assert_eq!(text, expected, "\n--- got ---\n{text}");
}

#[test]
fn each_level_of_each_signal_shows_its_limits_and_reasons() {
    check(
        24,
        "default",
        "
        # quiet
        # warning
        shorter responses (1024 tokens): memory is short
        shorter context (4096 tokens): memory is short
        prefill steps of at most 512 tokens: memory is short
        models unload after 60 s unused: memory is short
        # critical
        new requests wait: memory is critically short
        shorter responses (1024 tokens): memory is critically short
        shorter context (4096 tokens): memory is critically short
        prefill steps of at most 512 tokens: memory is critically short
        speculative decoding is off: memory is critically short
        models unload at once: memory is critically short
        # thrashing
        shorter responses (1024 tokens): heavy swapping
        shorter context (4096 tokens): heavy swapping
        prefill steps of at most 512 tokens: heavy swapping
        models unload after 60 s unused: heavy swapping
        # fair
        # serious
        shorter responses (1024 tokens): this computer is hot
        prefill steps of at most 256 tokens: this computer is hot
        speculative decoding is off: this computer is hot
        text is drawn less often (every 100 ms): this computer is hot
        a smaller model is suggested: this computer is hot
        # overheated
        new requests wait: this computer is too hot
        shorter responses (1024 tokens): this computer is too hot
        prefill steps of at most 256 tokens: this computer is too hot
        speculative decoding is off: this computer is too hot
        text is drawn less often (every 100 ms): this computer is too hot
        a smaller model is suggested: this computer is too hot
        # low-power
        shorter responses (1024 tokens): Low Power Mode
        shorter context (4096 tokens): Low Power Mode
        speculative decoding is off: Low Power Mode
        text is drawn less often (every 100 ms): Low Power Mode
        models unload after 90 s unused: Low Power Mode
        a smaller model is suggested: Low Power Mode
        # battery
        models unload after 2 min unused: on battery
        ",
    );
}

#[test]
fn with_several_signals_each_limit_shows_the_strictest() {
    check(
        64,
        "default",
        "
        # warning serious low-power battery
        shorter responses (1024 tokens): memory is short
        shorter context (4096 tokens): memory is short
        prefill steps of at most 256 tokens: this computer is hot
        speculative decoding is off: this computer is hot
        text is drawn less often (every 100 ms): this computer is hot
        models unload after 60 s unused: memory is short
        a smaller model is suggested: this computer is hot
        # critical thrashing overheated
        running responses end early: heavy swapping
        new requests wait: memory is critically short
        shorter responses (1024 tokens): memory is critically short
        shorter context (4096 tokens): memory is critically short
        prefill steps of at most 256 tokens: this computer is too hot
        speculative decoding is off: memory is critically short
        text is drawn less often (every 100 ms): this computer is too hot
        models unload at once: memory is critically short
        a smaller model is suggested: this computer is too hot
        ",
    );
}

/// A pause is shown before the limits of signals.
#[test]
fn a_pause_is_a_limit_like_any_other() {
    let mut governor = Governor::new(&machine(24), &tuning("default"));
    governor.observe(signals("overheated"), std::time::Duration::ZERO);
    let before = governor.restrictions().clone();
    governor.set_paused(true);
    let first = governor.restrictions().limits[0].to_string();
    assert_eq!(first, "new requests wait: you paused it");
    governor.set_paused(false);
    assert_eq!(*governor.restrictions(), before);
}

#[test]
fn the_idle_limit_shows_the_machine_or_the_setting_as_its_reason() {
    check(
        16,
        "default",
        "
        # quiet
        models unload after 2 min unused: this computer has little memory
        # battery
        models unload after 90 s unused: on battery
        ",
    );
    check(
        64,
        "45",
        "
        # quiet
        models unload after 45 s unused: your setting
        # fair battery
        models unload after 45 s unused: your setting
        ",
    );
    check(
        16,
        "keep",
        "
        # quiet
        # battery
        ",
    );
}

//! Every short history: from each of several beginnings, all sequences of events up to a depth are
//! run through the core, equal states once. From every state reached, time must lead to the end of all
//! asks and to an empty house, whether workers answer or say nothing for ever, on a quiet machine and
//! on one whose memory is too short for each load.

use std::collections::HashSet;

use super::simulation::{
    FAULT_MOVES, FORM_MOVES, MOVES, Machine, Move, PAUSE_MOVES, SETTING_MOVES, Simulation,
};

/// Runs all histories of `depth` of these `moves` after `beginning`; returns how many states there
/// were. From each, a quiet machine comes to rest.
fn explore(beginning: &[Move], moves: &[Move], depth: usize) -> usize {
    explore_on(&[Machine::Roomy], beginning, moves, depth)
}

fn explore_on(machines: &[Machine], beginning: &[Move], moves: &[Move], depth: usize) -> usize {
    let mut first = Simulation::default();
    for &step in beginning {
        first.apply(step);
    }
    let mut seen = HashSet::from([first.key()]);
    let mut settles = vec![HashSet::new(); machines.len()];
    let mut frontier = vec![first];
    for _ in 0..depth {
        let mut next = Vec::new();
        for state in &frontier {
            for &step in moves {
                let mut after = state.clone();
                if after.apply(step) && seen.insert(after.key()) {
                    for (machine, settles) in machines.iter().zip(&mut settles) {
                        after.clone().settle(*machine, settles);
                    }
                    next.push(after);
                }
            }
        }
        frontier = next;
    }
    seen.len()
}

/// The searches see something: a search that dedups too eagerly would pass without looking.
#[track_caller]
fn check(beginning: &[Move], depth: usize, n_states: usize) {
    let n_seen = explore(beginning, MOVES, depth);
    assert!(n_seen > n_states, "only {n_seen} states were reached");
}

#[test]
fn no_history_from_nothing_breaks_a_rule() {
    check(&[], 6, 1_000);
}

#[test]
fn no_history_of_refused_forms_breaks_a_rule() {
    let n_seen = explore(&[Move::AskTwo], FORM_MOVES, 6);
    assert!(n_seen > 1_000, "only {n_seen} states were reached");
}

#[test]
fn no_history_of_faults_breaks_a_rule() {
    use Move::{AnswerNewest, AnswerOldest, AskChat, AskEmbed};
    let embedded = [AskEmbed, AnswerOldest, AnswerOldest, AnswerOldest];
    let answering = [AskChat, AnswerNewest, AnswerNewest];
    let beside = [&embedded[..], &answering[..]].concat();
    let machines = [Machine::Roomy, Machine::Tight];
    for beginning in [&[][..], &answering[..2], &answering, &beside] {
        let n_seen = explore_on(&machines, beginning, FAULT_MOVES, 4);
        assert!(n_seen > 1_000, "only {n_seen} states were reached");
    }
}

#[test]
fn no_history_of_changed_settings_breaks_a_rule() {
    use Move::{AnswerOldest, AskChat};
    let loaded = [AskChat, AnswerOldest, AnswerOldest, AnswerOldest];
    for beginning in [&loaded[..1], &loaded[..3], &loaded] {
        let n_seen = explore(beginning, SETTING_MOVES, 5);
        assert!(n_seen > 1_000, "only {n_seen} states were reached");
    }
}

#[test]
fn no_history_of_a_pause_breaks_a_rule() {
    use Move::{AnswerOldest, AskChat, Pause};
    let answering = [AskChat, AnswerOldest, AnswerOldest];
    for beginning in [&[AskChat, Pause][..], &answering] {
        let n_seen = explore(beginning, PAUSE_MOVES, 5);
        assert!(n_seen > 1_000, "only {n_seen} states were reached");
    }
}

#[test]
fn no_history_from_a_loading_model_breaks_a_rule() {
    check(&[Move::AskChat, Move::AnswerOldest], 5, 1_000);
}

#[test]
fn no_history_from_a_running_answer_beside_an_idle_model_breaks_a_rule() {
    use Move::{AnswerNewest, AnswerOldest, AskChat, AskEmbed};
    let embedded = [AskEmbed, AnswerOldest, AnswerOldest, AnswerOldest];
    let answering = [AskChat, AnswerNewest, AnswerNewest];
    check(&[&embedded[..], &answering[..]].concat(), 5, 1_000);
}

#[test]
fn no_history_from_a_model_that_makes_room_for_another_breaks_a_rule() {
    use Move::{AnswerNewest, AnswerOldest, AskChat, AskOther};
    let loaded = [AskChat, AnswerOldest, AnswerOldest, AnswerOldest];
    let switching = [AskOther, AnswerNewest];
    check(&[&loaded[..], &switching[..]].concat(), 5, 1_000);
}

#[test]
fn no_history_from_a_quitting_house_breaks_a_rule() {
    use Move::{AnswerOldest, AskChat, AskEmbed, Quit};
    check(
        &[AskChat, AnswerOldest, AnswerOldest, AskEmbed, Quit],
        6,
        20,
    );
}

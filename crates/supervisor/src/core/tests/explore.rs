//! Every short history: from each of several beginnings, all sequences of events up to a depth are
//! run through the core, equal states once. From every state reached, time must lead to the end of all
//! asks and to an empty house, whether workers answer or say nothing for ever, on a quiet machine and
//! on one whose memory is too short for each load.

use std::collections::HashSet;

use super::simulation::{
    ACTIONS, Action, FAULT_ACTIONS, MemoryCondition, PAUSE_ACTIONS, SETTING_ACTIONS, Simulation,
    VARIANT_ACTIONS,
};

/// Runs all histories of `depth` of these `actions` after `beginning`; returns how many states there
/// were. From each, a quiet machine comes to rest.
fn explore(beginning: &[Action], actions: &[Action], depth: usize) -> usize {
    explore_on(&[MemoryCondition::Plenty], beginning, actions, depth)
}

fn explore_on(
    machines: &[MemoryCondition],
    beginning: &[Action],
    actions: &[Action],
    depth: usize,
) -> usize {
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
            for &step in actions {
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
fn check(beginning: &[Action], depth: usize, n_states: usize) {
    let n_seen = explore(beginning, ACTIONS, depth);
    assert!(n_seen > n_states, "only {n_seen} states were reached");
}

#[test]
fn no_history_from_nothing_breaks_a_rule() {
    check(&[], 6, 1_000);
}

#[test]
fn no_history_of_refused_forms_breaks_a_rule() {
    let n_seen = explore(&[Action::RequestTwo], VARIANT_ACTIONS, 6);
    assert!(n_seen > 1_000, "only {n_seen} states were reached");
}

#[test]
fn no_history_of_faults_breaks_a_rule() {
    use Action::{AdvanceNewest, AdvanceOldest, RequestChat, RequestEmbed};
    let embedded = [RequestEmbed, AdvanceOldest, AdvanceOldest, AdvanceOldest];
    let answering = [RequestChat, AdvanceNewest, AdvanceNewest];
    let beside = [&embedded[..], &answering[..]].concat();
    let machines = [MemoryCondition::Plenty, MemoryCondition::Short];
    for beginning in [&[][..], &answering[..2], &answering, &beside] {
        let n_seen = explore_on(&machines, beginning, FAULT_ACTIONS, 4);
        assert!(n_seen > 1_000, "only {n_seen} states were reached");
    }
}

#[test]
fn no_history_of_changed_settings_breaks_a_rule() {
    use Action::{AdvanceOldest, RequestChat};
    let loaded = [RequestChat, AdvanceOldest, AdvanceOldest, AdvanceOldest];
    for beginning in [&loaded[..1], &loaded[..3], &loaded] {
        let n_seen = explore(beginning, SETTING_ACTIONS, 5);
        assert!(n_seen > 1_000, "only {n_seen} states were reached");
    }
}

#[test]
fn no_history_of_a_pause_breaks_a_rule() {
    use Action::{AdvanceOldest, Pause, RequestChat};
    let answering = [RequestChat, AdvanceOldest, AdvanceOldest];
    for beginning in [&[RequestChat, Pause][..], &answering] {
        let n_seen = explore(beginning, PAUSE_ACTIONS, 5);
        assert!(n_seen > 1_000, "only {n_seen} states were reached");
    }
}

#[test]
fn no_history_from_a_loading_model_breaks_a_rule() {
    check(&[Action::RequestChat, Action::AdvanceOldest], 5, 1_000);
}

#[test]
fn no_history_from_a_running_answer_beside_an_idle_model_breaks_a_rule() {
    use Action::{AdvanceNewest, AdvanceOldest, RequestChat, RequestEmbed};
    let embedded = [RequestEmbed, AdvanceOldest, AdvanceOldest, AdvanceOldest];
    let answering = [RequestChat, AdvanceNewest, AdvanceNewest];
    check(&[&embedded[..], &answering[..]].concat(), 5, 1_000);
}

#[test]
fn no_history_from_a_model_that_makes_room_for_another_breaks_a_rule() {
    use Action::{AdvanceNewest, AdvanceOldest, RequestChat, RequestOther};
    let loaded = [RequestChat, AdvanceOldest, AdvanceOldest, AdvanceOldest];
    let switching = [RequestOther, AdvanceNewest];
    check(&[&loaded[..], &switching[..]].concat(), 5, 1_000);
}

#[test]
fn no_history_from_a_quitting_house_breaks_a_rule() {
    use Action::{AdvanceOldest, Quit, RequestChat, RequestEmbed};
    check(
        &[
            RequestChat,
            AdvanceOldest,
            AdvanceOldest,
            RequestEmbed,
            Quit,
        ],
        6,
        20,
    );
}

//! Exhaustive search of short histories. From several starting points, runs all sequences of
//! actions up to a depth through the core, and each distinct state once. From every state, time
//! must end all requests and unload all models, whether workers reply or hang, with enough memory
//! and with memory that is critically short during each load.

use std::collections::HashSet;

use super::simulation::{
    ACTIONS, Action, FAULT_ACTIONS, MemoryCondition, PARALLEL_ACTIONS, PAUSE_ACTIONS,
    SETTING_ACTIONS, Simulation, VARIANT_ACTIONS,
};

/// The embedding model is idle, and the chat model generates.
const BESIDE_AN_EMBEDDER: &[Action] = &[
    Action::RequestEmbed,
    Action::AdvanceOldest,
    Action::AdvanceOldest,
    Action::AdvanceOldest,
    Action::RequestChat,
    Action::AdvanceNewest,
    Action::AdvanceNewest,
];

/// Runs all histories of `depth` of these `actions` after `beginning`; returns the number of
/// states. Each state must settle with enough memory.
fn explore(beginning: &[Action], actions: &[Action], depth: usize) -> usize {
    let machines = [MemoryCondition::Plenty];
    explore_on(Simulation::default(), &machines, beginning, actions, depth)
}

fn explore_on(
    mut first: Simulation,
    machines: &[MemoryCondition],
    beginning: &[Action],
    actions: &[Action],
    depth: usize,
) -> usize {
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

/// Requires a minimum number of states, because a search that treats different states as equal
/// would test nothing.
#[track_caller]
fn check(beginning: &[Action], depth: usize, n_states: usize) {
    let n_seen = explore(beginning, ACTIONS, depth);
    assert!(n_seen > n_states, "only {n_seen} states were reached");
}

#[test]
fn no_history_from_the_start_violates_an_invariant() {
    check(&[], 6, 1_000);
}

#[test]
fn no_history_of_rejected_variants_violates_an_invariant() {
    let n_seen = explore(&[Action::RequestTwo], VARIANT_ACTIONS, 6);
    assert!(n_seen > 1_000, "only {n_seen} states were reached");
}

#[test]
fn no_history_of_faults_violates_an_invariant() {
    use Action::{AdvanceNewest, RequestChat};
    let answering = [RequestChat, AdvanceNewest, AdvanceNewest];
    let machines = [MemoryCondition::Plenty, MemoryCondition::Short];
    for beginning in [&[][..], &answering[..2], &answering, BESIDE_AN_EMBEDDER] {
        let n_seen = explore_on(
            Simulation::default(),
            &machines,
            beginning,
            FAULT_ACTIONS,
            4,
        );
        assert!(n_seen > 1_000, "only {n_seen} states were reached");
    }
}

#[test]
fn no_history_of_requests_beside_each_other_violates_an_invariant() {
    use Action::{AdvanceOldest, RequestChat};
    let answering = [RequestChat, AdvanceOldest, AdvanceOldest];
    let machines = [MemoryCondition::Plenty, MemoryCondition::Short];
    for beginning in [
        answering.to_vec(),
        [&answering[..], &[RequestChat; 2]].concat(),
        BESIDE_AN_EMBEDDER.to_vec(),
    ] {
        let first = Simulation::with_parallel(3);
        let n_seen = explore_on(first, &machines, &beginning, PARALLEL_ACTIONS, 4);
        assert!(n_seen > 1_000, "only {n_seen} states were reached");
    }
}

#[test]
fn no_history_of_changed_settings_violates_an_invariant() {
    use Action::{AdvanceOldest, RequestChat};
    let loaded = [RequestChat, AdvanceOldest, AdvanceOldest, AdvanceOldest];
    for beginning in [&loaded[..1], &loaded[..3], &loaded] {
        let n_seen = explore(beginning, SETTING_ACTIONS, 5);
        assert!(n_seen > 1_000, "only {n_seen} states were reached");
    }
}

#[test]
fn no_history_of_a_pause_violates_an_invariant() {
    use Action::{AdvanceOldest, Pause, RequestChat};
    let answering = [RequestChat, AdvanceOldest, AdvanceOldest];
    for beginning in [&[RequestChat, Pause][..], &answering] {
        let n_seen = explore(beginning, PAUSE_ACTIONS, 5);
        assert!(n_seen > 1_000, "only {n_seen} states were reached");
    }
}

#[test]
fn no_history_from_a_loading_model_violates_an_invariant() {
    check(&[Action::RequestChat, Action::AdvanceOldest], 5, 1_000);
}

#[test]
fn no_history_from_a_running_response_and_an_idle_model_violates_an_invariant() {
    check(BESIDE_AN_EMBEDDER, 5, 1_000);
}

#[test]
fn no_history_from_an_eviction_violates_an_invariant() {
    use Action::{AdvanceNewest, AdvanceOldest, RequestChat, RequestOther};
    let loaded = [RequestChat, AdvanceOldest, AdvanceOldest, AdvanceOldest];
    let switching = [RequestOther, AdvanceNewest];
    check(&[&loaded[..], &switching[..]].concat(), 5, 1_000);
}

#[test]
fn no_history_from_a_quit_violates_an_invariant() {
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

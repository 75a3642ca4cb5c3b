//! Long random histories, for cases that need more steps than an exhaustive search can try.

use std::collections::HashSet;

use proptest::prelude::*;

use super::simulation::{
    ACTIONS, Action, FAULT_ACTIONS, MemoryCondition, Simulation, VARIANT_ACTIONS,
};

/// A long history without a quit; workers reply more often than they crash.
fn histories() -> impl Strategy<Value = Vec<Action>> {
    let anything = proptest::sample::select([ACTIONS, VARIANT_ACTIONS, FAULT_ACTIONS].concat())
        .prop_filter("no quit in the middle", |m| *m != Action::Quit);
    let step = prop_oneof![
        3 => Just(Action::AdvanceOldest),
        1 => Just(Action::AdvanceNewest),
        4 => anything,
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_long_history_violates_an_invariant_and_each_settles(history in histories(), quits in any::<bool>()) {
        let mut simulation = Simulation::default();
        for step in history {
            simulation.apply(step);
        }
        if quits {
            simulation.apply(Action::Quit);
        }
        simulation.clone().settle(MemoryCondition::Plenty, &mut HashSet::new());
        simulation.settle(MemoryCondition::Short, &mut HashSet::new());
    }
}

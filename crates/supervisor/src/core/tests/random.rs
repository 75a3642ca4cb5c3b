//! Long random histories, for what needs more steps than can be tried exhaustively.

use std::collections::HashSet;

use proptest::prelude::*;

use super::simulation::{FAULT_MOVES, FORM_MOVES, MOVES, Machine, Move, Simulation};

/// A long life without its end; workers answer more often than they die.
fn lives() -> impl Strategy<Value = Vec<Move>> {
    let anything = proptest::sample::select([MOVES, FORM_MOVES, FAULT_MOVES].concat())
        .prop_filter("it goes on", |m| *m != Move::Quit);
    let step = prop_oneof![
        3 => Just(Move::AnswerOldest),
        1 => Just(Move::AnswerNewest),
        4 => anything,
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_long_life_breaks_a_rule_and_each_comes_to_rest(life in lives(), quits in any::<bool>()) {
        let mut simulation = Simulation::default();
        for step in life {
            simulation.apply(step);
        }
        if quits {
            simulation.apply(Move::Quit);
        }
        simulation.clone().settle(Machine::Roomy, &mut HashSet::new());
        simulation.settle(Machine::Tight, &mut HashSet::new());
    }
}

//! What people are told before a load against what decides at the load: the catalogue's budget and
//! verdicts, and the supervisor's.

use transom_catalog::ModelFacts;
use transom_catalog::estimate::{self, Budget, Machine, Room, Verdict, Wish, estimate};
use transom_engine::{Limits, MemoryNeed};
use transom_signals::{Hardware, MemoryPressure};
use transom_supervisor::{Tuning, budget};

use crate::files;

const GIB: u64 = 1 << 30;

fn hardware(machine: &Machine) -> Hardware {
    Hardware {
        chip_name: String::new(),
        memory_bytes: machine.memory_bytes,
        n_performance_cores: 4,
        n_cores: 8,
        working_set_bytes: machine.working_set_bytes,
        working_set_is_estimated: false,
    }
}

/// Macs of every size, machines without a GPU, and some that nobody sells.
fn machines() -> Vec<Machine> {
    let sizes = [
        0, 1, 3, 4, 8, 12, 16, 18, 24, 32, 36, 48, 64, 96, 128, 192, 512,
    ];
    let mut machines = Vec::new();
    for size in sizes {
        machines.push(Machine::with_memory(size * GIB));
        machines.push(Machine::new(size * GIB + 12_345, None, "", None));
        machines.push(Machine::new(size * GIB, Some(GIB / 4), "", None));
    }
    machines
}

fn supervisors(machine: &Machine, setting: Option<u64>) -> transom_supervisor::Budget {
    let tuning = Tuning {
        memory_budget_bytes: setting,
        ..Tuning::default()
    };
    transom_supervisor::Budget::for_machine(&hardware(machine), &tuning)
}

#[test]
fn budgets_are_the_same_before_a_load_and_at_it() {
    for machine in machines() {
        for setting in [None, Some(0), Some(3 * GIB), Some(1 << 50)] {
            let told = Budget::of(&machine, setting).total_bytes;
            let decides = supervisors(&machine, setting).total_bytes(MemoryPressure::Normal);
            assert_eq!(told, decides, "{machine:?}, {setting:?}");
        }
    }
    let default = Limits::default().context_length as u64;
    assert_eq!(estimate::DEFAULT_CONTEXT, default);
}

/// The starter's facts, as if it were larger.
fn model(weight_bytes: u64, n_layers: u64) -> ModelFacts {
    let facts = transom_catalog::inspect(&files::starter_folder()).unwrap();
    ModelFacts {
        weight_bytes,
        n_parameters: weight_bytes * 2,
        n_layers: Some(n_layers),
        n_kv_heads: vec![8; n_layers as usize],
        layers: Vec::new(),
        context_length: Some(32_768),
        ..facts
    }
}

#[test]
fn verdicts_are_the_same_before_a_load_and_at_it() {
    let mut n_fit = 0;
    let mut n_shortened = 0;
    for machine in machines() {
        let budget = Budget::of(&machine, None);
        for step in 1..40 {
            let facts = model(step * GIB / 2, 16 + step);
            let told = estimate(&Wish::of(&facts), &machine, &Room::all_of(&budget));
            let need = told.need;
            let need = MemoryNeed {
                weight_bytes: need.weight_bytes,
                kv_cache_bytes: need.kv_cache_bytes,
                activation_bytes: need.activation_bytes,
                cache_bytes: need.cache_bytes,
                context_length: need.context_length as usize,
            };
            let pressure = MemoryPressure::Normal;
            let decided = supervisors(&machine, None).decide(&need, 0, 0, pressure);
            let both = format!("{machine:?}: {told:?}, {decided:?}");
            match (told.verdict, decided) {
                (Verdict::Fits, budget::Verdict::Fits) => n_fit += 1,
                // At a load the context is shortened as if only keys and values became less, so it
                // may come out shorter, never longer.
                (
                    Verdict::FitsWithContext { context_length },
                    budget::Verdict::FitsWithContext(decided),
                ) => {
                    n_shortened += 1;
                    assert!(decided as u64 <= context_length, "{both}");
                    assert!(decided as u64 + 2048 >= context_length, "{both}");
                }
                (Verdict::FitsWithContext { .. }, budget::Verdict::TooLarge { .. })
                | (Verdict::DoesNotFit { .. }, budget::Verdict::TooLarge { .. }) => {}
                _ => panic!("{both}"),
            }
        }
    }
    assert!(n_fit > 100 && n_shortened > 10, "{n_fit} {n_shortened}");
}

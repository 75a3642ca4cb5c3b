//! Recommended models by memory size, including this computer.

use transom_library::Library;
use transom_library::{ModelPair, PairKind, Recommendation, Recommendations};

use super::speed_view;
use crate::wire::{PairKindView, PairView, PickView, TierView};

/// Returns all memory sizes, smallest first. This computer replaces the Mac with the same memory.
pub(crate) fn views(library: &Library) -> Vec<TierView> {
    let own = library.machine().specs().memory_bytes;
    let tiers = library.recommended_by_memory().into_iter();
    tiers
        .map(|tier| {
            let is_this_computer = tier.memory_bytes == own;
            tier_view(tier, is_this_computer)
        })
        .collect()
}

fn tier_view(tier: Recommendations, is_this_computer: bool) -> TierView {
    TierView {
        memory_bytes: tier.memory_bytes,
        room_bytes: tier.budget_bytes,
        is_this_computer,
        chat: tier.chat.map(pick_view),
        code: tier.code.map(pick_view),
        small: tier.small.map(pick_view),
        pair: tier.pair.map(pair_view),
    }
}

/// Converts two models that fit together for pages.
pub(super) fn pair_view(pair: ModelPair) -> PairView {
    PairView {
        kind: match pair.kind {
            PairKind::Draft => PairKindView::Draft,
            PairKind::Embedding => PairKindView::Embedding,
        },
        main: pick_view(pair.main),
        second: pick_view(pair.second),
        need_bytes: pair.need_bytes,
    }
}

fn pick_view(pick: Recommendation) -> PickView {
    PickView {
        need_bytes: pick.estimate.need.total_bytes(),
        speed: speed_view(&pick.estimate),
        entry: pick.id,
        name: pick.name,
        packing: pick.quantization,
    }
}

#[cfg(test)]
mod tests {
    use transom_library::test_support::mac;
    use transom_library::{Catalog, Places};

    use super::*;

    #[test]
    fn rows_match_the_table_of_the_command_line() {
        let library = Library::new(Catalog::built_in(), Places::default(), mac(16));
        for row in views(&library) {
            let mac = library.with_machine(mac(row.memory_bytes >> 30));
            assert_eq!(tier_view(mac.recommended(), row.is_this_computer), row);
            let pair = row.pair.expect("every size has two that fit");
            let need = pair.main.need_bytes + pair.second.need_bytes;
            assert_eq!(pair.need_bytes, need);
            assert!(need <= row.room_bytes);
        }
    }
}

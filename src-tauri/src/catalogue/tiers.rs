//! Which models are recommended for computers of every size, this one among them.
//!
//! Rule: the row of this computer goes by its own budget and speed, as all that is recommended in
//! the list does; the others are the Macs of the catalogue's table.

use transom_catalog::entries::Catalogue;
use transom_catalog::tiers::{self, MEMORY_SIZES, Pair, PairKind, Pick, Tier};

use crate::here::{Here, speed_view};
use crate::wire::{PairKindView, PairView, PickView, TierView};

/// Every size, smallest first. This computer stands in place of a Mac with as much memory.
pub(crate) fn views(list: &Catalogue, here: &Here) -> Vec<TierView> {
    let own = of(list, here);
    let others = MEMORY_SIZES.into_iter();
    let others = others.filter(|bytes| *bytes != own.memory_bytes);
    let mut views: Vec<TierView> = others
        .map(|bytes| tier_view(tiers::recommended(bytes, list), false))
        .collect();
    views.push(tier_view(own, true));
    views.sort_by_key(|view| view.memory_bytes);
    views
}

/// What is recommended for this computer.
pub(super) fn of(list: &Catalogue, here: &Here) -> Tier {
    tiers::recommended_for(&here.machine, Some(here.room.budget_bytes), list)
}

fn tier_view(tier: Tier, is_here: bool) -> TierView {
    TierView {
        memory_bytes: tier.memory_bytes,
        room_bytes: tier.budget_bytes,
        is_here,
        chat: tier.chat.map(pick_view),
        code: tier.code.map(pick_view),
        small: tier.small.map(pick_view),
        pair: tier.pair.map(pair_view),
    }
}

/// Two models that fit side by side, in a window's terms.
pub(super) fn pair_view(pair: Pair) -> PairView {
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

fn pick_view(pick: Pick) -> PickView {
    PickView {
        need_bytes: pick.estimate.need.total_bytes(),
        speed: speed_view(&pick.estimate),
        entry: pick.id,
        name: pick.name,
        packing: pick.packing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::here::tests::mac;

    const GIB: u64 = 1 << 30;

    fn rows(gigabytes: u64) -> Vec<TierView> {
        views(&Catalogue::built_in(), &mac(gigabytes))
    }

    #[test]
    fn this_computer_stands_once_among_all_sizes_in_order() {
        for (gigabytes, n_rows) in [(16, 9), (18, 10), (512, 10)] {
            let rows = rows(gigabytes);
            assert_eq!(rows.len(), n_rows, "{gigabytes} GB");
            let memory = |row: &TierView| row.memory_bytes;
            assert!(rows.windows(2).all(|two| memory(&two[0]) < memory(&two[1])));
            let own: Vec<&TierView> = rows.iter().filter(|row| row.is_here).collect();
            assert_eq!(own.len(), 1);
            assert_eq!(own[0].memory_bytes, gigabytes * GIB);
        }
    }

    #[test]
    fn rows_say_what_the_table_of_the_command_line_says() {
        let list = Catalogue::built_in();
        for row in rows(16) {
            let tier = tiers::recommended(row.memory_bytes, &list);
            assert_eq!(tier_view(tier, row.is_here), row);
        }
    }

    #[test]
    fn two_models_need_together_what_each_needs_and_fit() {
        for row in rows(16) {
            let pair = row.pair.expect("every size has two that fit");
            let need = pair.main.need_bytes + pair.second.need_bytes;
            assert_eq!(pair.need_bytes, need);
            assert!(need <= row.room_bytes, "{} GB", row.memory_bytes / GIB);
        }
    }

    #[test]
    fn a_budget_that_was_set_holds_for_this_computer_alone() {
        let mut here = mac(64);
        here.room.budget_bytes = 8 * GIB;
        let views = views(&Catalogue::built_in(), &here);
        let own = views.iter().find(|row| row.is_here).unwrap();
        assert_eq!(own.room_bytes, 8 * GIB);
        assert!(own.chat.as_ref().unwrap().need_bytes <= 8 * GIB);
        let larger = views.iter().find(|row| row.memory_bytes == 96 * GIB);
        assert!(larger.unwrap().room_bytes > 64 * GIB);
    }
}

//! Decides what is removed so that a model can save its KV caches, and how much it may write.

use crate::saving::SavingLimits;

/// A saved conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) bytes: u64,
    /// When it was used last.
    pub(super) used_at: u64,
}

/// The disk before a model saves its KV caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) free_bytes: u64,
    /// Bytes that were written today.
    pub(super) written_bytes: u64,
    /// Bytes that other saves, which have not ended, may still write.
    pub(super) granted_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The indices of the conversations to remove, in order.
    pub(super) removed: Vec<usize>,
    /// The bytes that may be written then; 0 if nothing may be saved.
    pub(super) max_bytes: u64,
}

/// Makes room for `new_bytes` bytes. Removes the conversations that were used least recently, and
/// never more than necessary.
pub(super) fn plan_save(
    stored: &[Stored],
    new_bytes: u64,
    disk: Disk,
    limits: &SavingLimits,
) -> Plan {
    let nothing = Plan {
        removed: Vec::new(),
        max_bytes: 0,
    };
    if disk.free_bytes < limits.min_free_bytes {
        return nothing;
    }
    let stored_bytes = stored.iter().map(|stored| stored.bytes);
    let mut used_bytes = stored_bytes.fold(0, u64::saturating_add);
    // What is removed becomes free.
    let quarter = disk.free_bytes.saturating_add(used_bytes) / 4;
    let limit = limits.max_bytes.min(quarter);
    let limit = limit.saturating_sub(disk.granted_bytes);
    let left_today = limits.max_daily_bytes.saturating_sub(disk.written_bytes);
    let left_today = left_today.saturating_sub(disk.granted_bytes);
    let max_bytes = new_bytes.min(limit).min(left_today);
    if max_bytes == 0 {
        return nothing;
    }
    let mut oldest_first: Vec<usize> = (0..stored.len()).collect();
    oldest_first.sort_by_key(|&index| stored[index].used_at);
    let mut removed = Vec::new();
    for index in oldest_first {
        if used_bytes.saturating_add(max_bytes) <= limit {
            break;
        }
        used_bytes -= stored[index].bytes;
        removed.push(index);
    }
    removed.sort_unstable();
    Plan { removed, max_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SavingLimits = SavingLimits {
        max_bytes: 100,
        min_free_bytes: 50,
        max_daily_bytes: 1000,
        max_age: std::time::Duration::MAX,
        free_bytes: None,
    };

    /// Conversations of these sizes; the first was used last.
    fn stored(bytes: &[u64]) -> Vec<Stored> {
        let stored = bytes.iter().zip((0..1000).rev());
        stored
            .map(|(&bytes, used_at)| Stored { bytes, used_at })
            .collect()
    }

    #[test]
    fn the_least_recently_used_conversations_make_room() {
        type Case<'a> = (&'a [u64], [u64; 4], &'a [usize], u64);
        // Sizes; new bytes, free bytes, bytes of today, bytes of other saves; removed; allowed.
        let cases: [Case<'_>; 18] = [
            (&[], [10, 1000, 0, 0], &[], 10),
            (&[], [0, 1000, 0, 0], &[], 0),
            (&[40, 50], [10, 1000, 0, 0], &[], 10),
            (&[40, 50], [11, 1000, 0, 0], &[1], 11),
            (&[40, 50], [61, 1000, 0, 0], &[0, 1], 61),
            // More than fits at all.
            (&[40, 50], [500, 1000, 0, 0], &[0, 1], 100),
            (&[10, 10, 80], [10, 1000, 0, 0], &[2], 10),
            // A full disk.
            (&[40], [10, 49, 0, 0], &[], 0),
            (&[], [20, 50, 0, 0], &[], 12),
            (&[10], [10, 50, 0, 0], &[0], 10),
            // The budget of the day.
            (&[], [10, 1000, 995, 0], &[], 5),
            (&[40, 56], [10, 1000, 995, 0], &[1], 5),
            (&[40, 50], [10, 1000, 1000, 0], &[], 0),
            // Other saves.
            (&[], [50, 1000, 0, 60], &[], 40),
            (&[40], [50, 1000, 0, 10], &[], 50),
            (&[40], [50, 1000, 0, 11], &[0], 50),
            (&[], [10, 1000, 960, 35], &[], 5),
            (&[40], [10, 1000, 0, 100], &[], 0),
        ];
        for (sizes, numbers, removed, max_bytes) in cases {
            let [new_bytes, free_bytes, written_bytes, granted_bytes] = numbers;
            let disk = Disk {
                free_bytes,
                written_bytes,
                granted_bytes,
            };
            let plan = plan_save(&stored(sizes), new_bytes, disk, &LIMITS);
            let expected = Plan {
                removed: removed.to_vec(),
                max_bytes,
            };
            assert_eq!(plan, expected, "{sizes:?} {new_bytes} {disk:?}");
        }
    }

    /// The limits hold for every plan: for what stays, what may be written, and other saves.
    #[test]
    fn the_limits_are_never_exceeded() {
        for seed in 0..2000_u64 {
            let sizes: Vec<u64> = (0..seed % 7).map(|n| (seed * 31 + n * 17) % 60).collect();
            let all = stored(&sizes);
            let disk = Disk {
                free_bytes: (seed * 13) % 500,
                written_bytes: (seed * 7) % 1100,
                granted_bytes: (seed * 11) % 130,
            };
            let plan = plan_save(&all, seed % 150, disk, &LIMITS);
            let is_kept = |index: &usize| !plan.removed.contains(index);
            let kept: u64 = (0..all.len())
                .filter(is_kept)
                .map(|index| sizes[index])
                .sum();
            let total: u64 = sizes.iter().sum();
            if plan.max_bytes > 0 {
                let new_bytes = plan.max_bytes + disk.granted_bytes;
                assert!(kept + new_bytes <= 100.min((disk.free_bytes + total) / 4));
                assert!(disk.written_bytes + new_bytes <= 1000);
                assert!(disk.free_bytes >= 50);
            }
        }
    }
}

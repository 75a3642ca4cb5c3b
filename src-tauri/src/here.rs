//! This machine as estimates see it: its memory and speed, what models may use now, and what was
//! measured before.
//!
//! Rule: the budget is the supervisor's own, as it is in force; only what other programs hold is
//! asked of the system, because a verdict before a download has to say it.

use std::path::Path;
use std::sync::OnceLock;

use transom_catalog::ModelFacts;
use transom_catalog::estimate::{self, Bandwidth, Estimate, Machine, Room, Verdict, Wish};
use transom_catalog::fit::{self, KvChoice};
use transom_catalog::measured::{self, Key, Measured, Record};
use transom_signals::{Hardware, available_bytes};

use crate::wire::{SpeedView, VerdictView};

/// See the head of this file.
#[derive(Debug, Clone)]
pub(crate) struct Here {
    /// What estimates go by.
    pub(crate) machine: Machine,
    /// What there is for models.
    pub(crate) room: Room,
    measured: Measured,
}

impl Here {
    /// The machine now. `budget_bytes` and `in_use_bytes` are the supervisor's. Reads a file. How fast
    /// models answer is known where that was published of the chip, or measured before.
    pub(crate) fn now(
        hardware: &Hardware,
        budget_bytes: u64,
        in_use_bytes: u64,
        data_folder: &Path,
    ) -> Self {
        let measured = Measured::read(&data_folder.join(measured::FILE_NAME));
        let chip = &hardware.chip_name;
        let machine = Machine::new(
            hardware.memory_bytes,
            hardware.working_set_bytes,
            chip,
            measured.bandwidth(chip),
        );
        let room = Room {
            budget_bytes,
            // Whatever else is loaded makes room.
            taken_bytes: 0,
            available_bytes: available_bytes().map(|bytes| bytes.saturating_add(in_use_bytes)),
        };
        Self {
            machine,
            room,
            measured,
        }
    }

    /// The same, with how fast memory delivers. Where nothing is published of the chip, that is
    /// measured once by each of the first few programs that ask, which takes half a second, and
    /// remembered: for views of models, and never while somebody waits for an answer.
    pub(crate) fn timed(self, hardware: &Hardware, data_folder: &Path) -> Self {
        static MEASURED: OnceLock<u64> = OnceLock::new();
        let chip = &hardware.chip_name;
        self.timed_by(chip, &MEASURED, || {
            let rate = transom_signals::measure_bandwidth();
            let path = data_folder.join(measured::FILE_NAME);
            if let Err(error) = measured::record_bandwidth(&path, chip, rate) {
                tracing::info!(%error, "how fast the memory is will be measured again");
            }
            rate
        })
    }

    fn timed_by(mut self, chip: &str, once: &OnceLock<u64>, measure: impl FnOnce() -> u64) -> Self {
        if self.measured.wants_bandwidth(chip) {
            let rate = (*once.get_or_init(measure)).max(self.measured.bandwidth(chip).unwrap_or(0));
            self.machine.bandwidth = Some(Bandwidth::measured(rate));
        }
        self
    }

    /// What is known of a model with these choices. `path` is that of the form that runs, where it is
    /// there.
    pub(crate) fn estimate(
        &self,
        facts: &ModelFacts,
        path: Option<&Path>,
        kv: KvChoice,
        context_length: u64,
    ) -> Estimate {
        let known = path.and_then(|path| self.known(facts, path, kv));
        let wish = Wish {
            kv,
            context_length,
            known,
            ..Wish::of(facts)
        };
        estimate::estimate(&wish, &self.machine, &self.room)
    }

    /// Bytes by which earlier uses correct what an engine will compute for this form.
    pub(crate) fn correction(&self, facts: &ModelFacts, path: &Path, kv: KvChoice) -> i64 {
        let known = self.known(facts, path, kv);
        known.map_or(0, |known| known.correction(facts, &self.machine, kv))
    }

    fn known(&self, facts: &ModelFacts, path: &Path, kv: KvChoice) -> Option<&Record> {
        self.measured.of(&key(facts, path, &self.machine, kv))
    }
}

/// By which a form of a model is remembered.
pub(crate) fn key(facts: &ModelFacts, path: &Path, machine: &Machine, kv: KvChoice) -> Key {
    let kv = fit::kv_type(facts, &machine.for_fit(), kv);
    Key::of_path(path, facts.format, kv)
}

/// A verdict in a window's terms.
pub(crate) fn verdict_view(estimate: &Estimate) -> VerdictView {
    match estimate.verdict {
        Verdict::Fits => VerdictView::Fits,
        Verdict::FitsWithContext { context_length } => VerdictView::Context {
            tokens: u32::try_from(context_length).unwrap_or(u32::MAX),
        },
        Verdict::FitsIfOthersClose { needs_bytes_free } => VerdictView::OthersClose {
            bytes: needs_bytes_free,
        },
        Verdict::DoesNotFit { .. } => VerdictView::TooLarge {
            need_bytes: estimate.need.total_bytes(),
            room_bytes: estimate.room_bytes,
        },
    }
}

/// A speed in a window's terms.
pub(crate) fn speed_view(estimate: &Estimate) -> Option<SpeedView> {
    estimate.speed.map(|speed| SpeedView {
        low: speed.low,
        high: speed.high,
        is_measured: speed.is_measured,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A Mac with so much memory that does nothing else.
    pub(crate) fn mac(gigabytes: u64) -> Here {
        let machine = Machine::with_memory(gigabytes * GIB);
        let budget = estimate::Budget::of(&machine, None);
        Here {
            room: Room::all_of(&budget),
            machine,
            measured: Measured::default(),
        }
    }

    #[test]
    fn what_a_loaded_model_takes_is_free_for_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let hardware = Hardware::detect();
        let here = Here::now(&hardware, 8 * GIB, 1 << 50, folder.path());
        assert!(here.room.available_bytes.unwrap() > 1 << 50);
        assert_eq!(here.room.budget_bytes, 8 * GIB);
    }

    #[test]
    fn how_fast_memory_is_is_measured_where_nobody_knows_until_that_is_settled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(measured::FILE_NAME);
        let rate_of = |chip: &str, once: &OnceLock<u64>, measure: &dyn Fn() -> u64| {
            let hardware = Hardware {
                chip_name: chip.to_owned(),
                ..Hardware::detect()
            };
            let here = Here::now(&hardware, 8 * GIB, 0, folder.path());
            let timed = here.timed_by(chip, once, measure);
            timed.machine.bandwidth.unwrap().low_bytes_per_second
        };
        let never = || panic!("it is known");
        let (unknown, once) = ("of tomorrow", OnceLock::new());
        assert_eq!(rate_of(unknown, &once, &|| 20_000_000_000), 20_000_000_000);
        assert_eq!(rate_of(unknown, &once, &never), 20_000_000_000);
        // A program that starts later measures anew; the highest counts.
        for _ in 0..3 {
            measured::record_bandwidth(&path, unknown, 40_000_000_000).unwrap();
        }
        assert_eq!(rate_of(unknown, &OnceLock::new(), &never), 40_000_000_000);
        let published = Bandwidth::of_chip("Apple M3").unwrap();
        let rate = rate_of("Apple M3", &OnceLock::new(), &never);
        assert_eq!(rate, published.low_bytes_per_second);
    }
}

//! This machine: its memory and bandwidth, its memory budget, and measurements of earlier responses.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use transom_catalog::estimate::AvailableMemory;
use transom_catalog::fit::kv_type;
use transom_catalog::machine::{Bandwidth, Machine};
use transom_catalog::measured::{self, Key, Measured, Record};
use transom_catalog::{ModelFacts, model_files};
use transom_signals::{Hardware, available_bytes};
use transom_supervisor::KvCacheChoice;

/// This machine with its memory budget and its measurements.
#[derive(Debug, Clone)]
pub struct ThisMachine {
    machine: Machine,
    available_memory: AvailableMemory,
    chip_name: String,
    measured: Measured,
    measured_file: PathBuf,
}

impl ThisMachine {
    /// Reads the measurements on the machine with this `hardware`. The memory budget is `budget_bytes`,
    /// or the default if the user has set none. Programs that run now don't count, so the result is the
    /// same tomorrow; see [`Self::with_status`].
    pub fn read(hardware: &Hardware, data_folder: &Path, budget_bytes: Option<u64>) -> Self {
        let measured_file = data_folder.join(measured::FILE_NAME);
        let measured = Measured::read(&measured_file);
        let chip_name = hardware.chip_name.clone();
        let machine = Machine::new(
            hardware.memory_bytes,
            hardware.working_set_bytes,
            &chip_name,
            measured.bandwidth(&chip_name),
        );
        Self {
            available_memory: AvailableMemory::all_of(machine.budget(budget_bytes).total_bytes),
            machine,
            chip_name,
            measured,
            measured_file,
        }
    }

    /// Returns a made-up machine that runs nothing else and has no measurements.
    pub fn simulated(machine: Machine) -> Self {
        Self {
            available_memory: AvailableMemory::all_of(machine.budget(None).total_bytes),
            machine,
            chip_name: String::new(),
            measured: Measured::default(),
            measured_file: PathBuf::new(),
        }
    }

    /// Returns this machine with the supervisor's current budget and the memory that other programs leave
    /// free. The `in_use_bytes` of loaded models count as free, because they are unloaded for the next
    /// model.
    pub fn with_status(mut self, budget_bytes: u64, in_use_bytes: u64) -> Self {
        self.available_memory = AvailableMemory {
            budget_bytes,
            in_use_bytes: 0,
            available_bytes: available_bytes().map(|bytes| bytes.saturating_add(in_use_bytes)),
        };
        self
    }

    /// Returns this machine with its memory bandwidth. If none is published for the chip, measures it for
    /// half a second, once in this process, and writes it to `measured.json`. Calls `on_measure` before
    /// that. Use this for views of models, never while somebody waits for a response.
    pub fn with_bandwidth(self, on_measure: impl FnOnce()) -> Self {
        static MEASURED: OnceLock<u64> = OnceLock::new();
        let this = self.clone();
        self.with_bandwidth_by(&MEASURED, || {
            on_measure();
            this.measure_bandwidth()
        })
    }

    /// Measures the memory bandwidth in bytes per second for half a second, and saves it.
    pub fn measure_bandwidth(&self) -> u64 {
        let rate = transom_signals::measure_bandwidth();
        let written = measured::record_bandwidth(&self.measured_file, &self.chip_name, rate);
        if let Err(error) = written {
            tracing::info!(%error, "can't save the measured memory bandwidth");
        }
        rate
    }

    /// Like [`Self::with_bandwidth`], with this measurement.
    pub(crate) fn with_bandwidth_by(
        mut self,
        once: &OnceLock<u64>,
        measure: impl FnOnce() -> u64,
    ) -> Self {
        if self.measured.wants_bandwidth(&self.chip_name) {
            let measured = self.measured.bandwidth(&self.chip_name).unwrap_or(0);
            let rate = (*once.get_or_init(measure)).max(measured);
            self.machine.bandwidth = Some(Bandwidth::measured(rate));
        }
        self
    }

    /// Returns the properties that estimates depend on.
    pub fn specs(&self) -> &Machine {
        &self.machine
    }

    /// Returns the name of the chip; empty if unknown.
    pub fn chip_name(&self) -> &str {
        &self.chip_name
    }

    /// Returns the memory that models may use.
    pub fn available_memory(&self) -> &AvailableMemory {
        &self.available_memory
    }

    pub(crate) fn measured_file(&self) -> &Path {
        &self.measured_file
    }

    pub(crate) fn record(
        &self,
        facts: &ModelFacts,
        path: &Path,
        kv: KvCacheChoice,
    ) -> Option<&Record> {
        self.measured.of(&self.key(facts, path, kv))
    }

    pub(crate) fn key(&self, facts: &ModelFacts, path: &Path, kv: KvCacheChoice) -> Key {
        let kv = kv_type(facts, &self.machine, kv);
        Key::new(&path.to_string_lossy(), model_files::format_of(path), kv)
    }

    #[cfg(feature = "test-support")]
    pub(crate) fn set_available_memory(&mut self, available: AvailableMemory) {
        self.available_memory = available;
    }
}

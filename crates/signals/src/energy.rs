//! Measures the energy that the machine uses, for benchmarks.
//!
//! On Linux the counters of the processor (RAPL), of all its cores and its memory. On macOS the tool
//! `powermetrics`, which needs administrator rights: the CPU, the GPU and the Neural Engine.
//!
//! Rule: energy that cannot be measured is unknown, with a reason that says what to do, and never 0.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;

/// Where Linux lists the counters.
const POWERCAP: &str = "/sys/class/powercap";

/// Measures from its creation on.
#[derive(Debug)]
pub struct EnergyMeter(Source);

#[derive(Debug)]
enum Source {
    Counters(Vec<Counter>),
    Tool(Child, Arc<Mutex<PowerLog>>),
}

impl EnergyMeter {
    /// Starts to measure.
    ///
    /// # Errors
    /// Why the energy of this machine is unknown, and what to do.
    pub fn start() -> Result<Self, String> {
        match cfg!(target_os = "macos") {
            true => Self::with_tool(),
            false => Self::with_counters(Path::new(POWERCAP)),
        }
    }

    /// Returns the joules since the start. Counters start over after some minutes to hours, so this must
    /// be called at least every few minutes.
    pub fn joules(&mut self) -> f64 {
        match &mut self.0 {
            Source::Counters(counters) => counters.iter_mut().map(Counter::joules).sum(),
            Source::Tool(_, log) => log.lock().joules,
        }
    }

    fn with_counters(folder: &Path) -> Result<Self, String> {
        let mut counters = Vec::new();
        let mut unreadable = None;
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match Counter::open(&entry.path()) {
                Ok(counter) => counters.extend(counter),
                Err(error) => unreadable = Some(error),
            }
        }
        match (counters.is_empty(), unreadable) {
            (false, None) => Ok(Self(Source::Counters(counters))),
            (_, Some(error)) if error.kind() == io::ErrorKind::PermissionDenied => Err(format!(
                "only the administrator may read the energy counters of the processor ({}/*/energy_uj)",
                folder.display()
            )),
            (_, Some(error)) => Err(format!("the energy counters of the processor: {error}")),
            (true, None) => {
                Err("this processor has no energy counters that Linux lists".to_owned())
            }
        }
    }

    fn with_tool() -> Result<Self, String> {
        let tool = [
            "powermetrics",
            "--samplers",
            "cpu_power",
            "--sample-rate",
            "1000",
        ];
        let child = Command::new("sudo")
            .arg("-n")
            .args(tool)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.map_err(|error| format!("powermetrics: {error}"))?;
        let log = Arc::new(Mutex::new(PowerLog::default()));
        let mut lines = child.stdout.take().map(|out| BufReader::new(out).lines());
        // The tool writes a heading at once; without administrator rights there is none.
        if !matches!(lines.as_mut().and_then(Iterator::next), Some(Ok(_))) {
            let _ = child.wait();
            let advice =
                "powermetrics needs administrator rights; run `sudo -v` before the benchmark";
            return Err(advice.to_owned());
        }
        let writer = log.clone();
        std::thread::spawn(move || {
            for line in lines.into_iter().flatten().map_while(Result::ok) {
                let mut log = writer.lock();
                log.read(&line);
            }
        });
        Ok(Self(Source::Tool(child, log)))
    }
}

impl Drop for EnergyMeter {
    fn drop(&mut self) {
        if let Source::Tool(child, _) = &mut self.0 {
            // sudo passes the signal on; the tool also ends when nobody reads its output.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A counter of microjoules that starts over at its range.
#[derive(Debug)]
struct Counter {
    file: PathBuf,
    range: u64,
    last: u64,
    total: u64,
}

impl Counter {
    /// Opens the counter in a folder of the list; `None` for other folders, and for parts that another
    /// counter includes.
    fn open(folder: &Path) -> io::Result<Option<Self>> {
        let Ok(name) = fs::read_to_string(folder.join("name")) else {
            return Ok(None);
        };
        // A package includes its cores and its graphics unit, but not the memory.
        let name = name.trim();
        if !name.starts_with("package") && name != "dram" {
            return Ok(None);
        }
        // The same counters once more, by other means.
        let folder_name = folder.file_name().unwrap_or_default().to_string_lossy();
        if folder_name.starts_with("intel-rapl-mmio") {
            return Ok(None);
        }
        let file = folder.join("energy_uj");
        Ok(Some(Self {
            range: read_number(&folder.join("max_energy_range_uj"))?,
            last: read_number(&file)?,
            total: 0,
            file,
        }))
    }

    fn joules(&mut self) -> f64 {
        if let Ok(now) = read_number(&self.file) {
            self.advance(now);
        }
        self.total as f64 / 1e6
    }

    fn advance(&mut self, now: u64) {
        self.total += match now.checked_sub(self.last) {
            Some(more) => more,
            None => (self.range.saturating_sub(self.last)).saturating_add(now),
        };
        self.last = now;
    }
}

fn read_number(file: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(file)?;
    text.trim().parse().map_err(io::Error::other)
}

/// Adds the samples of powermetrics.
#[derive(Debug, Default)]
struct PowerLog {
    sample_seconds: f64,
    joules: f64,
}

impl PowerLog {
    /// Reads a line: the heading of a sample, `… (1001.32ms elapsed) ***`, or its power, `Combined Power
    /// (CPU + GPU + ANE): 1234 mW`.
    fn read(&mut self, line: &str) {
        if let Some(elapsed) = between(line, "(", "ms elapsed)") {
            self.sample_seconds = elapsed / 1e3;
        } else if line.starts_with("Combined Power")
            && let Some(milliwatts) = between(line, ": ", " mW")
        {
            self.joules += milliwatts / 1e3 * self.sample_seconds;
        }
    }
}

/// Returns the number between the last `before` and the `after` that follows it.
fn between(line: &str, before: &str, after: &str) -> Option<f64> {
    let (start, _) = line.rsplit_once(after)?;
    let (_, number) = start.rsplit_once(before)?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(root: &Path, folder: &str, name: &str, microjoules: &str) {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("name", name),
            ("energy_uj", microjoules),
            ("max_energy_range_uj", "1000000"),
        ] {
            fs::write(folder.join(file), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn packages_and_memory_count_once_and_counters_start_over() {
        let root = tempfile::tempdir().unwrap();
        counter(root.path(), "intel-rapl:0", "package-0", "900000");
        counter(root.path(), "intel-rapl:0:0", "core", "5");
        counter(root.path(), "intel-rapl:0:1", "dram", "100");
        counter(root.path(), "intel-rapl-mmio:0", "package-0", "900000");
        fs::create_dir(root.path().join("intel-rapl")).unwrap();
        let mut meter = EnergyMeter::with_counters(root.path()).unwrap();
        assert_eq!(meter.joules(), 0.0);
        counter(root.path(), "intel-rapl:0", "package-0", "400000");
        counter(root.path(), "intel-rapl:0:1", "dram", "200100");
        assert_eq!(meter.joules(), 0.5 + 0.2);
        counter(root.path(), "intel-rapl:0", "package-0", "400001");
        assert_eq!(meter.joules(), 0.500001 + 0.2);
    }

    #[test]
    fn without_readable_counters_the_reason_is_told() {
        let root = tempfile::tempdir().unwrap();
        let reason = |root: &Path| EnergyMeter::with_counters(root).unwrap_err();
        assert!(reason(root.path()).contains("no energy counters"));
        assert!(reason(&root.path().join("missing")).contains("no energy counters"));
        counter(root.path(), "intel-rapl:0", "package-0", "a lot");
        assert!(reason(root.path()).contains("invalid digit"));
    }

    #[test]
    fn samples_of_powermetrics_add_up() {
        let mut log = PowerLog::default();
        for line in [
            "*** Sampled system activity (Thu Nov 26 21:00:00 2026 +0100) (1000.00ms elapsed) ***",
            "CPU Power: 4000 mW",
            "GPU Power: 8000 mW",
            "ANE Power: 0 mW",
            "Combined Power (CPU + GPU + ANE): 12000 mW",
            "*** Sampled system activity (Thu Nov 26 21:00:01 2026 +0100) (500.00ms elapsed) ***",
            "Combined Power (CPU + GPU + ANE): 2000 mW",
        ] {
            log.read(line);
        }
        assert_eq!(log.joules, 13.0);
    }
}

//! The machine that setup runs on. Only tested kinds are supported.

use std::process::Command;

use crate::problem::Problem;
use crate::process;

#[derive(Debug, PartialEq)]
pub(crate) enum Host {
    /// Linux on x86-64, with glibc.
    Linux,
    /// An Apple-silicon Mac; MLX's wheels differ by the version of macOS (major, minor).
    Mac { macos: (u32, u32) },
}

impl Host {
    pub(crate) fn detect() -> Result<Self, Problem> {
        let output = process::output_of(process::rustc().arg("-vV"), "get the host of rustc")?;
        let triple = output
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .ok_or_else(|| Problem::new("rustc -vV prints no host"))?;
        let version = if triple == MAC {
            let action = "get the version of macOS";
            process::output_of(Command::new("sw_vers").arg("-productVersion"), action)?
        } else {
            String::new()
        };
        Self::from_triple(triple, version.trim())
    }

    fn from_triple(triple: &str, macos_version: &str) -> Result<Self, Problem> {
        match triple {
            LINUX => Ok(Self::Linux),
            MAC => {
                let mut numbers = macos_version.split('.').map(str::parse::<u32>);
                let mut next = || numbers.next().and_then(Result::ok);
                match (next(), next()) {
                    (Some(major @ 14..), minor) => Ok(Self::Mac {
                        macos: (major, minor.unwrap_or(0)),
                    }),
                    _ => Err(Problem::new(format!(
                        "MLX needs macOS 14 or newer; this is macOS {macos_version}"
                    ))),
                }
            }
            other => Err(Problem::new(format!(
                "this machine ({other}) is not supported yet; Linux on x86-64 and Apple-silicon \
                 Macs are"
            ))),
        }
    }

    pub(crate) fn triple(&self) -> &'static str {
        match self {
            Self::Linux => LINUX,
            Self::Mac { .. } => MAC,
        }
    }

    pub(crate) fn is_linux(&self) -> bool {
        *self == Self::Linux
    }
}

const LINUX: &str = "x86_64-unknown-linux-gnu";
const MAC: &str = "aarch64-apple-darwin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_supported_machines_are_accepted() {
        assert_eq!(Host::from_triple(LINUX, "").unwrap(), Host::Linux);
        let mac = Host::from_triple(MAC, "15.6.1").unwrap();
        assert_eq!(mac, Host::Mac { macos: (15, 6) });
        let first = Host::from_triple(MAC, "26").unwrap();
        assert_eq!(first, Host::Mac { macos: (26, 0) });
        let old = Host::from_triple(MAC, "13.7").unwrap_err().to_string();
        assert!(old.contains("macOS 14 or newer"), "{old}");
        let other = Host::from_triple("x86_64-pc-windows-msvc", "").unwrap_err();
        assert!(other.to_string().contains("not supported yet"), "{other}");
    }
}

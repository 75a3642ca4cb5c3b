//! The vector instructions that llama.cpp may use on this machine.
//!
//! The build script of llama-cpp-sys-2 switches ggml's own detection off unless all of Rust is
//! compiled for this machine, and what then remains leaves half of a newer CPU unused and stops an
//! older one at its first illegal instruction. So set-up names each instruction set, on or off: the
//! build script passes `GGML_…` variables on to cmake. Apple silicon needs none of this.

use std::process::Command;

use crate::chores;
use crate::problem::Problem;
use crate::setup::Host;

/// ggml's options, and the CPU features that each of them stands for, as rustc names them.
const OPTIONS: [(&str, &[&str]); 11] = [
    ("GGML_SSE42", &["sse4.2"]),
    ("GGML_AVX", &["avx"]),
    ("GGML_AVX2", &["avx2"]),
    ("GGML_FMA", &["fma"]),
    ("GGML_F16C", &["f16c"]),
    ("GGML_BMI2", &["bmi2"]),
    ("GGML_AVX_VNNI", &["avxvnni"]),
    (
        "GGML_AVX512",
        &["avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"],
    ),
    ("GGML_AVX512_VBMI", &["avx512vbmi"]),
    ("GGML_AVX512_VNNI", &["avx512vnni"]),
    ("GGML_AVX512_BF16", &["avx512bf16"]),
];

/// Environment variables for the build of llama.cpp, each `ON` or `OFF`.
pub(crate) fn variables(host: &Host) -> Result<Vec<(&'static str, &'static str)>, Problem> {
    if !host.is_linux() {
        return Ok(Vec::new());
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut about = Command::new(rustc);
    about.args(["--print", "cfg", "-C", "target-cpu=native"]);
    let about = chores::output_of(&mut about, "ask rustc for this CPU's instructions")?;
    Ok(from_features(&about))
}

fn from_features(about: &str) -> Vec<(&'static str, &'static str)> {
    let has = |feature: &&str| {
        let line = format!("target_feature=\"{feature}\"");
        about.lines().any(|one| one == line)
    };
    let options = OPTIONS.iter();
    options
        .map(|(option, features)| {
            (
                *option,
                if features.iter().all(has) {
                    "ON"
                } else {
                    "OFF"
                },
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instruction_set_is_on_only_where_the_cpu_has_all_of_it() {
        let on = |features: &[&str]| -> Vec<&str> {
            let lines = features
                .iter()
                .map(|feature| format!("target_feature=\"{feature}\"\n"));
            let variables = from_features(&lines.collect::<String>());
            assert_eq!(variables.len(), OPTIONS.len(), "each is named");
            let on = variables.into_iter().filter(|(_, value)| *value == "ON");
            on.map(|(option, _)| option).collect()
        };
        assert_eq!(on(&[]), [""; 0]);
        assert_eq!(on(&["sse4.2", "avx"]), ["GGML_SSE42", "GGML_AVX"]);
        let partly = ["avx512f", "avx512cd", "avx512vl", "avx512dq"];
        assert_eq!(on(&partly), [""; 0]);
        assert_eq!(on(&[&partly[..], &["avx512bw"]].concat()), ["GGML_AVX512"]);
    }
}

//! The vector instructions that llama.cpp may use on this machine.
//!
//! The build script of llama-cpp-sys-2 disables ggml's detection unless all Rust code is compiled
//! for this machine. The defaults of ggml then use only half of a newer CPU and crash an older one
//! with an illegal instruction. So setup turns each instruction set on or off: the build script
//! passes `GGML_…` variables to cmake. Apple silicon does not need this.

use crate::problem::Problem;
use crate::process;
use crate::setup::Host;

/// The options of ggml, and the CPU features that each one needs, by their names in rustc.
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

/// Returns the environment variables for the build of llama.cpp, each `ON` or `OFF`.
pub(crate) fn variables(host: &Host) -> Result<Vec<(&'static str, &'static str)>, Problem> {
    variables_for(host, "native")
}

/// Returns the same for a bundle, which runs on other machines too: the instructions of x86-64-v3,
/// which Intel has since 2013 and AMD since 2015, as AVX2.
pub(crate) fn for_bundle(host: &Host) -> Result<Vec<(&'static str, &'static str)>, Problem> {
    variables_for(host, "x86-64-v3")
}

fn variables_for(host: &Host, cpu: &str) -> Result<Vec<(&'static str, &'static str)>, Problem> {
    if !host.is_linux() {
        return Ok(Vec::new());
    }
    let mut command = process::rustc();
    command.args(["--print", "cfg", "-C", &format!("target-cpu={cpu}")]);
    let rustc_output = process::output_of(&mut command, "get the CPU features from rustc")?;
    Ok(from_features(&rustc_output))
}

fn from_features(rustc_output: &str) -> Vec<(&'static str, &'static str)> {
    let has = |feature: &&str| {
        let line = format!("target_feature=\"{feature}\"");
        rustc_output.lines().any(|printed| printed == line)
    };
    let state = |features: &[&str]| match features.iter().all(has) {
        true => "ON",
        false => "OFF",
    };
    let options = OPTIONS.into_iter();
    options
        .map(|(option, features)| (option, state(features)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_uses_avx2_and_nothing_newer() {
        let variables = for_bundle(&Host::Linux).unwrap();
        for (option, expected) in [
            ("GGML_AVX2", "ON"),
            ("GGML_FMA", "ON"),
            ("GGML_AVX_VNNI", "OFF"),
            ("GGML_AVX512", "OFF"),
        ] {
            assert!(variables.contains(&(option, expected)), "{variables:?}");
        }
        let mac = for_bundle(&Host::Mac { macos: (14, 0) });
        assert!(mac.unwrap().is_empty());
    }

    #[test]
    fn an_instruction_set_is_on_only_if_the_cpu_has_all_its_features() {
        let on = |features: &[&str]| -> Vec<&str> {
            let lines = features
                .iter()
                .map(|feature| format!("target_feature=\"{feature}\"\n"));
            let variables = from_features(&lines.collect::<String>());
            assert_eq!(variables.len(), OPTIONS.len(), "every option is set");
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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! GPUs of the sim, as in `--target gfx1100` or `--target gfx1100:bar=none,gfx942`.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::hsa::Hsa;

/// GPUs in the format of `HSA_SIM_AGENTS` (see the sim's documentation). Kernels are compiled for the processor of the
/// first, a name of LLVM's AMDGPU backend, e.g. `gfx1100` or `gfx90a`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    agents: String,
    processor_length: usize,
}

/// A processor that the sim models.
struct Played {
    name: &'static str,
    /// True if the `iree-compile` that set-up installs compiles for it.
    compiled: bool,
    /// True if Debian's ROCR supports it.
    rocr: bool,
}

const PLAYED: [Played; 22] = [
    Played { name: "gfx906", compiled: false, rocr: true },
    Played { name: "gfx90c", compiled: false, rocr: true },
    Played { name: "gfx908", compiled: true, rocr: true },
    Played { name: "gfx90a", compiled: true, rocr: true },
    Played { name: "gfx942", compiled: true, rocr: false },
    Played { name: "gfx950", compiled: true, rocr: false },
    Played { name: "gfx1010", compiled: false, rocr: true },
    Played { name: "gfx1030", compiled: false, rocr: true },
    Played { name: "gfx1031", compiled: false, rocr: true },
    Played { name: "gfx1032", compiled: false, rocr: true },
    Played { name: "gfx1035", compiled: false, rocr: true },
    Played { name: "gfx1036", compiled: false, rocr: false },
    Played { name: "gfx1100", compiled: true, rocr: false },
    Played { name: "gfx1101", compiled: true, rocr: false },
    Played { name: "gfx1102", compiled: false, rocr: false },
    Played { name: "gfx1103", compiled: true, rocr: false },
    Played { name: "gfx1150", compiled: true, rocr: false },
    Played { name: "gfx1151", compiled: true, rocr: false },
    Played { name: "gfx1152", compiled: false, rocr: false },
    Played { name: "gfx1200", compiled: true, rocr: false },
    Played { name: "gfx1201", compiled: true, rocr: false },
    Played { name: "gfx1250", compiled: true, rocr: false },
];

/// True if an item of a list of GPUs and their settings is a GPU, maybe with its first setting.
fn begins_gpu(item: &str) -> bool {
    item.contains(':') || !item.contains('=')
}

impl Target {
    /// Value for `HSA_SIM_AGENTS`. The sim checks the settings.
    pub fn agents(&self) -> &str {
        &self.agents
    }

    /// Value for `HSA_SIM_AGENTS` with one more setting of each GPU.
    pub fn agents_with(&self, setting: &str) -> String {
        let with = |item: &str| match item.split_once(':') {
            Some((processor, first)) => format!("{processor}:{setting},{first}"),
            None if begins_gpu(item) => format!("{item}:{setting}"),
            None => item.to_owned(),
        };
        self.agents.split(',').map(with).collect::<Vec<_>>().join(",")
    }

    /// True if the sim has the first GPU.
    pub fn is_played(&self) -> bool {
        PLAYED.iter().any(|played| played.name == self.as_ref())
    }

    /// Processors of the GPUs.
    fn processors(&self) -> impl Iterator<Item = &str> {
        let gpus = self.agents.split(',').filter(|item| begins_gpu(item));
        gpus.map(|gpu| gpu.split(':').next().unwrap_or(gpu).trim())
    }

    /// Checks, before anything is built, that `hsa` has such GPUs.
    ///
    /// # Errors
    /// A message with the available processors.
    pub fn check_played(&self, hsa: &Hsa) -> Result<()> {
        self.processors().try_for_each(|name| check(name, hsa, false))
    }

    /// Checks that `hsa` has such GPUs and that `iree-compile` compiles for the first.
    ///
    /// # Errors
    /// A message with the available processors.
    pub fn check_compiled(&self, hsa: &Hsa) -> Result<()> {
        check(self.as_ref(), hsa, true)?;
        self.check_played(hsa)
    }
}

fn check(name: &str, hsa: &Hsa, compiled: bool) -> Result<()> {
    let played = PLAYED.iter().find(|played| played.name == name);
    let reason = match (hsa, played) {
        // The GPUs of that library are not known yet.
        (Hsa::Path(_), None) => return Ok(()),
        (_, Some(played)) if compiled && !played.compiled => "iree-compile does not know it",
        (Hsa::Sim | Hsa::Rocr, None) => "the sim does not simulate it",
        (Hsa::Rocr, Some(played)) if !played.rocr => "Debian's ROCR does not know it",
        (_, Some(_)) => return Ok(()),
    };
    let can_be_chosen = |played: &&Played| (!compiled || played.compiled) && (played.rocr || !matches!(hsa, Hsa::Rocr));
    let names: Vec<_> = PLAYED.iter().filter(can_be_chosen).map(|played| played.name).collect();
    Err(Error::setup(format!("{name} cannot be the target here: {reason}. There are: {}", names.join(", "))))
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let processor = text.split([':', ',']).next().unwrap_or_default();
        let digits = processor.strip_prefix("gfx").unwrap_or_default();
        let is_name =
            (3..=4).contains(&digits.len()) && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_name {
            Ok(Self { agents: text.to_owned(), processor_length: processor.len() })
        } else {
            Err("expected a processor name such as gfx1100 or gfx90a, several behind commas, with settings for the sim if \
                 need be (gfx1100:bar=none,gfx942)"
                .to_owned())
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_ref())
    }
}

impl AsRef<str> for Target {
    fn as_ref(&self) -> &str {
        &self.agents[..self.processor_length]
    }
}

/// Returns the given target, or the targets of `default`.
///
/// # Errors
/// When the sim does not support a target of `default`.
pub fn targets_or(target: Option<Target>, default: &[&str]) -> Result<Vec<Target>> {
    match target {
        Some(target) => Ok(vec![target]),
        None => default.iter().map(|name| name.parse().map_err(Error::setup)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::layout::LIBHSA_VARIABLE;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn only_processor_names_are_targets() {
        for good in ["gfx1100", "gfx90a", "gfx942", "gfx1201"] {
            assert_eq!(target(good).to_string(), good);
        }
        for bad in ["", "gfx", "gfx11", "1100", "GFX1100", "gfx11-generic", "gfx1100;rm", "gfx11000", ":bar=none"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn settings_are_the_sims_and_kernels_are_for_the_first_gpu() {
        for agents in ["gfx1100:bar=none,cus=4", "gfx1100,gfx1201:peers=no"] {
            let target = target(agents);
            assert_eq!((target.to_string().as_str(), target.agents()), ("gfx1100", agents));
        }
        let several = target("gfx1100:bar=none,cus=4,gfx942, gfx1201:peers=no");
        assert_eq!(several.processors().collect::<Vec<_>>(), ["gfx1100", "gfx942", "gfx1201"]);
        assert_eq!(several.agents_with("x=1"), "gfx1100:x=1,bar=none,cus=4,gfx942:x=1, gfx1201:x=1,peers=no");
    }

    #[test]
    fn a_target_that_is_not_there_is_refused_with_those_that_are() {
        let refusal = |text: &str, hsa: &Hsa, compiled: bool| {
            let target = target(text);
            let result = if compiled { target.check_compiled(hsa) } else { target.check_played(hsa) };
            result.err().map(|error| error.to_string())
        };
        let (sim, real) = (Hsa::Sim, Hsa::Path("/opt/rocm".into()));
        for (text, hsa, compiled, says) in [
            (
                "gfx1033",
                &sim,
                false,
                "gfx1033 cannot be the target here: the sim does not simulate it. There are: gfx906",
            ),
            ("gfx1033", &sim, true, "the sim does not simulate it. There are: gfx908"),
            ("gfx1100,gfx9999", &sim, false, "gfx9999 cannot"),
            ("gfx906", &sim, true, "iree-compile does not know it. There are: gfx908"),
            ("gfx906", &real, true, "iree-compile does not know it"),
            (
                "gfx1100",
                &Hsa::Rocr,
                false,
                "Debian's ROCR does not know it. There are: gfx906, gfx90c, gfx908, gfx90a, gfx1010",
            ),
        ] {
            let refusal = refusal(text, hsa, compiled).unwrap_or_else(|| panic!("{text} is taken"));
            assert!(refusal.contains(says), "{refusal}");
        }
        for (text, hsa, compiled) in [
            ("gfx906", &sim, false),
            ("gfx1100,gfx906", &sim, true),
            ("gfx1033", &real, true),
            ("gfx90a", &Hsa::Rocr, true),
        ] {
            assert_eq!(refusal(text, hsa, compiled), None);
        }
    }

    #[test]
    fn the_list_is_the_sims_and_the_compilers() {
        let names: Vec<_> = PLAYED.iter().map(|played| played.name).collect();
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build");
        let mut lister = Command::new(build.join("cmake/tools/iree-run-module"));
        lister.arg("--list_devices=amdgpu_rs");
        let output = lister.env("HSA_SIM_AGENTS", "none").env(LIBHSA_VARIABLE, build.join("sim")).output().unwrap();
        let refusal = String::from_utf8_lossy(&output.stderr);
        assert!(refusal.contains(&format!("known targets: {}\n", names.join(", "))), "{refusal}");
        let compiler = build.join("hostbin/iree-compile");
        for played in &PLAYED {
            let mut command = Command::new(&compiler);
            command.args(["--iree-hal-target-device=amdgpu", "-", "-o", "/dev/null"]);
            command.arg(format!("--iree-rocm-target={}", played.name)).stdin(std::process::Stdio::null());
            let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", compiler.display()));
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(!text.contains("Unknown ROCM target"), played.compiled, "{}: {text}", played.name);
        }
    }
}

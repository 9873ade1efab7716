// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The GPUs that the sim plays, as in `--target gfx1100` or `--target gfx1100:bar=none`.

use std::fmt;
use std::str::FromStr;

/// GPUs as `HSA_SIM_AGENTS` describes them (see the sim's documentation), named by the processor of the first, which kernels
/// are compiled for: a name of LLVM's AMDGPU backend, e.g. `gfx1100` or `gfx90a`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    agents: String,
    processor_length: usize,
}

impl Target {
    /// What the sim is told, which checks it.
    pub fn agents(&self) -> &str {
        &self.agents
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let processor = text.split([':', ',']).next().unwrap_or_default();
        let digits = processor.strip_prefix("gfx").unwrap_or_default();
        let is_name =
            (3..=4).contains(&digits.len()) && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_name {
            Ok(Self { agents: text.to_owned(), processor_length: processor.len() })
        } else {
            Err("expected a processor name such as gfx1100 or gfx90a, with settings for the sim if need be \
                 (gfx1100:bar=none)"
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

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn only_processor_names_are_targets() {
        for good in ["gfx1100", "gfx90a", "gfx942", "gfx1201"] {
            assert_eq!(good.parse::<Target>().unwrap().to_string(), good);
        }
        for bad in ["", "gfx", "gfx11", "1100", "GFX1100", "gfx11-generic", "gfx1100;rm", "gfx11000", ":bar=none"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn settings_are_the_sims_and_kernels_are_for_the_first_gpu() {
        for agents in ["gfx1100:bar=none,cus=4", "gfx1100,gfx1201:peers=no"] {
            let target: Target = agents.parse().unwrap();
            assert_eq!((target.to_string().as_str(), target.agents()), ("gfx1100", agents));
        }
    }
}

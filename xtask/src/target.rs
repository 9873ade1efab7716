// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The name of a GPU's instruction set, as in `--target gfx1100`.

use std::fmt;
use std::str::FromStr;

/// A processor name of LLVM's AMDGPU backend, e.g. `gfx1100` or `gfx90a`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(String);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("gfx").unwrap_or_default();
        let is_name =
            (3..=4).contains(&digits.len()) && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_name {
            Ok(Self(text.to_owned()))
        } else {
            Err("expected a processor name such as gfx1100 or gfx90a".to_owned())
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Target {
    fn as_ref(&self) -> &str {
        &self.0
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
        for bad in ["", "gfx", "gfx11", "1100", "GFX1100", "gfx11-generic", "gfx1100;rm", "gfx11000"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}

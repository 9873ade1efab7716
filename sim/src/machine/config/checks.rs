// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The checks that `HSA_SIM_CHECK` requests.

use std::path::PathBuf;

use sim_wave::CheckSet;

/// Requested checks, and the destination of their findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckConfig {
    /// Checks to make.
    pub set: CheckSet,
    /// A finding fails its queue.
    pub fatal: bool,
    /// File for JSON lines.
    pub output: Option<PathBuf>,
}

/// Names of the checks, as in [`CheckSet`].
const NAMES: [&str; 9] = ["race", "equal", "wait", "init", "result", "sync", "hazard", "bounds", "clamp"];

impl CheckConfig {
    /// Parses a list of checks, with `all` for all but `equal`, `result` and `clamp`. The error says what is wrong with
    /// it.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut set = CheckSet::default();
        for name in list.split(',').map(str::trim) {
            if name != "all" && !NAMES.contains(&name) {
                return Err(format!("{name:?} is no check; there are {} and all", NAMES.join(", ")));
            }
            set.wait |= matches!(name, "wait" | "all");
            set.sync |= matches!(name, "sync" | "all");
            set.hazard |= matches!(name, "hazard" | "all");
            set.bounds |= matches!(name, "bounds" | "all");
            set.init |= matches!(name, "init" | "result" | "all");
            set.race |= matches!(name, "race" | "equal" | "all");
            // Compilers have several lanes store the same on purpose, and let buffers leave out what is beyond them;
            // programs read padding.
            set.equal |= name == "equal";
            set.result |= name == "result";
            set.clamp |= name == "clamp";
        }
        Ok(Self { set, ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_asked_for_by_name() {
        let of = |list: &str| -> Result<_, String> {
            let asked = CheckConfig::parse(list)?.set;
            Ok([asked.wait, asked.sync, asked.race, asked.equal, asked.hazard, asked.bounds, asked.init])
        };
        assert_eq!(of("wait"), Ok([true, false, false, false, false, false, false]));
        assert_eq!(of("sync, wait"), Ok([true, true, false, false, false, false, false]));
        assert_eq!(of("race,bounds"), Ok([false, false, true, false, false, true, false]));
        assert_eq!(of("equal,hazard,init"), Ok([false, false, true, true, true, false, true]));
        assert_eq!(of("all"), Ok([true, true, true, false, true, true, true]));
        assert!(CheckConfig::parse("clamp").unwrap().set.clamp && !CheckConfig::parse("all").unwrap().set.clamp);
        let result = CheckConfig::parse("result").unwrap().set;
        assert!(result.result && result.init && !CheckConfig::parse("all").unwrap().set.result);
        let unknown = of("wiat").unwrap_err();
        assert_eq!(
            unknown,
            "\"wiat\" is no check; there are race, equal, wait, init, result, sync, hazard, bounds, clamp and all"
        );
        assert!(of("").is_err());
    }
}

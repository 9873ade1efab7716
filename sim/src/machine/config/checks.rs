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

/// The checks: name, findings in Markdown, and true if it is part of `all`. Compilers have several lanes store the same
/// value on purpose, and let buffers leave out accesses beyond them; programs read padding.
pub const CHECKS: [(&str, &str, bool); 9] = [
    ("wait", "reads of registers before a load has completed", true),
    ("sync", "divergent barriers, deadlocks at barriers", true),
    ("race", "data races within a dispatch and between dispatches", true),
    ("equal", "races in which all writes store the same value; enables `race`", false),
    ("hazard", "missing wait states", true),
    ("bounds", "accesses outside of a suballocation, such as an IREE buffer", true),
    ("clamp", "buffer accesses that the hardware clamps", false),
    ("init", "branches, addresses and atomics that depend on uninitialized values", true),
    ("result", "uninitialized values that the host may read; enables `init`", false),
];

impl CheckConfig {
    /// Parses a list of checks.
    ///
    /// # Errors
    /// The unknown name, and the known ones.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut set = CheckSet::default();
        for name in list.split(',').map(str::trim) {
            let chosen: Vec<_> =
                CHECKS.iter().filter(|(known, _, in_all)| *known == name || name == "all" && *in_all).collect();
            if chosen.is_empty() {
                let names = CHECKS.map(|(name, ..)| name).join(", ");
                return Err(format!("{name:?} is not a check; there are {names} and all"));
            }
            for (name, ..) in chosen {
                set.wait |= *name == "wait";
                set.sync |= *name == "sync";
                set.hazard |= *name == "hazard";
                set.bounds |= *name == "bounds";
                set.init |= matches!(*name, "init" | "result");
                set.race |= matches!(*name, "race" | "equal");
                set.equal |= *name == "equal";
                set.result |= *name == "result";
                set.clamp |= *name == "clamp";
            }
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
            "\"wiat\" is not a check; there are wait, sync, race, equal, hazard, bounds, clamp, init, result and all"
        );
        assert!(of("").is_err());
    }
}

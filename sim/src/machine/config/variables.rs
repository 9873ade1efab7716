// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! List of the sim's variables, from which the tables of `docs/sim/variables.md` are made.

use crate::machine::product::listing::Entry;

/// Prefix of the names.
pub const PREFIX: &str = "HSA_SIM_";

const fn entry(name: &'static str, values: &'static str, default: &'static str) -> Entry {
    Entry { name, values, default }
}

/// Variables by the page's sections. Names are without [`PREFIX`]. Some are those of [`crate::inject`] and of the
/// aqlprofile library.
const SECTIONS: [(&str, &[Entry]); 4] = [
    (
        "Machine",
        &[
            entry("AGENTS", "targets, separated by commas, with [settings](#agent-settings)", "`gfx1100`"),
            entry("ROCR", "`6.2`, `7.0`: the ROCm release to [behave like](rocr.md)", "`7.0`"),
            entry("MEMORY", "`coherent`, `strict`: models caches", "`coherent`"),
            entry("THREADS", "threads that run the workgroups of a dispatch", "all processors"),
        ],
    ),
    (
        "Execution",
        &[
            entry("EXECUTE", "`0` consumes dispatches without running kernels", "`1`"),
            entry(
                "JIT",
                "`0`, `1`, `always`, `check`: use of [compiled code](../design/jit.md)",
                "`1` with AVX2, else `0`",
            ),
            entry("TIMEOUT", "seconds that a kernel may run; `0`: no limit", "`0`"),
            entry("SEED", "a number: perturbs scheduling", "in order"),
            entry("CLOCK", "`host`, `instructions`: the clock of [device times](profiles.md#device-times)", "`host`"),
            entry("FAIL", "`<function>:<n>`: the n-th call fails", "none"),
        ],
    ),
    (
        "Checks",
        &[
            entry("CHECK", "checks, separated by commas", "none"),
            entry("CHECK_OUTPUT", "a file: findings as JSON, one a line", "none"),
            entry("CHECK_FATAL", "`1` fails a kernel's queue at its first finding", "`0`"),
            entry("LEAKS", "`1` reports leaked HSA objects", "`0`"),
        ],
    ),
    (
        "Output",
        &[
            entry("PROFILE", "a `.txt`, `.json` or `.html` file: a profile of each instruction", "none"),
            entry("TRACE", "`kernel`, `wave`, `instruction` or `packets`, to standard error", "none"),
            entry("STATS", "a file: [counters](#counters-of-hsa_sim_stats) as JSON", "none"),
            entry("COUNTERS", "hardware events of a block counted at a time, 0 to 8", "`8`"),
            entry("DEBUG", "`console`, `script:FILE`, `dap:PORT`: a [debugger](debugger.md)", "none"),
        ],
    ),
];

/// All variables.
fn all() -> impl Iterator<Item = &'static Entry> {
    SECTIONS.into_iter().flat_map(|(_, variables)| variables)
}

/// Returns a warning about a variable with the sim's prefix that the sim does not know.
pub fn misspelt(name: &str) -> Option<String> {
    let rest = name.strip_prefix(PREFIX).filter(|rest| all().all(|known| known.name != *rest))?;
    let nearest = all().min_by_key(|known| strsim::damerau_levenshtein(rest, known.name))?;
    let (known, help) = (nearest.name, nearest.help());
    Some(format!(
        "{name} is not a variable of the software GPU and has no effect; did you mean {PREFIX}{known}? {known}: {help}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::config::checks::CHECKS;
    use crate::machine::product::gpu::SETTINGS;

    #[test]
    fn a_misspelt_variable_is_named_with_the_nearest() {
        for (name, nearest) in [
            ("HSA_SIM_THREAD", "HSA_SIM_THREADS"),
            ("HSA_SIM_AGENT", "HSA_SIM_AGENTS"),
            ("HSA_SIM_TIMEOUTS", "HSA_SIM_TIMEOUT"),
            ("HSA_SIM_STAT", "HSA_SIM_STATS"),
        ] {
            let warning = misspelt(name).unwrap();
            assert!(warning.starts_with(name) && warning.contains(&format!("mean {nearest}?")), "{warning}");
        }
        for name in ["HSA_SIM_AGENTS", "HSA_SIM_FAIL", "HSA_SIM_TIMEOUT", "HSA_ENABLE_SDMA", "HOME"] {
            assert_eq!(misspelt(name), None);
        }
    }

    /// The tables of the page are made from the lists of variables, settings and checks; `UPDATE_DOCS=1` writes them.
    #[test]
    fn the_page_of_variables_has_these_lists() {
        let row = |cells: [&str; 3]| format!("| {} |\n", cells.join(" | "));
        let table = |heading, rows: String| format!("{}|---|---|---|\n{rows}", row(heading));
        let listed = |kind, prefix: &str, entries: &[Entry]| {
            let rows = entries.iter().map(|e| row([&format!("`{prefix}{}`", e.name), e.values, e.default])).collect();
            table([kind, "values", "default"], rows)
        };
        let mut tables: Vec<_> = SECTIONS.map(|(name, list)| (name, listed("variable", PREFIX, list))).into();
        tables.push(("settings", listed("setting", "", &SETTINGS)));
        let yes = |in_all| if in_all { "yes" } else { "no" };
        let checks = CHECKS.map(|(name, finds, in_all)| row([&format!("`{name}`"), finds, yes(in_all)])).concat();
        tables.push(("checks", table(["check", "finds", "in `all`"], checks)));

        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sim/variables.md");
        let mut page = std::fs::read_to_string(&path).expect("the page of variables");
        for (name, table) in tables {
            let [begin, end] = ["begin", "end"].map(|mark| format!("<!-- {mark}: {name} -->\n"));
            let (before, rest) = page.split_once(&begin).expect(&begin);
            let (old, after) = rest.split_once(&end).expect(&end);
            let made = format!("\n{table}\n");
            if std::env::var_os("UPDATE_DOCS").is_none() {
                let how = "UPDATE_DOCS=1 cargo test -p hsa-sim --lib page_of_variables";
                assert!(old == made, "docs/sim/variables.md is stale ({name}); {how} writes it");
            }
            page = [before, &begin, &made, &end, after].concat();
        }
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, page).expect("writing the page of variables");
        }
    }
}

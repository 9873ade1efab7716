// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Coverage of instruction sets: the instructions that LLVM's disassembler knows, and those that the sim knows.
//!
//! Tests of the sim provide both: `sim-isa`'s oracle tries which opcodes LLVM decodes, and `sim-wave`'s semantics lists
//! which of them the sim decodes, executes and tests.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use xtask_core::error::{Context, Error, Result};
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::steps::Steps;
use xtask_core::target::Target;

/// Prefixes of the names of graphics instructions, and of hardware that compute kernels cannot use. The sim may leave
/// them out.
const LEFT_OUT: [&str; 16] = [
    "ds_add_gs_reg",
    "ds_bvh",
    "ds_direct_load",
    "ds_gws",
    "ds_ordered",
    "ds_param_load",
    "ds_sub_gs_reg",
    "exp",
    "global_atomic_ordered",
    "image_",
    "lds_direct_load",
    "lds_param_load",
    "s_endpgm_ordered",
    "s_wait_event",
    "v_interp",
    "v_screen_partition",
];

/// Processors that the sim has tables for.
pub const TARGETS: [&str; 12] = [
    "gfx906", "gfx90c", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1151", "gfx1201",
    "gfx1250",
];

/// Test of the oracle that tries all opcodes.
const KNOWN: [&str; 2] = ["oracle", "what_llvm_knows_and_the_table_does_not_is_named"];
/// Test that lists the executed and tested instructions.
const EXECUTED: [&str; 2] = ["semantics", "every_implemented_op_has_a_case"];

/// The sim's support of an opcode.
#[derive(Clone, Copy, Default)]
struct Known {
    decoded: bool,
    executed: bool,
    tested: bool,
}

/// Mnemonic and state by encoding and opcode.
type Table = BTreeMap<(String, u32), (String, Known)>;

/// Prints the table of `target`, or of all targets; with `missing` also the names of instructions without execution.
///
/// # Errors
/// When the sim's tests fail, e.g. without LLVM 22.
pub fn run(layout: &Layout, steps: &Steps, target: Option<&Target>, missing: bool) -> Result<()> {
    let mut chosen = TARGETS.to_vec();
    if let Some(target) = target {
        chosen.retain(|cpu| *cpu == target.as_ref());
        if chosen.is_empty() {
            let names = TARGETS.join(", ");
            return Err(Error::setup(format!("the sim has no table for {target}; those it has: {names}")));
        }
    }
    let file = |name| layout.build.join(name);
    let (executed, known) = (file("isa-executed.txt"), file("isa-known.txt"));
    // Making the cases and trying all opcodes take seconds a target.
    let only = |variable| target.map(|target| (variable, OsStr::new(target.as_ref())));
    let mut variables = vec![("SIM_WAVE_COVERAGE", executed.as_os_str())];
    variables.extend(only("SIM_WAVE_TARGET"));
    let own = told(layout, steps, "What the sim knows", EXECUTED, &variables)?;
    let mut variables = vec![("SIM_ISA_KNOWN", known.as_os_str())];
    variables.extend(only("SIM_ISA_TARGET"));
    let llvm = told(layout, steps, "What LLVM knows", KNOWN, &variables)?;
    for cpu in chosen {
        print(cpu, &table(&own, &llvm, cpu)?, missing);
    }
    Ok(())
}

/// Writes the names of the instructions that LLVM knows and the sim does not decode.
///
/// # Errors
/// When the test that writes them fails.
pub fn write_names(layout: &Layout, steps: &Steps) -> Result<()> {
    let path = layout.root.join("sim/isa/src/names.txt");
    told(layout, steps, "Names of what is not decoded", KNOWN, &[("SIM_ISA_NAMES", path.as_os_str())]).map(drop)
}

/// Runs a test that writes to the file which the first of the environment `variables` names. Returns the text.
fn told(
    layout: &Layout,
    steps: &Steps,
    title: &str,
    [suite, test]: [&str; 2],
    variables: &[(&str, &OsStr)],
) -> Result<String> {
    let path = variables.first().map_or(Path::new(""), |(_, path)| Path::new(path));
    steps.step(title, |step| {
        let mut cargo = layout.cargo();
        cargo.args(["test", "--workspace", "--locked", "--test", suite, test]);
        cargo.envs(variables.iter().copied());
        let shown = process::display(&cargo);
        match step.follow(cargo, None, |_| {})? {
            Ended::Exit(status) if status.success() => {}
            Ended::Exit(status) => return Err(step.failure(&shown, &process::describe(status))),
            Ended::Silent { .. } => return Err(step.failure(&shown, "no output")),
        }
        std::fs::read_to_string(path).context(|| format!("reading {}", path.display()))
    })
}

/// Parses the tests' lines about `cpu`.
fn table(own: &str, llvm: &str, cpu: &str) -> Result<Table> {
    let mut table = Table::new();
    for line in own.lines().chain(llvm.lines()) {
        let parts: Vec<&str> = line.split(' ').collect();
        let (target, format, code, name, known) = match parts[..] {
            [target, format, code, name] => (target, format, code, name, Known::default()),
            [target, format, code, name, executed, tested] => {
                let known = Known { decoded: true, executed: executed == "true", tested: tested == "true" };
                (target, format, code, name, known)
            }
            _ => return Err(Error::setup(format!("unexpected line of coverage: {line}"))),
        };
        if target != cpu {
            continue;
        }
        // VOP3SD is VOP3 with a second destination.
        let format = format.replace("Vop3sd", "Vop3");
        let code = code.parse().map_err(|error| Error::setup(format!("opcode in {line:?}: {error}")))?;
        table.entry((format, code)).or_insert((name.to_owned(), known));
    }
    Ok(table)
}

fn print(cpu: &str, table: &Table, missing: bool) {
    println!("{cpu}");
    println!("  {:<8} {:>5} {:>8} {:>9} {:>7} {:>9}", "encoding", "LLVM", "decoded", "executed", "tested", "left out");
    let is_left_out = |name: &str| LEFT_OUT.iter().any(|prefix| name.starts_with(prefix));
    let mut total = [0; 5];
    let formats: BTreeSet<&String> = table.keys().map(|(format, _)| format).collect();
    for format in formats {
        let mut counts = [0; 5];
        for (_, (name, known)) in table.iter().filter(|((of, _), _)| of == format) {
            counts[0] += 1;
            counts[1] += usize::from(known.decoded);
            counts[2] += usize::from(known.executed);
            counts[3] += usize::from(known.tested);
            counts[4] += usize::from(!known.executed && is_left_out(name));
        }
        row(format, counts);
        (0..5).for_each(|at| total[at] += counts[at]);
    }
    row("all", total);
    if !missing {
        return;
    }
    for (what, decoded) in [("decoded but not executed", true), ("not decoded", false)] {
        let names: BTreeSet<&str> = table
            .values()
            .filter(|(name, known)| !known.executed && known.decoded == decoded && !is_left_out(name))
            .map(|(name, _)| name.as_str())
            .collect();
        println!("  {what} ({}): {}", names.len(), names.into_iter().collect::<Vec<_>>().join(" "));
    }
}

fn row(name: &str, [llvm, decoded, executed, tested, left_out]: [usize; 5]) {
    println!("  {:<8} {llvm:>5} {decoded:>8} {executed:>9} {tested:>7} {left_out:>9}", name.to_lowercase());
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Prints the cost of the kernels of the driver's device library, and of IREE's own driver: registers, code, and
//! the work of some transfers as the simulated GPUs count it. Markdown; each cell is "ours / IREE's", in bold where
//! ours is worse.

#[path = "../tests/common/mod.rs"]
mod common;

use std::env;
use std::fmt::Write as _;

use common::figures::*;
use common::library::*;
use common::*;
use device_binaries::select;

fn main() {
    let names: Vec<_> = AGENTS.iter().map(|(name, _)| *name).collect();
    // SAFETY: the runtime is not initialised, so that this is the process's only thread.
    unsafe { env::set_var("HSA_SIM_AGENTS", names.join(",")) };
    let hsa = Hsa::new();
    println!(
        "Each cell: ours / IREE's. Wave-instructions and global accesses (`global_*` and `flat_*` instructions of a wave) are per KiB \
         moved, those of patch_dispatch per launch. LDS and scratch are in bytes.\n"
    );
    for ((name, theirs), &agent) in AGENTS.iter().zip(&hsa.gpus) {
        let code_object = select(name).unwrap();
        let mut ours = Library::new(&hsa, agent, code_object.elf);
        let iree = theirs.map(|file| std::fs::read(iree_binary(file)).expect("IREE's prebuilt device library"));
        let mut iree = iree.as_deref().map(|elf| Library::new(&hsa, agent, elf));
        println!("### {name} ({})\n", code_object.target);
        println!("| operation | IREE's kernel | {} |\n|{}", COLUMNS.join(" | "), " --- |".repeat(2 + COLUMNS.len()));
        for row in rows(&mut ours, iree.as_mut()) {
            print_row(&row);
        }
        let total = |operation| {
            let theirs = iree.as_ref().map_or("-".to_owned(), |iree| all_code_bytes(&iree.elf, operation).to_string());
            format!("{} / {theirs}", all_code_bytes(&ours.elf, operation))
        };
        println!("\nCode bytes of all kernels that fill: {}; that copy: {}.\n", total("_fill"), total("_copy"));
    }
}

fn print_row(Row { operation, ours, theirs }: &Row) {
    let mut row = format!("| {operation} | {} |", theirs.as_ref().map_or("none", |theirs| &theirs.kernel));
    let text = |value: f64| if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.2}") };
    for (column, &value) in ours.columns.iter().enumerate() {
        let other = theirs.as_ref().map(|theirs| theirs.columns[column]);
        let cell = format!("{} / {}", text(value), other.map_or("-".to_owned(), text));
        let mark = if other.is_some_and(|other| value > other) { "**" } else { "" };
        let _ = write!(row, " {mark}{cell}{mark} |");
    }
    println!("{row}");
}

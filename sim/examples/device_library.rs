// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Prints what the kernels of the driver's device library take, beside those of IREE's own driver: registers, code, and the work of some
//! transfers as the simulated GPUs count it. Markdown; each cell is "ours / IREE's", in bold where ours is worse.

#[path = "../tests/common/mod.rs"]
mod common;

use std::env;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use amdgpu_code_object::CodeObject;
use common::code::load_code;
use common::library::*;
use common::*;
use device_binaries::{PatchDispatchArgs, header_setups, plan_patch_dispatch, select};
use hsa_runtime64::machine::machine;

const HEADING: &str = "\
| operation | IREE's kernel | VGPRs | SGPRs | code bytes | LDS | scratch | wave-instructions | global accesses |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |";

/// Transfers: what they show, the source's and the target's distance from an aligned address, and the length in bytes.
const TRANSFERS: [(&str, u64, u64, u64); 4] =
    [("1 MiB", 0, 0, 1 << 20), ("1 MiB unaligned", 1, 3, 1 << 20), ("4 KiB", 0, 0, 4096), ("256 B", 0, 0, 256)];

/// Prefix of the names of IREE's kernels.
const IREE: &str = "iree_hal_amdgpu_device_";

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
        let device = ours.bench.device;
        println!("### {name} ({}, {} compute units)\n\n{HEADING}", code_object.target, device.compute_units);
        for (operation, theirs) in [("fill", iree_fill as Choose), ("copy", iree_copy)] {
            for (what, source_offset, target_offset, length) in TRANSFERS {
                let measure = |library: &mut Library, is_ours: bool| {
                    let Bench { device, source, target, .. } = &library.bench;
                    let (source, target) = (source.address() + source_offset, target.address() + target_offset);
                    let run = match (is_ours, operation) {
                        (true, "fill") => our_fill(*device, target, length, &[0x5a]),
                        (true, _) => our_copy(*device, source, target, length),
                        (false, _) => theirs(*device, source, target, length),
                    };
                    library.measure(run, length as f64 / 1024.0)
                };
                let (ours, theirs) = (measure(&mut ours, true), iree.as_mut().map(|iree| measure(iree, false)));
                print_row(&format!("{operation} {what}"), &ours, theirs.as_ref());
            }
        }
        let run = our_patch(&ours.bench);
        let ours_of_patch = ours.measure(run, 1.0);
        let theirs = iree.as_mut().map(|iree| iree.measure(iree_patch(&iree.bench), 1.0));
        print_row("patch_dispatch", &ours_of_patch, theirs.as_ref());
        let total = |operation| {
            let theirs = iree.as_ref().map_or("-".to_owned(), |iree| all_code_bytes(&iree.elf, operation).to_string());
            format!("{} / {theirs}", all_code_bytes(&ours.elf, operation))
        };
        println!("\nCode bytes of all kernels that fill: {}; that copy: {}.\n", total("_fill"), total("_copy"));
    }
}

/// IREE's launch for a source, a target and a length.
type Choose = fn(device_binaries::DeviceShape, u64, u64, u64) -> Run;

/// What IREE's driver launches to fill with a pattern of one byte (`device/blit.c`).
fn iree_fill(device: device_binaries::DeviceShape, _source: u64, target: u64, length: u64) -> Run {
    let bits = 0x5a5a_5a5a_5a5a_5a5a;
    let blocks = (length / 16).div_ceil(4);
    if (target | length).is_multiple_of(16) {
        iree_run(device, "iree_hal_amdgpu_device_buffer_fill_block_x16.kd", [target, length / 16, bits], blocks)
    } else {
        iree_run(device, "iree_hal_amdgpu_device_buffer_fill_block_unaligned_x16.kd", [target, length, bits], blocks)
    }
}

/// What it launches to copy.
fn iree_copy(device: device_binaries::DeviceShape, source: u64, target: u64, length: u64) -> Run {
    let blocks = length / 16;
    if (source | target | length).is_multiple_of(16) {
        iree_run(device, "iree_hal_amdgpu_device_buffer_copy_block_x16.kd", [source, target, blocks], blocks)
    } else {
        iree_run(device, "iree_hal_amdgpu_device_buffer_copy_block_unaligned_x16.kd", [source, target, length], blocks)
    }
}

/// Addresses of the counts, the packet and the implicit arguments that a patch uses; the source's bytes are any counts but zero.
fn patched(bench: &Bench) -> [u64; 3] {
    [bench.source.address(), bench.target.address(), bench.target.address() + 64]
}

fn our_patch(bench: &Bench) -> Run {
    let [workgroup_count, packet, implicit_args] = patched(bench);
    let workgroup_size = [8, 3, 2];
    let header_setup = header_setups(0x1502);
    let args = PatchDispatchArgs { workgroup_count, packet, implicit_args, header_setup, workgroup_size, reserved: 0 };
    let launch = plan_patch_dispatch(args);
    run_of(launch, launch.args.to_bytes())
}

fn iree_patch(bench: &Bench) -> Run {
    let mut kernargs: Vec<u8> = patched(bench).iter().flat_map(|address| address.to_le_bytes()).collect();
    kernargs.extend_from_slice(&0x1502_u32.to_le_bytes());
    Run {
        kernel: "iree_hal_amdgpu_device_dispatch_patch_indirect_params.kd",
        kernargs,
        grid_size: 1,
        workgroup_size: 1,
    }
}

/// A device library on an agent.
struct Library<'a> {
    bench: Bench,
    elf: CodeObject<'a>,
}

/// What a launch took.
struct Figures {
    kernel: String,
    /// In the order of the columns.
    columns: [f64; 7],
}

impl<'a> Library<'a> {
    fn new(hsa: &Hsa, agent: hsa_abi::HsaAgent, elf: &'a [u8]) -> Self {
        let bench = Bench::new(hsa, agent, load_code(agent, elf).unwrap(), (1 << 20) + 64);
        Self { bench, elf: CodeObject::parse(elf).unwrap() }
    }

    /// Launches a kernel; what is counted is divided by `units`.
    fn measure(&mut self, run: Run, units: f64) -> Figures {
        let machine = machine().unwrap();
        let counters =
            || [&machine.counters.wave_instructions, &machine.counters.global_accesses].map(|n| n.load(Relaxed));
        let before = counters();
        let kernel = run.kernel;
        self.bench.launch(&[run]);
        let after = counters();
        let metadata = self.elf.metadata().unwrap();
        let metadata = metadata.kernels.iter().find(|candidate| candidate.symbol == kernel).unwrap();
        Figures {
            kernel: kernel.trim_end_matches(".kd").trim_start_matches(IREE).to_owned(),
            columns: [
                f64::from(metadata.vgpr_count),
                f64::from(metadata.sgpr_count),
                code_bytes(&self.elf, kernel) as f64,
                f64::from(metadata.group_segment_size),
                f64::from(metadata.private_segment_size),
                (after[0] - before[0]) as f64 / units,
                (after[1] - before[1]) as f64 / units,
            ],
        }
    }
}

/// Bytes of a kernel's instructions: from its entry to the next kernel's entry, without the padding. Functions may have no symbols.
fn code_bytes(elf: &CodeObject<'_>, kernel: &str) -> usize {
    let entry = |symbol: &amdgpu_code_object::Symbol| {
        // The offset of the entry from its descriptor.
        let offset = elf.data_at(symbol.address + 16, 8).unwrap();
        symbol.address.wrapping_add_signed(i64::from_le_bytes(offset.try_into().unwrap()))
    };
    let begin = entry(elf.symbol(kernel).unwrap());
    let code = elf.segments.iter().find(|segment| segment.executable).unwrap();
    let end = code.address + code.data.len() as u64;
    let kernels = elf.symbols.iter().filter(|symbol| symbol.name.ends_with(".kd"));
    let end = kernels.map(entry).filter(|&next| next > begin).min().unwrap_or(end);
    let code = elf.data_at(begin, end - begin).unwrap();
    // Zero, `s_nop 0` and `s_code_end`.
    let is_padding =
        |word: &[u8]| matches!(u32::from_le_bytes(word.try_into().unwrap()), 0 | 0xbf80_0000 | 0xbf9f_0000);
    let padding = code.chunks_exact(4).rev().take_while(|word| is_padding(word)).count();
    code.len() - 4 * padding
}

/// Bytes of the instructions of all kernels with a word in their names.
fn all_code_bytes(elf: &CodeObject<'_>, word: &str) -> usize {
    let kernels = elf.symbols.iter().filter(|symbol| symbol.name.ends_with(".kd") && symbol.name.contains(word));
    kernels.map(|kernel| code_bytes(elf, kernel.name)).sum()
}

fn print_row(operation: &str, ours: &Figures, theirs: Option<&Figures>) {
    let mut row = format!("| {operation} | {} |", theirs.map_or("none", |theirs| &theirs.kernel));
    let text = |value: f64| if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.2}") };
    for (column, &value) in ours.columns.iter().enumerate() {
        let other = theirs.map(|theirs| theirs.columns[column]);
        let cell = format!("{} / {}", text(value), other.map_or("-".to_owned(), text));
        let mark = if other.is_some_and(|other| value > other) { "**" } else { "" };
        let _ = write!(row, " {mark}{cell}{mark} |");
    }
    println!("{row}");
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Costs of a device library's kernels: registers, code, and the work of some transfers as the simulated GPUs count it.

use std::sync::atomic::Ordering::Relaxed;

use amdgpu_code_object::CodeObject;
use device_binaries::{DeviceShape, PatchDispatchArgs, header_setups, plan_patch_dispatch};
use hsa_runtime64::machine::lifecycle::machine;

use super::code::load_code;
use super::library::*;
use super::*;

/// Transfers: description, offsets of source and target from an aligned address, and length in bytes.
const TRANSFERS: [(&str, u64, u64, u64); 4] =
    [("1 MiB", 0, 0, 1 << 20), ("1 MiB unaligned", 1, 3, 1 << 20), ("4 KiB", 0, 0, 4096), ("256 B", 0, 0, 256)];

/// Prefix of the names of IREE's kernels.
const IREE: &str = "iree_hal_amdgpu_device_";

/// Measured figures; wave-instructions and global accesses are per KiB moved, or per patch.
pub const COLUMNS: [&str; 7] =
    ["VGPRs", "SGPRs", "code bytes", "LDS", "scratch", "wave-instructions", "global accesses"];

/// Figures of an operation with the driver's library and, if it has one for the GPU, IREE's.
pub struct Row {
    pub operation: String,
    pub ours: Figures,
    pub theirs: Option<Figures>,
}

/// Measures all operations.
pub fn rows(ours: &mut Library<'_>, mut theirs: Option<&mut Library<'_>>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (operation, our_run, iree_run) in
        [("fill", our_transfer_fill as Choose, iree_fill as Choose), ("copy", our_copy, iree_copy)]
    {
        for (what, source_offset, target_offset, length) in TRANSFERS {
            let measure = |library: &mut Library<'_>, choose: Choose| {
                let Bench { device, source, target, .. } = &library.bench;
                let run = choose(*device, source.address() + source_offset, target.address() + target_offset, length);
                library.measure(run, length as f64 / 1024.0)
            };
            rows.push(Row {
                operation: format!("{operation} {what}"),
                ours: measure(ours, our_run),
                theirs: theirs.as_mut().map(|theirs| measure(theirs, iree_run)),
            });
        }
    }
    let run = our_patch(&ours.bench);
    rows.push(Row {
        operation: "patch_dispatch".to_owned(),
        ours: ours.measure(run, 1.0),
        theirs: theirs.map(|theirs| theirs.measure(iree_patch(&theirs.bench), 1.0)),
    });
    rows
}

/// A launch for a source, a target and a length.
type Choose = fn(DeviceShape, u64, u64, u64) -> Run;

/// The driver's launch that fills with a one-byte pattern.
fn our_transfer_fill(device: DeviceShape, _source: u64, target: u64, length: u64) -> Run {
    our_fill(device, target, length, &[0x5a])
}

/// The launch of IREE's driver that fills with a one-byte pattern (`device/blit.c`).
fn iree_fill(device: DeviceShape, _source: u64, target: u64, length: u64) -> Run {
    let bits = 0x5a5a_5a5a_5a5a_5a5a;
    let blocks = (length / 16).div_ceil(4);
    if (target | length).is_multiple_of(16) {
        iree_run(device, "iree_hal_amdgpu_device_buffer_fill_block_x16.kd", [target, length / 16, bits], blocks)
    } else {
        iree_run(device, "iree_hal_amdgpu_device_buffer_fill_block_unaligned_x16.kd", [target, length, bits], blocks)
    }
}

/// The launch of IREE's driver that copies.
fn iree_copy(device: DeviceShape, source: u64, target: u64, length: u64) -> Run {
    let blocks = length / 16;
    if (source | target | length).is_multiple_of(16) {
        iree_run(device, "iree_hal_amdgpu_device_buffer_copy_block_x16.kd", [source, target, blocks], blocks)
    } else {
        iree_run(device, "iree_hal_amdgpu_device_buffer_copy_block_unaligned_x16.kd", [source, target, length], blocks)
    }
}

/// Addresses of the counts, the packet and the implicit arguments of a patch. The source's bytes serve as counts that
/// are not zero.
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
pub struct Library<'a> {
    bench: Bench,
    pub elf: CodeObject<'a>,
}

/// Figures of a launch.
pub struct Figures {
    /// Name of the kernel, without the prefix of IREE's kernels.
    pub kernel: String,
    /// See [`COLUMNS`].
    pub columns: [f64; COLUMNS.len()],
}

impl<'a> Library<'a> {
    pub fn new(hsa: &Hsa, agent: HsaAgent, elf: &'a [u8]) -> Self {
        let bench = Bench::new(hsa, agent, load_code(agent, elf).unwrap(), (1 << 20) + 64);
        Self { bench, elf: CodeObject::parse(elf).unwrap() }
    }

    /// Launches a kernel, and divides the counts by `units`.
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

/// Size of a kernel's instructions in bytes: from its entry to the next kernel's entry, without the padding. Functions
/// may lack symbols.
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

/// Size of the instructions of all kernels with `word` in their names, in bytes.
pub fn all_code_bytes(elf: &CodeObject<'_>, word: &str) -> usize {
    let kernels = elf.symbols.iter().filter(|symbol| symbol.name.ends_with(".kd") && symbol.name.contains(word));
    kernels.map(|kernel| code_bytes(elf, kernel.name)).sum()
}

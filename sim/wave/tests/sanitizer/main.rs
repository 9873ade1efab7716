// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Findings of the checks in faulty kernels, absence of findings in correct ones, and counts of profiles.

mod barriers;
mod buffers;
mod hazards;
mod init;
mod mutations;
mod paths;
mod profile;
mod races;
mod rig;
mod waits;

use hsa_abi::KernelDescriptor;
use rig::{Everything, Found, launch};
use sim_isa::Target;
use sim_wave::{CheckSet, Checks, Counters, Fault, Finding, Kernel, Launch, Watch, run};

const CODE: u64 = 0x10_0000;
const DESCRIPTOR: u64 = CODE - 0x100;
/// Dwords of the buffer that a kernel gets.
const DWORDS: usize = 256;

/// Options of a run, beside the check of waits and barriers.
#[derive(Clone, Copy)]
struct With {
    items: u16,
    groups: u32,
    threads: usize,
    seed: Option<u64>,
    fatal: bool,
    race: bool,
    equal: bool,
    bounds: bool,
    clamp: bool,
    hazard: bool,
    init: bool,
    result: bool,
    /// Bytes of scratch of each item.
    scratch: u32,
    /// Waves of a workgroup are on several compute units.
    split: bool,
    /// Waves of 64 lanes, on any target.
    wide: bool,
}

const ONE_WAVE: With = With {
    items: 32,
    groups: 1,
    threads: 1,
    seed: None,
    fatal: false,
    race: false,
    equal: false,
    bounds: false,
    clamp: false,
    hazard: false,
    init: false,
    result: false,
    scratch: 0,
    split: false,
    wide: false,
};

/// A descriptor that asks for the kernel arguments' address in `s[0:1]`, the ids, and 32 VGPRs, and on CDNA as many
/// AGPRs.
fn descriptor(target: Target, split: bool, wide: bool) -> KernelDescriptor {
    let mut bytes = [0u8; 64];
    bytes[16..24].copy_from_slice(&0x100i64.to_le_bytes());
    let wave32 = !target.is_gfx9() && !wide;
    let granule = if target.has_unified_registers() || wave32 { 8 } else { 4 };
    let granule = if target == Target::Gfx1250 { 16 } else { granule };
    let wgp = split && !target.is_gfx9();
    let rsrc1 = (64 / granule - 1) | 0xf << 16 | 1 << 21 | 1 << 23 | u32::from(wgp) << 29;
    let rsrc2 = 2 << 1 | 7 << 7;
    // Three arguments of eight bytes.
    bytes[8..12].copy_from_slice(&24u32.to_le_bytes());
    // Where the AGPRs begin; gfx1250: four named barriers.
    let rsrc3 = if target == Target::Gfx1250 { 1 << 14 } else { 32 / 4 - 1 };
    bytes[44..48].copy_from_slice(&u32::to_le_bytes(rsrc3));
    bytes[48..52].copy_from_slice(&u32::to_le_bytes(rsrc1));
    bytes[52..56].copy_from_slice(&u32::to_le_bytes(rsrc2));
    bytes[56..58].copy_from_slice(&(1 << 3 | u16::from(wave32) << 10).to_le_bytes());
    // SAFETY: a descriptor is 64 bytes of integers.
    unsafe { std::mem::transmute(bytes) }
}

fn target(cpu: &str) -> Target {
    Target::from_processor(cpu).unwrap()
}

fn load(cpu: &str, text: &str, With { split, wide, .. }: With) -> Kernel {
    let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    let code = sim_llvm::assemble(cpu, &lines);
    let words = code
        .iter()
        .zip(&lines)
        .flat_map(|(words, line)| words.clone().unwrap_or_else(|| panic!("LLVM does not assemble `{line}` for {cpu}")));
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    Kernel::load(target(cpu), CODE, &bytes, &descriptor(target(cpu), split, wide), DESCRIPTOR, "under_test").unwrap()
}

/// Result of a run, its findings with their counts, and the contents of its buffer afterwards.
type Outcome = (Result<Counters, Box<Fault>>, Vec<(Finding, u64)>, [u32; DWORDS]);

/// Runs a kernel over its workgroups, with a buffer whose dwords are their numbers as its argument.
fn run_with(cpu: &str, text: &str, with: With) -> Outcome {
    let found = Found::default();
    let unwritten = init::OneBuffer::new();
    let is_other = with.race || with.init || with.hazard;
    let checks = Checks {
        set: CheckSet {
            wait: !is_other,
            sync: !is_other,
            race: with.race,
            equal: with.equal,
            hazard: with.hazard,
            bounds: with.bounds,
            clamp: with.clamp,
            init: with.init,
            result: with.result,
        },
        memory: &unwritten,
        seed: with.seed,
        fatal: with.fatal,
        sink: &found,
    };
    let second = if with.init { unwritten.address() } else { 7 };
    let (result, buffer) = run_given(&load(cpu, text, with), with, second, Watch::Checks(checks));
    (result, found.into_all(), buffer)
}

/// A buffer that begins with a cache line.
#[repr(align(128))]
struct Buffer([u32; DWORDS]);

/// Runs a kernel with an observer.
fn run_watched(kernel: &Kernel, with: With, watch: Watch<'_>) -> (Result<Counters, Box<Fault>>, [u32; DWORDS]) {
    run_given(kernel, with, 7, watch)
}

/// Runs a kernel with an observer and this second argument.
fn run_given(
    kernel: &Kernel,
    with: With,
    second: u64,
    watch: Watch<'_>,
) -> (Result<Counters, Box<Fault>>, [u32; DWORDS]) {
    let mut buffer = Buffer(std::array::from_fn(|n| n as u32));
    // The third argument is where flat accesses reach LDS.
    let arguments = [(&raw mut buffer) as u64, second, u64::from(sim_wave::SHARED_APERTURE) << 32];
    let grid = [u32::from(with.items) * with.groups, 1, 1];
    let mut launch =
        Launch { threads: with.threads, watch: Some(watch), ..launch(grid, [with.items, 1, 1], &arguments) };
    launch.packet.private_segment_size = with.scratch;
    launch.packet.group_segment_size = 4096;
    let result = run(kernel, &launch, &Everything);
    // SAFETY: the kernel wrote the buffer through its address.
    let buffer = unsafe { std::ptr::read_volatile(&raw const buffer.0) };
    (result, buffer)
}

/// Findings in a kernel that runs to its end.
fn findings(cpu: &str, text: &str) -> Vec<Finding> {
    let lanes = if target(cpu).is_gfx9() { 64 } else { 32 };
    let (result, found, _) = run_with(cpu, text, With { items: lanes, ..ONE_WAVE });
    result.unwrap_or_else(|fault| panic!("{cpu}: {fault}"));
    found.into_iter().map(|(finding, _)| finding).collect()
}

/// Asserts that there is one finding, at the instruction `line`, whose text contains `what`.
#[track_caller]
fn finds(cpu: &str, text: &str, line: &str, what: &str) -> Finding {
    let found = findings(cpu, text);
    let [finding] = &found[..] else { panic!("{cpu}: found {found:#?} in {text}") };
    assert_eq!(finding.line.text, line, "{cpu}: {finding}");
    assert!(finding.what.contains(what), "{cpu}: {finding}");
    finding.clone()
}

/// Asserts that there is no finding.
#[track_caller]
fn finds_nothing(cpu: &str, text: &str) {
    let found = findings(cpu, text);
    assert!(found.is_empty(), "{cpu}: {} in {text}", found[0]);
}

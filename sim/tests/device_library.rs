// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Every kernel of the driver's device library on every kind of agent, against a plain model on the host: all
//! alignments of source and target with all lengths up to 300 bytes and around tiles' lengths, large transfers, and the
//! bytes around each target, which must stay. IREE's own kernels run through the same cases, as a check of the
//! simulated GPUs with code from other authors. The driver's kernels must not cost more than IREE's.
//!
//! One test, because the environment is the process's.

mod common;

use std::env;
use std::ops::RangeInclusive;

use common::code::load_code;
use common::figures::*;
use common::library::*;
use common::*;
use device_binaries::{DeviceShape, Kernel, PatchDispatchArgs, header_setups, plan_patch_dispatch, select};
use hsa_abi::HsaAgent;

/// Lengths of transfers that run with every alignment, in bytes.
const SHORT: RangeInclusive<usize> = 0..=300;
/// Lengths in bytes around one and two tiles, of wave32 and of wave64, that run with every alignment of the target.
const AROUND_TILES: [RangeInclusive<usize>; 3] = [2030..=2066, 4078..=4114, 8174..=8210];
/// Initial value of memory.
const GUARD: u8 = 0xa5;
/// Size of the largest transfers in bytes.
const LARGE: usize = 64 << 20;

/// Returns a library's copy kernels for a source, a target and a length.
type Copies = fn(DeviceShape, u64, u64, u64) -> Vec<Run>;
/// Returns a library's fill kernels for `length` bytes with a pattern.
type Fills = fn(DeviceShape, u64, u64, &[u8]) -> Vec<Run>;

#[test]
fn device_libraries_transfer_exactly_what_they_are_told() {
    let names: Vec<_> = AGENTS.iter().map(|(name, _)| *name).collect();
    // SAFETY: this process has one test and the runtime is not initialised, so that no other thread looks at the
    // environment.
    unsafe { env::set_var("HSA_SIM_AGENTS", names.join(",")) };
    let hsa = Hsa::new();
    for ((name, theirs), &agent) in AGENTS.iter().zip(&hsa.gpus) {
        let mut bench = Bench::new(&hsa, agent, load_code(agent, select(name).unwrap().elf).unwrap(), LARGE + 384);
        let patches = bench.patches();
        let ours = bench.transfers(our_copies, our_fills, &[1, 2, 4, 8, 16]);
        println!("{name}: {ours} transfers and {patches} patches by the driver's kernels");
        if let Some(file) = theirs {
            let code = std::fs::read(iree_binary(file))
                .unwrap_or_else(|error| panic!("{}: {error}", iree_binary(file).display()));
            let bench = Bench::new(&hsa, agent, load_code(agent, &code).unwrap(), LARGE + 384);
            let theirs = bench.transfers(iree_copies, iree_fills, &[1, 2, 4, 8]);
            println!("{name}: {theirs} transfers by IREE's kernels");
            no_worse_than(&hsa, agent, select(name).unwrap().elf, &code);
        }
    }
}

/// Asserts that the driver's kernels use no more registers, code, LDS, scratch and wave-instructions than IREE's, which
/// the example `device_library` prints, and on the bulk path no more accesses. Scalar registers do not count, because
/// waves of these sizes have enough of them. Accesses on other paths do not count, because several work-items write the
/// same block if a range is shorter than a tile.
fn no_worse_than(hsa: &Hsa, agent: HsaAgent, ours: &[u8], theirs: &[u8]) {
    let [mut ours, mut theirs] = [ours, theirs].map(|elf| Library::new(hsa, agent, elf));
    for Row { operation, ours, theirs } in rows(&mut ours, Some(&mut theirs)) {
        let theirs = theirs.expect("there is a library");
        for (column, name) in COLUMNS.iter().enumerate() {
            if *name == "SGPRs" || *name == "global accesses" && !operation.ends_with(" 1 MiB") {
                continue;
            }
            let (ours, theirs) = (ours.columns[column], theirs.columns[column]);
            assert!(ours <= theirs, "{operation}: {ours} {name}, more than the {theirs} of IREE's kernel");
        }
    }
}

fn our_copies(device: DeviceShape, source: u64, target: u64, length: u64) -> Vec<Run> {
    vec![our_copy(device, source, target, length)]
}

fn our_fills(device: DeviceShape, target: u64, length: u64, pattern: &[u8]) -> Vec<Run> {
    vec![our_fill(device, target, length, pattern)]
}

/// True if a kernel that moves `size` bytes at once runs in reasonable time.
fn is_quick(size: u64, length: u64) -> bool {
    size == 16 || length <= 1 << 21
}

/// IREE's copy kernels, with the size of their elements, to which addresses and length must be aligned.
fn iree_copies(device: DeviceShape, source: u64, target: u64, length: u64) -> Vec<Run> {
    let kernels = [
        ("iree_hal_amdgpu_device_buffer_copy_x1.kd", 1),
        ("iree_hal_amdgpu_device_buffer_copy_block_x4.kd", 4),
        ("iree_hal_amdgpu_device_buffer_copy_block_x8.kd", 8),
        ("iree_hal_amdgpu_device_buffer_copy_block_x16.kd", 16),
    ];
    let aligned = kernels
        .into_iter()
        .filter(|(_, size)| (source | target | length).is_multiple_of(*size) && is_quick(*size, length));
    let runs = aligned.map(|(kernel, size)| iree_run(device, kernel, [source, target, length / size], length / size));
    let unaligned = "iree_hal_amdgpu_device_buffer_copy_block_unaligned_x16.kd";
    runs.chain([iree_run(device, unaligned, [source, target, length], length / 16)]).collect()
}

/// IREE's fill kernels, with the size of their elements. The pattern is repeated to 64 bits.
fn iree_fills(device: DeviceShape, target: u64, length: u64, pattern: &[u8]) -> Vec<Run> {
    let bits = u64::from_le_bytes(std::array::from_fn(|i| pattern[i % pattern.len()]));
    let kernels = [
        ("iree_hal_amdgpu_device_buffer_fill_x1.kd", 1),
        ("iree_hal_amdgpu_device_buffer_fill_x2.kd", 2),
        ("iree_hal_amdgpu_device_buffer_fill_x4.kd", 4),
        ("iree_hal_amdgpu_device_buffer_fill_x8.kd", 8),
        ("iree_hal_amdgpu_device_buffer_fill_block_x16.kd", 16),
    ];
    let suited =
        |size: u64| (target | length).is_multiple_of(size) && size >= pattern.len() as u64 && is_quick(size, length);
    let aligned = kernels.into_iter().filter(|(_, size)| suited(*size));
    let runs = aligned.map(|(kernel, size)| iree_run(device, kernel, [target, length / size, bits], length / size));
    let unaligned = "iree_hal_amdgpu_device_buffer_fill_block_unaligned_x16.kd";
    let unaligned =
        suited(pattern.len() as u64).then(|| iree_run(device, unaligned, [target, length, bits], length / 16));
    runs.chain(unaligned).collect()
}

impl Bench {
    /// Runs every transfer with kernels of a library. Returns the number of launches.
    fn transfers(mut self, copies: Copies, fills: Fills, pattern_lengths: &[usize]) -> usize {
        let mut count = 0;
        for target_offset in 0..16 {
            for source_offset in 0..16 {
                count += self.each_length(SHORT, target_offset, |bench, target, length| {
                    let source = bench.source.address() + (source_offset + length) as u64;
                    let expected = bench.source.0[source_offset + length..][..length].to_vec();
                    (copies(bench.device, source, target, length as u64), expected)
                });
            }
            for lengths in AROUND_TILES {
                count += self.each_length(lengths.clone(), target_offset, |bench, target, length| {
                    let source = bench.source.address() + 7 * length as u64;
                    let expected = bench.source.0[7 * length..][..length].to_vec();
                    (copies(bench.device, source, target, length as u64), expected)
                });
                count += self.each_length(lengths, target_offset, |bench, target, length| {
                    let pattern = &bench.source.0[length..][..1];
                    (fills(bench.device, target, length as u64, pattern), pattern.repeat(length))
                });
            }
            for &pattern_length in pattern_lengths {
                count += self.each_length(SHORT, target_offset, |bench, target, length| {
                    let length = length / pattern_length * pattern_length;
                    let pattern = &bench.source.0[length..][..pattern_length];
                    let expected = pattern.repeat(length / pattern_length);
                    (fills(bench.device, target, length as u64, pattern), expected)
                });
            }
        }
        for (source, target, length) in [
            (0, 16, LARGE),
            (5, 3, LARGE - 1),
            (8, 8, (1 << 20) + 8),
            (1, 16, (1 << 20) + 48),
            (16, 9, 65_537),
            (3, 0, 4095),
        ] {
            let address = self.source.address() + source as u64;
            let expected = self.source.0[source..][..length].to_vec();
            count += self.long(target, &expected, |bench, target| copies(bench.device, address, target, length as u64));
            for &pattern_length in pattern_lengths {
                let (target, length) = (target & !(pattern_length - 1), length & !(pattern_length - 1));
                let pattern = self.source.0[source..][..pattern_length].to_vec();
                let expected = pattern.repeat(length / pattern_length);
                count +=
                    self.long(target, &expected, |bench, target| fills(bench.device, target, length as u64, &pattern));
            }
        }
        count
    }

    /// Runs transfers of each of `lengths`, all at once, each to memory of its own at `offset` from an aligned address.
    /// `transfer` returns the kernels for an address and a length, and the expected bytes.
    fn each_length(
        &mut self,
        lengths: RangeInclusive<usize>,
        offset: usize,
        transfer: impl Fn(&Self, u64, usize) -> (Vec<Run>, Vec<u8>),
    ) -> usize {
        // The longest length, an alignment, and the values around them.
        let slot_length = (lengths.end() + 48).next_multiple_of(64);
        let mut runs = Vec::new();
        let mut expected = Vec::new();
        for length in lengths {
            let mut next = self.target.address() + (expected.len() + 16 + offset) as u64;
            let (candidates, bytes) = transfer(self, next, length);
            for candidate in 0..candidates.len() {
                // The same transfer again, for the address that this kernel writes to.
                let (mut these, _) = transfer(self, next, length);
                runs.push(these.swap_remove(candidate));
                let mut slot = vec![GUARD; slot_length];
                slot[16 + offset..][..bytes.len()].copy_from_slice(&bytes);
                expected.extend_from_slice(&slot);
                next += slot_length as u64;
            }
        }
        self.target.0[..expected.len()].fill(GUARD);
        self.launch(&runs);
        if let Some(wrong) = (0..expected.len()).find(|&i| self.target.0[i] != expected[i]) {
            let run = &runs[wrong / slot_length];
            let (found, expected) = (self.target.0[wrong], expected[wrong]);
            panic!(
                "{} {:x?}: byte {} of the target at offset {offset} is {found:#x}, not {expected:#x}",
                run.kernel,
                run.kernargs,
                (wrong % slot_length) as i64 - 16 - offset as i64
            );
        }
        runs.len()
    }

    /// Runs one large transfer with each kernel that supports it.
    fn long(&mut self, target: usize, expected: &[u8], runs: impl Fn(&Self, u64) -> Vec<Run>) -> usize {
        let runs = runs(self, self.target.address() + target as u64);
        for run in &runs {
            let around = target + expected.len() + 64;
            self.target.0[..around].fill(GUARD);
            self.launch(std::slice::from_ref(run));
            let (before, rest) = self.target.0[..around].split_at(target);
            let (written, after) = rest.split_at(expected.len());
            assert!(written == expected, "{} {:x?} writes something else", run.kernel, run.kernargs);
            assert!(before.iter().chain(after).all(|&byte| byte == GUARD), "{} writes around its target", run.kernel);
        }
        runs.len()
    }

    /// Completes dispatch packets, with and without implicit arguments, for counts with and without a zero.
    fn patches(&mut self) -> usize {
        let address = self.target.address();
        let (packet_at, implicit_at) = (64, 128);
        let size = [8_u32, 3, 2];
        let mut count = 0;
        for counts in [[1, 1, 1], [7, 2, 9], [65_535, 1, 3], [0, 1, 1], [4, 0, 4], [4, 4, 0], [0; 3]] {
            for implicit in [0, address + implicit_at] {
                self.target.0[..256].fill(GUARD);
                for (bytes, count) in self.target.0.chunks_exact_mut(4).zip(counts) {
                    bytes.copy_from_slice(&u32::to_le_bytes(count));
                }
                let mut expected = self.target.0[..256].to_vec();
                let header_setup: u32 = 3 << 16 | 0x1502;
                let mut put = |at: usize, words: &[u32]| {
                    for (index, word) in words.iter().enumerate() {
                        expected[at + 4 * index..][..4].copy_from_slice(&word.to_le_bytes());
                    }
                };
                if counts.contains(&0) {
                    // A barrier-AND packet without dependencies, with the same barrier bit and fences.
                    put(packet_at, &[0x1503]);
                    put(packet_at + 4, &[0; 13]);
                } else {
                    put(packet_at, &[header_setup]);
                    put(packet_at + 12, &[counts[0] * size[0], counts[1] * size[1], counts[2] * size[2]]);
                }
                if implicit != 0 {
                    put(implicit_at as usize, &counts);
                }
                let launch = plan_patch_dispatch(PatchDispatchArgs {
                    workgroup_count: address,
                    packet: address + packet_at as u64,
                    implicit_args: implicit,
                    header_setup: header_setups(header_setup),
                    workgroup_size: size,
                    reserved: 0,
                });
                assert_eq!(launch.kernel, Kernel::PatchDispatch);
                self.launch(&[run_of(launch, launch.args.to_bytes())]);
                assert_eq!(self.target.0[..256], expected, "counts {counts:?}, implicit arguments at {implicit:#x}");
                count += 1;
            }
        }
        count
    }
}

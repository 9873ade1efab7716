// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Whole kernels: start, sharing and end of waves, and the faults that stop them.

mod compiled;
mod gfx9;
mod kernels;
mod kernels_gfx12;
mod registers;
#[path = "../rig/launch.rs"]
mod rig;
mod setup;
mod threads;
mod turns;

use hsa_abi::KernelDescriptor;
use rig::launch;
use sim_isa::Target;
use sim_wave::{Access, Counters, Fault, FaultKind, Gws, Jit, Kernel, Launch, Memory, Region, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The regions that a test maps.
#[derive(Default)]
struct Map {
    regions: Mutex<Vec<Region>>,
    generation: AtomicU64,
    lookups: AtomicU64,
}

impl Map {
    fn of<T>(&self, data: &[T], writable: bool) -> u64 {
        let base = data.as_ptr() as u64;
        let region = Region { base, size: size_of_val(data) as u64, host: base, readable: true, writable };
        self.regions.lock().unwrap().push(region);
        region.base
    }

    fn unmap(&self, base: u64) {
        self.regions.lock().unwrap().retain(|region| region.base != base);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

impl Memory for Map {
    fn region(&self, addr: u64) -> Option<Region> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        self.regions.lock().unwrap().iter().find(|region| addr.wrapping_sub(region.base) < region.size).copied()
    }

    fn generation(&self) -> &AtomicU64 {
        &self.generation
    }
}

/// Where tests say their code is loaded, and its descriptor before it.
const CODE: u64 = 0x10_0000;
const DESCRIPTOR: u64 = CODE - 0x100;

/// A descriptor that asks for the kernel arguments' address, all ids and 24 VGPRs, for waves of 32 or 64 lanes.
fn descriptor(lanes: u32) -> KernelDescriptor {
    let mut bytes = [0u8; 64];
    bytes[16..24].copy_from_slice(&0x100i64.to_le_bytes());
    let granule = if lanes == 32 { 8 } else { 4 };
    let rsrc1 = (24 / granule - 1) | 0xf << 16 | 1 << 21 | 1 << 23;
    let rsrc2 = 2 << 1 | 7 << 7 | 2 << 11;
    let properties = 1 << 3 | u16::from(lanes == 32) << 10;
    bytes[48..52].copy_from_slice(&u32::to_le_bytes(rsrc1));
    bytes[52..56].copy_from_slice(&u32::to_le_bytes(rsrc2));
    bytes[56..58].copy_from_slice(&u16::to_le_bytes(properties));
    // SAFETY: a descriptor is 64 bytes of integers.
    unsafe { std::mem::transmute(bytes) }
}

fn load(code: &[u32]) -> Kernel {
    load_for(Target::Gfx11, 32, code)
}

fn load_for(target: Target, lanes: u32, code: &[u32]) -> Kernel {
    let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut descriptor = descriptor(lanes);
    if target == Target::Gfx1250 {
        descriptor.compute_pgm_rsrc3 |= NAMED_BARRIERS_4;
    }
    Kernel::load(target, CODE, &bytes, &descriptor, DESCRIPTOR, "under_test").unwrap()
}

/// gfx1250: four named barriers (AMDGPUUsage, `NAMED_BAR_CNT`).
const NAMED_BARRIERS_4: u32 = 1 << 14;

/// Runs one kernel over one dimension with a buffer of `N` dwords as its argument.
fn run_for<const N: usize>(
    target: Target,
    lanes: u32,
    code: &[u32],
    items: u32,
    group: u16,
    change: impl FnOnce(&mut Launch<'_>),
) -> (Result<Counters, Box<Fault>>, [u32; N]) {
    let mut buffer = [0u32; N];
    let map = Map::default();
    let arguments = [map.of(&buffer, true)];
    map.of(&arguments, false);
    let mut launch = launch([items, 1, 1], [group, 1, 1], &arguments);
    change(&mut launch);
    let result = run(&load_for(target, lanes, code), &launch, &map);
    // SAFETY: the kernel wrote the buffer through the address that the map holds.
    let buffer = unsafe { std::ptr::read_volatile(&raw mut buffer) };
    (result, buffer)
}

/// [`run_for`] gfx11 in wave32.
fn run_on<const N: usize>(
    code: &[u32],
    items: u32,
    group: u16,
    change: impl FnOnce(&mut Launch<'_>),
) -> (Result<Counters, Box<Fault>>, [u32; N]) {
    run_for(Target::Gfx11, 32, code, items, group, change)
}

fn fault(code: &[u32], change: impl FnOnce(&mut Launch<'_>)) -> Box<Fault> {
    run_on::<16>(code, 32, 32, change).0.unwrap_err()
}

/// Of 40 work-items the last eight share a wave with inactive lanes.
#[test]
fn compiled_code_does_what_the_interpreter_does() {
    let run_with = |jit: Jit| {
        // The load leads out of the smaller buffer.
        let (fault, stored) = run_on::<64>(kernels::ROUNDS, 40, 40, |launch| launch.jit = jit);
        let fault = fault.unwrap_err();
        let faulting = (fault.mnemonic.clone(), fault.pc, fault.wave, stored);
        let ending = run_on::<1024>(kernels::ROUNDS, 40, 40, |launch| launch.jit = jit);
        (faulting, ending)
    };
    let expected = run_with(Jit::OFF);
    assert_eq!((expected.0.0.as_str(), expected.0.1, expected.0.2), ("global_load_b32", CODE + 4 * 22, 0));
    let (counters, stored) = &expected.1;
    // Waits are instructions.
    assert_eq!(counters.as_ref().unwrap().wave_instructions, 2 * (7 + 8 * 1000 + 3));
    assert_eq!([stored[0], stored[8]].map(f32::from_bits), [1001.0 * 1001.0, -0.5 * 1001.0]);
    for jit in [Jit::ON, Jit::ALWAYS, Jit::CHECK].into_iter().flat_map(|jit| [jit, jit.with_avx2()]) {
        assert_eq!(run_with(jit), expected, "{jit:?}");
    }
}

#[test]
fn global_wave_sync_is_a_barrier_of_all_workgroups() {
    for threads in [1, 4] {
        let gws = Gws::default();
        // A counter that one dispatch sets is there for the next.
        let one = |code, items| {
            let (mut buffer, map) = ([0_u32; 8], Map::default());
            let arguments = [map.of(&buffer, true)];
            map.of(&arguments, false);
            let launch = Launch { gws: Some(&gws), threads, ..launch([items, 1, 1], [32, 1, 1], &arguments) };
            run(&load(code), &launch, &map).unwrap();
            // SAFETY: the kernel wrote the buffer through the address that the map holds.
            unsafe { std::ptr::read_volatile(&raw mut buffer) }
        };
        one(kernels::GWS_INIT, 32);
        for _ in 0..2 {
            assert_eq!(one(kernels::GWS_BARRIER, 128), [1, 2, 3, 4, 2, 3, 4, 1]);
        }
    }
    let lacking = fault(kernels::GWS_INIT, |_| {});
    assert!(matches!(&lacking.kind, FaultKind::NotImplemented(what) if what.contains("wave sync")), "{lacking}");
}

#[test]
fn work_items_know_where_they_are() {
    ids(Target::Gfx11, 32, kernels::IDS, 22);
    ids(Target::Gfx11, 64, kernels::IDS, 22);
    ids(Target::Gfx1200, 32, kernels_gfx12::IDS, 25);
}

/// Runs a kernel of so many instructions that stores each work-item's ids.
fn ids(target: Target, lanes: u32, code: &[u32], instructions: u64) {
    // Partial workgroups in every dimension.
    let (grid, group) = ([19u32, 7, 5], [8u16, 4, 2]);
    let total = (grid[0] * grid[1] * grid[2]) as usize;
    for threads in [1, 4] {
        let out = vec![[u32::MAX; 4]; total];
        let map = Map::default();
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let arguments = [
            map.of(&out, true),
            pair(grid[0], grid[1]),
            pair(group[0].into(), group[1].into()),
            pair(group[2].into(), 0),
        ];
        map.of(&arguments, false);
        let mut launch = launch(grid, group, &arguments);
        launch.threads = threads;
        let counters = run(&load_for(target, lanes, code), &launch, &map).unwrap();
        assert_eq!(counters.workgroups, 3 * 2 * 3);
        // 64 items fill two waves of 32 lanes; the workgroups at two edges (3×4×2, 8×3×2) have 24 and 48.
        assert!(counters.waves <= counters.workgroups * 64 / u64::from(lanes));
        assert_eq!(counters.wave_instructions, counters.waves * instructions);
        for (i, found) in out.iter().enumerate() {
            // SAFETY: the kernel wrote it through the address in the map.
            let found = unsafe { std::ptr::read_volatile(found) };
            let i = i as u32;
            let at = [i % grid[0], i / grid[0] % grid[1], i / (grid[0] * grid[1])];
            let [x, y, z] = [0, 1, 2].map(|d| (at[d] % u32::from(group[d]), at[d] / u32::from(group[d])));
            assert_eq!(found, [x.0 | y.0 << 10 | z.0 << 20, x.1, y.1, z.1], "work-item {at:?}");
        }
    }
}

#[test]
fn waves_meet_at_barriers() {
    let (result, out) = run_on::<128>(kernels::REVERSE, 128, 128, |launch| launch.packet.group_segment_size = 512);
    assert_eq!(result.unwrap().waves, 4);
    assert_eq!(out, std::array::from_fn(|i| (127 - i as u32).pow(2)));
    let memory = |launch: &mut Launch<'_>| launch.packet.group_segment_size = 512;
    let (result, out) = run_for::<128>(Target::Gfx11, 64, kernels::REVERSE, 128, 128, memory);
    assert_eq!(result.unwrap().waves, 2);
    assert_eq!(out, std::array::from_fn(|i| (127 - i as u32).pow(2)));
}

#[test]
fn waves_meet_at_split_barriers() {
    let memory = |launch: &mut Launch<'_>| launch.packet.group_segment_size = 512;
    let (result, out) = run_for::<128>(Target::Gfx1200, 32, kernels_gfx12::REVERSE, 128, 128, memory);
    assert_eq!(result.unwrap().waves, 4);
    assert_eq!(out, std::array::from_fn(|i| (127 - i as u32).pow(2)));
}

#[test]
fn waves_meet_at_named_barriers() {
    let memory = |launch: &mut Launch<'_>| launch.packet.group_segment_size = 512;
    let (result, out) = run_for::<128>(Target::Gfx1250, 32, kernels_gfx12::REVERSE_NAMED_GFX1250, 128, 128, memory);
    assert_eq!(result.unwrap().waves, 4);
    assert_eq!(out, std::array::from_fn(|i| (127 - i as u32).pow(2)));
}

#[test]
fn a_wave_that_signalled_holds_nobody_up() {
    let memory = |launch: &mut Launch<'_>| launch.packet.group_segment_size = 4;
    let (result, out) = run_for::<64>(Target::Gfx1200, 32, kernels_gfx12::AHEAD, 64, 64, memory);
    result.unwrap();
    assert_eq!(out, [42; 64]);
}

#[test]
fn a_barrier_that_nobody_signals_is_a_deadlock() {
    let (result, _) = run_for::<1>(Target::Gfx1200, 32, kernels_gfx12::STUCK, 64, 64, |_| {});
    assert_eq!(result.unwrap_err().kind, FaultKind::Deadlock);
}

#[test]
fn a_barrier_does_not_wait_for_waves_that_ended() {
    let (result, out) = run_on::<32>(kernels::EARLY_END, 96, 96, |_| {});
    result.unwrap();
    assert_eq!(out, [7; 32]);
}

#[test]
fn a_wave_may_spin_on_another_one() {
    let (result, out) = run_on::<32>(kernels::FLAG, 64, 64, |launch| launch.packet.group_segment_size = 4);
    result.unwrap();
    assert_eq!(out, [42; 32]);
}

#[test]
fn atomics_count_across_threads() {
    for threads in [1, 3] {
        let (result, out) = run_on::<1>(kernels::COUNT, 100_000, 128, |launch| launch.threads = threads);
        assert_eq!(result.unwrap().workgroups, 782);
        assert_eq!(out, [100_000]);
    }
}

#[test]
fn flat_accesses_reach_lds_and_scratch() {
    let (result, out) = run_on::<64>(kernels::APERTURES, 64, 64, |launch| {
        launch.packet.group_segment_size = 256;
        launch.packet.private_segment_size = 16;
    });
    result.unwrap();
    assert_eq!(out, std::array::from_fn(|i| i as u32));
}

#[test]
fn functions_can_be_called() {
    let (result, out) = run_on::<32>(kernels::CALL, 32, 32, |_| {});
    result.unwrap();
    assert_eq!(out, [21; 32]);
}

#[test]
fn a_kernel_that_runs_forever_can_be_cancelled() {
    for (code, group, expected) in [(kernels::FOREVER, 32, (1, 2)), (kernels::BARRIERS_FOREVER, 64, (2, 1))] {
        let cancel = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let kernel = scope.spawn(|| {
                let map = Map::default();
                let mut launch = launch([64, 1, 1], [group, 1, 1], &[0u64; 0]);
                launch.threads = 2;
                launch.cancel = Some(&cancel);
                run(&load(code), &launch, &map)
            });
            cancel.store(true, Ordering::Relaxed);
            let fault = kernel.join().unwrap().unwrap_err();
            let FaultKind::Cancelled { ended: 0, waves, workgroups, .. } = fault.kind else { panic!("{fault}") };
            assert_eq!((waves, workgroups), expected);
            assert!((CODE..CODE + 8).contains(&fault.pc), "{fault}");
        });
    }
}

#[test]
fn accesses_outside_of_allocations_are_faults() {
    let (source, target) = ([1u32; 32], [0u32; 20]);
    let map = Map::default();
    let arguments = [map.of(&source, false), map.of(&target, true)];
    map.of(&arguments, false);
    let launch = launch([32, 1, 1], [32, 1, 1], &arguments);
    let fault = run(&load(kernels::COPY), &launch, &map).unwrap_err();
    let FaultKind::MemoryViolation { address, size, access, lane, .. } = fault.kind else { panic!("{fault}") };
    assert_eq!((address, size, access, lane), (arguments[1] + 80, 4, Access::Write, 20));
    let text = fault.to_string();
    for part in ["under_test", "write of 4 bytes", "lane 20", "global_store_b32", "dc6a0000 00060201", "pc 0x10001c"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn read_only_memory_is_not_written() {
    let (source, target) = ([1u32; 32], [0u32; 32]);
    let map = Map::default();
    let arguments = [map.of(&source, false), map.of(&target, false)];
    map.of(&arguments, false);
    let launch = launch([32, 1, 1], [32, 1, 1], &arguments);
    let fault = run(&load(kernels::COPY), &launch, &map).unwrap_err();
    assert!(fault.to_string().contains("does not allow this access"), "{fault}");
}

#[test]
fn memory_that_is_unmapped_is_not_used_from_the_cache() {
    let (source, target) = ([1u32; 64], [0u32; 64]);
    let map = Map::default();
    let arguments = [map.of(&source, false), map.of(&target, true)];
    map.of(&arguments, false);
    let kernel = load(kernels::COPY);
    let launch = launch([32, 1, 1], [32, 1, 1], &arguments);
    run(&kernel, &launch, &map).unwrap();
    // One look-up for each of the three regions, however often they are used.
    assert_eq!(map.lookups.load(Ordering::SeqCst), 3);
    map.unmap(arguments[0]);
    let fault = run(&kernel, &launch, &map).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::MemoryViolation { access: Access::Read, .. }), "{fault}");
}

#[test]
fn misaligned_atomics_are_faults() {
    let fault = fault(kernels::MISALIGNED, |_| {});
    assert!(matches!(fault.kind, FaultKind::Misaligned { size: 4, access: Access::Atomic, .. }), "{fault}");
}

#[test]
fn lds_ends_where_the_packet_says() {
    assert!(run_on::<1>(kernels::LDS_BEYOND, 32, 32, |launch| launch.packet.group_segment_size = 132).0.is_ok());
    // Bytes beyond the segment read as zero.
    assert!(run_on::<1>(kernels::LDS_BEYOND, 32, 32, |launch| launch.packet.group_segment_size = 128).0.is_ok());
}

#[test]
fn scratch_ends_where_the_packet_says() {
    assert!(run_on::<1>(kernels::SCRATCH_BEYOND, 32, 32, |launch| launch.packet.private_segment_size = 20).0.is_ok());
    let fault = fault(kernels::SCRATCH_BEYOND, |launch| launch.packet.private_segment_size = 16);
    let expected = FaultKind::ScratchOutOfBounds { offset: 16, size: 4, limit: 16, access: Access::Read, lane: 0 };
    assert_eq!(fault.kind, expected);
}

#[test]
fn registers_end_where_the_descriptor_says() {
    let fault = fault(kernels::HIGH_REGISTER, |_| {});
    assert!(matches!(&fault.kind, FaultKind::RegisterOutOfRange(what) if what.starts_with("v24")), "{fault}");
}

#[test]
fn traps_are_faults() {
    assert_eq!(fault(kernels::TRAP, |_| {}).kind, FaultKind::Trap(2));
}

#[test]
fn what_is_not_implemented_matters_only_when_reached() {
    assert!(run_on::<1>(kernels::SKIPPED, 32, 32, |_| {}).0.is_ok());
    let fault = fault(kernels::REACHED, |_| {});
    assert!(matches!(fault.kind, FaultKind::NotImplemented(_)), "{fault}");
    let text = fault.to_string();
    for part in ["under_test", "image_load", "[f0000100]", "pc 0x100004"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn words_that_are_no_instruction_are_faults() {
    let fault = fault(&[0xbf80_0000, 0xffff_ffff], |_| {});
    assert!(matches!(fault.kind, FaultKind::InvalidEncoding(_)), "{fault}");
    assert_eq!((fault.pc, fault.words.as_slice()), (CODE + 4, [0xffff_ffff].as_slice()));
}

#[test]
fn leaving_the_code_is_a_fault() {
    let fault_away = fault(kernels::AWAY, |_| {});
    assert!(matches!(fault_away.kind, FaultKind::PcOutOfRange(_)), "{fault_away}");
    let fault_end = fault(kernels::OFF_THE_END, |_| {});
    assert_eq!(fault_end.kind, FaultKind::PcOutOfRange(CODE + 8));
}

#[test]
fn impossible_launches_are_refused() {
    let refused = |change: fn(&mut Launch<'_>)| {
        let fault = fault(kernels::TRAP, change);
        assert!(matches!(fault.kind, FaultKind::Launch(_)), "{fault}");
    };
    refused(|launch| launch.packet.workgroup_size = [0, 1, 1]);
    refused(|launch| launch.packet.workgroup_size = [1024, 2, 1]);
    refused(|launch| launch.packet.workgroup_size = [u16::MAX; 3]);
    refused(|launch| launch.packet.grid_size = [1, 0, 1]);
    refused(|launch| launch.packet.group_segment_size = 65_537);
    refused(|launch| launch.packet.private_segment_size = u32::MAX);
}

#[test]
fn entry_points_outside_of_the_code_are_refused() {
    for address in [CODE, CODE - 0x200, u64::MAX, DESCRIPTOR + 2] {
        let result = Kernel::load(Target::Gfx11, CODE, &[0; 64], &descriptor(32), address, "under_test");
        let fault = result.err().unwrap();
        assert!(matches!(fault.kind, FaultKind::Launch(_)), "{fault}");
    }
}

/// The documentation promises ten million a second on one core. Only optimised builds are held to it.
#[test]
fn a_core_runs_ten_million_wave_instructions_a_second() {
    let (source, target) = ([0.5f32; 256], [0f32; 256]);
    let map = Map::default();
    let arguments = [map.of(&source, false), map.of(&target, true)];
    map.of(&arguments, false);
    let launch = launch([256, 1, 1], [256, 1, 1], &arguments);
    let kernel = load(kernels::THROUGHPUT);
    let rate = (0..3).map(|_| {
        let start = std::time::Instant::now();
        let counters = run(&kernel, &launch, &map).unwrap();
        counters.wave_instructions as f64 / start.elapsed().as_secs_f64()
    });
    let best = rate.fold(0.0, f64::max);
    assert!(best > if cfg!(debug_assertions) { 1e4 } else { 1e7 }, "{best:.0} wave-instructions a second");
}

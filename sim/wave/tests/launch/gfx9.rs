// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! How waves of GFX9 start (AMDGPUUsage, "Initial Kernel Execution State"): ids, preloaded arguments, scratch,
//! accumulation registers.

use super::rig::launch;
use super::{CODE, DESCRIPTOR, Map};
use hsa_abi::KernelDescriptor;
use sim_isa::Target;
use sim_wave::{Counters, Fault, FaultKind, Kernel, Launch, run};

const ALL: [(Target, &str); 5] = [
    (Target::Gfx906, "gfx906"),
    (Target::Gfx908, "gfx908"),
    (Target::Gfx90a, "gfx90a"),
    (Target::Gfx942, "gfx942"),
    (Target::Gfx950, "gfx950"),
];

/// Requests of a descriptor beside the ids of the workgroup and of all dimensions.
#[derive(Clone, Copy)]
struct Asks {
    /// `kernel_code_properties`.
    properties: u16,
    user_sgprs: u32,
    /// Dwords of arguments to preload, from this one on.
    preload: (u16, u16),
    /// First accumulation register, of 32 registers in all.
    accumulation: u32,
    private_segment: bool,
}

const KERNARGS: Asks =
    Asks { properties: 1 << 3, user_sgprs: 2, preload: (0, 0), accumulation: 24, private_segment: false };

fn descriptor(target: Target, asks: Asks) -> KernelDescriptor {
    let mut bytes = [0u8; 64];
    bytes[16..24].copy_from_slice(&0x100i64.to_le_bytes());
    let granule = if target.has_unified_registers() { 8 } else { 4 };
    let rsrc1 = (32 / granule - 1) | 0xf << 16 | 1 << 21 | 1 << 23;
    let rsrc2 = u32::from(asks.private_segment) | asks.user_sgprs << 1 | 7 << 7 | 2 << 11;
    bytes[44..48].copy_from_slice(&(asks.accumulation / 4 - 1).to_le_bytes());
    bytes[48..52].copy_from_slice(&u32::to_le_bytes(rsrc1));
    bytes[52..56].copy_from_slice(&u32::to_le_bytes(rsrc2));
    bytes[56..58].copy_from_slice(&asks.properties.to_le_bytes());
    bytes[58..60].copy_from_slice(&(asks.preload.0 | asks.preload.1 << 7).to_le_bytes());
    // SAFETY: a descriptor is 64 bytes of integers.
    unsafe { std::mem::transmute(bytes) }
}

fn load(target: Target, cpu: &str, asks: Asks, text: &str) -> Kernel {
    let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    let code = sim_llvm::assemble(cpu, &lines);
    let words: Vec<u32> =
        code.iter().zip(&lines).flat_map(|(words, line)| words.clone().unwrap_or_else(|| panic!("{line}"))).collect();
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    Kernel::load(target, CODE, &bytes, &descriptor(target, asks), DESCRIPTOR, "under_test").unwrap()
}

/// Runs a kernel over one workgroup of 64, with a buffer of 64 dwords and a number as its arguments.
fn run_one(
    kernel: &Kernel,
    number: u64,
    change: impl FnOnce(&mut Launch<'_>),
) -> (Result<Counters, Box<Fault>>, [u32; 64]) {
    let mut buffer = [0u32; 64];
    let map = Map::default();
    let arguments = [map.of(&buffer, true), number];
    map.of(&arguments, false);
    let mut launch = launch([64, 1, 1], [64, 1, 1], &arguments);
    change(&mut launch);
    let result = run(kernel, &launch, &map);
    // SAFETY: the kernel wrote the buffer through the address that the map holds.
    let buffer = unsafe { std::ptr::read_volatile(&raw mut buffer) };
    (result, buffer)
}

#[test]
fn ids_are_packed_from_gfx90a_on() {
    for (target, cpu) in ALL {
        let mut text = String::from(
            "s_load_dwordx2 s[6:7], s[0:1], 0x0
            s_waitcnt lgkmcnt(0)",
        );
        if !target.has_unified_registers() {
            text += "
                v_lshlrev_b32 v1, 10, v1
                v_lshlrev_b32 v2, 20, v2
                v_or3_b32 v0, v0, v1, v2";
        }
        text += "
            v_and_b32 v3, 7, v0
            v_bfe_u32 v4, v0, 10, 10
            v_bfe_u32 v5, v0, 20, 10
            v_lshl_or_b32 v3, v4, 3, v3
            v_lshl_or_b32 v3, v5, 5, v3
            v_lshlrev_b32 v3, 2, v3
            s_lshl_b32 s2, s2, 24
            s_lshl_b32 s3, s3, 26
            s_lshl_b32 s4, s4, 28
            s_or_b32 s2, s2, s3
            s_or_b32 s2, s2, s4
            v_or_b32 v0, s2, v0
            global_store_dword v3, v0, s[6:7]
            s_endpgm";
        let kernel = load(target, cpu, KERNARGS, &text);
        let (result, out) = run_one(&kernel, 0, |launch| {
            launch.packet.workgroup_size = [8, 4, 2];
            launch.packet.grid_size = [16, 8, 4];
        });
        assert_eq!(result.unwrap().waves, 8);
        for (at, found) in out.into_iter().enumerate() {
            let at = at as u32;
            // Workgroups run in order: the last one's values remain.
            let expected = (at % 8) | ((at / 8 % 4) << 10) | ((at / 32) << 20) | 0x1500_0000;
            assert_eq!(found, expected, "work-item {at} on {cpu}");
        }
    }
}

#[test]
fn arguments_are_preloaded_and_their_loads_skipped() {
    for (target, cpu) in ALL.into_iter().filter(|(target, _)| target.has_unified_registers()) {
        // The prologue that firmware without preloading runs: 256 bytes.
        let prologue = "s_trap 2\n".repeat(64);
        let text = "v_mov_b32 v1, s4
            v_and_b32 v0, 63, v0
            v_lshlrev_b32 v2, 2, v0
            global_store_dword v2, v1, s[2:3]
            s_endpgm";
        let asks = Asks { preload: (3, 0), user_sgprs: 5, ..KERNARGS };
        let kernel = load(target, cpu, asks, &(prologue.clone() + text));
        let (result, out) = run_one(&kernel, 77, |_| {});
        result.unwrap();
        assert_eq!(out, [77; 64]);
        // From the second argument on.
        let text = "s_load_dwordx2 s[6:7], s[0:1], 0x0
            v_mov_b32 v1, s2
            v_and_b32 v0, 63, v0
            v_lshlrev_b32 v2, 2, v0
            global_store_dword v2, v1, s[6:7]
            s_endpgm";
        let asks = Asks { preload: (1, 2), user_sgprs: 3, ..KERNARGS };
        let kernel = load(target, cpu, asks, &(prologue + text));
        let (result, out) = run_one(&kernel, 78, |_| {});
        result.unwrap();
        assert_eq!(out, [78; 64]);
        let (result, _) = run_one(&kernel, 0, |launch| launch.packet.kernarg_address = 0x1000);
        assert!(matches!(result.unwrap_err().kind, FaultKind::MemoryViolation { .. }));
    }
}

#[test]
fn scratch_is_reached_through_its_buffer_and_by_flat_addresses() {
    for (target, cpu) in ALL.into_iter().filter(|(target, _)| !target.is_cdna3_or_later()) {
        // The buffer's four SGPRs are first, and the wave's offset is after the workgroup's ids.
        let text = "s_load_dwordx2 s[12:13], s[4:5], 0x0
            s_add_u32 s0, s0, s9
            s_addc_u32 s1, s1, 0
            v_and_b32 v0, 63, v0
            v_lshlrev_b32 v1, 2, v0
            buffer_store_dword v0, off, s[0:3], 0 offset:8
            v_mov_b32 v2, 4
            buffer_load_dword v3, v2, s[0:3], 0 offen offset:4
            s_movk_i32 s20, 0x200
            v_add_u32 v3, 100, v3
            buffer_store_dword v3, off, s[0:3], s20 offset:4
            s_mov_b64 s[14:15], src_private_base
            v_mov_b32 v6, 12
            v_mov_b32 v7, s15
            flat_load_dword v8, v[6:7]
            s_waitcnt vmcnt(0) lgkmcnt(0)
            global_store_dword v1, v8, s[12:13]
            s_endpgm";
        let asks = Asks { properties: 1 | 1 << 3, user_sgprs: 6, private_segment: true, ..KERNARGS };
        let kernel = load(target, cpu, asks, text);
        let (result, out) = run_one(&kernel, 0, |launch| launch.packet.private_segment_size = 16);
        result.unwrap();
        assert_eq!(out, std::array::from_fn(|lane| 100 + lane as u32), "{cpu}");
        let (result, _) = run_one(&kernel, 0, |launch| launch.packet.private_segment_size = 8);
        let kind = result.unwrap_err().kind;
        assert!(matches!(kind, FaultKind::ScratchOutOfBounds { offset: 8, limit: 8, .. }), "{kind}");
    }
}

#[test]
fn accumulation_registers_follow_the_others() {
    let fault = |target: Target, cpu: &str, register: &str| {
        let kernel = load(target, cpu, KERNARGS, &format!("v_accvgpr_write_b32 {register}, v0\ns_endpgm"));
        run_one(&kernel, 0, |_| {}).0.map_err(|fault| fault.kind)
    };
    for (target, cpu) in [(Target::Gfx90a, "gfx90a"), (Target::Gfx942, "gfx942"), (Target::Gfx950, "gfx950")] {
        // 24 of 32 are others.
        assert!(fault(target, cpu, "a7").is_ok());
        let kind = fault(target, cpu, "a8").unwrap_err();
        assert!(matches!(&kind, FaultKind::RegisterOutOfRange(what) if what.starts_with("a8")), "{kind}");
        let kernel = load(target, cpu, KERNARGS, "v_mov_b32 v24, 0\ns_endpgm");
        assert!(matches!(run_one(&kernel, 0, |_| {}).0.unwrap_err().kind, FaultKind::RegisterOutOfRange(_)));
    }
    // Of their own, as many as of the others.
    assert!(fault(Target::Gfx908, "gfx908", "a31").is_ok());
    assert!(fault(Target::Gfx908, "gfx908", "a32").is_err());
}

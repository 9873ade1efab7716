// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Compiled code gives way, stops, and is freed.

use crate::rig::launch;
use crate::{CODE, Map, load, run_for};
use sim_isa::Target;
use sim_llvm::assemble;
use sim_wave::{FaultKind, Jit, Kernel, Launch, run};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first workgroup waits in a loop with templates for a flag that the second one sets.
fn waiting() -> Kernel {
    let lines = [
        "s_load_b64 s[6:7], s[0:1], 0x0",
        "v_mov_b32 v0, 0",
        "s_waitcnt lgkmcnt(0)",
        "s_cmp_eq_u32 s2, 0",
        "s_cbranch_scc0 8",
        // The loop has seven dwords.
        "v_add_nc_u32 v2, 1, v2",
        "global_load_b32 v1, v0, s[6:7] glc",
        "s_waitcnt vmcnt(0)",
        "v_readfirstlane_b32 s8, v1",
        "s_cmp_eq_u32 s8, 0",
        "s_cbranch_scc1 65529",
        "s_endpgm",
        "v_mov_b32 v1, 1",
        "global_store_b32 v0, v1, s[6:7]",
        "s_endpgm",
    ];
    let code: Vec<u32> = assemble("gfx1100", &lines.map(str::to_owned)).into_iter().flat_map(Option::unwrap).collect();
    load(&code)
}

/// Runs so many workgroups of [`waiting`] on one thread.
fn wait_for(map: &Map, workgroups: u32, jit: Jit, cancel: Option<&AtomicBool>) -> Result<u64, FaultKind> {
    let flag = [0u32; 1];
    let arguments = [map.of(&flag, true)];
    map.of(&arguments, false);
    let launch = Launch { jit, cancel, ..launch([32 * workgroups, 1, 1], [32, 1, 1], &arguments) };
    match run(&waiting(), &launch, map) {
        Ok(counters) => Ok(counters.wave_instructions),
        Err(fault) => {
            assert!((CODE + 5 * 4..CODE + 13 * 4).contains(&fault.pc), "{fault}");
            Err(fault.kind)
        }
    }
}

#[test]
fn a_compiled_loop_gives_way_to_the_workgroup_that_it_waits_for() {
    let expected = wait_for(&Map::default(), 2, Jit::OFF, None).unwrap();
    for jit in [Jit::ON, Jit::ALWAYS, Jit::ALWAYS.with_avx2()] {
        // Turns are as long as in the interpreter.
        assert_eq!(wait_for(&Map::default(), 2, jit, None), Ok(expected), "{jit:?}");
    }
}

#[test]
fn a_compiled_loop_can_be_cancelled() {
    for jit in [Jit::ON, Jit::ALWAYS, Jit::ALWAYS.with_avx2()] {
        let (map, cancel) = (Map::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let kernel = scope.spawn(|| wait_for(&map, 1, jit, Some(&cancel)));
            // The arguments are found, then the flag in the loop.
            while map.lookups.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            cancel.store(true, Ordering::Relaxed);
            let stopped = kernel.join().unwrap();
            assert!(matches!(stopped, Err(FaultKind::Cancelled { ended: 0, waves: 1, .. })), "{stopped:?}");
        });
    }
}

/// Each of 20 or more items computes five times its number by way of 24 bytes of private memory.
#[test]
fn a_run_with_private_memory_computes_and_faults_as_the_interpreter() {
    let lines = [
        "s_load_b64 s[6:7], s[0:1], 0x0",
        "v_add_nc_u32 v1, 1, v0",
        "scratch_store_b32 off, v1, off offset:8",
        "v_add_nc_u32 v2, v1, v1",
        "scratch_load_b32 v3, off, off offset:8",
        "v_add_nc_u32 v3, v3, v2",
        "scratch_store_b64 off, v[2:3], off offset:16",
        "scratch_load_b64 v[4:5], off, off offset:16",
        "v_add_nc_u32 v4, v4, v5",
        "v_lshlrev_b32 v0, 2, v0",
        "s_waitcnt lgkmcnt(0)",
        "global_store_b32 v0, v4, s[6:7]",
        "s_endpgm",
    ];
    let code = assemble("gfx1100", &lines.map(str::to_owned));
    let code: Vec<u32> = code.into_iter().flat_map(Option::unwrap).collect();
    // All lanes active, and some.
    for items in [32, 20] {
        for private_size in [24, 16] {
            let run = |jit| {
                let (result, data) = run_for::<32>(Target::Gfx11, 32, &code, items, items as u16, |launch| {
                    launch.packet.private_segment_size = private_size;
                    launch.jit = jit;
                });
                (result.map(|counters| counters.wave_instructions).map_err(|fault| (fault.pc, fault.kind)), data)
            };
            let (expected, data) = run(Jit::OFF);
            if private_size == 24 {
                assert_eq!(expected, Ok(13));
                assert!((1..=items).zip(data).all(|(n, value)| value == 5 * n), "{data:?}");
            } else {
                assert!(matches!(expected, Err((_, FaultKind::ScratchOutOfBounds { offset: 16, .. }))), "{expected:?}");
            }
            for jit in [Jit::ALWAYS, Jit::ALWAYS.with_avx2()] {
                assert_eq!(run(jit), (expected.clone(), data), "{items} items, {private_size} bytes, {jit:?}");
            }
        }
    }
}

/// Other tests of this process may hold a few programs meanwhile.
#[cfg(target_os = "linux")]
#[test]
fn code_is_freed_with_its_kernel_and_never_writable_and_executable() {
    let executable = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(!maps.contains(" rwx"), "{maps}");
        maps.lines().filter(|line| line.contains(" r-xp 00000000 00:00 0")).count()
    };
    let before = executable();
    for _ in 0..200 {
        wait_for(&Map::default(), 2, Jit::ALWAYS, None).unwrap();
    }
    let after = executable();
    assert!(after < before + 100, "{before} executable mappings have become {after}");
}

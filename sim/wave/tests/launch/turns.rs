// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The order of waves behind a barrier.

use crate::run_for;
use sim_isa::Target;
use sim_llvm::assemble;
use sim_wave::Jit;

/// Each wave branches on a word of LDS that it reads behind a barrier. The first wave then loads from memory and
/// changes the word, which nothing orders behind the other's read.
const GFX11: [&str; 18] = [
    "s_load_b64 s[6:7], s[0:1], 0x0",
    "v_mov_b32 v3, 0",
    "v_lshlrev_b32 v1, 2, v0",
    "s_waitcnt lgkmcnt(0)",
    "s_barrier",
    "ds_load_b32 v2, v3",
    "s_waitcnt lgkmcnt(0)",
    "s_cbranch_vccnz 0",
    "v_cmp_gt_u32 vcc_lo, 32, v0",
    "s_and_saveexec_b32 s8, vcc_lo",
    "global_load_b32 v0, v3, s[6:7]",
    "s_waitcnt vmcnt(0)",
    "v_mov_b32 v0, 1",
    "ds_store_b32 v3, v0",
    "s_mov_b32 exec_lo, s8",
    "v_or_b32 v2, 8, v2",
    "global_store_b32 v1, v2, s[6:7]",
    "s_endpgm",
];

const GFX12: [&str; 19] = [
    "s_load_b64 s[6:7], s[0:1], 0x0",
    "v_mov_b32 v3, 0",
    "v_lshlrev_b32 v1, 2, v0",
    "s_wait_kmcnt 0x0",
    "s_barrier_signal -1",
    "s_barrier_wait -1",
    "ds_load_b32 v2, v3",
    "s_wait_dscnt 0x0",
    "s_cbranch_vccnz 0",
    "v_cmp_gt_u32 vcc_lo, 32, v0",
    "s_and_saveexec_b32 s8, vcc_lo",
    "global_load_b32 v0, v3, s[6:7]",
    "s_wait_loadcnt 0x0",
    "v_mov_b32 v0, 1",
    "ds_store_b32 v3, v0",
    "s_mov_b32 exec_lo, s8",
    "v_or_b32 v2, 8, v2",
    "global_store_b32 v1, v2, s[6:7]",
    "s_endpgm",
];

const GFX90A: [&str; 18] = [
    "s_load_dwordx2 s[6:7], s[0:1], 0x0",
    "v_mov_b32 v3, 0",
    "v_lshlrev_b32 v1, 2, v0",
    "s_waitcnt lgkmcnt(0)",
    "s_barrier",
    "ds_read_b32 v2, v3",
    "s_waitcnt lgkmcnt(0)",
    "s_cbranch_vccnz 0",
    "v_cmp_gt_u32 vcc, 64, v0",
    "s_and_saveexec_b64 s[8:9], vcc",
    "global_load_dword v0, v3, s[6:7]",
    "s_waitcnt vmcnt(0)",
    "v_mov_b32 v0, 1",
    "ds_write_b32 v3, v0",
    "s_mov_b64 exec, s[8:9]",
    "v_or_b32 v2, 8, v2",
    "global_store_dword v1, v2, s[6:7]",
    "s_endpgm",
];

#[test]
fn a_wave_that_waits_for_memory_behind_a_barrier_lets_the_others_read_lds() {
    let kernels: [(Target, u32, &str, &[&str]); 3] = [
        (Target::Gfx11, 32, "gfx1100", &GFX11),
        (Target::Gfx1200, 32, "gfx1201", &GFX12),
        (Target::Gfx90a, 64, "gfx90a", &GFX90A),
    ];
    for (target, lanes, cpu, text) in kernels {
        let lines: Vec<_> = text.iter().map(|line| (*line).to_owned()).collect();
        let code: Vec<u32> = assemble(cpu, &lines).into_iter().flat_map(Option::unwrap).collect();
        for jit in [Jit::OFF, Jit::ALWAYS] {
            let (result, out) = run_for::<256>(target, lanes, &code, 4 * lanes, 4 * lanes as u16, |launch| {
                (launch.packet.group_segment_size, launch.jit) = (4, jit);
            });
            // Waits are instructions, wherever waves give way.
            assert_eq!(result.unwrap().wave_instructions, 4 * text.len() as u64, "{cpu}");
            assert!(out[..4 * lanes as usize].iter().all(|word| *word == 8), "{cpu}: {out:?}");
        }
    }
}

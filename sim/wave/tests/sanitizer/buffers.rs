// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Accesses that buffers leave out.

use super::{ONE_WAVE, With, run_with};

/// Findings in a kernel with a buffer of `bytes` bytes in `s[4:7]`, and the lane's offset in `v1`.
fn found(bytes: u32, access: &str, clamp: bool) -> Vec<(String, u64)> {
    let text = format!(
        "s_load_dwordx2 s[4:5], s[0:1], 0x0
         s_mov_b32 s6, {bytes}
         s_mov_b32 s7, 0x27000
         v_lshlrev_b32 v1, 2, v0
         s_waitcnt lgkmcnt(0)
         {access}
         s_endpgm"
    );
    let (result, found, _) = run_with("gfx90a", &text, With { items: 64, clamp, ..ONE_WAVE });
    result.unwrap();
    found.into_iter().map(|(finding, _)| (finding.to_string(), finding.lanes)).collect()
}

#[test]
fn what_is_beyond_a_buffer_is_told_on_request() {
    for access in ["buffer_load_dword v2, v1, s[4:7], 0 offen", "buffer_store_dword v1, v1, s[4:7], 0 offen"] {
        assert_eq!(found(256, access, true), []);
        assert_eq!(found(252, access, false), []);
        let told = found(252, access, true);
        let [(text, lanes)] = &told[..] else { panic!("{told:?}") };
        assert!(text.starts_with("clamp: kernel under_test: out-of-bounds buffer access by 1 lanes"), "{text}");
        assert_eq!(*lanes, 1 << 63);
    }
    let scalar = "s_buffer_load_dwordx4 s[8:11], s[4:7], 0x10";
    assert_eq!(found(32, scalar, true), []);
    let told = found(24, scalar, true);
    assert!(told[0].0.contains("out-of-bounds buffer read of 8 of 16 bytes"), "{told:?}");
}

/// Lanes whose LDS address says that they do nothing, as Triton's do, share it in both waves.
#[test]
fn what_is_beyond_lds_is_told_on_request() {
    let text = "v_cmp_gt_u32 vcc_lo, 4, v0
         v_lshlrev_b32 v1, 2, v0
         v_cndmask_b32 v1, 0x7fffffff, v1, vcc_lo
         ds_store_b32 v1, v0
         s_wait_dscnt 0x0
         s_barrier_signal -1
         s_barrier_wait -1
         ds_load_b32 v2, v1
         s_wait_dscnt 0x0
         s_endpgm";
    let with = With { items: 64, race: true, bounds: true, init: true, ..ONE_WAVE };
    let (result, found, _) = run_with("gfx1201", text, with);
    result.unwrap();
    assert!(found.is_empty(), "{found:?}");
    let (result, found, _) = run_with("gfx1201", text, With { clamp: true, ..with });
    result.unwrap();
    let told: Vec<String> = found.iter().map(|(finding, _)| finding.to_string()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("out-of-bounds LDS access by 28 lanes, group segment"), "{told:?}");
}

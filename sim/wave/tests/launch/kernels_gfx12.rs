// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Machine code for gfx1201, and where the name says so gfx1250, of the tests' kernels, with its assembly.

/// Like [`super::kernels::IDS`], with the workgroup's id in ttmp9 and ttmp7.
///
/// ```text
/// s_load_b64 s[6:7], s[0:1], 0x0
/// s_load_b128 s[8:11], s[0:1], 0x8
/// s_load_b32 s12, s[0:1], 0x18
/// s_wait_kmcnt 0x0
/// s_and_b32 s3, ttmp7, 0xffff
/// s_lshr_b32 s4, ttmp7, 16
/// s_mov_b32 s2, ttmp9
/// v_and_b32 v1, 0x3ff, v0
/// v_bfe_u32 v2, v0, 10, 10
/// v_bfe_u32 v3, v0, 20, 10
/// s_mul_i32 s13, s2, s10
/// s_mul_i32 s14, s3, s11
/// s_mul_i32 s15, s4, s12
/// v_add_nc_u32 v1, s13, v1
/// v_add_nc_u32 v2, s14, v2
/// v_add_nc_u32 v3, s15, v3
/// v_mad_u32_u24 v4, v3, s9, v2
/// v_mad_u32_u24 v4, v4, s8, v1
/// v_lshlrev_b32 v4, 4, v4
/// v_mov_b32 v5, v0
/// v_mov_b32 v6, s2
/// v_mov_b32 v7, s3
/// v_mov_b32 v8, s4
/// global_store_b128 v4, v[5:8], s[6:7]
/// s_endpgm
/// ```
pub const IDS: &[u32] = &[
    0xf400_2180,
    0xf800_0000,
    0xf400_4200,
    0xf800_0008,
    0xf400_0300,
    0xf800_0018,
    0xbfc7_0000,
    0x8b03_ff73,
    0x0000_ffff,
    0x8504_9073,
    0xbe82_0075,
    0x3602_00ff,
    0x0000_03ff,
    0xd610_0002,
    0x0229_1500,
    0xd610_0003,
    0x0229_2900,
    0x960d_0a02,
    0x960e_0b03,
    0x960f_0c04,
    0x4a02_020d,
    0x4a04_040e,
    0x4a06_060f,
    0xd60b_0004,
    0x0408_1303,
    0xd60b_0004,
    0x0404_1104,
    0x3008_0884,
    0x7e0a_0300,
    0x7e0c_0202,
    0x7e0e_0203,
    0x7e10_0204,
    0xee07_4006,
    0x0280_0000,
    0x0000_0004,
    0xbfb0_0000,
];

/// Like [`super::kernels::REVERSE`], with a split barrier.
///
/// ```text
/// s_load_b64 s[6:7], s[0:1], 0x0
/// v_and_b32 v0, 0x3ff, v0
/// v_lshlrev_b32 v1, 2, v0
/// v_mul_u32_u24 v2, v0, v0
/// ds_store_b32 v1, v2
/// s_wait_dscnt 0x0
/// s_barrier_signal -1
/// s_barrier_wait -1
/// v_sub_nc_u32 v3, 127, v0
/// v_lshlrev_b32 v3, 2, v3
/// ds_load_b32 v4, v3
/// s_wait_dscnt 0x0
/// s_wait_kmcnt 0x0
/// global_store_b32 v1, v4, s[6:7]
/// s_endpgm
/// ```
pub const REVERSE: &[u32] = &[
    0xf400_2180,
    0xf800_0000,
    0x3600_00ff,
    0x0000_03ff,
    0x3002_0082,
    0x1604_0100,
    0xd834_0000,
    0x0000_0201,
    0xbfc6_0000,
    0xbe80_4ec1,
    0xbf94_ffff,
    0x4c06_00ff,
    0x0000_007f,
    0x3006_0682,
    0xd8d8_0000,
    0x0400_0003,
    0xbfc6_0000,
    0xbfc7_0000,
    0xee06_8006,
    0x0200_0000,
    0x0000_0001,
    0xbfb0_0000,
];

/// Like [`REVERSE`], the data's barrier a named one of four members.
///
/// ```text
/// s_load_b64 s[6:7], s[0:1], 0x0
/// v_and_b32 v0, 0x3ff, v0
/// v_lshlrev_b32 v1, 2, v0
/// v_mul_u32_u24 v2, v0, v0
/// s_mov_b32 m0, 0x40001
/// s_barrier_init m0
/// s_barrier_join 1
/// s_barrier_signal -1
/// s_barrier_wait -1
/// ds_store_b32 v1, v2
/// s_wait_dscnt 0x0
/// s_barrier_signal 1
/// s_barrier_wait 1
/// v_sub_nc_u32 v3, 127, v0
/// v_lshlrev_b32 v3, 2, v3
/// ds_load_b32 v4, v3
/// s_wait_dscnt 0x0
/// s_wait_kmcnt 0x0
/// global_store_b32 v1, v4, s[6:7]
/// s_endpgm
/// ```
pub const REVERSE_NAMED_GFX1250: &[u32] = &[
    0xf400_2180,
    0xf800_0000,
    0x3600_00ff,
    0x0000_03ff,
    0x3002_0082,
    0x1604_0100,
    0xbefd_00ff,
    0x0004_0001,
    0xbe80_517d,
    0xbe80_5281,
    0xbe80_4ec1,
    0xbf94_ffff,
    0xd834_0000,
    0x0000_0201,
    0xbfc6_0000,
    0xbe80_4e81,
    0xbf94_0001,
    0x4c06_00ff,
    0x0000_007f,
    0x3006_0682,
    0xd8d8_0000,
    0x0400_0003,
    0xbfc6_0000,
    0xbfc7_0000,
    0xee06_8006,
    0x0200_0000,
    0x0000_0001,
    0xbfb0_0000,
];

/// The second wave signals the barrier, and waits only when the first one has passed it.
///
/// ```text
/// s_load_b64 s[6:7], s[0:1], 0x0
/// v_and_b32 v0, 0x3ff, v0
/// v_lshlrev_b32 v1, 2, v0
/// v_mov_b32 v2, 0
/// v_readfirstlane_b32 s8, v0
/// s_barrier_signal -1
/// s_cmp_lt_u32 s8, 32
/// s_cbranch_scc0 7
/// s_barrier_wait -1
/// v_mov_b32 v3, 42
/// ds_store_b32 v2, v3
/// s_wait_dscnt 0x0
/// s_branch 9
/// s_nop 0
/// ds_load_b32 v3, v2
/// s_wait_dscnt 0x0
/// v_readfirstlane_b32 s9, v3
/// s_sleep 1
/// s_cmp_lg_u32 s9, 0
/// s_cbranch_scc0 65529
/// s_barrier_wait -1
/// global_store_b32 v1, v3, s[6:7]
/// s_endpgm
/// ```
pub const AHEAD: &[u32] = &[
    0xf400_2180,
    0xf800_0000,
    0x3600_00ff,
    0x0000_03ff,
    0x3002_0082,
    0x7e04_0280,
    0x7e10_0500,
    0xbe80_4ec1,
    0xbf0a_a008,
    0xbfa1_0007,
    0xbf94_ffff,
    0x7e06_02aa,
    0xd834_0000,
    0x0000_0302,
    0xbfc6_0000,
    0xbfa0_0009,
    0xbf80_0000,
    0xd8d8_0000,
    0x0300_0002,
    0xbfc6_0000,
    0x7e12_0503,
    0xbf83_0001,
    0xbf07_8009,
    0xbfa1_fff9,
    0xbf94_ffff,
    0xee06_8006,
    0x0180_0000,
    0x0000_0001,
    0xbfb0_0000,
];

/// Waits for a barrier that no wave signals.
///
/// ```text
/// s_barrier_wait -1
/// s_endpgm
/// ```
pub const STUCK: &[u32] = &[0xbf94_ffff, 0xbfb0_0000];

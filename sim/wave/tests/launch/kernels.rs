// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Machine code for gfx1100 of the tests' kernels, with its assembly. The kernel
//! arguments' address is in `s[0:1]`, the workgroup's id in `s2`, `s3`, `s4`, the work-item's in `v0`.

/// ```text
/// s_load_b64 s[6:7], s[0:1], null
/// s_load_b128 s[8:11], s[0:1], 0x8
/// s_load_b32 s12, s[0:1], 0x18
/// s_waitcnt lgkmcnt(0)
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
    0xf404_0180,
    0xf800_0000,
    0xf408_0200,
    0xf800_0008,
    0xf400_0300,
    0xf800_0018,
    0xbf89_fc07,
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
    0xdc76_0000,
    0x0006_0504,
    0xbfb0_0000,
];

/// ```text
/// s_load_b64 s[6:7], s[0:1], null
/// v_and_b32 v0, 0x3ff, v0
/// v_lshlrev_b32 v1, 2, v0
/// v_mul_u32_u24 v2, v0, v0
/// ds_store_b32 v1, v2
/// s_waitcnt lgkmcnt(0)
/// s_barrier
/// v_sub_nc_u32 v3, 127, v0
/// v_lshlrev_b32 v3, 2, v3
/// ds_load_b32 v4, v3
/// s_waitcnt lgkmcnt(0)
/// global_store_b32 v1, v4, s[6:7]
/// s_endpgm
/// ```
pub const REVERSE: &[u32] = &[
    0xf404_0180,
    0xf800_0000,
    0x3600_00ff,
    0x0000_03ff,
    0x3002_0082,
    0x1604_0100,
    0xd834_0000,
    0x0000_0201,
    0xbf89_fc07,
    0xbfbd_0000,
    0x4c06_00ff,
    0x0000_007f,
    0x3006_0682,
    0xd8d8_0000,
    0x0400_0003,
    0xbf89_fc07,
    0xdc6a_0000,
    0x0006_0401,
    0xbfb0_0000,
];

/// ```text
/// s_load_b64 s[6:7], s[0:1], null
/// v_and_b32 v0, 0x3ff, v0
/// v_readfirstlane_b32 s8, v0
/// s_cmp_ge_u32 s8, 32
/// s_cbranch_scc1 end
/// s_barrier
/// v_lshlrev_b32 v1, 2, v0
/// v_mov_b32 v2, 7
/// global_store_b32 v1, v2, s[6:7]
/// end:
/// s_endpgm
/// ```
pub const EARLY_END: &[u32] = &[
    0xf404_0180,
    0xf800_0000,
    0x3600_00ff,
    0x0000_03ff,
    0x7e10_0500,
    0xbf09_a008,
    0xbfa2_0005,
    0xbfbd_0000,
    0x3002_0082,
    0x7e04_0287,
    0xdc6a_0000,
    0x0006_0201,
    0xbfb0_0000,
];

/// ```text
/// s_load_b64 s[6:7], s[0:1], null
/// v_and_b32 v0, 0x3ff, v0
/// v_mov_b32 v1, 0
/// v_mov_b32 v2, 42
/// v_readfirstlane_b32 s8, v0
/// s_cmp_ge_u32 s8, 32
/// s_cbranch_scc1 second
/// wait:
/// ds_load_b32 v3, v1
/// s_waitcnt lgkmcnt(0)
/// v_readfirstlane_b32 s9, v3
/// s_cmp_eq_u32 s9, 0
/// s_cbranch_scc1 wait
/// v_lshlrev_b32 v4, 2, v0
/// global_store_b32 v4, v3, s[6:7]
/// s_endpgm
/// second:
/// ds_store_b32 v1, v2
/// s_endpgm
/// ```
pub const FLAG: &[u32] = &[
    0xf404_0180,
    0xf800_0000,
    0x3600_00ff,
    0x0000_03ff,
    0x7e02_0280,
    0x7e04_02aa,
    0x7e10_0500,
    0xbf09_a008,
    0xbfa2_000a,
    0xd8d8_0000,
    0x0300_0001,
    0xbf89_fc07,
    0x7e12_0503,
    0xbf06_8009,
    0xbfa2_fffa,
    0x3008_0082,
    0xdc6a_0000,
    0x0006_0304,
    0xbfb0_0000,
    0xd834_0000,
    0x0000_0201,
    0xbfb0_0000,
];

/// ```text
/// s_load_b64 s[6:7], s[0:1], null
/// v_mov_b32 v1, 0
/// v_mov_b32 v2, 1
/// global_atomic_add_u32 v1, v2, s[6:7]
/// s_endpgm
/// ```
pub const COUNT: &[u32] = &[0xf404_0180, 0xf800_0000, 0x7e02_0280, 0x7e04_0281, 0xdcd6_0000, 0x0006_0201, 0xbfb0_0000];

/// ```text
/// s_load_b64 s[6:7], s[0:1], null
/// v_and_b32 v0, 0x3ff, v0
/// v_lshlrev_b32 v1, 2, v0
/// v_mov_b32 v2, 8
/// scratch_store_b32 v2, v0, off offset:4
/// s_mov_b64 s[8:9], src_private_base
/// v_mov_b32 v3, 12
/// v_mov_b32 v4, s9
/// flat_load_b32 v5, v[3:4]
/// s_mov_b64 s[8:9], src_shared_base
/// v_mov_b32 v6, v1
/// v_mov_b32 v7, s9
/// s_waitcnt vmcnt(0) lgkmcnt(0)
/// flat_store_b32 v[6:7], v5
/// s_waitcnt lgkmcnt(0)
/// ds_load_b32 v8, v1
/// s_waitcnt lgkmcnt(0)
/// global_store_b32 v1, v8, s[6:7]
/// s_endpgm
/// ```
pub const APERTURES: &[u32] = &[
    0xf404_0180,
    0xf800_0000,
    0x3600_00ff,
    0x0000_03ff,
    0x3002_0082,
    0x7e04_0288,
    0xdc69_0004,
    0x00fc_0002,
    0xbe88_01ed,
    0x7e06_028c,
    0x7e08_0209,
    0xdc50_0000,
    0x057c_0003,
    0xbe88_01eb,
    0x7e0c_0301,
    0x7e0e_0209,
    0xbf89_0007,
    0xdc68_0000,
    0x007c_0506,
    0xbf89_fc07,
    0xd8d8_0000,
    0x0800_0001,
    0xbf89_fc07,
    0xdc6a_0000,
    0x0006_0801,
    0xbfb0_0000,
];

/// ```text
/// again:
/// s_branch again
/// s_endpgm
/// ```
pub const FOREVER: &[u32] = &[0xbfa0_ffff, 0xbfb0_0000];

/// ```text
/// again:
/// s_barrier
/// s_branch again
/// s_endpgm
/// ```
pub const BARRIERS_FOREVER: &[u32] = &[0xbfbd_0000, 0xbfa0_fffe, 0xbfb0_0000];

/// ```text
/// s_load_b64 s[6:7], s[0:1], null
/// v_lshlrev_b32 v1, 2, v0
/// v_mov_b32 v2, 1
/// s_getpc_b64 s[8:9]
/// base:
/// s_add_u32 s8, s8, callee-base
/// s_addc_u32 s9, s9, 0
/// s_swappc_b64 s[10:11], s[8:9]
/// v_add_nc_u32 v2, 5, v2
/// global_store_b32 v1, v2, s[6:7]
/// s_endpgm
/// s_code_end
/// callee:
/// v_lshlrev_b32 v2, 4, v2
/// s_setpc_b64 s[10:11]
/// ```
pub const CALL: &[u32] = &[
    0xf404_0180,
    0xf800_0000,
    0x3002_0082,
    0x7e04_0281,
    0xbe88_4700,
    0x8008_ff08,
    0x0000_0024,
    0x8209_8009,
    0xbe8a_4908,
    0x4a04_0485,
    0xdc6a_0000,
    0x0006_0201,
    0xbfb0_0000,
    0xbf9f_0000,
    0x3004_0484,
    0xbe80_480a,
];

/// ```text
/// s_load_b128 s[4:7], s[0:1], null
/// v_lshlrev_b32 v1, 2, v0
/// s_waitcnt lgkmcnt(0)
/// global_load_b32 v2, v1, s[4:5]
/// s_waitcnt vmcnt(0)
/// global_store_b32 v1, v2, s[6:7]
/// s_endpgm
/// ```
pub const COPY: &[u32] = &[
    0xf408_0100,
    0xf800_0000,
    0x3002_0082,
    0xbf89_fc07,
    0xdc52_0000,
    0x0204_0001,
    0xbf89_03f7,
    0xdc6a_0000,
    0x0006_0201,
    0xbfb0_0000,
];

/// ```text
/// s_load_b64 s[6:7], s[0:1], null
/// v_mov_b32 v1, 2
/// global_atomic_add_u32 v1, v1, s[6:7]
/// s_endpgm
/// ```
pub const MISALIGNED: &[u32] = &[0xf404_0180, 0xf800_0000, 0x7e02_0282, 0xdcd6_0000, 0x0006_0101, 0xbfb0_0000];

/// ```text
/// v_mov_b32 v1, 0
/// ds_load_b64 v[2:3], v1 offset:124
/// s_endpgm
/// ```
pub const LDS_BEYOND: &[u32] = &[0x7e02_0280, 0xd9d8_007c, 0x0200_0001, 0xbfb0_0000];

/// ```text
/// v_mov_b32 v1, 0
/// scratch_load_b32 v2, v1, off offset:16
/// s_endpgm
/// ```
pub const SCRATCH_BEYOND: &[u32] = &[0x7e02_0280, 0xdc51_0010, 0x02fc_0001, 0xbfb0_0000];

/// ```text
/// v_mov_b32 v24, 0
/// s_endpgm
/// ```
pub const HIGH_REGISTER: &[u32] = &[0x7e30_0280, 0xbfb0_0000];

/// ```text
/// s_trap 2
/// s_endpgm
/// ```
pub const TRAP: &[u32] = &[0xbf90_0002, 0xbfb0_0000];

/// ```text
/// s_branch over
/// image_load v4, v0, s[8:15] dmask:0x1 dim:SQ_RSRC_IMG_1D
/// over:
/// s_endpgm
/// ```
pub const SKIPPED: &[u32] = &[0xbfa0_0002, 0xf000_0100, 0x0002_0400, 0xbfb0_0000];

/// ```text
/// v_nop
/// image_load v4, v0, s[8:15] dmask:0x1 dim:SQ_RSRC_IMG_1D
/// s_endpgm
/// ```
pub const REACHED: &[u32] = &[0x7e00_0000, 0xf000_0100, 0x0002_0400, 0xbfb0_0000];

/// ```text
/// s_setpc_b64 s[0:1]
/// ```
pub const AWAY: &[u32] = &[0xbe80_4800];

/// ```text
/// v_nop
/// v_nop
/// ```
pub const OFF_THE_END: &[u32] = &[0x7e00_0000, 0x7e00_0000];

/// ```text
/// s_load_b128 s[4:7], s[0:1], null
/// v_lshlrev_b32 v1, 2, v0
/// s_movk_i32 s8, 0x2000
/// s_waitcnt lgkmcnt(0)
/// loop:
/// global_load_b32 v2, v1, s[4:5]
/// s_waitcnt vmcnt(0)
/// v_fmac_f32 v3, v2, v2
/// v_fmac_f32 v4, v2, v3
/// v_fmac_f32 v5, v2, v4
/// v_fmac_f32 v6, v2, v5
/// v_dual_fmac_f32 v8, v3, v4 :: v_dual_fmac_f32 v9, v5, v6
/// v_dual_mul_f32 v10, v3, v4 :: v_dual_add_f32 v11, v5, v6
/// s_sub_i32 s8, s8, 1
/// s_cmp_lg_u32 s8, 0
/// s_cbranch_scc1 loop
/// global_store_b32 v1, v9, s[6:7]
/// s_endpgm
/// ```
pub const THROUGHPUT: &[u32] = &[
    0xf408_0100,
    0xf800_0000,
    0x3002_0082,
    0xb008_2000,
    0xbf89_fc07,
    0xdc52_0000,
    0x0204_0001,
    0xbf89_03f7,
    0x5606_0502,
    0x5608_0702,
    0x560a_0902,
    0x560c_0b02,
    0xc800_0903,
    0x0808_0d05,
    0xc8c8_0903,
    0x0a0a_0d05,
    0x8188_8108,
    0xbf07_8008,
    0xbfa2_fff2,
    0xdc6a_0000,
    0x0006_0901,
    0xbfb0_0000,
];

/// ```text
/// v_mov_b32 v1, 3
/// s_mov_b32 m0, 0x20000
/// ds_gws_init v1 offset:1 gds
/// s_endpgm
/// ```
pub const GWS_INIT: &[u32] = &[0x7e02_0283, 0xbefd_00ff, 0x0002_0000, 0xd866_0001, 0x0000_0001, 0xbfb0_0000];

/// Each of four workgroups of a wave stores its number, from 1 on, and after a barrier that of the next workgroup.
///
/// ```text
/// s_load_b64 s[4:5], s[0:1], 0x0
/// s_waitcnt lgkmcnt(0)
/// v_mov_b32 v1, 3
/// s_lshl_b32 s6, s2, 2
/// v_mov_b32 v3, s6
/// s_add_i32 s7, s2, 1
/// v_mov_b32 v4, s7
/// global_store_b32 v3, v4, s[4:5]
/// s_mov_b32 m0, 0x20000
/// ds_gws_barrier v1 offset:1 gds
/// s_waitcnt lgkmcnt(0)
/// s_and_b32 s7, s7, 3
/// s_lshl_b32 s7, s7, 2
/// v_mov_b32 v5, s7
/// global_load_b32 v6, v5, s[4:5]
/// s_waitcnt vmcnt(0)
/// global_store_b32 v3, v6, s[4:5] offset:16
/// s_endpgm
/// ```
pub const GWS_BARRIER: &[u32] = &[
    0xf404_0100,
    0xf800_0000,
    0xbf89_fc07,
    0x7e02_0283,
    0x8406_8202,
    0x7e06_0206,
    0x8107_8102,
    0x7e08_0207,
    0xdc6a_0000,
    0x0004_0403,
    0xbefd_00ff,
    0x0002_0000,
    0xd876_0001,
    0x0000_0001,
    0xbf89_fc07,
    0x8b07_8307,
    0x8407_8207,
    0x7e0a_0207,
    0xdc52_0000,
    0x0604_0005,
    0xbf89_03f7,
    0xdc6a_0010,
    0x0004_0603,
    0xbfb0_0000,
];

/// A thousand rounds of vector arithmetic, with a compare and a select. Then each work-item stores a number, and loads
/// one 2048 bytes from there.
///
/// ```text
/// s_load_b64 s[0:1], s[0:1], null
/// s_waitcnt lgkmcnt(0)
/// v_and_b32 v0, 0x3ff, v0
/// v_lshlrev_b32 v1, 2, v0
/// v_mov_b32 v2, 1.0
/// v_mov_b32 v3, 0
/// s_mov_b32 s2, 0
/// loop:
/// v_add_f32 v2, 1.0, v2
/// v_fma_f32 v3, -v2, 0.5, s2
/// v_dual_mul_f32 v5, v2, v2 :: v_dual_add_f32 v6, v3, v3
/// v_cmp_gt_u32 vcc_lo, 8, v0
/// v_cndmask_b32 v4, v3, v5, vcc_lo
/// s_add_i32 s2, s2, 1
/// s_cmp_lt_u32 s2, 1000
/// s_cbranch_scc1 loop
/// global_store_b32 v1, v4, s[0:1]
/// global_load_b32 v5, v1, s[0:1] offset:2048
/// s_endpgm
/// ```
pub const ROUNDS: &[u32] = &[
    0xf404_0000,
    0xf800_0000,
    0xbf89_fc07,
    0x3600_00ff,
    0x0000_03ff,
    0x3002_0082,
    0x7e04_02f2,
    0x7e06_0280,
    0xbe82_0080,
    0x0604_04f2,
    0xd613_0003,
    0x2009_e102,
    0xc8c8_0502,
    0x0506_0703,
    0x7c98_0088,
    0x0208_0b03,
    0x8102_8102,
    0xbf0a_ff02,
    0x0000_03e8,
    0xbfa2_fff5,
    0xdc6a_0000,
    0x0000_0401,
    0xdc52_0800,
    0x0500_0001,
    0xbfb0_0000,
];

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Kernels that lack an order. Built into order.gfx942.co by the command in README.md.

  .amdgcn_target "amdgcn-amd-amdhsa--gfx942"

  .macro kernel name
  .text
  .globl \name
  .p2align 8
  .type \name,@function
\name:
  .endm

  .macro descriptor name, lds
  .rodata
  .p2align 6
  .amdhsa_kernel \name
    .amdhsa_group_segment_fixed_size \lds
    .amdhsa_kernarg_size 16
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_next_free_vgpr 12
    .amdhsa_next_free_sgpr 16
    .amdhsa_accum_offset 12
  .end_amdhsa_kernel
  .endm

// Work-item i copies a number through LDS. What is stored there is what the load brings, or what was in the register
// before: it is the example of https://github.com/llvm/llvm-project/issues/170367, where the wait is a comment, too.
  kernel copy
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v3, 2, v0
  v_mov_b32_e32 v2, 0
  s_waitcnt lgkmcnt(0)
  v_mov_b32_e32 v11, s5
  v_add_co_u32_e32 v10, vcc, s4, v3
  s_nop 1
  v_addc_co_u32_e32 v11, vcc, 0, v11, vcc
  global_load_dword v2, v[10:11], off
  // s_waitcnt vmcnt(0)
  ds_write_b32 v3, v2
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v4, v3
  s_waitcnt lgkmcnt(0)
  global_store_dword v3, v4, s[6:7]
  s_endpgm
  descriptor copy, 256

// With the wait.
  kernel copy_waits
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v3, 2, v0
  v_mov_b32_e32 v2, 0
  s_waitcnt lgkmcnt(0)
  v_mov_b32_e32 v11, s5
  v_add_co_u32_e32 v10, vcc, s4, v3
  s_nop 1
  v_addc_co_u32_e32 v11, vcc, 0, v11, vcc
  global_load_dword v2, v[10:11], off
  s_waitcnt vmcnt(0)
  ds_write_b32 v3, v2
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v4, v3
  s_waitcnt lgkmcnt(0)
  global_store_dword v3, v4, s[6:7]
  s_endpgm
  descriptor copy_waits, 256

// A workgroup waits until the next one has set its flag, and sets its own.
  kernel wait_for_next
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_mov_b32_e32 v0, 0
  s_lshl_b32 s6, s2, 2
  s_waitcnt lgkmcnt(0)
  s_add_u32 s4, s4, s6
  s_addc_u32 s5, s5, 0
1:
  s_sleep 1
  global_load_dword v1, v0, s[4:5] offset:4 sc1
  s_waitcnt vmcnt(0)
  v_readfirstlane_b32 s7, v1
  s_cmp_eq_u32 s7, 0
  s_cbranch_scc1 1b
  v_mov_b32_e32 v1, 1
  global_store_dword v0, v1, s[4:5] sc1
  s_endpgm
  descriptor wait_for_next, 0

  .amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: copy
    .symbol: copy.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 256
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 12
    .max_flat_workgroup_size: 64
    .args:
      - {.size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
      - {.size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}
  - .name: copy_waits
    .symbol: copy_waits.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 256
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 12
    .max_flat_workgroup_size: 64
    .args:
      - {.size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
      - {.size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}
  - .name: wait_for_next
    .symbol: wait_for_next.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 12
    .max_flat_workgroup_size: 64
    .args:
      - {.size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
...
  .end_amdgpu_metadata

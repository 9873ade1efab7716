// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel of 2,048 work-items, which does nothing.

.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
.amdhsa_code_object_version 5

.text
.globl wide
.p2align 8
.type wide,@function
wide:
  s_endpgm
  .size wide, . - wide

.section .rodata,"a",@progbits
.p2align 6
.amdhsa_kernel wide
  .amdhsa_next_free_vgpr 1
  .amdhsa_next_free_sgpr 1
  .amdhsa_group_segment_fixed_size 0
  .amdhsa_kernarg_size 8
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel

.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx1100
amdhsa.kernels:
  - .name: wide
    .symbol: wide.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 1
    .vgpr_count: 1
    .max_flat_workgroup_size: 2048
    .reqd_workgroup_size: [2048, 1, 1]
    .args: [{.address_space: global, .offset: 0, .size: 8, .value_kind: global_buffer}]
.end_amdgpu_metadata

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel that does nothing, for the sources here. They define NAME, the
// bytes of its LDS, its largest workgroup, and further METADATA.

.amdhsa_code_object_version 5

.text
.globl NAME
.p2align 8
.type NAME,@function
NAME:
  s_endpgm
  .size NAME, . - NAME

.section .rodata,"a",@progbits
.p2align 6
.amdhsa_kernel NAME
  .amdhsa_next_free_vgpr 1
  .amdhsa_next_free_sgpr 1
  .amdhsa_group_segment_fixed_size LDS
  .amdhsa_kernarg_size 8
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel

.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx1100
amdhsa.kernels:
  - .name: NAME
    .symbol: NAME.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: LDS
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 1
    .vgpr_count: 1
    .max_flat_workgroup_size: LARGEST_WORKGROUP
    METADATA
    .args: [{.address_space: global, .offset: 0, .size: 8, .value_kind: global_buffer}]
.end_amdgpu_metadata

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel with 1 MiB of LDS, which does nothing.

.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
.amdhsa_code_object_version 5

.text
.globl large_lds
.p2align 8
.type large_lds,@function
large_lds:
  s_endpgm
  .size large_lds, . - large_lds

.section .rodata,"a",@progbits
.p2align 6
.amdhsa_kernel large_lds
  .amdhsa_next_free_vgpr 1
  .amdhsa_next_free_sgpr 1
  .amdhsa_group_segment_fixed_size 1048576
  .amdhsa_kernarg_size 8
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel

.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx1100
amdhsa.kernels:
  - .name: large_lds
    .symbol: large_lds.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1048576
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 1
    .vgpr_count: 1
    .max_flat_workgroup_size: 1024
    .args: [{.address_space: global, .offset: 0, .size: 8, .value_kind: global_buffer}]
.end_amdgpu_metadata

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel of 2,048 work-items, which does nothing.

.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"

#define NAME wide
#define LDS 0
#define LARGEST_WORKGROUP 2048
#define METADATA .reqd_workgroup_size: [2048, 1, 1]
#include "empty.h"

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel with 1 MiB of LDS, which does nothing.

.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"

#define NAME large_lds
#define LDS 1048576
#define LARGEST_WORKGROUP 1024
#define METADATA
#include "empty.h"

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "amdgpu_rs/amdgpu_api.h"

#define EMBEDDING_PROGRAM embedding_of_amdgpu_rs
#include "program.h"

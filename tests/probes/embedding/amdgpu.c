// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "iree/hal/drivers/amdgpu/api.h"
#include "iree/hal/drivers/amdgpu/registration/driver_module.h"

#define EMBEDDING_PROGRAM embedding_of_amdgpu
#include "program.h"

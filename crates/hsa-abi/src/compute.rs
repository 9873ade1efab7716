// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Registers of compute shaders, as PM4 commands number them: in dwords (Mesa's `sid.h`).

/// Starts a dispatch.
pub const COMPUTE_DISPATCH_INITIATOR: u32 = 0x2e00;
/// The first of three: where workgroups begin to count.
pub const COMPUTE_START_X: u32 = 0x2e04;
/// The first of three: work-items of a workgroup.
pub const COMPUTE_NUM_THREAD_X: u32 = 0x2e07;
/// Address of the code, in units of 256 bytes: the lower half.
pub const COMPUTE_PGM_LO: u32 = 0x2e0c;
/// The upper half.
pub const COMPUTE_PGM_HI: u32 = 0x2e0d;
/// COMPUTE_PGM_RSRC1 of the kernel's descriptor.
pub const COMPUTE_PGM_RSRC1: u32 = 0x2e12;
/// COMPUTE_PGM_RSRC2 of the kernel's descriptor.
pub const COMPUTE_PGM_RSRC2: u32 = 0x2e13;
/// Limits on waves; 0 for none.
pub const COMPUTE_RESOURCE_LIMITS: u32 = 0x2e15;
/// Scratch.
pub const COMPUTE_TMPRING_SIZE: u32 = 0x2e18;
/// The first of three: where a dispatch goes on that was interrupted.
pub const COMPUTE_RESTART_X: u32 = 0x2e1b;
/// COMPUTE_PGM_RSRC3 of the kernel's descriptor, but on gfx9.
pub const COMPUTE_PGM_RSRC3: u32 = 0x2e28;
/// Where gfx90a and gfx942 have it (`gc_9_4_3_offset.h`, where it is 0x0e2d from the first register of a die, 0x2000;
/// for gfx90a, `Dispatch.cpp` of `kfdtest`).
pub const GFX9_COMPUTE_PGM_RSRC3: u32 = 0x2e2d;
/// The first of sixteen user-data registers: initial values of SGPRs of waves.
pub const COMPUTE_USER_DATA_0: u32 = 0x2e40;

/// [`COMPUTE_DISPATCH_INITIATOR`]: compute shaders start.
pub const COMPUTE_SHADER_EN: u32 = 1;
/// [`COMPUTE_DISPATCH_INITIATOR`]: workgroups count from 0, not from [`COMPUTE_START_X`].
pub const FORCE_START_AT_000: u32 = 1 << 2;
/// [`COMPUTE_DISPATCH_INITIATOR`]: the size of the grid is in work-items.
pub const USE_THREAD_DIMENSIONS: u32 = 1 << 5;
/// [`COMPUTE_DISPATCH_INITIATOR`]: waves start in order.
pub const ORDER_MODE: u32 = 1 << 6;
/// [`COMPUTE_DISPATCH_INITIATOR`]: waves have 32 lanes.
pub const CS_W32_EN: u32 = 1 << 15;

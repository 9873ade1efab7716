// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Waits whose absence the check does not find, with the reasons.

/// The wait, by target, kernel, offset in it and text; why it is not found.
pub const NOT_FOUND: &[(&str, &str)] = &[
    ("gfx1100 amdgpu_rs_patch_dispatch +0x80 s_waitcnt_vscnt null, 0x0", RELEASE),
    ("gfx1201 amdgpu_rs_patch_dispatch +0xa0 s_wait_storecnt 0x0", RELEASE),
    ("gfx90a amdgpu_rs_patch_dispatch +0x80 s_waitcnt vmcnt(0)", RELEASE),
    ("gfx942 amdgpu_rs_patch_dispatch +0x80 s_waitcnt vmcnt(0)", RELEASE),
];

/// It writes no register: stores are to be seen by others before the one that publishes them. That is an order of
/// memory, which is for a check of races to look at.
const RELEASE: &str = "orders stores before the store that releases them";

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The device library: the few kernels that the driver itself dispatches, to fill and copy memory and to complete dispatches whose
//! workgroup counts lie in device memory.
//!
//! [`select`] gives the prebuilt code object for a GPU, [`plan_fill`], [`plan_copy`] and [`plan_patch_dispatch`] say how to launch
//! its kernels. The kernels' sources, with their contracts, are in `kernels/`; `prebuilt/README.md` says how to rebuild them.

mod kernargs;
mod plan;
mod targets;

pub use kernargs::{CopyArgs, FillArgs, PatchDispatchArgs};
pub use plan::{
    DeviceShape, Kernel, Launch, MAX_TRANSFER_LENGTH, PlanError, UPDATE_PAYLOAD_ALIGNMENT, UPDATE_PAYLOAD_OFFSET,
    plan_copy, plan_fill, plan_patch_dispatch,
};
pub use targets::{TARGETS, Target};

/// A prebuilt code object of the device library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeObject {
    /// The target it was compiled for.
    pub target: &'static Target,
    /// The ELF file, aligned to 8 bytes.
    pub elf: &'static [u8],
}

/// Bytes at the alignment that ELF64 headers need.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

macro_rules! embed {
    ($($index:literal => $file:literal),* $(,)?) => {
        [$({
            const ELF: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!("../prebuilt/", $file, ".co")));
            CodeObject { target: &TARGETS[$index], elf: &ELF.0 }
        }),*]
    };
}

/// All embedded code objects, in the order of [`TARGETS`].
pub static CODE_OBJECTS: [CodeObject; TARGETS.len()] = embed! {
    0 => "gfx9-generic",
    1 => "gfx908",
    2 => "gfx90a",
    3 => "gfx9-4-generic",
    4 => "gfx10-1-generic",
    5 => "gfx10-3-generic",
    6 => "gfx11-generic",
    7 => "gfx12-generic",
};

/// No embedded code object runs on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the device library has no code object for `{isa}` (embedded: {}); to add one, name its target in device-binaries/src/targets.rs \
     and run `cargo xtask device-binaries --rebuild`",
    embedded()
)]
pub struct NoCodeObject {
    /// The ISA as it was asked for.
    pub isa: String,
}

fn embedded() -> String {
    TARGETS.each_ref().map(|target| target.name).join(", ")
}

/// The code object for a GPU, given as an HSA ISA name (`amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-`), a target id (`gfx90a:xnack-`)
/// or a processor (`gfx1100`, `gfx11-generic`).
///
/// A code object of exactly that processor comes before the generic one that covers it. Features do not matter to the choice: the
/// embedded code objects are compiled for any setting of sramecc and xnack.
///
/// # Errors
/// [`NoCodeObject`] when none covers the processor; it lists what is embedded.
pub fn select(isa: &str) -> Result<&'static CodeObject, NoCodeObject> {
    let target_id = isa.rsplit_once("--").map_or(isa, |(_triple, target_id)| target_id);
    let processor = target_id.split(':').next().unwrap_or(target_id);
    CODE_OBJECTS
        .iter()
        .find(|code_object| code_object.target.name == processor)
        .or_else(|| CODE_OBJECTS.iter().find(|code_object| code_object.target.processors.contains(&processor)))
        .ok_or_else(|| NoCodeObject { isa: isa.to_owned() })
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The device library: the few kernels that the driver itself dispatches, to fill and copy memory, to complete
//! dispatches whose workgroup counts lie in device memory, and to write addresses into arguments that stay there.
//!
//! [`select`] returns the prebuilt code object for a GPU; [`plan_fill`], [`plan_copy`], [`plan_patch_dispatch`] and
//! [`plan_bind`] plan launches of its kernels. The kernels' sources, with their contracts, are in `kernels/`;
//! `README.md` describes how the prebuilt files are rebuilt.

mod kernargs;
mod plan;

use std::str::FromStr;

use amdgpu_code_object::{Feature, Processor, TargetId};

pub use kernargs::{BindArgs, CopyArgs, FillArgs, Fixup, PatchDispatchArgs, header_setups};
pub use plan::{
    DeviceShape, Kernel, Launch, MAX_TRANSFER_LENGTH, PlanError, UPDATE_PAYLOAD_ALIGNMENT, UPDATE_PAYLOAD_OFFSET,
    plan_bind, plan_copy, plan_fill, plan_patch_dispatch,
};

/// An embedded code object of the device library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeObject {
    /// The compiler's name of the target it was compiled for (`-mcpu`).
    pub target: &'static str,
    /// The ELF file, aligned to 8 bytes.
    pub elf: &'static [u8],
}

/// Bytes at the alignment that ELF64 headers need.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

macro_rules! embed {
    ($target:literal, $file:literal) => {{
        const ELF: &Aligned<[u8]> = &Aligned(*include_bytes!($file));
        CodeObject { target: $target, elf: &ELF.0 }
    }};
}

/// The embedded code objects, oldest target first: those that `AMDGPU_RS_DEVICE_BINARY_TARGETS` selected when this was
/// built.
pub static CODE_OBJECTS: &[CodeObject] = &include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The error for a GPU that no embedded code object runs on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the device library has no code object for `{isa}` (embedded: {embedded}); {remedy}")]
pub struct NoCodeObject {
    /// The ISA that was asked for.
    pub isa: String,
    /// Targets of the embedded code objects.
    pub embedded: String,
    /// Build option that embeds a fitting one.
    pub remedy: String,
}

/// The code object for a GPU, given as an HSA ISA name (`amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-`), a target id
/// (`gfx90a:xnack-`) or a processor (`gfx1100`, `gfx11-generic`).
///
/// Of those that run on it, the most specific one is taken: for the processor and both feature settings, for the
/// processor, for its generic target.
///
/// # Errors
/// [`NoCodeObject`] if none does, with a list of the embedded ones.
pub fn select(isa: &str) -> Result<&'static CodeObject, NoCodeObject> {
    select_from(CODE_OBJECTS, isa)
}

fn select_from<'a>(code_objects: &'a [CodeObject], isa: &str) -> Result<&'a CodeObject, NoCodeObject> {
    let agent = TargetId::from_str(isa).ok();
    let suited = code_objects.iter().filter_map(|code_object| {
        let target = target_of(code_object.elf)?;
        target.check_runs_on(agent.as_ref()?).ok().map(|()| (specificity(&target), code_object))
    });
    suited.max_by_key(|(specificity, _)| *specificity).map(|(_, code_object)| code_object).ok_or_else(|| NoCodeObject {
        isa: isa.to_owned(),
        embedded: code_objects.iter().map(|code_object| code_object.target).collect::<Vec<_>>().join(", "),
        remedy: remedy(agent.map(|agent| agent.processor)),
    })
}

/// The build option that embeds a code object for a processor, or for a GPU with an unknown name.
fn remedy(processor: Option<Processor>) -> String {
    match processor {
        Some(processor) if processor.info().is_some() => format!(
            "add {processor} to AMDGPU_RS_DEVICE_BINARY_TARGETS (a variable of the CMake build, or of the environment of a cargo \
             build) and build the driver again, with AMDGPU_RS_DEVICE_BINARY_BUILD_MODE=source where it is not prebuilt"
        ),
        _ => "it knows gfx9 to gfx12.5; CONTRIBUTING.md of amdgpu_rs says how to add a target".to_owned(),
    }
}

/// The target in an ELF header; `None` if it has no known one.
fn target_of(elf: &[u8]) -> Option<TargetId> {
    // `EI_ABIVERSION` and `e_flags` of ELF64 (System V gABI).
    let abi_version = *elf.get(8)?;
    let e_flags = u32::from_le_bytes(elf.get(48..52)?.try_into().ok()?);
    TargetId::from_elf(e_flags, abi_version).ok()
}

/// The specificity of a target id: the number of properties that the code was compiled for.
fn specificity(target: &TargetId) -> usize {
    let exact = matches!(target.processor, Processor::Exact { .. });
    let set = |feature| usize::from(matches!(feature, Feature::On | Feature::Off));
    3 * usize::from(exact) + set(target.sramecc) + set(target.xnack)
}

#[cfg(test)]
#[path = "lib_test.rs"]
mod tests;

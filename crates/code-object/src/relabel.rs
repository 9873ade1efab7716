// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Code objects for generic targets on runtimes that do not know generic targets.

use std::borrow::Cow;

use crate::elf::Header;
use crate::error::{Error, Result};
use crate::processor::Processor;
use crate::target::{Feature, TargetId};

/// Converts `elf` to a form that the runtime of an agent with the ISAs `isas` accepts.
///
/// Code for a generic target runs unchanged on each of its processors (AMDGPUUsage "Generic Processors"), but not every
/// runtime supports that: ROCR of ROCm 6.2 finds no ISA of such a name (`core/runtime/isa.cpp`) and refuses to load the
/// file. Its agents list only their processor; those of ROCm 7.0 list its generic target, too. For such an agent, the
/// header of a copy names the processor, in code object version 5, which older runtimes know and which differs from 6
/// only by the lack of generic targets.
///
/// # Errors
/// An ELF header that is not one of an AMDGPU code object.
pub fn for_agent<'a>(elf: &'a [u8], isas: &[TargetId]) -> Result<Cow<'a, [u8]>> {
    const EI_ABIVERSION: usize = 8;
    const VERSION_5: u8 = 3;
    const E_FLAGS: std::ops::Range<usize> = 48..52;

    let target = Header::parse(elf)?.target;
    let is_known = isas.iter().any(|isa| isa.processor == target.processor);
    if is_known || matches!(target.processor, Processor::Exact { .. }) {
        return Ok(Cow::Borrowed(elf));
    }
    let mut processors =
        isas.iter().filter(|isa| target.check_runs_on(isa).is_ok()).filter_map(|isa| isa.processor.info());
    let Some(info) = processors.next() else { return Ok(Cow::Borrowed(elf)) };
    let feature = |selectable: bool, setting: Feature| match (selectable, setting) {
        (false, _) => 0,
        (true, Feature::Off) => 2,
        (true, Feature::On) => 3,
        (true, Feature::Any | Feature::Unsupported) => 1,
    };
    let sramecc: u32 = feature(info.sramecc, target.sramecc);
    let xnack: u32 = feature(info.xnack, target.xnack);
    let mut copy = Vec::new();
    copy.try_reserve_exact(elf.len()).map_err(|_| Error::NoMemory { bytes: elf.len() })?;
    copy.extend_from_slice(elf);
    copy[EI_ABIVERSION] = VERSION_5;
    copy[E_FLAGS].copy_from_slice(&(u32::from(info.mach) | xnack << 8 | sramecc << 10).to_le_bytes());
    Ok(Cow::Owned(copy))
}

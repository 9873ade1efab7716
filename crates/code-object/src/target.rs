// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Target ids, and compatibility of code for one target with another.
//!
//! Sources: LLVM's AMDGPUUsage, "Target ID", "Generic Processors" and "Header" (`e_flags`).

use std::fmt;
use std::str::FromStr;

use crate::processor::Processor;

/// Prefix of HSA ISA names, in front of the target id.
pub const HSA_ISA_PREFIX: &str = "amdgcn-amd-amdhsa--";

/// Setting of a feature that a processor lets the user choose (SRAM ECC, XNACK replay).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// The processor has no such choice.
    Unsupported,
    /// Code that runs with either setting; of an agent: not stated.
    Any,
    /// Code that needs the feature off; of an agent: it is off.
    Off,
    /// Code that needs the feature on; of an agent: it is on.
    On,
}

/// Target of code, or ISA of an agent.
///
/// Parses from `gfx1100`, `gfx90a:sramecc+:xnack-`, `gfx11-generic`, each with or without
/// [`HSA_ISA_PREFIX`]; prints without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TargetId {
    /// GPU or family of GPUs.
    pub processor: Processor,
    /// Version of a generic target as an ELF file (code object v6) states it; 0 where there is
    /// none, and in parsed names, which cannot carry it.
    pub generic_version: u8,
    /// SRAM ECC setting.
    pub sramecc: Feature,
    /// XNACK replay setting.
    pub xnack: Feature,
}

/// Reason why a target id is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The processor's name has not the form of one.
    #[error(
        "`{0}` is not an AMDGPU processor name; expected one like `gfx1100`, `gfx90a` or \
         `gfx11-generic`, optionally after `amdgcn-amd-amdhsa--`"
    )]
    Processor(String),
    /// A suffix is not one of the known features followed by `+` or `-`.
    #[error(
        "`{feature}` in target id `{target}` is not a feature setting; expected `sramecc+`, \
         `sramecc-`, `xnack+` or `xnack-`, each at most once"
    )]
    Feature {
        /// The suffix.
        feature: String,
        /// The target id as given.
        target: String,
    },
    /// The processor does not let the user choose the feature.
    #[error("target id `{target}` sets `{feature}`, which {processor} does not let one choose")]
    FeatureNotSelectable {
        /// The feature's name.
        feature: &'static str,
        /// The processor.
        processor: Processor,
        /// The target id as given.
        target: String,
    },
    /// An ELF file's `EF_AMDGPU_MACH` value is not in the processor table.
    #[error(
        "the code object's e_flags name processor {mach:#04x} (EF_AMDGPU_MACH), which is not \
         known; gfx9 to gfx12.5 are supported"
    )]
    Mach {
        /// The value of the field.
        mach: u8,
    },
    /// An ELF file's ABI version is not v3 to v6.
    #[error(
        "the code object's EI_ABIVERSION is {abi_version}; versions 1 to 4 (code object v3 to v6) \
         are supported: recompile with -mcode-object-version=5"
    )]
    AbiVersion {
        /// The value of the field.
        abi_version: u8,
    },
    /// A generic processor without a generic version, or the reverse.
    #[error(
        "the code object is for {processor} but its e_flags state generic version {version}; \
         generic targets need code object v6 and a version above 0, others have none"
    )]
    GenericVersion {
        /// The processor.
        processor: Processor,
        /// The value of the field.
        version: u8,
    },
}

/// `text` cut to a length that fits an error message.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().take(80).collect()
}

impl TargetId {
    /// A target id with the features' default: any where the processor has the choice.
    pub fn new(processor: Processor) -> Self {
        // A processor newer than the table may have either feature.
        let (sramecc, xnack) = processor.info().map_or((true, true), |i| (i.sramecc, i.xnack));
        let default = |selectable| if selectable { Feature::Any } else { Feature::Unsupported };
        Self { processor, generic_version: 0, sramecc: default(sramecc), xnack: default(xnack) }
    }

    /// The target that an ELF header's `e_flags` and `EI_ABIVERSION` state.
    pub fn from_elf(e_flags: u32, abi_version: u8) -> Result<Self, TargetError> {
        if !(1..=4).contains(&abi_version) {
            return Err(TargetError::AbiVersion { abi_version });
        }
        let mach = e_flags as u8;
        let info = Processor::from_mach(mach).ok_or(TargetError::Mach { mach })?;
        let feature = |selectable, v3_bit: u32, v4_shift: u32| match (selectable, abi_version) {
            (false, _) => Feature::Unsupported,
            (true, 1) if e_flags & v3_bit != 0 => Feature::On,
            (true, 1) => Feature::Off,
            (true, _) => match (e_flags >> v4_shift) & 3 {
                0 => Feature::Unsupported,
                1 => Feature::Any,
                2 => Feature::Off,
                _ => Feature::On,
            },
        };
        let generic_version = if abi_version == 4 { (e_flags >> 24) as u8 } else { 0 };
        let is_generic = matches!(info.processor, Processor::Generic { .. });
        if is_generic != (generic_version != 0) {
            return Err(TargetError::GenericVersion { processor: info.processor, version: generic_version });
        }
        Ok(Self {
            processor: info.processor,
            generic_version,
            sramecc: feature(info.sramecc, 0x200, 10),
            xnack: feature(info.xnack, 0x100, 8),
        })
    }

    /// The HSA ISA name, such as `amdgcn-amd-amdhsa--gfx1100`.
    pub fn hsa_isa_name(&self) -> String {
        format!("{HSA_ISA_PREFIX}{self}")
    }

    /// The generic target whose code this GPU runs, with the same feature settings; `None` for a
    /// generic target, a GPU that no family covers and a GPU newer than the table.
    pub fn generic(&self) -> Option<Self> {
        let (processor, generic_version) = self.processor.info()?.generic?;
        Some(Self { processor, generic_version, ..*self })
    }

    /// Checks that code compiled for `self` runs on `agent`, one of the ISAs that a GPU reports.
    pub fn check_runs_on(&self, agent: &Self) -> Result<(), Mismatch> {
        let mut reasons = Vec::new();
        match self.processor {
            Processor::Exact { .. } if self.processor != agent.processor => {
                reasons.push(MismatchReason::Processor);
            }
            Processor::Generic { .. } => {
                let minimum = minimum_generic_version(self.processor, agent.processor);
                reasons.extend(self.generic_mismatch(minimum));
            }
            Processor::Exact { .. } => {}
        }
        let differs = |code, agent| matches!(code, Feature::On | Feature::Off) && code != agent;
        if differs(self.sramecc, agent.sramecc) {
            reasons.push(MismatchReason::Sramecc);
        }
        if differs(self.xnack, agent.xnack) {
            reasons.push(MismatchReason::Xnack);
        }
        if reasons.is_empty() { Ok(()) } else { Err(Mismatch { code_object: *self, agent: *agent, reasons }) }
    }

    /// The index of the first of an agent's ISAs that runs code compiled for `self`; if none does,
    /// the mismatch with each.
    pub fn find_runs_on(&self, agent_isas: &[Self]) -> Result<usize, Vec<Mismatch>> {
        let mut mismatches = Vec::new();
        for (index, isa) in agent_isas.iter().enumerate() {
            match self.check_runs_on(isa) {
                Ok(()) => return Ok(index),
                Err(mismatch) => mismatches.push(mismatch),
            }
        }
        Err(mismatches)
    }

    /// Reason why code for the generic target `self` does not run on a GPU that needs at least version `minimum` of it
    /// (`None`: of another family).
    fn generic_mismatch(&self, minimum: Option<u8>) -> Option<MismatchReason> {
        match minimum {
            None => Some(MismatchReason::GenericFamily),
            // Version 0: the target came from a name, which states no version.
            Some(minimum) if self.generic_version != 0 && self.generic_version < minimum => {
                Some(MismatchReason::GenericVersion { minimum })
            }
            Some(_) => None,
        }
    }
}

/// The lowest version of the generic target `family` that covers `agent`; `None` if none does.
fn minimum_generic_version(family: Processor, agent: Processor) -> Option<u8> {
    match (agent, agent.info()) {
        (Processor::Generic { .. }, _) => (agent == family).then_some(0),
        (_, Some(info)) => info.generic.filter(|generic| generic.0 == family).map(|generic| generic.1),
        // A GPU newer than the table: its family is the one that shares major and minor.
        (Processor::Exact { major, minor, .. }, None) => {
            let minor = (minor != 0).then_some(minor);
            (family == Processor::Generic { major, minor }).then_some(0)
        }
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.processor.fmt(f)?;
        for (name, feature) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            match feature {
                Feature::On => write!(f, ":{name}+")?,
                Feature::Off => write!(f, ":{name}-")?,
                Feature::Any | Feature::Unsupported => {}
            }
        }
        Ok(())
    }
}

impl FromStr for TargetId {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let mut parts = text.strip_prefix(HSA_ISA_PREFIX).unwrap_or(text).split(':');
        let processor = parts.next().unwrap_or("").parse::<Processor>()?;
        let mut target = Self::new(processor);
        for part in parts {
            let bad = || TargetError::Feature { feature: quoted(part), target: quoted(text) };
            let (name, setting) = match (part.strip_suffix('+'), part.strip_suffix('-')) {
                (Some(name), _) => (name, Feature::On),
                (_, Some(name)) => (name, Feature::Off),
                _ => return Err(bad()),
            };
            let (name, field) = match name {
                "sramecc" => ("sramecc", &mut target.sramecc),
                "xnack" => ("xnack", &mut target.xnack),
                _ => return Err(bad()),
            };
            match field {
                Feature::Any => *field = setting,
                Feature::On | Feature::Off => return Err(bad()),
                Feature::Unsupported => {
                    return Err(TargetError::FeatureNotSelectable { feature: name, processor, target: quoted(text) });
                }
            }
        }
        Ok(target)
    }
}

/// Reason why code for one target does not run on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MismatchReason {
    /// Code for another GPU.
    Processor,
    /// Code for a generic target that does not cover the agent's GPU.
    GenericFamily,
    /// Code for an older version of the generic target than the one that covers the agent's GPU.
    GenericVersion {
        /// The lowest generic version that covers the agent's GPU.
        minimum: u8,
    },
    /// The SRAM ECC settings differ.
    Sramecc,
    /// The XNACK settings differ.
    Xnack,
}

/// Mismatch of a code object and an agent. Its text names both targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Target of the code.
    pub code_object: TargetId,
    /// ISA of the agent.
    pub agent: TargetId,
    /// Each reason, at least one.
    pub reasons: Vec<MismatchReason>,
}

impl std::error::Error for Mismatch {}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code_object, agent, reasons } = self;
        write!(f, "code compiled for `{code_object}` does not run on a GPU of target `{agent}` (")?;
        for (index, reason) in reasons.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match reason {
                MismatchReason::Processor => f.write_str("another processor")?,
                MismatchReason::GenericFamily => f.write_str("another generic family")?,
                MismatchReason::GenericVersion { minimum } => {
                    let found = code_object.generic_version;
                    write!(f, "generic version {found}, at least {minimum} needed")?;
                }
                MismatchReason::Sramecc => f.write_str("other sramecc setting")?,
                MismatchReason::Xnack => f.write_str("other xnack setting")?,
            }
        }
        write!(f, "); compile it for `{agent}`")?;
        if let Some(generic) = agent.generic().filter(|_| reasons.contains(&MismatchReason::Processor)) {
            write!(f, " or `{}`", generic.processor)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No processor needs more than version 1 of its family yet.
    #[test]
    fn generic_version_must_cover_the_gpu() {
        let mut code_object = TargetId::new(Processor::Generic { major: 11, minor: None });
        code_object.generic_version = 1;
        assert_eq!(code_object.generic_mismatch(Some(1)), None);
        assert_eq!(code_object.generic_mismatch(Some(2)), Some(MismatchReason::GenericVersion { minimum: 2 }));
        code_object.generic_version = 0;
        assert_eq!(code_object.generic_mismatch(Some(2)), None);
        assert_eq!(code_object.generic_mismatch(None), Some(MismatchReason::GenericFamily));
    }
}

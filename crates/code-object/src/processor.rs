// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The processors gfx9 to gfx12.5: one table.
//!
//! Sources: LLVM's AMDGPUUsage ("AMDGPU Processors", "Generic Processors", `EF_AMDGPU_MACH` values) and
//! `llvm/BinaryFormat/ELF.h`; the generic target of each processor as in IREE's AMDGPU target map.

use std::fmt;
use std::str::FromStr;

use crate::target::TargetError;

/// A processor name: one GPU, or a generic target that runs on a family of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Processor {
    /// One GPU, such as `gfx90a` (9, 0, 10) or `gfx1100` (11, 0, 0).
    Exact {
        /// GFXIP major version, 1 to 99.
        major: u8,
        /// GFXIP minor version, one decimal digit.
        minor: u8,
        /// GFXIP stepping, one hexadecimal digit.
        stepping: u8,
    },
    /// A family, such as `gfx11-generic` (11, none) or `gfx9-4-generic` (9, 4).
    Generic {
        /// GFXIP major version, 1 to 99.
        major: u8,
        /// GFXIP minor version where the name has one.
        minor: Option<u8>,
    },
}

impl Processor {
    /// The table's row, or `None` for a processor newer than this table.
    pub fn info(self) -> Option<&'static ProcessorInfo> {
        PROCESSORS.iter().find(|info| info.processor == self)
    }

    /// The row that an ELF file's `EF_AMDGPU_MACH` value stands for.
    pub fn from_mach(mach: u8) -> Option<&'static ProcessorInfo> {
        PROCESSORS.iter().find(|info| info.mach == mach)
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exact { major, minor, stepping } => write!(f, "gfx{major}{minor}{stepping:x}"),
            Self::Generic { major, minor: None } => write!(f, "gfx{major}-generic"),
            Self::Generic { major, minor: Some(minor) } => write!(f, "gfx{major}-{minor}-generic"),
        }
    }
}

impl FromStr for Processor {
    type Err = TargetError;

    /// Parses a name's syntax; the processor need not be in [`PROCESSORS`].
    fn from_str(name: &str) -> Result<Self, TargetError> {
        let parse = || {
            let version = name.strip_prefix("gfx")?;
            match version.strip_suffix("-generic") {
                Some(family) => parse_generic(family),
                None => parse_exact(version),
            }
        };
        parse().ok_or_else(|| TargetError::Processor(crate::target::quoted(name)))
    }
}

fn parse_exact(version: &str) -> Option<Processor> {
    if !version.is_ascii() || !(3..=4).contains(&version.len()) || version.contains(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    let (major, rest) = version.split_at(version.len() - 2);
    let minor = rest[..1].chars().next()?.to_digit(10)? as u8;
    let stepping = rest[1..].chars().next()?.to_digit(16)? as u8;
    Some(Processor::Exact { major: parse_number(major)?, minor, stepping })
}

fn parse_generic(family: &str) -> Option<Processor> {
    let (major, minor) = match family.split_once('-') {
        Some((major, minor)) => (major, Some(parse_number(minor)?)),
        None => (family, None),
    };
    Some(Processor::Generic { major: parse_number(major)?, minor })
}

/// One or two decimal digits without a leading zero, so that each number has one spelling.
fn parse_number(digits: &str) -> Option<u8> {
    let plain = digits.len() <= 2 && digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    plain.then(|| digits.parse().ok()).flatten()
}

/// Properties of one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorInfo {
    /// The processor.
    pub processor: Processor,
    /// `EF_AMDGPU_MACH` value in an ELF file's `e_flags`.
    pub mach: u8,
    /// The generic target whose code this GPU runs, with the lowest generic version that covers it.
    pub generic: Option<(Processor, u8)>,
    /// True if SRAM ECC is selectable in a target id.
    pub sramecc: bool,
    /// True if XNACK replay is selectable in a target id.
    pub xnack: bool,
}

const NONE: (bool, bool) = (false, false);
const XNACK: (bool, bool) = (false, true);
const BOTH: (bool, bool) = (true, true);

const fn generic(major: u8, minor: u8) -> Processor {
    Processor::Generic { major, minor: if minor == 0 { None } else { Some(minor) } }
}

const fn row(
    mach: u8,
    processor: Processor,
    generic: Option<(Processor, u8)>,
    (sramecc, xnack): (bool, bool),
) -> ProcessorInfo {
    ProcessorInfo { processor, mach, generic, sramecc, xnack }
}

/// One GPU: mach, version, generic family (major, minor) with its version, selectable features.
const fn gpu(mach: u8, version: (u8, u8, u8), family: (u8, u8, u8), features: (bool, bool)) -> ProcessorInfo {
    let (major, minor, stepping) = version;
    row(mach, Processor::Exact { major, minor, stepping }, Some((generic(family.0, family.1), family.2)), features)
}

/// A GPU that no generic target covers.
const fn lone(mach: u8, version: (u8, u8, u8), features: (bool, bool)) -> ProcessorInfo {
    let (major, minor, stepping) = version;
    row(mach, Processor::Exact { major, minor, stepping }, None, features)
}

/// Each processor from gfx9 to gfx12.5, and the generic targets.
#[rustfmt::skip]
pub const PROCESSORS: &[ProcessorInfo] = &[
    gpu(0x2c, (9, 0, 0x0), (9, 0, 1), XNACK),
    gpu(0x2d, (9, 0, 0x2), (9, 0, 1), XNACK),
    gpu(0x2e, (9, 0, 0x4), (9, 0, 1), XNACK),
    gpu(0x2f, (9, 0, 0x6), (9, 0, 1), BOTH),
    lone(0x30, (9, 0, 0x8), BOTH),
    gpu(0x31, (9, 0, 0x9), (9, 0, 1), XNACK),
    lone(0x3f, (9, 0, 0xa), BOTH),
    gpu(0x32, (9, 0, 0xc), (9, 0, 1), XNACK),
    gpu(0x40, (9, 4, 0x0), (9, 4, 1), BOTH),
    gpu(0x4b, (9, 4, 0x1), (9, 4, 1), BOTH),
    gpu(0x4c, (9, 4, 0x2), (9, 4, 1), BOTH),
    gpu(0x4f, (9, 5, 0x0), (9, 4, 1), BOTH),
    gpu(0x33, (10, 1, 0), (10, 1, 1), XNACK),
    gpu(0x34, (10, 1, 1), (10, 1, 1), XNACK),
    gpu(0x35, (10, 1, 2), (10, 1, 1), XNACK),
    gpu(0x42, (10, 1, 3), (10, 1, 1), XNACK),
    gpu(0x36, (10, 3, 0), (10, 3, 1), NONE),
    gpu(0x37, (10, 3, 1), (10, 3, 1), NONE),
    gpu(0x38, (10, 3, 2), (10, 3, 1), NONE),
    gpu(0x39, (10, 3, 3), (10, 3, 1), NONE),
    gpu(0x3e, (10, 3, 4), (10, 3, 1), NONE),
    gpu(0x3d, (10, 3, 5), (10, 3, 1), NONE),
    gpu(0x45, (10, 3, 6), (10, 3, 1), NONE),
    gpu(0x41, (11, 0, 0), (11, 0, 1), NONE),
    gpu(0x46, (11, 0, 1), (11, 0, 1), NONE),
    gpu(0x47, (11, 0, 2), (11, 0, 1), NONE),
    gpu(0x44, (11, 0, 3), (11, 0, 1), NONE),
    gpu(0x43, (11, 5, 0), (11, 0, 1), NONE),
    gpu(0x4a, (11, 5, 1), (11, 0, 1), NONE),
    gpu(0x55, (11, 5, 2), (11, 0, 1), NONE),
    gpu(0x58, (11, 5, 3), (11, 0, 1), NONE),
    gpu(0x5d, (11, 7, 0), (11, 0, 1), NONE),
    gpu(0x5e, (11, 7, 1), (11, 0, 1), NONE),
    gpu(0x5c, (11, 7, 2), (11, 0, 1), NONE),
    gpu(0x48, (12, 0, 0), (12, 0, 1), NONE),
    gpu(0x4e, (12, 0, 1), (12, 0, 1), NONE),
    // gfx12.5 sets both feature fields in e_flags, but neither is selectable: its agents' names carry no suffix.
    gpu(0x49, (12, 5, 0), (12, 5, 1), NONE),
    gpu(0x5a, (12, 5, 1), (12, 5, 1), NONE),
    row(0x51, generic(9, 0), None, XNACK),
    row(0x5f, generic(9, 4), None, BOTH),
    row(0x52, generic(10, 1), None, XNACK),
    row(0x53, generic(10, 3), None, NONE),
    row(0x54, generic(11, 0), None, NONE),
    row(0x59, generic(12, 0), None, NONE),
    row(0x5b, generic(12, 5), None, NONE),
];

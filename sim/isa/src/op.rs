// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Operations, operand types and targets. The rows are in `table.rs`.

use crate::inst::Format;

/// An instruction-set generation with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Target {
    /// RDNA3: gfx1100 to gfx1103 and `gfx11-generic`.
    Gfx11,
    /// RDNA4: gfx1200, gfx1201 and `gfx12-generic`.
    Gfx1200,
    /// GFX12.5: gfx1250. Its kernels have waves of 32 lanes only.
    Gfx1250,
    /// GCN5 with dot products: gfx906, and what of it is in `gfx9-generic`.
    Gfx906,
    /// CDNA1: gfx908.
    Gfx908,
    /// CDNA2: gfx90a.
    Gfx90a,
    /// CDNA3: gfx942 and `gfx9-4-generic`.
    Gfx942,
    /// RDNA1: gfx1010 and `gfx10-1-generic`.
    Gfx1010,
    /// RDNA2: gfx1030 to gfx1036 and `gfx10-3-generic`.
    Gfx1030,
}

impl Target {
    /// The table for a processor name such as `gfx1100`; `None` if it has none.
    pub fn from_processor(name: &str) -> Option<Target> {
        match name {
            "gfx1100" | "gfx1101" | "gfx1102" | "gfx1103" | "gfx11-generic" => Some(Target::Gfx11),
            "gfx1200" | "gfx1201" | "gfx12-generic" => Some(Target::Gfx1200),
            "gfx1250" => Some(Target::Gfx1250),
            "gfx906" | "gfx9-generic" => Some(Target::Gfx906),
            "gfx908" => Some(Target::Gfx908),
            "gfx90a" => Some(Target::Gfx90a),
            "gfx942" | "gfx9-4-generic" => Some(Target::Gfx942),
            "gfx1010" | "gfx10-1-generic" => Some(Target::Gfx1010),
            "gfx1030" | "gfx1031" | "gfx1032" | "gfx1033" | "gfx1034" | "gfx1035" | "gfx1036" | "gfx10-3-generic" => {
                Some(Target::Gfx1030)
            }
            _ => None,
        }
    }

    /// Whether it is of the GFX9 family: encodings of GCN, waves of 64 lanes only.
    pub const fn is_gfx9(self) -> bool {
        Targets::GFX9.contains(self)
    }

    /// Whether it comes before RDNA3, which made halves of VGPRs operands and dropped SDWA.
    pub const fn is_before_gfx11(self) -> bool {
        self.is_gfx9() || matches!(self, Target::Gfx1010 | Target::Gfx1030)
    }

    /// Whether it is of the GFX12 family: memory encodings of three dwords, hints and scopes, split barriers.
    pub const fn is_gfx12(self) -> bool {
        matches!(self, Target::Gfx1200 | Target::Gfx1250)
    }

    /// Whether a lane's registers are one file of VGPRs and AGPRs, so that memory instructions take either (gfx90a and later).
    pub const fn has_unified_registers(self) -> bool {
        matches!(self, Target::Gfx90a | Target::Gfx942)
    }

    /// Whether tuples of lane registers start with an even one (CDNA2 ISA, "VGPR alignment"; gfx1250).
    pub const fn has_aligned_tuples(self) -> bool {
        self.has_unified_registers() || matches!(self, Target::Gfx1250)
    }
}

/// A set of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets(u16);

impl Targets {
    const fn only(target: Target) -> Targets {
        Targets(1 << target as u16)
    }

    const fn or(self, other: Targets) -> Targets {
        Targets(self.0 | other.0)
    }

    /// Whether `target` is one of them.
    pub const fn contains(self, target: Target) -> bool {
        self.0 & Targets::only(target).0 != 0
    }

    const GFX9: Targets = family::Gfx906.or(family::Gfx908).or(family::Gfx90a).or(family::Gfx942);
}

/// The sets that rows name.
#[allow(non_upper_case_globals)]
mod family {
    use super::{Target, Targets};

    pub const Gfx11: Targets = Targets::only(Target::Gfx11);
    pub const Gfx1200: Targets = Targets::only(Target::Gfx1200);
    pub const Gfx1250: Targets = Targets::only(Target::Gfx1250);
    pub const Gfx12: Targets = Gfx1200.or(Gfx1250);
    pub const Gfx906: Targets = Targets::only(Target::Gfx906);
    pub const Gfx908: Targets = Targets::only(Target::Gfx908);
    pub const Gfx90a: Targets = Targets::only(Target::Gfx90a);
    pub const Gfx942: Targets = Targets::only(Target::Gfx942);
    pub const Gfx9: Targets = Targets::GFX9;
    pub const Gfx1010: Targets = Targets::only(Target::Gfx1010);
    pub const Gfx1030: Targets = Targets::only(Target::Gfx1030);
    pub const Gfx10: Targets = Gfx1010.or(Gfx1030);
}

/// The type of an operand slot: its width and how constants in it are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// No operand.
    None,
    /// 16-bit integer, in a half of a VGPR (`v0.l`, `v0.h`); takes no `neg` or `abs`.
    I16,
    /// Half float, in a half of a VGPR.
    F16,
    /// bfloat16, in a half of a VGPR.
    BF16,
    /// 32 bits, integer or float.
    B32,
    /// 32-bit integer beside floats: takes no `neg` or `abs`.
    I32,
    /// 64-bit integer or untyped bits; literals are zero-extended.
    B64,
    /// 64-bit signed integer; literals are sign-extended.
    I64,
    /// 64-bit float; literals are its high half.
    F64,
    /// Two half floats in a dword.
    V2F16,
    /// Two bfloat16 in a dword.
    V2BF16,
    /// Two 16-bit integers in a dword.
    V2I16,
    /// Two 32-bit floats.
    V2F32,
    /// 96 bits.
    B96,
    /// 128 bits.
    B128,
    /// 256 bits.
    B256,
    /// Four 64-bit floats.
    V4F64,
    /// 384 bits.
    B384,
    /// 512 bits.
    B512,
    /// 1024 bits.
    B1024,
    /// One bit per lane: one dword in wave32, two in wave64.
    Mask,
    /// A 32-bit scalar register, written by a vector instruction.
    S32,
    /// The mandatory 32-bit literal of `v_fmaak_f32` and its like.
    K32,
    /// The mandatory literal of 16-bit ops.
    K16,
    /// The mandatory 64-bit literal of `v_fmaak_f64` and `v_fmamk_f64`.
    K64,
}

impl Ty {
    /// Registers the operand takes (a 16-bit one: 1). `wave64` matters for lane masks only.
    pub const fn dwords(self, wave64: bool) -> u8 {
        match self {
            Ty::None => 0,
            Ty::I16 | Ty::F16 | Ty::BF16 | Ty::K16 => 1,
            Ty::B32 | Ty::I32 | Ty::S32 | Ty::K32 | Ty::V2F16 | Ty::V2BF16 | Ty::V2I16 => 1,
            Ty::B64 | Ty::I64 | Ty::F64 | Ty::K64 | Ty::V2F32 => 2,
            Ty::B96 => 3,
            Ty::B128 => 4,
            Ty::B256 | Ty::V4F64 => 8,
            Ty::B384 => 12,
            Ty::B512 => 16,
            Ty::B1024 => 32,
            Ty::Mask => 1 + wave64 as u8,
        }
    }

    /// Whether it is a single 16-bit value.
    pub const fn is_16(self) -> bool {
        matches!(self, Ty::I16 | Ty::F16 | Ty::BF16)
    }
}

/// How some targets encode an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// The targets.
    pub targets: Targets,
    /// The shortest encoding; VOP1, VOP2 and VOPC ops also have a VOP3 one.
    pub format: Format,
    /// The opcode in that encoding.
    pub code: u16,
    /// The mnemonic on those targets, without `_e32`/`_e64`/`_dpp`.
    pub name: &'static str,
}

/// One row of the table.
#[derive(Debug)]
pub struct OpInfo {
    /// The op.
    pub op: Op,
    /// Generation-neutral mnemonic: the newest spelling among those RDNA3 knows.
    pub name: &'static str,
    /// Type of the destination.
    pub dst: Ty,
    /// Type of the scalar destination beside it.
    pub sdst: Ty,
    /// Types of the sources, in the slots of [`crate::Inst::src`].
    pub src: &'static [Ty],
    /// The targets that have it.
    pub encodings: &'static [Encoding],
}

macro_rules! define_ops {
    ($($variant:ident $name:literal ($dst:ident $(, $sdst:ident)? = $($src:ident)*)
        { $($($target:ident)|+ $format:ident $code:literal $($alias:literal)?),+ }),+ $(,)?) => {
        /// A generation-neutral operation, named after its mnemonic without `_e32`/`_e64`/`_dpp` (`v_add_f32`: `VAddF32`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum Op { $($variant),+ }

        static ROWS: &[OpInfo] = &[$(OpInfo {
            op: Op::$variant,
            name: $name,
            dst: Ty::$dst,
            sdst: define_ops!(@sdst $($sdst)?),
            src: &[$(Ty::$src),*],
            encodings: &[$(Encoding {
                targets: Targets(0)$(.or(family::$target))+,
                format: Format::$format,
                code: $code,
                name: define_ops!(@name $name $($alias)?),
            }),+],
        }),+];
    };
    (@sdst) => { Ty::None };
    (@sdst $sdst:ident) => { Ty::$sdst };
    (@name $name:literal) => { $name };
    (@name $name:literal $alias:literal) => { $alias };
}

crate::table::with_rows!(define_ops);

impl Op {
    /// Whether it has the scales of the matrix op after it, which is then one instruction with it (gfx1250, VOP3PX2).
    pub fn loads_scales(self) -> bool {
        matches!(self, Op::VWmmaLdScalePairedB32 | Op::VWmmaLdScale16PairedB64)
    }

    /// Whether it is a matrix op that may have scales before it.
    pub fn takes_scales(self) -> bool {
        matches!(self, Op::VWmmaF3216x16x128F8f6f4 | Op::VWmmaF3232x16x128F4)
    }

    /// All ops, in the table's order.
    pub fn all() -> impl Iterator<Item = Op> {
        ROWS.iter().map(|row| row.op)
    }

    /// The op's row.
    pub fn info(self) -> &'static OpInfo {
        &ROWS[self as usize]
    }

    /// Its encodings on `target`; none if the target lacks it.
    pub fn encodings(self, target: Target) -> impl Iterator<Item = &'static Encoding> {
        self.info().encodings.iter().filter(move |encoding| encoding.targets.contains(target))
    }

    /// Its generation-neutral mnemonic.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Whether it is encoded both in 32 and in 64 bits on `target`, so that LLVM tells them apart by `_e32` and `_e64`.
    pub(crate) fn has_two_sizes(self, target: Target) -> bool {
        let short = |encoding: &Encoding| matches!(encoding.format, Format::Vop1 | Format::Vop2 | Format::Vopc);
        self.encodings(target).any(short) && !crate::decode::is_short_only(self, target)
    }

    /// Its mnemonic on `target`, or the neutral one where the target lacks it.
    pub fn name_on(self, target: Target) -> &'static str {
        self.encodings(target).next().map_or(self.name(), |encoding| encoding.name)
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn processors_and_generics_choose_tables() {
        for (name, target) in [
            ("gfx906", Target::Gfx906),
            ("gfx9-generic", Target::Gfx906),
            ("gfx908", Target::Gfx908),
            ("gfx90a", Target::Gfx90a),
            ("gfx942", Target::Gfx942),
            ("gfx9-4-generic", Target::Gfx942),
            ("gfx10-1-generic", Target::Gfx1010),
            ("gfx1032", Target::Gfx1030),
            ("gfx1103", Target::Gfx11),
            ("gfx1200", Target::Gfx1200),
            ("gfx1250", Target::Gfx1250),
        ] {
            assert_eq!(Target::from_processor(name), Some(target), "{name}");
        }
        // gfx900 lacks the fused mixed-precision ops that gfx906 has in their place; features are not part of a name.
        for name in ["gfx900", "gfx950", "gfx1150", "gfx90a:xnack+", ""] {
            assert_eq!(Target::from_processor(name), None, "{name}");
        }
    }

    #[test]
    fn families_are_their_members() {
        let gfx9 = [Target::Gfx906, Target::Gfx908, Target::Gfx90a, Target::Gfx942];
        assert!(gfx9.iter().all(|target| target.is_gfx9() && target.is_before_gfx11()));
        for target in [Target::Gfx1010, Target::Gfx1030] {
            assert!(!target.is_gfx9() && target.is_before_gfx11());
        }
        for target in [Target::Gfx11, Target::Gfx1200, Target::Gfx1250] {
            assert!(!target.is_gfx9() && !target.is_before_gfx11());
        }
    }
}

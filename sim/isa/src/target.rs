// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Instruction-set generations and sets of them.

/// An instruction-set generation with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Target {
    /// RDNA3: gfx1100 to gfx1103 and `gfx11-generic`.
    Gfx11,
    /// RDNA3.5: gfx1150 to gfx1153. RDNA3 with scalar floating point and scalar operands beside DPP.
    Gfx1150,
    /// RDNA4: gfx1200, gfx1201 and `gfx12-generic`.
    Gfx1200,
    /// GFX12.5: gfx1250. Its kernels have waves of 32 lanes only.
    Gfx1250,
    /// GCN5 without dot products: gfx90c. Its mixed-precision ops are not fused.
    Gfx900,
    /// GCN5 with dot products: gfx906, and `gfx9-generic`, which has a subset of it.
    Gfx906,
    /// CDNA1: gfx908.
    Gfx908,
    /// CDNA2: gfx90a.
    Gfx90a,
    /// CDNA3: gfx942 and `gfx9-4-generic`.
    Gfx942,
    /// CDNA4: gfx950.
    Gfx950,
    /// RDNA1: gfx1010 and `gfx10-1-generic`.
    Gfx1010,
    /// RDNA2: gfx1030 to gfx1036 and `gfx10-3-generic`.
    Gfx1030,
}

impl Target {
    /// How many there are.
    pub(crate) const COUNT: usize = Target::Gfx1030 as usize + 1;

    /// The table for a processor name such as `gfx1100`; `None` if it has none.
    pub fn from_processor(name: &str) -> Option<Target> {
        match name {
            "gfx1100" | "gfx1101" | "gfx1102" | "gfx1103" | "gfx11-generic" => Some(Target::Gfx11),
            "gfx1150" | "gfx1151" | "gfx1152" | "gfx1153" => Some(Target::Gfx1150),
            "gfx1200" | "gfx1201" | "gfx12-generic" => Some(Target::Gfx1200),
            "gfx1250" => Some(Target::Gfx1250),
            "gfx90c" => Some(Target::Gfx900),
            "gfx906" | "gfx9-generic" => Some(Target::Gfx906),
            "gfx908" => Some(Target::Gfx908),
            "gfx90a" => Some(Target::Gfx90a),
            "gfx942" | "gfx9-4-generic" => Some(Target::Gfx942),
            "gfx950" => Some(Target::Gfx950),
            "gfx1010" | "gfx10-1-generic" => Some(Target::Gfx1010),
            "gfx1030" | "gfx1031" | "gfx1032" | "gfx1033" | "gfx1034" | "gfx1035" | "gfx1036" | "gfx10-3-generic" => {
                Some(Target::Gfx1030)
            }
            _ => None,
        }
    }

    /// True for the GFX9 family: encodings of GCN, waves of 64 lanes only.
    pub const fn is_gfx9(self) -> bool {
        Targets::GFX9.contains(self)
    }

    /// True for targets before RDNA3, which made halves of VGPRs operands and dropped SDWA.
    pub const fn is_before_gfx11(self) -> bool {
        self.is_gfx9() || matches!(self, Target::Gfx1010 | Target::Gfx1030)
    }

    /// True for RDNA3 and RDNA3.5, whose encodings are the same.
    pub const fn is_gfx11(self) -> bool {
        matches!(self, Target::Gfx11 | Target::Gfx1150)
    }

    /// True for the GFX12 family: memory encodings of three dwords, hints and scopes, split barriers.
    pub const fn is_gfx12(self) -> bool {
        matches!(self, Target::Gfx1200 | Target::Gfx1250)
    }

    /// True for CDNA3 and CDNA4.
    pub const fn is_cdna3_or_later(self) -> bool {
        matches!(self, Target::Gfx942 | Target::Gfx950)
    }

    /// True if a lane's registers are one file of VGPRs and AGPRs, so that memory instructions take either (gfx90a and
    /// later).
    pub const fn has_unified_registers(self) -> bool {
        matches!(self, Target::Gfx90a) || self.is_cdna3_or_later()
    }

    /// True if tuples of lane registers start with an even one (CDNA2 ISA, "VGPR alignment"; gfx1250).
    pub const fn has_aligned_tuples(self) -> bool {
        self.has_unified_registers() || matches!(self, Target::Gfx1250)
    }
}

/// A set of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets(u16);

impl Targets {
    pub(crate) const NONE: Targets = Targets(0);

    const fn only(target: Target) -> Targets {
        Targets(1 << target as u16)
    }

    pub(crate) const fn or(self, other: Targets) -> Targets {
        Targets(self.0 | other.0)
    }

    /// True if the set contains `target`.
    pub const fn contains(self, target: Target) -> bool {
        self.0 & Targets::only(target).0 != 0
    }

    const GFX9: Targets = family::Gfx900.or(family::Gfx906up);

    /// GFX9 from gfx906 on.
    const GFX906_UP: Targets = family::Gfx906.or(family::Gfx908).or(family::Gfx90a).or(family::Cdna3);
}

/// The sets that rows name.
#[allow(non_upper_case_globals)]
pub(crate) mod family {
    use super::{Target, Targets};

    pub const Gfx1150: Targets = Targets::only(Target::Gfx1150);
    pub const Gfx11: Targets = Targets::only(Target::Gfx11).or(Gfx1150);
    pub const Gfx1200: Targets = Targets::only(Target::Gfx1200);
    pub const Gfx1250: Targets = Targets::only(Target::Gfx1250);
    pub const Gfx12: Targets = Gfx1200.or(Gfx1250);
    pub const Gfx906: Targets = Targets::only(Target::Gfx906);
    pub const Gfx908: Targets = Targets::only(Target::Gfx908);
    pub const Gfx90a: Targets = Targets::only(Target::Gfx90a);
    pub const Gfx942: Targets = Targets::only(Target::Gfx942);
    pub const Gfx950: Targets = Targets::only(Target::Gfx950);
    /// CDNA3 and later.
    pub const Cdna3: Targets = Gfx942.or(Gfx950);
    pub const Gfx900: Targets = Targets::only(Target::Gfx900);
    pub const Gfx906up: Targets = Targets::GFX906_UP;
    pub const Gfx9: Targets = Targets::GFX9;
    pub const Gfx1010: Targets = Targets::only(Target::Gfx1010);
    pub const Gfx1030: Targets = Targets::only(Target::Gfx1030);
    pub const Gfx10: Targets = Gfx1010.or(Gfx1030);
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn processors_and_generics_choose_tables() {
        for (name, target) in [
            ("gfx90c", Target::Gfx900),
            ("gfx906", Target::Gfx906),
            ("gfx9-generic", Target::Gfx906),
            ("gfx908", Target::Gfx908),
            ("gfx90a", Target::Gfx90a),
            ("gfx942", Target::Gfx942),
            ("gfx9-4-generic", Target::Gfx942),
            ("gfx950", Target::Gfx950),
            ("gfx10-1-generic", Target::Gfx1010),
            ("gfx1032", Target::Gfx1030),
            ("gfx1103", Target::Gfx11),
            ("gfx11-generic", Target::Gfx11),
            ("gfx1150", Target::Gfx1150),
            ("gfx1153", Target::Gfx1150),
            ("gfx1200", Target::Gfx1200),
            ("gfx1250", Target::Gfx1250),
        ] {
            assert_eq!(Target::from_processor(name), Some(target), "{name}");
        }
        // Features are not part of a name.
        for name in ["gfx900", "gfx1170", "gfx90a:xnack+", ""] {
            assert_eq!(Target::from_processor(name), None, "{name}");
        }
    }

    #[test]
    fn families_are_their_members() {
        let gfx9 = [Target::Gfx900, Target::Gfx906, Target::Gfx908, Target::Gfx90a, Target::Gfx942, Target::Gfx950];
        assert!(gfx9.iter().all(|target| target.is_gfx9() && target.is_before_gfx11()));
        for target in [Target::Gfx1010, Target::Gfx1030] {
            assert!(!target.is_gfx9() && target.is_before_gfx11());
        }
        for target in [Target::Gfx11, Target::Gfx1150, Target::Gfx1200, Target::Gfx1250] {
            assert!(!target.is_gfx9() && !target.is_before_gfx11() && target.is_gfx11() != target.is_gfx12());
        }
    }
}

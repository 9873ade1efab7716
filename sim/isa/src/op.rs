// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Operations. The rows are in `table.rs`.

use crate::encoding::{Encoding, Format, Ty};
use crate::flags::Flags;
use crate::target::{Target, Targets, family};

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
    /// Properties that differ from others of its encodings.
    pub flags: Flags,
    /// The targets that have it.
    pub encodings: &'static [Encoding],
}

macro_rules! define_ops {
    ($($variant:ident $name:literal ($dst:ident $(, $sdst:ident)? = $($src:ident)*) $([$($flag:ident)+])?
        { $($($target:ident)|+ $format:ident $code:literal $($alias:literal)?),+ }),+ $(,)?) => {
        /// A generation-neutral operation, named after its mnemonic without `_e32`/`_e64`/`_dpp` (`v_add_f32`:
        /// `VAddF32`).
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
            flags: Flags::empty()$($(.union(Flags::$flag))+)?,
            encodings: &[$(Encoding {
                targets: Targets::NONE$(.or(family::$target))+,
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
    /// True if it has the scales of the matrix op after it, and forms one instruction with it (VOP3PX2: gfx950,
    /// gfx1250).
    pub fn loads_scales(self) -> bool {
        matches!(self, Op::VWmmaLdScalePairedB32 | Op::VWmmaLdScale16PairedB64 | Op::VMfmaLdScaleB32)
    }

    /// True for a matrix op that may have scales before it.
    pub fn takes_scales(self) -> bool {
        matches!(self, Op::VWmmaF3216x16x128F8f6f4 | Op::VWmmaF3232x16x128F4) || self.has_matrix_formats()
    }

    /// True for a matrix op of gfx950 in which `cbsz` and `blgp` are the formats of A and B.
    pub fn has_matrix_formats(self) -> bool {
        matches!(self, Op::VMfmaF3216x16x128F8f6f4 | Op::VMfmaF3232x32x64F8f6f4)
    }

    /// True if its row has all of `flags`.
    pub fn has(self, flags: Flags) -> bool {
        self.info().flags.contains(flags)
    }

    /// All ops, in the table's order.
    pub fn all() -> impl Iterator<Item = Op> {
        ROWS.iter().map(|row| row.op)
    }

    /// The op's row.
    pub fn info(self) -> &'static OpInfo {
        &ROWS[self as usize]
    }

    /// Encodings of the op on `target`; none if the target lacks it.
    pub fn encodings(self, target: Target) -> impl Iterator<Item = &'static Encoding> {
        self.info().encodings.iter().filter(move |encoding| encoding.targets.contains(target))
    }

    /// Generation-neutral mnemonic of the op.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// True if it has both a 32-bit and a 64-bit encoding on `target`, which LLVM distinguishes by `_e32` and `_e64`.
    pub(crate) fn has_two_sizes(self, target: Target) -> bool {
        let short = |encoding: &Encoding| matches!(encoding.format, Format::Vop1 | Format::Vop2 | Format::Vopc);
        self.encodings(target).any(short) && !self.is_short_only(target)
    }

    /// True if it has a short vector encoding and no VOP3 form on `target`.
    pub(crate) fn is_short_only(self, target: Target) -> bool {
        self.has(Flags::SHORT_ONLY) && !(self.has(Flags::LONG_ON_GFX9) && target.is_gfx9())
    }

    /// The type of the narrow sources of a [`Flags::MIX`] op.
    pub(crate) fn mixed_half(self) -> Ty {
        match self {
            Op::VFmaMixF32Bf16 | Op::VFmaMixloBf16 | Op::VFmaMixhiBf16 => Ty::V2BF16,
            _ => Ty::F16,
        }
    }

    /// True if the data field is a number: the amount or kind of a fetch.
    pub(crate) fn has_immediate_data(self) -> bool {
        self.has(Flags::PREFETCH) || matches!(self, Op::SAtcProbe | Op::SAtcProbeBuffer)
    }

    /// Mnemonic of the op on `target`, or the neutral one where the target lacks it.
    pub fn name_on(self, target: Target) -> &'static str {
        self.encodings(target).next().map_or(self.name(), |encoding| encoding.name)
    }
}

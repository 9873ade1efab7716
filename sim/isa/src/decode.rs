// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! From dwords to [`Inst`]: what all encodings share, and the choice among them.
//!
//! Field positions and operand codes: AMD "RDNA3 Instruction Set Architecture" and "RDNA4 Instruction Set Architecture", chapters 15;
//! for GFX9 "Vega Instruction Set Architecture", chapter 13, and those of CDNA1 to CDNA3.

use std::fmt;
use std::sync::LazyLock;

use crate::inst::{Dpp, Format, Inst, Operand};
use crate::op::{Op, Target, Ty};

mod gfx10;
mod gfx9;
mod memory;
mod scalar;
mod vector;

pub(crate) use gfx9::{is_fp8_source, is_matrix};
pub(crate) use scalar::{has_immediate_data, is_scalar_prefetch};
pub(crate) use vector::{is_mix, is_permlane, mixed_half};

/// Why dwords are not an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeFault {
    /// No encoding of the target has these leading bits, or one that is graphics-only.
    Encoding,
    /// The encoding is known, the opcode in it is not.
    Opcode {
        /// The encoding.
        format: Format,
        /// The opcode.
        code: u16,
    },
    /// An operand field holds a value that names nothing.
    Operand {
        /// The op.
        op: Op,
        /// The field's value.
        code: u16,
    },
    /// The instruction goes on beyond the end of the code.
    Truncated,
}

/// Dwords that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The target whose table was used.
    pub target: Target,
    /// The dwords at the failing instruction, at most three.
    pub words: Vec<u32>,
    /// Byte offset of the first of them in the code, as told by [`DecodeError::at`]; 0 before.
    pub offset: u64,
    /// What is wrong.
    pub fault: DecodeFault,
}

impl DecodeError {
    /// The same error, placed at byte `offset` of the code.
    pub fn at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// What is wrong, in words, with the mnemonic where there is one.
    pub fn reason(&self) -> String {
        let target = self.target;
        match (self.fault, self.mnemonic()) {
            (DecodeFault::Encoding, None) => format!("no {target:?} instruction encoding matches"),
            (DecodeFault::Encoding, Some(name)) => format!("{name} of {target:?} is not decoded"),
            (DecodeFault::Opcode { format, code }, None) => {
                format!("unknown {format:?} opcode {code:#x} for {target:?}")
            }
            (DecodeFault::Opcode { format, code }, Some(name)) => {
                format!("{name} of {target:?} ({format:?} opcode {code:#x}) is not decoded")
            }
            (DecodeFault::Operand { op, code }, _) => {
                format!("operand code {code} of {} is reserved or not known", op.name_on(target))
            }
            (DecodeFault::Truncated, _) => "the code ends within an instruction".to_owned(),
        }
    }

    /// LLVM's mnemonic of the instruction, where the opcode tells it. Without a mnemonic there is no such
    /// instruction.
    pub fn mnemonic(&self) -> Option<&'static str> {
        match self.fault {
            DecodeFault::Operand { op, .. } => Some(op.name_on(self.target)),
            fault => crate::names::mnemonic(self.target, fault, *self.words.first()?),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {:#x}: words", self.reason(), self.offset)?;
        self.words.iter().try_for_each(|word| write!(f, " {word:08x}"))
    }
}

impl std::error::Error for DecodeError {}

/// Decodes the instruction at the start of `words`; its length is in [`Inst::size`].
///
/// Any `words` are safe to pass; those beyond the instruction are not looked at.
///
/// # Errors
/// [`DecodeError`] if the words are no instruction of `target`, or end too early.
pub fn decode(target: Target, words: &[u32]) -> Result<Inst, DecodeError> {
    let mut reader = Reader { target, words, taken: 0, literal: None, literal64: None };
    reader.instruction().map_err(|fault| DecodeError {
        target,
        words: words.iter().take(3).copied().collect(),
        offset: 0,
        fault,
    })
}

/// Takes bits `low..low + width` of `word`.
pub(crate) fn bits(word: u32, low: u32, width: u32) -> u32 {
    (word >> low) & ((1u64 << width) - 1) as u32
}

/// Takes one bit of `word`.
fn bit(word: u32, at: u32) -> bool {
    (word >> at) & 1 != 0
}

/// Whether the op is of the short vector encodings and has no VOP3 form.
pub(crate) fn is_short_only(op: Op, target: Target) -> bool {
    match op {
        Op::VDot2accF32F16 | Op::VPkFmacF16 | Op::VDot4cI32I8 => !target.is_gfx9(),
        _ => SHORT_ONLY.contains(&op),
    }
}

const SHORT_ONLY: &[Op] = &[
    Op::VReadfirstlaneB32,
    Op::VSwapB32,
    Op::VSwapB16,
    Op::VSwaprelB32,
    Op::VPermlane64B32,
    Op::VAccvgprMovB32,
    Op::VMadakF16,
    Op::VMadakF32,
    Op::VMadmkF16,
    Op::VMadmkF32,
    Op::VFmaakF16,
    Op::VFmaakF32,
    Op::VFmamkF16,
    Op::VFmamkF32,
    Op::VFmaakF64,
    Op::VFmamkF64,
];

/// Opcode to op, for each encoding of one target.
struct Lookup {
    by_format: Vec<Vec<Option<Op>>>,
}

impl Lookup {
    fn new(target: Target) -> Self {
        let mut lookup = Lookup { by_format: vec![Vec::new(); Format::Vimage as usize + 1] };
        for op in Op::all() {
            for encoding in op.encodings(target) {
                lookup.insert(encoding.format, encoding.code, op);
                let vop3_base = match encoding.format {
                    Format::Vopc => 0,
                    Format::Vop2 => 0x100,
                    Format::Vop1 if target.is_gfx9() => 0x140,
                    Format::Vop1 => 0x180,
                    Format::Vop3sd => {
                        lookup.insert(Format::Vop3, encoding.code, op);
                        continue;
                    }
                    _ => continue,
                };
                if !is_short_only(op, target) {
                    lookup.insert(Format::Vop3, vop3_base + encoding.code, op);
                }
            }
        }
        lookup
    }

    fn insert(&mut self, format: Format, code: u16, op: Op) {
        let ops = &mut self.by_format[format as usize];
        let at = usize::from(code);
        if ops.len() <= at {
            ops.resize(at + 1, None);
        }
        assert!(ops[at].replace(op).is_none_or(|old| old == op), "two rows share {format:?} {code:#x}");
    }

    fn get(&self, format: Format, code: u32) -> Result<Op, DecodeFault> {
        let op = self.by_format[format as usize].get(code as usize).copied().flatten();
        op.ok_or(DecodeFault::Opcode { format, code: code as u16 })
    }
}

static GFX11: LazyLock<Lookup> = LazyLock::new(|| Lookup::new(Target::Gfx11));
static GFX1200: LazyLock<Lookup> = LazyLock::new(|| Lookup::new(Target::Gfx1200));
static GFX1250: LazyLock<Lookup> = LazyLock::new(|| Lookup::new(Target::Gfx1250));
static GFX906: LazyLock<Lookup> = LazyLock::new(|| Lookup::new(Target::Gfx906));
static GFX908: LazyLock<Lookup> = LazyLock::new(|| Lookup::new(Target::Gfx908));
static GFX90A: LazyLock<Lookup> = LazyLock::new(|| Lookup::new(Target::Gfx90a));
static GFX942: LazyLock<Lookup> = LazyLock::new(|| Lookup::new(Target::Gfx942));
static GFX1010: LazyLock<Lookup> = LazyLock::new(|| Lookup::new(Target::Gfx1010));
static GFX1030: LazyLock<Lookup> = LazyLock::new(|| Lookup::new(Target::Gfx1030));

/// The dwords of one instruction, taken front to back.
struct Reader<'a> {
    target: Target,
    words: &'a [u32],
    taken: usize,
    /// The literal, once read: an instruction has at most one, which several operands may name.
    literal: Option<u32>,
    /// The same for one of 64 bits.
    literal64: Option<u64>,
}

impl Reader<'_> {
    fn word(&mut self) -> Result<u32, DecodeFault> {
        let word = *self.words.get(self.taken).ok_or(DecodeFault::Truncated)?;
        self.taken += 1;
        Ok(word)
    }

    fn literal(&mut self) -> Result<Operand, DecodeFault> {
        if self.literal.is_none() {
            self.literal = Some(self.word()?);
        }
        Ok(Operand::Literal(self.literal.unwrap_or_default()))
    }

    /// The 64-bit literal that gfx1250 takes in 64-bit operands of scalar and short vector encodings.
    fn literal64(&mut self, op: Op, ty: Ty) -> Result<Operand, DecodeFault> {
        if self.target != Target::Gfx1250
            || self.literal.is_some()
            || !matches!(ty, Ty::B64 | Ty::I64 | Ty::F64 | Ty::K64)
        {
            return Err(DecodeFault::Operand { op, code: SRC_LITERAL64 as u16 });
        }
        if self.literal64.is_none() {
            self.literal64 = Some(u64::from(self.word()?) | u64::from(self.word()?) << 32);
        }
        Ok(Operand::Literal64(self.literal64.unwrap_or_default()))
    }

    fn lookup(&self, format: Format, code: u32) -> Result<Op, DecodeFault> {
        match self.target {
            Target::Gfx11 => GFX11.get(format, code),
            Target::Gfx1200 => GFX1200.get(format, code),
            Target::Gfx1250 => GFX1250.get(format, code),
            Target::Gfx906 => GFX906.get(format, code),
            Target::Gfx908 => GFX908.get(format, code),
            Target::Gfx90a => GFX90A.get(format, code),
            Target::Gfx942 => GFX942.get(format, code),
            Target::Gfx1010 => GFX1010.get(format, code),
            Target::Gfx1030 => GFX1030.get(format, code),
        }
    }

    fn instruction(&mut self) -> Result<Inst, DecodeFault> {
        let word = self.word()?;
        let mut inst = self.encoding(word)?;
        let keep = modifier_mask(inst.op, self.target);
        inst.neg &= keep;
        inst.abs &= keep;
        inst.size = (self.taken * 4) as u8;
        tuples_fit(&inst)?;
        Ok(inst)
    }

    fn encoding(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        match self.target {
            Target::Gfx1010 | Target::Gfx1030 => return self.encoding10(word),
            target if target.is_gfx9() => return self.encoding9(word),
            _ => {}
        }
        let gfx12 = self.target.is_gfx12();
        match word >> 26 {
            0b11_0101 => self.vop3(word),
            0b11_0011 if self.target == Target::Gfx1250 && bits(word, 24, 2) == 3 => self.vopd3(word),
            0b11_0011 => self.vop3p(word),
            0b11_0010 => self.vopd(word),
            0b11_0110 => self.ds(word),
            0b11_0001 if gfx12 => self.vbuffer(word),
            0b11_1011 if gfx12 => self.vflat(word),
            0b11_0100 if self.target == Target::Gfx1250 => self.vimage(word),
            0b11_1101 if gfx12 => self.smem12(word),
            0b11_0111 if !gfx12 => self.flat(word),
            0b11_1000 if !gfx12 => self.mubuf(word),
            0b11_1010 if !gfx12 => self.mtbuf(word),
            0b11_1101 => self.smem(word),
            0b11_0000..=0b11_1111 => Err(DecodeFault::Encoding),
            0b10_0000..=0b10_1111 => self.scalar(word),
            _ => self.vop_short(word),
        }
    }

    /// A scalar register or special value by its 7-bit code, as destinations and addresses use it.
    fn scalar_register(&self, op: Op, code: u32) -> Result<Operand, DecodeFault> {
        if self.target.is_gfx9() {
            return Self::scalar_register9(op, code);
        }
        let before_gfx11 = self.target.is_before_gfx11();
        Ok(match code {
            124 if before_gfx11 => Operand::M0,
            125 if before_gfx11 => Operand::Null,
            0..=105 => Operand::Sgpr(code as u8),
            106 => Operand::VccLo,
            107 => Operand::VccHi,
            108..=123 => Operand::Ttmp(code as u8 - 108),
            124 => Operand::Null,
            125 => Operand::M0,
            126 => Operand::ExecLo,
            127 => Operand::ExecHi,
            _ => return Err(DecodeFault::Operand { op, code: code as u16 }),
        })
    }

    /// The scalar register that starts a tuple of type `ty`: pairs are even, wider ones multiples of four.
    fn scalar_tuple(&self, op: Op, code: u32, ty: Ty) -> Result<Operand, DecodeFault> {
        let alignment = match ty.dwords(self.target.is_gfx9()) {
            0 | 1 => 1,
            2 => 2,
            _ => 4,
        };
        let operand = self.scalar_register(op, code)?;
        let aligned = match operand {
            Operand::Sgpr(n) | Operand::Ttmp(n) => n % alignment == 0,
            Operand::VccHi | Operand::ExecHi | Operand::FlatScratchHi | Operand::XnackMaskHi => alignment == 1,
            _ => true,
        };
        if aligned { Ok(operand) } else { Err(DecodeFault::Operand { op, code: code as u16 }) }
    }

    /// A source by its 8-bit (scalar) or 9-bit (vector) code.
    fn source(&mut self, op: Op, code: u32, ty: Ty) -> Result<Operand, DecodeFault> {
        Ok(match code {
            0..=127 => self.scalar_tuple(op, code, ty)?,
            128..=192 => Operand::Inline(integer(i64::from(code) - 128, ty)),
            193..=208 => Operand::Inline(integer(192 - i64::from(code), ty)),
            230 if self.target == Target::Gfx1250 => Operand::FlatScratchBaseLo,
            231 if self.target == Target::Gfx1250 && ty.dwords(false) == 1 => Operand::FlatScratchBaseHi,
            235 => Operand::SharedBase,
            236 => Operand::SharedLimit,
            237 => Operand::PrivateBase,
            238 => Operand::PrivateLimit,
            239 => Operand::PopsExitingWaveId,
            240..=248 => Operand::Inline(float(code as usize - 240, ty)),
            251 => Operand::Vccz,
            252 => Operand::Execz,
            253 => Operand::Scc,
            SRC_LITERAL64 => self.literal64(op, ty)?,
            SRC_LITERAL => self.literal()?,
            256..=511 => Operand::Vgpr(code as u8),
            _ => return Err(DecodeFault::Operand { op, code: code as u16 }),
        })
    }

    /// Reads the DPP16 dword: source 0's register, the control, and `(neg, abs)` of the short encodings.
    fn dpp16(&mut self) -> Result<(u32, Dpp, u8, u8), DecodeFault> {
        let word = self.word()?;
        let dpp = Dpp::Row {
            ctrl: bits(word, 8, 9) as u16,
            row_mask: bits(word, 28, 4) as u8,
            bank_mask: bits(word, 24, 4) as u8,
            bound_ctrl: bit(word, 19),
            fetch_inactive: bit(word, 18) && !self.target.is_gfx9(),
        };
        let neg = bits(word, 20, 1) | bits(word, 22, 1) << 1;
        let abs = bits(word, 21, 1) | bits(word, 23, 1) << 1;
        Ok((bits(word, 0, 8), dpp, neg as u8, abs as u8))
    }

    /// Reads the DPP8 dword: source 0's register and the control.
    fn dpp8(&mut self, code: u32) -> Result<(u32, Dpp), DecodeFault> {
        let word = self.word()?;
        Ok((bits(word, 0, 8), Dpp::Lanes8 { sel: bits(word, 8, 24), fetch_inactive: code == SRC_DPP8_FI }))
    }
}

/// Checks that no register tuple runs past the end of its file, and that tuples of lane registers start with an even one where they
/// must.
fn tuples_fit(inst: &Inst) -> Result<(), DecodeFault> {
    let info = inst.op.info();
    let fits = |operand: Operand, ty: Ty| {
        let (first, size) = match operand {
            Operand::Vgpr(first) | Operand::Agpr(first) => (first, 256),
            Operand::Sgpr(first) if inst.target.is_gfx9() => (first, 102),
            Operand::Sgpr(first) => (first, 106),
            Operand::Ttmp(first) => (first, 16),
            _ => return Ok(()),
        };
        let dwords = ty.dwords(inst.target.is_gfx9());
        let lane = matches!(operand, Operand::Vgpr(_) | Operand::Agpr(_));
        let aligned = !lane || dwords < 2 || first % 2 == 0 || !inst.target.has_aligned_tuples();
        if aligned && u16::from(first) + u16::from(dwords) <= size {
            Ok(())
        } else {
            Err(DecodeFault::Operand { op: inst.op, code: u16::from(first) })
        }
    };
    fits(inst.dst, info.dst)?;
    for (at, operand) in inst.src.iter().enumerate() {
        fits(*operand, inst.src_ty(at))?;
    }
    Ok(())
}

/// The sources that take `neg` and `abs`; hardware ignores the bits of others.
fn modifier_mask(op: Op, target: Target) -> u8 {
    match op {
        Op::VCmpClassF16 | Op::VCmpxClassF16 if target.is_before_gfx11() => 0b01,
        Op::VCndmaskB16 => 0b11,
        Op::VLdexpF16 => 0b01,
        Op::VCvtPkF32Fp8Gfx12 | Op::VCvtPkF32Bf8Gfx12 => 0,
        Op::VDot2cI32I16 => 0,
        _ => op.info().src.iter().enumerate().map(|(at, ty)| u8::from(!matches!(ty, Ty::I16 | Ty::I32)) << at).sum(),
    }
}

/// Source 0 codes that stand for a DPP dword.
const SRC_DPP8: u32 = 233;
const SRC_DPP8_FI: u32 = 234;
const SRC_DPP16: u32 = 250;
/// Before gfx11: the source 0 code that stands for an SDWA dword.
const SRC_SDWA: u32 = 249;
/// gfx1250: the source code that stands for a literal of 64 bits.
const SRC_LITERAL64: u32 = 254;
/// The source code that stands for a literal.
const SRC_LITERAL: u32 = 255;

/// An integer inline constant as the bits of `ty` (RDNA3 ISA 6.2.3: sign-extended to the operand's width).
fn integer(value: i64, ty: Ty) -> u64 {
    match ty.dwords(false) {
        _ if ty.is_16() => u64::from(value as u16),
        2 => value as u64,
        _ if ty == Ty::V4F64 => value as u64,
        _ => u64::from(value as u32),
    }
}

/// A float inline constant, by its place after code 240, as the bits of `ty`.
///
/// 16-bit constants of packed floats stand in the low half; packed integers get the 32-bit float.
fn float(at: usize, ty: Ty) -> u64 {
    const F16: [u16; 9] = [0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118];
    const F32: [u32; 9] = [
        0x3f00_0000,
        0xbf00_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x4000_0000,
        0xc000_0000,
        0x4080_0000,
        0xc080_0000,
        0x3e22_f983,
    ];
    /// 1/(2π) as the hardware has it.
    const INV_2PI_F64: u64 = 0x3fc4_5f30_6dc9_c882;
    match ty {
        Ty::I16 | Ty::F16 | Ty::V2F16 => u64::from(F16[at]),
        Ty::BF16 | Ty::V2BF16 => u64::from(F32[at] >> 16),
        Ty::B64 | Ty::I64 | Ty::F64 | Ty::V4F64 if at == 8 => INV_2PI_F64,
        Ty::B64 | Ty::I64 | Ty::F64 | Ty::V4F64 => f64::from(f32::from_bits(F32[at])).to_bits(),
        _ => u64::from(F32[at]),
    }
}

/// The place after code 240 of the float constant that reads as `bits` in a slot of type `ty`.
pub(crate) fn float_constant(bits: u64, ty: Ty) -> Option<usize> {
    (0..9).find(|&at| float(at, ty) == bits)
}

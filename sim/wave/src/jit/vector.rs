// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Templates of vector instructions. They compute as the handlers in [`crate::exec`], to the payloads of NaNs; ops with
//! modifiers that they do not know go to the handlers.

use super::Context;
use super::emit::{CONTEXT, Emitter, is_simple};
use crate::hardware::slot;
use crate::micro_op::MicroOp;
use crate::operand::{Src, SrcKind};
use sim_isa::{Format, Op};
use sim_jit::{Condition, Gpr, Mem, Rm, Scalar, Shift, Vector, Width, vector as v};
use std::mem::offset_of;

/// Compiles an op if its operation has a template. Else nothing has been emitted.
pub(super) fn template<const L: usize>(e: &mut Emitter<'_, L>, code: Op, op: &MicroOp<L>) -> bool {
    if op.clamp || op.omod != 0 || op.writes_exec || op.dst_high || op.dst_clears {
        return false;
    }
    if let Some((what, swapped)) = float(code) {
        return has_sources(op, 2) && floats(e, op, what, swapped);
    }
    if matches!(code, Op::VFmacF32 | Op::VFmaF32 | Op::VFmamkF32 | Op::VFmaakF32) {
        return has_sources(op, 3) && fma(e, op);
    }
    if let Op::VPkFmaF32 | Op::VPkMulF32 | Op::VPkAddF32 = code {
        return packed(e, code, op);
    }
    if let Some((what, predicate)) = compare(code) {
        return has_sources(op, 2) && compares(e, op, what, predicate);
    }
    if code == Op::VCndmaskB32 {
        return select(e, op);
    }
    if code == Op::VPermB32 {
        return halves(e, op);
    }
    op.neg | op.abs == 0 && integer(e, code, op)
}

/// True if templates of an op compute each lane from the lane's values, and write nothing but rows.
pub(super) fn is_by_lane(code: Op) -> bool {
    let info = code.info().encodings[0].format;
    let is_vector = matches!(info, Format::Vop1 | Format::Vop2 | Format::Vop3 | Format::Vop3p);
    is_vector && compare(code).is_none() && !matches!(code, Op::VPermB32 | Op::VReadfirstlaneB32)
}

/// True if the first `count` sources are such that templates can read, and there are no others.
fn has_sources<const L: usize>(op: &MicroOp<L>, count: usize) -> bool {
    op.src[..count].iter().all(is_simple) && op.src[count..].iter().all(|src| src.kind == SrcKind::None)
}

/// Arithmetic of f32 with two operands, and whether these are swapped.
fn float(code: Op) -> Option<(Vector, bool)> {
    Some(match code {
        Op::VAddF32 => (v::ADD_PS, false),
        Op::VSubF32 => (v::SUB_PS, false),
        Op::VSubrevF32 => (v::SUB_PS, true),
        Op::VMulF32 => (v::MUL_PS, false),
        _ => return None,
    })
}

/// A source of f32 with its modifiers, in a register that is not to be written.
fn modified<const L: usize>(e: &mut Emitter<'_, L>, src: &Src, part: u8, neg: bool, abs: bool) -> u8 {
    let plain = e.source(src, part);
    if !neg && !abs {
        return plain;
    }
    let (width, result) = (e.width, e.fresh());
    e.asm.ones(width, result);
    let mut value = plain;
    if abs {
        e.asm.shift_vector(width, Shift::Right, result, result, 1);
        e.asm.vector(width, v::AND, result, result, Rm::Reg(value));
        value = result;
    }
    if neg {
        let sign = if abs { e.fresh() } else { result };
        if abs {
            e.asm.ones(width, sign);
        }
        e.asm.shift_vector(width, Shift::Left, sign, sign, 31);
        e.asm.vector(width, v::XOR, result, sign, Rm::Reg(value));
    }
    result
}

fn floats<const L: usize>(e: &mut Emitter<'_, L>, op: &MicroOp<L>, what: Vector, swapped: bool) -> bool {
    let [first, last] = if swapped { [1, 0] } else { [0, 1] };
    let has = |bits: u8, n: usize| bits >> n & 1 != 0;
    for part in e.each_part() {
        e.next();
        let left = modified(e, &op.src[first], part, has(op.neg, first), has(op.abs, first));
        let right = if has(op.neg | op.abs, last) {
            Rm::Reg(modified(e, &op.src[last], part, has(op.neg, last), has(op.abs, last)))
        } else {
            e.last(&op.src[last], part)
        };
        let result = e.fresh();
        e.asm.vector(e.width, what, result, left, right);
        e.write(op.dst, part, result);
    }
    true
}

/// Sources 0 times 1 plus 2. The form makes the payload of source 0 win, then 1, then 2, as the handlers' does.
fn fma<const L: usize>(e: &mut Emitter<'_, L>, op: &MicroOp<L>) -> bool {
    let has = |bits: u8, n: usize| bits >> n & 1 != 0;
    for part in e.each_part() {
        e.next();
        let sum = modified(e, &op.src[2], part, has(op.neg, 2), has(op.abs, 2));
        let left = modified(e, &op.src[0], part, has(op.neg, 0), has(op.abs, 0));
        let right = if has(op.neg | op.abs, 1) {
            Rm::Reg(modified(e, &op.src[1], part, has(op.neg, 1), has(op.abs, 1)))
        } else {
            e.last(&op.src[1], part)
        };
        let accumulates = op.src[2].kind == SrcKind::Vgpr && op.src[2].reg == op.dst && !has(op.neg | op.abs, 2);
        let result = if accumulates && !e.is_masked {
            sum
        } else {
            let result = e.fresh();
            e.asm.move_vector(e.width, result, sum);
            result
        };
        e.asm.vector(e.width, v::FMADD231_PS, result, left, right);
        e.write(op.dst, part, result);
    }
    true
}

/// Two f32 operations on pairs of registers, whose operands `op_sel` and `op_sel_hi` choose.
fn packed<const L: usize>(e: &mut Emitter<'_, L>, code: Op, op: &MicroOp<L>) -> bool {
    let count = if code == Op::VPkFmaF32 { 3 } else { 2 };
    if !has_sources(op, count) || op.abs != 0 {
        return false;
    }
    let half = |e: &mut Emitter<'_, L>, n: usize, part: u8, select: u8, neg: u8| {
        let src = &op.src[n];
        let reg = src.reg + u16::from(select >> n & 1);
        modified(e, &Src { reg, ..*src }, part, neg >> n & 1 != 0, false)
    };
    let one = |e: &mut Emitter<'_, L>, part: u8, select: u8, neg: u8| {
        let (a, b) = (half(e, 0, part, select, neg), half(e, 1, part, select, neg));
        let c = (code == Op::VPkFmaF32).then(|| half(e, 2, part, select, neg));
        let result = e.fresh();
        match c {
            Some(c) => {
                e.asm.move_vector(e.width, result, c);
                e.asm.vector(e.width, v::FMADD231_PS, result, a, Rm::Reg(b));
            }
            None => {
                let what = if code == Op::VPkMulF32 { v::MUL_PS } else { v::ADD_PS };
                e.asm.vector(e.width, what, result, a, Rm::Reg(b));
            }
        }
        result
    };
    for part in e.each_part() {
        e.next();
        let low = one(e, part, op.op_sel, op.neg);
        e.next();
        e.keep(low);
        let high = one(e, part, op.op_sel_hi, op.neg_hi);
        e.write(op.dst, part, low);
        e.write(op.dst + 1, part, high);
    }
    true
}

// Predicates of integers.
const EQ: u8 = 0;
const LT: u8 = 1;
const LE: u8 = 2;
const NE: u8 = 4;
const GE: u8 = 5;
const GT: u8 = 6;

/// A compare with its predicate: of integers, or as in AVX for floats (quiet ones, as no exception is looked at).
fn compare(code: Op) -> Option<(Vector, u8)> {
    Some(match code {
        Op::VCmpLtF32 => (v::COMPARE_PS, 0x11),
        Op::VCmpEqF32 => (v::COMPARE_PS, 0x00),
        Op::VCmpLeF32 => (v::COMPARE_PS, 0x12),
        Op::VCmpGtF32 => (v::COMPARE_PS, 0x1e),
        Op::VCmpLgF32 => (v::COMPARE_PS, 0x0c),
        Op::VCmpGeF32 => (v::COMPARE_PS, 0x1d),
        Op::VCmpOF32 => (v::COMPARE_PS, 0x07),
        Op::VCmpUF32 => (v::COMPARE_PS, 0x03),
        Op::VCmpNgeF32 => (v::COMPARE_PS, 0x19),
        Op::VCmpNlgF32 => (v::COMPARE_PS, 0x08),
        Op::VCmpNgtF32 => (v::COMPARE_PS, 0x1a),
        Op::VCmpNleF32 => (v::COMPARE_PS, 0x16),
        Op::VCmpNeqF32 => (v::COMPARE_PS, 0x04),
        Op::VCmpNltF32 => (v::COMPARE_PS, 0x15),
        Op::VCmpLtI32 => (v::COMPARE_D, LT),
        Op::VCmpEqI32 | Op::VCmpEqU32 => (v::COMPARE_D, EQ),
        Op::VCmpLeI32 => (v::COMPARE_D, LE),
        Op::VCmpGtI32 => (v::COMPARE_D, GT),
        Op::VCmpNeI32 | Op::VCmpNeU32 => (v::COMPARE_D, NE),
        Op::VCmpGeI32 => (v::COMPARE_D, GE),
        Op::VCmpLtU32 => (v::COMPARE_UNSIGNED_D, LT),
        Op::VCmpLeU32 => (v::COMPARE_UNSIGNED_D, LE),
        Op::VCmpGtU32 => (v::COMPARE_UNSIGNED_D, GT),
        Op::VCmpGeU32 => (v::COMPARE_UNSIGNED_D, GE),
        _ => return None,
    })
}

fn compares<const L: usize>(e: &mut Emitter<'_, L>, op: &MicroOp<L>, what: Vector, predicate: u8) -> bool {
    // A mask of 64 lanes has two slots.
    if usize::from(op.dst) + 2 > slot::NULL {
        return false;
    }
    let has = |bits: u8, n: usize| bits >> n & 1 != 0;
    if what != v::COMPARE_PS && op.neg | op.abs != 0 {
        return false;
    }
    let lanes = e.width.lanes() as u8;
    let words = &[Gpr::Rax, Gpr::Rdx][..L / 32];
    for part in 0..e.parts() {
        e.next();
        let left = modified(e, &op.src[0], part, has(op.neg, 0), has(op.abs, 0));
        let right = modified(e, &op.src[1], part, has(op.neg, 1), has(op.abs, 1));
        let (word, place) = (words[usize::from(part * lanes / 32)], part * lanes % 32);
        let bits = if place == 0 { word } else { Gpr::Rcx };
        compare_part(e, what, predicate, left, right, bits);
        if place != 0 {
            e.asm.shift(Shift::Left, Gpr::Rcx, place);
            e.asm.scalar(Scalar::Or, word, Gpr::Rcx);
        }
    }
    // The result may be a source.
    for (n, &word) in (0..).zip(words) {
        if e.is_masked {
            e.asm.scalar_mem(Scalar::And, word, e.slot(slot::EXEC as u16 + n));
        }
        e.asm.store(e.slot(op.dst + n), word);
    }
    e.forget_slots(op.dst, 2);
    true
}

/// Compares vector registers to bits of a general one.
fn compare_part<const L: usize>(e: &mut Emitter<'_, L>, what: Vector, predicate: u8, left: u8, right: u8, to: Gpr) {
    if e.width == Width::Zmm {
        e.asm.compare(what, Emitter::<L>::FREE_MASK, left, Rm::Reg(right), predicate);
        return e.asm.mask_to(to, Emitter::<L>::FREE_MASK);
    }
    let result = e.fresh();
    if what == v::COMPARE_PS {
        e.asm.compare_floats(result, left, Rm::Reg(right), predicate);
        return e.asm.signs(to, result);
    }
    let (mut left, mut right) = (left, right);
    if what == v::COMPARE_UNSIGNED_D {
        // Numbers without a sign are in order if their highest bit is turned.
        let (sign, other) = (e.fresh(), e.fresh());
        e.asm.ones(e.width, sign);
        e.asm.shift_vector(e.width, Shift::Left, sign, sign, 31);
        e.asm.vector(e.width, v::XOR, other, sign, Rm::Reg(left));
        e.asm.vector(e.width, v::XOR, sign, sign, Rm::Reg(right));
        (left, right) = (other, sign);
    }
    match predicate {
        EQ | NE => e.asm.vector(e.width, v::EQUAL_D, result, left, Rm::Reg(right)),
        LT | GE => e.asm.vector(e.width, v::GREATER_D, result, right, Rm::Reg(left)),
        _ => e.asm.vector(e.width, v::GREATER_D, result, left, Rm::Reg(right)),
    }
    e.asm.signs(to, result);
    if matches!(predicate, NE | GE | LE) {
        e.asm.scalar_constant(Scalar::Xor, to, 0xff);
    }
}

/// `v_cndmask_b32`: source 1 where a mask has a bit, else source 0.
fn select<const L: usize>(e: &mut Emitter<'_, L>, op: &MicroOp<L>) -> bool {
    let mask = match op.src[2].kind {
        SrcKind::None => slot::VCC as u16,
        SrcKind::Scalar if op.src[2].reg != slot::NULL as u16 => op.src[2].reg,
        _ => return false,
    };
    if !op.src[..2].iter().all(is_simple) {
        return false;
    }
    let has = |bits: u8, n: usize| bits >> n & 1 != 0;
    for part in e.each_part() {
        e.next();
        let no = modified(e, &op.src[0], part, has(op.neg, 0), has(op.abs, 0));
        let yes = modified(e, &op.src[1], part, has(op.neg, 1), has(op.abs, 1));
        let result = e.fresh();
        if e.width == Width::Zmm {
            e.asm.load_mask(Emitter::<L>::FREE_MASK, e.lanes(mask, part));
            e.asm.move_vector(e.width, result, no);
            e.asm.blend(Emitter::<L>::FREE_MASK, result, yes);
        } else {
            let word = Src { kind: SrcKind::Scalar, reg: mask + u16::from(part) / 4, ..op.src[0] };
            let word = e.source(&word, part);
            let offset = offset_of!(Context, lane_bits) + usize::from(part) % 4 * 32;
            let bits = Mem { base: CONTEXT, displacement: offset as i32 };
            e.asm.vector(e.width, v::AND, result, word, Rm::Mem(bits));
            e.asm.vector(e.width, v::EQUAL_D, result, result, Rm::Mem(bits));
            e.asm.blend_by(result, no, yes, result);
        }
        e.write(op.dst, part, result);
    }
    true
}

/// How an integer op is computed.
enum Integer {
    Move,
    Not,
    /// One instruction, of sources 0 and 1.
    Two(Vector),
    /// An op on sources 1 and 0.
    Reversed(Vector),
    /// The first instruction of sources 0 and 1, the second of its result and source 2.
    Three(Vector, Vector),
    /// A shift of source 1 by source 0.
    Shift(Vector),
    /// Source 0 shifted left by source 1, and an instruction with source 2.
    ShiftFirst(Vector),
    /// The sum of sources 0 and 1, shifted left by source 2.
    ShiftLast,
    /// Bits of source 0, from source 1 on, as many as source 2: both constants.
    Field(Shift),
    /// Products of the low 24 bits, unsigned, plus source 2 or not.
    Product24(bool),
    /// Bits of source 1 where source 0 has them, else of source 2.
    Insert,
}

fn integer<const L: usize>(e: &mut Emitter<'_, L>, code: Op, op: &MicroOp<L>) -> bool {
    use Integer::*;
    let how = match code {
        Op::VMovB32 | Op::VAccvgprReadB32 | Op::VAccvgprWriteB32 | Op::VAccvgprMovB32 => Move,
        Op::VNotB32 => Not,
        Op::VAndB32 => Two(v::AND),
        Op::VOrB32 => Two(v::OR),
        Op::VXorB32 => Two(v::XOR),
        Op::VAddNcU32 | Op::VAddNcI32 => Two(v::ADD_D),
        Op::VSubNcU32 | Op::VSubNcI32 => Two(v::SUB_D),
        Op::VSubrevNcU32 => Reversed(v::SUB_D),
        Op::VMinI32 => Two(v::MIN_SIGNED_D),
        Op::VMaxI32 => Two(v::MAX_SIGNED_D),
        Op::VMinU32 => Two(v::MIN_UNSIGNED_D),
        Op::VMaxU32 => Two(v::MAX_UNSIGNED_D),
        Op::VMulLoU32 | Op::VMulLoI32 => Two(v::MUL_LOW_D),
        Op::VLshlrevB32 => Shift(v::SHIFT_LEFT_D),
        Op::VLshrrevB32 => Shift(v::SHIFT_RIGHT_D),
        Op::VAshrrevI32 => Shift(v::SHIFT_ARITHMETIC_D),
        Op::VAdd3U32 => Three(v::ADD_D, v::ADD_D),
        Op::VOr3B32 => Three(v::OR, v::OR),
        Op::VXor3B32 => Three(v::XOR, v::XOR),
        Op::VAndOrB32 => Three(v::AND, v::OR),
        Op::VXadU32 => Three(v::XOR, v::ADD_D),
        Op::VMadU32 => Three(v::MUL_LOW_D, v::ADD_D),
        Op::VLshlAddU32 => ShiftFirst(v::ADD_D),
        Op::VLshlOrB32 => ShiftFirst(v::OR),
        Op::VAddLshlU32 => ShiftLast,
        Op::VBfeU32 => Field(sim_jit::Shift::Right),
        Op::VBfeI32 => Field(sim_jit::Shift::Arithmetic),
        Op::VMulU32U24 => Product24(false),
        Op::VMadU32U24 => Product24(true),
        Op::VBfiB32 => Insert,
        Op::VReadfirstlaneB32 => return first_lane(e, op),
        _ => return false,
    };
    let count = match how {
        Move | Not => 1,
        Two(_) | Reversed(_) | Shift(_) | Product24(false) => 2,
        _ => 3,
    };
    if !has_sources(op, count) {
        return false;
    }
    let field = match how {
        Field(_) => match (e.constant(&op.src[1]), e.constant(&op.src[2])) {
            // Zero bits, or more than there are.
            (Some(offset), Some(width)) if width & 31 != 0 && (offset & 31) + (width & 31) <= 32 => {
                [offset & 31, width & 31].map(|bits| bits as u8)
            }
            _ => return false,
        },
        _ => [0; 2],
    };
    let width = e.width;
    let values = [0, 1].map(|n| e.value(op.src[n].reg));
    let is_uniform = op.src[..3].iter().all(|src| match src.kind {
        SrcKind::Vgpr => e.constant(src).is_some() || e.is_uniform(src.reg),
        _ => true,
    });
    for part in e.each_part() {
        e.next();
        let first = e.source(&op.src[0], part);
        let result = e.fresh();
        match how {
            Move => e.asm.move_vector(width, result, first),
            Not => {
                e.asm.ones(width, result);
                e.asm.vector(width, v::XOR, result, result, Rm::Reg(first));
            }
            Two(what) => {
                let last = e.last(&op.src[1], part);
                e.asm.vector(width, what, result, first, last);
            }
            Reversed(what) => {
                let second = e.source(&op.src[1], part);
                e.asm.vector(width, what, result, second, Rm::Reg(first));
            }
            Three(what, then) => {
                let last = e.last(&op.src[1], part);
                e.asm.vector(width, what, result, first, last);
                let last = e.last(&op.src[2], part);
                e.asm.vector(width, then, result, result, last);
            }
            Shift(what) => {
                let second = e.source(&op.src[1], part);
                shift(e, what, result, second, &op.src[0], part);
            }
            ShiftFirst(then) => {
                shift(e, v::SHIFT_LEFT_D, result, first, &op.src[1], part);
                let last = e.last(&op.src[2], part);
                e.asm.vector(width, then, result, result, last);
            }
            ShiftLast => {
                let last = e.last(&op.src[1], part);
                e.asm.vector(width, v::ADD_D, result, first, last);
                shift(e, v::SHIFT_LEFT_D, result, result, &op.src[2], part);
            }
            Field(back) => {
                let [offset, bits] = field;
                e.asm.shift_vector(width, sim_jit::Shift::Left, result, first, 32 - offset - bits);
                e.asm.shift_vector(width, back, result, result, 32 - bits);
            }
            Product24(adds) => {
                let second = e.source(&op.src[1], part);
                let low = e.fresh();
                for (to, from) in [(result, first), (low, second)] {
                    e.asm.shift_vector(width, sim_jit::Shift::Left, to, from, 8);
                    e.asm.shift_vector(width, sim_jit::Shift::Right, to, to, 8);
                }
                e.asm.vector(width, v::MUL_LOW_D, result, result, Rm::Reg(low));
                if adds {
                    let last = e.last(&op.src[2], part);
                    e.asm.vector(width, v::ADD_D, result, result, last);
                }
            }
            Insert => {
                // c ^ (a & (b ^ c))
                let third = e.source(&op.src[2], part);
                let last = e.last(&op.src[1], part);
                e.asm.vector(width, v::XOR, result, third, last);
                e.asm.vector(width, v::AND, result, result, Rm::Reg(first));
                e.asm.vector(width, v::XOR, result, result, Rm::Reg(third));
            }
        }
        e.write(op.dst, part, result);
    }
    if is_uniform {
        e.set_uniform(op.dst);
    }
    if let Op::VAddNcU32 = code {
        for [row, constant] in [[0, 1], [1, 0]] {
            if let Some(constant) = e.constant(&op.src[constant])
                && op.src[row].kind == SrcKind::Vgpr
                && e.constant(&op.src[row]).is_none()
            {
                e.set_sum(op.dst, values[row], constant);
                break;
            }
        }
    }
    true
}

/// A shift by the low five bits of `count`.
fn shift<const L: usize>(e: &mut Emitter<'_, L>, what: Vector, result: u8, value: u8, count: &Src, part: u8) {
    let width = e.width;
    if let Some(count) = e.constant(count) {
        let how = match what {
            v::SHIFT_LEFT_D => Shift::Left,
            v::SHIFT_RIGHT_D => Shift::Right,
            _ => Shift::Arithmetic,
        };
        e.asm.shift_vector(width, how, result, value, (count & 31) as u8);
        return;
    }
    let count = e.source(count, part);
    let low = e.fresh();
    e.asm.shift_vector(width, Shift::Left, low, count, 27);
    e.asm.shift_vector(width, Shift::Right, low, low, 27);
    e.asm.vector(width, what, result, value, Rm::Reg(low));
}

/// `v_perm_b32` with a selector in a scalar register that packs the low halves of two registers, or the high ones, as
/// compilers do for f16; the handler knows all others.
fn halves<const L: usize>(e: &mut Emitter<'_, L>, op: &MicroOp<L>) -> bool {
    if !has_sources(op, 3) || op.neg | op.abs != 0 || op.src[2].kind != SrcKind::Scalar {
        return false;
    }
    let selector = e.slot(op.src[2].reg);
    e.asm.compare_constant(selector, 0x0504_0100);
    let low = e.asm.jump_if(Condition::Equal);
    e.asm.compare_constant(selector, 0x0706_0302);
    let (before, jump) = (e.registers(), e.asm.jump_if(Condition::NotEqual));
    e.asm.land(low);
    let width = e.width;
    for part in 0..e.parts() {
        e.next();
        let (high, low) = (e.source(&op.src[0], part), e.source(&op.src[1], part));
        // Bit 1 of the selector is 16 to shift by.
        let selector = e.source(&op.src[2], part);
        let (result, more, shift) = (e.fresh(), e.fresh(), e.fresh());
        e.asm.shift_vector(width, Shift::Left, shift, selector, 30);
        e.asm.shift_vector(width, Shift::Right, shift, shift, 27);
        e.asm.vector(width, v::SHIFT_RIGHT_D, result, high, Rm::Reg(shift));
        e.asm.vector(width, v::SHIFT_RIGHT_D, more, low, Rm::Reg(shift));
        e.asm.shift_vector(width, Shift::Left, result, result, 16);
        e.asm.shift_vector(width, Shift::Left, more, more, 16);
        e.asm.shift_vector(width, Shift::Right, more, more, 16);
        e.asm.vector(width, v::OR, result, result, Rm::Reg(more));
        e.write(op.dst, part, result);
    }
    e.or_handler(vec![jump], None, before, op);
    true
}

/// `v_readfirstlane_b32`; with inactive lanes the handler finds the first.
fn first_lane<const L: usize>(e: &mut Emitter<'_, L>, op: &MicroOp<L>) -> bool {
    if e.is_masked || op.src[0].kind != SrcKind::Vgpr || usize::from(op.dst) >= slot::NULL {
        return false;
    }
    e.sync(op.src[0].reg);
    let from = e.row_memory(op.src[0].reg, 0);
    e.asm.scalar_mem(Scalar::Mov, Gpr::Rax, from);
    let to = e.slot(op.dst);
    e.asm.store(to, Gpr::Rax);
    e.forget_slots(op.dst, 1);
    true
}

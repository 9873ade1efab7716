// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Templates of scalar instructions.

use super::emit::Emitter;
use crate::hardware::slot;
use crate::micro_op::MicroOp;
use crate::operand::{Src, SrcKind};
use sim_isa::Op;
use sim_jit::{Condition, Gpr, Scalar, Shift};

/// How an op is computed, and its effect on the condition code.
enum How {
    Move,
    MoveWide,
    /// SCC stays.
    Multiply,
    /// The carry, or the overflow.
    Sum(Scalar, Condition),
    /// Carry in and out.
    Carry(Scalar),
    /// "Not zero".
    Logic(Scalar),
    LogicWide(Scalar),
    Shift(Shift),
    Compare(Condition),
    Select,
    /// The first source, and the condition code set, if they compare so; else the second one: the opposite.
    Choose(Condition, Condition),
    /// The first source shifted left by so much, plus the second one. The carry out of all.
    ShiftAdd(u8),
    /// Bits of the first source from the lowest of these on, as many as the second number, both constants. "Not zero".
    Field(u8, u8),
}

/// Compiles an op if its operation has a template. Else nothing has been emitted.
pub(super) fn template<const L: usize>(e: &mut Emitter<'_, L>, code: Op, op: &MicroOp<L>) -> bool {
    use How::*;
    let how = match code {
        Op::SMovB32 => Move,
        Op::SMovB64 => MoveWide,
        Op::SMulI32 => Multiply,
        Op::SAddU32 => Sum(Scalar::Add, Condition::Below),
        Op::SSubU32 => Sum(Scalar::Sub, Condition::Below),
        Op::SAddI32 => Sum(Scalar::Add, Condition::Overflow),
        Op::SSubI32 => Sum(Scalar::Sub, Condition::Overflow),
        Op::SAddcU32 => Carry(Scalar::Adc),
        Op::SSubbU32 => Carry(Scalar::Sbb),
        Op::SAndB32 => Logic(Scalar::And),
        Op::SOrB32 => Logic(Scalar::Or),
        Op::SXorB32 => Logic(Scalar::Xor),
        Op::SAndB64 => LogicWide(Scalar::And),
        Op::SOrB64 => LogicWide(Scalar::Or),
        Op::SXorB64 => LogicWide(Scalar::Xor),
        Op::SLshlB32 => Shift(sim_jit::Shift::Left),
        Op::SLshrB32 => Shift(sim_jit::Shift::Right),
        Op::SAshrI32 => Shift(sim_jit::Shift::Arithmetic),
        Op::SCmpEqI32 | Op::SCmpEqU32 => Compare(Condition::Equal),
        Op::SCmpLgI32 | Op::SCmpLgU32 => Compare(Condition::NotEqual),
        Op::SCmpGtI32 => Compare(Condition::Greater),
        Op::SCmpGeI32 => Compare(Condition::GreaterEqual),
        Op::SCmpLtI32 => Compare(Condition::Less),
        Op::SCmpLeI32 => Compare(Condition::LessEqual),
        Op::SCmpGtU32 => Compare(Condition::Above),
        Op::SCmpGeU32 => Compare(Condition::AboveEqual),
        Op::SCmpLtU32 => Compare(Condition::Below),
        Op::SCmpLeU32 => Compare(Condition::BelowEqual),
        Op::SCselectB32 => Select,
        Op::SMinI32 => Choose(Condition::Less, Condition::GreaterEqual),
        Op::SMinU32 => Choose(Condition::Below, Condition::AboveEqual),
        Op::SMaxI32 => Choose(Condition::GreaterEqual, Condition::Less),
        Op::SMaxU32 => Choose(Condition::AboveEqual, Condition::Below),
        Op::SLshl1AddU32 => ShiftAdd(1),
        Op::SLshl2AddU32 => ShiftAdd(2),
        Op::SLshl3AddU32 => ShiftAdd(3),
        Op::SLshl4AddU32 => ShiftAdd(4),
        Op::SBfeU32 if op.src[1].kind == SrcKind::Const => {
            let (first, count) = (op.src[1].value & 31, op.src[1].value >> 16 & 0x7f);
            if count == 0 || first + count > 32 {
                return false;
            }
            Field(first as u8, count as u8)
        }
        _ => return immediate(e, code, op),
    };
    let sources = if let Move | MoveWide = how { 1 } else { 2 };
    let is_known = |src: &Src| matches!(src.kind, SrcKind::Const | SrcKind::Scalar);
    let is_wide = matches!(how, MoveWide | LogicWide(_));
    let has_result = !matches!(how, Compare(_));
    // Wide operands that begin with the null register are zero, which slots do not show.
    let is_null = |src: &Src| src.kind == SrcKind::Scalar && usize::from(src.reg) + 1 >= slot::NULL;
    if !op.src[..sources].iter().all(is_known)
        || is_wide && op.src[..sources].iter().any(is_null)
        || has_result && usize::from(op.dst) + 2 > slot::NULL
    {
        return false;
    }
    let [a, b, ..] = &op.src;
    load(e, Gpr::Rax, a, 0);
    if sources > 1 {
        load(e, Gpr::Rcx, b, 0);
    }
    let scc = e.scc();
    let low = e.slot(op.dst);
    let high = e.slot(op.dst + 1);
    match how {
        Move => e.asm.store(low, Gpr::Rax),
        MoveWide => {
            load(e, Gpr::Rcx, a, 1);
            e.asm.store(low, Gpr::Rax);
            e.asm.store(high, Gpr::Rcx);
        }
        Multiply => {
            e.asm.multiply(Gpr::Rax, Gpr::Rcx);
            e.asm.store(low, Gpr::Rax);
        }
        Sum(what, condition) => {
            e.asm.scalar(what, Gpr::Rax, Gpr::Rcx);
            e.asm.store(low, Gpr::Rax);
            e.asm.set(condition, scc);
        }
        Carry(what) => {
            // The carry is set if the byte is below 1.
            e.asm.compare_byte(scc, 1);
            e.asm.complement_carry();
            e.asm.scalar(what, Gpr::Rax, Gpr::Rcx);
            e.asm.store(low, Gpr::Rax);
            e.asm.set(Condition::Below, scc);
        }
        Logic(what) => {
            e.asm.scalar(what, Gpr::Rax, Gpr::Rcx);
            e.asm.store(low, Gpr::Rax);
            e.asm.set(Condition::NotEqual, scc);
        }
        LogicWide(what) => {
            load(e, Gpr::Rdx, a, 1);
            load(e, Gpr::Rsi, b, 1);
            e.asm.scalar(what, Gpr::Rax, Gpr::Rcx);
            e.asm.scalar(what, Gpr::Rdx, Gpr::Rsi);
            e.asm.store(low, Gpr::Rax);
            e.asm.store(high, Gpr::Rdx);
            e.asm.scalar(Scalar::Or, Gpr::Rax, Gpr::Rdx);
            e.asm.set(Condition::NotEqual, scc);
        }
        Shift(how) => {
            e.asm.shift_by_cl(how, Gpr::Rax);
            e.asm.store(low, Gpr::Rax);
            // A shift by zero sets no flags.
            e.asm.test(Gpr::Rax);
            e.asm.set(Condition::NotEqual, scc);
        }
        Compare(condition) => {
            e.asm.scalar(Scalar::Cmp, Gpr::Rax, Gpr::Rcx);
            e.asm.set(condition, scc);
        }
        Select => {
            e.asm.compare_byte(scc, 0);
            e.asm.move_if(Condition::Equal, Gpr::Rax, Gpr::Rcx);
            e.asm.store(low, Gpr::Rax);
        }
        Choose(first, second) => {
            e.asm.scalar(Scalar::Cmp, Gpr::Rax, Gpr::Rcx);
            e.asm.set(first, scc);
            e.asm.move_if(second, Gpr::Rax, Gpr::Rcx);
            e.asm.store(low, Gpr::Rax);
        }
        ShiftAdd(count) => {
            e.asm.move_wide(Gpr::Rdx, Gpr::Rax);
            e.asm.shift(sim_jit::Shift::Left, Gpr::Rax, count);
            e.asm.shift(sim_jit::Shift::Right, Gpr::Rdx, 32 - count);
            e.asm.scalar(Scalar::Add, Gpr::Rax, Gpr::Rcx);
            e.asm.scalar_constant(Scalar::Adc, Gpr::Rdx, 0);
            e.asm.store(low, Gpr::Rax);
            e.asm.test(Gpr::Rdx);
            e.asm.set(Condition::NotEqual, scc);
        }
        Field(first, count) => {
            e.asm.shift(sim_jit::Shift::Left, Gpr::Rax, 32 - first - count);
            e.asm.shift(sim_jit::Shift::Right, Gpr::Rax, 32 - count);
            e.asm.store(low, Gpr::Rax);
            e.asm.test(Gpr::Rax);
            e.asm.set(Condition::NotEqual, scc);
        }
    }
    if has_result {
        e.forget_slots(op.dst, if is_wide { 2 } else { 1 });
    }
    true
}

/// Ops with a constant of 16 bits.
fn immediate<const L: usize>(e: &mut Emitter<'_, L>, code: Op, op: &MicroOp<L>) -> bool {
    if usize::from(op.dst) + 2 > slot::NULL {
        return false;
    }
    let memory = e.slot(op.dst);
    let value = i32::from(op.simm) as u32;
    let scc = e.scc();
    match code {
        Op::SMovkI32 => e.asm.store_constant(memory, value),
        Op::SAddkI32 | Op::SMulkI32 => {
            e.asm.scalar_mem(Scalar::Mov, Gpr::Rax, memory);
            e.asm.scalar_constant(Scalar::Mov, Gpr::Rcx, value);
            if code == Op::SMulkI32 {
                e.asm.multiply(Gpr::Rax, Gpr::Rcx);
                e.asm.store(memory, Gpr::Rax);
            } else {
                e.asm.scalar(Scalar::Add, Gpr::Rax, Gpr::Rcx);
                e.asm.store(memory, Gpr::Rax);
                e.asm.set(Condition::Overflow, scc);
            }
        }
        _ => return false,
    }
    e.forget_slots(op.dst, 1);
    true
}

/// Dword `part` of a source.
fn load<const L: usize>(e: &mut Emitter<'_, L>, to: Gpr, src: &Src, part: u16) {
    if src.kind == SrcKind::Const {
        e.asm.scalar_constant(Scalar::Mov, to, (src.value >> (32 * part)) as u32);
    } else {
        let memory = e.slot(src.reg + part);
        e.asm.scalar_mem(Scalar::Mov, to, memory);
    }
}

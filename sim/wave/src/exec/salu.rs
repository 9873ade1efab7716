// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Scalar ops and program control (RDNA3 ISA 16.1 to 16.5). They run once for a wave.

use super::control::jump;
use super::integer::{bfe_i32, bfe_u32};
use crate::fault::FaultKind;
use crate::hardware::{mode, slot};
use crate::hwreg::{self, Field};
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::operand::Src;
use crate::wave::{Group, Wave};
use sim_isa::Op;

/// A type of scalar operands.
trait Scalar: Copy {
    fn read<const L: usize>(wave: &Wave<L>, src: &Src) -> Self;
    fn write<const L: usize>(self, wave: &mut Wave<L>, slot: usize);
    fn nonzero(self) -> bool;
}

macro_rules! scalars {
    ($($ty:ty, $read:ident, $write:ident, $bits:ty);*) => {$(
        impl Scalar for $ty {
            #[inline(always)]
            fn read<const L: usize>(wave: &Wave<L>, src: &Src) -> Self {
                wave.$read(src) as $ty
            }
            #[inline(always)]
            fn write<const L: usize>(self, wave: &mut Wave<L>, slot: usize) {
                wave.$write(slot, self as $bits);
            }
            #[inline(always)]
            fn nonzero(self) -> bool {
                self != 0
            }
        }
    )*};
}

scalars!(u32, s32, set_s, u32; i32, s32, set_s, u32; u64, s64, set_s64, u64; i64, s64, set_s64, u64);

/// Defines ops by their effect on SCC: kept (`plain`), "result is not zero" (`nonzero`), returned (`carry`), the only
/// result (`compare`).
macro_rules! scalar_ops {
    (
        plain { $($p:ident ($pa:ident: $pta:ty $(, $pb:ident: $ptb:ty)?) -> $pr:ty $pbody:block)* }
        nonzero { $($n:ident ($na:ident: $nta:ty $(, $nb:ident: $ntb:ty)?) -> $nr:ty $nbody:block)* }
        carry { $($c:ident ($ca:ident: $cta:ty, $cb:ident: $ctb:ty, $cscc:ident) -> $cr:ty $cbody:block)* }
        compare { $($m:ident ($ma:ident: $mta:ty, $mb:ident: $mtb:ty) $mbody:block)* }
        other { $($o:ident => $of:path,)* }
    ) => {
        /// The handler of a scalar op.
        pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
            Some(match op {
                $(Op::$p => |wave, _, op| {
                    let $pa = <$pta>::read(wave, &op.src[0]);
                    $(let $pb = <$ptb>::read(wave, &op.src[1]);)?
                    let result: $pr = $pbody;
                    result.write(wave, op.dst as usize);
                    Ok(())
                },)*
                $(Op::$n => |wave, _, op| {
                    let $na = <$nta>::read(wave, &op.src[0]);
                    $(let $nb = <$ntb>::read(wave, &op.src[1]);)?
                    let result: $nr = $nbody;
                    result.write(wave, op.dst as usize);
                    wave.scc = result.nonzero();
                    Ok(())
                },)*
                $(Op::$c => |wave, _, op| {
                    let $ca = <$cta>::read(wave, &op.src[0]);
                    let $cb = <$ctb>::read(wave, &op.src[1]);
                    let $cscc = wave.scc;
                    let (result, scc): ($cr, bool) = $cbody;
                    result.write(wave, op.dst as usize);
                    wave.scc = scc;
                    Ok(())
                },)*
                $(Op::$m => |wave, _, op| {
                    let $ma = <$mta>::read(wave, &op.src[0]);
                    let $mb = <$mtb>::read(wave, &op.src[1]);
                    wave.scc = $mbody;
                    Ok(())
                },)*
                $(Op::$o => $of,)*
                _ => return saveexec(op).or_else(|| immediate(op)).or_else(|| read_modify(op)),
            })
        }
    };
}

/// The number of leading bits that equal the sign, -1 if all do.
fn sign_run(same: u32, bits: u32) -> i32 {
    if same == bits { -1 } else { same as i32 }
}

fn found(position: u32, bits: u32) -> i32 {
    if position == bits { -1 } else { position as i32 }
}

/// Each group of four bits becomes its "any" bit, packed.
fn quadmask(a: u64) -> u64 {
    (0..16).fold(0, |mask, i| mask | u64::from(a >> (4 * i) & 0xf != 0) << i)
}

/// Each group of four bits becomes all ones if any is set.
fn whole_quads(a: u64) -> u64 {
    (0..16).fold(0, |mask, i| if a >> (4 * i) & 0xf != 0 { mask | 0xf << (4 * i) } else { mask })
}

fn add(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

fn sub(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    (a.wrapping_sub(b).wrapping_sub(u32::from(borrow)), u64::from(a) < u64::from(b) + u64::from(borrow))
}

fn shifted_add(a: u32, b: u32, n: u32) -> (u32, bool) {
    let sum = (u64::from(a) << n) + u64::from(b);
    (sum as u32, sum >> 32 != 0)
}

/// Offset in bits 0–5, width in bits 16–22 of the second operand.
fn bfe_u64(a: u64, b: u32) -> u64 {
    let width = (b >> 16) & 0x7f;
    let field = a >> (b & 63);
    if width >= 64 { field } else { field & ((1 << width) - 1) }
}

fn bfe_i64(a: i64, b: u32) -> i64 {
    let width = ((b >> 16) & 0x7f).min(64);
    if width == 0 {
        return 0;
    }
    (a >> (b & 63)) << (64 - width) >> (64 - width)
}

fn bfe32(a: u32, b: u32, signed: bool) -> u32 {
    let width = (b >> 16) & 0x7f;
    match (width >= 32, signed) {
        (false, false) => bfe_u32(a, b, width),
        (false, true) => bfe_i32(a, b, width),
        (true, false) => a >> (b & 31),
        (true, true) => (a as i32 >> (b & 31)) as u32,
    }
}

scalar_ops! {
    plain {
        SMovB32(a: u32) -> u32 { a }
        SMovB64(a: u64) -> u64 { a }
        SBrevB32(a: u32) -> u32 { a.reverse_bits() }
        SBrevB64(a: u64) -> u64 { a.reverse_bits() }
        SCtzI32B32(a: u32) -> i32 { found(a.trailing_zeros(), 32) }
        SCtzI32B64(a: u64) -> i32 { found(a.trailing_zeros(), 64) }
        SFf0I32B32(a: u32) -> i32 { found(a.trailing_ones(), 32) }
        SFf0I32B64(a: u64) -> i32 { found(a.trailing_ones(), 64) }
        SClzI32U32(a: u32) -> i32 { found(a.leading_zeros(), 32) }
        SClzI32U64(a: u64) -> i32 { found(a.leading_zeros(), 64) }
        SClsI32(a: i32) -> i32 { sign_run((a ^ a >> 31).leading_zeros(), 32) }
        SClsI32I64(a: i64) -> i32 { sign_run((a ^ a >> 63).leading_zeros(), 64) }
        SSextI32I8(a: u32) -> i32 { i32::from(a as i8) }
        SSextI32I16(a: u32) -> i32 { i32::from(a as i16) }
        SBitreplicateB64B32(a: u32) -> u64 { (0..32).fold(0, |r, i| r | (u64::from(a >> i & 1) * 3) << (2 * i)) }
        SBfmB32(a: u32, b: u32) -> u32 { ((1 << (a & 31)) - 1) << (b & 31) }
        SBfmB64(a: u32, b: u32) -> u64 { ((1 << (a & 63)) - 1) << (b & 63) }
        SMulI32(a: u32, b: u32) -> u32 { a.wrapping_mul(b) }
        SMulHiU32(a: u32, b: u32) -> u32 { ((u64::from(a) * u64::from(b)) >> 32) as u32 }
        SMulHiI32(a: i32, b: i32) -> i32 { ((i64::from(a) * i64::from(b)) >> 32) as i32 }
        SAddNcU64(a: u64, b: u64) -> u64 { a.wrapping_add(b) }
        SSubNcU64(a: u64, b: u64) -> u64 { a.wrapping_sub(b) }
        SMulU64(a: u64, b: u64) -> u64 { a.wrapping_mul(b) }
        SPackLlB32B16(a: u32, b: u32) -> u32 { a & 0xffff | b << 16 }
        SPackLhB32B16(a: u32, b: u32) -> u32 { a & 0xffff | b & 0xffff_0000 }
        SPackHhB32B16(a: u32, b: u32) -> u32 { a >> 16 | b & 0xffff_0000 }
        SPackHlB32B16(a: u32, b: u32) -> u32 { a >> 16 | b << 16 }
    }
    nonzero {
        SAbsI32(a: i32) -> i32 { a.wrapping_abs() }
        SBcnt0I32B32(a: u32) -> u32 { a.count_zeros() }
        SBcnt0I32B64(a: u64) -> u32 { a.count_zeros() }
        SBcnt1I32B32(a: u32) -> u32 { a.count_ones() }
        SBcnt1I32B64(a: u64) -> u32 { a.count_ones() }
        SQuadmaskB32(a: u32) -> u32 { quadmask(u64::from(a)) as u32 }
        SQuadmaskB64(a: u64) -> u64 { quadmask(a) }
        SWqmB32(a: u32) -> u32 { whole_quads(u64::from(a)) as u32 }
        SWqmB64(a: u64) -> u64 { whole_quads(a) }
        SNotB32(a: u32) -> u32 { !a }
        SNotB64(a: u64) -> u64 { !a }
        SAbsdiffI32(a: i32, b: i32) -> i32 { a.wrapping_sub(b).wrapping_abs() }
        SLshlB32(a: u32, b: u32) -> u32 { a << (b & 31) }
        SLshlB64(a: u64, b: u32) -> u64 { a << (b & 63) }
        SLshrB32(a: u32, b: u32) -> u32 { a >> (b & 31) }
        SLshrB64(a: u64, b: u32) -> u64 { a >> (b & 63) }
        SAshrI32(a: i32, b: u32) -> i32 { a >> (b & 31) }
        SAshrI64(a: i64, b: u32) -> i64 { a >> (b & 63) }
        SAndB32(a: u32, b: u32) -> u32 { a & b }
        SAndB64(a: u64, b: u64) -> u64 { a & b }
        SOrB32(a: u32, b: u32) -> u32 { a | b }
        SOrB64(a: u64, b: u64) -> u64 { a | b }
        SXorB32(a: u32, b: u32) -> u32 { a ^ b }
        SXorB64(a: u64, b: u64) -> u64 { a ^ b }
        SNandB32(a: u32, b: u32) -> u32 { !(a & b) }
        SNandB64(a: u64, b: u64) -> u64 { !(a & b) }
        SNorB32(a: u32, b: u32) -> u32 { !(a | b) }
        SNorB64(a: u64, b: u64) -> u64 { !(a | b) }
        SXnorB32(a: u32, b: u32) -> u32 { !(a ^ b) }
        SXnorB64(a: u64, b: u64) -> u64 { !(a ^ b) }
        SAndNot1B32(a: u32, b: u32) -> u32 { a & !b }
        SAndNot1B64(a: u64, b: u64) -> u64 { a & !b }
        SOrNot1B32(a: u32, b: u32) -> u32 { a | !b }
        SOrNot1B64(a: u64, b: u64) -> u64 { a | !b }
        SBfeU32(a: u32, b: u32) -> u32 { bfe32(a, b, false) }
        SBfeI32(a: u32, b: u32) -> u32 { bfe32(a, b, true) }
        SBfeU64(a: u64, b: u32) -> u64 { bfe_u64(a, b) }
        SBfeI64(a: i64, b: u32) -> i64 { bfe_i64(a, b) }
    }
    carry {
        SAddU32(a: u32, b: u32, _scc) -> u32 { add(a, b, false) }
        SAddcU32(a: u32, b: u32, scc) -> u32 { add(a, b, scc) }
        SSubU32(a: u32, b: u32, _scc) -> u32 { sub(a, b, false) }
        SSubbU32(a: u32, b: u32, scc) -> u32 { sub(a, b, scc) }
        SAddI32(a: i32, b: i32, _scc) -> i32 { a.overflowing_add(b) }
        SSubI32(a: i32, b: i32, _scc) -> i32 { a.overflowing_sub(b) }
        SLshl1AddU32(a: u32, b: u32, _scc) -> u32 { shifted_add(a, b, 1) }
        SLshl2AddU32(a: u32, b: u32, _scc) -> u32 { shifted_add(a, b, 2) }
        SLshl3AddU32(a: u32, b: u32, _scc) -> u32 { shifted_add(a, b, 3) }
        SLshl4AddU32(a: u32, b: u32, _scc) -> u32 { shifted_add(a, b, 4) }
        SMinI32(a: i32, b: i32, _scc) -> i32 { (a.min(b), a < b) }
        SMinU32(a: u32, b: u32, _scc) -> u32 { (a.min(b), a < b) }
        SMaxI32(a: i32, b: i32, _scc) -> i32 { (a.max(b), a >= b) }
        SMaxU32(a: u32, b: u32, _scc) -> u32 { (a.max(b), a >= b) }
        SCselectB32(a: u32, b: u32, scc) -> u32 { (if scc { a } else { b }, scc) }
        SCselectB64(a: u64, b: u64, scc) -> u64 { (if scc { a } else { b }, scc) }
    }
    compare {
        SCmpEqI32(a: i32, b: i32) { a == b }
        SCmpLgI32(a: i32, b: i32) { a != b }
        SCmpGtI32(a: i32, b: i32) { a > b }
        SCmpGeI32(a: i32, b: i32) { a >= b }
        SCmpLtI32(a: i32, b: i32) { a < b }
        SCmpLeI32(a: i32, b: i32) { a <= b }
        SCmpEqU32(a: u32, b: u32) { a == b }
        SCmpLgU32(a: u32, b: u32) { a != b }
        SCmpGtU32(a: u32, b: u32) { a > b }
        SCmpGeU32(a: u32, b: u32) { a >= b }
        SCmpLtU32(a: u32, b: u32) { a < b }
        SCmpLeU32(a: u32, b: u32) { a <= b }
        SCmpEqU64(a: u64, b: u64) { a == b }
        SCmpLgU64(a: u64, b: u64) { a != b }
        SBitcmp0B32(a: u32, b: u32) { a >> (b & 31) & 1 == 0 }
        SBitcmp1B32(a: u32, b: u32) { a >> (b & 31) & 1 == 1 }
        SBitcmp0B64(a: u64, b: u32) { a >> (b & 63) & 1 == 0 }
        SBitcmp1B64(a: u64, b: u32) { a >> (b & 63) & 1 == 1 }
    }
    other {
        SBranch => jump::<L>,
        SCbranchScc0 => branch::<NotScc, L>,
        SCbranchScc1 => branch::<Scc, L>,
        SCbranchVccz => branch::<VccZero, L>,
        SCbranchVccnz => branch::<VccNonzero, L>,
        SCbranchExecz => branch::<ExecZero, L>,
        SCbranchExecnz => branch::<ExecNonzero, L>,
        SEndpgm => end,
        SSleep => sleep,
        SSleepVar => sleep,
        STrap => trap,
        SRoundMode => round_mode,
        SDenormMode => denorm_mode,
        SGetregB32 => getreg,
        SSetregB32 => setreg,
        SSetregImm32B32 => setreg,
        SGetpcB64 => getpc,
        SSetpcB64 => setpc,
        SAddPcI64 => add_pc,
        SGetShaderCyclesU64 => cycles,
        SSwappcB64 => swappc,
        SCallB64 => call,
        SMovrelsB32 => movrels::<1, L>,
        SMovrelsB64 => movrels::<2, L>,
        SMovreldB32 => movreld::<1, L>,
        SMovreldB64 => movreld::<2, L>,
        SMovrelsd2B32 => movrelsd2,
    }
}

/// `s_*_saveexec_*` and `s_*_wrexec_*`.
fn saveexec<const L: usize>(op: Op) -> Option<Handler<L>> {
    macro_rules! table {
        ($($narrow:ident $wide:ident $write:literal |$s:ident, $exec:ident| $body:expr;)*) => {
            Some(match op {
                $(
                    Op::$narrow => |wave, _, op| {
                        let $s = wave.s32(&op.src[0]);
                        let $exec = wave.s[slot::EXEC];
                        let result: u32 = $body;
                        wave.set_s(op.dst as usize, if $write { result } else { $exec });
                        wave.set_s(slot::EXEC, result);
                        wave.scc = result != 0;
                        Ok(())
                    },
                    Op::$wide => |wave, _, op| {
                        let $s = wave.s64(&op.src[0]);
                        let $exec = wave.slot64(slot::EXEC);
                        let result: u64 = $body;
                        wave.set_s64(op.dst as usize, if $write { result } else { $exec });
                        wave.set_s64(slot::EXEC, result);
                        wave.scc = result != 0;
                        Ok(())
                    },
                )*
                _ => return None,
            })
        };
    }
    table! {
        SAndSaveexecB32 SAndSaveexecB64 false |s, exec| s & exec;
        SOrSaveexecB32 SOrSaveexecB64 false |s, exec| s | exec;
        SXorSaveexecB32 SXorSaveexecB64 false |s, exec| s ^ exec;
        SNandSaveexecB32 SNandSaveexecB64 false |s, exec| !(s & exec);
        SNorSaveexecB32 SNorSaveexecB64 false |s, exec| !(s | exec);
        SXnorSaveexecB32 SXnorSaveexecB64 false |s, exec| !(s ^ exec);
        SAndNot0SaveexecB32 SAndNot0SaveexecB64 false |s, exec| !s & exec;
        SOrNot0SaveexecB32 SOrNot0SaveexecB64 false |s, exec| !s | exec;
        SAndNot1SaveexecB32 SAndNot1SaveexecB64 false |s, exec| s & !exec;
        SOrNot1SaveexecB32 SOrNot1SaveexecB64 false |s, exec| s | !exec;
        SAndNot0WrexecB32 SAndNot0WrexecB64 true |s, exec| !s & exec;
        SAndNot1WrexecB32 SAndNot1WrexecB64 true |s, exec| s & !exec;
    }
}

/// SOPK: the second operand is the 16-bit immediate.
fn immediate<const L: usize>(op: Op) -> Option<Handler<L>> {
    macro_rules! compares {
        ($($name:ident ($a:ident: $ty:ty, $k:ident) $body:expr;)*) => {
            match op {
                $(Op::$name => return Some(|wave, _, op| {
                    let $a = wave.s32(&op.src[0]) as $ty;
                    let $k = op.simm as $ty;
                    wave.scc = $body;
                    Ok(())
                }),)*
                _ => {}
            }
        };
    }
    compares! {
        SCmpkEqI32(a: i32, k) a == k;
        SCmpkLgI32(a: i32, k) a != k;
        SCmpkGtI32(a: i32, k) a > k;
        SCmpkGeI32(a: i32, k) a >= k;
        SCmpkLtI32(a: i32, k) a < k;
        SCmpkLeI32(a: i32, k) a <= k;
        SCmpkEqU32(a: u32, k) a == k & 0xffff;
        SCmpkLgU32(a: u32, k) a != k & 0xffff;
        SCmpkGtU32(a: u32, k) a > k & 0xffff;
        SCmpkGeU32(a: u32, k) a >= k & 0xffff;
        SCmpkLtU32(a: u32, k) a < k & 0xffff;
        SCmpkLeU32(a: u32, k) a <= k & 0xffff;
    }
    Some(match op {
        Op::SMovkI32 => |wave, _, op| {
            wave.set_s(op.dst as usize, i32::from(op.simm) as u32);
            Ok(())
        },
        Op::SCmovkI32 => |wave, _, op| {
            if wave.scc {
                wave.set_s(op.dst as usize, i32::from(op.simm) as u32);
            }
            Ok(())
        },
        Op::SAddkI32 => |wave, _, op| {
            let (sum, overflow) = (wave.s[op.dst as usize] as i32).overflowing_add(i32::from(op.simm));
            wave.set_s(op.dst as usize, sum as u32);
            wave.scc = overflow;
            Ok(())
        },
        Op::SMulkI32 => |wave, _, op| {
            let product = (wave.s[op.dst as usize] as i32).wrapping_mul(i32::from(op.simm));
            wave.set_s(op.dst as usize, product as u32);
            Ok(())
        },
        _ => return None,
    })
}

/// Ops that change part of their destination, or write it only sometimes.
fn read_modify<const L: usize>(op: Op) -> Option<Handler<L>> {
    Some(match op {
        Op::SCmovB32 => |wave, _, op| {
            if wave.scc {
                wave.set_s(op.dst as usize, wave.s32(&op.src[0]));
            }
            Ok(())
        },
        Op::SCmovB64 => |wave, _, op| {
            if wave.scc {
                wave.set_s64(op.dst as usize, wave.s64(&op.src[0]));
            }
            Ok(())
        },
        Op::SBitset0B32 => |wave, _, op| set_bit::<1, L>(wave, op, false),
        Op::SBitset1B32 => |wave, _, op| set_bit::<1, L>(wave, op, true),
        Op::SBitset0B64 => |wave, _, op| set_bit::<2, L>(wave, op, false),
        Op::SBitset1B64 => |wave, _, op| set_bit::<2, L>(wave, op, true),
        _ => return None,
    })
}

fn set_bit<const DWORDS: u32, const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, value: bool) -> Step {
    let bit = wave.s32(&op.src[0]) & (32 * DWORDS - 1);
    let register = op.dst as usize + bit as usize / 32;
    let mask = 1 << (bit & 31);
    let old = wave.s[register];
    wave.set_s(register, if value { old | mask } else { old & !mask });
    Ok(())
}

/// The condition of a branch.
trait Condition {
    fn holds<const L: usize>(wave: &Wave<L>) -> bool;
}

macro_rules! conditions {
    ($($name:ident |$wave:ident| $body:expr;)*) => {$(
        struct $name;
        impl Condition for $name {
            #[inline(always)]
            fn holds<const L: usize>($wave: &Wave<L>) -> bool {
                $body
            }
        }
    )*};
}

conditions! {
    Scc |wave| wave.scc;
    NotScc |wave| !wave.scc;
    VccZero |wave| wave.vcc() == 0;
    VccNonzero |wave| wave.vcc() != 0;
    ExecZero |wave| wave.exec() == 0;
    ExecNonzero |wave| wave.exec() != 0;
}

fn branch<C: Condition, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    if C::holds(wave) { jump(wave, group, op) } else { Ok(()) }
}

fn end<const L: usize>(_: &mut Wave<L>, _: &mut Group<'_>, _: &MicroOp<L>) -> Step {
    Err(Stop::End)
}

fn sleep<const L: usize>(_: &mut Wave<L>, _: &mut Group<'_>, _: &MicroOp<L>) -> Step {
    Err(Stop::Yield)
}

fn trap<const L: usize>(_: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    Err(Stop::Fault(Box::new(FaultKind::Trap(op.simm as u16))))
}

fn unimplemented(what: &str) -> Step {
    Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what.to_owned()))))
}

fn round_mode<const L: usize>(_: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    if op.simm & 0xf == 0 { Ok(()) } else { unimplemented("rounding other than to nearest even") }
}

fn denorm_mode<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    wave.set_mode(wave.mode & !(mode::DENORM_32 | mode::DENORM_16_64) | (op.simm as u32 & 0xf) << 4);
    Ok(())
}

fn getreg<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    wave.set_s(op.dst as usize, hwreg::read(wave, group, Field::of(op.simm)));
    Ok(())
}

fn setreg<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    hwreg::write(wave, group, Field::of(op.simm), wave.s32(&op.src[0]))
}

/// Address of the instruction after this one, by its encoded size.
fn return_address<const L: usize>(group: &Group<'_>, op: &MicroOp<L>) -> u64 {
    group.code_base + u64::from(op.offset) + 4
}

fn getpc<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    wave.set_s64(op.dst as usize, return_address(group, op));
    Ok(())
}

fn setpc<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    Err(Stop::Jump(wave.s64(&op.src[0])))
}

/// The addend counts from the instruction after this one, which a literal makes longer.
fn add_pc<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let next = group.code_base + u64::from(op.offset) + op.simm as u64;
    Err(Stop::Jump(next.wrapping_add(wave.s64(&op.src[0]))))
}

/// Instructions stand for cycles.
fn cycles<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    wave.set_s64(op.dst as usize, wave.count);
    Ok(())
}

fn swappc<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let target = wave.s64(&op.src[0]);
    wave.set_s64(op.dst as usize, return_address(group, op));
    Err(Stop::Jump(target))
}

fn call<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    wave.set_s64(op.dst as usize, return_address(group, op));
    jump(wave, group, op)
}

/// The SGPR that is `index`, which M0 has, after another.
fn relative(first: u16, index: u32, dwords: usize) -> Result<usize, Stop> {
    let register = u64::from(first) + u64::from(index);
    if register + dwords as u64 > slot::SGPRS as u64 {
        let what = format!("s{register} (s{first} plus M0)");
        return Err(Stop::Fault(Box::new(FaultKind::RegisterOutOfRange(what))));
    }
    Ok(register as usize)
}

fn movrels<const DWORDS: usize, const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let from = relative(op.src[0].reg, wave.s[slot::M0], DWORDS)?;
    for i in 0..DWORDS {
        wave.set_s(op.dst as usize + i, wave.s[from + i]);
    }
    Ok(())
}

fn movreld<const DWORDS: usize, const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let to = relative(op.dst, wave.s[slot::M0], DWORDS)?;
    if DWORDS == 1 {
        wave.set_s(to, wave.s32(&op.src[0]));
    } else {
        wave.set_s64(to, wave.s64(&op.src[0]));
    }
    Ok(())
}

fn movrelsd2<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let m0 = wave.s[slot::M0];
    let from = relative(op.src[0].reg, m0 & 0x3ff, 1)?;
    let to = relative(op.dst, m0 >> 16 & 0x3ff, 1)?;
    wave.set_s(to, wave.s[from]);
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for scalar arithmetic, compares and moves: RDNA3 ISA document, chapter 16, "SOP" sections.

use crate::machine::{Case, EXEC_HI, Float, M0, Machine, State, VCC, format, implemented};
use crate::num::{self, F16, F32};
use crate::reference::{self, In, wide};
use crate::vector::{IEEE, interesting};
use random::Random;
use sim_isa::{Format, Op, OpInfo, Ty};

const DST: usize = 20;
const SOURCES: [usize; 2] = [40, 44];

/// A result, and SCC if it is written.
struct Out {
    value: u64,
    scc: Option<bool>,
}

/// `min..=max` of a two's complement or unsigned dword.
fn fits(value: i128, signed: bool) -> bool {
    if signed { i32::try_from(value).is_ok() } else { u32::try_from(value).is_ok() }
}

/// SOP2, and SOP1 with `b` zero; `old` is the destination before.
fn arithmetic(name: &str, a: u64, b: u64, old: u64, scc: bool) -> Option<Out> {
    let out = |value: u64, scc: bool| Some(Out { value, scc: Some(scc) });
    let plain = |value: u64| Some(Out { value, scc: None });
    let low = 0xffff_ffffu64;
    let (ua, ub) = (a as u32, b as u32);
    let (ia, ib) = (wide(a, 32, true), wide(b, 32, true));
    let (wa, wb, carry) = (i128::from(ua), i128::from(ub), i128::from(scc));
    let overflowing = |exact: i128, signed: bool| out(exact as u64 & low, !fits(exact, signed));
    // Results whose SCC tells whether they are zero.
    let nonzero = match name {
        "s_lshl_b32" => Some(u64::from(ua << (ub & 31))),
        "s_lshl_b64" => Some(a << (b & 63)),
        "s_lshr_b32" => Some(u64::from(ua >> (ub & 31))),
        "s_lshr_b64" => Some(a >> (b & 63)),
        "s_ashr_i32" => Some(u64::from((ua as i32 >> (ub & 31)) as u32)),
        "s_ashr_i64" => Some(((a as i64) >> (b & 63)) as u64),
        "s_absdiff_i32" => Some(u64::from((ua.wrapping_sub(ub) as i32).wrapping_abs() as u32)),
        "s_abs_i32" => Some(u64::from((ua as i32).wrapping_abs() as u32)),
        "s_not_b32" => Some(u64::from(!ua)),
        "s_not_b64" => Some(!a),
        "s_bcnt0_i32_b32" => Some(ua.count_zeros().into()),
        "s_bcnt0_i32_b64" => Some(a.count_zeros().into()),
        "s_bcnt1_i32_b32" => Some(ua.count_ones().into()),
        "s_bcnt1_i32_b64" => Some(a.count_ones().into()),
        "s_quadmask_b32" => Some((0..8).map(|n| u64::from(ua >> (4 * n) & 15 != 0) << n).sum()),
        "s_quadmask_b64" => Some((0..16).map(|n| u64::from(a >> (4 * n) & 15 != 0) << n).sum()),
        "s_wqm_b32" => Some((0..8).map(|n| if ua >> (4 * n) & 15 != 0 { 15 << (4 * n) } else { 0 }).sum()),
        "s_wqm_b64" => Some((0..16).map(|n| if a >> (4 * n) & 15 != 0 { 15 << (4 * n) } else { 0 }).sum()),
        "s_bfe_u32" | "s_bfe_i32" | "s_bfe_u64" | "s_bfe_i64" => {
            let bits = if name.ends_with("64") { 64 } else { 32 };
            let width = (ub >> 16 & 0x7f).min(bits);
            let shifted = wide(a, bits, name.contains("_i")) >> (ub & (bits - 1));
            let field = if width == 0 { 0 } else { wide(shifted as u64, width, name.contains("_i")) };
            Some(field as u64 & u64::MAX >> (64 - bits))
        }
        _ => bitwise(name, a, b),
    };
    if let Some(value) = nonzero {
        let value = if name.ends_with("64") && !name.contains("i32_b64") { value } else { value & low };
        return out(value, value != 0);
    }
    match name {
        "s_add_u32" => overflowing(wa + wb, false),
        "s_addc_u32" => overflowing(wa + wb + carry, false),
        "s_sub_u32" => overflowing(wa - wb, false),
        "s_subb_u32" => overflowing(wa - wb - carry, false),
        "s_add_i32" => overflowing(ia + ib, true),
        "s_sub_i32" => overflowing(ia - ib, true),
        "s_lshl1_add_u32" => overflowing((wa << 1) + wb, false),
        "s_lshl2_add_u32" => overflowing((wa << 2) + wb, false),
        "s_lshl3_add_u32" => overflowing((wa << 3) + wb, false),
        "s_lshl4_add_u32" => overflowing((wa << 4) + wb, false),
        // SCC: the first source was taken.
        "s_min_i32" => out(ia.min(ib) as u64 & low, ia < ib),
        "s_max_i32" => out(ia.max(ib) as u64 & low, ia >= ib),
        "s_min_u32" => out(ua.min(ub).into(), ua < ub),
        "s_max_u32" => out(ua.max(ub).into(), ua >= ub),
        "s_bfm_b32" => plain(u64::from(((1u32 << (ua & 31)) - 1) << (ub & 31))),
        "s_bfm_b64" => plain(((1u64 << (a & 63)) - 1) << (b & 63)),
        "s_add_nc_u64" => plain(a.wrapping_add(b)),
        "s_sub_nc_u64" => plain(a.wrapping_sub(b)),
        "s_mul_u64" => plain(a.wrapping_mul(b)),
        "s_mul_i32" => plain(ua.wrapping_mul(ub).into()),
        "s_mul_hi_u32" => plain(((wa * wb) >> 32) as u64),
        "s_mul_hi_i32" => plain(((ia * ib) >> 32) as u64 & low),
        "s_cselect_b32" | "s_cselect_b64" => plain(if scc { a } else { b }),
        "s_pack_ll_b32_b16" => plain(u64::from(ua & 0xffff | ub << 16)),
        "s_pack_lh_b32_b16" => plain(u64::from(ua & 0xffff | ub & 0xffff_0000)),
        "s_pack_hh_b32_b16" => plain(u64::from(ua >> 16 | ub & 0xffff_0000)),
        "s_pack_hl_b32_b16" => plain(u64::from(ua >> 16 | ub << 16)),
        "s_mov_b32" | "s_mov_b64" => plain(a),
        "s_cmov_b32" | "s_cmov_b64" => plain(if scc { a } else { old }),
        "s_brev_b32" => plain(ua.reverse_bits().into()),
        "s_brev_b64" => plain(a.reverse_bits()),
        "s_ff0_i32_b32" => plain(if ua == u32::MAX { low } else { ua.trailing_ones().into() }),
        "s_ff0_i32_b64" => plain(if a == u64::MAX { low } else { a.trailing_ones().into() }),
        "s_ctz_i32_b32" => plain(if ua == 0 { low } else { ua.trailing_zeros().into() }),
        "s_ctz_i32_b64" => plain(if a == 0 { low } else { a.trailing_zeros().into() }),
        "s_clz_i32_u32" => plain(if ua == 0 { low } else { ua.leading_zeros().into() }),
        "s_clz_i32_u64" => plain(if a == 0 { low } else { a.leading_zeros().into() }),
        "s_cls_i32" => {
            let same = if ua >> 31 != 0 { ua.leading_ones() } else { ua.leading_zeros() };
            plain(if same == 32 { low } else { same.into() })
        }
        "s_cls_i32_i64" => {
            let same = if a >> 63 != 0 { a.leading_ones() } else { a.leading_zeros() };
            plain(if same == 64 { low } else { same.into() })
        }
        "s_sext_i32_i8" => plain(wide(a, 8, true) as u64 & low),
        "s_sext_i32_i16" => plain(wide(a, 16, true) as u64 & low),
        "s_bitset0_b32" => plain(old & !(1 << (a & 31)) & low),
        "s_bitset1_b32" => plain((old | 1 << (a & 31)) & low),
        "s_bitset0_b64" => plain(old & !(1 << (a & 63))),
        "s_bitset1_b64" => plain(old | 1 << (a & 63)),
        "s_bitreplicate_b64_b32" => plain((0..32).map(|n| ((a >> n & 1) * 3) << (2 * n)).sum()),
        _ => None,
    }
}

/// `s_<op>_b32` and `_b64`, of 64 bits.
fn bitwise(name: &str, a: u64, b: u64) -> Option<u64> {
    let (op, _) = name.strip_prefix("s_")?.rsplit_once('_')?;
    Some(match op {
        "and" => a & b,
        "or" => a | b,
        "xor" => a ^ b,
        "nand" => !(a & b),
        "nor" => !(a | b),
        "xnor" => !(a ^ b),
        "and_not1" => a & !b,
        "or_not1" => a | !b,
        "and_not0" => !a & b,
        "or_not0" => !a | b,
        _ => return None,
    })
}

/// Scalar f32 and f16 ops have the results of the vector ops of the same name, RDNA3.5's in IEEE mode as well.
fn float(name: &str, [a, b, c]: [u64; 3], old: u64, ieee: bool) -> Option<Out> {
    let (name, a) = if name == "s_cvt_hi_f32_f16" { ("s_cvt_f32_f16", a >> 16) } else { (name, a) };
    let vector = name.replacen("s_", "v_", 1).replace("_num", "");
    let input = In { a, b, c, old, ieee, ..In::default() };
    let value = reference::value(&vector, &input)?.value;
    Some(Out { value, scc: None })
}

fn compare(name: &str, a: u64, b: u64) -> bool {
    if name.ends_with("_f32") || name.ends_with("_f16") {
        return crate::compare::holds(&name.replacen("s_", "v_", 1), a, b);
    }
    let (stem, ty) = name.rsplit_once('_').unwrap();
    match name {
        "s_bitcmp0_b32" => return a >> (b & 31) & 1 == 0,
        "s_bitcmp1_b32" => return a >> (b & 31) & 1 != 0,
        "s_bitcmp0_b64" => return a >> (b & 63) & 1 == 0,
        "s_bitcmp1_b64" => return a >> (b & 63) & 1 != 0,
        _ => {}
    }
    let bits = if ty == "u64" { 64 } else { 32 };
    let (a, b) = (wide(a, bits, ty.starts_with('i')), wide(b, bits, ty.starts_with('i')));
    match stem.rsplit_once('_').unwrap().1 {
        "eq" => a == b,
        "lg" => a != b,
        "gt" => a > b,
        "ge" => a >= b,
        "lt" => a < b,
        "le" => a <= b,
        other => panic!("predicate {other}"),
    }
}

/// A source of a scalar op: its text and value.
fn operand(state: &State, at: usize, ty: Ty, variant: usize) -> (String, u64) {
    let wide = ty.dwords(false) == 2;
    let register = SOURCES[at];
    let from_register = if wide { state.s64(register) } else { state.s[register].into() };
    let text = if wide { format!("s[{register}:{}]", register + 1) } else { format!("s{register}") };
    let mask = if wide { u64::MAX } else { 0xffff_ffff };
    match variant {
        1 => ("-5".into(), -5i64 as u64 & mask),
        2 => ("0x76543210".into(), 0x7654_3210),
        3 if wide => ("vcc".into(), state.s64(VCC)),
        3 => ("m0".into(), state.s[M0].into()),
        4 => ("0".into(), 0),
        5 if !wide => ("src_scc".into(), state.scc.into()),
        6 if ty == Ty::F16 => ("0.5".into(), 0x3800),
        6 if !wide => ("0.5".into(), 0x3f00_0000),
        _ => (text, from_register),
    }
}

fn fill(state: &mut State, random: &mut Random) {
    for n in [DST, SOURCES[0], SOURCES[1]] {
        state.set_s64(n, interesting(random, Ty::B64));
        if random.one_in(2) {
            state.s[n] = interesting(random, Ty::B32) as u32;
        }
    }
    if random.one_in(3) {
        state.set_s64(SOURCES[1], state.s64(SOURCES[0]));
    }
}

fn set(state: &mut State, ty: Ty, value: u64) {
    if ty.dwords(false) == 2 { state.set_s64(DST, value) } else { state.s[DST] = value as u32 }
}

fn dst_text(ty: Ty) -> String {
    if ty.dwords(false) == 2 { format!("s[{DST}:{}]", DST + 1) } else { format!("s{DST}") }
}

/// Cases for all of SOP1, SOP2, SOPC and SOPK that compute something from their operands alone.
pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for op in implemented(machine) {
        for variant in 0..36 {
            // Each kind of operand in each place, then many values.
            let variants = [variant % 7, variant / 7 % 7];
            let variants = if variant > 20 { [0, 0] } else { variants };
            let case = match format(machine, op) {
                Some(Format::Sop2) if op == Op::SCvtPkRtzF16F32 => Some(packed_halves(machine, random)),
                Some(Format::Sop1 | Format::Sop2) => arithmetic_case(machine, op, variants, random),
                Some(Format::Sopc) if op != Op::SSetGprIdxOn => Some(compare_case(machine, op, variants, random)),
                Some(Format::Sopk) => immediate_case(machine, op, variant, random),
                Some(Format::Vop3) if op.name().starts_with("v_s_") => {
                    Some(transcendental_case(machine, op, variant, random))
                }
                _ => None,
            };
            cases.extend(case);
        }
    }
    cases
}

fn arithmetic_case(machine: Machine, op: Op, variants: [usize; 2], random: &mut Random) -> Option<Case> {
    let (name, info) = (op.name(), op.info());
    let mut before = State::random(machine, random);
    fill(&mut before, random);
    before.mode &= if random.one_in(2) { !IEEE } else { u32::MAX };
    let mut after = before.clone();
    let mut items = vec![dst_text(info.dst)];
    let mut check = String::new();
    let values = sources(&before, info, variants, &mut items);
    let old = if info.dst.dwords(false) == 2 { before.s64(DST) } else { before.s[DST].into() };
    let saves = |what| name.strip_prefix("s_")?.split_once(what).map(|(op, _)| op);
    if let Some(op) = saves("_saveexec_b").or(saves("_wrexec_b")) {
        // The 64-bit forms work on both halves of EXEC; in wave32 the upper one is a plain register.
        let wide = name.ends_with("64");
        let high = wide && !machine.wave64();
        let kept = if wide { 0 } else { before.exec & !0xffff_ffff };
        let old = before.exec & !kept | if high { u64::from(before.s[EXEC_HI]) << 32 } else { 0 };
        let new = bitwise(&format!("s_{op}_b64"), values[0], old)? & if wide { u64::MAX } else { 0xffff_ffff };
        after.exec = kept | if high { new & 0xffff_ffff } else { new };
        if high {
            after.s[EXEC_HI] = (new >> 32) as u32;
        }
        after.scc = new != 0;
        set(&mut after, info.dst, if name.contains("wrexec") { new } else { old });
    } else {
        let is_float = name.contains("_f32") || name.contains("_f16");
        let [a, b, _] = values;
        let ieee = before.mode & IEEE != 0 && !machine.target.is_gfx12();
        let out = if is_float { float(name, values, old, ieee) } else { arithmetic(name, a, b, old, before.scc) }?;
        set(&mut after, info.dst, out.value);
        after.scc = out.scc.unwrap_or(before.scc);
        let format = if info.dst == Ty::F16 { F16 } else { F32 };
        if is_float && !name.starts_with("s_cvt_u") && !name.starts_with("s_cvt_i") && format.is_nan(out.value) {
            // Any NaN will do; one of 16 bits is widened first.
            let widen = if info.dst == Ty::F16 { format!("\ns_cvt_f32_f16 s{DST}, s{DST}") } else { String::new() };
            check = format!("{widen}\ns_cmp_u_f32 s{DST}, s{DST}\ns_mov_b32 s{DST}, 0");
            (after.s[DST], after.scc) = (0, true);
        }
    }
    let mut case = Case::new(format!("{} {}{check}", op.name_on(machine.target), items.join(", ")), before, after);
    case.optional = variants != [0, 0];
    Some(case)
}

/// Two f16, in a VGPR at last, where any NaN will do.
fn packed_halves(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    for n in SOURCES {
        before.s[n] = interesting(random, Ty::B32) as u32;
    }
    let half = |n: usize| F16.truncate(F32.get(before.s[n].into())) as u32;
    let mut after = before.clone();
    after.s[DST] = 0;
    for lane in before.active_lanes() {
        after.v[16][lane] = half(SOURCES[0]) | half(SOURCES[1]) << 16;
    }
    let [a, b] = SOURCES;
    let text = format!("s_cvt_pk_rtz_f16_f32 s{DST}, s{a}, s{b}\nv_mov_b32 v16, s{DST}\ns_mov_b32 s{DST}, 0");
    let mut case = Case::new(text, before, after);
    case.floats.push((16, Float::F16(3)));
    case
}

/// `v_s_exp_f32` and its like: the vector op on a scalar. The result is moved to a VGPR, where it may be some units
/// off.
fn transcendental_case(machine: Machine, op: Op, variant: usize, random: &mut Random) -> Case {
    let (name, ty) = (op.name(), op.info().src[0]);
    let mut before = State::random(machine, random);
    before.s[SOURCES[0]] = interesting(random, ty) as u32;
    let kind = [0, 0, 0, 1, 2, 6][variant % 6];
    let (text, value) = operand(&before, 0, ty, kind);
    let format = if ty == Ty::F16 { F16 } else { F32 };
    let (text, value) = match variant / 6 % 3 {
        // A sign would be the literal's own.
        1 if kind != 2 => (format!("-{text}"), value ^ format.sign()),
        2 => (format!("|{text}|"), value & !format.sign()),
        _ => (text, value),
    };
    let clamp = variant % 5 == 4;
    let input = In { a: value & format.mask(), ..In::default() };
    let vector = name.replacen("v_s_", "v_", 1);
    let result = reference::value(&vector, &input).unwrap().value;
    let result = if clamp { num::clamp(format, result) } else { result };
    let mut after = before.clone();
    after.s[DST] = 0;
    for lane in before.active_lanes() {
        after.v[16][lane] = result as u32;
    }
    let clamp = if clamp { " clamp" } else { "" };
    let text = format!("{name} s{DST}, {text}{clamp}\nv_mov_b32 v16, s{DST}\ns_mov_b32 s{DST}, 0");
    let mut case = Case::new(text, before, after);
    case.floats.push((16, if ty == Ty::F16 { Float::F16(1) } else { Float::F32 }));
    case.ulps = reference::ulps(&vector);
    // Some literals do not fit.
    case.optional = variant >= 6 || kind == 2 || !clamp.is_empty();
    case
}

fn sources(state: &State, info: &OpInfo, variants: [usize; 2], items: &mut Vec<String>) -> [u64; 3] {
    let mut values = [0; 3];
    // An instruction has one literal.
    let has_constant = info.src.contains(&Ty::K32);
    for (at, ty) in info.src.iter().enumerate() {
        let (text, value) = match *ty {
            Ty::K32 => ("0x3fe12345".to_owned(), 0x3fe1_2345),
            _ => {
                let register = usize::from(!items.is_empty() && at > 0);
                let variant = if has_constant { 0 } else { variants[register] };
                operand(state, register, *ty, variant)
            }
        };
        items.push(text);
        values[at] = value;
    }
    values
}

fn compare_case(machine: Machine, op: Op, variants: [usize; 2], random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    fill(&mut before, random);
    let mut after = before.clone();
    let mut items = Vec::new();
    let [a, b, _] = sources(&before, op.info(), variants, &mut items);
    after.scc = compare(op.name(), a, b);
    let mut case = Case::new(format!("{} {}", op.name_on(machine.target), items.join(", ")), before, after);
    case.optional = variants != [0, 0];
    case
}

/// SOPK ops with a 16-bit constant, which is sign-extended except in unsigned compares.
fn immediate_case(machine: Machine, op: Op, variant: usize, random: &mut Random) -> Option<Case> {
    let name = op.name();
    let mut before = State::random(machine, random);
    fill(&mut before, random);
    let value: u16 = [0, 1, 0x7fff, 0x8000, 0xffff, 0x1234][variant % 6];
    if variant % 4 == 3 {
        before.s[DST] = if name.ends_with("i32") { value as i16 as u32 } else { value.into() };
    }
    let mut after = before.clone();
    let signed = value as i16 as u32;
    let old = before.s[DST];
    if let Some(predicate) = name.strip_prefix("s_cmpk_") {
        let constant = if name.ends_with("u32") { value.into() } else { u64::from(signed) };
        after.scc = compare(&format!("s_cmp_{predicate}"), old.into(), constant);
    } else {
        match name {
            "s_movk_i32" => after.s[DST] = signed,
            "s_cmovk_i32" if before.scc => after.s[DST] = signed,
            "s_cmovk_i32" => {}
            "s_addk_i32" => {
                let (sum, overflow) = (old as i32).overflowing_add(signed as i32);
                (after.s[DST], after.scc) = (sum as u32, overflow);
            }
            "s_mulk_i32" => after.s[DST] = old.wrapping_mul(signed),
            _ => return None,
        }
    }
    Some(Case::new(format!("{} s{DST}, {value:#x}", op.name_on(machine.target)), before, after))
}

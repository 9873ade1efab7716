// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Templates of loads and stores. A call finds where the active lanes' addresses lead, and their pattern: a [`Place`].
//! Accesses that add different immediates to the same registers share it, in other blocks, too, until one of the
//! registers or EXEC is written. Each compares its bounds and the memory's generation. Then it moves data by itself if
//! the pattern is the one that it expects, else by a function. If it may not access all bytes, it calls the op's
//! handler.

mod place;

use super::emit::{CONTEXT, Emitter, GENERATION, GROUP, NEW, WAVE};
use super::moves::{self, Move, Pattern};
use super::{Context, LOCAL};
use crate::hardware::slot;
use crate::micro_op::MicroOp;
use crate::operand::SrcKind;
use crate::wave::{self, Group, PlaceBytes, Row, Wave};
use place::{Key, Known, Slot, find};
pub(super) use place::{Place, Places};
use sim_isa::{Format, Op, Target};
use sim_jit::{Condition, Gpr, Jump, Mem, Rm, Scalar, Width, vector as v};
use std::mem::offset_of;

/// Calls in place of part of a template.
pub(super) enum Way {
    Find(Find),
    Move(Movement),
}

/// A call of [`find`].
#[derive(Clone, Copy)]
pub(super) struct Find {
    op: u64,
    stores: bool,
    slot: Slot,
    constant: i32,
}

/// Calls of functions that move data.
pub(super) struct Movement {
    slot: Slot,
    stores: bool,
    /// Row of the offsets.
    row: u16,
    parts: Vec<Part>,
}

/// Compiles the calls. No vector register holds anything.
pub(super) fn go<const L: usize>(e: &mut Emitter<'_, L>, way: Way) {
    match way {
        Way::Find(call) => find_place(e, call),
        Way::Move(movement) => move_data(e, &movement),
    }
}

/// A field of a place.
fn field<const L: usize>(slot: Slot, offset: usize) -> Mem {
    let (base, start, number, size) = match slot {
        Slot::Wave(n) => (WAVE, offset_of!(Wave<L>, places) + offset_of!(wave::Places, of), n, size_of::<PlaceBytes>()),
        Slot::Block(n) => (CONTEXT, offset_of!(Context, places), n, size_of::<Place>()),
    };
    Mem { base, displacement: (start + number * size + offset) as i32 }
}

/// Calls [`find`].
fn find_place<const L: usize>(e: &mut Emitter<'_, L>, Find { op, stores, slot, constant }: Find) {
    e.asm.zero_upper();
    e.asm.move_wide(Gpr::Rdi, WAVE);
    e.asm.move_wide(Gpr::Rsi, GROUP);
    e.asm.constant_wide(Gpr::Rdx, op);
    e.asm.load_address(Gpr::Rcx, field::<L>(slot, 0));
    e.asm.scalar_constant(Scalar::Mov, Gpr::R8, constant as u32);
    let bit = if let Slot::Wave(n) = slot { 1 << n } else { 0 };
    e.asm.scalar_constant(Scalar::Mov, Gpr::R9, bit);
    type Function<const L: usize> =
        unsafe extern "sysv64" fn(*mut Wave<L>, &mut Group<'_>, &MicroOp<L>, *mut Place, u32, u32);
    let function: Function<L> = if stores { find::<true, L> } else { find::<false, L> };
    e.asm.constant_wide(Gpr::Rax, function as usize as u64);
    e.asm.call(Gpr::Rax);
    e.load_masks();
}

/// Calls the functions that move an op's data.
fn move_data<const L: usize>(e: &mut Emitter<'_, L>, movement: &Movement) {
    let &Movement { slot, stores, row, ref parts } = movement;
    let address = |e: &mut Emitter<'_, L>, to: Gpr, immediate: i32| {
        e.asm.load_wide(to, field::<L>(slot, offset_of!(Place, host)));
        if immediate != 0 {
            e.asm.adjust(to, immediate);
        }
    };
    let active = Mem { base: WAVE, displacement: offset_of!(Wave<L>, mask) as i32 };
    if let ([first, second], true) = (&parts[..], stores) {
        e.asm.load_address(Gpr::Rdx, e.row_memory(row, 0));
        address(e, Gpr::Rsi, first.immediate);
        address(e, Gpr::R8, second.immediate);
        e.asm.load_address(Gpr::Rdi, e.row_memory(first.row, 0));
        e.asm.load_address(Gpr::Rcx, e.row_memory(second.row, 0));
        e.asm.load_address(Gpr::R9, active);
        type Store = unsafe extern "sysv64" fn(*const u32, u64, *const u32, *const u32, u64, *const u32);
        let function: Store = if first.size == 8 { moves::store_pairs::<2, L> } else { moves::store_pairs::<1, L> };
        e.asm.constant_wide(Gpr::Rax, function as usize as u64);
        e.asm.call(Gpr::Rax);
        return e.load_masks();
    }
    for part in parts {
        e.asm.load_address(Gpr::Rdx, e.row_memory(row, 0));
        address(e, Gpr::Rsi, part.immediate);
        e.asm.load_address(Gpr::Rdi, e.row_memory(part.row, 0));
        if e.is_masked {
            e.asm.load_address(Gpr::Rcx, active);
            let function = const { moves::active_moves::<L>() }[part.what];
            e.asm.constant_wide(Gpr::Rax, function as usize as u64);
            e.asm.call(Gpr::Rax);
            continue;
        }
        e.asm.load_wide(Gpr::Rax, field::<L>(slot, offset_of!(Place, moves)));
        e.asm.call_memory(Mem { base: Gpr::Rax, displacement: (part.what * size_of::<Move>()) as i32 });
    }
    e.load_masks();
}

/// The place of an op's addresses in the state of the registers here, and the constant that is to be added to its
/// immediates.
fn place<const L: usize>(e: &mut Emitter<'_, L>, key: Key, op: &MicroOp<L>) -> (Known, i32) {
    let values = [key.row, key.row + key.more].map(|row| e.value(row));
    // The constants of two rows count as part of their values.
    let constant = if key.more == 0 { values[0].1 } else { 0 };
    let values = if key.more == 0 { [(values[0].0, 0); 2] } else { values };
    let bare = Key { row: 0, ..key };
    if let Some(known) = e.places.known.iter().find(|known| known.key == bare && known.values == values) {
        return (*known, constant);
    }
    let kept = e.places.keys.iter().position(|other| *other == key).filter(|_| constant == 0);
    let slot = kept.map_or(Slot::Block(e.places.victim), Slot::Wave);
    let call = Find { op: std::ptr::from_ref(op) as u64, stores: key.stores, slot, constant };
    match kept {
        Some(n) if e.places.lost >> n & 1 == 0 => {
            for row in key.row..=key.row + key.more {
                e.sync(row);
            }
            let known = offset_of!(Wave<L>, places) + offset_of!(wave::Places, known);
            e.asm.test_constant(Mem { base: WAVE, displacement: known as i32 }, 1 << n);
            let from = e.asm.jump_if(Condition::Equal);
            e.or_handler(Vec::new(), Some((from, Way::Find(call))), e.registers(), op);
        }
        _ => {
            e.flush();
            e.forget_rows();
            find_place(e, call);
        }
    }
    if kept.is_none() {
        e.places.victim = (e.places.victim + 1) % LOCAL;
    }
    let known = Known { key: bare, values, slot, from: constant };
    e.places.add(known);
    (known, constant)
}

/// How a template expects data to lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Same,
    Lines,
    Eights,
    /// Anyhow, for which gathers are emitted.
    Gathered,
    Other,
}

/// How data likely lie: by the block's ops, or by the registers of the wave that the program is compiled for.
fn expected<const L: usize>(e: &Emitter<'_, L>, row: u16) -> Expected {
    if e.is_uniform(row) {
        return Expected::Same;
    }
    if e.is_masked {
        return Expected::Other;
    }
    let (value, _) = e.value(row);
    let Some(offsets) = e.rows.get(usize::from(e.first_row(value))) else { return Expected::Other };
    // SAFETY: code is for a CPU that has AVX2.
    let kind = unsafe { Pattern::of(&offsets.0) }.kind;
    if kind & moves::SAME != 0 && value < NEW {
        Expected::Same
    } else if kind & moves::EIGHTS != 0 {
        Expected::Eights
    } else if kind & moves::LINES_OF_4 != 0 || value >= NEW {
        // A row that has been written may hold something else at the end of a loop.
        Expected::Lines
    } else {
        Expected::Other
    }
}

/// Data that an op moves at one of its immediates.
#[derive(Clone, Copy)]
struct Part {
    what: usize,
    immediate: i32,
    size: i32,
    /// First row of the data.
    row: u16,
}

/// The data that an op moves. `None` if there is no template for it.
fn parts<const L: usize>(code: Op, op: &MicroOp<L>) -> Option<(bool, Vec<Part>)> {
    let is_lds = code.info().encodings[0].format == Format::Ds;
    let (_, name) = code.name().split_once('_')?;
    let dwords = |base: usize, count: usize| (base + count - 1, 4 * count as i32);
    let (what, size) = match name {
        "load_b32" => dwords(moves::LOAD, 1),
        "load_b64" => dwords(moves::LOAD, 2),
        "load_b96" => dwords(moves::LOAD, 3),
        "load_b128" => dwords(moves::LOAD, 4),
        "load_u8" => (moves::LOAD_U8, 1),
        "load_i8" => (moves::LOAD_I8, 1),
        "load_u16" => (moves::LOAD_U16, 2),
        "load_i16" => (moves::LOAD_I16, 2),
        "load_d16_b16" | "load_u16_d16" => (moves::LOAD_LOW, 2),
        "load_d16_hi_b16" | "load_u16_d16_hi" => (moves::LOAD_HIGH, 2),
        "store_b32" => dwords(moves::STORE, 1),
        "store_b64" => dwords(moves::STORE, 2),
        "store_b96" => dwords(moves::STORE, 3),
        "store_b128" => dwords(moves::STORE, 4),
        "store_b8" => (moves::STORE_8, 1),
        "store_b16" => (moves::STORE_16, 2),
        "store_d16_hi_b16" | "store_b16_d16_hi" => (moves::STORE_HIGH, 2),
        // gfx950's: other targets have other tiles.
        "load_tr16_b64" if L == 64 => (moves::LOAD_TILE_16, 8),
        "load_tr8_b64" if L == 64 => (moves::LOAD_TILE_8, 8),
        _ => return two_parts(code, op),
    };
    let stores = (moves::STORE..=moves::STORE_HIGH).contains(&what);
    // Data of stores to LDS are source 1 as well.
    let row = if stores { op.src[1].reg } else { op.dst };
    let has_data = !stores || op.src[1].kind == SrcKind::Vgpr;
    let immediate = op.mem.offset;
    (has_data && (immediate >= 0 || !is_lds)).then(|| (stores, vec![Part { what, immediate, size, row }]))
}

/// Accesses to LDS with two immediates.
fn two_parts<const L: usize>(code: Op, op: &MicroOp<L>) -> Option<(bool, Vec<Part>)> {
    let (stores, dwords, stride) = match code {
        Op::DsLoad2addrB32 => (false, 1, 1),
        Op::DsLoad2addrStride64B32 => (false, 1, 64),
        Op::DsLoad2addrB64 => (false, 2, 1),
        Op::DsLoad2addrStride64B64 => (false, 2, 64),
        Op::DsStore2addrB32 => (true, 1, 1),
        Op::DsStore2addrStride64B32 => (true, 1, 64),
        Op::DsStore2addrB64 => (true, 2, 1),
        Op::DsStore2addrStride64B64 => (true, 2, 64),
        _ => return None,
    };
    if stores && op.src[1..3].iter().any(|src| src.kind != SrcKind::Vgpr) {
        return None;
    }
    let rows = if stores { [op.src[1].reg, op.src[2].reg] } else { [op.dst, op.dst + dwords] };
    let size = 4 * i32::from(dwords);
    let what = if stores { moves::STORE } else { moves::LOAD } + usize::from(dwords) - 1;
    let [first, second] = [0, 1].map(|n| {
        let immediate = (op.mem.offset >> (8 * n) & 0xff) * size * stride;
        Part { what, immediate, size, row: rows[n as usize] }
    });
    // Neighbours move as one.
    if second.immediate == first.immediate + size && second.row == first.row + dwords {
        let what = what + usize::from(dwords);
        return Some((stores, vec![Part { what, size: 2 * size, ..first }]));
    }
    Some((stores, vec![first, second]))
}

/// True if the op accesses memory or LDS, and there is a template for it.
pub(super) fn is_access<const L: usize>(op: &MicroOp<L>, target: Target) -> bool {
    op.code.is_some_and(|code| known(code, op, target).is_some() || dwords_of_scratch(code, op).is_some())
}

/// The place that an op needs, and the parts that it moves.
fn known<const L: usize>(code: Op, op: &MicroOp<L>, target: Target) -> Option<(Key, Vec<Part>)> {
    let format = code.info().encodings[0].format;
    let mem = &op.mem;
    let [vector, _, first, second] = &op.src;
    let is_plain = match format {
        Format::Ds => !mem.gds,
        Format::Mubuf => mem.offen && !mem.idxen && !mem.tfe && !mem.lds && target != Target::Gfx1250,
        Format::Global => !mem.lds && (first.kind == SrcKind::None || target != Target::Gfx1250),
        _ => false,
    };
    if !is_plain || vector.kind != SrcKind::Vgpr || vector.shift != 0 {
        return None;
    }
    let (stores, parts) = parts(code, op)?;
    let scalar = |src: &crate::operand::Src| (src.kind, src.reg, src.value);
    let nothing = (SrcKind::None, 0, 0);
    let (scalars, more) = match format {
        Format::Ds => ([nothing; 2], 0),
        Format::Mubuf => ([scalar(first), scalar(second)], 0),
        _ => ([scalar(first), nothing], u16::from(first.kind == SrcKind::None)),
    };
    Some((Key { format, stores, row: vector.reg, more, scalars }, parts))
}

/// Compiles an access if there is a template for it. Else nothing has been emitted.
pub(super) fn template<const L: usize>(e: &mut Emitter<'_, L>, code: Op, op: &MicroOp<L>) -> bool {
    if code.info().encodings[0].format == Format::Scratch {
        return scratch(e, code, op);
    }
    let Some((key, mut parts)) = known(code, op, e.target) else { return false };
    if e.is_masked && parts.iter().any(|part| part.what > moves::STORE_HIGH) {
        return false;
    }
    // The row of the offsets is overwritten last.
    if let [first, second] = &mut parts[..]
        && !key.stores
        && (first.row..first.row + (first.size / 4) as u16).contains(&key.row)
    {
        std::mem::swap(first, second);
    }
    let gathers = e.is_masked && e.width == Width::Zmm && !key.stores;
    let expected = match expected(e, key.row) {
        Expected::Same if parts.iter().all(|part| matches!(part.what, LOAD_1 | LOAD_4)) => Expected::Same,
        Expected::Lines if parts.iter().all(|part| part.what == LOAD_1) => Expected::Lines,
        Expected::Eights if parts.iter().all(|part| part.what == LOAD_4) => Expected::Eights,
        Expected::Lines if parts.len() == 1 && parts[0].what == moves::STORE => Expected::Lines,
        _ if gathers && parts.iter().all(|part| matches!(part.what, LOAD_1 | LOAD_2 | LOAD_4)) => Expected::Gathered,
        _ => Expected::Other,
    };
    let (Known { slot, from, .. }, constant) = place(e, key, op);
    match expected {
        Expected::Same | Expected::Gathered => {}
        Expected::Lines | Expected::Eights => e.sync(key.row),
        Expected::Other => {
            e.flush();
            e.forget_rows();
        }
    }
    let before = e.registers();
    let mut jumps = Vec::new();
    if key.format != Format::Ds {
        e.asm.load_wide(Gpr::Rax, Mem { base: GENERATION, displacement: 0 });
        e.asm.compare_wide(Gpr::Rax, field::<L>(slot, offset_of!(Place, generation)));
        jumps.push(e.asm.jump_if(Condition::NotEqual));
    }
    let top = constant + parts.iter().map(|part| part.immediate + part.size).max().unwrap_or(0);
    e.asm.compare_constant(field::<L>(slot, offset_of!(Place, end)), top);
    jumps.push(e.asm.jump_if(Condition::Less));
    let low = constant + parts.iter().map(|part| part.immediate).min().unwrap_or(0);
    if low < from {
        e.asm.compare_constant(field::<L>(slot, offset_of!(Place, start)), low);
        jumps.push(e.asm.jump_if(Condition::Greater));
    }
    if key.format == Format::Global {
        e.asm.add_wide(Mem { base: WAVE, displacement: offset_of!(Wave<L>, global_accesses) as i32 }, 1);
    }
    let movement = Movement { slot, stores: key.stores, row: key.row, parts };
    if expected == Expected::Other {
        move_data(e, &movement);
        e.or_handler(jumps, None, before, op);
        if !key.stores {
            for part in movement.parts {
                e.overwritten(part.row, (part.size as u16).div_ceil(4));
            }
        }
        return true;
    }
    let kind = match expected {
        Expected::Same => moves::SAME,
        Expected::Eights => moves::EIGHTS,
        Expected::Gathered => moves::NEAR,
        _ => moves::LINES_OF_4,
    };
    e.asm.test_constant(field::<L>(slot, offset_of!(Place, kind)), kind);
    let from = e.asm.jump_if(Condition::Equal);
    for part in movement.parts.clone() {
        match expected {
            Expected::Same => load_same(e, slot, part, part.immediate + constant),
            Expected::Eights => load_eights(e, slot, part, key.row),
            Expected::Gathered => gather(e, slot, part, key.row),
            _ => move_lines(e, slot, part, key.row, key.stores),
        }
    }
    e.or_handler(jumps, Some((from, Way::Move(movement))), before, op);
    true
}

const LOAD_1: usize = moves::LOAD;
const LOAD_2: usize = moves::LOAD + 1;
const LOAD_4: usize = moves::LOAD + 3;

/// Loads one dword or four from the first lane's address, which is that of all. `immediate` is added to the place's.
fn load_same<const L: usize>(e: &mut Emitter<'_, L>, slot: Slot, part: Part, immediate: i32) {
    e.asm.load_wide(Gpr::Rax, field::<L>(slot, offset_of!(Place, first)));
    let memory = Mem { base: Gpr::Rax, displacement: immediate };
    e.next();
    if part.what == LOAD_1 {
        for n in 0..e.parts() {
            e.next();
            let value = e.fresh();
            e.asm.broadcast(e.width, value, memory);
            e.write(part.row, n, value);
        }
        e.set_uniform(part.row);
        return;
    }
    // Eight bytes move as a whole.
    let four = e.fresh();
    e.asm.broadcast_quad(e.width, four, memory, None);
    for (dword, order) in (0..4).zip([0x00, 0x55, 0xaa, 0xff]) {
        for n in 0..e.parts() {
            e.next();
            e.keep(four);
            let value = e.fresh();
            e.asm.shuffle(e.width, value, four, order);
            e.write(part.row + dword, n, value);
        }
    }
    (0..4).for_each(|dword| e.set_uniform(part.row + dword));
}

/// Loads four dwords from the addresses of eight lanes, which all others repeat.
fn load_eights<const L: usize>(e: &mut Emitter<'_, L>, slot: Slot, part: Part, offsets: u16) {
    e.next();
    let (is_wide, mask) = (e.width == Width::Zmm, Emitter::<L>::FREE_MASK);
    if is_wide {
        e.asm.load_mask(mask, Mem { base: CONTEXT, displacement: offset_of!(Context, second_quads) as i32 });
    }
    let [a, b, c, d, more, last] = std::array::from_fn(|_| e.fresh());
    // Each of these: four dwords of a lane and of the fourth one behind it, again and again.
    e.asm.load_address(Gpr::Rdx, e.row_memory(offsets, 0));
    e.asm.load_wide(Gpr::Rcx, field::<L>(slot, offset_of!(Place, host)));
    if part.immediate != 0 {
        e.asm.adjust(Gpr::Rcx, part.immediate);
    }
    for (lane, to) in [a, b, c, d, a, b, c, d].into_iter().enumerate() {
        e.asm.scalar_mem(Scalar::Mov, Gpr::Rax, Mem { base: Gpr::Rdx, displacement: 4 * lane as i32 });
        e.asm.add(Gpr::Rax, Gpr::Rcx);
        let four = Mem { base: Gpr::Rax, displacement: 0 };
        if !is_wide && lane >= 4 {
            e.asm.insert_quad(to, to, four);
        } else {
            e.asm.broadcast_quad(e.width, to, four, (lane >= 4).then_some(mask));
        }
    }
    // Rows and columns are exchanged.
    e.asm.vector(e.width, v::UNPACK_LOW_PS, more, a, Rm::Reg(b));
    e.asm.vector(e.width, v::UNPACK_HIGH_PS, a, a, Rm::Reg(b));
    e.asm.vector(e.width, v::UNPACK_LOW_PS, last, c, Rm::Reg(d));
    e.asm.vector(e.width, v::UNPACK_HIGH_PS, c, c, Rm::Reg(d));
    e.asm.shuffle_two(e.width, b, more, last, 0x44);
    e.asm.shuffle_two(e.width, more, more, last, 0xee);
    e.asm.shuffle_two(e.width, d, a, c, 0x44);
    e.asm.shuffle_two(e.width, a, a, c, 0xee);
    let values = [b, more, d, a];
    for (row, value) in (part.row..).zip(values) {
        for n in 1..e.parts() {
            e.next();
            values.into_iter().for_each(|value| e.keep(value));
            let copy = e.fresh();
            e.asm.move_vector(e.width, copy, value);
            e.write(row, n, copy);
        }
        e.write(row, 0, value);
    }
}

/// The even numbers up to 31, and the odd ones.
static ALTERNATE: [[u32; 16]; 2] = {
    let mut numbers = [[0; 16]; 2];
    let mut n = 0;
    while n < 32 {
        numbers[n as usize % 2][n as usize / 2] = n;
        n += 1;
    }
    numbers
};

/// Loads one dword, two or four from any addresses of the active lanes, pairs as a whole.
fn gather<const L: usize>(e: &mut Emitter<'_, L>, slot: Slot, part: Part, offsets: u16) {
    let (width, mask) = (e.width, Emitter::<L>::FREE_MASK);
    e.asm.load_wide(Gpr::Rax, field::<L>(slot, offset_of!(Place, host)));
    e.asm.constant_wide(Gpr::Rdx, ALTERNATE.as_ptr() as u64);
    let memory = |dword: i32| Mem { base: Gpr::Rax, displacement: part.immediate + 4 * dword };
    for n in 0..e.parts() {
        e.next();
        let active = e.lanes(slot::EXEC as u16, n);
        let index = e.row(offsets, n);
        if part.what == LOAD_1 {
            let value = e.fresh();
            e.asm.vector(width, v::XOR, value, value, Rm::Reg(value));
            e.asm.load_mask(mask, active);
            e.asm.gather(mask, value, memory(0), index);
            e.write(part.row, n, value);
            continue;
        }
        let upper = e.fresh();
        e.asm.shuffle_quads(upper, index, 0xee);
        let mut values = Vec::new();
        for dword in (0..part.size / 4).step_by(2) {
            let halves = [e.fresh(), e.fresh()];
            for (half, index, value) in [(0, index, halves[0]), (1, upper, halves[1])] {
                let active = Mem { displacement: active.displacement + half, ..active };
                e.asm.test_constant(active, 0xff);
                let nothing = e.asm.jump_if(Condition::Equal);
                e.asm.vector(width, v::XOR, value, value, Rm::Reg(value));
                e.asm.load_mask(mask, active);
                e.asm.gather_wide(mask, value, memory(dword), index);
                e.asm.land(nothing);
            }
            for numbers in 0..2 {
                let value = e.fresh();
                e.asm.load_vector(width, value, Mem { base: Gpr::Rdx, displacement: 64 * numbers });
                e.asm.vector(width, v::PERMUTE_TWO_D, value, halves[0], Rm::Reg(halves[1]));
                values.push(value);
            }
        }
        for (row, value) in (part.row..).zip(values) {
            e.write(row, n, value);
        }
    }
}

/// Loads or stores a row, each 16 lanes of which have neighbouring dwords.
fn move_lines<const L: usize>(e: &mut Emitter<'_, L>, slot: Slot, part: Part, offsets: u16, stores: bool) {
    for n in 0..e.parts() {
        e.next();
        let offset = e.row_memory(offsets, n);
        e.asm.scalar_mem(Scalar::Mov, Gpr::Rax, offset);
        e.asm.add_memory(Gpr::Rax, field::<L>(slot, offset_of!(Place, host)));
        let memory = Mem { base: Gpr::Rax, displacement: part.immediate };
        if stores {
            let value = e.row(part.row, n);
            e.asm.store_vector(e.width, memory, value);
        } else {
            let value = e.fresh();
            e.asm.load_vector(e.width, value, memory);
            e.write(part.row, n, value);
        }
    }
}

/// True if an op stores to private memory at a constant offset, false if it loads, and the number of dwords. `None` if
/// it does neither.
fn dwords_of_scratch<const L: usize>(code: Op, op: &MicroOp<L>) -> Option<(bool, u16)> {
    let (stores, count) = match code {
        Op::ScratchLoadB32 => (false, 1),
        Op::ScratchLoadB64 => (false, 2),
        Op::ScratchLoadB96 => (false, 3),
        Op::ScratchLoadB128 => (false, 4),
        Op::ScratchStoreB32 => (true, 1),
        Op::ScratchStoreB64 => (true, 2),
        Op::ScratchStoreB96 => (true, 3),
        Op::ScratchStoreB128 => (true, 4),
        _ => return None,
    };
    let [vector, data, scalar, _] = &op.src;
    let offset = op.mem.offset;
    let is_constant = vector.kind == SrcKind::None && scalar.kind == SrcKind::None && !op.mem.lds;
    let is_whole = offset >= 0 && offset % 4 == 0 && (!stores || data.kind == SrcKind::Vgpr);
    (is_constant && is_whole).then_some((stores, count))
}

/// Bytes of private memory up to the end of what an op accesses at a constant offset.
pub(super) fn end_of_scratch<const L: usize>(op: &MicroOp<L>) -> Option<i32> {
    let (_, count) = dwords_of_scratch(op.code?, op)?;
    Some(op.mem.offset + 4 * i32::from(count))
}

/// Compares the size of private memory. The jump is taken if it is less.
pub(super) fn compare_scratch<const L: usize>(e: &mut Emitter<'_, L>, size: i32) -> Jump {
    let known = Mem { base: CONTEXT, displacement: offset_of!(Context, private_size) as i32 };
    e.asm.compare_constant(known, size);
    e.asm.jump_if(Condition::Below)
}

/// Compiles a move of dwords of private memory, which are rows. In a run its size has been compared.
pub(super) fn scratch<const L: usize>(e: &mut Emitter<'_, L>, code: Op, op: &MicroOp<L>) -> bool {
    let Some((stores, count)) = dwords_of_scratch(code, op) else { return false };
    let (data, offset) = (&op.src[1], op.mem.offset);
    let before = e.registers();
    let beyond = (!e.is_in_run()).then(|| compare_scratch(e, offset + 4 * i32::from(count)));
    e.asm.load_wide(Gpr::Rax, Mem { base: CONTEXT, displacement: offset_of!(Context, scratch) as i32 });
    for n in 0..count {
        for part in e.each_part() {
            e.next();
            let lanes = e.width.lanes() * usize::from(part);
            let displacement = (offset / 4 + i32::from(n)) * size_of::<Row<L>>() as i32 + 4 * lanes as i32;
            let memory = Mem { base: Gpr::Rax, displacement };
            if stores {
                let value = e.row(data.reg + n, part);
                e.store_active(memory, part, value);
            } else {
                let value = e.fresh();
                e.asm.load_vector(e.width, value, memory);
                e.write(op.dst + n, part, value);
            }
        }
    }
    if let Some(beyond) = beyond {
        e.or_handler(vec![beyond], None, before, op);
    }
    true
}

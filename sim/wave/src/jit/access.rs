// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Templates of loads and stores with all lanes active. A call finds where the lanes' addresses lead, and their
//! pattern: a [`Place`]. The accesses of a block that add different immediates to the same registers share it. Each
//! compares its bounds and the memory's generation, and calls the function that moves data in this pattern. If it may
//! not, it calls the op's handler.

use super::emit::{CONTEXT, Emitter, GENERATION, GROUP, WAVE};
use super::moves::{self, Move, Moves, Pattern};
use super::{Context, PLACES};
use crate::exec;
use crate::fault::Access;
use crate::micro_op::MicroOp;
use crate::operand::SrcKind;
use crate::wave::{Group, Row, Wave};
use sim_isa::{Format, Op, Target};
use sim_jit::{Condition, Gpr, Mem, Width};
use std::mem::{MaybeUninit, offset_of};

/// Where the addresses of a row of offsets lead.
#[repr(C)]
pub(crate) struct Place {
    /// Host address of offset zero; it may wrap around.
    host: u64,
    /// Generation of the memory in which that is so; LDS has none.
    generation: u64,
    /// Functions for the pattern of the offsets.
    moves: *const Moves,
    /// Least immediate that may be added; at most 0.
    start: i32,
    /// Greatest sum of immediate and size.
    end: i32,
}

/// Finds the place of an op's addresses. If there is none, nothing can be accessed.
///
/// # Safety
/// The CPU has AVX-512 F, and all lanes are active.
#[target_feature(enable = "avx512f")]
unsafe extern "sysv64" fn find<const STORES: bool, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    place: &mut MaybeUninit<Place>,
) {
    let place = place.as_mut_ptr();
    // SAFETY: by this function's contract; fields of the place are written.
    unsafe {
        if find_if_there::<STORES, L>(wave, group, op, place).is_none() {
            (&raw mut (*place).end).write(i32::MIN);
        }
    }
}

/// Writes fields one by one: a place that is put together elsewhere is copied by longer loads, which wait.
///
/// # Safety
/// As of [`find`]; `place` can be written.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn find_if_there<const STORES: bool, const L: usize>(
    wave: &Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    place: *mut Place,
) -> Option<()> {
    let format = op.code?.info().encodings[0].format;
    // SAFETY: by this function's contract.
    let Pattern { moves, first, last } = unsafe { Pattern::of(&wave.v[op.src[0].reg as usize].0) };
    // Sums of offset and immediate have 32 bits.
    let most = i64::from(u32::MAX - last);
    let end_of = |room: i64| room.min(most).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    if format == Format::Ds {
        let room = group.lds.len() as i64 - i64::from(last);
        // SAFETY: by this function's contract.
        unsafe {
            (&raw mut (*place).host).write(group.lds.as_mut_ptr() as u64);
            (&raw mut (*place).moves).write(moves);
            (&raw mut (*place).end).write(end_of(room));
        }
        return Some(());
    }
    let (base, limit) = exec::origin(format, wave, group, op)?;
    let access = if STORES { Access::Write } else { Access::Read };
    let start = base.checked_add(first.into())?;
    let (region, generation) = group.memory.region_of(start.checked_add_signed(op.mem.offset.into())?, access)?;
    // Regions have less than 2⁶³ bytes.
    let before = start.wrapping_sub(region.base) as i64;
    let room = (region.size as i64).checked_sub(before)?.checked_sub(i64::from(last - first))?;
    let room = room.min(limit.min(i64::MAX as u64) as i64 - i64::from(last));
    // A buffer's immediate is added to the offset.
    let least = if format == Format::Mubuf { -i64::from(first) } else { i32::MIN.into() };
    let start = (-before).max(least).max(i32::MIN.into());
    let host = base.wrapping_add(region.host.wrapping_sub(region.base));
    if start > 0 {
        return None;
    }
    // SAFETY: by this function's contract.
    unsafe {
        (&raw mut (*place).host).write(host);
        (&raw mut (*place).generation).write(generation);
        (&raw mut (*place).moves).write(moves);
        (&raw mut (*place).start).write(start as i32);
        (&raw mut (*place).end).write(end_of(room));
    }
    Some(())
}

/// The inputs that a place depends on.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Key {
    format: Format,
    stores: bool,
    /// Row of the offsets.
    pub row: u16,
    /// Rows that follow and count too.
    pub more: u16,
    /// Scalar sources.
    scalars: [(SrcKind, u16, u64); 2],
}

impl Key {
    pub fn has_scalars(&self) -> bool {
        self.format != Format::Ds
    }

    /// True if it depends on one of some rows.
    pub fn depends_on(&self, first: u16, count: u16) -> bool {
        self.row < first + count && first <= self.row + self.more
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
        _ => return two_parts(code, op),
    };
    let stores = what >= moves::STORE;
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
    let parts = [0, 1].map(|n| {
        let immediate = (op.mem.offset >> (8 * n) & 0xff) * size * stride;
        Part { what, immediate, size, row: rows[n as usize] }
    });
    Some((stores, parts.to_vec()))
}

/// True if the op accesses memory or LDS, and there is a template for it.
pub(super) fn is_access<const L: usize>(op: &MicroOp<L>, target: Target) -> bool {
    op.code.is_some_and(|code| known(code, op, target).is_some() || dwords_of_scratch(code, op).is_some())
}

/// The place that an op needs, and what it moves.
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
    if e.width != Width::Zmm {
        return false;
    }
    if code.info().encodings[0].format == Format::Scratch {
        return scratch(e, code, op);
    }
    if e.is_masked {
        return false;
    }
    let Some((mut key, mut parts)) = known(code, op, e.target) else { return false };
    if let Some((root, sum)) = e.sum(key.row)
        && key.more == 0
    {
        key.row = root;
        parts.iter_mut().for_each(|part| part.immediate += sum);
    }
    // The row of the offsets is overwritten last.
    if let [first, second] = &mut parts[..]
        && !key.stores
        && (first.row..first.row + (first.size / 4) as u16).contains(&key.row)
    {
        std::mem::swap(first, second);
    }
    let field = |slot: usize, offset: usize| Mem {
        base: CONTEXT,
        displacement: (offset_of!(Context, places) + slot * size_of::<Place>() + offset) as i32,
    };
    let slot = e.place(key).unwrap_or_else(|| {
        let slot = e.new_place(key);
        e.asm.zero_upper();
        e.asm.move_wide(Gpr::Rdi, WAVE);
        e.asm.move_wide(Gpr::Rsi, GROUP);
        e.asm.constant_wide(Gpr::Rdx, std::ptr::from_ref(op) as u64);
        e.asm.load_address(Gpr::Rcx, field(slot, 0));
        type Find<const L: usize> =
            unsafe extern "sysv64" fn(&mut Wave<L>, &mut Group<'_>, &MicroOp<L>, &mut MaybeUninit<Place>);
        let function: Find<L> = if key.stores { find::<true, L> } else { find::<false, L> };
        e.asm.constant_wide(Gpr::Rax, function as usize as u64);
        e.asm.call(Gpr::Rax);
        slot
    });
    let mut jumps = Vec::new();
    if key.format != Format::Ds {
        e.asm.load_wide(Gpr::Rax, Mem { base: GENERATION, displacement: 0 });
        e.asm.compare_wide(Gpr::Rax, field(slot, offset_of!(Place, generation)));
        jumps.push(e.asm.jump_if(Condition::NotEqual));
    }
    let top = parts.iter().map(|part| part.immediate + part.size).max().unwrap_or(0);
    e.asm.compare_constant(field(slot, offset_of!(Place, end)), top);
    jumps.push(e.asm.jump_if(Condition::Less));
    let low = parts.iter().map(|part| part.immediate).min().unwrap_or(0);
    if low < 0 {
        e.asm.compare_constant(field(slot, offset_of!(Place, start)), low);
        jumps.push(e.asm.jump_if(Condition::Greater));
    }
    let host = field(slot, offset_of!(Place, host));
    let address = |e: &mut Emitter<'_, L>, to: Gpr, immediate: i32| {
        e.asm.load_wide(to, host);
        if immediate != 0 {
            e.asm.adjust(to, immediate);
        }
    };
    e.asm.load_address(Gpr::Rdx, e.row_memory(key.row, 0));
    match parts[..] {
        [first, second] if key.stores => {
            address(e, Gpr::Rsi, first.immediate);
            address(e, Gpr::R8, second.immediate);
            e.asm.load_address(Gpr::Rdi, e.row_memory(first.row, 0));
            e.asm.load_address(Gpr::Rcx, e.row_memory(second.row, 0));
            type Store = unsafe extern "sysv64" fn(*const u32, u64, *const u32, *const u32, u64);
            let function: Store = if first.size == 8 { moves::store_pairs::<2, L> } else { moves::store_pairs::<1, L> };
            e.asm.constant_wide(Gpr::Rax, function as usize as u64);
            e.asm.call(Gpr::Rax);
        }
        _ => {
            for (n, part) in parts.iter().enumerate() {
                if n != 0 {
                    e.asm.load_address(Gpr::Rdx, e.row_memory(key.row, 0));
                }
                address(e, Gpr::Rsi, part.immediate);
                e.asm.load_address(Gpr::Rdi, e.row_memory(part.row, 0));
                e.asm.load_wide(Gpr::Rax, field(slot, offset_of!(Place, moves)));
                e.asm.call_memory(Mem { base: Gpr::Rax, displacement: (part.what * size_of::<Move>()) as i32 });
            }
        }
    }
    if key.format == Format::Global {
        e.asm.add_wide(Mem { base: WAVE, displacement: offset_of!(Wave<L>, global_accesses) as i32 }, 1);
    }
    e.or_handler(jumps, op);
    if !key.stores {
        for part in parts {
            e.overwritten(part.row, (part.size as u16).div_ceil(4));
        }
    }
    true
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

/// Dwords of private memory, which are rows.
fn scratch<const L: usize>(e: &mut Emitter<'_, L>, code: Op, op: &MicroOp<L>) -> bool {
    let Some((stores, count)) = dwords_of_scratch(code, op) else { return false };
    let (data, offset) = (&op.src[1], op.mem.offset);
    let field = |offset: usize| Mem { base: CONTEXT, displacement: offset as i32 };
    e.asm.compare_constant(field(offset_of!(Context, private_size)), offset + 4 * i32::from(count));
    let jump = e.asm.jump_if(Condition::Below);
    e.asm.load_wide(Gpr::Rax, field(offset_of!(Context, scratch)));
    for n in 0..count {
        for part in 0..e.parts() {
            e.next();
            let lanes = 16 * usize::from(part);
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
    e.or_handler(vec![jump], op);
    true
}

/// Number of places that a block knows at a time.
pub(super) type Places = [Option<Key>; PLACES];

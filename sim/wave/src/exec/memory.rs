// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Vector memory: buffer, global, flat and scratch loads and stores.
//!
//! Each access has two steps. A [`Space`] computes the addresses of all lanes and the bytes that they may access. Then
//! a load or store below, common to all spaces, moves the data.

use super::access::{
    HIGH, LOW, WHOLE, check_host, extend, load_local, place, read_dwords, read_u32, store_local, write_dwords,
};
use super::address::{Buffer, ByLane, Flat, Global, Lanes, Scratch, Space, addresses};
use super::lanes::{all_lanes, each_lane};
use super::level::{Exec, Level, select};
use super::span::{Small, Span, move_small};
use super::{atomic, transpose};
use crate::fault::{Access, FaultKind};
use crate::hardware::{PRIVATE_APERTURE, slot};
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::operand::SrcKind;
use crate::wave::{Group, Wave};
use sim_isa::{Flags, Format, Op};
use std::ops::Range;

/// Handler of a vector memory op. Kernels are not launched in clusters, so `cluster_*` loads are plain loads of each
/// workgroup.
pub(super) fn handler<const L: usize>(op: Op, level: Level) -> Option<Handler<L>> {
    match op.info().encodings[0].format {
        Format::Mubuf => access::<Buffer, L>(op, level),
        Format::Global => access::<Global, L>(op, level),
        Format::Flat => access::<Flat, L>(op, level),
        Format::Scratch => access::<Scratch, L>(op, level),
        _ => None,
    }
}

/// The handler of a buffer load whose LDS bit is set.
pub(crate) fn lds_handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    Some(match op {
        Op::BufferLoadU8 => LoadToLds::<Buffer, 1, false>::run,
        Op::BufferLoadI8 => LoadToLds::<Buffer, 1, true>::run,
        Op::BufferLoadU16 => LoadToLds::<Buffer, 2, false>::run,
        Op::BufferLoadI16 => LoadToLds::<Buffer, 2, true>::run,
        Op::BufferLoadB32 => LoadToLds::<Buffer, 4, false>::run,
        Op::BufferLoadB96 => LoadToLds::<Buffer, 12, false>::run,
        Op::BufferLoadB128 => LoadToLds::<Buffer, 16, false>::run,
        _ => return None,
    })
}

/// Handler of an op, by the part of its mnemonic after the space: one line serves all spaces that have it.
fn access<S: Space, const L: usize>(op: Op, level: Level) -> Option<Handler<L>> {
    if op.has(Flags::ATOMIC) {
        return atomic::handler::<S, L>(op);
    }
    let (_, what) = op.name().split_once('_')?;
    Some(match what {
        "load_addtid_b32" => select::<Load<ByLane, 1>, L>(level),
        "store_addtid_b32" => select::<Store<ByLane, 1>, L>(level),
        "load_b32" => select::<Load<S, 1>, L>(level),
        "load_b64" => select::<Load<S, 2>, L>(level),
        "load_b96" => select::<Load<S, 3>, L>(level),
        "load_b128" => select::<Load<S, 4>, L>(level),
        "load_monitor_b32" => select::<Load<S, 1>, L>(level),
        "load_monitor_b64" => select::<Load<S, 2>, L>(level),
        "load_monitor_b128" => select::<Load<S, 4>, L>(level),
        "load_tr16_b128" => transposed_tile::<S, 16, 4, L>,
        "load_tr8_b64" => transposed_tile::<S, 8, 2, L>,
        "load_tr6_b96" => transposed_tile::<S, 6, 3, L>,
        "load_tr4_b64" => transposed_tile::<S, 4, 2, L>,
        "load_async_to_lds_b8" => load_async::<S, 1, L>,
        "load_async_to_lds_b32" => load_async::<S, 4, L>,
        "load_async_to_lds_b64" => load_async::<S, 8, L>,
        "load_async_to_lds_b128" => load_async::<S, 16, L>,
        "store_async_from_lds_b8" => store_async::<S, 1, L>,
        "store_async_from_lds_b32" => store_async::<S, 4, L>,
        "store_async_from_lds_b64" => store_async::<S, 8, L>,
        "store_async_from_lds_b128" => store_async::<S, 16, L>,
        "store_b32" => select::<Store<S, 1>, L>(level),
        "store_b64" => select::<Store<S, 2>, L>(level),
        "store_b96" => select::<Store<S, 3>, L>(level),
        "store_b128" => select::<Store<S, 4>, L>(level),
        "load_u8" => LoadSmall::<S, 1, false, WHOLE>::run,
        "load_i8" => LoadSmall::<S, 1, true, WHOLE>::run,
        "load_u16" => LoadSmall::<S, 2, false, WHOLE>::run,
        "load_i16" => LoadSmall::<S, 2, true, WHOLE>::run,
        "load_d16_u8" => LoadSmall::<S, 1, false, LOW>::run,
        "load_d16_i8" => LoadSmall::<S, 1, true, LOW>::run,
        "load_d16_b16" => LoadSmall::<S, 2, false, LOW>::run,
        "load_d16_hi_u8" => LoadSmall::<S, 1, false, HIGH>::run,
        "load_d16_hi_i8" => LoadSmall::<S, 1, true, HIGH>::run,
        "load_d16_hi_b16" => LoadSmall::<S, 2, false, HIGH>::run,
        "store_b8" => StoreSmall::<S, 1, LOW>::run,
        "store_b16" => StoreSmall::<S, 2, LOW>::run,
        "store_d16_hi_b8" => StoreSmall::<S, 1, HIGH>::run,
        "store_d16_hi_b16" => StoreSmall::<S, 2, HIGH>::run,
        "load_block" => load_block::<S, L>,
        "store_block" => store_block::<S, L>,
        "load_tr_b64" => transposed::<S, 1, L>,
        "load_tr_b128" => transposed::<S, 2, L>,
        "load_lds_u8" => LoadToLds::<S, 1, false>::run,
        "load_lds_i8" => LoadToLds::<S, 1, true>::run,
        "load_lds_u16" => LoadToLds::<S, 2, false>::run,
        "load_lds_i16" => LoadToLds::<S, 2, true>::run,
        "load_lds_b32" => LoadToLds::<S, 4, false>::run,
        "load_lds_b96" => LoadToLds::<S, 12, false>::run,
        "load_lds_b128" => LoadToLds::<S, 16, false>::run,
        _ => return None,
    })
}

struct Load<S, const DWORDS: usize>(std::marker::PhantomData<S>);

impl<S: Space, const DWORDS: usize, const L: usize> Exec<L> for Load<S, DWORDS> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let dst = op.dst as usize;
        if let Some(span) = Span::find::<S>(wave, group, op, 4 * DWORDS as u32, Access::Read) {
            // SAFETY: the span is readable.
            unsafe { span.load::<DWORDS>(wave, dst) };
            return Ok(());
        }
        load_lanes::<S, DWORDS, L>(wave, group, op)
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        load_lanes::<S, DWORDS, L>(wave, group, op)
    }
}

/// A load whose lanes are not in one span.
#[inline(never)]
fn load_lanes<S: Space, const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let (size, dst) = (4 * DWORDS as u32, op.dst as usize);
    if let Some(span) = Span::find_in_caches::<S>(wave, group, op, size, Access::Read) {
        // SAFETY: the span is readable.
        unsafe { span.load::<DWORDS>(wave, dst) };
        return Ok(());
    }
    let lanes = S::addresses(wave, group, op, size)?;
    if lanes.host != 0 {
        check_host(wave, group, &lanes, size, Access::Read)?;
        let rows = &mut wave.v[dst..dst + DWORDS];
        for lane in each_lane(lanes.host) {
            // SAFETY: `check_host` found this lane's bytes readable.
            let values: [u32; DWORDS] = unsafe { read_dwords(wave.addresses[lane]) };
            for (row, value) in rows.iter_mut().zip(values) {
                row.0[lane] = value;
            }
        }
    }
    if lanes.host != wave.exec() & Wave::<L>::LANES {
        load_rest::<DWORDS, L>(wave, group, dst, &lanes)?;
    }
    Ok(())
}

/// The rows of private memory that a lane's dwords are in, if the address leads there, is aligned, and within bounds.
#[inline(always)]
fn private_rows<const DWORDS: usize>(address: u64, private_size: u32) -> Option<Range<usize>> {
    let offset = u64::from(address as u32);
    let is_private = (address >> 32) as u32 == PRIVATE_APERTURE && offset.is_multiple_of(4);
    let first = offset as usize / 4;
    (is_private && offset + 4 * DWORDS as u64 <= private_size.into()).then_some(first..first + DWORDS)
}

/// The lanes that read LDS, scratch, or beyond a buffer's end.
#[inline(never)]
fn load_rest<const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    dst: usize,
    lanes: &Lanes,
) -> Step {
    for lane in each_lane(lanes.beyond) {
        for i in 0..DWORDS {
            let address = wave.addresses[lane] + 4 * i as u64;
            let value = if 4 * i as u32 + 4 <= wave.room.0[lane] {
                let host = group.memory.check(address, 4, Access::Read, lane)?;
                // SAFETY: `check` found these bytes readable.
                unsafe { read_u32(host) }
            } else {
                0
            };
            wave.v[dst + i].0[lane] = value;
        }
    }
    for lane in each_lane(lanes.local) {
        if let Some(rows) = private_rows::<DWORDS>(wave.addresses[lane], group.private_size) {
            for (row, private) in wave.v[dst..dst + DWORDS].iter_mut().zip(&wave.scratch[rows]) {
                row.0[lane] = private.0[lane];
            }
            continue;
        }
        let mut bytes = [[0; 4]; DWORDS];
        load_local(wave, group, lane, bytes.as_flattened_mut())?;
        for (i, dword) in bytes.into_iter().enumerate() {
            wave.v[dst + i].0[lane] = u32::from_le_bytes(dword);
        }
    }
    Ok(())
}

struct Store<S, const DWORDS: usize>(std::marker::PhantomData<S>);

impl<S: Space, const DWORDS: usize, const L: usize> Exec<L> for Store<S, DWORDS> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        if let Some(span) = Span::find::<S>(wave, group, op, 4 * DWORDS as u32, Access::Write) {
            // SAFETY: the span is writable.
            unsafe { span.store::<DWORDS>(wave, op.src[1].reg as usize) };
            return Ok(());
        }
        store_lanes::<S, DWORDS, L>(wave, group, op)
    }

    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        store_lanes::<S, DWORDS, L>(wave, group, op)
    }
}

/// A store whose lanes are not in one span.
#[inline(never)]
fn store_lanes<S: Space, const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let size = 4 * DWORDS as u32;
    let data = op.src[1].reg as usize;
    if let Some(span) = Span::find_in_caches::<S>(wave, group, op, size, Access::Write) {
        // SAFETY: the span is writable.
        unsafe { span.store::<DWORDS>(wave, data) };
        return Ok(());
    }
    let lanes = S::addresses(wave, group, op, size)?;
    if lanes.host != 0 {
        check_host(wave, group, &lanes, size, Access::Write)?;
        let rows = &wave.v[data..data + DWORDS];
        for lane in each_lane(lanes.host) {
            let values: [u32; DWORDS] = std::array::from_fn(|i| rows[i].0[lane]);
            // SAFETY: `check_host` found this lane's bytes writable.
            unsafe { write_dwords(wave.addresses[lane], values) };
        }
    }
    for lane in each_lane(lanes.beyond) {
        for i in (0..DWORDS).filter(|i| 4 * *i as u32 + 4 <= wave.room.0[lane]) {
            let address = wave.addresses[lane] + 4 * i as u64;
            let host = group.memory.check(address, 4, Access::Write, lane)?;
            // SAFETY: `check` found these bytes writable; any alignment is allowed.
            unsafe { (host as *mut u32).write_unaligned(wave.v[data + i].0[lane]) };
        }
    }
    for lane in each_lane(lanes.local) {
        if let Some(rows) = private_rows::<DWORDS>(wave.addresses[lane], group.private_size) {
            for (private, row) in wave.scratch[rows].iter_mut().zip(&wave.v[data..data + DWORDS]) {
                private.0[lane] = row.0[lane];
            }
            continue;
        }
        let mut bytes = [[0; 4]; DWORDS];
        for (i, dword) in bytes.iter_mut().enumerate() {
            *dword = wave.v[data + i].0[lane].to_le_bytes();
        }
        store_local(wave, group, lane, bytes.as_flattened())?;
    }
    Ok(())
}

/// Loads the dwords whose bits are set in M0, each into the register of its number (RDNA4 ISA, GLOBAL_LOAD_BLOCK).
fn load_block<S: Space, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let lanes = addresses::<S, L>(wave, group, op, 4)?;
    for n in each_lane(wave.s[slot::M0].into()) {
        for lane in each_lane(lanes.host | lanes.local) {
            let mut bytes = [0; 4];
            wave.addresses[lane] += 4 * n as u64;
            if lanes.local >> lane & 1 != 0 {
                load_local(wave, group, lane, &mut bytes)?;
            } else {
                let host = group.memory.check(wave.addresses[lane], 4, Access::Read, lane)?;
                // SAFETY: `check` found these bytes readable.
                bytes = unsafe { read_u32(host) }.to_le_bytes();
            }
            wave.addresses[lane] -= 4 * n as u64;
            wave.v[op.dst as usize + n].0[lane] = u32::from_le_bytes(bytes);
        }
    }
    Ok(())
}

fn store_block<S: Space, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let lanes = addresses::<S, L>(wave, group, op, 4)?;
    for n in each_lane(wave.s[slot::M0].into()) {
        for lane in each_lane(lanes.host | lanes.local) {
            let value = wave.v[op.src[1].reg as usize + n].0[lane];
            wave.addresses[lane] += 4 * n as u64;
            if lanes.local >> lane & 1 != 0 {
                store_local(wave, group, lane, &value.to_le_bytes())?;
            } else {
                let host = group.memory.check(wave.addresses[lane], 4, Access::Write, lane)?;
                // SAFETY: `check` found these bytes writable; any alignment is allowed.
                unsafe { (host as *mut u32).write_unaligned(value) };
            }
            wave.addresses[lane] -= 4 * n as u64;
        }
    }
    Ok(())
}

struct LoadSmall<S, const BYTES: usize, const SIGNED: bool, const PLACE: u8>(std::marker::PhantomData<S>);

impl<S: Space, const BYTES: usize, const SIGNED: bool, const PLACE: u8> LoadSmall<S, BYTES, SIGNED, PLACE> {
    fn run<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        if move_small::<S, BYTES, L>(wave, group, op, Small::Load(SIGNED, PLACE)) {
            return Ok(());
        }
        let lanes = addresses::<S, L>(wave, group, op, BYTES as u32)?;
        load_small::<BYTES, L>(wave, group, op.dst as usize, &lanes, SIGNED, PLACE)
    }
}

fn load_small<const BYTES: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    dst: usize,
    lanes: &Lanes,
    signed: bool,
    half: u8,
) -> Step {
    if lanes.host != 0 {
        check_host(wave, group, lanes, BYTES as u32, Access::Read)?;
    }
    for lane in each_lane(lanes.host | lanes.beyond | lanes.local) {
        let mut bytes = [0; BYTES];
        if lanes.local >> lane & 1 != 0 {
            load_local(wave, group, lane, &mut bytes)?;
        } else if lanes.host >> lane & 1 != 0 {
            // SAFETY: `check_host` found this lane's bytes readable.
            bytes = unsafe { (wave.addresses[lane] as *const [u8; BYTES]).read() };
        }
        let register = &mut wave.v[dst].0[lane];
        *register = place(*register, extend(&bytes, signed), half);
    }
    Ok(())
}

/// Loads the halves of rows of a tile of 16×16 elements of `BYTES` bytes, and puts halves of its columns into the
/// registers: lanes *l* and *l* + 16 load row *l* and get column *l* (RDNA4 ISA, GLOBAL_LOAD_TR_B128).
fn transposed<S: Space, const BYTES: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    if L != 32 || wave.exec() & Wave::<L>::LANES != Wave::<L>::LANES {
        let what = "a transposing load in wave64, or with inactive lanes";
        return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what.to_owned()))));
    }
    let size = 8 * BYTES as u32;
    let lanes = addresses::<S, L>(wave, group, op, size)?;
    check_host(wave, group, &lanes, size, Access::Read)?;
    for lane in 0..L {
        for part in 0..2 * BYTES {
            let mut dword = [0; 4];
            for (at, byte) in dword.iter_mut().enumerate() {
                let (n, inside) = ((4 * part + at) / BYTES, (4 * part + at) % BYTES);
                let (row, column) = (lane / 16 * 8 + n, lane % 16);
                let from = wave.addresses[row + column / 8 * 16] + (column % 8 * BYTES + inside) as u64;
                // SAFETY: `check_host` found all bytes of this lane's access readable.
                *byte = unsafe { (from as *const u8).read() };
            }
            wave.v[op.dst as usize + part].0[lane] = u32::from_le_bytes(dword);
        }
    }
    Ok(())
}

/// gfx1250: every lane loads `DWORDS` dwords with elements of `BITS` bits, and gets elements of others.
fn transposed_tile<S: Space, const BITS: usize, const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    all_lanes(wave)?;
    let size = 4 * DWORDS as u32;
    let lanes = addresses::<S, L>(wave, group, op, size)?;
    check_host(wave, group, &lanes, size, Access::Read)?;
    // SAFETY: `check_host` found all bytes of every lane's access readable; any alignment is allowed.
    let loaded = wave.addresses.map(|from| unsafe { (from as *const [u32; DWORDS]).read_unaligned() });
    transpose::put::<BITS, DWORDS, L>(wave, op.dst as usize, &loaded);
    Ok(())
}

/// First LDS byte of a lane's asynchronous transfer: the address in the register plus the immediate offset, which
/// counts on both sides, in 32 bits that wrap around.
fn lds_side<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>, lane: usize) -> usize {
    let register = if op.src[1].kind == SrcKind::Vgpr { op.src[1].reg } else { op.dst };
    wave.v[register as usize].0[lane].wrapping_add(op.mem.offset as u32) as usize
}

/// The lanes of an asynchronous transfer whose bytes are within the group segment. Hardware drops the others, whose
/// address of memory may be any: Triton masks lanes by an LDS address that is out of range.
pub(super) fn within_lds<const L: usize>(
    wave: &Wave<L>,
    group: &Group<'_>,
    op: &MicroOp<L>,
    (lanes, size): (u64, u32),
) -> u64 {
    let is_within = |lane: &usize| lds_side(wave, op, *lane) + size as usize <= group.lds.len();
    each_lane(lanes).filter(is_within).fold(0, |set, lane| set | 1 << lane)
}

/// `global_load_async_to_lds_*`: done at once, which a correct kernel cannot distinguish.
fn load_async<S: Space, const BYTES: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let lanes = addresses::<S, L>(wave, group, op, BYTES as u32)?;
    let lanes = Lanes::host(wave, within_lds(wave, group, op, (lanes.host, BYTES as u32)));
    if lanes.host != 0 {
        check_host(wave, group, &lanes, BYTES as u32, Access::Read)?;
    }
    for lane in each_lane(lanes.host) {
        // SAFETY: `check_host` found this lane's bytes readable.
        let bytes = unsafe { (wave.addresses[lane] as *const [u8; BYTES]).read() };
        let at = lds_side(wave, op, lane);
        group.lds[at..at + BYTES].copy_from_slice(&bytes);
    }
    Ok(())
}

/// `global_store_async_from_lds_*`.
fn store_async<S: Space, const BYTES: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let lanes = addresses::<S, L>(wave, group, op, BYTES as u32)?;
    let lanes = Lanes::host(wave, within_lds(wave, group, op, (lanes.host, BYTES as u32)));
    if lanes.host != 0 {
        check_host(wave, group, &lanes, BYTES as u32, Access::Write)?;
    }
    for lane in each_lane(lanes.host) {
        let at = lds_side(wave, op, lane);
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(&group.lds[at..at + BYTES]);
        // SAFETY: `check_host` found this lane's bytes writable.
        unsafe { (wave.addresses[lane] as *mut [u8; BYTES]).write(bytes) };
    }
    Ok(())
}

/// Loads to LDS: each lane has a dword there, at M0 plus the immediate offset plus four times its number (CDNA3 ISA,
/// "Memory buffer load to LDS"); of gfx950's wider loads all its dwords.
struct LoadToLds<S, const BYTES: usize, const SIGNED: bool>(std::marker::PhantomData<S>);

impl<S: Space, const BYTES: usize, const SIGNED: bool> LoadToLds<S, BYTES, SIGNED> {
    fn run<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let lanes = addresses::<S, L>(wave, group, op, BYTES as u32)?;
        load_to_lds::<BYTES, SIGNED, L>(wave, group, op, &lanes)
    }
}

fn load_to_lds<const BYTES: usize, const SIGNED: bool, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    lanes: &Lanes,
) -> Step {
    if lanes.host != 0 {
        check_host(wave, group, lanes, BYTES as u32, Access::Read)?;
    }
    // More than 64 KiB has gfx950 alone of the targets with these loads.
    let mask = if group.lds.len() > 0x1_0000 { 0x3_ffff } else { 0xffff };
    let start = i64::from(wave.s[slot::M0] & mask) + i64::from(op.mem.offset);
    let size = BYTES.max(4);
    for lane in each_lane(lanes.host | lanes.beyond | lanes.local) {
        let mut bytes = [0; BYTES];
        if lanes.local >> lane & 1 != 0 {
            load_local(wave, group, lane, &mut bytes)?;
        } else if lanes.host >> lane & 1 != 0 {
            // SAFETY: `check_host` found this lane's bytes readable.
            bytes = unsafe { (wave.addresses[lane] as *const [u8; BYTES]).read() };
        }
        let at = start + (size * lane) as i64;
        let limit = group.lds.len() as u32;
        let Some(target) = usize::try_from(at).ok().and_then(|at| group.lds.get_mut(at..at + size)) else {
            let (offset, size, access, lane) = (at as u64, size as u32, Access::Write, lane as u32);
            return Err(Stop::Fault(Box::new(FaultKind::LdsOutOfBounds { offset, size, limit, access, lane })));
        };
        if BYTES < 4 {
            target.copy_from_slice(&extend(&bytes, SIGNED).to_le_bytes());
        } else {
            target.copy_from_slice(&bytes);
        }
    }
    Ok(())
}

struct StoreSmall<S, const BYTES: usize, const PLACE: u8>(std::marker::PhantomData<S>);

impl<S: Space, const BYTES: usize, const PLACE: u8> StoreSmall<S, BYTES, PLACE> {
    fn run<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        if move_small::<S, BYTES, L>(wave, group, op, Small::Store(if PLACE == HIGH { 16 } else { 0 })) {
            return Ok(());
        }
        let lanes = addresses::<S, L>(wave, group, op, BYTES as u32)?;
        store_small::<BYTES, L>(wave, group, op.src[1].reg as usize, &lanes, PLACE)
    }
}

fn store_small<const BYTES: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    data: usize,
    lanes: &Lanes,
    half: u8,
) -> Step {
    if lanes.host != 0 {
        check_host(wave, group, lanes, BYTES as u32, Access::Write)?;
    }
    for lane in each_lane(lanes.host | lanes.local) {
        let value = wave.v[data].0[lane] >> if half == HIGH { 16 } else { 0 };
        let bytes: [u8; BYTES] = std::array::from_fn(|i| (value >> (8 * i)) as u8);
        if lanes.local >> lane & 1 != 0 {
            store_local(wave, group, lane, &bytes)?;
        } else {
            // SAFETY: `check_host` found this lane's bytes writable.
            unsafe { (wave.addresses[lane] as *mut [u8; BYTES]).write(bytes) };
        }
    }
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Vector memory: buffer, global, flat and scratch loads and stores.
//!
//! Each access is in two steps: a [`Space`] computes the addresses of all lanes and what they may touch, then one of the loads or stores
//! below, common to all spaces, moves the data.

use super::address::{Buffer, ByLane, Flat, Global, Lanes, Scratch, Space, addresses};
use super::{Exec, Level, atomic, select, transpose};
use crate::fault::{Access, FaultKind};
use crate::program::MicroOp;
use crate::wave::{Group, Handler, PRIVATE_APERTURE, Row, SHARED_APERTURE, Step, Stop, Wave, slot};
use sim_isa::Op;

/// The handler of a vector memory op.
pub(super) fn handler<const L: usize>(op: Op, level: Level) -> Option<Handler<L>> {
    let name = op.name();
    if let Some(what) = name.strip_prefix("buffer_") {
        access::<Buffer, L>(what, level)
    } else if let Some(what) = name.strip_prefix("global_") {
        access::<Global, L>(what, level)
    } else if let Some(what) = name.strip_prefix("cluster_") {
        // Kernels are not launched in clusters: each workgroup gets what it asks for.
        access::<Global, L>(what, level)
    } else if let Some(what) = name.strip_prefix("flat_") {
        access::<Flat, L>(what, level)
    } else if let Some(what) = name.strip_prefix("scratch_") {
        access::<Scratch, L>(what, level)
    } else {
        None
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
        _ => return None,
    })
}

/// The handler of what follows the space in a mnemonic.
fn access<S: Space, const L: usize>(what: &str, level: Level) -> Option<Handler<L>> {
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
        _ => return atomic::handler::<S, L>(what.strip_prefix("atomic_")?),
    })
}

/// Reads four bytes of host memory.
///
/// # Safety
/// `address..address + 4` is mapped and readable.
#[inline(always)]
pub(super) unsafe fn read_u32(address: u64) -> u32 {
    // SAFETY: by this function's contract; any alignment is allowed.
    unsafe { (address as *const u32).read_unaligned() }
}

/// The lanes of `bits`.
pub(super) fn each_lane(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (lane < 64).then_some(lane)
    })
}

/// Checks that the host lanes of an access are allowed to make it; from then on their addresses are those that the host has.
#[inline(always)]
pub(super) fn check_host<const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    lanes: &Lanes,
    size: u32,
    access: Access,
) -> Result<(), Stop> {
    let (first, last) = lanes.span;
    match group.memory.displacement(first, last.wrapping_sub(first).saturating_add(u64::from(size)), access) {
        Some(0) => Ok(()),
        displacement => check_lanes(wave, group, lanes.host, displacement, (size, access)),
    }
}

/// Lane by lane, if their addresses are in more than one region, or outside of all, or displaced from the host's.
#[inline(never)]
fn check_lanes<const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    lanes: u64,
    displacement: Option<u64>,
    (size, access): (u32, Access),
) -> Result<(), Stop> {
    for lane in each_lane(lanes) {
        let address = &mut wave.addresses[lane];
        *address = match displacement {
            Some(displacement) => address.wrapping_add(displacement),
            None => group.memory.check(*address, size, access, lane)?,
        };
    }
    Ok(())
}

/// Where a lane's address that is not in host memory leads.
enum Local {
    Lds(usize),
    Scratch(usize),
}

/// Resolves an address in an aperture, and checks it.
fn local<const L: usize>(
    wave: &Wave<L>,
    group: &Group<'_>,
    lane: usize,
    size: u32,
    access: Access,
) -> Result<Local, Stop> {
    let address = wave.addresses[lane];
    let offset = u64::from(address as u32);
    let end = offset + u64::from(size);
    let lane = lane as u32;
    match (address >> 32) as u32 {
        SHARED_APERTURE if end <= group.lds.len() as u64 => Ok(Local::Lds(offset as usize)),
        SHARED_APERTURE => {
            let limit = group.lds.len() as u32;
            Err(Stop::Fault(Box::new(FaultKind::LdsOutOfBounds { offset, size, limit, access, lane })))
        }
        PRIVATE_APERTURE if end <= u64::from(group.private_size) => Ok(Local::Scratch(offset as usize)),
        _ => {
            let limit = group.private_size;
            let offset = if (address >> 32) as u32 == PRIVATE_APERTURE {
                offset as i64
            } else {
                address.wrapping_sub(u64::from(PRIVATE_APERTURE) << 32) as i64
            };
            Err(Stop::Fault(Box::new(FaultKind::ScratchOutOfBounds { offset, size, limit, access, lane })))
        }
    }
}

/// Copies from LDS or scratch.
pub(super) fn load_local<const L: usize>(
    wave: &Wave<L>,
    group: &Group<'_>,
    lane: usize,
    bytes: &mut [u8],
) -> Result<(), Stop> {
    match local(wave, group, lane, bytes.len() as u32, Access::Read)? {
        Local::Lds(offset) => bytes.copy_from_slice(&group.lds[offset..offset + bytes.len()]),
        Local::Scratch(offset) => {
            for (i, byte) in bytes.iter_mut().enumerate() {
                let at = offset + i;
                *byte = (wave.scratch[at / 4].0[lane] >> (8 * (at % 4))) as u8;
            }
        }
    }
    Ok(())
}

/// Copies to LDS or scratch.
pub(super) fn store_local<const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    lane: usize,
    bytes: &[u8],
) -> Result<(), Stop> {
    match local(wave, group, lane, bytes.len() as u32, Access::Write)? {
        Local::Lds(offset) => group.lds[offset..offset + bytes.len()].copy_from_slice(bytes),
        Local::Scratch(offset) => {
            for (i, byte) in bytes.iter().enumerate() {
                let at = offset + i;
                let shift = 8 * (at % 4);
                let dword = &mut wave.scratch[at / 4].0[lane];
                *dword = *dword & !(0xff << shift) | u32::from(*byte) << shift;
            }
        }
    }
    Ok(())
}

struct Load<S, const DWORDS: usize>(std::marker::PhantomData<S>);

impl<S: Space, const DWORDS: usize, const L: usize> Exec<L> for Load<S, DWORDS> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let size = 4 * DWORDS as u32;
        let lanes = S::addresses(wave, group, op, size)?;
        let dst = op.dst as usize;
        if lanes.host != 0 {
            check_host(wave, group, &lanes, size, Access::Read)?;
            let rows = &mut wave.v[dst..dst + DWORDS];
            if lanes.host == Wave::<L>::LANES {
                // SAFETY: `check_host` found all lanes' bytes readable.
                unsafe { gather::<DWORDS, L>(rows, &wave.addresses) };
            } else {
                for lane in each_lane(lanes.host) {
                    for (i, row) in rows.iter_mut().enumerate() {
                        // SAFETY: `check_host` found this lane's bytes readable.
                        row.0[lane] = unsafe { read_u32(wave.addresses[lane] + 4 * i as u64) };
                    }
                }
            }
        }
        if lanes.host != wave.exec() & Wave::<L>::LANES {
            load_rest::<DWORDS, L>(wave, group, dst, &lanes)?;
        }
        Ok(())
    }
}

/// Reads `DWORDS` dwords of every lane.
///
/// # Safety
/// From each address on, `4 * DWORDS` bytes are mapped and readable.
#[inline(always)]
unsafe fn gather<const DWORDS: usize, const L: usize>(rows: &mut [Row<L>], addresses: &[u64; L]) {
    #[cfg(target_arch = "x86_64")]
    if let [r0, r1, r2, r3] = rows {
        use std::arch::x86_64::{_MM_TRANSPOSE4_PS, _mm_loadu_ps, _mm_storeu_ps};
        for lane in (0..L).step_by(4) {
            // SAFETY: the lanes' 16 bytes are readable by this function's contract; rows have four lanes from `lane` on, as L is a
            // multiple of four. SSE is part of x86-64.
            unsafe {
                let [mut a, mut b, mut c, mut d] =
                    [0, 1, 2, 3].map(|i| _mm_loadu_ps(addresses[lane + i] as *const f32));
                _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
                for (row, value) in [&mut *r0, &mut *r1, &mut *r2, &mut *r3].into_iter().zip([a, b, c, d]) {
                    _mm_storeu_ps(row.0[lane..lane + 4].as_mut_ptr().cast(), value);
                }
            }
        }
        return;
    }
    for (lane, &address) in addresses.iter().enumerate() {
        for (i, row) in rows.iter_mut().enumerate() {
            // SAFETY: by this function's contract.
            row.0[lane] = unsafe { read_u32(address + 4 * i as u64) };
        }
    }
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
        let size = 4 * DWORDS as u32;
        let lanes = S::addresses(wave, group, op, size)?;
        let data = op.src[1].reg as usize;
        if lanes.host != 0 {
            check_host(wave, group, &lanes, size, Access::Write)?;
            let rows = &wave.v[data..data + DWORDS];
            for lane in each_lane(lanes.host) {
                for (i, row) in rows.iter().enumerate() {
                    let target = (wave.addresses[lane] + 4 * i as u64) as *mut u32;
                    // SAFETY: `check_host` found this lane's bytes writable; any alignment is allowed.
                    unsafe { target.write_unaligned(row.0[lane]) };
                }
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
            let mut bytes = [[0; 4]; DWORDS];
            for (i, dword) in bytes.iter_mut().enumerate() {
                *dword = wave.v[data + i].0[lane].to_le_bytes();
            }
            store_local(wave, group, lane, bytes.as_flattened())?;
        }
        Ok(())
    }
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

/// A loaded value fills the register.
const WHOLE: u8 = 0;
/// It fills the low half; the high half stays.
const LOW: u8 = 1;
/// It fills the high half; the low half stays.
const HIGH: u8 = 2;

/// Puts a loaded byte or word into its register.
pub(super) fn place(old: u32, value: u32, place: u8) -> u32 {
    match place {
        WHOLE => value,
        LOW => old & 0xffff_0000 | value & 0xffff,
        _ => old & 0x0000_ffff | value << 16,
    }
}

/// Extends a byte or word.
pub(super) fn extend(bytes: &[u8], signed: bool) -> u32 {
    match (bytes, signed) {
        ([byte], false) => u32::from(*byte),
        ([byte], true) => i32::from(*byte as i8) as u32,
        (_, false) => u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        (_, true) => i32::from(i16::from_le_bytes([bytes[0], bytes[1]])) as u32,
    }
}

struct LoadSmall<S, const BYTES: usize, const SIGNED: bool, const PLACE: u8>(std::marker::PhantomData<S>);

impl<S: Space, const BYTES: usize, const SIGNED: bool, const PLACE: u8> LoadSmall<S, BYTES, SIGNED, PLACE> {
    fn run<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
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

/// Loads the halves of rows of a tile of 16×16 elements of `BYTES` bytes, and puts halves of its columns into the registers: what lane
/// *l* and the one 16 further load is row *l*, what they get is column *l* (RDNA4 ISA, GLOBAL_LOAD_TR_B128).
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

/// Refuses a wave with inactive lanes.
pub(super) fn all_lanes<const L: usize>(wave: &Wave<L>) -> Step {
    if wave.exec() & Wave::<L>::LANES == Wave::<L>::LANES {
        return Ok(());
    }
    let what = "an exchange of all lanes, with inactive ones";
    Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what.to_owned()))))
}

/// The LDS bytes of a lane's transfer: at the address in `register` plus the immediate offset, which counts on both sides, in 32 bits that
/// wrap around.
fn lds_side<'a, const L: usize>(
    wave: &Wave<L>,
    group: &'a mut Group<'_>,
    op: &MicroOp<L>,
    register: u16,
    (lane, size, access): (usize, usize, Access),
) -> Result<&'a mut [u8], Stop> {
    let at = wave.v[register as usize].0[lane].wrapping_add(op.mem.offset as u32) as usize;
    let limit = group.lds.len() as u32;
    group.lds.get_mut(at..at + size).ok_or_else(|| {
        let (offset, size, lane) = (at as u64, size as u32, lane as u32);
        Stop::Fault(Box::new(FaultKind::LdsOutOfBounds { offset, size, limit, access, lane }))
    })
}

/// `global_load_async_to_lds_*`: done at once, as a wait for it could not tell.
fn load_async<S: Space, const BYTES: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let lanes = addresses::<S, L>(wave, group, op, BYTES as u32)?;
    check_host(wave, group, &lanes, BYTES as u32, Access::Read)?;
    for lane in each_lane(lanes.host) {
        // SAFETY: `check_host` found this lane's bytes readable.
        let bytes = unsafe { (wave.addresses[lane] as *const [u8; BYTES]).read() };
        lds_side(wave, group, op, op.dst, (lane, BYTES, Access::Write))?.copy_from_slice(&bytes);
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
    check_host(wave, group, &lanes, BYTES as u32, Access::Write)?;
    for lane in each_lane(lanes.host) {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(lds_side(wave, group, op, op.src[1].reg, (lane, BYTES, Access::Read))?);
        // SAFETY: `check_host` found this lane's bytes writable.
        unsafe { (wave.addresses[lane] as *mut [u8; BYTES]).write(bytes) };
    }
    Ok(())
}

/// Loads to LDS: each lane has a dword there, at M0 plus the immediate offset plus four times its number (CDNA3 ISA, "Memory buffer load
/// to LDS").
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
    let start = i64::from(wave.s[slot::M0] & 0xffff) + i64::from(op.mem.offset);
    for lane in each_lane(lanes.host | lanes.beyond | lanes.local) {
        let mut bytes = [0; BYTES];
        if lanes.local >> lane & 1 != 0 {
            load_local(wave, group, lane, &mut bytes)?;
        } else if lanes.host >> lane & 1 != 0 {
            // SAFETY: `check_host` found this lane's bytes readable.
            bytes = unsafe { (wave.addresses[lane] as *const [u8; BYTES]).read() };
        }
        let value = match <[u8; 4]>::try_from(&bytes[..]) {
            Ok(dword) => u32::from_le_bytes(dword),
            Err(_) => extend(&bytes, SIGNED),
        };
        let at = start + 4 * lane as i64;
        let limit = group.lds.len() as u32;
        let Some(target) = usize::try_from(at).ok().and_then(|at| group.lds.get_mut(at..at + 4)) else {
            let (offset, access, lane) = (at as u64, Access::Write, lane as u32);
            return Err(Stop::Fault(Box::new(FaultKind::LdsOutOfBounds { offset, size: 4, limit, access, lane })));
        };
        target.copy_from_slice(&value.to_le_bytes());
    }
    Ok(())
}

struct StoreSmall<S, const BYTES: usize, const PLACE: u8>(std::marker::PhantomData<S>);

impl<S: Space, const BYTES: usize, const PLACE: u8> StoreSmall<S, BYTES, PLACE> {
    fn run<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
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

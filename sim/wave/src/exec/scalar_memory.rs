// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Scalar loads (RDNA3 ISA 16.6).

use super::access::{extend, read_u32};
use super::address::Wide;
use super::atomic::{self, Operation, Performs, Rmw, Word};
use crate::fault::{Access, FaultKind};
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::operand::SrcKind;
use crate::wave::{Group, Wave};
use sim_isa::{Format, Op, Target, Ty};

/// The handler of a scalar memory op.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    Some(match op {
        Op::SLoadB32 => load::<1, L>,
        Op::SLoadB64 => load::<2, L>,
        Op::SLoadB96 => load::<3, L>,
        Op::SLoadU8 => load_small::<1, false, L>,
        Op::SLoadI8 => load_small::<1, true, L>,
        Op::SLoadU16 => load_small::<2, false, L>,
        Op::SLoadI16 => load_small::<2, true, L>,
        Op::SLoadB128 => load::<4, L>,
        Op::SLoadB256 => load::<8, L>,
        Op::SLoadB512 => load::<16, L>,
        Op::SMemtime => |wave, _, op| {
            wave.set_s64(op.dst as usize, wave.count);
            Ok(())
        },
        Op::SMemrealtime => |wave, _, op| {
            wave.set_s64(op.dst as usize, real_time());
            Ok(())
        },
        Op::SBufferLoadB32 => buffer_load::<1, L>,
        Op::SBufferLoadB64 => buffer_load::<2, L>,
        Op::SBufferLoadB96 => buffer_load::<3, L>,
        Op::SBufferLoadB128 => buffer_load::<4, L>,
        Op::SBufferLoadB256 => buffer_load::<8, L>,
        Op::SBufferLoadB512 => buffer_load::<16, L>,
        Op::SBufferLoadU8 => buffer_load_small::<1, false, L>,
        Op::SBufferLoadI8 => buffer_load_small::<1, true, L>,
        Op::SBufferLoadU16 => buffer_load_small::<2, false, L>,
        Op::SBufferLoadI16 => buffer_load_small::<2, true, L>,
        Op::SStoreB32 => store::<1, L>,
        Op::SStoreB64 => store::<2, L>,
        Op::SStoreB128 => store::<4, L>,
        Op::SBufferStoreB32 => buffer_store::<1, L>,
        Op::SBufferStoreB64 => buffer_store::<2, L>,
        Op::SBufferStoreB128 => buffer_store::<4, L>,
        Op::SGetWaveidInWorkgroup => |wave, _, op| {
            wave.set_s(op.dst as usize, wave.index);
            Ok(())
        },
        Op::SSendmsgRtnB32 => message::<false, L>,
        Op::SSendmsgRtnB64 => message::<true, L>,
        _ if op.info().encodings[0].format != Format::Smem => return None,
        // A resource, or an address.
        _ if op.info().src.first() == Some(&Ty::B128) => return atomic::handler::<Atomic<true>, L>(op),
        _ => return atomic::handler::<Atomic<false>, L>(op),
    })
}

/// Messages that are answered (RDNA3 ISA, S_SENDMSG_RTN_B64): the time alone. The others are of debuggers and trap
/// handlers.
fn message<const WIDE: bool, const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    const GET_REALTIME: i16 = 0x83;
    if op.simm != GET_REALTIME {
        let what = format!("message {:#x} with an answer", op.simm);
        return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
    }
    let time = real_time();
    if WIDE {
        wave.set_s64(op.dst as usize, time);
    } else {
        wave.set_s(op.dst as usize, time as u32);
    }
    Ok(())
}

/// Ticks of a counter at 100 MHz.
fn real_time() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    (START.elapsed().as_nanos() / 10) as u64
}

/// The scalar offset plus the immediate one, for a load of `size` bytes.
pub(super) fn offset<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>, size: u32) -> i64 {
    let register = if op.src[1].kind == SrcKind::None { 0 } else { wave.s32(&op.src[1]) };
    let scale = if op.mem.scale_offset { size } else { 1 };
    i64::from(register) * i64::from(scale) + i64::from(op.mem.offset)
}

fn load<const DWORDS: usize, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    // The two lowest bits of an address are ignored (RDNA3 ISA 8.2.1).
    let address = wave.s64(&op.src[0]).wrapping_add_signed(offset(wave, op, 4 * DWORDS as u32)) & !3;
    let host = group.memory.check(address, 4 * DWORDS as u32, Access::Read, 0)?;
    let mut values = [0; DWORDS];
    for (i, value) in values.iter_mut().enumerate() {
        // SAFETY: `check` found all of it readable.
        *value = unsafe { read_u32(host + 4 * i as u64) };
    }
    for (i, value) in values.into_iter().enumerate() {
        wave.set_s(op.dst as usize + i, value);
    }
    Ok(())
}

/// A byte or a 16-bit word, which is aligned.
fn load_small<const BYTES: u32, const SIGNED: bool, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let address = wave.s64(&op.src[0]).wrapping_add_signed(offset(wave, op, BYTES)) & !u64::from(BYTES - 1);
    let host = group.memory.check(address, BYTES, Access::Read, 0)?;
    let mut bytes = [0; 2];
    for (i, byte) in bytes[..BYTES as usize].iter_mut().enumerate() {
        // SAFETY: `check` found all of it readable.
        *byte = unsafe { (host as *const u8).add(i).read() };
    }
    wave.set_s(op.dst as usize, extend(&bytes[..BYTES as usize], SIGNED));
    Ok(())
}

/// Address and bytes of a buffer.
pub(super) fn extent<const L: usize>(wave: &Wave<L>, target: Target, op: &MicroOp<L>) -> Result<(u64, u64), Stop> {
    let resource = op.src[0].reg as usize;
    let (base, stride, records) = if target == Target::Gfx1250 {
        let Wide { base, stride, records } = Wide::read(wave, resource)?;
        (base, stride, records)
    } else {
        let stride = u64::from(wave.s[resource + 1] >> 16 & 0x3fff);
        (wave.slot64(resource) & 0xffff_ffff_ffff, stride, u64::from(wave.s[resource + 2]))
    };
    // GFX9 counts bytes here whatever the stride.
    Ok((base, if stride == 0 || target.is_gfx9() { records } else { stride * records }))
}

fn buffer_load<const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let (base, size) = extent(wave, group.target, op)?;
    let offset = (offset(wave, op, 4 * DWORDS as u32) & !3) as u64;
    let mut values = [0; DWORDS];
    for (i, value) in values.iter_mut().enumerate() {
        let at = offset + 4 * i as u64;
        if at + 4 > size {
            continue;
        }
        let host = group.memory.check(base + at, 4, Access::Read, 0)?;
        // SAFETY: `check` found it readable.
        *value = unsafe { read_u32(host) };
    }
    for (i, value) in values.into_iter().enumerate() {
        wave.set_s(op.dst as usize + i, value);
    }
    Ok(())
}

/// A byte or a 16-bit word; beyond the buffer it is zero.
fn buffer_load_small<const BYTES: u32, const SIGNED: bool, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let (base, size) = extent(wave, group.target, op)?;
    let at = (offset(wave, op, BYTES) & !i64::from(BYTES - 1)) as u64;
    let mut bytes = [0; 2];
    if at + u64::from(BYTES) <= size {
        let host = group.memory.check(base + at, BYTES, Access::Read, 0)?;
        for (i, byte) in bytes[..BYTES as usize].iter_mut().enumerate() {
            // SAFETY: `check` found all of it readable.
            *byte = unsafe { (host as *const u8).add(i).read() };
        }
    }
    wave.set_s(op.dst as usize, extend(&bytes[..BYTES as usize], SIGNED));
    Ok(())
}

fn store<const DWORDS: usize, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let address = wave.s64(&op.src[0]).wrapping_add_signed(offset(wave, op, 4 * DWORDS as u32)) & !3;
    (0..DWORDS).try_for_each(|i| store_dword(wave, group, op, i, address + 4 * i as u64))
}

/// Dwords beyond the buffer are not written.
fn buffer_store<const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let (base, size) = extent(wave, group.target, op)?;
    let offset = (offset(wave, op, 4 * DWORDS as u32) & !3) as u64;
    let inside = (0..DWORDS).filter(|i| offset + 4 * *i as u64 + 4 <= size);
    inside.into_iter().try_for_each(|i| store_dword(wave, group, op, i, base + offset + 4 * i as u64))
}

/// Writes dword `i` of the data.
fn store_dword<const L: usize>(wave: &Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>, i: usize, address: u64) -> Step {
    let host = group.memory.check(address, 4, Access::Write, 0)?;
    // SAFETY: `check` found it writable.
    unsafe { (host as *mut u32).write(wave.s[op.src[2].reg as usize + i]) };
    Ok(())
}

/// An atomic on a scalar address, or on a buffer; beyond that nothing happens and zero is returned.
struct Atomic<const BUFFER: bool>;

impl<const BUFFER: bool> Performs for Atomic<BUFFER> {
    fn run<R: Rmw, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        Self::perform(wave, group, op, Operation::of::<R>())
    }
}

impl<const BUFFER: bool> Atomic<BUFFER> {
    #[inline(never)]
    fn perform<T: Word, const L: usize>(
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
        op: &MicroOp<L>,
        operation: Operation<T>,
    ) -> Step {
        let bytes = 4 * T::DWORDS as u32;
        let offset = (offset(wave, op, bytes) & !3) as u64;
        let (base, inside) = if BUFFER {
            let (base, size) = extent(wave, group.target, op)?;
            (base, offset + u64::from(bytes) <= size)
        } else {
            (wave.s64(&op.src[0]), true)
        };
        let address = base.wrapping_add(offset);
        let first = op.src[2].reg as usize;
        let data = T::from_dwords(&wave.s[first..first + 2]);
        let after = first + T::DWORDS;
        let compare = if operation.compares { T::from_dwords(&wave.s[after..after + 2]) } else { data };
        let mut old = T::from_dwords(&[0, 0]);
        if inside {
            if !address.is_multiple_of(bytes.into()) {
                let kind = FaultKind::Misaligned { address, size: bytes, access: Access::Atomic, lane: 0 };
                return Err(Stop::Fault(Box::new(kind)));
            }
            let host = group.memory.check(address, bytes, Access::Atomic, 0)?;
            // SAFETY: `check` found it readable and writable; its alignment is checked above.
            old = unsafe { T::update(host, |old| (operation.apply)(old, data, compare, false)) };
        }
        if op.has_dst {
            (0..T::DWORDS).for_each(|i| wave.set_s(op.dst as usize + i, old.dword(i)));
        }
        Ok(())
    }
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Scalar loads (RDNA3 ISA 16.6).

use super::address::Wide;
use super::memory::{extend, read_u32};
use crate::fault::Access;
use crate::operand::SrcKind;
use crate::program::MicroOp;
use crate::wave::{Group, Handler, Step, Wave};
use sim_isa::{Op, Target};

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
        _ => return None,
    })
}

/// Ticks of a counter at 100 MHz.
fn real_time() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    (START.elapsed().as_nanos() / 10) as u64
}

/// The scalar offset plus the immediate one, for a load of `size` bytes.
fn offset<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>, size: u32) -> i64 {
    let register = if op.src[1].kind == SrcKind::None { 0 } else { wave.s32(&op.src[1]) };
    let scale = if op.mem.scale_offset { size } else { 1 };
    i64::from(register) * i64::from(scale) + i64::from(op.mem.offset)
}

fn load<const DWORDS: usize, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    // The two lowest bits of an address are ignored (RDNA3 ISA 8.2.1).
    let address = wave.s64(&op.src[0]).wrapping_add_signed(offset(wave, op, 4 * DWORDS as u32)) & !3;
    group.memory.check(address, 4 * DWORDS as u32, Access::Read, 0)?;
    let mut values = [0; DWORDS];
    for (i, value) in values.iter_mut().enumerate() {
        // SAFETY: `check` found all of it readable.
        *value = unsafe { read_u32(address + 4 * i as u64) };
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
    group.memory.check(address, BYTES, Access::Read, 0)?;
    let mut bytes = [0; 2];
    for (i, byte) in bytes[..BYTES as usize].iter_mut().enumerate() {
        // SAFETY: `check` found all of it readable.
        *byte = unsafe { (address as *const u8).add(i).read() };
    }
    wave.set_s(op.dst as usize, extend(&bytes[..BYTES as usize], SIGNED));
    Ok(())
}

fn buffer_load<const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    let resource = op.src[0].reg as usize;
    let (base, stride, records) = if group.target == Target::Gfx1250 {
        let Wide { base, stride, records } = Wide::read(wave, resource)?;
        (base, stride, records)
    } else {
        let stride = u64::from(wave.s[resource + 1] >> 16 & 0x3fff);
        (wave.slot64(resource) & 0xffff_ffff_ffff, stride, u64::from(wave.s[resource + 2]))
    };
    // GFX9 counts bytes here whatever the stride.
    let size = if stride == 0 || group.target.is_gfx9() { records } else { stride * records };
    let offset = (offset(wave, op, 4 * DWORDS as u32) & !3) as u64;
    let mut values = [0; DWORDS];
    for (i, value) in values.iter_mut().enumerate() {
        let at = offset + 4 * i as u64;
        if at + 4 > size {
            continue;
        }
        group.memory.check(base + at, 4, Access::Read, 0)?;
        // SAFETY: `check` found it readable.
        *value = unsafe { read_u32(base + at) };
    }
    for (i, value) in values.into_iter().enumerate() {
        wave.set_s(op.dst as usize + i, value);
    }
    Ok(())
}

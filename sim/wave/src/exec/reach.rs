// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Addresses that a memory access will reach, for observers before the access.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::address::Space;
use super::address::{Buffer, ByLane, Flat, Global, Lanes, Scratch, addresses};
use super::lanes::each_lane;
use super::memory::within_lds;
use super::scalar_memory::{extent, offset};
use crate::fault::Access;
use crate::micro_op::MicroOp;
use crate::wave::{Group, Wave};
use sim_isa::Format;

/// The active lanes of a vector access, whose addresses are in [`Wave::addresses`], by where these lead.
pub(crate) struct Reach {
    /// Memory, all bytes of the access.
    pub memory: u64,
    /// Memory, the first [`Wave::room`] bytes alone.
    pub partial: u64,
    /// LDS or scratch, through an aperture.
    pub local: u64,
    /// Lowest and highest address of the lanes in memory, if there are any.
    pub span: (u64, u64),
}

/// Addresses of a vector access, other than those of its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    /// Each lane has a dword at its number.
    ByLane,
    /// Asynchronous transfer between memory and LDS: lanes whose place in LDS is out of range access nothing.
    Async,
}

/// Computes the addresses of a vector access of `size` bytes; `None` if it will be a fault.
pub(crate) fn reach<const L: usize>(
    format: Format,
    way: Way,
    wave: &mut Wave<L>,
    group: &Group<'_>,
    op: &MicroOp<L>,
    size: u32,
) -> Option<Reach> {
    let accesses = wave.global_accesses;
    let lanes = match format {
        Format::Mubuf => addresses::<Buffer, L>(wave, group, op, size),
        Format::Flat => addresses::<Flat, L>(wave, group, op, size),
        Format::Scratch => addresses::<Scratch, L>(wave, group, op, size),
        _ if way == Way::ByLane => addresses::<ByLane, L>(wave, group, op, size),
        _ => addresses::<Global, L>(wave, group, op, size),
    };
    wave.global_accesses = accesses;
    let mut lanes = lanes.ok()?;
    if way == Way::Async {
        lanes = Lanes::host(wave, within_lds(wave, group, op, (lanes.host, size)));
    }
    Some(Reach { memory: lanes.host, partial: lanes.beyond, local: lanes.local, span: lanes.span })
}

/// The address that a vector access adds its register and its immediate to, and how many bytes from there on may be
/// accessed. `None` if its addresses are not such sums, or have an upper half that is not in common.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[inline]
pub(crate) fn origin<const L: usize>(
    format: Format,
    wave: &Wave<L>,
    group: &Group<'_>,
    op: &MicroOp<L>,
) -> Option<(u64, u64)> {
    let of = match format {
        Format::Mubuf => Buffer::offsets(wave, group, op)?,
        _ => Global::offsets(wave, group, op)?,
    };
    // The immediate of a global access is in its base.
    let immediate = if of.is_global { op.mem.offset } else { 0 };
    Some((of.base.wrapping_sub(i64::from(immediate) as u64), of.limit))
}

/// The address of a scalar access of `size` bytes, and how many of them there are in its buffer; `None` if it will be a
/// fault.
pub(crate) fn scalar_reach<const L: usize>(
    is_buffer: bool,
    wave: &Wave<L>,
    group: &Group<'_>,
    op: &MicroOp<L>,
    size: u32,
) -> Option<(u64, u64)> {
    let align = !i64::from(size.min(4) - 1);
    let offset = offset(wave, op, size) & align;
    if !is_buffer {
        return Some((wave.s64(&op.src[0]).wrapping_add_signed(offset) & align as u64, size.into()));
    }
    let (base, records) = extent(wave, group.target, op).ok()?;
    Some((base.wrapping_add_signed(offset), records.saturating_sub(offset as u64).min(size.into())))
}

/// Up to four bytes of memory; `None` if they cannot be read.
pub(crate) fn peek(group: &mut Group<'_>, address: u64, size: u32) -> Option<u32> {
    let host = group.memory.check(address, size, Access::Read, 0).ok()?;
    let mut bytes = [0; 4];
    for (n, byte) in bytes.iter_mut().enumerate().take(size as usize) {
        // SAFETY: `check` found `size` bytes from here on readable.
        *byte = unsafe { (host as *const u8).add(n).read() };
    }
    Some(u32::from_le_bytes(bytes))
}

/// The lanes of a set.
pub(crate) fn lanes(set: u64) -> impl Iterator<Item = usize> {
    each_lane(set)
}

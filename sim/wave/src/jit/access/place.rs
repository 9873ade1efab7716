// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Places: where the addresses of a row of offsets lead, and which of them are known at a point of a block.

use super::known;
use crate::exec;
use crate::fault::Access;
use crate::jit::emit::Value;
use crate::jit::moves::{self, Moves, Pattern};
use crate::memory::Region;
use crate::micro_op::MicroOp;
use crate::operand::SrcKind;
use crate::wave::{Group, PLACES, PlaceBytes, Wave};
use sim_isa::{Format, Target};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Where the addresses of a row of offsets lead. Immediates are added to a value, of which the row is the sum with a
/// constant.
#[repr(C)]
pub(crate) struct Place {
    /// Host address of offset zero; it may wrap around.
    pub(super) host: u64,
    /// Host address of the first lane.
    pub(super) first: u64,
    /// Generation of the memory in which that is so; LDS has none.
    pub(super) generation: u64,
    /// Functions for the pattern of the offsets.
    pub(super) moves: *const Moves,
    /// Least immediate that may be added; at most 0.
    pub(super) start: i32,
    /// Greatest sum of immediate and size.
    pub(super) end: i32,
    /// [`moves::SAME`], [`moves::LINES_OF_4`], [`moves::EIGHTS`] and [`moves::NEAR`].
    pub(super) kind: u32,
    origin: Origin,
}

const _: () = assert!(size_of::<Place>() <= size_of::<PlaceBytes>());

/// Where the offsets of an access are added, as long as its scalars and the memory's generation are these.
#[derive(Clone, Copy)]
struct Origin {
    scalars: [u32; 5],
    generation: u64,
    base: u64,
    limit: u64,
    region: Region,
}

/// Finds the place of an op's addresses, of which `constant` is part. If there is none, nothing can be accessed. `bit`
/// tells that the place is known.
///
/// # Safety
/// The CPU has AVX2. `place` can be written, and may be in the wave.
#[target_feature(enable = "avx2")]
pub(super) unsafe extern "sysv64" fn find<const STORES: bool, const L: usize>(
    wave: *mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    place: *mut Place,
    constant: u32,
    bit: u32,
) {
    // SAFETY: by this function's contract; fields of the place are written.
    unsafe {
        if find_if_there::<STORES, L>(wave, group, op, place, constant, bit).is_none() {
            (&raw mut (*place).end).write(i32::MIN);
        }
        (*wave).places.known |= bit;
    }
}

/// The origin of an op's addresses: that which was found before, if it still holds and has `first`, the least offset.
///
/// # Safety
/// `known` can be written, and has an origin if the wave has found one for `bit`.
#[inline]
unsafe fn origin<const STORES: bool, const L: usize>(
    wave: *mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    format: Format,
    known: *mut Origin,
    bit: u32,
    first: u32,
) -> Option<Origin> {
    let access = if STORES { Access::Write } else { Access::Read };
    let address = |base: u64| base.checked_add(first.into())?.checked_add_signed(op.mem.offset.into());
    let slot = |src: usize, n: usize| match op.src[src].kind {
        // SAFETY: by this function's contract; wide operands end within the slots.
        SrcKind::Scalar => unsafe { (*wave).s[usize::from(op.src[src].reg) + n] },
        _ => 0,
    };
    // A base in two vector registers may be another one.
    let bit = if op.src[2].kind == SrcKind::None { 0 } else { bit };
    // Compared one by one: an array of them would be written in parts and read at once, which waits.
    let are_scalars = |[a, b, c, d, e]: &[u32; 5]| {
        *a == slot(2, 0) && *b == slot(2, 1) && *c == slot(2, 2) && *d == slot(2, 3) && *e == slot(3, 0)
    };
    // SAFETY: by this function's contract.
    unsafe {
        let generation = group.memory.generation().load(Ordering::Acquire);
        if (*wave).places.found & bit != 0
            && let known = &*known
            && known.generation == generation
            && are_scalars(&known.scalars)
            && address(known.base)?.wrapping_sub(known.region.base) < known.region.size
        {
            return Some(*known);
        }
        let (base, limit) = exec::origin(format, &*wave, group, op)?;
        let (region, generation) = group.memory.region_of(address(base)?, access)?;
        let scalars = [slot(2, 0), slot(2, 1), slot(2, 2), slot(2, 3), slot(3, 0)];
        let origin = Origin { scalars, generation, base, limit, region };
        known.write(origin);
        (*wave).places.found |= bit;
        Some(origin)
    }
}

/// Writes fields one by one: a place that is put together elsewhere is copied by longer loads, which wait.
///
/// # Safety
/// As of [`find`]; `place` can be written.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn find_if_there<const STORES: bool, const L: usize>(
    wave: *mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    place: *mut Place,
    constant: u32,
    bit: u32,
) -> Option<()> {
    let format = op.code?.info().encodings[0].format;
    // SAFETY: by this function's contract; the references are not used once the place is written.
    let (offsets, active) = unsafe { (&(&(*wave).v)[op.src[0].reg as usize].0, &(*wave).mask.0) };
    let of_active;
    // SAFETY: as above.
    let offsets = if unsafe { (*wave).full } {
        offsets
    } else {
        of_active = moves::active_offsets(offsets, active)?;
        &of_active
    };
    // SAFETY: by this function's contract.
    let Pattern { moves, mut kind, first, last } = unsafe { Pattern::of(offsets) };
    if i32::try_from(last).is_ok() {
        kind |= moves::NEAR;
    }
    // Else sums have wrapped around.
    if first < constant {
        return None;
    }
    let zeroth = u64::from(offsets[0]).wrapping_sub(constant.into());
    let constant = i64::from(constant);
    // Sums of offset and immediate have 32 bits.
    let most = i64::from(u32::MAX - last);
    let end_of = |room: i64| (room.min(most) + constant).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    if format == Format::Ds {
        let room = group.lds.len() as i64 - i64::from(last);
        // SAFETY: by this function's contract.
        unsafe {
            let host = group.lds.as_mut_ptr() as u64;
            (&raw mut (*place).host).write(host);
            (&raw mut (*place).first).write(host.wrapping_add(zeroth));
            (&raw mut (*place).moves).write(moves);
            (&raw mut (*place).start).write(i32::MIN);
            (&raw mut (*place).kind).write(kind);
            (&raw mut (*place).end).write(end_of(room));
        }
        return Some(());
    }
    // SAFETY: by this function's contract.
    let known = unsafe { origin::<STORES, L>(wave, group, op, format, &raw mut (*place).origin, bit, first) };
    let Origin { generation, base, limit, region, .. } = known?;
    let start = base.checked_add(first.into())?;
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
        (&raw mut (*place).first).write(host.wrapping_add(zeroth));
        (&raw mut (*place).generation).write(generation);
        (&raw mut (*place).moves).write(moves);
        (&raw mut (*place).start).write((start + constant) as i32);
        (&raw mut (*place).kind).write(kind);
        (&raw mut (*place).end).write(end_of(room));
    }
    Some(())
}

/// The inputs that a place depends on.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Key {
    pub(super) format: Format,
    pub(super) stores: bool,
    /// Row of the offsets.
    pub(super) row: u16,
    /// Rows that follow and count too.
    pub(super) more: u16,
    /// Scalar sources.
    pub(super) scalars: [(SrcKind, u16, u64); 2],
}

impl Key {
    /// True if it depends on one of some rows.
    fn has_row(&self, first: u16, count: u16) -> bool {
        self.row < first + count && first <= self.row + self.more
    }

    /// True if it depends on one of some scalar slots.
    fn has_slot(&self, first: u16, count: u16) -> bool {
        // A resource has four, an address two.
        self.scalars
            .iter()
            .any(|&(kind, slot, _)| kind == SrcKind::Scalar && slot < first.saturating_add(count) && first < slot + 4)
    }
}

/// Where a place is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// In the wave.
    Wave(usize),
    /// In the block's context.
    Block(usize),
}

/// A place that is known at this point of a block.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Without the row.
    pub(super) key: Key,
    /// The values of the row and of the one behind it, with constants if that counts.
    pub(super) values: [(Value, i32); 2],
    pub(super) slot: Slot,
    /// The constant that it was found with: smaller sums of constant and immediate have to be compared.
    pub(super) from: i32,
}

/// The places that are known while a block is compiled.
#[derive(Clone)]
pub(in super::super) struct Places {
    /// Keys of those that waves keep.
    pub(super) keys: Rc<[Key]>,
    pub(super) known: Vec<Known>,
    /// The waves' places that are not known.
    pub(super) lost: u32,
    /// The block's place to replace next.
    pub(super) victim: usize,
}

impl Places {
    /// No place is known. The keys are those of `ops`.
    pub fn new<'a, const L: usize>(ops: impl Iterator<Item = &'a MicroOp<L>>, target: Target) -> Self {
        let mut keys = Vec::new();
        for op in ops {
            if let Some((key, _)) = op.code.and_then(|code| known(code, op, target))
                && op.crossing.is_none()
                && keys.len() < PLACES
                && !keys.contains(&key)
            {
                keys.push(key);
            }
        }
        Places { keys: keys.into(), known: Vec::new(), lost: 0, victim: 0 }
    }

    pub fn forget(&mut self) {
        self.known.clear();
        self.lost = 0;
    }

    /// Rows are written. Returns the waves' places that depend on them and may be known.
    pub fn lose_rows(&mut self, first: u16, count: u16) -> u32 {
        self.lose(|key| key.has_row(first, count))
    }

    /// Scalar slots are written. Returns the waves' places that depend on them and may be known.
    pub fn lose_slots(&mut self, first: u16, count: u16) -> u32 {
        self.known.retain(|known| !known.key.has_slot(first, count));
        self.lose(|key| key.has_slot(first, count))
    }

    fn lose(&mut self, is_lost: impl Fn(&Key) -> bool) -> u32 {
        let bits = self.keys.iter().enumerate().map(|(n, key)| u32::from(is_lost(key)) << n);
        let lost = bits.fold(0, |all, bit| all | bit) & !self.lost;
        self.lost |= lost;
        lost
    }

    pub(super) fn add(&mut self, known: Known) {
        self.known.retain(|other| other.slot != known.slot);
        self.known.push(known);
        if let Slot::Wave(n) = known.slot {
            self.lost &= !(1 << n);
        }
    }
}

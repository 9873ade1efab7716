// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Vector accesses whose active lanes are all in one range of the host's memory, checked as a whole: nearly all of real
//! kernels. Others take the general way, lane by lane.

use super::access::{HIGH, WHOLE, read_u32};
use super::address::Space;
use super::lanes::each_lane;
use super::level::{self, Part};
use crate::fault::Access;
use crate::micro_op::MicroOp;
use crate::wave::{Group, Row, Wave};
use std::marker::PhantomData;

/// The bytes of all active lanes of an access, which may be accessed.
pub(super) struct Span<const L: usize> {
    /// Host address.
    base: u64,
    /// Offsets of the lanes' first bytes from the base. Inactive lanes have that of an active one.
    offsets: [u32; L],
    is_uniform: bool,
}

impl<const L: usize> Span<L> {
    /// Finds the span of an access to memory, if there is one, and counts the access then.
    #[inline(always)]
    pub fn find<S: Space>(
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
        op: &MicroOp<L>,
        size: u32,
        access: Access,
    ) -> Option<Self> {
        let of = S::offsets(wave, group, op)?;
        let (first, last) = Self::range(wave, of.register, of.immediate)?;
        if u64::from(last) + u64::from(size) > of.limit {
            return None;
        }
        let start = of.base.checked_add(first.into())?;
        let displacement = group.memory.displacement(start, u64::from(last - first) + u64::from(size), access)?;
        wave.global_accesses += u64::from(of.is_global);
        Some(Self::new(wave, of.base.wrapping_add(displacement), (of.register, of.immediate), (first, last)))
    }

    /// Finds the span of an access to LDS, if all of it is within the group segment.
    #[inline(always)]
    pub fn of_lds(wave: &Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>, immediate: u32, size: usize) -> Option<Self> {
        let register = op.src[0].reg as usize;
        let (first, last) = Self::range(wave, register, immediate)?;
        if op.mem.gds || last as usize + size > group.lds.len() {
            return None;
        }
        Some(Self::new(wave, group.lds.as_mut_ptr() as u64, (register, immediate), (first, last)))
    }

    /// The lowest and the highest offset of the active lanes, if there are any.
    #[inline(always)]
    fn range(wave: &Wave<L>, register: usize, immediate: u32) -> Option<(u32, u32)> {
        let (mut first, mut last) = (u32::MAX, 0);
        for (&offset, &mask) in wave.v[register].0.iter().zip(&wave.mask.0) {
            let offset = offset.wrapping_add(immediate);
            first = first.min(offset | !mask);
            last = last.max(offset & mask);
        }
        (wave.exec() & Wave::<L>::LANES != 0).then_some((first, last))
    }

    #[inline(always)]
    fn new(wave: &Wave<L>, base: u64, (register, immediate): (usize, u32), (first, last): (u32, u32)) -> Self {
        let mut span = Span { base, offsets: [first; L], is_uniform: first == last };
        if !span.is_uniform {
            let lanes = wave.v[register].0.iter().zip(&wave.mask.0);
            for (offset, (&value, &mask)) in span.offsets.iter_mut().zip(lanes) {
                *offset = value.wrapping_add(immediate) & mask | first & !mask;
            }
        }
        span
    }

    #[inline(always)]
    fn address(&self, lane: usize) -> u64 {
        self.base.wrapping_add(self.offsets[lane].into())
    }

    /// True if the lanes' bytes, `size` of each, follow each other.
    #[inline(always)]
    fn is_contiguous(&self, size: u32) -> bool {
        let mut differ = 0;
        for (lane, &offset) in self.offsets.iter().enumerate() {
            differ |= offset ^ self.offsets[0].wrapping_add(size * lane as u32);
        }
        differ == 0
    }

    /// Loads `DWORDS` dwords of each active lane to registers.
    ///
    /// # Safety
    /// `4 * DWORDS` bytes of each lane are readable.
    #[inline(always)]
    pub unsafe fn load<const DWORDS: usize>(&self, wave: &mut Wave<L>, dst: usize) {
        if self.is_uniform {
            let values: [u32; DWORDS] =
                // SAFETY: by this function's contract.
                std::array::from_fn(|i| unsafe { read_u32(self.address(0) + 4 * i as u64) });
            for (i, value) in values.into_iter().enumerate() {
                wave.put(dst + i, &Row([value; L]));
            }
            return;
        }
        if wave.full {
            // SAFETY: by this function's contract.
            unsafe { self.gather::<DWORDS>(&mut wave.v[dst..dst + DWORDS]) };
            return;
        }
        let mut rows = [Row::ZERO; DWORDS];
        // SAFETY: by this function's contract; inactive lanes read what an active one does.
        unsafe { self.gather::<DWORDS>(&mut rows) };
        for (i, row) in rows.iter().enumerate() {
            wave.put(dst + i, row);
        }
    }

    /// # Safety
    /// As of [`Self::load`].
    #[inline(always)]
    unsafe fn gather<const DWORDS: usize>(&self, rows: &mut [Row<L>]) {
        if DWORDS == 1 && self.is_contiguous(4) {
            // SAFETY: the lanes' dwords follow each other, and are readable by this function's contract.
            rows[0].0 = unsafe { (self.address(0) as *const [u32; L]).read_unaligned() };
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if let [r0, r1, r2, r3] = rows {
            let rows = [&mut r0.0, &mut r1.0, &mut r2.0, &mut r3.0];
            // SAFETY: by this function's contract, and as the CPU has AVX.
            unsafe {
                if is_x86_feature_detected!("avx") {
                    gather4_avx(self.base, &self.offsets, rows);
                } else {
                    gather4(self.base, &self.offsets, rows);
                }
            }
            return;
        }
        for lane in 0..L {
            for (i, row) in rows[..DWORDS].iter_mut().enumerate() {
                // SAFETY: by this function's contract.
                row.0[lane] = unsafe { read_u32(self.address(lane) + 4 * i as u64) };
            }
        }
    }

    /// Stores `DWORDS` registers of each active lane. Where lanes overlap, the last one's bytes stay.
    ///
    /// # Safety
    /// `4 * DWORDS` bytes of each lane are writable.
    #[inline(always)]
    pub unsafe fn store<const DWORDS: usize>(&self, wave: &Wave<L>, data: usize) {
        let rows = &wave.v[data..data + DWORDS];
        if wave.full {
            if DWORDS == 1 && self.is_contiguous(4) {
                // SAFETY: the lanes' dwords follow each other, and are writable by this function's contract.
                unsafe { (self.address(0) as *mut [u32; L]).write_unaligned(rows[0].0) };
                return;
            }
            #[cfg(target_arch = "x86_64")]
            if let [r0, r1, r2, r3] = rows {
                // SAFETY: by this function's contract.
                unsafe { scatter4(self.base, &self.offsets, [&r0.0, &r1.0, &r2.0, &r3.0]) };
                return;
            }
        }
        for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
            for (i, row) in rows.iter().enumerate() {
                let target = (self.address(lane) + 4 * i as u64) as *mut u32;
                // SAFETY: by this function's contract; any alignment is allowed.
                unsafe { target.write_unaligned(row.0[lane]) };
            }
        }
    }

    /// Stores registers from each of `data` on of each active lane to this and a second span, lane after lane.
    ///
    /// # Safety
    /// `4 * DWORDS` bytes of each lane of both are writable.
    #[inline(always)]
    pub unsafe fn store_pairs<const DWORDS: usize>(&self, second: &Self, wave: &Wave<L>, data: [usize; 2]) {
        let rows = data.map(|data| &wave.v[data..data + DWORDS]);
        for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
            for (span, rows) in [self, second].into_iter().zip(rows) {
                for (i, row) in rows.iter().enumerate() {
                    let target = (span.address(lane) + 4 * i as u64) as *mut u32;
                    // SAFETY: by this function's contract; any alignment is allowed.
                    unsafe { target.write_unaligned(row.0[lane]) };
                }
            }
        }
    }

    /// Loads a byte or word of each active lane to a register or its half.
    ///
    /// # Safety
    /// `BYTES` bytes of each lane are readable.
    #[inline(always)]
    unsafe fn load_small<const BYTES: usize>(&self, wave: &mut Wave<L>, dst: usize, signed: bool, place: u8) {
        let mut loaded = Row::ZERO;
        for lane in 0..L {
            let address = self.address(lane);
            // SAFETY: by this function's contract.
            loaded.0[lane] = unsafe {
                match BYTES {
                    1 => (address as *const u8).read().into(),
                    _ => (address as *const u16).read_unaligned().into(),
                }
            };
        }
        let unused = 32 - 8 * BYTES as u32;
        let (shift, keep) = match place {
            WHOLE => (0, 0),
            HIGH => (16, 0x0000_ffff),
            _ => (0, 0xffff_0000),
        };
        let old = &wave.v[dst];
        for (value, old) in loaded.0.iter_mut().zip(&old.0) {
            let extended = if signed { ((*value << unused) as i32 >> unused) as u32 } else { *value };
            *value = (extended << shift) & !keep | old & keep;
        }
        wave.put(dst, &loaded);
    }

    /// Stores the lowest bytes of a register, shifted right, of each active lane.
    ///
    /// # Safety
    /// `BYTES` bytes of each lane are writable.
    #[inline(always)]
    unsafe fn store_small<const BYTES: usize>(&self, wave: &Wave<L>, data: usize, shift: u32) {
        let row = &wave.v[data];
        for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
            let (address, value) = (self.address(lane), row.0[lane] >> shift);
            // SAFETY: by this function's contract.
            unsafe {
                match BYTES {
                    1 => (address as *mut u8).write(value as u8),
                    _ => (address as *mut u16).write_unaligned(value as u16),
                }
            }
        }
    }
}

/// A register's part for a byte or word.
#[derive(Clone, Copy)]
pub(super) enum Small {
    /// To the register, with sign or not, and the place in it as in [`super::access::place`].
    Load(bool, u8),
    /// From the register, shifted right.
    Store(u32),
}

/// An access of a byte or word of each lane. Returns whether it is done.
pub(super) struct MoveSmall<'a, 'b, S, const BYTES: usize, const L: usize> {
    pub wave: &'a mut Wave<L>,
    pub group: &'a mut Group<'b>,
    pub op: &'a MicroOp<L>,
    pub what: Small,
    pub space: PhantomData<S>,
}

impl<S: Place, const BYTES: usize, const L: usize> Part for MoveSmall<'_, '_, S, BYTES, L> {
    type Result = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let MoveSmall { wave, group, op, what, .. } = self;
        let access = match what {
            Small::Load(..) => Access::Read,
            Small::Store(_) => Access::Write,
        };
        let Some(span) = S::span(wave, group, op, BYTES as u32, access) else { return false };
        // SAFETY: the span may be accessed so.
        unsafe {
            match what {
                Small::Load(signed, place) => span.load_small::<BYTES>(wave, op.dst as usize, signed, place),
                Small::Store(shift) => span.store_small::<BYTES>(wave, op.src[1].reg as usize, shift),
            }
        }
        true
    }
}

/// Moves a byte or word of each lane, if all are in one span. Returns whether it has.
#[inline(always)]
pub(super) fn move_small<S: Place, const BYTES: usize, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    what: Small,
) -> bool {
    level::run(MoveSmall::<S, BYTES, L> { wave, group, op, what, space: PhantomData })
}

/// A space that has spans.
pub(super) trait Place {
    fn span<const L: usize>(
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
        op: &MicroOp<L>,
        size: u32,
        access: Access,
    ) -> Option<Span<L>>;
}

impl<S: Space> Place for S {
    #[inline(always)]
    fn span<const L: usize>(
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
        op: &MicroOp<L>,
        size: u32,
        access: Access,
    ) -> Option<Span<L>> {
        Span::find::<S>(wave, group, op, size, access)
    }
}

/// Transposes four dwords of each lane into four rows.
///
/// # Safety
/// From `base` plus each offset on, 16 bytes are readable.
#[cfg(target_arch = "x86_64")]
unsafe fn gather4<const L: usize>(base: u64, offsets: &[u32; L], rows: [&mut [u32; L]; 4]) {
    use std::arch::x86_64::{_MM_TRANSPOSE4_PS, _mm_loadu_ps, _mm_storeu_ps};
    let [r0, r1, r2, r3] = rows;
    for lane in (0..L).step_by(4) {
        // SAFETY: the lanes' 16 bytes are readable by this function's contract; rows have four lanes from `lane` on, as
        // L is a multiple of four. SSE is part of x86-64.
        unsafe {
            let load = |i: usize| _mm_loadu_ps(base.wrapping_add(offsets[lane + i].into()) as *const f32);
            let (mut a, mut b, mut c, mut d) = (load(0), load(1), load(2), load(3));
            _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
            _mm_storeu_ps(r0.as_mut_ptr().add(lane).cast(), a);
            _mm_storeu_ps(r1.as_mut_ptr().add(lane).cast(), b);
            _mm_storeu_ps(r2.as_mut_ptr().add(lane).cast(), c);
            _mm_storeu_ps(r3.as_mut_ptr().add(lane).cast(), d);
        }
    }
}

/// [`gather4`] of eight lanes at a time.
///
/// # Safety
/// As of [`gather4`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn gather4_avx<const L: usize>(base: u64, offsets: &[u32; L], rows: [&mut [u32; L]; 4]) {
    use std::arch::x86_64::{
        _mm256_loadu2_m128, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };
    let [r0, r1, r2, r3] = rows;
    for lane in (0..L).step_by(8) {
        let at = |i: usize| base.wrapping_add(offsets[lane + i].into()) as *const f32;
        // SAFETY: the lanes' 16 bytes are readable by this function's contract; rows have eight lanes from `lane` on,
        // as L is a multiple of eight.
        unsafe {
            // Lane i in the lower half, lane i + 4 in the upper one.
            let (a, b) = (_mm256_loadu2_m128(at(4), at(0)), _mm256_loadu2_m128(at(5), at(1)));
            let (c, d) = (_mm256_loadu2_m128(at(6), at(2)), _mm256_loadu2_m128(at(7), at(3)));
            let (ab01, ab23) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd01, cd23) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            _mm256_storeu_ps(r0.as_mut_ptr().add(lane).cast(), _mm256_shuffle_ps(ab01, cd01, 0x44));
            _mm256_storeu_ps(r1.as_mut_ptr().add(lane).cast(), _mm256_shuffle_ps(ab01, cd01, 0xee));
            _mm256_storeu_ps(r2.as_mut_ptr().add(lane).cast(), _mm256_shuffle_ps(ab23, cd23, 0x44));
            _mm256_storeu_ps(r3.as_mut_ptr().add(lane).cast(), _mm256_shuffle_ps(ab23, cd23, 0xee));
        }
    }
}

/// Writes four rows as four dwords of each lane.
///
/// # Safety
/// From `base` plus each offset on, 16 bytes are writable.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn scatter4<const L: usize>(base: u64, offsets: &[u32; L], rows: [&[u32; L]; 4]) {
    use std::arch::x86_64::{_MM_TRANSPOSE4_PS, _mm_loadu_ps, _mm_storeu_ps};
    for lane in (0..L).step_by(4) {
        // SAFETY: the lanes' 16 bytes are writable by this function's contract; rows have four lanes from `lane` on, as
        // L is a multiple of four. SSE is part of x86-64.
        unsafe {
            let [mut a, mut b, mut c, mut d] = rows.map(|row| _mm_loadu_ps(row.as_ptr().add(lane).cast()));
            _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
            for (i, value) in [a, b, c, d].into_iter().enumerate() {
                _mm_storeu_ps(base.wrapping_add(offsets[lane + i].into()) as *mut f32, value);
            }
        }
    }
}

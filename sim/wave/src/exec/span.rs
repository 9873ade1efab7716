// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Vector accesses whose active lanes are all in one range of the host's memory, checked as a whole: nearly all of real
//! kernels. Others take the general way, lane by lane.

use super::access::{HIGH, WHOLE, read_dwords, write_dwords};
use super::address::Space;
use super::lanes::each_lane;
use super::level::{self, Part};
use crate::fault::Access;
use crate::micro_op::MicroOp;
use crate::wave::{Group, Row, Wave};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The bytes of all active lanes of an access, which may be accessed.
pub(super) struct Span<const L: usize> {
    /// Host address.
    base: u64,
    /// Lowest offset of an active lane from the base.
    first: u32,
    pattern: Pattern,
    /// Offsets of the lanes' first bytes from the base, if these are scattered. Inactive lanes have that of an active
    /// one.
    offsets: MaybeUninit<[u32; L]>,
}

/// How the lanes' bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// All active lanes have the same ones.
    Uniform,
    /// All lanes are active, and their bytes follow each other. Each has so many.
    Contiguous(u32),
    Scattered,
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
        let (pattern, first, last) = Self::range(wave, of.register, of.immediate, size)?;
        if u64::from(last) + u64::from(size) > of.limit {
            return None;
        }
        let start = of.base.checked_add(first.into())?;
        let bytes = u64::from(last - first) + u64::from(size);
        let displacement = group.memory.displacement(start, bytes, access, pattern != Pattern::Scattered)?;
        wave.global_accesses += u64::from(of.is_global);
        Some(Self::new(wave, of.base.wrapping_add(displacement), (of.register, of.immediate), first, pattern))
    }

    /// [`Self::find`] with caches in between: the bytes in the caches that serve an access of scattered lanes. Apart
    /// from that function, which is copied to each handler and mostly runs without caches.
    #[cold]
    #[inline(never)]
    pub fn find_in_caches<S: Space>(
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
        op: &MicroOp<L>,
        size: u32,
        access: Access,
    ) -> Option<Self> {
        if !group.memory.has_caches() {
            return None;
        }
        let of = S::offsets(wave, group, op)?;
        let (pattern, first, last) = Self::range(wave, of.register, of.immediate, size)?;
        if u64::from(last) + u64::from(size) > of.limit {
            return None;
        }
        let start = of.base.checked_add(first.into())?;
        let all = start..start.checked_add(u64::from(last - first) + u64::from(size))?;
        let mut span = Self::new(wave, of.base, (of.register, of.immediate), first, pattern);
        let displacement = group.memory.displacement_of_all((of.base, span.scattered()?), size.into(), all, access)?;
        span.base = of.base.wrapping_add(displacement);
        wave.global_accesses += u64::from(of.is_global);
        Some(span)
    }

    /// Finds the span of an access to LDS, if all of it is within the group segment.
    #[inline(always)]
    pub fn of_lds(wave: &Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>, immediate: u32, size: usize) -> Option<Self> {
        let register = op.src[0].reg as usize;
        let (pattern, first, last) = Self::range(wave, register, immediate, size as u32)?;
        if op.mem.gds || last as usize + size > group.lds.len() {
            return None;
        }
        Some(Self::new(wave, group.lds.as_mut_ptr() as u64, (register, immediate), first, pattern))
    }

    /// The pattern of accesses of `size` bytes, and the lowest and the highest offset of the active lanes, if there are
    /// any.
    #[inline(always)]
    fn range(wave: &Wave<L>, register: usize, immediate: u32, size: u32) -> Option<(Pattern, u32, u32)> {
        let row = &wave.v[register].0;
        let exec = wave.exec() & Wave::<L>::LANES;
        let one = row[(exec.trailing_zeros() as usize).min(L - 1)];
        let (mut differ, mut leave) = (0, 0);
        for (lane, (&offset, &mask)) in row.iter().zip(&wave.mask.0).enumerate() {
            let distance = offset.wrapping_sub(one);
            differ |= distance & mask;
            leave |= distance ^ (size * lane as u32);
        }
        if differ == 0 {
            let offset = one.wrapping_add(immediate);
            return (exec != 0).then_some((Pattern::Uniform, offset, offset));
        }
        let first = one.wrapping_add(immediate);
        if wave.full
            && leave == 0
            && let Some(last) = first.checked_add(size * (L as u32 - 1))
        {
            return Some((Pattern::Contiguous(size), first, last));
        }
        let (mut first, mut last) = (u32::MAX, 0);
        for (&offset, &mask) in row.iter().zip(&wave.mask.0) {
            let offset = offset.wrapping_add(immediate);
            first = first.min(offset | !mask);
            last = last.max(offset & mask);
        }
        Some((Pattern::Scattered, first, last))
    }

    #[inline(always)]
    fn new(wave: &Wave<L>, base: u64, (register, immediate): (usize, u32), first: u32, pattern: Pattern) -> Self {
        let mut span = Span { base, first, pattern, offsets: MaybeUninit::uninit() };
        if pattern == Pattern::Scattered {
            let offsets = span.offsets.write([0; L]);
            let lanes = wave.v[register].0.iter().zip(&wave.mask.0);
            for (offset, (&value, &mask)) in offsets.iter_mut().zip(lanes) {
                *offset = value.wrapping_add(immediate) & mask | first & !mask;
            }
        }
        span
    }

    /// The offsets, if they are scattered.
    #[inline(always)]
    fn scattered(&self) -> Option<&[u32; L]> {
        // SAFETY: `new` has written them.
        (self.pattern == Pattern::Scattered).then(|| unsafe { self.offsets.assume_init_ref() })
    }

    #[inline(always)]
    fn address(&self, lane: usize) -> u64 {
        let offset = match self.pattern {
            Pattern::Uniform => self.first,
            Pattern::Contiguous(size) => self.first + size * lane as u32,
            // SAFETY: `new` has written them.
            Pattern::Scattered => unsafe { self.offsets.assume_init_ref()[lane] },
        };
        self.base.wrapping_add(offset.into())
    }

    /// True if the lanes' bytes, `size` of each, follow each other.
    #[inline(always)]
    fn is_contiguous(&self, size: u32) -> bool {
        self.pattern == Pattern::Contiguous(size)
    }

    /// Loads `DWORDS` dwords of each active lane to registers.
    ///
    /// # Safety
    /// `4 * DWORDS` bytes of each lane are readable.
    #[inline(always)]
    pub unsafe fn load<const DWORDS: usize>(&self, wave: &mut Wave<L>, dst: usize) {
        if self.pattern == Pattern::Uniform {
            // SAFETY: by this function's contract.
            let values: [u32; DWORDS] = unsafe { read_dwords(self.address(0)) };
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
        // SAFETY: by this function's contract; inactive lanes read an active one's bytes.
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
        if (DWORDS == 4 || DWORDS == 2) && is_x86_feature_detected!("avx2") {
            let offsets: [u32; L] = match self.scattered() {
                Some(offsets) => *offsets,
                None => std::array::from_fn(|lane| self.address(lane).wrapping_sub(self.base) as u32),
            };
            // SAFETY: by this function's contract, and as the CPU has AVX2.
            unsafe {
                match rows {
                    [r0, r1, r2, r3] => {
                        gather_avx2::<4, L>(self.base, &offsets, [&mut r0.0, &mut r1.0, &mut r2.0, &mut r3.0]);
                    }
                    [r0, r1] => gather_avx2::<2, L>(self.base, &offsets, [&mut r0.0, &mut r1.0]),
                    _ => {}
                }
            }
            return;
        }
        for lane in 0..L {
            // SAFETY: by this function's contract.
            let values: [u32; DWORDS] = unsafe { read_dwords(self.address(lane)) };
            for (row, value) in rows[..DWORDS].iter_mut().zip(values) {
                row.0[lane] = value;
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
            if let ([r0, r1, r2, r3], Pattern::Scattered | Pattern::Contiguous(_)) = (rows, self.pattern) {
                let offsets = std::array::from_fn(|lane| self.address(lane).wrapping_sub(self.base) as u32);
                // SAFETY: by this function's contract.
                unsafe { scatter4(self.base, &offsets, [&r0.0, &r1.0, &r2.0, &r3.0]) };
                return;
            }
        }
        for lane in each_lane(wave.exec() & Wave::<L>::LANES) {
            let values: [u32; DWORDS] = std::array::from_fn(|i| rows[i].0[lane]);
            // SAFETY: by this function's contract.
            unsafe { write_dwords(self.address(lane), values) };
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

/// Loads `N` dwords of each lane, two or four, to as many rows: by eight lanes, which often have one address, or those
/// of the first eight.
///
/// # Safety
/// From `base` plus each offset on, `4 * N` bytes are readable.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn gather_avx2<const N: usize, const L: usize>(base: u64, offsets: &[u32; L], mut rows: [&mut [u32; L]; N]) {
    use std::arch::x86_64::{
        __m256, _mm_castpd_ps, _mm_load_sd, _mm256_castps128_ps256, _mm256_insertf128_ps, _mm256_loadu_si256,
        _mm256_loadu2_m128, _mm256_set1_epi32, _mm256_set1_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_testz_si256,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps, _mm256_xor_si256,
    };
    const { assert!(N == 2 || N == 4) }
    let at = |lane: usize| base.wrapping_add(offsets[lane].into()) as *const f32;
    // SAFETY: `offsets` has eight lanes from there on, as L is a multiple of eight.
    let eight = |lane: usize| unsafe { _mm256_loadu_si256(offsets.as_ptr().add(lane).cast()) };
    let is_same = |a, b| {
        let differ = _mm256_xor_si256(a, b);
        _mm256_testz_si256(differ, differ) != 0
    };
    let mut loaded = [_mm256_set1_ps(0.0); N];
    for lane in (0..L).step_by(8) {
        let is_repeated = lane != 0 && is_same(eight(lane), eight(lane - 8));
        if is_repeated {
            // The values of the last ones.
        } else if is_same(eight(lane), _mm256_set1_epi32(offsets[lane] as i32)) {
            for (i, value) in loaded.iter_mut().enumerate() {
                // SAFETY: the lane's bytes are readable by this function's contract.
                *value = _mm256_set1_ps(unsafe { at(lane).add(i).read_unaligned() });
            }
        } else if N == 4 {
            // SAFETY: the lanes' 16 bytes are readable by this function's contract.
            // Lane i is in the lower half, lane i + 4 in the upper one.
            let pair = |i: usize| unsafe { _mm256_loadu2_m128(at(lane + i + 4), at(lane + i)) };
            let (a, b, c, d) = (pair(0), pair(1), pair(2), pair(3));
            let (ab01, ab23) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd01, cd23) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            let all: [__m256; 4] = [
                _mm256_shuffle_ps(ab01, cd01, 0x44),
                _mm256_shuffle_ps(ab01, cd01, 0xee),
                _mm256_shuffle_ps(ab23, cd23, 0x44),
                _mm256_shuffle_ps(ab23, cd23, 0xee),
            ];
            loaded.copy_from_slice(&all[..N]);
        } else {
            // SAFETY: the lanes' 8 bytes are readable by this function's contract.
            let pair = |i: usize| unsafe {
                let half = |lane| _mm_castpd_ps(_mm_load_sd(at(lane).cast()));
                _mm256_insertf128_ps(_mm256_castps128_ps256(half(lane + i)), half(lane + i + 4), 1)
            };
            let (ab, cd) = (_mm256_unpacklo_ps(pair(0), pair(1)), _mm256_unpacklo_ps(pair(2), pair(3)));
            let all = [_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee)];
            loaded[..2].copy_from_slice(&all);
        }
        for (row, value) in rows.iter_mut().zip(loaded) {
            // SAFETY: rows have eight lanes from `lane` on.
            unsafe { _mm256_storeu_ps(row.as_mut_ptr().add(lane).cast(), value) };
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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Where the lanes and registers of RDNA's matrix ops have the tiles' elements.

/// Layout of the tiles' elements in lanes and registers.
pub(super) trait Layout {
    /// Sparse A: two of each four elements along K, chosen by bits of source 2; D is C.
    const SPARSE: bool = false;
    /// The indices fill their registers: there is no other set to choose.
    const ONE_SET: bool = false;
    /// The lane, before its 16 are added, and the place in it of element `k` of `inner` in a wave of `lanes`; elements
    /// have so many bits.
    fn factor(k: usize, inner: usize, lanes: usize, bits: usize) -> (usize, usize);
    /// Position of an element in the dense row of a sparse A.
    #[inline(always)]
    fn sparse_factor(k: usize, inner: usize, lanes: usize, bits: usize) -> (usize, usize) {
        Self::factor(k, inner, lanes, bits)
    }
    /// The lane, before its 16 are added, and the bit where the index of stored element `at` of `count` in `lane` of a
    /// sparse A is.
    #[inline(always)]
    fn index(lane: usize, at: usize, _count: usize) -> (usize, usize) {
        (lane, 2 * at)
    }
    /// The row of C or D in register `r` of `lane`.
    fn row(r: usize, lane: usize, lanes: usize) -> usize;
}

/// RDNA3: lane *m*, and each copy of it 16 lanes further, holds all of row *m*. Rows of C go through the lanes first.
pub(super) struct Doubled;

impl Layout for Doubled {
    #[inline(always)]
    fn factor(k: usize, _: usize, _: usize, _: usize) -> (usize, usize) {
        (0, k)
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, lanes: usize) -> usize {
        r * (lanes / 16) + lane / 16
    }
}

/// RDNA4: lanes *m*, *m* + 16 and so on hold the parts of row *m*, which fill a register at least. Rows of C go through
/// the registers first; in wave64 the upper 32 lanes have those that would be in the upper half of wave32's registers.
pub(super) struct Split;

impl Layout for Split {
    #[inline(always)]
    fn factor(k: usize, inner: usize, lanes: usize, bits: usize) -> (usize, usize) {
        let part = (inner / (lanes / 16)).max(32 / bits);
        (k / part * 16, k % part)
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, _: usize) -> usize {
        r + 8 * (lane / 16 % 2) + 4 * (lane / 32)
    }
}

/// RDNA4's `v_swmmac_*`. How elements of K are numbered makes no difference, as long as four of B in a lane meet two of
/// A in the lane that has the same part of a row.
pub(super) struct Sparse;

impl Layout for Sparse {
    const SPARSE: bool = true;

    #[inline(always)]
    fn factor(k: usize, inner: usize, lanes: usize, bits: usize) -> (usize, usize) {
        Split::factor(k, inner, lanes, bits)
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, lanes: usize) -> usize {
        Split::row(r, lane, lanes)
    }
}

/// In wave64 `v_swmmac_i32_16x16x32_iu4` has A in the lower 32 lanes alone, a register in each.
pub(super) struct HalfSparse;

impl Layout for HalfSparse {
    const SPARSE: bool = true;

    #[inline(always)]
    fn factor(k: usize, _: usize, _: usize, _: usize) -> (usize, usize) {
        let part = k / 8;
        (part / 2 * 16 + part % 2 * 32, k % 8)
    }

    #[inline(always)]
    fn sparse_factor(k: usize, _: usize, _: usize, _: usize) -> (usize, usize) {
        (k / 16 * 16, k % 16)
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, lanes: usize) -> usize {
        Split::row(r, lane, lanes)
    }
}

/// gfx1250's `v_swmmac_*`: factors as on RDNA4, but lane *m* has the indices of the first half of both lanes' elements,
/// lane *m* + 16 those of the second half; of each the lower lane's elements have the lower bits. AMD's hip-fpsan has
/// measured it; AMD's hipconv has the same for 16 bits, its simulator rocjitsu for 8.
pub(super) struct Crossed;

impl Layout for Crossed {
    const SPARSE: bool = true;
    const ONE_SET: bool = true;

    #[inline(always)]
    fn factor(k: usize, inner: usize, lanes: usize, bits: usize) -> (usize, usize) {
        Split::factor(k, inner, lanes, bits)
    }

    #[inline(always)]
    fn index(lane: usize, at: usize, count: usize) -> (usize, usize) {
        let half = count / 2;
        (at / half * 16, 2 * (lane / 16 * half + at % half))
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, lanes: usize) -> usize {
        Split::row(r, lane, lanes)
    }
}

/// gfx1250, 16 and 8 bits: parts of eight elements, by turns in lane *m* and in lane *m* + 16.
pub(super) struct Eights;

impl Layout for Eights {
    #[inline(always)]
    fn factor(k: usize, _: usize, _: usize, _: usize) -> (usize, usize) {
        (k / 8 % 2 * 16, k / 16 * 8 + k % 8)
    }

    #[inline(always)]
    fn row(r: usize, lane: usize, lanes: usize) -> usize {
        Split::row(r, lane, lanes)
    }
}

/// A [`Layout`], for code that many share, and the number of elements along K.
pub(super) struct Shape {
    pub inner: usize,
    pub is_sparse: bool,
    pub has_one_set: bool,
    pub factor: fn(usize, usize, usize, usize) -> (usize, usize),
    pub sparse_factor: fn(usize, usize, usize, usize) -> (usize, usize),
    pub index: fn(usize, usize, usize) -> (usize, usize),
    pub row: fn(usize, usize, usize) -> usize,
}

impl Shape {
    pub const fn of<T: Layout>(inner: usize) -> Self {
        Shape {
            inner,
            is_sparse: T::SPARSE,
            has_one_set: T::ONE_SET,
            factor: T::factor,
            sparse_factor: T::sparse_factor,
            index: T::index,
            row: T::row,
        }
    }
}

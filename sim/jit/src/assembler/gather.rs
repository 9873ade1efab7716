// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Loads from any addresses.

use super::{Assembler, Mask, Mem, Rm, Vector, Width};

/// Two neighbouring quarters of two registers: `/r ib` of map 3.
const SHUFFLE_QUADS: Vector = Vector { prefix: 1, map: 3, code: 0x43 };

impl Assembler {
    /// `vpgatherdd dst {mask}, [mem + index]` of 512 bits. The index has a sign, and is another register than `dst`.
    /// The mask is clear behind it.
    pub fn gather(&mut self, mask: Mask, dst: u8, mem: Mem, index: u8) {
        self.gathers(false, mask, dst, mem, index);
    }

    /// `vpgatherdq dst {mask}, [mem + index]` of 512 bits: pairs of dwords by the lower half of the index.
    pub fn gather_wide(&mut self, mask: Mask, dst: u8, mem: Mem, index: u8) {
        self.gathers(true, mask, dst, mem, index);
    }

    fn gathers(&mut self, wide: bool, Mask(mask): Mask, dst: u8, Mem { base, displacement }: Mem, index: u8) {
        assert!(
            self.width == Width::Zmm && dst != index && mask != 0,
            "a gather has a mask and two registers of 512 bits"
        );
        let base = base as u8;
        self.byte(0x62);
        self.byte((!dst >> 3 & 1) << 7 | (!index >> 3 & 1) << 6 | (!base >> 3 & 1) << 5 | (!dst >> 4 & 1) << 4 | 2);
        self.byte(u8::from(wide) << 7 | 0x78 | 4 | 1);
        self.byte(2 << 5 | (!index >> 4 & 1) << 3 | mask);
        self.byte(0x90);
        // ModRM with a displacement of 32 bits, and SIB.
        self.byte(0x80 | (dst & 7) << 3 | 4);
        self.byte((index & 7) << 3 | base & 7);
        self.dword(displacement as u32);
    }

    /// `vshufi32x4 dst, src, src, order`: two bits for each 128.
    pub fn shuffle_quads(&mut self, dst: u8, src: u8, order: u8) {
        self.encode(Width::Zmm, SHUFFLE_QUADS, dst, src, Rm::Reg(src), None);
        self.byte(order);
    }
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Flags: properties of an op that differ from others of its encodings.

bitflags::bitflags! {
    /// Properties of an op, in its row of the table. Properties of results suffice for a simulator with coherent
    /// caches, in which each instruction ends before the next begins.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u64 {
        /// Accumulates: its old destination is one source more, after those of the row.
        const READS_DST = 1 << 0;
        /// Knows the clamp bit, of floats or of dot products. Integer ops that saturate have no flag.
        const CLAMPS = 1 << 1;
        /// Has no effect that a wave sees: waits, hints, control of caches.
        const NOP = 1 << 2;
        /// `v_cmpx_*`: the result goes to EXEC, on GFX9 too.
        const WRITES_EXEC = 1 << 3;
        /// An atomic, which returns the old value only with [`Mem::glc`](crate::Mem::glc).
        const ATOMIC = 1 << 4;
        /// A store.
        const STORE = 1 << 5;
        /// CDNA: `v_mfma_*`, `v_smfmac_*` and the moves to and from accumulation registers.
        const MATRIX = 1 << 6;
        /// RDNA: matrix ops on tiles that are spread over the wave's lanes. The row has the registers that wave32
        /// takes.
        const TILES = 1 << 7;
        /// A matrix op whose A is sparse: the third source is its index.
        const SPARSE = 1 << 8;
        /// gfx1250: a matrix op that may be told that a factor is that of the one before.
        const REUSES = 1 << 9;
        /// The op has short vector encodings alone, and no VOP3 form.
        const SHORT_ONLY = 1 << 10;
        /// The op has a VOP3 form on GFX9, although it is [`Flags::SHORT_ONLY`].
        const LONG_ON_GFX9 = 1 << 11;
        /// Before gfx11: where it is VOP3, `op_sel` chooses halves of registers. All other 16-bit ops there have low
        /// halves.
        const HALVES = 1 << 12;
        /// GFX9: a VOP3 op whose 16-bit result clears the other half of its register.
        const CLEARS_HALF = 1 << 13;
        /// `neg_hi` is `abs`, and `op_sel_hi` the width of the sources.
        const MIX = 1 << 14;
        /// `op_sel` is fetch-inactive (bit 0) and bound-control (bit 1).
        const PERMLANE = 1 << 15;
        /// A packed op that ignores the bits that change signs.
        const NO_SIGNS = 1 << 16;
        /// SDWA selects part of the source, but not of the destination.
        const FP8_SOURCE = 1 << 17;
        /// gfx1250: `op_sel` is which scale.
        const SCALE_SEL = 1 << 18;
        /// A scalar prefetch: its text names all operands, missing ones as well, and a number last.
        const PREFETCH = 1 << 19;
        /// DS: two offsets of a byte in place of one.
        const TWO_OFFSETS = 1 << 20;
        /// The immediate is hexadecimal in text.
        const HEX = 1 << 21;
        /// The immediate is a distance, decimal in text.
        const BRANCH = 1 << 22;
        /// A load, of memory, LDS or a tensor.
        const LOAD = 1 << 23;
        /// Loads of one or two bytes: the number is signed.
        const SIGNED = 1 << 24;
        /// Memory and LDS: half of a register is loaded or stored, and the other half stays. With [`Flags::CONVERTS`]:
        /// components are halves.
        const D16 = 1 << 25;
        /// The access is of 16 bits of a register, the high half.
        const D16_HI = 1 << 26;
        /// Buffers: the data are converted from or to a format.
        const CONVERTS = 1 << 27;
        /// A load that spreads a tile over lanes by its columns.
        const TRANSPOSES = 1 << 28;
        /// M0 says which of 32 registers are loaded or stored.
        const BLOCK = 1 << 29;
        /// The lane's number makes the address.
        const BY_LANE = 1 << 30;
        /// gfx942: a load of global memory or scratch that goes to LDS at M0.
        const TO_LDS = 1 << 31;
        /// gfx1250: transfer between memory and LDS, counted by `asynccnt`. The operand in the place of the destination
        /// is the LDS address.
        const ASYNC = 1 << 32;
        /// An atomic that stores its data as they are, whatever was there; or not at all (`ds_condxchg`).
        const EXCHANGES = 1 << 33;
        /// With [`Flags::TWO_OFFSETS`]: they count 64 elements.
        const STRIDE64 = 1 << 34;
        /// M0 is added to the numbers of registers.
        const RELATIVE = 1 << 35;
        /// `v_permlane*`: takes a source from other lanes.
        const CROSSES_LANES = 1 << 36;
        /// Compares numbers, for a bit of each lane or SCC.
        const COMPARES = 1 << 37;
        /// A dot product (LLVM, `SIInstrFlags::IsDOT`).
        const DOT = 1 << 38;
        /// Vector op of the unit for transcendental functions (LLVM, `SIInstrFlags::TRANS`).
        const TRANSCENDENTAL = 1 << 39;
        /// Scalar: SCC is written ("SCC = ..." in the ISA documents).
        const WRITES_SCC = 1 << 40;
        /// Scalar: reads and writes EXEC, which is not among its operands.
        const SAVES_EXEC = 1 << 41;
        /// Barriers of workgroups.
        const BARRIER = 1 << 42;
        /// gfx950: `op_sel` chooses half of source 0.
        const SRC_WORD = 1 << 43;
        /// gfx950: `op_sel` chooses a byte of source 0, by its lowest bits.
        const SRC_BYTE = 1 << 44;
        /// gfx950: `op_sel` chooses the half of the destination that is written, by its highest bit.
        const DST_WORD = 1 << 45;
        /// gfx950: `op_sel` chooses the byte of the destination that is written, by its highest bits.
        const DST_BYTE = 1 << 46;
    }
}

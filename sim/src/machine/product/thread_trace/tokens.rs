// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Tokens of thread traces, in the format of ROCm's trace decoder (`gfx9token.h`, `gfx10token.h`, `gfx12token.h` of
//! rocprof-trace-decoder; for gfx9 also the `SQ_THREAD_TRACE_WORD_*` fields of the kernel driver's headers).
//!
//! Tokens of gfx9 consist of 16-bit words and begin with their type. Tokens of later generations consist of 4-bit units
//! and begin with a prefix of 3 to 8 bits; a header states the generation. A time is the distance from the previous
//! token: here each wave and instruction comes one unit after its predecessor.

use hsa_abi::compute::COMPUTE_DISPATCH_INITIATOR;
use hsa_abi::performance::Generation;
use hsa_abi::thread_trace::{gfx9, gfx11};
use sim_wave::Class;

/// Position of a wave in its shader engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Shader array.
    pub array: u32,
    /// Compute unit, or work-group processor from gfx10 on.
    pub unit: u32,
    /// SIMD unit.
    pub simd: u32,
    /// Number of the wave in the SIMD unit.
    pub slot: u32,
}

/// Requested contents of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// True for waves of compute shaders.
    pub waves: bool,
    /// `SQ_THREAD_TRACE_MASK`.
    pub mask: u32,
    /// `SQ_THREAD_TRACE_TOKEN_MASK`.
    pub tokens: u32,
    /// `SQ_THREAD_TRACE_TOKEN_MASK2`; up to gfx9.
    pub instructions: u32,
}

impl Wanted {
    /// True if tokens of this gfx9 type are requested.
    fn has(&self, token: u32) -> bool {
        self.tokens >> token & 1 != 0
    }

    /// True if instructions of waves at this place are requested. gfx9 can trace all SIMD units of a unit, later
    /// generations one.
    pub fn instructions_at(&self, generation: Generation, place: Place) -> bool {
        let Place { array, unit, simd, .. } = place;
        match generation {
            Generation::Gfx9 => {
                self.has(gfx9::TOKEN_INST)
                    && self.instructions != 0
                    && (unit, array) == (self.mask & 0x1f, self.mask >> 5 & 1)
                    && self.mask >> (8 + simd) & 1 != 0
            }
            _ => (simd, unit, array) == (self.mask & 3, self.mask >> 4 & 0xf, self.mask >> 9 & 1),
        }
    }

    /// True if instructions of any wave of a workgroup at this unit of an array may be requested.
    pub fn instructions_of(&self, generation: Generation, array: u32, unit: u32) -> bool {
        self.waves && (0..4).any(|simd| self.instructions_at(generation, Place { array, unit, simd, slot: 0 }))
    }
}

/// Bit stream of tokens, with a size limit.
#[derive(Debug)]
pub struct Tokens {
    generation: Generation,
    wanted: Wanted,
    bytes: Vec<u8>,
    /// True if only the lower half of the last byte is used.
    is_half: bool,
    limit: usize,
    /// Number of tokens without room.
    pub lost: u32,
}

impl Tokens {
    /// Starts a trace, with room for `limit` bytes.
    pub fn new(generation: Generation, wanted: Wanted, limit: usize, ticks: u64) -> Self {
        let mut tokens = Self { generation, wanted, bytes: Vec::new(), is_half: false, limit, lost: 0 };
        match generation {
            Generation::Gfx9 => {
                if wanted.has(gfx9::TOKEN_TIME) {
                    tokens.push(u64::from(gfx9::TOKEN_TIME) | ticks << 16, 64);
                }
            }
            Generation::Gfx10 | Generation::Gfx11 | Generation::Gfx12 => {
                let version = match generation {
                    Generation::Gfx10 => 2,
                    Generation::Gfx11 => 3,
                    _ => 4,
                };
                // Parts that are traced in detail: SIMD unit, work-group processor, shader array.
                let (simd, unit, array) = (wanted.mask & 3, wanted.mask >> 4 & 7, wanted.mask >> 9 & 1);
                tokens.push(0b001_0001 | version << 7 | u64::from(simd << 13 | unit << 15 | array << 19), 64);
            }
        }
        tokens
    }

    /// Size limit in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Requested contents.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Returns all bytes, padded to whole blocks, or to the limit if tokens were lost.
    pub fn finish(mut self, block: usize) -> Vec<u8> {
        let length = if self.lost > 0 { self.limit } else { self.bytes.len().next_multiple_of(block) };
        self.bytes.resize(length, 0);
        self.bytes
    }

    /// Appends a token of `bits` bits, a multiple of 4.
    fn push(&mut self, token: u64, bits: usize) {
        let used = self.bytes.len() * 2 - usize::from(self.is_half);
        // Tokens after a lost one would be decoded at a wrong time.
        if self.lost > 0 || used + bits / 4 > self.limit * 2 {
            self.lost += 1;
            return;
        }
        for shift in (0..bits).step_by(4) {
            let half = (token >> shift & 0xf) as u8;
            match self.bytes.last_mut() {
                Some(last) if self.is_half => *last |= half << 4,
                _ => self.bytes.push(half),
            }
            self.is_half = !self.is_half;
        }
    }

    /// Adds a register write by the packet processor: a register of compute shaders, or user data.
    pub fn register(&mut self, register: u32, value: u32, is_compute: bool) {
        let (register, value) = (u64::from(register), u64::from(value));
        // Counted from the first register of compute shaders.
        let compute = || register - u64::from(COMPUTE_DISPATCH_INITIATOR);
        match self.generation {
            // The micro engine of compute queues is 1.
            Generation::Gfx9 if is_compute => {
                if self.wanted.has(gfx9::TOKEN_REG_CS) {
                    self.push(u64::from(gfx9::TOKEN_REG_CS) | 1 << 7 | compute() << 9 | value << 16, 48);
                }
            }
            Generation::Gfx9 => {
                if self.wanted.has(gfx9::TOKEN_REG) {
                    self.push(u64::from(gfx9::TOKEN_REG) | 1 << 7 | 1 << 15 | register << 16 | value << 32, 64);
                }
            }
            _ => {
                let is_wanted = self.wanted.tokens & gfx11::REG_INCLUDE_COMP != 0;
                if self.wanted.tokens & gfx11::EXCLUDE_REG == 0 && is_wanted {
                    let address = if is_compute { 1 << 15 | compute() << 16 } else { register << 16 };
                    self.push(0b1001 | 1 << 9 | address | value << 32, 64);
                }
            }
        }
    }

    /// Adds the start of a wave with `items` work-items.
    pub fn wave_start(&mut self, place: Place, items: u32) {
        let [array, unit, simd, slot] = [place.array, place.unit, place.simd, place.slot].map(u64::from);
        let items = u64::from(items);
        let token = match self.generation {
            Generation::Gfx9 => {
                let wave = array << 5 | unit << 6 | slot << 10 | simd << 14 | items << 22;
                u64::from(gfx9::TOKEN_WAVE_START) | 1 << 4 | wave
            }
            Generation::Gfx10 | Generation::Gfx11 => {
                0b0_1100 | 1 << 5 | array << 7 | simd << 8 | unit << 10 | slot << 13 | 1 << 23 | items << 25
            }
            Generation::Gfx12 => {
                0b0_1100 | 1 << 5 | array << 7 | simd << 8 | unit << 10 | slot << 15 | 1 << 22 | items << 25
            }
        };
        if self.has_waves(gfx9::TOKEN_WAVE_START) {
            self.push(token, 32);
        }
    }

    /// Adds the end of a wave.
    pub fn wave_end(&mut self, place: Place) {
        let [array, unit, simd, slot] = [place.array, place.unit, place.simd, place.slot].map(u64::from);
        if !self.has_waves(gfx9::TOKEN_WAVE_END) {
            return;
        }
        match self.generation {
            Generation::Gfx9 => {
                let wave = array << 5 | unit << 6 | slot << 10 | simd << 14;
                self.push(u64::from(gfx9::TOKEN_WAVE_END) | 1 << 4 | wave, 16);
            }
            _ => self.push(0b1_0101 | 1 << 5 | array << 8 | simd << 9 | unit << 11 | slot << 15, 20),
        }
    }

    /// True if waves are requested. `token` is gfx9's type.
    fn has_waves(&self, token: u32) -> bool {
        self.wanted.waves
            && match self.generation {
                Generation::Gfx9 => self.wanted.has(token),
                _ => self.wanted.tokens & gfx11::EXCLUDE_WAVESTARTEND == 0,
            }
    }

    /// Adds an instruction of a wave.
    pub fn instruction(&mut self, place: Place, class: Class) {
        if !self.wanted.waves || !self.wanted.instructions_at(self.generation, place) {
            return;
        }
        let (simd, slot) = (u64::from(place.simd), u64::from(place.slot));
        if self.generation == Generation::Gfx9 {
            let kind = gfx9_kind(class);
            if self.wanted.has(gfx9::TOKEN_ISSUE) {
                let issued = if kind.is_some() { 2 } else { 3 };
                self.push(u64::from(gfx9::TOKEN_ISSUE) | 1 << 4 | simd << 5 | issued << (8 + 2 * slot), 32);
            }
            if let Some(kind) = kind {
                self.push(u64::from(gfx9::TOKEN_INST) | slot << 5 | simd << 9 | kind << 11, 16);
            }
            return;
        }
        let excluded = self.wanted.tokens;
        match class {
            Class::Valu if excluded & gfx11::EXCLUDE_VALUINST == 0 => self.push(0b011 | 1 << 3 | slot << 7, 12),
            Class::Immediate if excluded & gfx11::EXCLUDE_IMMEDIATE == 0 => self.push(0b1101 | 1 << 4 | slot << 7, 12),
            Class::Valu | Class::Immediate => {}
            _ if excluded & gfx11::EXCLUDE_INST != 0 => {}
            _ if self.generation == Generation::Gfx12 => {
                self.push(0b010 | 1 << 3 | slot << 7 | gfx11_kind(class) << 12, 20);
            }
            _ => self.push(0b010 | 1 << 4 | slot << 8 | gfx11_kind(class) << 13, 20),
        }
    }
}

/// Kind in gfx9's instruction token; `None` for instructions that are not issued to a unit.
fn gfx9_kind(class: Class) -> Option<u64> {
    match class {
        Class::Smem => Some(0),
        Class::Salu => Some(1),
        Class::Vmem { writes: false } => Some(2),
        Class::Vmem { writes: true } => Some(3),
        Class::Flat { writes: true } => Some(4),
        Class::Valu => Some(5),
        Class::Lds { .. } => Some(6),
        Class::Jump => Some(12),
        Class::Next => Some(13),
        Class::Flat { writes: false } => Some(14),
        Class::Message => Some(15),
        Class::Barrier | Class::Immediate => None,
    }
}

/// Kind in the instruction tokens of gfx11 and gfx12, which have the same numbers.
fn gfx11_kind(class: Class) -> u64 {
    match class {
        Class::Salu | Class::Valu | Class::Immediate => 0,
        Class::Smem => 1,
        Class::Jump => 3,
        Class::Next => 4,
        Class::Message => 9,
        Class::Barrier => 0x13,
        Class::Flat { writes: false } => 0x1c,
        Class::Flat { writes: true } => 0x1d,
        Class::Vmem { writes: false } => 0x21,
        Class::Vmem { writes: true } => 0x24,
        Class::Lds { writes: false } => 0x29,
        Class::Lds { writes: true } => 0x2b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { array: 0, unit: 1, simd: 3, slot: 2 };

    fn wanted(mask: u32, tokens: u32) -> Wanted {
        Wanted { waves: true, mask, tokens, instructions: u32::MAX }
    }

    /// The fields must be at the positions of ROCm's decoder.
    #[test]
    fn tokens_of_gfx11_are_as_their_decoder_reads_them() {
        let wanted = wanted(1 << 4 | 3, gfx11::REG_INCLUDE_COMP);
        let mut tokens = Tokens::new(Generation::Gfx11, wanted, 96, 0);
        tokens.register(0xc342, 0x434f_5200, false);
        tokens.wave_start(PLACE, 32);
        tokens.instruction(PLACE, Class::Valu);
        tokens.instruction(PLACE, Class::Smem);
        tokens.instruction(PLACE, Class::Immediate);
        tokens.instruction(Place { simd: 0, ..PLACE }, Class::Valu);
        tokens.wave_end(PLACE);
        let bytes = tokens.finish(32);
        assert_eq!(bytes.len(), 32);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        // Version 3, SIMD unit 3, processor 1.
        assert_eq!((word(0) & 0x7f, word(0) >> 7 & 0x3f, word(0) >> 13 & 3, word(0) >> 15 & 7), (0x11, 3, 3, 1));
        assert_eq!((word(8) & 0xf, word(8) >> 15 & 1, word(8) >> 16 & 0xffff), (9, 0, 0xc342));
        assert_eq!(word(8) >> 32, 0x434f_5200);
        let start = word(16) & 0xffff_ffff;
        assert_eq!((start & 0x1f, start >> 8 & 3, start >> 10 & 7, start >> 13 & 0x1f), (0b0_1100, 3, 1, 2));
        assert_eq!(start >> 25, 32);
        // 12 bits, 20 and 12; then the wave's end of 20.
        let rest = word(20);
        assert_eq!((rest & 7, rest >> 7 & 0x1f), (0b011, 2));
        assert_eq!((rest >> 12 & 7, rest >> 20 & 0x1f, rest >> 25 & 0x7f), (0b010, 2, 1));
        assert_eq!((rest >> 32 & 0xf, rest >> 39 & 0x1f), (0b1101, 2));
        assert_eq!((rest >> 44 & 0x1f, rest >> 53 & 3, rest >> 55 & 7, rest >> 59), (0b1_0101, 3, 1, 2));
    }

    #[test]
    fn tokens_of_gfx9_are_as_their_decoder_reads_them() {
        let all = wanted(1 | 0xf << 8, 0xffff);
        let mut tokens = Tokens::new(Generation::Gfx9, all, 96, 0x1234);
        tokens.register(0x2e0c, 0xabcd_ef01, true);
        tokens.wave_start(PLACE, 64);
        tokens.instruction(PLACE, Class::Valu);
        tokens.instruction(PLACE, Class::Immediate);
        tokens.wave_end(PLACE);
        let bytes = tokens.finish(32);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!(word(0), 1 | 0x1234 << 16);
        assert_eq!((word(8) & 0xf, word(8) >> 9 & 0x7f, word(8) >> 16 & 0xffff_ffff), (5, 0xc, 0xabcd_ef01));
        let start = word(14);
        assert_eq!((start & 0xf, start >> 6 & 0xf, start >> 10 & 0xf, start >> 14 & 3), (3, 1, 2, 3));
        assert_eq!(start >> 22 & 0x7f, 64);
        let rest = word(18);
        assert_eq!((rest & 0xf, rest >> 5 & 3, rest >> 12 & 3), (13, 3, 2));
        assert_eq!((rest >> 32 & 0xf, rest >> 37 & 0xf, rest >> 41 & 3, rest >> 43 & 0x1f), (10, 2, 3, 5));
        let rest = word(24);
        assert_eq!((rest & 0xf, rest >> 12 & 3), (13, 3));
        assert_eq!((rest >> 32 & 0xf, rest >> 38 & 0xf), (6, 1));
    }

    #[test]
    fn what_there_is_no_room_for_is_lost_from_there_on() {
        let mut tokens = Tokens::new(Generation::Gfx11, wanted(0, 0), 32, 0);
        (0..7).for_each(|_| tokens.wave_start(PLACE, 32));
        tokens.wave_end(PLACE);
        assert_eq!(tokens.lost, 2);
        assert_eq!(tokens.finish(32).len(), 32);
        let mut tokens = Tokens::new(Generation::Gfx11, wanted(0, gfx11::EXCLUDE_WAVESTARTEND), 32, 0);
        tokens.wave_start(PLACE, 32);
        assert_eq!((tokens.lost, tokens.finish(32)[8..12].to_vec()), (0, vec![0; 4]));
    }
}

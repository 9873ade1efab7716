// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! PM4 commands of packet processors from gfx10 to gfx12.0. Opcodes are those of Linux's `nvd.h`, fields those of
//! Mesa's `sid.h`.

use std::mem::offset_of;

use hsa_abi::{AmdSignal, HsaSignal};

const WRITE_DATA: u32 = 0x37;
const INDIRECT_BUFFER: u32 = 0x3f;
const COPY_DATA: u32 = 0x40;
const WAIT_REG_MEM64: u32 = 0x93;

// `WAIT_REG_MEM64`.
const LESS_THAN: u32 = 1;
const IN_MEMORY: u32 = 1 << 4;
/// Clocks between two looks, in units of 16; the packet processor goes on with other queues meanwhile.
const INTERVAL: u32 = 4 | 1 << 31;

// `WRITE_DATA` and `COPY_DATA`.
/// From and to memory through the L2, as kernels access it.
const FROM_L2: u32 = 2;
const TO_L2: u32 = 2 << 8;
/// 64 bits rather than 32.
const WIDE: u32 = 1 << 16;
/// The write has arrived before the packet ends.
const CONFIRM: u32 = 1 << 20;

/// `INDIRECT_BUFFER`: the buffer is there.
const VALID: u32 = 1 << 23;

/// The header of a command of `dwords`, itself included.
const fn header(opcode: u32, dwords: u32) -> u32 {
    3 << 30 | (dwords - 2) << 16 | opcode << 8
}

const fn low(word: u64) -> u32 {
    word as u32
}

const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The command that waits until the value of `signal`, which is never negative, is less than `threshold`. Compared
/// without a sign.
pub fn wait_below(signal: HsaSignal, threshold: i64) -> [u32; 9] {
    let (address, threshold) = (signal.handle + offset_of!(AmdSignal, value) as u64, threshold as u64);
    [
        header(WAIT_REG_MEM64, 9),
        LESS_THAN | IN_MEMORY,
        low(address),
        high(address),
        low(threshold),
        high(threshold),
        u32::MAX,
        u32::MAX,
        INTERVAL,
    ]
}

/// A command that moves a few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    dwords: [u32; 6],
    count: usize,
}

impl Move {
    /// Most bytes that one moves.
    pub const MOST: usize = 8;

    /// Its dwords.
    #[inline]
    pub fn dwords(&self) -> &[u32] {
        &self.dwords[..self.count]
    }
}

/// The command that writes `bytes` (4 or 8) at `target`, if that is a multiple of 4.
pub fn write(target: u64, bytes: &[u8]) -> Option<Move> {
    if !matches!(bytes.len(), 4 | 8) || !target.is_multiple_of(4) {
        return None;
    }
    let count = 4 + bytes.len() / 4;
    let mut dwords = [header(WRITE_DATA, count as u32), TO_L2 | CONFIRM, low(target), high(target), 0, 0];
    for (dword, word) in dwords[4..].iter_mut().zip(bytes.chunks_exact(4)) {
        *dword = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    }
    Some(Move { dwords, count })
}

/// The command that copies `length` bytes (4 or 8), if both addresses are multiples of that.
pub fn copy(source: u64, target: u64, length: u64) -> Option<Move> {
    let width = match length {
        4 => 0,
        8 => WIDE,
        _ => return None,
    };
    let is_aligned = source.is_multiple_of(length) && target.is_multiple_of(length);
    let control = FROM_L2 | TO_L2 | width | CONFIRM;
    let dwords = [header(COPY_DATA, 6), control, low(source), high(source), low(target), high(target)];
    is_aligned.then_some(Move { dwords, count: dwords.len() })
}

/// The command that runs the `dwords` at `address`, a multiple of 4.
pub fn jump(address: u64, dwords: u32) -> [u32; 4] {
    [header(INDIRECT_BUFFER, 4), low(address), high(address), dwords | VALID]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_words_that_packet_processors_want() {
        let wait = wait_below(HsaSignal { handle: 0x7f12_3456_7880 }, 0x3fff_ffff_ffff_fff0);
        let expected =
            [0xc007_9300, 0x11, 0x3456_7888, 0x7f12, 0xffff_fff0, 0x3fff_ffff, 0xffff_ffff, 0xffff_ffff, 0x8000_0004];
        assert_eq!(wait, expected);
        let written = write(0x7f12_3456_7884, &[1, 2, 3, 4, 5, 6, 7, 8]).expect("a small write");
        assert_eq!(written.dwords(), [0xc004_3700, 0x10_0200, 0x3456_7884, 0x7f12, 0x0403_0201, 0x0807_0605]);
        let copied = copy(0x7f12_3456_7888, 0x7f13_0000_0010, 8).expect("a small copy");
        assert_eq!(copied.dwords(), [0xc004_4000, 0x11_0202, 0x3456_7888, 0x7f12, 0x10, 0x7f13]);
        assert_eq!(copy(0x1004, 0x2000, 4).expect("a small copy").dwords()[1], 0x10_0202);
        assert_eq!(jump(0x7f12_3456_78c0, 9), [0xc002_3f00, 0x3456_78c0, 0x7f12, 0x0080_0009]);
    }

    #[test]
    fn what_is_not_small_or_aligned_has_no_command() {
        assert_eq!(write(0x1002, &[0; 4]), None);
        assert_eq!(write(0x1000, &[0; 5]), None);
        assert_eq!(write(0x1000, &[0; 12]), None);
        assert_eq!(copy(0x1004, 0x2000, 8), None);
        assert_eq!(copy(0x1000, 0x2002, 4), None);
        assert_eq!(copy(0x1000, 0x2000, 2), None);
    }
}

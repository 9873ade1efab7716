// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! PM4 commands of packet processors from gfx10 to gfx12.0. Opcodes are those of Linux's `nvd.h`, fields those of Mesa's `sid.h`.

use std::mem::offset_of;

use hsa_abi::{AmdSignal, HsaSignal};

const INDIRECT_BUFFER: u32 = 0x3f;
const WAIT_REG_MEM64: u32 = 0x93;

// `WAIT_REG_MEM64`.
const LESS_THAN: u32 = 1;
const IN_MEMORY: u32 = 1 << 4;
/// Clocks between two looks, in units of 16; the packet processor goes on with other queues meanwhile.
const INTERVAL: u32 = 4 | 1 << 31;

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

/// The command that waits until the value of `signal`, which is never negative, is less than `threshold`. Compared without a sign.
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
        assert_eq!(jump(0x7f12_3456_78c0, 9), [0xc002_3f00, 0x3456_78c0, 0x7f12, 0x0080_0009]);
    }
}

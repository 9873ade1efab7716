// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! PM4 commands: the waits and moves of packet processors from gfx10 to gfx12.0, and the commands of dispatch streams,
//! for gfx9, too. Opcodes are from Linux's `soc15d.h` and `nvd.h`, which agree. Fields are from Mesa's `sid.h` and, for
//! gfx9, from `soc15d.h`.

use std::mem::offset_of;

use hsa_abi::compute::{COMPUTE_SHADER_EN, CS_W32_EN, FORCE_START_AT_000};
use hsa_abi::{AmdSignal, HsaSignal};

use amdgpu_gpu::streams::Dialect;

const DISPATCH_DIRECT: u32 = 0x15;
const WRITE_DATA: u32 = 0x37;
const INDIRECT_BUFFER: u32 = 0x3f;
const COPY_DATA: u32 = 0x40;
const EVENT_WRITE: u32 = 0x46;
const ACQUIRE_MEM: u32 = 0x58;
const SET_SH_REG: u32 = 0x76;
const WAIT_REG_MEM64: u32 = 0x93;

/// Header bit of commands for compute shaders.
const COMPUTE: u32 = 1 << 1;

/// The first register that `SET_SH_REG` sets.
const FIRST_SHADER_REGISTER: u32 = 0x2c00;

/// Registers of compute shaders, by number.
pub mod registers {
    pub use hsa_abi::compute::{
        COMPUTE_NUM_THREAD_X as NUM_THREAD_X, COMPUTE_PGM_LO as PGM_LO, COMPUTE_PGM_RSRC1 as PGM_RSRC1,
        COMPUTE_RESOURCE_LIMITS as RESOURCE_LIMITS, COMPUTE_RESTART_X as RESTART_X, COMPUTE_START_X as START_X,
        COMPUTE_TMPRING_SIZE as TMPRING_SIZE, COMPUTE_USER_DATA_0 as USER_DATA_0,
    };
    use hsa_abi::compute::{COMPUTE_PGM_RSRC3, GFX9_COMPUTE_PGM_RSRC3};

    use super::Dialect;

    /// The third resource register of the kernel's descriptor.
    pub const fn pgm_rsrc3(dialect: Dialect) -> u32 {
        match dialect {
            Dialect::Gfx9 => GFX9_COMPUTE_PGM_RSRC3,
            Dialect::Gfx10 => COMPUTE_PGM_RSRC3,
        }
    }
}

/// `EVENT_WRITE` of `CS_PARTIAL_FLUSH` (7), which has the index 4: waits until all dispatches before it are over.
const CS_PARTIAL_FLUSH: u32 = 7 | 4 << 8;

/// `CP_COHER_CNTL` of gfx9: invalidates the caches of compute units, vector and scalar ones.
const GFX9_UNITS: u32 = 1 << 22 | 1 << 27;
/// As [`GFX9_UNITS`], and writes back and invalidates the L2.
const GFX9_L2: u32 = 1 << 18 | 1 << 23;
/// `GCR_CNTL` from gfx10 on: invalidates the caches of compute units (`GLV`, `GLK`) and shader arrays (`GL1`).
const GFX10_UNITS: u32 = 1 << 7 | 1 << 8 | 1 << 9;
/// As [`GFX10_UNITS`], and writes back and invalidates the L2 and its metadata cache (`GLM`).
const GFX10_L2: u32 = 1 << 4 | 1 << 5 | 1 << 14 | 1 << 15;
/// Clocks between two checks of whether the cache operation is complete.
const POLL_INTERVAL: u32 = 10;

/// The most dwords that [`jump`] can name.
pub const MOST_DWORDS: usize = 0xf_ffff;

// `WAIT_REG_MEM64`.
const LESS_THAN: u32 = 1;
const IN_MEMORY: u32 = 1 << 4;
/// Clocks between two checks, in units of 16. The packet processor runs other queues meanwhile.
const INTERVAL: u32 = 4 | 1 << 31;

// `WRITE_DATA` and `COPY_DATA`.
/// Moves from and to memory through the L2, as kernels access it.
const FROM_L2: u32 = 2;
const TO_L2: u32 = 2 << 8;
/// Moves 64 bits rather than 32.
const WIDE: u32 = 1 << 16;
/// Waits for the write to arrive before the packet ends.
const CONFIRM: u32 = 1 << 20;

/// `INDIRECT_BUFFER`: the buffer is valid.
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

/// The command that waits until the value of `signal`, which is never negative, is less than `threshold`. The
/// comparison is unsigned.
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
    /// The most bytes that a command moves.
    pub const MOST: usize = 8;

    /// The dwords of the command.
    #[inline]
    pub fn dwords(&self) -> &[u32] {
        &self.dwords[..self.count]
    }
}

/// The command that writes `bytes` (4 or 8) to `target`; none if `target` is not a multiple of 4.
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

/// The command that copies `length` bytes (4 or 8); none if an address is not a multiple of `length`.
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

/// The command that runs the `dwords` of commands at `address`, a multiple of 4.
pub fn jump(address: u64, dwords: u32) -> [u32; 4] {
    [header(INDIRECT_BUFFER, 4), low(address), high(address), dwords | VALID]
}

/// Appends the command that sets shader registers from `first` on.
pub fn set_registers<const N: usize>(stream: &mut Vec<u32>, first: u32, values: [u32; N]) {
    let begin = [header(SET_SH_REG, 2 + N as u32) | COMPUTE, first - FIRST_SHADER_REGISTER];
    stream.extend(begin.into_iter().chain(values));
}

/// The command that sets `first` and the register behind it to the halves of an address.
#[inline(always)]
pub fn set_address(first: u32, address: u64) -> [u32; 4] {
    [header(SET_SH_REG, 4) | COMPUTE, first - FIRST_SHADER_REGISTER, low(address), high(address)]
}

/// The command that dispatches the kernel in the registers with this number of workgroups.
#[inline(always)]
pub fn dispatch([x, y, z]: [u32; 3], is_wave32: bool) -> [u32; 5] {
    let width = if is_wave32 { CS_W32_EN } else { 0 };
    let initiator = COMPUTE_SHADER_EN | FORCE_START_AT_000 | width;
    [header(DISPATCH_DIRECT, 5) | COMPUTE, x, y, z, initiator]
}

/// Appends the command that waits until all earlier dispatches are complete.
pub fn wait_for_dispatches(stream: &mut Vec<u32>) {
    stream.extend_from_slice(&[header(EVENT_WRITE, 2), CS_PARTIAL_FLUSH]);
}

/// Appends the command that makes earlier writes of the GPU's own dispatches visible to later commands. If `whole`,
/// writes from outside the GPU are visible, too, and the dispatches' writes become visible outside the GPU.
pub fn invalidate_caches(stream: &mut Vec<u32>, dialect: Dialect, whole: bool) {
    // All of memory.
    const SIZE: u32 = u32::MAX;
    match dialect {
        Dialect::Gfx9 => {
            let caches = GFX9_UNITS | if whole { GFX9_L2 } else { 0 };
            stream.extend_from_slice(&[header(ACQUIRE_MEM, 7) | COMPUTE, caches, SIZE, 0xff_ffff, 0, 0, POLL_INTERVAL]);
        }
        Dialect::Gfx10 => {
            let caches = GFX10_UNITS | if whole { GFX10_L2 } else { 0 };
            stream.extend_from_slice(&[header(ACQUIRE_MEM, 8), 0, SIZE, 0x1ff_ffff, 0, 0, POLL_INTERVAL, caches]);
        }
    }
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
    fn streams_have_the_words_that_each_generation_wants() {
        let words = |write: &dyn Fn(&mut Vec<u32>)| {
            let mut stream = Vec::new();
            write(&mut stream);
            stream
        };
        let set = words(&|stream| set_registers(stream, registers::PGM_RSRC1, [7, 8]));
        assert_eq!(set, [0xc002_7602, 0x212, 7, 8]);
        let set = words(&|stream| set_registers(stream, registers::pgm_rsrc3(Dialect::Gfx9), [9]));
        assert_eq!(set, [0xc001_7602, 0x22d, 9]);
        let set = words(&|stream| set_registers(stream, registers::pgm_rsrc3(Dialect::Gfx10), [9]));
        assert_eq!(set, [0xc001_7602, 0x228, 9]);
        assert_eq!(set_address(registers::PGM_LO, 0x12_3456_7890), [0xc002_7602, 0x20c, 0x3456_7890, 0x12]);
        assert_eq!(dispatch([2, 3, 4], true), [0xc003_1502, 2, 3, 4, 0x8005]);
        assert_eq!(dispatch([2, 3, 4], false), [0xc003_1502, 2, 3, 4, 5]);
        assert_eq!(words(&wait_for_dispatches), [0xc000_4600, 0x407]);
        let caches = |dialect, whole| words(&|stream| invalidate_caches(stream, dialect, whole));
        let gfx9 = |caches| vec![0xc005_5802, caches, u32::MAX, 0xff_ffff, 0, 0, 10];
        assert_eq!(caches(Dialect::Gfx9, false), gfx9(0x0840_0000));
        assert_eq!(caches(Dialect::Gfx9, true), gfx9(0x08c4_0000));
        let gfx10 = |caches| vec![0xc006_5800, 0, u32::MAX, 0x1ff_ffff, 0, 0, 10, caches];
        assert_eq!(caches(Dialect::Gfx10, false), gfx10(0x380));
        assert_eq!(caches(Dialect::Gfx10, true), gfx10(0xc3b0));
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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Detection of stale kernel arguments.
//!
//! A GPU reads kernel arguments through its scalar cache, which an acquire fence of agent or system scope invalidates
//! (HSA SysArch 3.3; AMDGPUUsage "Memory Model"). Arguments that are read, rewritten, and read again without such a
//! fence may be stale on hardware. In the sim all memory is coherent, so that the error would have no effect. This
//! module records the lines that an agent may still hold, and reports stale ones.

use std::collections::hash_map::Entry;

use hsa_abi::HsaFenceScope;
use rustc_hash::FxHashMap;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Maximum number of lines from earlier fences to keep. Removing them one by one, when they are read again, is cheaper.
const MOST_OLD: usize = 4096;

/// Bytes of a line; 0 outside of the allocation.
pub type Bytes = [u8; LINE as usize];

/// The lines of kernel arguments that an agent has read since its last acquire fence.
#[derive(Debug, Default)]
pub struct ScalarCache {
    /// Lines, with the number of fences before they were read. Lines with an old number are invalid.
    lines: FxHashMap<u64, (u64, Bytes)>,
    /// Number of acquire fences so far.
    fences: u64,
}

impl ScalarCache {
    /// Applies a packet's acquire fence.
    pub fn acquire(&mut self, scope: HsaFenceScope) {
        if scope != HsaFenceScope::NONE {
            self.invalidate();
        }
    }

    /// Removes all lines.
    pub fn invalidate(&mut self) {
        self.fences += 1;
        if self.lines.len() > MOST_OLD {
            self.lines.clear();
        }
    }

    /// Reads a dispatch's arguments, the bytes `address..address + size` of the allocation `base..end`. `read` returns
    /// the bytes of a range within a line. Returns the address of the first argument byte that may be stale on the
    /// agent.
    pub fn read(
        &mut self,
        (address, size): (u64, u64),
        (base, end): (u64, u64),
        read: impl Fn(u64, u64) -> Bytes,
    ) -> Option<u64> {
        let first = address / LINE * LINE;
        for line in (first..address + size).step_by(LINE as usize) {
            let start = line.max(base);
            let bytes = read(start, (line + LINE).min(end) - start);
            match self.lines.entry(start) {
                Entry::Occupied(entry) if entry.get().0 == self.fences => {
                    let held = &entry.get().1;
                    if *held != bytes {
                        let stale = (start..)
                            .zip(bytes.iter().zip(held))
                            .find(|&(byte, (new, old))| new != old && (address..address + size).contains(&byte));
                        if let Some((byte, _)) = stale {
                            return Some(byte);
                        }
                    }
                }
                entry => drop(entry.insert_entry((self.fences, bytes))),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads bytes 96..160 of `memory`, whose first byte has address 32.
    fn read(cache: &mut ScalarCache, acquire: HsaFenceScope, memory: &[u8; 256]) -> Option<u64> {
        let get = |start: u64, size: u64| {
            let mut bytes = [0; LINE as usize];
            bytes[..size as usize].copy_from_slice(&memory[start as usize - 32..][..size as usize]);
            bytes
        };
        cache.acquire(acquire);
        cache.read((96, 64), (32, 32 + 256), get)
    }

    #[test]
    fn rewritten_arguments_need_an_acquire() {
        let mut cache = ScalarCache::default();
        let mut memory = [0; 256];
        assert_eq!(read(&mut cache, HsaFenceScope::NONE, &memory), None);
        assert_eq!(read(&mut cache, HsaFenceScope::NONE, &memory), None);
        memory[100 - 32] = 1;
        assert_eq!(read(&mut cache, HsaFenceScope::NONE, &memory), Some(100));
        assert_eq!(read(&mut cache, HsaFenceScope::AGENT, &memory), None);
        assert_eq!(read(&mut cache, HsaFenceScope::NONE, &memory), None);
    }

    #[test]
    fn neighbours_on_a_line_do_not_count() {
        let mut cache = ScalarCache::default();
        let mut memory = [0; 256];
        assert_eq!(read(&mut cache, HsaFenceScope::SYSTEM, &memory), None);
        memory[95 - 32] = 1;
        memory[160 - 32] = 1;
        assert_eq!(read(&mut cache, HsaFenceScope::NONE, &memory), None);
    }
}

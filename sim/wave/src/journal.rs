// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory that a dispatch has overwritten, so that a debugger can put it back.
//!
//! A [`Journal`] stands between a dispatch and its memory, and sees stores and atomics where modelled caches would. It
//! is used by one thread at a time, under a lock.

use crate::fault::Access;
use crate::memory::{Caches, Control, Memory, Path, Region, Turn};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};

/// Most bytes that are kept.
const LIMIT: usize = 256 << 20;

/// Memory of a dispatch that records old contents before it changes.
pub(crate) struct Journal<'a> {
    memory: &'a dyn Memory,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    /// Host addresses and sizes of the overwritten pieces, and their old bytes one after the other.
    pieces: Vec<(u64, u32)>,
    bytes: Vec<u8>,
    is_over: bool,
    /// Numbers given out, and the number that entered last.
    numbers: u64,
    last: u64,
}

impl<'a> Journal<'a> {
    pub fn new(memory: &'a dyn Memory) -> Self {
        Journal { memory, log: Mutex::default() }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A number of a running workgroup.
    pub fn number(&self) -> u64 {
        let mut log = self.log();
        log.numbers += 1;
        log.numbers
    }

    /// The workgroup of this number runs from now on. Returns true if another one has run since it did.
    pub fn enter(&self, number: u64) -> bool {
        std::mem::replace(&mut self.log().last, number) != number
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let mut log = self.log();
        log.pieces.clear();
        log.bytes.clear();
        log.is_over = false;
    }

    /// The error says why memory cannot be put back.
    pub fn is_whole(&self) -> Result<(), &'static str> {
        match self.memory.caches() {
            Some(_) => Err("HSA_SIM_MEMORY=strict keeps no history"),
            None if self.log().is_over => Err("the workgroup has overwritten more than 256 MiB, which is not kept"),
            None => Ok(()),
        }
    }

    /// Puts the memory back as it was when the journal was cleared.
    pub fn undo(&self) {
        let log = &mut *self.log();
        while let Some((host, size)) = log.pieces.pop() {
            let at = log.bytes.len() - size as usize;
            // SAFETY: the dispatch has been allowed to write these bytes, which stay mapped while it runs.
            unsafe { std::ptr::copy(log.bytes[at..].as_ptr(), host as *mut u8, size as usize) };
            log.bytes.truncate(at);
        }
    }

    fn record(&self, host: u64, size: u64) {
        let log = &mut *self.log();
        if log.is_over || log.bytes.len() + size as usize > LIMIT {
            (log.pieces, log.bytes, log.is_over) = (Vec::new(), Vec::new(), true);
            return;
        }
        let at = log.bytes.len();
        log.bytes.resize(at + size as usize, 0);
        // SAFETY: the instruction under way may access these bytes, which stay mapped while it runs.
        unsafe { std::ptr::copy(host as *const u8, log.bytes[at..].as_mut_ptr(), size as usize) };
        log.pieces.push((host, size as u32));
    }
}

impl Memory for Journal<'_> {
    fn region(&self, address: u64) -> Option<Region> {
        self.memory.region(address)
    }

    fn generation(&self) -> &AtomicU64 {
        self.memory.generation()
    }

    fn caches(&self) -> Option<&dyn Caches> {
        Some(self.memory.caches().unwrap_or(self))
    }
}

impl Caches for Journal<'_> {
    fn turn(&self, _: u64, _: u32) -> Box<dyn Turn + '_> {
        Box::new(Recording(self))
    }

    fn are_exclusive(&self) -> bool {
        false
    }
}

struct Recording<'a>(&'a Journal<'a>);

impl Turn for Recording<'_> {
    fn access(&mut self, _: u64, host: u64, size: u64, access: Access, _: Path) -> u64 {
        if access != Access::Read {
            self.0.record(host, size);
        }
        host
    }

    fn control(&mut self, _: Control) {}
}

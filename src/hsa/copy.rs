// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Copies by a GPU's own engines (`hsa_amd_memory_async_copy` of `hsa_ext_amd.h`).

use std::sync::Arc;
use std::time::Duration;

use hsa_abi::{HsaSignalCondition, HsaStatus, HsaWaitState};

use super::error::{Error, Result, check_with};
use super::{Agent, Allocation, Library, Signal, fault_of};

const CALL: &str = "hsa_amd_memory_async_copy";

/// The interval in which a waiter for a copy checks the GPU: on a GPU ended by a fault, no copy completes.
const LOOK: Duration = Duration::from_millis(100);

/// A copy from a CPU's memory to a GPU's, possibly in progress. It retains both allocations; its drop waits for its
/// end.
#[derive(Debug)]
pub struct MemoryCopy {
    gpu: Agent,
    /// 1 until the copy is complete, then 0, or less if it has failed. None only during drop.
    signal: Option<Signal>,
    size: usize,
    _memory: [Arc<Allocation>; 2],
}

impl MemoryCopy {
    /// Checks that the runtime supports such copies.
    ///
    /// # Errors
    /// UNIMPLEMENTED if it does not.
    pub fn check(library: &Library) -> Result<()> {
        match library.symbols.hsa_amd_memory_async_copy {
            Some(_) => Ok(()),
            None => Err(library.missing(CALL, "copy PM4 command buffers")),
        }
    }

    /// Begins to copy `size` bytes, not 0, from an offset in memory of `cpu` to an offset in memory of `gpu`.
    ///
    /// # Errors
    /// As for [`Self::check`]; the error of the runtime. Nothing is copied then.
    ///
    /// # Safety
    /// Both allocations have that many bytes there, both agents may access the first and the GPU the second, and until
    /// the copy is over nothing writes to the former or uses the latter.
    pub unsafe fn begin(
        (gpu, target): (&Agent, (&Arc<Allocation>, usize)),
        (cpu, source): (&Agent, (&Arc<Allocation>, usize)),
        size: usize,
    ) -> Result<Self> {
        let library = gpu.library();
        Self::check(library)?;
        let signal = Signal::new(library, 1, &[], 0)?;
        let ((to, to_offset), (from, from_offset)) = (target, source);
        let copy = library.symbols.hsa_amd_memory_async_copy.ok_or_else(|| library.missing(CALL, "copy"))?;
        // SAFETY: the caller says so of the memory, which the result keeps; there is nothing to wait for; the signal
        // lives until the copy is over.
        let status = unsafe {
            copy(
                to.as_ptr().add(to_offset).cast(),
                gpu.handle(),
                from.as_ptr().add(from_offset).cast(),
                cpu.handle(),
                size,
                0,
                std::ptr::null(),
                signal.handle(),
            )
        };
        check_with(CALL, status, || format!("{size} bytes from the host to {}", gpu.info().name))?;
        Ok(Self { gpu: gpu.clone(), signal: Some(signal), size, _memory: [to.clone(), from.clone()] })
    }

    /// Waits until the copy is complete.
    ///
    /// # Errors
    /// UNKNOWN if it has failed, as HSA gives no reason, or if a fault has ended the GPU.
    pub fn wait(&self) -> Result<()> {
        let Some(signal) = &self.signal else { return Ok(()) };
        let failed = |why: String| {
            let (size, name) = (self.size, &self.gpu.info().name);
            let details = format!("{size} bytes from the host to {name} were not copied: {why}");
            Err(Error::Call { call: CALL, status: HsaStatus::ERROR, details })
        };
        loop {
            match signal.wait(HsaSignalCondition::LT, 1, Some(LOOK), HsaWaitState::BLOCKED) {
                0 => return Ok(()),
                value if value < 0 => return failed(format!("its signal has the value {value}")),
                _ => {
                    if let Some(fault) = fault_of(self.gpu.library(), self.gpu.handle()) {
                        return failed(fault.to_string());
                    }
                }
            }
        }
    }
}

impl Drop for MemoryCopy {
    fn drop(&mut self) {
        let _ = self.wait();
        if let Some(signal) = self.signal.take_if(|signal| signal.load() > 0) {
            // The GPU has ended and copies nothing any more, but the runtime may still know the signal.
            std::mem::forget(signal);
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl MemoryCopy {
    /// A made-up copy whose signal has `value`.
    pub fn for_tests(gpu: &Agent, memory: &Arc<Allocation>, value: i64) -> Self {
        let signal = Signal::new(gpu.library(), value, &[], 0).expect("a signal");
        Self { gpu: gpu.clone(), signal: Some(signal), size: 64, _memory: [memory.clone(), memory.clone()] }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::testing::{gpu, library};
    use super::*;

    #[test]
    fn who_waits_for_a_copy_waits_until_it_is_over() {
        let gpu = gpu(&library());
        let pools = gpu.memory_pools().expect("pools are listed");
        let pool = pools.iter().find(|pool| pool.info().is_allocatable()).expect("one to allocate from");
        let memory = Arc::new(pool.allocate(64, 0, &[]).expect("memory"));
        for end in [0, -1] {
            let (copy, is_over) = (MemoryCopy::for_tests(&gpu, &memory, 1), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let result = copy.wait();
                    assert!(is_over.load(Ordering::Acquire), "it waits");
                    assert_eq!(result.is_ok(), end == 0);
                    assert_eq!(copy.wait().is_ok(), end == 0, "and is told again");
                });
                is_over.store(true, Ordering::Release);
                copy.signal.as_ref().expect("a copy that is not dropped").store(end);
            });
        }
    }
}

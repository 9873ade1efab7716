// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The commands of PM4 streams, in host memory as written, or copied to the GPU's memory.
//!
//! A copy does not go through the GPU's L2, through which packet processors read commands and which may still hold old
//! contents of the memory. So that packet processors see the copy, a packet in front of the one that runs the commands
//! has to acquire from the system.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::Gpu;
use crate::kernargs::{Contents, StoredKernargs};
use crate::options::Pm4Publication;
use amdgpu_ffi::{Annotate, Result};
use amdgpu_hsa::MemoryCopy;

/// The commands of a stream. They never change.
#[derive(Debug)]
pub struct Commands {
    /// The state of the copy; none for commands that stay where they were written. Dropped before the target memory.
    copy: Option<Mutex<State>>,
    memory: StoredKernargs,
}

/// The progress of a copy of commands.
#[derive(Debug)]
enum State {
    /// The copy reads the source, which is freed afterwards.
    UnderWay {
        copy: MemoryCopy,
        _source: StoredKernargs,
    },
    Over(Result<()>),
}

impl Commands {
    /// Writes commands of `bytes`, which are not empty, to host memory.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn new(gpu: &Arc<Gpu>, bytes: &[u8]) -> Result<Self> {
        Ok(Self { copy: None, memory: StoredKernargs::new(gpu, Contents::Commands, bytes)? })
    }

    /// Publishes the commands as `publication` says, once. Unless that is [`Pm4Publication::AsyncCopyNonblocking`],
    /// they can run when this returns.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED; the error of starting the copy or, if it waits, of the copy.
    pub fn publish(self, publication: Pm4Publication) -> Result<Self> {
        if publication == Pm4Publication::Copy {
            return Ok(self);
        }
        let source = self.memory;
        let (memory, copy) = source.begin_copy().annotate(|| "publishing a PM4 command buffer")?;
        let published = Self { copy: Some(Mutex::new(State::UnderWay { copy, _source: source })), memory };
        if publication == Pm4Publication::AsyncCopy {
            published.wait()?;
        }
        Ok(published)
    }

    /// Waits until the commands can run. Under no lock: a copy takes some microseconds.
    ///
    /// # Errors
    /// The error of the copy, on each call.
    #[inline]
    pub fn wait(&self) -> Result<()> {
        match &self.copy {
            None => Ok(()),
            Some(state) => wait_for(&mut state.lock()),
        }
    }

    /// True if the commands were copied to the GPU's memory.
    #[inline]
    pub fn are_copied(&self) -> bool {
        self.copy.is_some()
    }

    /// The address of the first command.
    #[inline]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }
}

/// Waits for a copy, then frees its source.
fn wait_for(state: &mut State) -> Result<()> {
    if let State::UnderWay { copy, .. } = state {
        let result = copy.wait();
        *state = State::Over(result.map_err(Into::into).annotate(|| "publishing a PM4 command buffer"));
    }
    match state {
        State::Over(result) => result.clone(),
        State::UnderWay { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::testing::gpu;
    use amdgpu_ffi::Code;
    use amdgpu_hsa::pointer_info;

    #[test]
    fn a_copy_that_fails_is_told_whenever_it_is_waited_for() {
        let gpu = gpu(&Options::default());
        let commands = Commands::new(&gpu, &[1; 64]).expect("memory");
        assert!(!commands.are_copied() && commands.wait().is_ok());
        let commands = commands.publish(Pm4Publication::AsyncCopyNonblocking).expect("a copy begins");
        commands.wait().expect("and is over");
        let owner = |address: u64| pointer_info(gpu.agent().library(), address as *const u8).expect("memory").owner;
        assert_eq!((commands.are_copied(), owner(commands.address())), (true, gpu.agent().handle()));
        let other = Arc::new(gpu.allocate_commands(64).expect("memory"));
        let source = StoredKernargs::new(&gpu, Contents::Commands, &[1; 64]).expect("memory");
        let copy = MemoryCopy::for_tests(gpu.agent(), &other, -1);
        *commands.copy.as_ref().expect("a copy").lock() = State::UnderWay { copy, _source: source };
        for _ in 0..2 {
            let status = commands.wait().expect_err("it has failed");
            assert_eq!(status.code(), Code::UNKNOWN, "{status}");
            let text = status.to_string();
            assert!(text.contains("were not copied") && text.contains("publishing a PM4 command buffer"), "{text}");
        }
    }
}

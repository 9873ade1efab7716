// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Command buffers for tests.

use amdgpu_rs::ffi::{HalRef, QUEUE_AFFINITY_ANY, Result, iree, raw};

use super::{BufferRef, ExecutableRef, List, Points, Rig, SemaphoreRef, function};

/// Kind of recording: a one-shot command buffer, a reusable one, or a reusable one without IREE's validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    OneShot,
    Reusable,
    Unvalidated,
    Unretained,
}

/// A command buffer.
pub struct Recording(HalRef<raw::iree_hal_command_buffer_t>);

impl Recording {
    /// Begins a recording with a binding table of `slots` slots.
    pub fn begin(rig: &Rig, mode: Mode, slots: usize) -> Self {
        Self::begin_on(rig, QUEUE_AFFINITY_ANY, mode, slots)
    }

    /// Begins a recording for the queues of this affinity.
    pub fn begin_on(rig: &Rig, affinity: u64, mode: Mode, slots: usize) -> Self {
        let mode = match mode {
            Mode::OneShot => raw::IREE_HAL_COMMAND_BUFFER_MODE_ONE_SHOT,
            Mode::Reusable => 0,
            Mode::Unvalidated => raw::IREE_HAL_COMMAND_BUFFER_MODE_UNVALIDATED,
            Mode::Unretained => raw::IREE_HAL_COMMAND_BUFFER_MODE_UNRETAINED,
        };
        let recording = Self::create(rig, affinity, mode, slots).expect("a command buffer");
        // SAFETY: a live command buffer.
        unsafe { iree!(raw::iree_hal_command_buffer_begin(recording.as_ptr())) }.expect("a new one begins");
        recording
    }

    /// A command buffer with `mode` bits that has not begun.
    pub fn create(rig: &Rig, affinity: u64, mode: u32, slots: usize) -> Result<Self> {
        let mut recording = std::ptr::null_mut();
        // SAFETY: a live device and a place for the result.
        unsafe {
            iree!(raw::iree_hal_command_buffer_create(
                rig.device.as_ptr(),
                mode,
                raw::IREE_HAL_COMMAND_CATEGORY_ANY as _,
                affinity,
                slots,
                &raw mut recording,
            ))?;
            Ok(Self(HalRef::from_owned(recording).expect("a command buffer that was made")))
        }
    }

    pub fn as_ptr(&self) -> *mut raw::iree_hal_command_buffer_t {
        self.0.as_ptr()
    }

    /// Ends the recording.
    pub fn end(&self) {
        // SAFETY: a live command buffer.
        unsafe { iree!(raw::iree_hal_command_buffer_end(self.as_ptr())) }.expect("a recording ends");
    }

    pub fn fill(&self, target: raw::iree_hal_buffer_ref_t, pattern: u8) -> Result<()> {
        // SAFETY: live objects; the pattern is captured during the call.
        unsafe {
            iree!(raw::iree_hal_command_buffer_fill_buffer(self.as_ptr(), target, (&raw const pattern).cast(), 1, 0))
        }
    }

    pub fn copy(&self, source: raw::iree_hal_buffer_ref_t, target: raw::iree_hal_buffer_ref_t) -> Result<()> {
        // SAFETY: live objects.
        unsafe { iree!(raw::iree_hal_command_buffer_copy_buffer(self.as_ptr(), source, target, 0)) }
    }

    /// A barrier of all stages and memory.
    pub fn barrier(&self) {
        self.barrier_with(0, 0, 0, &[]).expect("a barrier");
    }

    pub fn barrier_with(
        &self,
        source_stages: u32,
        target_stages: u32,
        flags: u64,
        memory: &[raw::iree_hal_memory_barrier_t],
    ) -> Result<()> {
        // SAFETY: a live command buffer and an array of the stated length.
        unsafe {
            iree!(raw::iree_hal_command_buffer_execution_barrier(
                self.as_ptr(),
                source_stages,
                target_stages,
                flags,
                memory.len(),
                memory.as_ptr(),
                0,
                std::ptr::null()
            ))
        }
    }

    pub fn dispatch(
        &self,
        (executable, name): (&ExecutableRef, &str),
        config: raw::iree_hal_dispatch_config_t,
        constants: &[u8],
        bindings: &[raw::iree_hal_buffer_ref_t],
        flags: u32,
    ) -> Result<()> {
        // SAFETY: live objects and spans of the stated lengths.
        unsafe {
            iree!(raw::iree_hal_command_buffer_dispatch(
                self.as_ptr(),
                executable.as_ptr(),
                function(executable, name)?,
                config,
                raw::iree_const_byte_span_t { data: constants.as_ptr(), data_length: constants.len() },
                raw::iree_hal_buffer_ref_list_t { count: bindings.len(), values: bindings.as_ptr() },
                flags.into()
            ))
        }
    }

    /// Executes on the queue `affinity` with the slots bound to `(buffer, offset, length)` each.
    pub fn execute(
        &self,
        rig: &Rig,
        affinity: u64,
        waits: Points<'_>,
        signals: Points<'_>,
        bindings: &[(&BufferRef, usize, usize)],
    ) -> Result<()> {
        let (waits, signals) = (List::new(waits), List::new(signals));
        let bindings: Vec<_> = bindings
            .iter()
            .map(|(buffer, offset, length)| raw::iree_hal_buffer_binding_t {
                buffer: buffer.as_ptr(),
                offset: *offset,
                length: *length,
            })
            .collect();
        // SAFETY: live objects.
        unsafe {
            iree!(raw::iree_hal_device_queue_execute(
                rig.device.as_ptr(),
                affinity,
                waits.raw(),
                signals.raw(),
                self.as_ptr(),
                raw::iree_hal_buffer_binding_table_t { count: bindings.len(), bindings: bindings.as_ptr() },
                0
            ))
        }
    }

    /// Executes without a binding table and waits for the end.
    pub fn run(&self, rig: &Rig) -> Result<()> {
        let done: SemaphoreRef = rig.semaphore();
        self.execute(rig, QUEUE_AFFINITY_ANY, &[], &[(&done, 1)], &[])?;
        super::wait(&done, 1)
    }
}

/// A reference to `length` bytes of `buffer`.
pub fn direct(buffer: &BufferRef, offset: usize, length: usize) -> raw::iree_hal_buffer_ref_t {
    let mut reference = indirect(0, offset, length);
    reference.buffer = buffer.as_ptr();
    reference
}

/// A reference to `length` bytes of the buffer in `slot`.
pub fn indirect(slot: u32, offset: usize, length: usize) -> raw::iree_hal_buffer_ref_t {
    // SAFETY: all-zero is a reference to slot 0.
    let mut reference: raw::iree_hal_buffer_ref_t = unsafe { std::mem::zeroed() };
    reference.set_buffer_slot(slot);
    reference.offset = offset;
    reference.length = length;
    reference
}

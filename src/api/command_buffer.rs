// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Command buffers: each call records a command of a [`Program`].

use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hsa_abi::HsaFenceScope;

use super::channel::{self, Channel};
use super::event::Event;
use super::queue::{DispatchCall, DispatchRequest};
use amdgpu_core::collectives::{Recorded, Stages, StagesRecorder};
use amdgpu_ffi::{
    AccessScopes, Allocator, Blocks, Borrowed, BufferRef, BufferRefs, COMMAND_BUFFER_MAX_UPDATE_SIZE,
    CommandBufferMode, CommandCategories, CopyFlags, DispatchFlags, ExecutionBarrierFlags, ExecutionStages, FillFlags,
    HalObject, HalRef, Home, Result, UpdateFlags, lists, raw, status, thunk, vtable,
};
use amdgpu_program::Program;
use amdgpu_program::arena::Arena;
use amdgpu_program::recorder::{Dispatch, Recorder};

/// `iree_hal_command_buffer_t` of this driver.
#[repr(C)]
pub struct CommandBuffer {
    base: raw::iree_hal_command_buffer_t,
    home: ManuallyDrop<Home>,
    /// The state of the recording thread. There is one at a time: command buffers are thread-compatible
    /// (`iree/hal/command_buffer.h`). Executions, on any thread, read only `program`.
    state: UnsafeCell<State>,
    /// The finished recording, once `has_ended`. Not written after that.
    program: UnsafeCell<Option<Arc<Program>>>,
    /// The finished recording in place of `program`, if it has collectives.
    stages: UnsafeCell<Option<Arc<Stages>>>,
    has_ended: AtomicBool,
    /// A one-shot recording that was submitted.
    is_spent: AtomicBool,
}

#[derive(Debug)]
enum State {
    /// Not begun: recorded in memory of this arena, for its GPU.
    New(Arc<Arena>),
    Recording(Recorder),
    /// As `Recording`, with collectives.
    Staged(Box<StagesRecorder>),
    Ended,
    /// Ending failed, or recording panicked.
    Broken,
}

// SAFETY: the base is written at creation and by IREE's validation, and state and program while recording, all of which
// is one thread's at a time; the rest is Send and Sync.
unsafe impl Send for CommandBuffer {}
// SAFETY: base, state, program and stages are written by the one thread that records; others read program and stages
// alone, and not before `has_ended` says that they are complete.
unsafe impl Sync for CommandBuffer {}

// SAFETY: repr(C), the C base is first and initialised with VTABLE, which is used here only.
unsafe impl HalObject for CommandBuffer {
    type Raw = raw::iree_hal_command_buffer_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.home.allocator()
    }

    fn home(&self) -> Option<&ManuallyDrop<Home>> {
        Some(&self.home)
    }

    fn poison(&self, _message: &str) {
        let state = self.state();
        // A finished recording is immutable, and the GPU may be executing it.
        if !matches!(*state, State::Ended) {
            *state = State::Broken;
        }
    }
}

static VTABLE: raw::iree_hal_command_buffer_vtable_t = vtable::with_cache_commands(
    raw::iree_hal_command_buffer_vtable_t {
        destroy: thunk::destroy::<CommandBuffer, _>(),
        begin: thunk::method(CommandBuffer::begin),
        end: thunk::method(CommandBuffer::end),
        begin_debug_group: thunk::method(CommandBuffer::begin_debug_group),
        end_debug_group: thunk::method(CommandBuffer::end_debug_group),
        execution_barrier: thunk::method(CommandBuffer::execution_barrier),
        signal_event: thunk::method(CommandBuffer::signal_event),
        reset_event: thunk::method(CommandBuffer::reset_event),
        wait_events: thunk::method(CommandBuffer::wait_events),
        advise_buffer: thunk::method(CommandBuffer::advise_buffer),
        fill_buffer: thunk::method(CommandBuffer::fill_buffer),
        update_buffer: thunk::method(CommandBuffer::update_buffer),
        copy_buffer: thunk::method(CommandBuffer::copy_buffer),
        collective: thunk::method(CommandBuffer::collective),
        dispatch: thunk::method(CommandBuffer::dispatch),
        ..vtable::empty()
    },
    thunk::method(CommandBuffer::flush_buffer),
    thunk::method(CommandBuffer::invalidate_buffer),
);

/// The parameters of a command buffer.
pub struct CommandBufferParams {
    /// The device's allocator, for validation.
    pub device_allocator: *mut raw::iree_hal_allocator_t,
    /// `iree_hal_command_buffer_mode_t` bits.
    pub mode: u32,
    /// Categories of commands that may be recorded.
    pub categories: CommandCategories,
    /// Queues it may execute on.
    pub affinity: u64,
    /// Slots of its binding table.
    pub binding_capacity: usize,
}

/// Slots of binding tables for which the device's blocks have room for a command buffer's validation state.
const FEW_SLOTS: usize = 16;

impl CommandBuffer {
    /// The offset of IREE's validation state: behind the other fields and aligned to 16.
    const HEAD: usize = size_of::<Self>().next_multiple_of(16);

    /// The blocks that command buffers are allocated in, except those with large binding tables.
    pub fn blocks(host_allocator: Allocator) -> Arc<Blocks> {
        let (validated, slots) = (CommandBufferMode::empty(), FEW_SLOTS);
        Blocks::new(host_allocator, Self::HEAD + validation_bytes(validated.bits(), slots))
    }

    /// Makes a command buffer for the GPU of `arena`, recorded in the arena's memory, in one of [`Self::blocks`].
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED; OUT_OF_RANGE for a binding table larger than any memory.
    pub fn create(blocks: &Arc<Blocks>, arena: Arc<Arena>, params: &CommandBufferParams) -> Result<HalRef<Self>> {
        let validation = validation_bytes(params.mode, params.binding_capacity);
        let large;
        // A block made for this command buffer is zeroed by the allocator, which costs nothing for unused pages.
        let (blocks, is_zeroed) = match Self::HEAD.checked_add(validation) {
            Some(length) if length <= blocks.length() => (blocks, false),
            Some(length) => {
                large = Blocks::zeroed(blocks.allocator(), length);
                (&large, true)
            }
            None => {
                let slots = params.binding_capacity;
                return Err(status!(OUT_OF_RANGE, "a command buffer with a binding table of {slots} slots"));
            }
        };
        // SAFETY: the closure initialises every field, and the validation state behind the struct, which IREE wants to
        // find zeroed.
        unsafe {
            HalRef::new_in_block(blocks, |this: *mut Self, home| {
                let state = this.byte_add(Self::HEAD).cast::<c_void>();
                if !is_zeroed {
                    state.cast::<u8>().write_bytes(0, validation);
                }
                (&raw mut (*this).base).write_bytes(0, 1);
                raw::iree_hal_command_buffer_initialize(
                    params.device_allocator,
                    params.mode,
                    params.categories.bits(),
                    params.affinity,
                    params.binding_capacity,
                    state,
                    (&raw const VTABLE).cast(),
                    (&raw mut (*this).base).cast(),
                );
                (&raw mut (*this).home).write(home);
                (&raw mut (*this).state).write(UnsafeCell::new(State::New(arena)));
                (&raw mut (*this).program).write(UnsafeCell::new(None));
                (&raw mut (*this).stages).write(UnsafeCell::new(None));
                (&raw mut (*this).has_ended).write(AtomicBool::new(false));
                (&raw mut (*this).is_spent).write(AtomicBool::new(false));
            })
        }
    }

    /// Submits the finished recording with `submit`. A recording that is `one_shot` can be submitted once, unless that
    /// fails.
    ///
    /// # Errors
    /// FAILED_PRECONDITION for a one-shot recording that was submitted before; the error of `submit`.
    #[inline(always)]
    pub fn execute(&self, one_shot: bool, submit: impl FnOnce() -> Result<()>) -> Result<()> {
        if one_shot && self.is_spent.swap(true, Ordering::Relaxed) {
            return Err(status!(FAILED_PRECONDITION, "the command buffer is ONE_SHOT and was executed before"));
        }
        let submitted = submit();
        if one_shot && submitted.is_err() {
            self.is_spent.store(false, Ordering::Relaxed);
        }
        submitted
    }

    /// The finished recording with collectives, and whether it is a one-shot one.
    ///
    /// # Errors
    /// FAILED_PRECONDITION before it has ended.
    pub fn stages(&self) -> Result<(&Arc<Stages>, bool)> {
        let has_ended = self.has_ended.load(Ordering::Acquire);
        // SAFETY: written before the flag was set, and not since.
        let stages = if has_ended { unsafe { &*self.stages.get() }.as_ref() } else { None };
        let stages = stages.ok_or_else(|| {
            status!(
                FAILED_PRECONDITION,
                "the command buffer cannot be executed: its recording has not ended, or failed"
            )
        })?;
        let mode = CommandBufferMode::from_bits_retain(self.base.mode);
        Ok((stages, mode.contains(CommandBufferMode::ONE_SHOT)))
    }

    /// The finished recording; none before it has ended, and for one with collectives.
    #[inline(always)]
    pub fn program(&self) -> Option<&Arc<Program>> {
        if !self.has_ended.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: written before the flag was set, and not since.
        unsafe { &*self.program.get() }.as_ref()
    }

    /// The state of the recording.
    #[expect(clippy::mut_from_ref, reason = "one thread records, and each slot that does asks once")]
    fn state(&self) -> &mut State {
        // SAFETY: only slots that record come here, by the contract of one thread at a time, each once, and none of
        // them calls another.
        unsafe { &mut *self.state.get() }
    }

    /// The recorder for commands.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when no recording is in progress.
    #[inline(always)]
    fn recorder(&self) -> Result<&mut Recorder> {
        match self.state() {
            State::Recording(recorder) => Ok(recorder),
            state => other_recorder(state),
        }
    }

    fn begin(&self) -> Result<()> {
        let state = self.state();
        if !matches!(state, State::New(..)) {
            return Err(wrong_state("begun", state));
        }
        let mode = CommandBufferMode::from_bits_retain(self.base.mode);
        let categories = CommandCategories::from_bits_retain(self.base.allowed_categories);
        let recording = (mode, categories, self.base.queue_affinity);
        let slots = self.base.binding_capacity as usize;
        if let State::New(arena) = std::mem::replace(state, State::Broken) {
            *state = State::Recording(Recorder::new(arena, recording, slots)?);
        }
        Ok(())
    }

    fn end(&self) -> Result<()> {
        let state = self.state();
        match std::mem::replace(state, State::Broken) {
            State::Recording(recorder) => {
                let program = recorder.finish()?;
                // SAFETY: the one thread that records, and no read before the flag is set; recorded once, so that it
                // was not set before.
                unsafe { *self.program.get() = Some(program) };
                self.has_ended.store(true, Ordering::Release);
                *state = State::Ended;
            }
            State::Staged(recorder) => {
                let stages = recorder.finish()?;
                // SAFETY: as above.
                unsafe { *self.stages.get() = Some(stages) };
                self.has_ended.store(true, Ordering::Release);
                *state = State::Ended;
            }
            other => {
                let status = wrong_state("ended", &other);
                *state = other;
                return Err(status);
            }
        }
        Ok(())
    }

    fn begin_debug_group(
        &self,
        _label: Cow<'_, str>,
        _color: raw::iree_hal_label_color_t,
        _location: *const raw::iree_hal_label_location_t,
    ) -> Result<()> {
        self.recorder()?.begin_debug_group();
        Ok(())
    }

    fn end_debug_group(&self) -> Result<()> {
        self.recorder()?.end_debug_group()
    }

    /// Records a barrier. Stages and ranges only select the fence scope: on these GPUs a barrier orders whole packets
    /// and flushes whole caches.
    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    fn execution_barrier(
        &self,
        source_stages: ExecutionStages,
        target_stages: ExecutionStages,
        _flags: ExecutionBarrierFlags,
        memory_barrier_count: usize,
        memory_barriers: *const raw::iree_hal_memory_barrier_t,
        buffer_barrier_count: usize,
        buffer_barriers: *const raw::iree_hal_buffer_barrier_t,
    ) -> Result<()> {
        // SAFETY: the caller's arrays, alive during the call.
        let (memory, buffers) = unsafe {
            (lists::slice(memory_barriers, memory_barrier_count), lists::slice(buffer_barriers, buffer_barrier_count))
        };
        let scope = fence_scope(source_stages | target_stages, memory, buffers);
        self.recorder()?.barrier(scope)
    }

    /// Does nothing: a wait is behind everything recorded before it, including this signal, and behind events that an
    /// earlier submission to the queue signals, because submissions start in order. Between queues events order nothing
    /// (`iree/hal/event.h`); semaphores do.
    fn signal_event(&self, event: &Event, _source_stages: ExecutionStages) -> Result<()> {
        event.check_queues(self.base.queue_affinity)?;
        self.recorder().map(|_| ())
    }

    /// Does nothing, as [`Self::signal_event`].
    fn reset_event(&self, event: &Event, source_stages: ExecutionStages) -> Result<()> {
        self.signal_event(event, source_stages)
    }

    /// Records a barrier, which is behind everything that could have signaled an event.
    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    fn wait_events(
        &self,
        event_count: usize,
        events: *mut *const raw::iree_hal_event_t,
        source_stages: ExecutionStages,
        target_stages: ExecutionStages,
        memory_barrier_count: usize,
        memory_barriers: *const raw::iree_hal_memory_barrier_t,
        buffer_barrier_count: usize,
        buffer_barriers: *const raw::iree_hal_buffer_barrier_t,
    ) -> Result<()> {
        // SAFETY: the caller's array of events that are null or alive during the call.
        for event in unsafe { lists::slice(events.cast_const(), event_count) } {
            // SAFETY: the caller keeps the event alive during the call.
            let event = unsafe { Borrowed::from_raw(event.cast_mut()) };
            let event = event.and_then(|event| event.downcast::<Event>());
            event
                .ok_or_else(|| status!(INVALID_ARGUMENT, "a wait for an event that no device of this driver made"))?
                .check_queues(self.base.queue_affinity)?;
        }
        self.execution_barrier(
            source_stages,
            target_stages,
            ExecutionBarrierFlags::empty(),
            memory_barrier_count,
            memory_barriers,
            buffer_barrier_count,
            buffer_barriers,
        )
    }

    fn advise_buffer(&self, target: raw::iree_hal_buffer_ref_t, _flags: u64, _arg0: u64, _arg1: u64) -> Result<()> {
        // SAFETY: the caller's buffer, alive during the call.
        let target = unsafe { BufferRef::from_raw(&target) };
        self.recorder()?.advise(target)
    }

    fn flush_buffer(&self, target: raw::iree_hal_buffer_ref_t) -> Result<()> {
        // SAFETY: the caller's buffer, alive during the call.
        let target = unsafe { BufferRef::from_raw(&target) };
        self.recorder()?.flush(target)
    }

    fn invalidate_buffer(&self, target: raw::iree_hal_buffer_ref_t) -> Result<()> {
        // SAFETY: the caller's buffer, alive during the call.
        let target = unsafe { BufferRef::from_raw(&target) };
        self.recorder()?.invalidate(target)
    }

    fn fill_buffer(
        &self,
        target: raw::iree_hal_buffer_ref_t,
        pattern: *const c_void,
        pattern_length: usize,
        _flags: FillFlags,
    ) -> Result<()> {
        // SAFETY: the caller's pattern and buffer, alive during the call.
        let (pattern, target) =
            unsafe { (lists::slice(pattern.cast::<u8>(), pattern_length), BufferRef::from_raw(&target)) };
        self.recorder()?.fill(target, pattern)
    }

    fn update_buffer(
        &self,
        source: *const c_void,
        source_offset: usize,
        target: raw::iree_hal_buffer_ref_t,
        _flags: UpdateFlags,
    ) -> Result<()> {
        // SAFETY: the caller's buffer, alive during the call.
        let target = unsafe { BufferRef::from_raw(&target) };
        if target.length > COMMAND_BUFFER_MAX_UPDATE_SIZE {
            return Err(status!(
                INVALID_ARGUMENT,
                "an update of {} bytes in a command buffer; at most {COMMAND_BUFFER_MAX_UPDATE_SIZE}",
                target.length
            ));
        }
        // SAFETY: the source has as many bytes as the target from the offset on.
        let bytes = unsafe { lists::slice(source.cast::<u8>().byte_add(source_offset), target.length) };
        self.recorder()?.update(bytes, target)
    }

    fn copy_buffer(
        &self,
        source: raw::iree_hal_buffer_ref_t,
        target: raw::iree_hal_buffer_ref_t,
        _flags: CopyFlags,
    ) -> Result<()> {
        // SAFETY: the caller's buffers, alive during the call.
        let (source, target) = unsafe { (BufferRef::from_raw(&source), BufferRef::from_raw(&target)) };
        self.recorder()?.copy(source, target)
    }

    /// Records a collective. It ends the program so far: [`Stages`] says how the parts are executed.
    fn collective(
        &self,
        channel: &Channel,
        op: raw::iree_hal_collective_op_t,
        param: u32,
        send: raw::iree_hal_buffer_ref_t,
        receive: raw::iree_hal_buffer_ref_t,
        element_count: usize,
    ) -> Result<()> {
        let operation = channel::operation(op, param, element_count)?;
        // SAFETY: the caller's buffers, alive during the call.
        let (send, receive) = unsafe { (BufferRef::from_raw(&send), BufferRef::from_raw(&receive)) };
        let collective = Recorded::new(channel.membership().clone(), operation, send, receive);
        let state = self.state();
        let recorder = match std::mem::replace(state, State::Broken) {
            State::Recording(recorder) => StagesRecorder::new(recorder),
            State::Staged(recorder) => *recorder,
            other => {
                let status = wrong_state("recorded to", &other);
                *state = other;
                return Err(status);
            }
        };
        *state = State::Staged(Box::new(recorder.collective(collective)?));
        Ok(())
    }

    fn dispatch(
        &self,
        executable: Borrowed<'_, raw::iree_hal_executable_t>,
        function: raw::iree_hal_executable_function_t,
        config: &raw::iree_hal_dispatch_config_t,
        constants: &[u8],
        bindings: BufferRefs<'_>,
        flags: DispatchFlags,
    ) -> Result<()> {
        // Nearly all have none: the compiler makes a short way for those.
        if flags.is_empty() {
            let flags = DispatchFlags::empty();
            self.dispatch_of(DispatchCall { executable, function, config, constants, bindings, flags })
        } else {
            self.dispatch_with_flags(DispatchCall { executable, function, config, constants, bindings, flags })
        }
    }

    #[inline(never)]
    fn dispatch_with_flags(&self, call: DispatchCall<'_>) -> Result<()> {
        self.dispatch_of(call)
    }

    #[inline(always)]
    fn dispatch_of(&self, call: DispatchCall<'_>) -> Result<()> {
        let request = DispatchRequest::new(call)?;
        let mut other = None;
        let recorder = self.recorder()?;
        let launch = request.launch(recorder.gpu(), &mut other)?;
        let DispatchCall { executable, constants, config, .. } = call;
        let dispatch = Dispatch { executable, launch, constants, bindings: request.bindings };
        match request.indirect_count {
            Some(count) => recorder.dispatch_indirect(dispatch, count),
            None => recorder.dispatch(dispatch, &config.workgroup_count),
        }
    }
}

/// The recorder of a recording with collectives.
///
/// # Errors
/// FAILED_PRECONDITION when no recording is in progress.
#[cold]
fn other_recorder(state: &mut State) -> Result<&mut Recorder> {
    match state {
        State::Recording(recorder) => Ok(recorder),
        State::Staged(stages) => Ok(&mut stages.recorder),
        state => Err(wrong_state("recorded to", state)),
    }
}

/// Bytes of IREE's validation state for a command buffer of this mode with this number of binding-table slots.
fn validation_bytes(mode: u32, slots: usize) -> usize {
    // SAFETY: a pure function of the mode and the capacity.
    unsafe { raw::iree_hal_command_buffer_validation_state_size(mode, slots) }
}

/// The fence scope of a barrier: the system if the host, or an access without further information, is on one of its
/// sides.
fn fence_scope(
    stages: ExecutionStages,
    memory: &[raw::iree_hal_memory_barrier_t],
    buffers: &[raw::iree_hal_buffer_barrier_t],
) -> HsaFenceScope {
    const WITHIN_THE_GPU: AccessScopes = AccessScopes::INDIRECT_COMMAND_READ
        .union(AccessScopes::CONSTANT_READ)
        .union(AccessScopes::DISPATCH_READ)
        .union(AccessScopes::DISPATCH_WRITE)
        .union(AccessScopes::TRANSFER_READ)
        .union(AccessScopes::TRANSFER_WRITE);
    let memory = memory.iter().map(|barrier| barrier.source_scope | barrier.target_scope);
    let buffers = buffers.iter().map(|barrier| barrier.source_scope | barrier.target_scope);
    // Unknown ones may be anything.
    let accesses = AccessScopes::from_bits_retain(memory.chain(buffers).fold(0, |accesses, scope| accesses | scope));
    let outside = stages.contains(ExecutionStages::HOST) || !WITHIN_THE_GPU.contains(accesses);
    if outside { HsaFenceScope::SYSTEM } else { HsaFenceScope::AGENT }
}

#[cold]
fn wrong_state(what: &str, state: &State) -> amdgpu_ffi::Status {
    let is = match state {
        State::New(..) => "has not been begun",
        State::Recording(_) | State::Staged(_) => "is being recorded",
        State::Ended => "has ended and cannot be recorded again",
        State::Broken => "is unusable since its recording failed",
    };
    status!(FAILED_PRECONDITION, "the command buffer cannot be {what}: it {is}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_reach_as_far_as_a_barrier_says() {
        let memory = |source_scope, target_scope| raw::iree_hal_memory_barrier_t { source_scope, target_scope };
        let within = memory(raw::IREE_HAL_ACCESS_SCOPE_TRANSFER_WRITE, raw::IREE_HAL_ACCESS_SCOPE_CONSTANT_READ);
        let dispatch = ExecutionStages::DISPATCH;
        assert_eq!(fence_scope(dispatch, &[within], &[]), HsaFenceScope::AGENT);
        assert_eq!(fence_scope(dispatch | ExecutionStages::HOST, &[within], &[]), HsaFenceScope::SYSTEM);
        for outside in [
            raw::IREE_HAL_ACCESS_SCOPE_HOST_READ,
            raw::IREE_HAL_ACCESS_SCOPE_HOST_WRITE,
            raw::IREE_HAL_ACCESS_SCOPE_MEMORY_READ,
            raw::IREE_HAL_ACCESS_SCOPE_MEMORY_WRITE,
        ] {
            assert_eq!(fence_scope(dispatch, &[within, memory(outside, 0)], &[]), HsaFenceScope::SYSTEM);
            // SAFETY: all-zero is a reference to slot 0.
            let mut buffer: raw::iree_hal_buffer_barrier_t = unsafe { std::mem::zeroed() };
            buffer.target_scope = outside;
            assert_eq!(fence_scope(dispatch, &[], &[buffer]), HsaFenceScope::SYSTEM);
        }
    }
}

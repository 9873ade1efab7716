// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Command buffers: each call records a command of a [`Program`].

use std::borrow::Cow;
use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;

use super::event::Event;
use super::queue::{DispatchRequest, check_flags};
use crate::core::gpu::Gpu;
use crate::core::program::Program;
use crate::core::program::recorder::Recorder;
use crate::ffi::{
    Allocator, Borrowed, BufferRef, BufferRefs, COMMAND_BUFFER_MAX_UPDATE_SIZE, HalObject, HalRef, Result, lists, raw,
    status, thunk, vtable,
};

/// `iree_hal_command_buffer_t` of this driver.
#[repr(C)]
pub struct CommandBuffer {
    base: raw::iree_hal_command_buffer_t,
    host_allocator: Allocator,
    gpu: Arc<Gpu>,
    // Recording is single-threaded by contract; the lock costs nothing then and executions may come from any thread.
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    New,
    Recording(Box<Recorder>),
    Ended(Arc<Program>),
    /// An end that failed, or a panic while recording.
    Broken,
}

// SAFETY: the base is written at creation and by IREE's validation, which records single-threaded; the rest is Send and Sync.
unsafe impl Send for CommandBuffer {}
// SAFETY: as above.
unsafe impl Sync for CommandBuffer {}

// SAFETY: repr(C), the C base is first and initialised with VTABLE, which is used here only.
unsafe impl HalObject for CommandBuffer {
    type Raw = raw::iree_hal_command_buffer_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.host_allocator
    }

    fn poison(&self, _message: &str) {
        let mut state = self.state.lock();
        // A finished recording is immutable, and the GPU may be executing it.
        if !matches!(*state, State::Ended(_)) {
            *state = State::Broken;
        }
    }
}

static VTABLE: raw::iree_hal_command_buffer_vtable_t = raw::iree_hal_command_buffer_vtable_t {
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
    #[cfg(iree_command_buffer_flush)]
    flush_buffer: thunk::method(CommandBuffer::maintain_buffer),
    #[cfg(iree_command_buffer_flush)]
    invalidate_buffer: thunk::method(CommandBuffer::maintain_buffer),
    fill_buffer: thunk::method(CommandBuffer::fill_buffer),
    update_buffer: thunk::method(CommandBuffer::update_buffer),
    copy_buffer: thunk::method(CommandBuffer::copy_buffer),
    collective: thunk::method(CommandBuffer::collective),
    dispatch: thunk::method(CommandBuffer::dispatch),
    ..vtable::empty()
};

/// What a command buffer is made with.
pub struct CommandBufferParams {
    /// For validation.
    pub device_allocator: *mut raw::iree_hal_allocator_t,
    /// `iree_hal_command_buffer_mode_t` bits.
    pub mode: u32,
    /// `iree_hal_command_category_t` bits.
    pub categories: u32,
    /// Queues it may execute on.
    pub affinity: u64,
    /// Slots of its binding table.
    pub binding_capacity: usize,
}

impl CommandBuffer {
    /// A command buffer for `gpu`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn create(host_allocator: Allocator, gpu: Arc<Gpu>, params: &CommandBufferParams) -> Result<HalRef<Self>> {
        // SAFETY: a pure function of the mode and the capacity.
        let validation =
            unsafe { raw::iree_hal_command_buffer_validation_state_size(params.mode, params.binding_capacity) };
        const HEAD: usize = size_of::<CommandBuffer>().next_multiple_of(16);
        let extra = HEAD - size_of::<Self>() + validation;
        // SAFETY: the closure initialises every field; the validation state follows the struct, aligned to 16.
        unsafe {
            HalRef::new_in_place(host_allocator, extra, |this: *mut Self| {
                raw::iree_hal_command_buffer_initialize(
                    params.device_allocator,
                    params.mode,
                    params.categories,
                    params.affinity,
                    params.binding_capacity,
                    this.byte_add(HEAD).cast(),
                    (&raw const VTABLE).cast(),
                    (&raw mut (*this).base).cast(),
                );
                (&raw mut (*this).host_allocator).write(host_allocator);
                (&raw mut (*this).gpu).write(gpu);
                (&raw mut (*this).state).write(Mutex::new(State::New));
                Ok(())
            })
        }
    }

    /// The finished recording.
    ///
    /// # Errors
    /// FAILED_PRECONDITION before it has ended.
    pub fn program(&self) -> Result<Arc<Program>> {
        match &*self.state.lock() {
            State::Ended(program) => Ok(program.clone()),
            state => Err(wrong_state("executed", state)),
        }
    }

    fn record<R>(&self, what: &str, command: impl FnOnce(&mut Recorder) -> Result<R>) -> Result<R> {
        match &mut *self.state.lock() {
            State::Recording(recorder) => command(recorder),
            state => Err(wrong_state(what, state)),
        }
    }

    fn begin(&self) -> Result<()> {
        let mut state = self.state.lock();
        let State::New = *state else { return Err(wrong_state("begun", &state)) };
        let one_shot = self.base.mode & raw::IREE_HAL_COMMAND_BUFFER_MODE_ONE_SHOT != 0;
        *state =
            State::Recording(Box::new(Recorder::new(self.gpu.clone(), one_shot, self.base.binding_capacity as usize)));
        Ok(())
    }

    fn end(&self) -> Result<()> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Broken) {
            State::Recording(recorder) => *state = State::Ended(Arc::new(recorder.finish()?)),
            other => {
                let status = wrong_state("ended", &other);
                *state = other;
                return Err(status);
            }
        }
        Ok(())
    }

    /// Labels are for tools; no tool listens yet.
    fn begin_debug_group(
        &self,
        _label: Cow<'_, str>,
        _color: raw::iree_hal_label_color_t,
        _location: *const raw::iree_hal_label_location_t,
    ) -> Result<()> {
        Ok(())
    }

    fn end_debug_group(&self) -> Result<()> {
        Ok(())
    }

    /// Stages and ranges do not matter: on these GPUs a barrier is between whole packets and their whole caches.
    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    fn execution_barrier(
        &self,
        _source_stages: u32,
        _target_stages: u32,
        flags: u64,
        _memory_barrier_count: usize,
        _memory_barriers: *const raw::iree_hal_memory_barrier_t,
        _buffer_barrier_count: usize,
        _buffer_barriers: *const raw::iree_hal_buffer_barrier_t,
    ) -> Result<()> {
        check_flags("execution barrier", flags, 0)?;
        self.record("recorded to", |recorder| {
            recorder.barrier();
            Ok(())
        })
    }

    /// Nothing to do: a wait is after everything recorded before it, this signal among it. The same holds for events that an earlier
    /// submission to the queue signals, since each submission starts after the ones before it. Between queues events order nothing
    /// (`iree/hal/event.h`); semaphores do.
    fn signal_event(&self, _event: &Event, _source_stages: u32) -> Result<()> {
        self.record("recorded to", |_| Ok(()))
    }

    /// Nothing to do, as for [`Self::signal_event`].
    fn reset_event(&self, _event: &Event, _source_stages: u32) -> Result<()> {
        self.record("recorded to", |_| Ok(()))
    }

    /// A barrier: it is after everything that an event could have been signaled by.
    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    fn wait_events(
        &self,
        _event_count: usize,
        _events: *mut *const raw::iree_hal_event_t,
        _source_stages: u32,
        _target_stages: u32,
        _memory_barrier_count: usize,
        _memory_barriers: *const raw::iree_hal_memory_barrier_t,
        _buffer_barrier_count: usize,
        _buffer_barriers: *const raw::iree_hal_buffer_barrier_t,
    ) -> Result<()> {
        self.record("recorded to", |recorder| {
            recorder.barrier();
            Ok(())
        })
    }

    /// A hint; there is no paging or prefetching to steer.
    fn advise_buffer(&self, _target: raw::iree_hal_buffer_ref_t, _flags: u64, _arg0: u64, _arg1: u64) -> Result<()> {
        Ok(())
    }

    /// Flush and invalidate: all memory that the host maps is coherent, and packets' fences do the rest, so neither has work to do.
    #[cfg(iree_command_buffer_flush)]
    fn maintain_buffer(&self, _target: raw::iree_hal_buffer_ref_t) -> Result<()> {
        Ok(())
    }

    fn fill_buffer(
        &self,
        target: raw::iree_hal_buffer_ref_t,
        pattern: *const c_void,
        pattern_length: usize,
        flags: u64,
    ) -> Result<()> {
        check_flags("fill", flags, 0)?;
        // SAFETY: the caller's pattern and buffer, alive during the call.
        let (pattern, target) =
            unsafe { (lists::slice(pattern.cast::<u8>(), pattern_length), BufferRef::from_raw(&target)) };
        self.record("recorded to", |recorder| recorder.fill(target, pattern))
    }

    fn update_buffer(
        &self,
        source: *const c_void,
        source_offset: usize,
        target: raw::iree_hal_buffer_ref_t,
        flags: u64,
    ) -> Result<()> {
        check_flags("update", flags, 0)?;
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
        self.record("recorded to", |recorder| recorder.update(bytes, target))
    }

    fn copy_buffer(
        &self,
        source: raw::iree_hal_buffer_ref_t,
        target: raw::iree_hal_buffer_ref_t,
        flags: u64,
    ) -> Result<()> {
        check_flags("copy", flags, 0)?;
        // SAFETY: the caller's buffers, alive during the call.
        let (source, target) = unsafe { (BufferRef::from_raw(&source), BufferRef::from_raw(&target)) };
        self.record("recorded to", |recorder| recorder.copy(source, target))
    }

    fn collective(
        &self,
        _channel: *mut raw::iree_hal_channel_t,
        _op: raw::iree_hal_collective_op_t,
        _param: u32,
        _send: raw::iree_hal_buffer_ref_t,
        _receive: raw::iree_hal_buffer_ref_t,
        _element_count: usize,
    ) -> Result<()> {
        Err(status!(UNIMPLEMENTED, "collective operations"))
    }

    fn dispatch(
        &self,
        executable: Borrowed<'_, raw::iree_hal_executable_t>,
        function: raw::iree_hal_executable_function_t,
        config: raw::iree_hal_dispatch_config_t,
        constants: &[u8],
        bindings: BufferRefs<'_>,
        flags: u64,
    ) -> Result<()> {
        let request = DispatchRequest::new(executable, function, &config, constants, bindings, flags)?;
        let launch = request.launch(self.gpu.index())?;
        self.record("recorded to", |recorder| {
            recorder.keep(executable.retain_resource());
            match request.indirect_count {
                Some(count) => recorder.dispatch_indirect(launch, count, constants, request.bindings.iter()),
                None => recorder.dispatch(launch, config.workgroup_count, constants, request.bindings.iter()),
            }
        })
    }
}

fn wrong_state(what: &str, state: &State) -> crate::ffi::Status {
    let is = match state {
        State::New => "has not been begun",
        State::Recording(_) => "is being recorded",
        State::Ended(_) => "has ended and cannot be recorded again",
        State::Broken => "is unusable since its recording failed",
    };
    status!(FAILED_PRECONDITION, "the command buffer cannot be {what}: it {is}")
}

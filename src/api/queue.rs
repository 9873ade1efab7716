// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The queue operations of a device: each checks its arguments and submits.

use std::sync::Arc;

use super::command_buffer::CommandBuffer;
use super::device::Device;
use super::executable::DeviceExecutable;
use amdgpu_core::collectives::StagesExecution;
use amdgpu_ffi::host_call::HostFunction;
use amdgpu_ffi::profile::schema::QueueEventKind;
use amdgpu_ffi::{
    AllocaFlags, Annotate, BindingTable, Borrowed, Buffer, BufferRef, BufferRefs, BufferUsage, CopyFlags,
    DeallocaFlags, DispatchFlags, ExecuteFlags, FillFlags, HostCallFlags, MemoryAccess, Out, ReadFlags, Result,
    SemaphoreList, UpdateFlags, WriteFlags, lists, raw, status,
};
use amdgpu_gpu::Gpu;
use amdgpu_operations::alloca::{Alloca, AllocaParams, Dealloca};
use amdgpu_operations::dispatch::{Dispatch, DispatchParams, WORKGROUP_COUNT_LENGTH, WorkgroupCount};
use amdgpu_operations::files::{Direction, FileTransfer, Route};
use amdgpu_operations::launch::{ArgumentLayout, Arguments, Launch};
use amdgpu_operations::transfer::{Barrier, Range, Transfer, check_span, check_use};
use amdgpu_profile::EventInfo;
use amdgpu_program::execute::Execute;
use amdgpu_queue::Queue;
use amdgpu_queue::host_call::HostCall;
use amdgpu_queue::host_worker::HostTask;
use amdgpu_queue::submit::{submit, submit_host};
use amdgpu_queue::trace::host::HostTrace;

/// The target of a transfer.
///
/// # Errors
/// As for [`Range::of_transfer`].
#[inline]
fn transfer_target(buffer: Buffer<'_>, offset: usize, length: usize) -> Result<Range<'_>> {
    Range::of_transfer(buffer, offset, length, BufferUsage::TRANSFER_TARGET, MemoryAccess::WRITE)
}

/// The arguments of a C call for a dispatch.
#[derive(Clone, Copy)]
pub(super) struct DispatchCall<'a> {
    pub(super) executable: Borrowed<'a, raw::iree_hal_executable_t>,
    pub(super) function: raw::iree_hal_executable_function_t,
    pub(super) config: &'a raw::iree_hal_dispatch_config_t,
    pub(super) constants: &'a [u8],
    pub(super) bindings: BufferRefs<'a>,
    pub(super) flags: DispatchFlags,
}

/// The checked function, sizes and flags of a direct or recorded dispatch.
pub(super) struct DispatchRequest<'a> {
    executable: &'a DeviceExecutable,
    function: u64,
    workgroup_size: [u32; 3],
    dynamic_lds: u32,
    arguments: Arguments,
    /// The bindings that are used: none if the constants are the whole arguments.
    pub(super) bindings: BufferRefs<'a>,
    /// The buffer of the workgroup counts, if they are not in the config.
    pub(super) indirect_count: Option<BufferRef<'a>>,
    /// The caller keeps executable and buffers alive until the dispatch is complete.
    pub(super) borrows: bool,
}

/// Checks that the device may read parameters of a dispatch (workgroup counts, indirect arguments) from a buffer.
/// Bindings of table slots are checked by IREE's validation.
///
/// # Errors
/// PERMISSION_DENIED, as in IREE's validation of command buffers.
#[cold]
fn check_parameters(reference: &BufferRef<'_>) -> Result<()> {
    let (usage, access) = (BufferUsage::DISPATCH_INDIRECT_PARAMETERS, MemoryAccess::READ);
    reference.buffer.map_or(Ok(()), |buffer| check_use(buffer, usage, access))
}

/// Checks a binding of a direct dispatch, which has no binding table.
///
/// # Errors
/// INVALID_ARGUMENT for a missing buffer or a slot; PERMISSION_DENIED for a buffer that dispatches may not use;
/// OUT_OF_RANGE for bytes past the buffer's end.
#[cold]
fn check_direct_binding(binding: BufferRef<'_>, layout: ArgumentLayout) -> Result<()> {
    let buffer = match binding {
        BufferRef { buffer: Some(buffer), slot: 0, .. } => buffer,
        BufferRef { buffer: None, slot: 0, .. } => {
            return Err(status!(INVALID_ARGUMENT, "it names no buffer; a queue dispatch needs one for each binding"));
        }
        BufferRef { slot, .. } => {
            let problem = "a queue dispatch has no binding table; name the buffer, or record the dispatch";
            return Err(status!(INVALID_ARGUMENT, "it names slot {slot}; {problem}"));
        }
    };
    check_span(buffer, binding.offset, binding.length)?;
    match layout {
        ArgumentLayout::Indirect(needs) => {
            needs.check_length(binding.length.min(buffer.byte_length() - binding.offset) as u64)
        }
        // As in IREE's validation of command buffers: a kernel's use of a binding is unknown.
        _ => check_use(buffer, BufferUsage::DISPATCH_STORAGE, MemoryAccess::ANY),
    }
}

/// Checks all of a dispatch's bindings.
///
/// # Errors
/// As for [`check_direct_binding`], with the binding's index.
#[cold]
fn check_direct_bindings(bindings: BufferRefs<'_>, layout: ArgumentLayout) -> Result<()> {
    for (index, binding) in bindings.iter().enumerate() {
        check_direct_binding(binding, layout).annotate(|| format!("binding {index}"))?;
    }
    Ok(())
}

/// True for a usual binding in the HAL's order, which needs no further checks.
#[inline]
fn is_plain_binding(binding: &BufferRef<'_>) -> bool {
    binding.buffer.is_some_and(|buffer| {
        let end = binding.offset.checked_add(binding.length);
        binding.slot == 0
            && end.is_some_and(|end| end <= buffer.byte_length())
            && buffer.allowed_usage().contains(BufferUsage::DISPATCH_STORAGE)
    })
}

/// The form of the arguments of a dispatch with `flags`.
///
/// # Errors
/// INVALID_ARGUMENT for flags that exclude each other, and for indirect arguments other than one buffer that the device
/// may read.
#[inline(always)]
fn arguments_of(constants: usize, bindings: BufferRefs<'_>, flags: DispatchFlags) -> Result<Arguments> {
    const INDIRECT: DispatchFlags =
        DispatchFlags::DYNAMIC_INDIRECT_ARGUMENTS.union(DispatchFlags::STATIC_INDIRECT_ARGUMENTS);
    match (flags.contains(DispatchFlags::CUSTOM_DIRECT_ARGUMENTS), flags.intersects(INDIRECT)) {
        (false, false) => Ok(Arguments::Hal { constants, bindings: bindings.len() }),
        (true, false) => Ok(Arguments::Direct(constants)),
        (true, true) => Err(status!(INVALID_ARGUMENT, "the arguments of a dispatch are either direct or indirect")),
        (false, true) => {
            let mut each = bindings.iter();
            let (Some(buffer), None) = (each.next(), each.next()) else {
                let count = bindings.len();
                return Err(status!(INVALID_ARGUMENT, "indirect arguments are one binding, not {count}"));
            };
            check_parameters(&buffer)?;
            Ok(Arguments::Indirect)
        }
    }
}

impl<'a> DispatchRequest<'a> {
    /// Checks all that does not depend on the GPU.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for unknown flags and executables of other drivers, and as for [`arguments_of`];
    /// PERMISSION_DENIED for parameters in a buffer that does not allow them.
    #[inline(always)]
    pub(super) fn new(call: DispatchCall<'a>) -> Result<Self> {
        let DispatchCall { executable, function, config, constants, bindings, flags } = call;
        let executable = executable.downcast::<DeviceExecutable>().ok_or_else(|| {
            status!(
                INVALID_ARGUMENT,
                "the executable was prepared by another driver; prepare it with a cache of this device"
            )
        })?;
        let arguments = arguments_of(constants.len(), bindings, flags)?;
        const INDIRECT_COUNT: DispatchFlags =
            DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS.union(DispatchFlags::STATIC_INDIRECT_PARAMETERS);
        let has_count = flags.intersects(INDIRECT_COUNT);
        // SAFETY: the config's buffer is null or alive during the call.
        let indirect_count = has_count.then(|| unsafe { BufferRef::from_raw(&config.workgroup_count_ref) });
        if let Some(count) = &indirect_count {
            check_parameters(count)?;
        }
        Ok(Self {
            executable,
            function: function.value,
            workgroup_size: config.workgroup_size,
            dynamic_lds: config.dynamic_workgroup_local_memory,
            arguments,
            bindings: if matches!(arguments, Arguments::Direct(_)) { BufferRefs::EMPTY } else { bindings },
            indirect_count,
            borrows: flags.contains(DispatchFlags::BORROW_RESOURCE_LIFETIMES),
        })
    }

    /// The launch on `gpu`; made in `other` if the executable has not cached it.
    ///
    /// # Errors
    /// As for [`Executable::launch`](amdgpu_core::executable::Executable::launch).
    #[inline(always)]
    pub(super) fn launch<'b>(&self, gpu: &Arc<Gpu>, other: &'b mut Option<Launch>) -> Result<&'b Launch>
    where
        'a: 'b,
    {
        let loaded = self.executable.loaded();
        loaded.launch(self.function, gpu, self.workgroup_size, self.dynamic_lds, self.arguments, other)
    }
}

impl Device {
    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    pub(super) fn queue_fill(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        target: Buffer<'_>,
        offset: usize,
        length: usize,
        pattern: *const std::ffi::c_void,
        pattern_length: usize,
        _flags: FillFlags,
    ) -> Result<()> {
        // SAFETY: the caller's pattern has this many bytes.
        let pattern = unsafe { lists::slice(pattern.cast::<u8>(), pattern_length) };
        let target = transfer_target(target, offset, length)?;
        let queue = self.logical().select_queue(affinity, waits)?;
        let fill = Transfer::fill(target, length, pattern)?;
        submit(queue, waits, signals, || fill)
    }

    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    pub(super) fn queue_update(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        source: *const std::ffi::c_void,
        source_offset: usize,
        target: Buffer<'_>,
        offset: usize,
        length: usize,
        _flags: UpdateFlags,
    ) -> Result<()> {
        if source.is_null() && length > 0 {
            return Err(status!(INVALID_ARGUMENT, "an update of {length} bytes without a source"));
        }
        let target = transfer_target(target, offset, length)?;
        // SAFETY: the caller's source has this many bytes from the offset on.
        let bytes = unsafe { lists::slice(source.cast::<u8>().wrapping_add(source_offset), length) };
        let queue = self.logical().select_queue(affinity, waits)?;
        submit(queue, waits, signals, || Transfer::update(bytes, target))
    }

    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    pub(super) fn queue_copy(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        source: Buffer<'_>,
        source_offset: usize,
        target: Buffer<'_>,
        offset: usize,
        length: usize,
        _flags: CopyFlags,
    ) -> Result<()> {
        let (usage, access) = (BufferUsage::TRANSFER_SOURCE, MemoryAccess::READ);
        let source = Range::of_transfer(source, source_offset, length, usage, access)?;
        let target = transfer_target(target, offset, length)?;
        if source.overlaps(&target, length) {
            return Err(status!(INVALID_ARGUMENT, "source and target of a copy of {length} bytes overlap"));
        }
        let queue = self.logical().select_queue(affinity, waits)?;
        submit(queue, waits, signals, || Transfer::copy(source, target, length))
    }

    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    pub(super) fn queue_read(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        source: Borrowed<'_, raw::iree_hal_file_t>,
        source_offset: u64,
        target: Buffer<'_>,
        target_offset: usize,
        length: usize,
        _flags: ReadFlags,
    ) -> Result<()> {
        let buffer = Range::new(target, target_offset).into_owned();
        self.queue_file_transfer(affinity, waits, signals, |affinity| FileTransfer {
            direction: Direction::Read,
            file: source.retain(),
            file_offset: source_offset,
            buffer,
            length,
            affinity,
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    pub(super) fn queue_write(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        source: Buffer<'_>,
        source_offset: usize,
        target: Borrowed<'_, raw::iree_hal_file_t>,
        target_offset: u64,
        length: usize,
        _flags: WriteFlags,
    ) -> Result<()> {
        let buffer = Range::new(source, source_offset).into_owned();
        self.queue_file_transfer(affinity, waits, signals, |affinity| FileTransfer {
            direction: Direction::Write,
            file: target.retain(),
            file_offset: target_offset,
            buffer,
            length,
            affinity,
        })
    }

    fn queue_file_transfer(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        transfer: impl FnOnce(u64) -> FileTransfer,
    ) -> Result<()> {
        let queue = self.logical().select_queue(affinity, waits)?;
        match transfer(1 << queue.ordinal()).route()? {
            Route::Nothing => submit(queue, waits, signals, || Barrier),
            Route::Device(copy) => submit(queue, waits, signals, || copy),
            Route::Host(transfer) => {
                let (files, device) = (self.files().clone(), self.weak());
                let info = || EventInfo::one(transfer.direction.kind(), transfer.length as u64);
                let trace = HostTrace::new(queue, info, waits.len(), signals.len());
                let run = move |signals| files.run(transfer, signals, device, trace);
                submit_host(queue, waits, signals, HostTask::boxed(run)?)
            }
        }
    }

    pub(super) fn queue_host_call(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        call: raw::iree_hal_host_call_t,
        args: *const u64,
        flags: HostCallFlags,
    ) -> Result<()> {
        if call.fn_.is_none() || args.is_null() {
            return Err(status!(INVALID_ARGUMENT, "a host call needs a function and four arguments"));
        }
        let queue = self.logical().select_queue(affinity, waits)?;
        let info = || EventInfo::one(QueueEventKind::HostCall, 0);
        let trace = HostTrace::new(queue, info, waits.len(), signals.len());
        // WAIT_ACTIVE and RELAXED are hints that change nothing here.
        let non_blocking = flags.contains(HostCallFlags::NON_BLOCKING);
        // SAFETY: the caller's array of four, and its function, given to be called on any thread (`iree/hal/device.h`).
        let (function, args) = unsafe { (HostFunction::new(call), args.cast::<[u64; 4]>().read()) };
        let call = HostCall::new(function, (self.weak(), 1 << queue.ordinal()), args, non_blocking, trace);
        submit_host(queue, waits, signals, HostTask::Call(call))
    }

    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    pub(super) fn queue_dispatch(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        executable: Borrowed<'_, raw::iree_hal_executable_t>,
        function: raw::iree_hal_executable_function_t,
        config: &raw::iree_hal_dispatch_config_t,
        constants: &[u8],
        bindings: BufferRefs<'_>,
        flags: DispatchFlags,
    ) -> Result<()> {
        let queue = self.logical().select_queue(affinity, waits)?;
        let request = DispatchRequest::new(DispatchCall { executable, function, config, constants, bindings, flags })?;
        let mut other = None;
        let launch = request.launch(queue.gpu(), &mut other)?;
        let count = match request.indirect_count {
            None => WorkgroupCount::Static(config.workgroup_count),
            Some(BufferRef { buffer: Some(buffer), offset, .. }) => {
                check_span(buffer, offset, WORKGROUP_COUNT_LENGTH)?;
                WorkgroupCount::Indirect(buffer, offset)
            }
            Some(_) => return Err(status!(INVALID_ARGUMENT, "indirect workgroup counts name no buffer")),
        };
        let is_indirect = matches!(launch.layout, ArgumentLayout::Indirect(_));
        if is_indirect || !request.bindings.iter().all(|binding| is_plain_binding(&binding)) {
            check_direct_bindings(request.bindings, launch.layout)?;
        }
        let DispatchRequest { bindings, borrows, .. } = request;
        let params = || DispatchParams { executable, launch, count, bindings, constants, borrows };
        submit(queue, waits, signals, || Dispatch::new(params()))
    }

    pub(super) fn queue_execute(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        command_buffer: Option<Borrowed<'_, raw::iree_hal_command_buffer_t>>,
        binding_table: BindingTable<'_>,
        flags: ExecuteFlags,
    ) -> Result<()> {
        let queue = self.logical().select_queue(affinity, waits)?;
        let Some(command_buffer) = command_buffer else { return submit(queue, waits, signals, || Barrier) };
        let recording = command_buffer.downcast::<CommandBuffer>().ok_or_else(|| {
            status!(INVALID_ARGUMENT, "the command buffer was made by another driver; record it on this device")
        })?;
        let Some(program) = recording.program() else {
            let table = (binding_table, flags.contains(ExecuteFlags::BORROW_BINDING_TABLE_LIFETIME));
            return self.execute_stages(recording, queue, (waits, signals), command_buffer, table);
        };
        recording.execute(program.recording.is_one_shot(), || {
            let borrows = flags.contains(ExecuteFlags::BORROW_BINDING_TABLE_LIFETIME);
            Execute::check(program, binding_table)?;
            submit(queue, waits, signals, || Execute::new(program, command_buffer, binding_table, borrows))
        })
    }

    /// Executes a recording that is no program: one with collectives.
    #[cold]
    #[inline(never)]
    fn execute_stages(
        &self,
        recording: &CommandBuffer,
        queue: &Arc<Queue>,
        semaphores: (SemaphoreList<'_>, SemaphoreList<'_>),
        command_buffer: Borrowed<'_, raw::iree_hal_command_buffer_t>,
        table: (BindingTable<'_>, bool),
    ) -> Result<()> {
        let (stages, one_shot) = recording.stages()?;
        let (device, files) = (self.weak(), self.files());
        recording.execute(one_shot, || {
            stages.execute(&StagesExecution { queue, device, files, semaphores, command_buffer, table })
        })
    }

    /// The backend with which applications make pools, for the GPU of the lowest queue of `affinity`.
    pub(super) fn query_queue_pool_backend(
        &self,
        affinity: u64,
        out: Out<'_, raw::iree_hal_queue_pool_backend_t>,
    ) -> Result<()> {
        let gpu = self.logical().select_gpu(affinity)?;
        out.set(self.memory().gpu(gpu.index()).backend());
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    pub(super) fn queue_alloca(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        pool: Option<Borrowed<'_, raw::iree_hal_pool_t>>,
        mut params: raw::iree_hal_buffer_params_t,
        size: usize,
        flags: AllocaFlags,
        out: Out<'_, *mut raw::iree_hal_buffer_t>,
    ) -> Result<()> {
        // SAFETY: the parameters are a local.
        unsafe { raw::iree_hal_buffer_params_canonicalize(&raw mut params) };
        let queue = self.logical().select_queue(affinity, waits)?;
        let pool = match pool {
            Some(pool) => pool,
            None => self.memory().gpu(queue.gpu().index()).select(&mut params, size)?,
        };
        let request = AllocaParams { pool, params, size, flags };
        let (memory, affinity) = (self.memory(), 1 << queue.ordinal());
        let (alloca, buffer) =
            Alloca::new(request, self.as_raw(), affinity, (memory.transients(), memory.statistics()))?;
        submit(queue, waits, signals, || alloca)?;
        out.give(buffer);
        Ok(())
    }

    pub(super) fn queue_dealloca(
        &self,
        affinity: u64,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        buffer: Buffer<'_>,
        _flags: DeallocaFlags,
    ) -> Result<()> {
        let queue = self.logical().select_queue(affinity, waits)?;
        match Dealloca::new(buffer, self.as_raw())? {
            Some(dealloca) => submit(queue, waits, signals, || dealloca),
            // Not queue-allocated: it lives as long as its references.
            None => submit(queue, waits, signals, || Barrier),
        }
    }

    /// Does nothing: submissions are in the ring when their call returns, or go there as soon as they can.
    pub(super) fn queue_flush(&self, affinity: u64) -> Result<()> {
        self.logical().canonical_affinity(affinity).map(|_| ())
    }
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The device object: its properties and the objects that it makes. Its queue operations are in `queue.rs`.

use std::borrow::Cow;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use parking_lot::Mutex;

use crate::allocator::DeviceAllocator;
use crate::channel::{self, Channel, ChannelProvider};
use crate::command_buffer::{CommandBuffer, CommandBufferParams};
use crate::event::Event;
use crate::executable::ExecutableCache;
use crate::topology::Places;
use amdgpu_collectives::bootstrap::Provider;
use amdgpu_core::collectives::DeviceChannels;
use amdgpu_core::device::LogicalDevice;
use amdgpu_core::executable::Format;
use amdgpu_ffi::topology;
use amdgpu_ffi::{
    Allocator, Blocks, Borrowed, CommandBufferMode, CommandCategories, DeviceAnchor, EventFlags, ExternalFileFlags,
    FrontierTracker, HalObject, HalRef, Header, MemoryAccess, Out, Result, Semaphore, SemaphoreFlags, WeakDevice, iree,
    raw, status, strings, thunk, vtable,
};
use amdgpu_gpu::options::Options;
use amdgpu_gpu::peers;
use amdgpu_gpu::topology::Selection;
use amdgpu_memory::heaps::Heaps;
use amdgpu_memory::pools::DeviceMemory;
use amdgpu_memory::statistics::Statistics;
use amdgpu_operations::files::FileTransfers;
use amdgpu_program::arena::Arena;
use amdgpu_queue::semaphore::DeviceSemaphore;

/// `iree_hal_device_t` of this driver.
#[repr(C)]
pub struct Device {
    header: Header,
    host_allocator: Allocator,
    identifier: String,
    // Dropped in this order: collectives end, and with them their use of the provider's library; the queues stop before
    // the pools go, and those before the proactor of their notifications.
    channels: DeviceChannels,
    logical: LogicalDevice,
    allocator: Mutex<Option<HalRef<raw::iree_hal_allocator_t>>>,
    /// The current allocator, for reads without the lock.
    allocator_now: AtomicPtr<raw::iree_hal_allocator_t>,
    memory: DeviceMemory,
    /// Performs the device's asynchronous I/O.
    proactor: HalRef<raw::iree_async_proactor_t>,
    // Keeps `proactor` polled.
    _proactor_pool: HalRef<raw::iree_async_proactor_pool_t>,
    anchor: DeviceAnchor,
    heaps: Arc<Heaps>,
    files: FileTransfers,
    /// The arenas that command buffers are recorded in, by GPU.
    arenas: Box<[Arc<Arena>]>,
    /// The blocks that command buffers are allocated in.
    command_buffers: Arc<Blocks>,
    semaphores: Arc<Blocks>,
    channel_provider: Mutex<Option<HalRef<raw::iree_hal_channel_provider_t>>>,
    /// The positions in its device groups.
    places: Places,
}

// SAFETY: repr(C), the header is first, VTABLE is used here only.
unsafe impl HalObject for Device {
    type Raw = raw::iree_hal_device_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.host_allocator
    }
}

static VTABLE: raw::iree_hal_device_vtable_t = raw::iree_hal_device_vtable_t {
    destroy: thunk::destroy::<Device, _>(),
    id: thunk::method(Device::id),
    host_allocator: thunk::method(|device: &Device| device.host_allocator),
    device_allocator: thunk::method(Device::device_allocator),
    replace_device_allocator: thunk::method(Device::replace_device_allocator),
    replace_channel_provider: thunk::method(Device::replace_channel_provider),
    trim: thunk::method(Device::trim),
    query_i64: thunk::method(Device::query_i64),
    query_capabilities: thunk::method(Device::query_capabilities),
    topology_info: thunk::method(Device::topology_info),
    refine_topology_edge: thunk::method(Device::refine_topology_edge),
    assign_topology_info: thunk::method(Device::assign_topology_info),
    create_channel: thunk::method(Device::create_channel),
    create_command_buffer: thunk::method(Device::create_command_buffer),
    create_event: thunk::method(Device::create_event),
    create_executable_cache: thunk::method(Device::create_executable_cache),
    import_file: thunk::method(Device::import_file),
    create_semaphore: thunk::method(Device::create_semaphore),
    query_semaphore_compatibility: thunk::method(Device::query_semaphore_compatibility),
    query_queue_pool_backend: thunk::method(Device::query_queue_pool_backend),
    queue_alloca: thunk::method(Device::queue_alloca),
    queue_dealloca: thunk::method(Device::queue_dealloca),
    queue_fill: thunk::method(Device::queue_fill),
    queue_update: thunk::method(Device::queue_update),
    queue_copy: thunk::method(Device::queue_copy),
    queue_read: thunk::method(Device::queue_read),
    queue_write: thunk::method(Device::queue_write),
    queue_host_call: thunk::method(Device::queue_host_call),
    queue_dispatch: thunk::method(Device::queue_dispatch),
    queue_execute: thunk::method(Device::queue_execute),
    queue_flush: thunk::method(Device::queue_flush),
    profiling_begin: thunk::method(Device::profiling_begin),
    profiling_flush: thunk::method(|device: &Device| device.logical.flush_profiling()),
    profiling_end: thunk::method(|device: &Device| device.logical.end_profiling()),
    external_capture_begin: thunk::method(|_: &Device, _: *const raw::iree_hal_device_external_capture_options_t| {
        unimplemented("external_capture_begin")
    }),
    external_capture_end: thunk::method(|_: &Device| unimplemented("external_capture_end")),
    ..vtable::empty()
};

/// Makes a device of the GPUs of `selection`.
///
/// # Errors
/// As for [`LogicalDevice::new`]; the error of the proactor pool.
pub fn create(
    identifier: &str,
    selection: Selection,
    options: Options,
    proactor_pool: Borrowed<'_, raw::iree_async_proactor_pool_t>,
    host_allocator: Allocator,
) -> Result<HalRef<Device>> {
    let logical = LogicalDevice::new(&selection, options)?;
    let mut proactor = std::ptr::null_mut();
    let node = selection.cpus[selection.gpus[0].cpu].agent.info().node;
    // SAFETY: the pool lives; the result goes to a local.
    let proactor = unsafe {
        iree!(raw::iree_async_proactor_pool_get_for_node(proactor_pool.as_ptr(), node, &raw mut proactor))?;
        Borrowed::from_raw(proactor)
    };
    let proactor = proactor.ok_or_else(|| status!(INTERNAL, "the proactor pool has no proactor"))?.retain();
    let heaps = Arc::new(Heaps::new(logical.gpus(), logical.options().hardware_queues_per_gpu)?);
    let statistics = Arc::<Statistics>::default();
    let (options, profiler) = (logical.options(), logical.profiler());
    // SAFETY: the device keeps the proactor until its own pools are gone.
    let memory = unsafe {
        let epochs = Arc::downgrade(logical.shared());
        DeviceMemory::new(&heaps, options, proactor.as_ptr(), host_allocator, epochs, profiler, statistics.clone())
    }?;
    let (block_size, slot_size) =
        (logical.options().host_block_pool_command_buffer_size, logical.options().host_block_pool_large_size);
    let arenas = logical.gpus().iter().map(|gpu| Arc::new(Arena::new(gpu.clone(), block_size))).collect();
    let device = HalRef::new(Device {
        header: Header::new::<Device>(),
        host_allocator,
        identifier: identifier.to_owned(),
        channels: DeviceChannels::default(),
        logical,
        allocator: Mutex::new(None),
        allocator_now: AtomicPtr::default(),
        memory,
        proactor,
        _proactor_pool: proactor_pool.retain(),
        anchor: DeviceAnchor::default(),
        heaps: heaps.clone(),
        files: FileTransfers::new(slot_size),
        arenas,
        command_buffers: CommandBuffer::blocks(host_allocator),
        semaphores: DeviceSemaphore::blocks(host_allocator),
        channel_provider: Mutex::new(None),
        places: Places::default(),
    })?;
    // SAFETY: the anchor is the device's own.
    unsafe { device.anchor.set(device.as_raw()) };
    let allocator = DeviceAllocator::create(
        host_allocator,
        device.as_raw(),
        selection.library.clone(),
        heaps,
        device.logical.profiler().clone(),
        statistics,
    )?;
    // SAFETY: the new allocator's reference moves.
    if let Some(allocator) = unsafe { HalRef::from_owned(allocator.into_raw()) } {
        device.set_allocator(allocator);
    }
    Ok(device)
}

impl Device {
    /// The logical device.
    pub fn logical(&self) -> &LogicalDevice {
        &self.logical
    }

    /// A reference that does not keep the device alive.
    pub fn weak(&self) -> WeakDevice {
        self.anchor.weak()
    }

    /// The file transfers that run on the host worker.
    pub fn files(&self) -> &FileTransfers {
        &self.files
    }

    fn id(&self) -> raw::iree_string_view_t {
        strings::view(&self.identifier)
    }

    /// The memory of its GPUs.
    pub fn heaps(&self) -> &Heaps {
        &self.heaps
    }

    /// The default pools of queue-ordered allocation.
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// The name that the application gave it.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// The device as a C pointer, borrowed.
    pub fn as_raw(&self) -> *mut raw::iree_hal_device_t {
        (&raw const *self).cast_mut().cast()
    }

    fn device_allocator(&self) -> *mut raw::iree_hal_allocator_t {
        self.allocator_now.load(Ordering::Acquire)
    }

    /// Sets the device's allocator, and returns the previous one.
    fn set_allocator(&self, allocator: HalRef<raw::iree_hal_allocator_t>) -> Option<HalRef<raw::iree_hal_allocator_t>> {
        let mut current = self.allocator.lock();
        self.allocator_now.store(allocator.as_ptr(), Ordering::Release);
        current.replace(allocator)
    }

    fn replace_device_allocator(&self, allocator: Borrowed<'_, raw::iree_hal_allocator_t>) {
        self.files.keep_none();
        drop(self.set_allocator(allocator.retain()));
    }

    fn replace_channel_provider(&self, provider: Option<Borrowed<'_, raw::iree_hal_channel_provider_t>>) {
        let provider = provider.map(Borrowed::retain);
        let previous = std::mem::replace(&mut *self.channel_provider.lock(), provider);
        drop(previous);
    }

    fn trim(&self) -> Result<()> {
        self.files.trim();
        let allocator = self.allocator.lock().clone();
        if let Some(allocator) = allocator {
            // SAFETY: held by the reference.
            unsafe { iree!(raw::iree_hal_allocator_trim(allocator.as_ptr())) }?;
        }
        for gpu in self.logical.gpus() {
            gpu.trim();
        }
        self.memory.trim()
    }

    fn query_i64(&self, category: Cow<'_, str>, key: Cow<'_, str>, out_value: Out<'_, i64>) -> Result<()> {
        let value = self.lookup(&category, &key);
        out_value.set(*value.as_ref().unwrap_or(&0));
        value.map(drop)
    }

    fn lookup(&self, category: &str, key: &str) -> Result<i64> {
        let gpu = &self.logical.gpus()[0];
        Ok(match (category, key) {
            // Compiled modules look for a device by the pattern of the target they were compiled for: `amdgpu`, or
            // `hip`, whose executables run here, too.
            ("hal.device.id", pattern) => {
                let hip = self.logical.options().hip_device_id.then_some("hip");
                let mut names = ["amdgpu", &self.identifier].into_iter().chain(hip);
                i64::from(names.any(|name| strings::matches(name, pattern)))
            }
            ("hal.executable.format", format) => {
                let format = Format::parse(format);
                let runs = format.is_some_and(|format| self.logical.gpus().iter().all(|gpu| format.runs_on(gpu)));
                i64::from(runs)
            }
            ("hal.device", "concurrency") => self.logical.queue_count() as i64,
            ("hal.dispatch", "concurrency") => i64::from(gpu.shape().compute_units),
            ("amdgpu.device", "physical_device.count") => self.logical.gpus().len() as i64,
            ("amdgpu.device", key) => gpu.query(key)?,
            _ => return Err(status!(NOT_FOUND, "unknown device configuration key '{category} :: {key}'")),
        })
    }

    fn query_capabilities(&self, out: Out<'_, raw::iree_hal_device_capabilities_t>) -> Result<()> {
        // SAFETY: all-zero is a device without capabilities.
        let mut capabilities: raw::iree_hal_device_capabilities_t = unsafe { std::mem::zeroed() };
        capabilities.flags = (raw::IREE_HAL_DEVICE_CAPABILITY_TIMELINE_SEMAPHORES
            | raw::IREE_HAL_DEVICE_CAPABILITY_HOST_COHERENT
            | raw::IREE_HAL_DEVICE_CAPABILITY_ATOMIC_SCOPE_DEVICE
            | raw::IREE_HAL_DEVICE_CAPABILITY_ATOMIC_SCOPE_SYSTEM
            | raw::IREE_HAL_DEVICE_CAPABILITY_P2P_COPY)
            .into();
        // A runtime's, and so those of all GPUs.
        let system = self.logical.gpus()[0].agent().library().system();
        if system.svm_supported {
            capabilities.flags |= u64::from(raw::IREE_HAL_DEVICE_CAPABILITY_SHARED_VIRTUAL_ADDRESS);
        }
        if system.svm_accessible_by_default {
            capabilities.flags |= u64::from(raw::IREE_HAL_DEVICE_CAPABILITY_UNIFIED_MEMORY);
        }
        if system.dmabuf_supported {
            let types = raw::IREE_HAL_TOPOLOGY_HANDLE_TYPE_DMA_BUF as _;
            capabilities.buffer_export_types = types;
            capabilities.buffer_import_types = types;
        }
        // Several GPUs behind one device have no single identity.
        if let [gpu] = self.logical.gpus() {
            capabilities.driver_device_handle = gpu.agent().handle().handle as usize;
            if let Some(uuid) = gpu.info().uuid_bytes() {
                capabilities.physical_device_uuid = uuid;
                capabilities.has_physical_device_uuid = true;
            }
        }
        // GPUs at different nodes have none in common.
        let mut nodes = self.logical.gpus().iter().map(|gpu| gpu.cpu().agent.info().node);
        let node = nodes.next().filter(|node| nodes.all(|other| other == *node));
        capabilities.numa_node = node.and_then(|node| u8::try_from(node).ok()).unwrap_or(0);
        out.set(capabilities);
        Ok(())
    }

    fn topology_info(&self) -> *const raw::iree_hal_device_topology_info_t {
        self.places.current()
    }

    fn refine_topology_edge(
        &self,
        destination: Borrowed<'_, raw::iree_hal_device_t>,
        edge: *mut raw::iree_hal_topology_edge_t,
    ) -> Result<()> {
        let Some(destination) = destination.downcast::<Self>() else { return Ok(()) };
        let reach = peers::reach(self.logical.gpus(), destination.logical.gpus())?;
        // SAFETY: the caller's edge, to be changed in place.
        topology::refine(unsafe { &mut *edge }, reach);
        Ok(())
    }

    /// Joins a device group; a null `info` takes back the newest one, which could not be made. Does not affect the
    /// queues or the work of other groups.
    fn assign_topology_info(&self, info: *const raw::iree_hal_device_topology_info_t) -> Result<()> {
        // SAFETY: null, or valid during the call.
        let Some(info) = (unsafe { info.as_ref() }) else {
            self.places.abandon();
            return Ok(());
        };
        // SAFETY: the group's tracker, alive during the call.
        let tracker = unsafe { FrontierTracker::retain(info.frontier.tracker) };
        let tracker = tracker.ok_or_else(|| status!(INVALID_ARGUMENT, "the device group has no frontier tracker"))?;
        let member = self.logical.join(&tracker, info.frontier.base_axis)?;
        self.places.add(info, &member);
        Ok(())
    }

    /// Makes a channel of the group that the parameters or the environment name. The first one waits for the other
    /// processes; later ones with the same parameters share its communicator. Which queues use it does not matter.
    fn create_channel(
        &self,
        affinity: u64,
        params: raw::iree_hal_channel_params_t,
        out: Out<'_, *mut raw::iree_hal_channel_t>,
    ) -> Result<()> {
        self.logical.canonical_affinity(affinity)?;
        // SAFETY: the caller's parameters, valid during the call.
        let request = unsafe { channel::request(&params) }?;
        let provider = self.channel_provider.lock().clone().map(ChannelProvider);
        let provider = provider.as_ref().map(|provider| provider as &dyn Provider);
        let communicator = self.channels.get(request, &self.logical, provider)?;
        out.give(Channel::create(self.host_allocator, Arc::new(communicator.into()))?);
        Ok(())
    }

    fn create_event(&self, affinity: u64, _flags: EventFlags, out: Out<'_, *mut raw::iree_hal_event_t>) -> Result<()> {
        let affinity = self.logical.canonical_affinity(affinity)?;
        out.give(Event::create(self.host_allocator, affinity)?);
        Ok(())
    }

    fn import_file(
        &self,
        affinity: u64,
        access: MemoryAccess,
        handle: *mut raw::iree_io_file_handle_t,
        _flags: ExternalFileFlags,
        out: Out<'_, *mut raw::iree_hal_file_t>,
    ) -> Result<()> {
        let affinity = self.logical.canonical_affinity(affinity)?;
        if handle.is_null() {
            return Err(status!(INVALID_ARGUMENT, "no file handle to import"));
        }
        // SAFETY: handle and allocator live; the result is the caller's.
        unsafe {
            iree!(raw::iree_hal_file_from_handle(
                self.device_allocator(),
                affinity,
                access.bits(),
                handle,
                self.proactor.as_ptr(),
                self.host_allocator.to_raw(),
                out.as_ptr(),
            ))
        }
    }

    fn create_command_buffer(
        &self,
        mode: CommandBufferMode,
        categories: CommandCategories,
        affinity: u64,
        binding_capacity: usize,
        out: Out<'_, *mut raw::iree_hal_command_buffer_t>,
    ) -> Result<()> {
        let gpu = self.logical.select_gpu(affinity)?;
        let affinity = self.logical.canonical_affinity(affinity)? & self.logical.gpu_mask(gpu.index());
        let mode = mode.bits();
        let device_allocator = self.device_allocator();
        let params = CommandBufferParams { device_allocator, mode, categories, affinity, binding_capacity };
        out.give(CommandBuffer::create(&self.command_buffers, self.arenas[gpu.index()].clone(), &params)?);
        Ok(())
    }

    fn create_executable_cache(
        &self,
        _identifier: Cow<'_, str>,
        out: Out<'_, *mut raw::iree_hal_executable_cache_t>,
    ) -> Result<()> {
        out.give(ExecutableCache::create(self.host_allocator, self)?);
        Ok(())
    }

    fn create_semaphore(
        &self,
        affinity: u64,
        initial_value: u64,
        _flags: SemaphoreFlags,
        out: Out<'_, *mut raw::iree_hal_semaphore_t>,
    ) -> Result<()> {
        // Every semaphore has the capabilities that flags ask for, or fewer than they allow: all work on any queue of
        // any device, with any number of producers, wait without spinning, and export their timepoints; themselves they
        // cannot be exported, which the flag permits.
        self.logical.canonical_affinity(affinity)?;
        out.give(DeviceSemaphore::create(
            &self.semaphores,
            (self.logical.id(), Arc::downgrade(self.logical.queues())),
            self.proactor.borrow(),
            initial_value,
        )?);
        Ok(())
    }

    fn query_semaphore_compatibility(&self, semaphore: Semaphore<'_>) -> u32 {
        let ours = semaphore.downcast::<DeviceSemaphore>().is_some();
        if ours { raw::IREE_HAL_SEMAPHORE_COMPATIBILITY_ALL } else { raw::IREE_HAL_SEMAPHORE_COMPATIBILITY_HOST_ONLY }
    }
}

fn unimplemented(what: &str) -> Result<()> {
    Err(status!(UNIMPLEMENTED, "amdgpu_rs devices do not support {what} yet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IREE calls device slots without checking for null.
    #[test]
    fn every_slot_is_filled() {
        const SLOTS: usize = size_of_val(&VTABLE) / size_of::<usize>();
        // SAFETY: a vtable is nullable function pointers and nothing else, in a static.
        let slots = unsafe { std::slice::from_raw_parts((&raw const VTABLE).cast::<*const c_void>(), SLOTS) };
        let empty: Vec<_> = (0..SLOTS).filter(|index| slots[*index].is_null()).collect();
        assert_eq!(empty, [0_usize; 0], "slots of iree_hal_device_vtable_t that are NULL, by position");
    }
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The device object: what it is and what it makes. Its queue operations are in [`super::queue`].

use std::borrow::Cow;
use std::ffi::c_void;

use parking_lot::Mutex;

use crate::api::command_buffer::{CommandBuffer, CommandBufferParams};
use crate::api::executable::ExecutableCache;
use crate::api::semaphore::DeviceSemaphore;
use crate::core::device::LogicalDevice;
use crate::core::options::Options;
use crate::core::topology::Selection;
use crate::ffi::{
    Allocator, Borrowed, FrontierTracker, HalObject, HalRef, Header, Out, Result, Semaphore, iree, raw, status, strings,
    thunk, vtable,
};

/// `iree_hal_device_t` of this driver.
#[repr(C)]
pub struct Device {
    header: Header,
    host_allocator: Allocator,
    identifier: String,
    logical: LogicalDevice,
    proactor: *mut raw::iree_async_proactor_t,
    // Keeps `proactor` alive.
    _proactor_pool: HalRef<raw::iree_async_proactor_pool_t>,
    channel_provider: Mutex<Option<HalRef<raw::iree_hal_channel_provider_t>>>,
    // Read by C through a pointer that stays valid until the next assignment (`iree/hal/device.h`, topology_info).
    topology_info: std::cell::UnsafeCell<raw::iree_hal_device_topology_info_t>,
}

// SAFETY: the proactor is thread-safe and kept alive by its pool; topology_info is written only while the device joins or leaves a
// group, which IREE does not do concurrently with use.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

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
    replace_channel_provider: thunk::method(Device::replace_channel_provider),
    trim: thunk::method(Device::trim),
    query_i64: thunk::method(Device::query_i64),
    query_capabilities: thunk::method(Device::query_capabilities),
    topology_info: thunk::method(Device::topology_info),
    refine_topology_edge: thunk::method(Device::refine_topology_edge),
    assign_topology_info: thunk::method(Device::assign_topology_info),
    create_command_buffer: thunk::method(Device::create_command_buffer),
    create_executable_cache: thunk::method(Device::create_executable_cache),
    create_semaphore: thunk::method(Device::create_semaphore),
    query_semaphore_compatibility: thunk::method(Device::query_semaphore_compatibility),
    queue_fill: thunk::method(Device::queue_fill),
    queue_update: thunk::method(Device::queue_update),
    queue_copy: thunk::method(Device::queue_copy),
    queue_dispatch: thunk::method(Device::queue_dispatch),
    queue_execute: thunk::method(Device::queue_execute),
    queue_flush: thunk::method(Device::queue_flush),
    ..vtable::empty()
};

/// Makes a device of the GPUs of `selection`.
///
/// # Errors
/// Those of [`LogicalDevice::new`]; what the proactor pool said.
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
    unsafe { iree!(raw::iree_async_proactor_pool_get_for_node(proactor_pool.as_ptr(), node, &raw mut proactor)) }?;
    HalRef::new(Device {
        header: Header::new::<Device>(),
        host_allocator,
        identifier: identifier.to_owned(),
        logical,
        proactor,
        _proactor_pool: proactor_pool.retain(),
        channel_provider: Mutex::new(None),
        // SAFETY: all-zero is the info of a device in no group.
        topology_info: unsafe { std::mem::zeroed() },
    })
}

impl Device {
    /// The driver's part.
    pub fn logical(&self) -> &LogicalDevice {
        &self.logical
    }

    /// The proactor that does the device's asynchronous I/O.
    pub fn proactor(&self) -> *mut raw::iree_async_proactor_t {
        self.proactor
    }

    fn id(&self) -> raw::iree_string_view_t {
        strings::view(&self.identifier)
    }

    fn replace_channel_provider(&self, provider: Option<Borrowed<'_, raw::iree_hal_channel_provider_t>>) {
        let provider = provider.map(Borrowed::retain);
        let previous = std::mem::replace(&mut *self.channel_provider.lock(), provider);
        drop(previous);
    }

    fn trim(&self) -> Result<()> {
        Ok(())
    }

    fn query_i64(&self, category: Cow<'_, str>, key: Cow<'_, str>, out_value: Out<'_, i64>) -> Result<()> {
        let value = self.lookup(&category, &key);
        out_value.set(value.unwrap_or(0));
        match value {
            Some(_) => Ok(()),
            None => Err(status!(NOT_FOUND, "unknown device configuration key '{category} :: {key}'")),
        }
    }

    fn lookup(&self, category: &str, key: &str) -> Option<i64> {
        let gpu = &self.logical.gpus()[0];
        match (category, key) {
            // Compiled modules look for a device by the pattern of the target they were compiled for, `amdgpu`.
            ("hal.device.id", pattern) => {
                let matches = ["amdgpu", &self.identifier].iter().any(|name| strings::matches(name, pattern));
                Some(i64::from(matches))
            }
            ("hal.device", "concurrency") => Some(self.logical.queue_count() as i64),
            ("hal.dispatch", "concurrency") => Some(i64::from(gpu.shape().compute_units)),
            ("amdgpu.device", "physical_device.count") => Some(self.logical.gpus().len() as i64),
            ("amdgpu.device", key) => gpu.query(key),
            _ => None,
        }
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
        // Several GPUs behind one device have no single identity.
        if let [gpu] = self.logical.gpus() {
            capabilities.driver_device_handle = gpu.agent().handle().handle as usize;
            if let Some(uid) = gpu.agent().info().driver_uid {
                capabilities.physical_device_uuid[..4].copy_from_slice(&uid.to_le_bytes());
                capabilities.has_physical_device_uuid = true;
            }
        }
        let node = self.logical.gpus()[0].cpu().agent.info().node;
        capabilities.numa_node = u8::try_from(node).unwrap_or(0);
        out.set(capabilities);
        Ok(())
    }

    fn topology_info(&self) -> *const raw::iree_hal_device_topology_info_t {
        self.topology_info.get()
    }

    fn refine_topology_edge(
        &self,
        _destination: Borrowed<'_, raw::iree_hal_device_t>,
        _edge: *mut raw::iree_hal_topology_edge_t,
    ) -> Result<()> {
        // The edge that IREE derives from both sides' capabilities claims no direct access, which holds for every pair.
        Ok(())
    }

    fn assign_topology_info(&self, info: *const raw::iree_hal_device_topology_info_t) -> Result<()> {
        self.logical.stop();
        // SAFETY: null, or valid during the call.
        let Some(info) = (unsafe { info.as_ref() }) else {
            // SAFETY: see the field; all-zero is the info of a device in no group.
            unsafe { self.topology_info.get().write(std::mem::zeroed()) };
            return Ok(());
        };
        // SAFETY: the group's tracker, alive during the call.
        let tracker = unsafe { FrontierTracker::retain(info.frontier.tracker) };
        let tracker = tracker.ok_or_else(|| status!(INVALID_ARGUMENT, "the device group has no frontier tracker"))?;
        self.logical.start(&tracker, info.frontier.base_axis)?;
        // SAFETY: see the field; the info is plain data.
        unsafe { std::ptr::copy_nonoverlapping(info, self.topology_info.get(), 1) };
        Ok(())
    }

    fn create_command_buffer(
        &self,
        mode: u32,
        categories: u32,
        affinity: u64,
        binding_capacity: usize,
        out: Out<'_, *mut raw::iree_hal_command_buffer_t>,
    ) -> Result<()> {
        let gpu = self.logical.select_gpu(affinity)?.clone();
        let affinity = self.logical.canonical_affinity(affinity)? & self.logical.gpu_mask(gpu.index());
        let device_allocator = std::ptr::null_mut();
        let params = CommandBufferParams { device_allocator, mode, categories, affinity, binding_capacity };
        out.give(CommandBuffer::create(self.host_allocator, gpu, &params)?);
        Ok(())
    }

    fn create_executable_cache(
        &self,
        _identifier: Cow<'_, str>,
        out: Out<'_, *mut raw::iree_hal_executable_cache_t>,
    ) -> Result<()> {
        out.give(ExecutableCache::create(self.host_allocator, &self.logical)?);
        Ok(())
    }

    fn create_semaphore(
        &self,
        _affinity: u64,
        initial_value: u64,
        _flags: u64,
        out: Out<'_, *mut raw::iree_hal_semaphore_t>,
    ) -> Result<()> {
        out.give(DeviceSemaphore::create(self.host_allocator, self.logical.id(), self.proactor, initial_value)?);
        Ok(())
    }

    fn query_semaphore_compatibility(&self, semaphore: Semaphore<'_>) -> u32 {
        let ours = semaphore.downcast::<DeviceSemaphore>().is_some();
        if ours { raw::IREE_HAL_SEMAPHORE_COMPATIBILITY_ALL } else { raw::IREE_HAL_SEMAPHORE_COMPATIBILITY_HOST_ONLY }
    }
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Executables and the cache that prepares them. Their shared code on a GPU is in `core/gpu/code.rs`.

use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

use amdgpu_code_object::{self as code_object, Function, ParameterKind, SizeProbe, infer_format};

use crate::device::Device;
use amdgpu_core::executable::{Executable, Format};
use amdgpu_ffi::{
    Allocator, BufferUsage, Code, EXECUTABLE_FUNCTION_INVALID, HalObject, HalRef, Header, MemoryAccess, MemoryType,
    Out, Result, WeakDevice, lists, object, raw, status, strings, thunk, vtable,
};
use amdgpu_gpu::Gpu;
use amdgpu_memory::buffer::{DeviceBuffer, Memory, Storage};
use amdgpu_profile::Profiler;

/// `iree_hal_executable_t` of this driver.
#[repr(C)]
pub struct DeviceExecutable {
    header: Header,
    host_allocator: Allocator,
    loaded: Executable,
    device: WeakDevice,
}

// SAFETY: repr(C), the header is first, VTABLE is used here only.
unsafe impl HalObject for DeviceExecutable {
    type Raw = raw::iree_hal_executable_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.host_allocator
    }
}

static VTABLE: raw::iree_hal_executable_vtable_t = raw::iree_hal_executable_vtable_t {
    destroy: thunk::destroy::<DeviceExecutable, _>(),
    function_count: thunk::method(|executable: &DeviceExecutable| executable.loaded.functions().len()),
    function_info: thunk::method(DeviceExecutable::function_info),
    function_parameters: thunk::method(DeviceExecutable::function_parameters),
    lookup_function_by_name: thunk::method(DeviceExecutable::lookup_function_by_name),
    lookup_global_by_name: thunk::method(DeviceExecutable::lookup_global_by_name),
};

impl DeviceExecutable {
    /// Code of the executable on the GPUs.
    pub fn loaded(&self) -> &Executable {
        &self.loaded
    }

    fn function(&self, function: raw::iree_hal_executable_function_t) -> Result<&Function> {
        self.loaded.function(function.value)
    }

    fn function_info(
        &self,
        function: raw::iree_hal_executable_function_t,
        out: Out<'_, raw::iree_hal_executable_function_info_t>,
    ) -> Result<()> {
        let function = self.function(function)?;
        let flags = if function.dynamic_workgroup_size {
            raw::IREE_HAL_EXECUTABLE_FUNCTION_FLAG_WORKGROUP_SIZE_DYNAMIC
        } else {
            raw::IREE_HAL_EXECUTABLE_FUNCTION_FLAG_NONE
        };
        out.set(raw::iree_hal_executable_function_info_t {
            name: strings::view(&function.name),
            flags: flags.into(),
            constant_count: function.constant_count,
            binding_count: function.binding_count,
            parameter_count: u16::try_from(function.parameters.len()).unwrap_or(u16::MAX),
            workgroup_size: function.workgroup_size,
            occupancy_info: raw::iree_hal_occupancy_info_t { reserved: 0 },
        });
        Ok(())
    }

    fn function_parameters(
        &self,
        function: raw::iree_hal_executable_function_t,
        capacity: usize,
        out: *mut raw::iree_hal_executable_function_parameter_t,
    ) -> Result<()> {
        let function = self.function(function)?;
        if capacity > 0 && out.is_null() {
            return Err(status!(INVALID_ARGUMENT, "no room for {capacity} parameters"));
        }
        for (index, parameter) in function.parameters.iter().take(capacity).enumerate() {
            let kind = match parameter.kind {
                ParameterKind::Constant => raw::IREE_HAL_EXECUTABLE_FUNCTION_PARAMETER_TYPE_CONSTANT,
                ParameterKind::Binding => raw::IREE_HAL_EXECUTABLE_FUNCTION_PARAMETER_TYPE_BINDING,
            };
            let entry = raw::iree_hal_executable_function_parameter_t {
                type_: kind as u8,
                size: parameter.size,
                flags: 0,
                name: strings::view(&parameter.name),
                offset: parameter.offset,
            };
            // SAFETY: the caller has room for `capacity` entries.
            unsafe { out.add(index).write(entry) };
        }
        Ok(())
    }

    fn lookup_function_by_name(
        &self,
        name: Cow<'_, str>,
        out: Out<'_, raw::iree_hal_executable_function_t>,
    ) -> Result<()> {
        let found = self.loaded.lookup(&name);
        let value = found.as_ref().copied().unwrap_or(EXECUTABLE_FUNCTION_INVALID);
        out.set(raw::iree_hal_executable_function_t { value });
        found.map(|_| ())
    }

    /// The variable of the GPU that `affinity` selects, as a buffer that keeps the executable alive.
    fn lookup_global_by_name(
        &self,
        name: Cow<'_, str>,
        affinity: u64,
        out: Out<'_, *mut raw::iree_hal_buffer_t>,
    ) -> Result<()> {
        let device = self.device.upgrade().ok_or_else(|| {
            status!(FAILED_PRECONDITION, "looking up the global '{name}' of an executable whose device was destroyed")
        })?;
        let device = device.borrow().downcast::<Device>();
        let device = device.ok_or_else(|| status!(INTERNAL, "the executable's device is not of this driver"))?;
        let logical = device.logical();
        let gpu = logical.select_gpu(affinity)?;
        let variable = self.loaded.variable(&name, gpu.index())?;
        let placement = raw::iree_hal_buffer_placement_t {
            device: device.as_raw(),
            queue_affinity: logical.canonical_affinity(affinity)? & logical.gpu_mask(gpu.index()),
            flags: 0,
            reserved: 0,
        };
        let params = raw::iree_hal_buffer_params_t {
            usage: BufferUsage::DEFAULT.bits(),
            access: (MemoryAccess::READ | MemoryAccess::WRITE).bits(),
            type_: MemoryType::DEVICE_LOCAL.bits(),
            queue_affinity: placement.queue_affinity,
            min_alignment: 0,
        };
        let size = variable.size as usize;
        let storage = Storage {
            device: variable.address,
            host: std::ptr::null_mut(),
            flush: None,
            coherent: None,
            // The runtime's loader gives no other agent access.
            access: device.heaps().access_of(&[gpu.agent().handle()]),
            memory: Memory::Borrowed,
        };
        let keep = object::retain(self);
        let release =
            raw::iree_hal_buffer_release_callback_t { fn_: Some(release_executable), user_data: keep.as_ptr().cast() };
        let blocks = DeviceBuffer::blocks(self.host_allocator);
        out.give(DeviceBuffer::create(&blocks, placement, &params, size, storage, release, None)?);
        // The buffer's from here on.
        std::mem::forget(keep);
        Ok(())
    }
}

/// Releases the executable `user_data` at the end of a buffer over one of its globals.
unsafe extern "C" fn release_executable(user_data: *mut c_void, _buffer: *mut raw::iree_hal_buffer_t) {
    // SAFETY: the reference that the buffer was made with.
    drop(unsafe { HalRef::from_owned(user_data.cast::<DeviceExecutable>()) });
}

/// The bytes of an executable. If the span's length is 0, the length is read from the executable's headers.
///
/// # Safety
/// The span is valid for `'a`. If its length is 0 and its pointer not null, it points to a whole executable.
unsafe fn bytes_of_executable<'a>(span: raw::iree_const_byte_span_t) -> code_object::Result<&'a [u8]> {
    let mut length = span.data_length;
    let exact = length > 0 || span.data.is_null();
    loop {
        // SAFETY: the caller's contract; a probe asks for no byte that a whole executable does not have.
        let bytes = unsafe { lists::slice(span.data, length) };
        if exact {
            return Ok(bytes);
        }
        match code_object::probe_size(bytes)? {
            // SAFETY: the caller's contract; the probe has read `size` in the executable's own header.
            SizeProbe::Size(size) => return Ok(unsafe { lists::slice(span.data, size as usize) }),
            SizeProbe::NeedPrefix(size) => length = size as usize,
        }
    }
}

/// `iree_hal_executable_cache_t` of this driver.
#[repr(C)]
pub struct ExecutableCache {
    header: Header,
    host_allocator: Allocator,
    gpus: Vec<Arc<Gpu>>,
    /// The affinity bits of each GPU's queues.
    queues: Vec<u64>,
    profiler: Arc<Profiler>,
    device: WeakDevice,
}

// SAFETY: repr(C), the header is first, CACHE_VTABLE is used here only.
unsafe impl HalObject for ExecutableCache {
    type Raw = raw::iree_hal_executable_cache_t;

    fn vtable() -> *const c_void {
        (&raw const CACHE_VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.host_allocator
    }
}

static CACHE_VTABLE: raw::iree_hal_executable_cache_vtable_t = raw::iree_hal_executable_cache_vtable_t {
    destroy: thunk::destroy::<ExecutableCache, _>(),
    infer_format: thunk::method(ExecutableCache::infer_format),
    can_prepare_format: thunk::method(ExecutableCache::can_prepare_format),
    prepare_executable: thunk::method(ExecutableCache::prepare_executable),
    ..vtable::empty()
};

impl ExecutableCache {
    /// A cache for executables of `device`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn create(host_allocator: Allocator, device: &Device) -> Result<HalRef<Self>> {
        let logical = device.logical();
        let (gpus, profiler) = (logical.gpus().to_vec(), logical.profiler().clone());
        let queues = (0..gpus.len()).map(|gpu| logical.gpu_mask(gpu)).collect();
        HalRef::new(Self {
            header: Header::new::<Self>(),
            host_allocator,
            gpus,
            queues,
            profiler,
            device: device.weak(),
        })
    }

    fn infer_format(
        &self,
        _caching_mode: u32,
        data: raw::iree_const_byte_span_t,
        capacity: usize,
        out_format: *mut c_char,
        out_size: Out<'_, usize>,
    ) -> Result<()> {
        let bad = |error| match error {
            // It says so itself.
            code_object::Error::UnknownFormat { .. } => status!(INCOMPATIBLE, "{error}"),
            error => status!(INCOMPATIBLE, "not an AMDGPU executable: {error}"),
        };
        // SAFETY: the caller's data; a length of 0 with a pointer says that the data is whole but its length unknown.
        let data = unsafe { bytes_of_executable(data) }.map_err(bad)?;
        let inferred = infer_format(data).map_err(bad)?;
        let format = Format::of(inferred.container, inferred.target).to_string();
        if format.len() >= capacity || out_format.is_null() {
            return Err(status!(OUT_OF_RANGE, "the format '{format}' does not fit {capacity} bytes"));
        }
        // SAFETY: the caller's buffer has `capacity` bytes, more than the text and its end.
        unsafe {
            std::ptr::copy_nonoverlapping(format.as_ptr(), out_format.cast(), format.len());
            out_format.add(format.len()).write(0);
        }
        out_size.set(inferred.size as usize);
        Ok(())
    }

    /// The GPUs that have queues of `affinity`, as bits of their indices; all for 0 and ANY.
    fn gpus_of(&self, affinity: u64) -> Result<u64> {
        let affinity = if affinity == 0 { u64::MAX } else { affinity };
        let bits = self.queues.iter().enumerate().map(|(gpu, queues)| u64::from(queues & affinity != 0) << gpu);
        match bits.fold(0, |gpus, bit| gpus | bit) {
            0 => Err(status!(INVALID_ARGUMENT, "queue affinity {affinity:#x} names none of the device's queues")),
            gpus => Ok(gpus),
        }
    }

    fn can_prepare_format(&self, _caching_mode: u32, format: Cow<'_, str>) -> bool {
        Format::parse(&format).is_some_and(|format| self.gpus.iter().all(|gpu| format.runs_on(gpu)))
    }

    fn prepare_executable(
        &self,
        params: *const raw::iree_hal_executable_params_t,
        out: Out<'_, *mut raw::iree_hal_executable_t>,
    ) -> Result<()> {
        // SAFETY: null, or valid during the call.
        let params = unsafe { params.as_ref() }.ok_or_else(|| amdgpu_ffi::Status::from_code(Code::INVALID_ARGUMENT))?;
        if params.constant_count > 0 {
            return Err(status!(
                UNIMPLEMENTED,
                "executable constants (the executable was compiled with {} specialization constants)",
                params.constant_count
            ));
        }
        // SAFETY: the caller's format and data, valid during the call.
        let (format, data) = unsafe {
            let span = params.executable_data;
            (strings::text(params.executable_format), lists::slice(span.data, span.data_length))
        };
        let chosen = self.gpus_of(params.queue_affinity)?;
        let loaded = Executable::load(&self.gpus, chosen, &format, data)?;
        self.profiler.add_executable(loaded.info());
        let (header, device) = (Header::new::<DeviceExecutable>(), self.device.clone());
        out.give(HalRef::new(DeviceExecutable { header, host_allocator: self.host_allocator, loaded, device })?);
        Ok(())
    }
}

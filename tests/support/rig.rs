// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The device of a test, its semaphores and its memory, for the tests in `src/api` (`testing.rs`), too.

pub use amdgpu_hsa::testing::library_path;

// By way of the module around this one, which knows the driver's name.
use super::ffi::{
    Allocator, BufferHandle as BufferRef, FrontierTracker, HalRef, QUEUE_AFFINITY_ANY, Result, SemaphoreRef, iree, raw,
    strings,
};
use super::iree_hal_amdgpu_rs_driver_create;

/// An option and its value.
pub fn pair(key: &str, value: &str) -> raw::iree_string_pair_t {
    raw::iree_string_pair_t {
        __bindgen_anon_1: raw::iree_string_pair_t__bindgen_ty_1 { key: strings::view(key) },
        __bindgen_anon_2: raw::iree_string_pair_t__bindgen_ty_2 { value: strings::view(value) },
    }
}

/// A device in a device group of its own.
pub struct Rig {
    _group: Group,
    /// Knows which epochs of the device's queues have passed.
    pub tracker: FrontierTracker,
    /// Threads for its asynchronous I/O.
    pub proactors: HalRef<raw::iree_async_proactor_pool_t>,
    /// The device.
    pub device: HalRef<raw::iree_hal_device_t>,
}

/// A reference to a device group.
struct Group(*mut raw::iree_hal_device_group_t);

// SAFETY: the group is only held for its release.
unsafe impl Sync for Group {}
// SAFETY: a group is released from any thread.
unsafe impl Send for Group {}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: owned.
        unsafe { raw::iree_hal_device_group_release(self.0) };
    }
}

/// Semaphores and values that an operation waits for or signals.
pub type Points<'a> = &'a [(&'a SemaphoreRef, u64)];

impl Rig {
    /// The default device with default options.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// The default device with `options`.
    pub fn with(options: &[(&str, &str)]) -> Self {
        Self::open("", options).expect("a device on the library to test on (build it with `cargo build -p hsa-sim`)")
    }

    /// The device at `path`.
    pub fn open(path: &str, options: &[(&str, &str)]) -> Result<Self> {
        Self::open_with(Allocator::system().to_raw(), path, options)
    }

    /// The device at `path`, with all host memory from `allocator`.
    pub fn open_with(allocator: raw::iree_allocator_t, path: &str, options: &[(&str, &str)]) -> Result<Self> {
        let library = library_path();
        let library = library.to_str().expect("a path in UTF-8");
        let mut pairs = vec![pair("libhsa_search_path", library)];
        pairs.extend(options.iter().map(|(key, value)| pair(key, value)));
        // SAFETY: valid arguments; each object made is owned at once.
        unsafe {
            let mut driver = std::ptr::null_mut();
            let name = strings::view("amdgpu_rs");
            iree!(iree_hal_amdgpu_rs_driver_create(name, pairs.len(), pairs.as_ptr(), allocator, &raw mut driver))?;
            let driver = HalRef::from_owned(driver).expect("a driver that was made");
            let mut pool = std::ptr::null_mut();
            iree!(raw::iree_async_proactor_pool_create(
                1,
                std::ptr::null(),
                raw::iree_async_proactor_pool_options_default(),
                allocator,
                &raw mut pool
            ))?;
            let pool = HalRef::from_owned(pool).expect("a pool that was made");
            let mut params = raw::iree_hal_device_create_params_default();
            params.proactor_pool = pool.as_ptr();
            let mut device = std::ptr::null_mut();
            iree!(raw::iree_hal_driver_create_device_by_path(
                driver.as_ptr(),
                name,
                strings::view(path),
                0,
                std::ptr::null(),
                &raw const params,
                allocator,
                &raw mut device,
            ))?;
            let device = HalRef::from_owned(device).expect("a device that was made");
            let mut tracker = std::ptr::null_mut();
            let tracker_options = raw::iree_async_frontier_tracker_options_default();
            iree!(raw::iree_async_frontier_tracker_create(tracker_options, allocator, &raw mut tracker))?;
            let tracker = HalRef::from_owned(tracker).expect("a tracker that was made");
            let mut group = std::ptr::null_mut();
            let (device_ptr, tracker_ptr) = (device.as_ptr(), tracker.as_ptr());
            iree!(raw::iree_hal_device_group_create_from_device(device_ptr, tracker_ptr, allocator, &raw mut group))?;
            Ok(Self { _group: Group(group), tracker, proactors: pool, device })
        }
    }

    /// The device's allocator.
    pub fn allocator(&self) -> *mut raw::iree_hal_allocator_t {
        // SAFETY: a live device.
        unsafe { raw::iree_hal_device_allocator(self.device.as_ptr()) }
    }

    /// A semaphore at 0.
    pub fn semaphore(&self) -> SemaphoreRef {
        self.try_semaphore().expect("a semaphore")
    }

    /// As [`Self::semaphore`].
    pub fn try_semaphore(&self) -> Result<SemaphoreRef> {
        let mut semaphore = std::ptr::null_mut();
        let flags = u64::from(raw::IREE_HAL_SEMAPHORE_FLAG_DEFAULT);
        // SAFETY: a live device and a place for the result.
        unsafe {
            let device = self.device.as_ptr();
            iree!(raw::iree_hal_semaphore_create(device, QUEUE_AFFINITY_ANY, 0, flags, &raw mut semaphore))?;
            Ok(HalRef::from_owned(semaphore).expect("a semaphore that was made"))
        }
    }

    /// Memory as `params` ask for it.
    pub fn allocate(&self, params: raw::iree_hal_buffer_params_t, size: usize) -> Result<BufferRef> {
        let mut buffer = std::ptr::null_mut();
        // SAFETY: a live device and a place for the result.
        unsafe {
            iree!(raw::iree_hal_allocator_allocate_buffer(self.allocator(), params, size, &raw mut buffer))?;
            Ok(HalRef::from_owned(buffer).expect("a buffer that was made"))
        }
    }

    /// Allocates memory of `pool`: so many bytes, with `iree_hal_alloca_flags_t` bits.
    pub fn alloca_of(
        &self,
        params: raw::iree_hal_buffer_params_t,
        pool: *mut raw::iree_hal_pool_t,
        affinity: u64,
        (waits, signals): (Points<'_>, Points<'_>),
        (size, flags): (usize, u64),
    ) -> Result<BufferRef> {
        let (waits, signals) = (List::new(waits), List::new(signals));
        let mut buffer = std::ptr::null_mut();
        // SAFETY: live objects.
        unsafe {
            iree!(raw::iree_hal_device_queue_alloca(
                self.device.as_ptr(),
                affinity,
                waits.raw(),
                signals.raw(),
                pool,
                params,
                size,
                flags,
                &raw mut buffer
            ))?;
            Ok(HalRef::from_owned(buffer).expect("a buffer that was made"))
        }
    }

    /// Gives a queue-allocated buffer's memory back.
    pub fn dealloca(&self, affinity: u64, waits: Points<'_>, signals: Points<'_>, buffer: &BufferRef) -> Result<()> {
        let (waits, signals) = (List::new(waits), List::new(signals));
        // SAFETY: live objects.
        unsafe {
            iree!(raw::iree_hal_device_queue_dealloca(
                self.device.as_ptr(),
                affinity,
                waits.raw(),
                signals.raw(),
                buffer.as_ptr(),
                0
            ))
        }
    }

    /// Does nothing on the queue but wait and signal.
    pub fn barrier(&self, affinity: u64, waits: Points<'_>, signals: Points<'_>) -> Result<()> {
        let (waits, signals) = (List::new(waits), List::new(signals));
        // SAFETY: live objects.
        unsafe {
            iree!(raw::iree_hal_device_queue_barrier(self.device.as_ptr(), affinity, waits.raw(), signals.raw(), 0))
        }
    }
}

/// A request for memory of the types and for the usage that the bits name.
pub fn params(memory_type: u32, usage: u32) -> raw::iree_hal_buffer_params_t {
    raw::iree_hal_buffer_params_t { usage, access: 0, type_: memory_type, queue_affinity: 0, min_alignment: 0 }
}

/// Fills all of a mappable buffer from the host.
pub fn map_fill(buffer: &BufferRef, value: u8) -> Result<()> {
    // SAFETY: the buffer and the pattern live.
    unsafe { iree!(raw::iree_hal_buffer_map_fill(buffer.as_ptr(), 0, usize::MAX, (&raw const value).cast(), 1)) }
}

/// Reads `length` bytes of a mappable buffer from `offset` on.
pub fn map_read(buffer: &BufferRef, offset: usize, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    // SAFETY: the buffer lives, and the target has this many bytes.
    unsafe { iree!(raw::iree_hal_buffer_map_read(buffer.as_ptr(), offset, bytes.as_mut_ptr().cast(), length)) }?;
    Ok(bytes)
}

/// Waits without limit.
pub fn wait(semaphore: &SemaphoreRef, value: u64) -> Result<()> {
    // SAFETY: a live semaphore.
    unsafe { iree!(raw::iree_hal_semaphore_wait(semaphore.as_ptr(), value, raw::iree_infinite_timeout(), 0)) }
}

/// A semaphore list for one call.
pub struct List(Vec<*mut raw::iree_hal_semaphore_t>, Vec<u64>);

impl List {
    /// The list of `points`.
    pub fn new(points: Points<'_>) -> Self {
        Self(
            points.iter().map(|(semaphore, _)| semaphore.as_ptr()).collect(),
            points.iter().map(|(_, value)| *value).collect(),
        )
    }

    /// As C takes it, while this and the semaphores live.
    pub fn raw(&self) -> raw::iree_hal_semaphore_list_t {
        raw::iree_hal_semaphore_list_t {
            count: self.0.len(),
            semaphores: self.0.as_ptr().cast_mut(),
            payload_values: self.1.as_ptr().cast_mut(),
        }
    }
}

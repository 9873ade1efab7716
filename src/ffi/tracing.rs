// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! IREE's tracing (`iree/base/tracing.h`): zones, streams of memory, messages and thread names.
//!
//! Only builds of IREE with tracing (`-DIREE_ENABLE_RUNTIME_TRACING=ON`) trace. `build.rs` finds the setting in IREE's
//! headers and sets `cfg(iree_tracing)`. Elsewhere every function here is empty, and a [`Zone`] has no bytes and no
//! drop. Neither leaves an instruction.

/// A span of the calling thread's time, from its creation to its drop, nested in the enclosing zones.
#[must_use = "a zone ends when it is dropped"]
#[derive(Debug)]
pub struct Zone {
    #[cfg(iree_tracing)]
    id: u32,
    /// Zones end on the thread that began them.
    _thread: core::marker::PhantomData<*const ()>,
}

/// Begins a zone for a step of the driver, at the source line of the call, to the end of the block.
#[macro_export]
macro_rules! zone {
    ($name:literal) => {
        let _zone = $crate::tracing::Zone::begin($name, file!(), line!());
    };
}

/// True if the trace has rows for devices ([`GpuContext`]): Tracy's does, that of IREE's console provider does not.
/// `build.rs` detects this as above and sets `cfg(iree_device_tracing)`.
pub const TRACES_DEVICES: bool = cfg!(iree_device_tracing);

/// The kind of memory that a stream reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Buffers of the device's allocator.
    Buffers,
    /// Slabs of pools.
    Slabs,
}

#[cfg(not(iree_tracing))]
mod provider {
    use super::{Stream, Zone};

    impl Zone {
        /// Begins a zone `name` of a place in the sources.
        #[inline(always)]
        pub fn begin(_name: &'static str, _file: &'static str, _line: u32) -> Self {
            Self { _thread: core::marker::PhantomData }
        }

        /// Begins the zone of a call of `F`, the function behind a slot of the vtable of `T`.
        #[inline(always)]
        pub fn of_slot<T, F>() -> Self {
            Self { _thread: core::marker::PhantomData }
        }

        /// Begins the zone of the end of a `T`.
        #[inline(always)]
        pub fn of_destroy<T>() -> Self {
            Self { _thread: core::marker::PhantomData }
        }
    }

    /// Reports an allocation of memory of `stream`.
    #[inline(always)]
    pub fn allocated(_stream: Stream, _address: *mut u8, _size: usize) {}

    /// Reports memory of `stream` that is freed.
    #[inline(always)]
    pub fn freed(_stream: Stream, _address: *mut u8) {}

    /// Puts a message into the trace.
    #[inline(always)]
    pub fn message(_text: &str) {}

    /// Names the calling thread.
    #[inline(always)]
    pub fn name_thread(_name: &str) {}
}

#[cfg(iree_tracing)]
mod provider {
    use std::ffi::{CString, c_char, c_int, c_void};

    use super::{Stream, Zone};
    use crate::raw;

    // `tracing.c`.
    unsafe extern "C" {
        fn amdgpu_rs_trace_allocate(is_slab: c_int, address: *mut c_void, size: usize);
        fn amdgpu_rs_trace_free(is_slab: c_int, address: *mut c_void);
        fn amdgpu_rs_trace_message(text: *const c_char, length: usize);
        fn amdgpu_rs_trace_thread_name(name: *const c_char);
    }

    impl Zone {
        /// Begins a zone `name` of a place in the sources.
        pub fn begin(name: &str, file: &'static str, line: u32) -> Self {
            let (file, name) = (file.as_bytes(), name.as_bytes());
            // SAFETY: texts of the stated lengths, which the provider copies.
            let id = unsafe {
                raw::iree_tracing_zone_begin_external_impl(
                    file.as_ptr().cast(),
                    file.len(),
                    line,
                    name.as_ptr().cast(),
                    name.len(),
                    name.as_ptr().cast(),
                    name.len(),
                )
            };
            Self { id, _thread: core::marker::PhantomData }
        }

        /// Begins the zone of a call of `F`, the function behind a slot of the vtable of `T`.
        pub fn of_slot<T, F>() -> Self {
            Self::joined(core::any::type_name::<T>(), core::any::type_name::<F>())
        }

        /// Begins the zone of the end of a `T`.
        pub fn of_destroy<T>() -> Self {
            Self::joined(core::any::type_name::<T>(), "destroy")
        }

        /// A zone `Type::function` from two paths. Its name has at most [`LONGEST_NAME`] bytes.
        fn joined(of_type: &str, of_function: &str) -> Self {
            let last = |path: &'_ str| path.rfind("::").map_or(0, |at| at + 2);
            let parts = [&of_type[last(of_type)..], "::", &of_function[last(of_function)..]];
            let (mut name, mut length) = ([0; LONGEST_NAME], 0);
            for (place, byte) in name.iter_mut().zip(parts.iter().flat_map(|part| part.bytes())) {
                *place = byte;
                length += 1;
            }
            // Rust's names may have other characters than ASCII, of which the last may be cut.
            let name = core::str::from_utf8(&name[..length]).unwrap_or("a function");
            Self::begin(name, file!(), line!())
        }
    }

    /// As long as IREE's console provider copies without writing past its buffer.
    const LONGEST_NAME: usize = 64;

    impl Drop for Zone {
        fn drop(&mut self) {
            // SAFETY: a zone that this thread began and that was not ended.
            unsafe { raw::iree_tracing_zone_end(self.id) };
        }
    }

    fn is_slab(stream: Stream) -> c_int {
        c_int::from(stream == Stream::Slabs)
    }

    /// Reports an allocation of memory of `stream`.
    pub fn allocated(stream: Stream, address: *mut u8, size: usize) {
        // SAFETY: the address is a value to the provider.
        unsafe { amdgpu_rs_trace_allocate(is_slab(stream), address.cast(), size) };
    }

    /// Reports memory of `stream` that is freed.
    pub fn freed(stream: Stream, address: *mut u8) {
        // SAFETY: as above.
        unsafe { amdgpu_rs_trace_free(is_slab(stream), address.cast()) };
    }

    /// Puts a message into the trace.
    pub fn message(text: &str) {
        // SAFETY: a text of the stated length, which the provider copies.
        unsafe { amdgpu_rs_trace_message(text.as_ptr().cast(), text.len()) };
    }

    /// Names the calling thread.
    pub fn name_thread(name: &str) {
        let Ok(name) = CString::new(name) else { return };
        // SAFETY: a string that stays: providers keep its address.
        unsafe { amdgpu_rs_trace_thread_name(name.into_raw()) };
    }
}

#[cfg(not(iree_device_tracing))]
mod devices {
    /// A row of the trace for a hardware queue.
    #[derive(Debug)]
    pub struct GpuContext;

    impl GpuContext {
        /// Makes a row `name`.
        #[inline(always)]
        pub fn new(_name: &str, _tick: u64, _frequency: u64) -> Self {
            Self
        }

        /// Adds a zone `name` that lasted from the first tick to the second.
        #[inline(always)]
        pub fn zone(&self, _name: &str, _ticks: (u64, u64)) {}
    }
}

#[cfg(iree_device_tracing)]
mod devices {
    use std::ffi::c_char;
    use std::sync::atomic::{AtomicU16, Ordering};

    use crate::raw;

    /// A row of the trace for a hardware queue. It stays in the trace after its drop.
    #[derive(Debug)]
    pub struct GpuContext {
        id: u8,
        /// The number of the next zone's begin; its end has the one after. Tracy forgets them with the zone's times.
        next_query: AtomicU16,
    }

    impl GpuContext {
        /// Makes a row `name`. Times are ticks of a clock that has `frequency` ticks a second and is at `tick` now. The
        /// trace's own clock is read after that.
        pub fn new(name: &str, tick: u64, frequency: u64) -> Self {
            // SAFETY: a text of the stated length, which the provider copies. A context of this type is bound to no
            // thread.
            let id = unsafe {
                raw::iree_tracing_gpu_context_allocate(
                    raw::IREE_TRACING_GPU_CONTEXT_TYPE_VULKAN,
                    name.as_ptr().cast(),
                    name.len(),
                    false,
                    raw::iree_tracing_time() as u64,
                    tick,
                    (1e9 / frequency as f64) as f32,
                )
            };
            Self { id, next_query: AtomicU16::new(0) }
        }

        /// Adds a zone `name` that lasted from the first tick to the second. Zones of a row are added by one thread at
        /// a time, in the order of their first ticks.
        pub fn zone(&self, name: &str, (start, end): (u64, u64)) {
            let begin = self.next_query.fetch_add(2, Ordering::Relaxed);
            let (text, length): (*const c_char, _) = (name.as_ptr().cast(), name.len());
            // SAFETY: a context of this process, and a text of the stated length, which the provider copies; an empty
            // one is not read.
            unsafe {
                let (file, line) = (c"".as_ptr(), 0);
                raw::iree_tracing_gpu_zone_begin_external(self.id, begin, file, 0, line, text, length, text, length);
                raw::iree_tracing_gpu_zone_end(self.id, begin + 1);
                raw::iree_tracing_gpu_zone_notify(self.id, begin, start as i64);
                raw::iree_tracing_gpu_zone_notify(self.id, begin + 1, end as i64);
            }
        }
    }
}

pub use devices::GpuContext;
pub use provider::{allocated, freed, message, name_thread};

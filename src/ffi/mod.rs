// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The only module that uses the raw bindings of IREE's C API: statuses, reference counts, vtables, lists.
//!
//! # A HAL object
//!
//! ```text
//! use crate::ffi::{Allocator, HalObject, HalRef, Header, Out, Result, raw, thunk, vtable};
//!
//! #[repr(C)]
//! pub struct Event {
//!     header: Header,            // or a C base: raw::iree_hal_buffer_t, ...
//!     host_allocator: Allocator,
//! }
//!
//! // SAFETY: repr(C), the header is first, VTABLE is used here only.
//! unsafe impl HalObject for Event {
//!     type Raw = raw::iree_hal_event_t;
//!     fn vtable() -> *const c_void { (&raw const VTABLE).cast() }
//!     fn host_allocator(&self) -> Allocator { self.host_allocator }
//! }
//!
//! static VTABLE: raw::iree_hal_event_vtable_t = raw::iree_hal_event_vtable_t {
//!     destroy: thunk::destroy::<Event, _>(),
//!     some_slot: thunk::method(Event::some_slot),
//!     ..vtable::empty()          // slots left out are NULL
//! };
//!
//! impl Event {
//!     pub fn create(host_allocator: Allocator) -> Result<HalRef<Self>> {
//!         HalRef::new(Self { header: Header::new::<Self>(), host_allocator })
//!     }
//!     // C: iree_status_t some_slot(event*, affinity, string view, semaphore
//!     //    list, buffer*, event** out)
//!     fn some_slot(
//!         &self,
//!         affinity: u64,                            // plain values as they are
//!         name: Cow<'_, str>,                       // iree_string_view_t
//!         waits: SemaphoreList<'_>,                 // iree_hal_semaphore_list_t
//!         target: Borrowed<'_, raw::iree_hal_buffer_t>,  // null is refused
//!         out: Out<'_, *mut raw::iree_hal_event_t>, // out_* parameters
//!     ) -> Result<()> {
//!         if affinity == 0 {
//!             return Err(status!(INVALID_ARGUMENT, "no queue in affinity {affinity:#x}"));
//!         }
//!         out.give(Event::create(self.host_allocator)?);
//!         Ok(())
//!     }
//! }
//! ```
//!
//! A parameter may also be `&Executable` (an object of this driver; one of another driver is refused),
//! `Option<Borrowed<_>>` (nullable), `&[u8]` (`iree_const_byte_span_t`), `BufferRefs`, `BindingTable`, `Allocator`, a
//! set of flags ([`flags`]; unknown ones are refused), or the raw pointer that C passes. See [`thunk::Argument`] and
//! [`thunk::Return`]; a struct that C passes by value is listed there.
//!
//! A base that C initialises in place, or trailing storage, goes through [`HalRef::new_in_place`]. Slots whose object C
//! types differently (the `async_` part of semaphores, `const` receivers) need nothing special.
//!
//! # Errors
//!
//! `status!(CODE, "format", ...)` makes one; `Result<T>` carries it; `?` passes it up; `.annotate(|| "while ...")` adds
//! context. A call into IREE: `unsafe { iree!(raw::iree_hal_...(...)) }?`. A status is freed by its drop, given to C by
//! [`Status::into_raw`], and shared by `clone`.
//!
//! # References
//!
//! [`HalRef<T>`] owns one count, whether `T` is a driver object or one of IREE's (`HalRef<raw::iree_hal_buffer_t>`).
//! [`Borrowed`] is what a call lends: `.retain()` to keep it, `.downcast::<Buffer>()` to see behind it.
//!
//! # Callbacks without a vtable
//!
//! Thread entries, timepoints and proactor completions wrap their body in [`thunk::catch`].

pub mod allocator;
pub mod blocks;
pub mod constants;
pub mod device;
pub mod fallible;
pub mod file;
pub mod flags;
pub mod frontier;
pub mod host_call;
pub mod lists;
pub mod messages;
pub mod object;
pub mod pool;
pub mod profile;
pub mod raw;
pub mod resource;
pub mod semaphore;
pub mod statistics;
pub mod status;
pub mod strings;
pub mod thread;
pub mod thunk;
mod tlsf;
pub mod topology;
pub mod tracing;
pub mod vtable;
pub mod weak;

pub use allocator::Allocator;
pub use blocks::{Blocks, Home};
pub use constants::*;
pub use fallible::Fallible;
pub use flags::{
    AccessScopes, AllocaFlags, BufferUsage, CommandBufferMode, CommandCategories, CopyFlags, DeallocaFlags,
    DispatchFlags, EventFlags, ExecuteFlags, ExecutionBarrierFlags, ExecutionStages, ExternalBufferFlags,
    ExternalFileFlags, FillFlags, HostCallFlags, MemoryAccess, MemoryType, PlacementFlags, ReadFlags, SemaphoreFlags,
    UpdateFlags, WaitFlags, WriteFlags,
};
pub use frontier::{FRONTIER_CAPACITY, Frontier, FrontierTracker};
/// A reference to a buffer of any kind.
pub type BufferHandle = HalRef<raw::iree_hal_buffer_t>;

/// C types of objects.
pub use raw::{
    iree_hal_buffer_t as RawBuffer, iree_hal_command_buffer_t as RawCommandBuffer, iree_hal_device_t as RawDevice,
    iree_hal_executable_t as RawExecutable, iree_hal_semaphore_t as RawSemaphore,
};

/// The requested properties of a buffer (`iree/hal/buffer.h`).
pub type BufferParams = raw::iree_hal_buffer_params_t;

/// The device and queues that a buffer is allocated for (`iree/hal/buffer.h`).
pub type BufferPlacement = raw::iree_hal_buffer_placement_t;

/// A proactor of IREE, kept alive by the caller.
pub type ProactorPtr = *mut raw::iree_async_proactor_t;

pub use lists::{
    Binding, BindingTable, Buffer, BufferRef, BufferRefs, Out, RetainedBufferRefs, Semaphore, SemaphoreList,
};
pub use object::{Borrowed, Counted, HalObject, HalRef, Header, Held, retain};
pub use resource::{HalResource, Resource};
pub use semaphore::{Listener, SemaphoreRef, Timepoint};
pub use status::{Annotate, Code, Result, Status};
pub use weak::{DeviceAnchor, WeakDevice};

pub use crate::{iree, status, zone};

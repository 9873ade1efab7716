// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! IREE's C API made safe: its raw bindings, statuses, reference counts, vtables, lists.
//!
//! # A HAL object
//!
//! A `#[repr(C)]` struct with a [`Header`] as its first field, or a C base such as `raw::iree_hal_buffer_t`; an
//! implementation of [`HalObject`]; and a static vtable. `api/event.rs` is the smallest. [`thunk::method`] makes a slot
//! of the vtable from a method, and [`thunk::destroy`] the slot `destroy`; `..vtable::empty()` leaves the others NULL.
//! The method's parameters stand for these of C:
//!
//! | parameter | of C |
//! |---|---|
//! | a number, a `bool`, a raw pointer | itself |
//! | a set of flags ([`flags`]) | its bits; unknown ones are refused |
//! | [`Allocator`] | `iree_allocator_t` |
//! | `Cow<'_, str>` | `iree_string_view_t` |
//! | `&[u8]` | `iree_const_byte_span_t` |
//! | [`SemaphoreList`], [`BufferRefs`], [`BindingTable`] | the list, by value |
//! | [`Borrowed`] | an object; null is refused |
//! | `Option<Borrowed<_>>` | an object or null |
//! | `&Executable` and other objects of this driver | an object; another driver's is refused |
//! | [`Out`] | a place for a result, written by [`Out::give`] |
//!
//! [`thunk::Argument`] and [`thunk::Return`] have the whole list, with the structs that C passes by value.
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
//! [`Borrowed`] is a reference that a call lends: `.retain()` to keep it, `.downcast::<Buffer>()` to see behind it.
//!
//! # Callbacks without a vtable
//!
//! Thread entries, timepoints and proactor completions wrap their body in [`thunk::catch`].

// Messages go out through `messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

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

// Links it.
#[cfg(feature = "standalone")]
use iree_runtime as _;

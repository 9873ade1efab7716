// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Objects with IREE's intrusive reference count: the driver's own ([`HalObject`]) and those passed to it
//! ([`Borrowed`]), both retained by [`HalRef`].
//!
//! Every counted object of IREE begins with a 32-bit count and, 8 bytes in, a vtable pointer (`iree/hal/resource.h`;
//! semaphores and slab providers spell out the same two fields). The type of an object is the address of its vtable.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicI32, Ordering};

use super::allocator::{Allocator, MAX_ALIGNMENT};
use super::raw;
use super::status::Result;
use super::{Blocks, Home};

/// The two words every counted object begins with. The first field of a
/// driver object, unless that is a larger C base that begins with them.
#[repr(transparent)]
pub struct Header(raw::iree_hal_resource_t);

// SAFETY: the count is only used atomically, the vtable is a static.
unsafe impl Send for Header {}
// SAFETY: through `&self` the count is only used atomically, and the vtable only read.
unsafe impl Sync for Header {}

impl Header {
    /// A count of one and the vtable of `T`.
    pub fn new<T: HalObject>() -> Self {
        Self(raw::iree_hal_resource_t { ref_count: 1, vtable: T::vtable() })
    }
}

/// An object that the driver defines and IREE calls through a vtable.
///
/// # Safety
/// The type is `repr(C)` and begins with [`Header`] or with the C base struct that `Raw` names (`iree_hal_buffer_t`,
/// `iree_hal_command_buffer_t`, `iree_async_semaphore_t`, ...), initialised with [`HalObject::vtable`]. Nothing else
/// uses that vtable. Instances are only made by [`HalRef::new`], [`HalRef::new_in_place`] and [`HalRef::new_in_block`].
pub unsafe trait HalObject: Sized + Send + Sync + 'static {
    /// The C type of the object.
    type Raw;

    /// The address of the object's static vtable.
    fn vtable() -> *const c_void;

    /// The allocator the object was created with; it also frees it.
    fn host_allocator(&self) -> Allocator;

    /// The home of the object's memory, if it was made by [`HalRef::new_in_block`]. The object's drop does not drop it:
    /// [`destroy`] does.
    fn home(&self) -> Option<&ManuallyDrop<Home>> {
        None
    }

    /// Called when a call into the object panicked. Its state may be half changed, so that objects that can must refuse
    /// further work.
    fn poison(&self, _message: &str) {}
}

/// A type with IREE's reference count.
///
/// # Safety
/// `retain` adds a reference, `release` drops one and destroys the object
/// with the last; both are callable from any thread.
pub unsafe trait Counted {
    /// Adds a reference.
    ///
    /// # Safety
    /// `this` is alive.
    unsafe fn retain(this: NonNull<Self>);

    /// Drops a reference.
    ///
    /// # Safety
    /// The caller owns one and does not use it again.
    unsafe fn release(this: NonNull<Self>);
}

/// The count of an object.
///
/// # Safety
/// `object` points to an object that begins with IREE's count and lives for `'a`.
unsafe fn count<'a>(object: NonNull<c_void>) -> &'a AtomicI32 {
    // SAFETY: the count is the first field and is only accessed atomically.
    unsafe { AtomicI32::from_ptr(object.as_ptr().cast()) }
}

/// Adds a reference to any object that begins with IREE's count.
///
/// # Safety
/// `object` is such an object and alive.
unsafe fn retain_counted(object: NonNull<c_void>) {
    // SAFETY: the caller's contract. Relaxed as in IREE: the caller already holds a reference.
    unsafe { count(object) }.fetch_add(1, Ordering::Relaxed);
}

/// The slot that the last release calls, first in every vtable: `destroy`, or `recycle` for buffers.
type DestroySlot = unsafe extern "C" fn(*mut c_void);

// SAFETY: the count at offset 0 and the slot that IREE's own release calls.
unsafe impl<T: HalObject> Counted for T {
    #[inline]
    unsafe fn retain(this: NonNull<Self>) {
        // SAFETY: the object is alive (`Counted::retain`).
        unsafe { retain_counted(this.cast()) }
    }

    #[inline]
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: the caller owns a reference, so the object is alive. Acquire and release as in IREE, whose releases
        // this one's may meet: a fence for the last reference alone would do, but ThreadSanitizer sees none.
        if unsafe { count(this.cast()) }.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // SAFETY: the vtable is a static of this type whose first slot, never null, takes the object.
        unsafe {
            let slot = T::vtable().cast::<DestroySlot>().read();
            slot(this.as_ptr().cast());
        }
    }
}

macro_rules! counted {
    ($($type:ident: $retain:ident, $release:ident;)*) => {$(
        // SAFETY: IREE's own functions for the type.
        unsafe impl Counted for raw::$type {
            #[inline]
            unsafe fn retain(this: NonNull<Self>) {
                // SAFETY: the object is alive (`Counted::retain`).
                unsafe { raw::$retain(this.as_ptr()) }
            }

            #[inline]
            unsafe fn release(this: NonNull<Self>) {
                // SAFETY: the caller owns the reference that goes (`Counted::release`).
                unsafe { raw::$release(this.as_ptr()) }
            }
        }
    )*};
    // The same, with the retain in Rust: the hot ones.
    ($($type:ident: $release:ident;)*) => {$(
        // SAFETY: the type begins with IREE's count, and its own release.
        unsafe impl Counted for raw::$type {
            #[inline]
            unsafe fn retain(this: NonNull<Self>) {
                // SAFETY: the object is alive (`Counted::retain`).
                unsafe { retain_counted(this.cast()) }
            }

            #[inline]
            unsafe fn release(this: NonNull<Self>) {
                // SAFETY: the caller owns the reference that goes (`Counted::release`).
                unsafe { raw::$release(this.as_ptr()) }
            }
        }
    )*};
}

counted! {
    iree_hal_allocator_t: iree_hal_allocator_release;
    iree_hal_buffer_t: iree_hal_buffer_release;
    iree_hal_channel_provider_t: iree_hal_channel_provider_release;
    iree_hal_command_buffer_t: iree_hal_command_buffer_release;
    iree_hal_device_t: iree_hal_device_release;
    iree_hal_driver_t: iree_hal_driver_release;
    iree_hal_executable_t: iree_hal_executable_release;
    iree_hal_executable_cache_t: iree_hal_executable_cache_release;
    iree_hal_file_t: iree_hal_file_release;
    iree_hal_semaphore_t: iree_hal_semaphore_release;
    iree_async_semaphore_t: iree_async_semaphore_release;
}

counted! {
    iree_async_event_t: iree_async_event_retain, iree_async_event_release;
    iree_async_file_t: iree_async_file_retain, iree_async_file_release;
    iree_async_frontier_tracker_t:
        iree_async_frontier_tracker_retain, iree_async_frontier_tracker_release;
    iree_async_notification_t:
        iree_async_notification_retain, iree_async_notification_release;
    iree_async_proactor_t: iree_async_proactor_retain, iree_async_proactor_release;
    iree_async_proactor_pool_t:
        iree_async_proactor_pool_retain, iree_async_proactor_pool_release;
    iree_hal_fence_t: iree_hal_fence_retain, iree_hal_fence_release;
    iree_hal_pool_t: iree_hal_pool_retain, iree_hal_pool_release;
    iree_hal_profile_sink_t: iree_hal_profile_sink_retain, iree_hal_profile_sink_release;
    iree_hal_slab_provider_t:
        iree_hal_slab_provider_retain, iree_hal_slab_provider_release;
    iree_io_file_handle_t: iree_io_file_handle_retain, iree_io_file_handle_release;
}

// For programs that run modules.
#[cfg(feature = "standalone")]
counted! {
    iree_hal_buffer_view_t: iree_hal_buffer_view_retain, iree_hal_buffer_view_release;
    iree_runtime_instance_t: iree_runtime_instance_retain, iree_runtime_instance_release;
    iree_runtime_session_t: iree_runtime_session_retain, iree_runtime_session_release;
}

/// An owned reference to a counted object: released on drop.
///
/// For a driver object it dereferences to the object; for one of IREE's it has the pointer for C calls.
pub struct HalRef<T: Counted>(NonNull<T>);

// SAFETY: counted objects of IREE may be used and released from any thread;
// driver objects are Send and Sync by their trait.
unsafe impl<T: Counted> Send for HalRef<T> {}
// SAFETY: several threads may use a counted object of IREE at once; driver objects are Sync by their trait.
unsafe impl<T: Counted> Sync for HalRef<T> {}

impl<T: Counted> HalRef<T> {
    /// Takes over a reference that the caller owns; none for null.
    ///
    /// # Safety
    /// `pointer` is null or a live object of which the caller owns a reference.
    pub unsafe fn from_owned(pointer: *mut T) -> Option<Self> {
        NonNull::new(pointer).map(Self)
    }

    /// Adds a reference; none for null.
    ///
    /// # Safety
    /// `pointer` is null or a live object.
    pub unsafe fn retain(pointer: *mut T) -> Option<Self> {
        let pointer = NonNull::new(pointer)?;
        // SAFETY: the caller's contract.
        unsafe { T::retain(pointer) };
        Some(Self(pointer))
    }

    /// The pointer, without its reference.
    pub fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// The pointer with its reference: the receiver releases it.
    pub fn into_ptr(self) -> *mut T {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// A borrow that does not change the count.
    pub fn borrow(&self) -> Borrowed<'_, T> {
        Borrowed(self.0, PhantomData)
    }
}

impl<T: Counted> Clone for HalRef<T> {
    fn clone(&self) -> Self {
        // SAFETY: alive, as this reference is held.
        unsafe { T::retain(self.0) };
        Self(self.0)
    }
}

impl<T: Counted> Drop for HalRef<T> {
    fn drop(&mut self) {
        // SAFETY: this reference is owned and not used again.
        unsafe { T::release(self.0) }
    }
}

impl<T: Counted> core::fmt::Debug for HalRef<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}({:p})", core::any::type_name::<T>(), self.0)
    }
}

impl<T: HalObject> HalRef<T> {
    /// Moves an object to memory of its allocator. Returns its only reference.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn new(value: T) -> Result<Self> {
        const { assert!(align_of::<T>() <= MAX_ALIGNMENT) };
        let memory = value.host_allocator().allocate(size_of::<T>())?.cast::<T>();
        // SAFETY: fresh memory of the right size and alignment.
        unsafe { memory.write(value) };
        Ok(Self(memory))
    }

    /// Makes an object in place, for bases that C initialises and for trailing storage of `extra` bytes (directly after
    /// `T`, 16-aligned when `size_of::<T>()` is). The memory is zeroed before `init`.
    ///
    /// # Safety
    /// When `init` returns `Ok` the object is complete, its count one and its [`HalObject::host_allocator`] is
    /// `allocator`; when it fails, nothing that needs dropping is left in the memory.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED or the error of `init`, after which the memory is freed.
    pub unsafe fn new_in_place(
        allocator: Allocator,
        extra: usize,
        init: impl FnOnce(*mut T) -> Result<()>,
    ) -> Result<Self> {
        const { assert!(align_of::<T>() <= MAX_ALIGNMENT) };
        let size = size_of::<T>()
            .checked_add(extra)
            .ok_or_else(|| crate::status!(OUT_OF_RANGE, "object of {extra} trailing bytes"))?;
        let memory = allocator.allocate(size)?.cast::<T>();
        if let Err(status) = init(memory.as_ptr()) {
            // SAFETY: allocated above, and `init` left nothing in it.
            unsafe { allocator.free(memory.cast()) };
            return Err(status);
        }
        Ok(Self(memory))
    }

    /// Makes an object in place, in one of `blocks`, whose contents are undefined. The rest of the block belongs to the
    /// object, too.
    ///
    /// # Safety
    /// `init` initialises the object, with a count of one; its [`HalObject::home`] is the one passed to `init`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    ///
    /// If blocks are shorter than the object.
    /// When blocks are shorter than the object.
    pub unsafe fn new_in_block(blocks: &Blocks, init: impl FnOnce(*mut T, ManuallyDrop<Home>)) -> Result<Self> {
        const { assert!(align_of::<T>() <= MAX_ALIGNMENT) };
        assert!(size_of::<T>() <= blocks.length());
        let (memory, home) = blocks.take()?;
        let memory = memory.cast::<T>();
        init(memory.as_ptr(), ManuallyDrop::new(home));
        Ok(Self(memory))
    }

    /// The C pointer, without its reference.
    pub fn as_raw(&self) -> *mut T::Raw {
        self.0.as_ptr().cast()
    }

    /// The C pointer with its reference: the receiver releases it.
    pub fn into_raw(self) -> *mut T::Raw {
        self.into_ptr().cast()
    }

    /// The reference as one to an object of the C type.
    pub fn into_any(self) -> HalRef<T::Raw>
    where
        T::Raw: Counted,
    {
        HalRef(ManuallyDrop::new(self).0.cast())
    }
}

impl<T: HalObject> Deref for HalRef<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: alive while the reference is held; only shared access.
        unsafe { self.0.as_ref() }
    }
}

/// Retains a borrowed driver object.
pub fn retain<T: HalObject>(object: &T) -> HalRef<T> {
    let pointer = NonNull::from(object);
    // SAFETY: alive, as it is borrowed; instances live only in counted memory.
    unsafe { T::retain(pointer) };
    HalRef(pointer)
}

/// True if an object has the vtable of `T`.
///
/// # Safety
/// `object` is null or begins with a count and a vtable pointer.
pub unsafe fn is<T: HalObject>(object: *const c_void) -> bool {
    // SAFETY: the caller's contract; the vtable field never changes.
    !object.is_null()
        && unsafe { (&raw const (*object.cast::<raw::iree_hal_resource_t>()).vtable).read() } == T::vtable()
}

/// Destroys an object whose last reference is gone: drops it and frees its memory.
///
/// # Safety
/// `object` is a `T` made by [`HalRef`] that nothing refers to any more.
pub unsafe fn destroy<T: HalObject>(object: NonNull<T>) {
    // SAFETY: alive until here; not used after. The home is the object's, which does not drop it, and read once.
    unsafe {
        let home = object.as_ref().home().map(|home| core::ptr::read(home));
        let allocator = object.as_ref().host_allocator();
        object.drop_in_place();
        match home {
            Some(home) => ManuallyDrop::into_inner(home).give(object.cast()),
            None => allocator.free(object.cast()),
        }
    }
}

/// A counted object that is alive for `'a` without a reference of its own, e.g. an argument of a C call.
pub struct Borrowed<'a, T>(NonNull<T>, PhantomData<&'a T>);

// SAFETY: counted objects of IREE may be used from any thread, and this one lives as long as the borrow.
unsafe impl<T: Counted> Send for Borrowed<'_, T> {}
// SAFETY: several threads may use a counted object of IREE at once.
unsafe impl<T: Counted> Sync for Borrowed<'_, T> {}

impl<T> Clone for Borrowed<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Borrowed<'_, T> {}

impl<T> core::fmt::Debug for Borrowed<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}@{:p}", core::any::type_name::<T>(), self.0)
    }
}

impl<'a, T> Borrowed<'a, T> {
    /// Wraps a pointer; none for null.
    ///
    /// # Safety
    /// `pointer` is null or a live object for `'a`.
    pub unsafe fn from_raw(pointer: *mut T) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Self(pointer, PhantomData))
    }

    /// The object at `pointer`.
    ///
    /// # Safety
    /// The object is alive for `'a`.
    #[inline]
    pub unsafe fn new(pointer: NonNull<T>) -> Self {
        Self(pointer, PhantomData)
    }

    /// The pointer for C calls.
    pub fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }

    /// The driver object, if it is a `U`.
    pub fn downcast<U: HalObject>(self) -> Option<&'a U> {
        // SAFETY: counted objects begin with a count and a vtable pointer; the
        // vtable's identity is the type, and the object lives for `'a`.
        unsafe { is::<U>(self.0.as_ptr().cast()).then(|| self.0.cast::<U>().as_ref()) }
    }
}

impl<T: Counted> Borrowed<'_, T> {
    /// An owned reference.
    pub fn retain(self) -> HalRef<T> {
        // SAFETY: alive for the lifetime.
        unsafe { T::retain(self.0) };
        HalRef(self.0)
    }
}

/// A counted object that an operation uses: borrowed during the submitting call, owned if the operation continues
/// later.
pub enum Held<'a, T: Counted> {
    /// The caller keeps it alive.
    Borrowed(Borrowed<'a, T>),
    /// This reference keeps it alive.
    Owned(HalRef<T>),
}

impl<T: Counted> Held<'_, T> {
    /// The object.
    #[inline]
    pub fn borrow(&self) -> Borrowed<'_, T> {
        match self {
            Self::Borrowed(object) => *object,
            Self::Owned(object) => object.borrow(),
        }
    }

    /// The object, retained.
    pub fn into_owned<'b>(self) -> Held<'b, T> {
        Held::Owned(match self {
            Self::Borrowed(object) => object.retain(),
            Self::Owned(object) => object,
        })
    }
}

impl<T: Counted> core::fmt::Debug for Held<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.borrow().fmt(f)
    }
}

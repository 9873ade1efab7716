// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The calls from vtable slots to methods: the only place where C calls into Rust.
//!
//! [`method`] makes the `extern "C"` function of a slot from an associated function `fn(&Object, arguments...) ->
//! Return`. The function checks the object's vtable, converts each argument from C ([`Argument`]), calls the method,
//! converts its result to C ([`Return`]), and stops a panic, which becomes an INTERNAL status (or the return type's
//! neutral value) and poisons the object ([`HalObject::poison`]). The compiler checks the slot's C types against the
//! method's, through [`Argument::C`] and [`Return::C`].

use core::any::Any;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::panic::AssertUnwindSafe;
use core::ptr::{self, NonNull};
use std::borrow::Cow;
use std::panic::catch_unwind;

use super::allocator::Allocator;
use super::lists::{BindingTable, BufferRefs, Out, SemaphoreList, slice};
use super::object::{self, Borrowed, Counted, HalObject};
use super::raw;
use super::status::{self, Result, Status};
use super::strings;
use super::tracing::Zone;

/// A parameter of a method, converted from a C argument.
///
/// # Safety
/// `C` is the parameter's type in the C declaration of the slot.
pub unsafe trait Argument: Sized {
    /// The C type of the argument.
    type C;

    /// Converts the argument. The parameter may refer to `value`: only data that the method reads is copied.
    ///
    /// # Safety
    /// `value` is IREE's argument for this parameter. It and its pointees are alive until the call returns; the
    /// parameter does not outlive it.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a value that the parameter cannot have.
    unsafe fn from_c(value: &Self::C) -> Result<Self>;
}

macro_rules! same_in_c {
    ($($type:ty),* $(,)?) => {$(
        // SAFETY: the type is C's own.
        unsafe impl Argument for $type {
            type C = $type;

            #[inline]
            unsafe fn from_c(value: &Self) -> Result<Self> {
                Ok(*value)
            }
        }
    )*};
}

same_in_c!(
    raw::iree_const_byte_span_t,
    bool,
    u8,
    u16,
    u32,
    u64,
    usize,
    i32,
    i64,
    raw::iree_hal_allocator_memory_heap_t,
    raw::iree_hal_buffer_params_t,
    raw::iree_hal_buffer_ref_t,
    raw::iree_hal_channel_params_t,
    raw::iree_hal_collective_op_t,
    raw::iree_hal_executable_function_t,
    raw::iree_hal_external_timepoint_t,
    raw::iree_hal_host_call_t,
    raw::iree_hal_label_color_t,
    raw::iree_hal_buffer_release_callback_t,
    raw::iree_timeout_t,
);

// SAFETY: pointers are C's own.
unsafe impl<T> Argument for *const T {
    type C = Self;

    #[inline]
    unsafe fn from_c(value: &Self) -> Result<Self> {
        Ok(*value)
    }
}

// SAFETY: a pointer to mutable data is C's own, too.
unsafe impl<T> Argument for *mut T {
    type C = Self;

    #[inline]
    unsafe fn from_c(value: &Self) -> Result<Self> {
        Ok(*value)
    }
}

// SAFETY: transparent around C's type.
unsafe impl Argument for Allocator {
    type C = raw::iree_allocator_t;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        // SAFETY: IREE passes valid allocators.
        Ok(unsafe { Self::from_raw(*value) })
    }
}

// SAFETY: made from C's view.
unsafe impl Argument for Cow<'_, str> {
    type C = raw::iree_string_view_t;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        // SAFETY: the view is valid during the call.
        Ok(unsafe { strings::text(*value) })
    }
}

// SAFETY: made from C's span.
unsafe impl Argument for &[u8] {
    type C = raw::iree_const_byte_span_t;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        // SAFETY: the span is valid during the call.
        Ok(unsafe { slice(value.data, value.data_length) })
    }
}

// SAFETY: made from C's list.
unsafe impl Argument for SemaphoreList<'_> {
    type C = raw::iree_hal_semaphore_list_t;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        // SAFETY: the list is valid during the call, as is the place in which C passes it.
        unsafe { Self::from_raw(&*ptr::from_ref(value)) }
    }
}

// SAFETY: made from C's list.
unsafe impl Argument for BufferRefs<'_> {
    type C = raw::iree_hal_buffer_ref_list_t;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        // SAFETY: the list is valid during the call.
        Ok(unsafe { Self::from_raw(*value) })
    }
}

// SAFETY: made from C's table.
unsafe impl Argument for BindingTable<'_> {
    type C = raw::iree_hal_buffer_binding_table_t;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        // SAFETY: the table is valid during the call.
        Ok(unsafe { Self::from_raw(*value) })
    }
}

// SAFETY: one of IREE's objects, which must be there.
unsafe impl<T: Counted> Argument for Borrowed<'_, T> {
    type C = *mut T;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        // SAFETY: arguments are alive during the call.
        unsafe { Self::from_raw(*value) }.ok_or_else(null_argument)
    }
}

// SAFETY: one of IREE's objects, or null.
unsafe impl<T: Counted> Argument for Option<Borrowed<'_, T>> {
    type C = *mut T;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        // SAFETY: arguments are alive during the call.
        Ok(unsafe { Borrowed::from_raw(*value) })
    }
}

// SAFETY: an object of this driver, by its vtable.
unsafe impl<T: HalObject> Argument for &T {
    type C = *mut T::Raw;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        // SAFETY: IREE passes live objects of `T::Raw`, which begin with count and vtable.
        unsafe { receive::<T>((*value).cast()) }
    }
}

// SAFETY: C's own, where C passes it.
unsafe impl Argument for &raw::iree_hal_dispatch_config_t {
    type C = raw::iree_hal_dispatch_config_t;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        // SAFETY: it lives as long as the call.
        Ok(unsafe { &*ptr::from_ref(value) })
    }
}

// SAFETY: a place for a result.
unsafe impl<T> Argument for Out<'_, T> {
    type C = *mut T;

    #[inline]
    unsafe fn from_c(value: &Self::C) -> Result<Self> {
        let place = NonNull::new(*value).ok_or_else(null_argument)?;
        Ok(Self(place, PhantomData))
    }
}

#[cold]
fn null_argument() -> Status {
    crate::status!(INVALID_ARGUMENT, "a required argument is null")
}

/// A method's result, converted to C.
///
/// # Safety
/// `C` is the return type in the C declaration of the slot.
pub unsafe trait Return: Sized {
    /// The C type of the result.
    type C;

    /// Turns a result to C.
    fn into_c(self) -> Self::C;

    /// The C value for a failure: its status if the slot returns one, otherwise a neutral value.
    fn failed(failure: Status) -> Self::C;
}

// SAFETY: a status.
unsafe impl Return for Result<()> {
    type C = raw::iree_status_t;

    #[inline]
    fn into_c(self) -> Self::C {
        status::into_raw(self)
    }

    #[inline]
    fn failed(failure: Status) -> Self::C {
        failure.into_raw()
    }
}

// SAFETY: transparent around C's type.
unsafe impl Return for Allocator {
    type C = raw::iree_allocator_t;

    #[inline]
    fn into_c(self) -> Self::C {
        self.to_raw()
    }

    #[inline]
    fn failed(_failure: Status) -> Self::C {
        Self::system().to_raw()
    }
}

macro_rules! returns {
    ($($type:ty => $neutral:expr),* $(,)?) => {$(
        // SAFETY: the type is C's own.
        unsafe impl Return for $type {
            type C = $type;

            #[inline]
            fn into_c(self) -> Self {
                self
            }

            #[inline]
            fn failed(_failure: Status) -> Self {
                $neutral
            }
        }
    )*};
}

returns!(
    () => (),
    bool => false,
    u16 => 0,
    u32 => 0,
    u64 => 0,
    usize => 0,
    raw::iree_string_view_t => strings::EMPTY,
);

// SAFETY: pointers are C's own.
unsafe impl<T> Return for *const T {
    type C = Self;

    #[inline]
    fn into_c(self) -> Self {
        self
    }

    #[inline]
    fn failed(_failure: Status) -> Self {
        core::ptr::null()
    }
}

// SAFETY: a pointer to mutable data is C's own, too.
unsafe impl<T> Return for *mut T {
    type C = Self;

    #[inline]
    fn into_c(self) -> Self {
        self
    }

    #[inline]
    fn failed(_failure: Status) -> Self {
        core::ptr::null_mut()
    }
}

/// The pointer to the object of a call from C. The slot declares its pointee; the object is checked by its vtable.
pub trait Receiver: Copy {
    /// The address.
    fn address(self) -> *const c_void;
}

impl<T> Receiver for *mut T {
    fn address(self) -> *const c_void {
        self.cast_const().cast()
    }
}

impl<T> Receiver for *const T {
    fn address(self) -> *const c_void {
        self.cast()
    }
}

/// The driver object of a pointer from C.
///
/// # Safety
/// `object` is null or a live object with count and vtable for `'a`.
unsafe fn receive<'a, T: HalObject>(object: *const c_void) -> Result<&'a T> {
    // SAFETY: the caller's contract.
    if unsafe { object::is::<T>(object) } {
        // SAFETY: the vtable is the type; alive for `'a`.
        return Ok(unsafe { &*object.cast::<T>() });
    }
    Err(crate::status!(
        INVALID_ARGUMENT,
        "object {object:p} was not made by this driver as {}",
        core::any::type_name::<T>()
    ))
}

/// A function that can stand in a vtable slot; made by [`method`].
///
/// `P` is the receiver's pointer type, `T` the object, `M` tells arities apart.
pub trait Method<P, T, M> {
    /// The slot's function pointer.
    type Pointer;
    /// The function.
    const POINTER: Self::Pointer;
}

macro_rules! arity {
    ($($argument:ident $value:ident),*) => {
        impl<P, T, F, R, $($argument),*> Method<P, T, fn($($argument),*) -> R> for F
        where
            P: Receiver,
            T: HalObject,
            F: Fn(&T, $($argument),*) -> R + Copy + 'static,
            R: Return,
            $($argument: Argument,)*
        {
            type Pointer = unsafe extern "C" fn(P, $($argument::C),*) -> R::C;
            const POINTER: Self::Pointer = {
                #[allow(clippy::allow_attributes, clippy::too_many_arguments)]
                unsafe extern "C" fn slot<P, T, F, R, $($argument),*>(
                    this: P, $($value: $argument::C),*
                ) -> R::C
                where
                    P: Receiver,
                    T: HalObject,
                    F: Fn(&T, $($argument),*) -> R + Copy + 'static,
                    R: Return,
                    $($argument: Argument,)*
                {
                    let _zone = Zone::of_slot::<T, F>();
                    // SAFETY: a slot is called with a live object and live arguments of the declared types.
                    guard::<T, R>(this.address(), |object| unsafe {
                        Ok(function::<F>()(object, $($argument::from_c(&$value)?),*))
                    })
                }
                slot::<P, T, F, R, $($argument),*>
            };
        }
    };
}

arity!();
arity!(A a);
arity!(A a, B b);
arity!(A a, B b, C c);
arity!(A a, B b, C c, D d);
arity!(A a, B b, C c, D d, E e);
arity!(A a, B b, C c, D d, E e, G g);
arity!(A a, B b, C c, D d, E e, G g, H h);
arity!(A a, B b, C c, D d, E e, G g, H h, I i);
arity!(A a, B b, C c, D d, E e, G g, H h, I i, J j);
arity!(A a, B b, C c, D d, E e, G g, H h, I i, J j, K k);

/// The value of a function item's type, which has size 0.
///
/// # Safety
/// A value of `F` was once made, as [`method`] requires.
unsafe fn function<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "a slot's method must not capture") };
    // SAFETY: zero bytes at a dangling aligned address; `F` is inhabited.
    unsafe { NonNull::<F>::dangling().read() }
}

/// Calls `call` with the object at `this` and stops its panics.
fn guard<T: HalObject, R: Return>(this: *const c_void, call: impl FnOnce(&T) -> Result<R>) -> R::C {
    // SAFETY: slots are called with live objects, which begin with count and vtable.
    let object = match unsafe { receive::<T>(this) } {
        Ok(object) => object,
        Err(failure) => return R::failed(failure),
    };
    match catch_unwind(AssertUnwindSafe(|| call(object))) {
        Ok(Ok(result)) => result.into_c(),
        Ok(Err(failure)) => R::failed(failure),
        Err(panic) => {
            let message = panic_message(panic);
            // A panic in the hook must not get out either.
            let _ = catch_unwind(AssertUnwindSafe(|| object.poison(&message)));
            R::failed(crate::status!(INTERNAL, "the driver panicked (this is a bug): {message}"))
        }
    }
}

/// The slot for a method. The method is an associated function or a closure
/// that captures nothing; see [the module](self).
pub const fn method<P, T, M, F>(_method: F) -> Option<F::Pointer>
where
    F: Method<P, T, M> + Copy,
{
    Some(F::POINTER)
}

/// The `destroy` slot of a driver object: drops it and frees its memory.
pub const fn destroy<T: HalObject, P: Receiver>() -> Option<unsafe extern "C" fn(P)> {
    unsafe extern "C" fn slot<T: HalObject, P: Receiver>(this: P) {
        let Some(object) = NonNull::new(this.address().cast_mut().cast::<T>()) else {
            return;
        };
        let _zone = Zone::of_destroy::<T>();
        // SAFETY: C calls `destroy` of this vtable once, for an object whose
        // last reference is gone. After a panic in its drop the memory leaks.
        let _ = catch(|| unsafe { object::destroy(object) });
    }
    Some(slot::<T, P>)
}

/// Runs a callback from C that has no vtable (timepoints, proactor
/// completions, threads) and turns a panic into an INTERNAL failure.
///
/// # Errors
/// The panic.
pub fn catch<R>(call: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(call))
        .map_err(|panic| crate::status!(INTERNAL, "the driver panicked (this is a bug): {}", panic_message(panic)))
}

fn panic_message(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => match panic.downcast_ref::<&str>() {
            Some(message) => (*message).to_owned(),
            None => {
                // Dropping an unknown payload can panic in turn.
                core::mem::forget(panic);
                "unknown payload".to_owned()
            }
        },
    }
}

#[cfg(test)]
#[path = "thunk_test.rs"]
mod tests;

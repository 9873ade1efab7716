// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A reference to a device that does not keep it alive, for work that is
//! queued: an application that releases its device cancels work that still waits.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;

use super::object::HalRef;
use super::raw;

type Slot = Mutex<Option<NonNull<raw::iree_hal_device_t>>>;

/// The device's end of its [`WeakDevice`]s: a field of the device, set once the device has its address. Dropped with
/// the device, it ends all of them.
#[derive(Default)]
pub struct DeviceAnchor(Arc<Slot>);

/// A reference to a device that may be gone.
#[derive(Debug, Clone)]
pub struct WeakDevice(Arc<Slot>);

// SAFETY: the pointer is only used under the lock and counted atomically; devices may be used from any thread.
unsafe impl Send for DeviceAnchor {}
// SAFETY: several threads take the lock around each use of the pointer.
unsafe impl Sync for DeviceAnchor {}
// SAFETY: it is an `Arc` of a slot whose pointer is only used under its lock, by devices that any thread may use.
unsafe impl Send for WeakDevice {}
// SAFETY: several threads take the lock around each use of the pointer.
unsafe impl Sync for WeakDevice {}

impl DeviceAnchor {
    /// Sets the address of the device.
    ///
    /// # Safety
    /// The anchor is a field of the device at `device`, or dropped before it is freed.
    pub unsafe fn set(&self, device: *mut raw::iree_hal_device_t) {
        *self.0.lock() = NonNull::new(device);
    }

    /// A reference that does not keep the device alive.
    pub fn weak(&self) -> WeakDevice {
        WeakDevice(self.0.clone())
    }
}

impl Drop for DeviceAnchor {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl WeakDevice {
    /// The device, kept alive; none when its last reference is gone.
    pub fn upgrade(&self) -> Option<HalRef<raw::iree_hal_device_t>> {
        let slot = self.0.lock();
        let device = (*slot)?;
        // SAFETY: the device's memory is there as long as the slot names it: its drop clears the slot, which the lock
        // holds up. The count is the first field of every HAL object.
        let count = unsafe { AtomicI32::from_ptr(device.as_ptr().cast()) };
        // Once the count is zero the device is being destroyed: no way back.
        let retained =
            count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count > 0).then_some(count + 1));
        retained.ok()?;
        // SAFETY: the count just added.
        unsafe { HalRef::from_owned(device.as_ptr()) }
    }
}

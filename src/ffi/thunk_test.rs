// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Thunks and reference counts, through a vtable that C would call.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{Code, HalRef, Header, vtable};

#[repr(C)]
struct Probe {
    header: Header,
    drops: &'static AtomicUsize,
    poisoned: Mutex<Option<String>>,
}

// SAFETY: repr(C), the header first, VTABLE is used here only.
unsafe impl HalObject for Probe {
    type Raw = raw::iree_hal_executable_cache_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        Allocator::system()
    }

    fn poison(&self, message: &str) {
        *self.poisoned.lock().unwrap() = Some(message.to_owned());
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

static VTABLE: raw::iree_hal_executable_cache_vtable_t = raw::iree_hal_executable_cache_vtable_t {
    destroy: destroy::<Probe, _>(),
    infer_format: None,
    can_prepare_format: method(Probe::can_prepare_format),
    prepare_executable: method(Probe::prepare_executable),
};

impl Probe {
    fn create(drops: &'static AtomicUsize) -> HalRef<Self> {
        HalRef::new(Self { header: Header::new::<Self>(), drops, poisoned: Mutex::new(None) }).unwrap()
    }

    fn can_prepare_format(&self, _mode: u32, format: Cow<'_, str>) -> bool {
        assert_ne!(format, "panic", "asked to panic");
        format == "good"
    }

    fn prepare_executable(
        &self,
        params: *const raw::iree_hal_executable_params_t,
        out: Out<'_, *mut raw::iree_hal_executable_t>,
    ) -> Result<()> {
        assert!(!params.is_null(), "no parameters: {}", 42);
        out.set(core::ptr::null_mut());
        Err(crate::status!(UNIMPLEMENTED, "probe"))
    }
}

fn can_prepare(probe: &HalRef<Probe>, format: &str) -> bool {
    let slot = VTABLE.can_prepare_format.unwrap();
    // SAFETY: a live object and a view that borrows `format`.
    unsafe { slot(probe.as_raw(), 0, strings::view(format)) }
}

fn prepare(object: *mut raw::iree_hal_executable_cache_t, params: *const raw::iree_hal_executable_params_t) -> Status {
    let mut out = core::ptr::null_mut();
    // SAFETY: a live object with count and vtable, and a place.
    unsafe { Status::check(VTABLE.prepare_executable.unwrap()(object, params, &raw mut out)) }.unwrap_err()
}

#[test]
fn values_and_statuses_pass() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let probe = Probe::create(&DROPS);
    assert!(can_prepare(&probe, "good"));
    assert!(!can_prepare(&probe, "bad"));
    // SAFETY: the probe never reads them.
    let params: raw::iree_hal_executable_params_t = unsafe { core::mem::zeroed() };
    let status = prepare(probe.as_raw(), &raw const params);
    assert_eq!(status.code(), Code::UNIMPLEMENTED);
    assert!(probe.poisoned.lock().unwrap().is_none());
}

#[test]
fn a_panic_becomes_internal_and_poisons() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let probe = Probe::create(&DROPS);
    let status = prepare(probe.as_raw(), core::ptr::null());
    assert_eq!(status.code(), Code::INTERNAL);
    assert!(status.to_string().contains("no parameters: 42"), "{status}");
    let poisoned = probe.poisoned.lock().unwrap().take().unwrap();
    assert!(poisoned.contains("no parameters: 42"));
    assert!(!can_prepare(&probe, "panic"));
}

#[test]
fn another_vtable_is_refused() {
    static OTHER: raw::iree_hal_executable_cache_vtable_t = vtable::empty();
    let mut stranger = raw::iree_hal_resource_t { ref_count: 1, vtable: (&raw const OTHER).cast() };
    let status = prepare((&raw mut stranger).cast(), core::ptr::null());
    assert_eq!(status.code(), Code::INVALID_ARGUMENT);
    let status = prepare(core::ptr::null_mut(), core::ptr::null());
    assert_eq!(status.code(), Code::INVALID_ARGUMENT);
}

#[test]
fn the_last_release_destroys_from_either_side() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let probe = Probe::create(&DROPS);
    let second = probe.clone();
    let third = object::retain(&*probe);
    drop(probe);
    // SAFETY: the reference is given to C's release.
    unsafe { raw::iree_hal_executable_cache_release(second.into_raw()) };
    assert_eq!(DROPS.load(Ordering::Relaxed), 0);
    // SAFETY: the last reference is given to C's release.
    unsafe { raw::iree_hal_executable_cache_release(third.into_raw()) };
    assert_eq!(DROPS.load(Ordering::Relaxed), 1);
}

#[test]
fn failed_in_place_construction_frees() {
    // SAFETY: the closure fails and leaves nothing behind.
    let failed = unsafe {
        HalRef::<Probe>::new_in_place(Allocator::system(), 64, |_| Err(crate::status!(ABORTED, "not today")))
    };
    assert_eq!(failed.err().unwrap().code(), Code::ABORTED);
}

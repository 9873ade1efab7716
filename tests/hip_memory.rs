// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! HIP's memory as a buffer, and a buffer's memory in a kernel of HIP's, in one process. Only `cargo xtask collectives
//! --engine rccl` runs this, with Debian's HIP on the software GPU: it sets the variable below.

#[path = "support/hold.rs"]
mod hold;
mod support;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use amdgpu_rs::ffi::{HalRef, iree, raw};
use hold::GFX1100;
use support::{BufferRef, Rig, params, wait};

const VARIABLE: &str = "AMDGPU_RS_TEST_HIP";

const SIZE: usize = 10_000;

/// `hipMemcpyDeviceToHost`.
const TO_HOST: c_int = 2;

/// `RTLD_NOW`.
const NOW: c_int = 2;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// HIP's runtime.
struct Hip(*mut c_void);

impl Hip {
    fn load() -> Self {
        // SAFETY: HIP's initialisers are made to run on load.
        let library = unsafe { dlopen(c"libamdhip64.so.5".as_ptr(), NOW) };
        assert!(!library.is_null(), "HIP is in the root of `cargo xtask rocm`");
        Self(library)
    }

    /// The function `name`, of type `F`.
    ///
    /// # Safety
    /// HIP's function of this name has the type `F`.
    unsafe fn get<F: Copy>(&self, name: &CStr) -> F {
        // SAFETY: a loaded library and a string.
        let address = unsafe { dlsym(self.0, name.as_ptr()) };
        assert!(!address.is_null(), "{name:?}");
        // SAFETY: the caller's promise; a function's address is as wide as a pointer.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

/// Calls a function of HIP's: `hip!(hip, c"name", fn(types), arguments)`.
macro_rules! hip {
    ($hip:expr, $name:literal, ($($type:ty),*), $($value:expr),*) => {{
        // SAFETY: the types are those of `hip_runtime_api.h`; the arguments are live.
        let code = unsafe { $hip.get::<unsafe extern "C" fn($($type),*) -> c_int>($name)($($value),*) };
        assert_eq!(code, 0, "{:?}", $name);
    }};
}

fn import(rig: &Rig, address: u64) -> BufferRef {
    let params = params(raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, raw::IREE_HAL_BUFFER_USAGE_DEFAULT);
    let mut buffer = std::ptr::null_mut();
    // SAFETY: a live allocator; all-zero is a valid external buffer; the memory outlives the buffer.
    unsafe {
        let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
        external.type_ = raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION;
        external.size = SIZE;
        external.handle.device_allocation.ptr = address;
        let none = raw::iree_hal_buffer_release_callback_t { fn_: None, user_data: std::ptr::null_mut() };
        iree!(raw::iree_hal_allocator_import_buffer(rig.allocator(), params, &raw mut external, none, &raw mut buffer))
            .expect("HIP's memory is HSA's");
        HalRef::from_owned(buffer).expect("a buffer")
    }
}

fn export(rig: &Rig, buffer: &BufferRef) -> u64 {
    // SAFETY: a live buffer; all-zero is a valid external buffer.
    unsafe {
        let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
        iree!(raw::iree_hal_allocator_export_buffer(
            rig.allocator(),
            buffer.as_ptr(),
            raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION,
            raw::IREE_HAL_EXTERNAL_BUFFER_FLAG_NONE as _,
            &raw mut external
        ))
        .expect("GPU memory can be exported");
        external.handle.device_allocation.ptr
    }
}

fn contents(rig: &Rig, buffer: &BufferRef) -> Vec<u8> {
    let (copy, done) = (rig.buffer(SIZE), rig.semaphore());
    rig.copy(1, &[], &[(&done, 1)], (buffer, 0), (&copy, 0), SIZE).expect("it is submitted");
    wait(&done, 1).expect("it is copied");
    rig.read(&copy, 0, SIZE)
}

#[test]
fn hip_and_the_driver_use_each_others_memory() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    // HIP's memory is accessible to its own GPU alone.
    let (rig, hip) = (Rig::open("0", &[]).expect("a device"), Hip::load());
    let null = std::ptr::null_mut::<c_void>();

    let mut memory = 0_u64;
    hip!(hip, c"hipMalloc", (*mut u64, usize), &raw mut memory, SIZE);
    hip!(hip, c"hipMemset", (u64, c_int, usize), memory, 0x11, SIZE);
    hip!(hip, c"hipDeviceSynchronize", (),);
    let buffer = import(&rig, memory);
    assert_eq!(contents(&rig, &buffer), vec![0x11; SIZE]);
    let filled = rig.semaphore();
    rig.fill(1, &[], &[(&filled, 1)], &buffer, (1000, 2000), &[0x22]).expect("it is submitted");
    wait(&filled, 1).expect("it is filled");
    let mut seen = vec![0_u8; SIZE];
    hip!(hip, c"hipMemcpy", (*mut u8, u64, usize, c_int), seen.as_mut_ptr(), memory, SIZE, TO_HOST);
    let mut expected = vec![0x11; SIZE];
    expected[1000..3000].fill(0x22);
    assert_eq!(seen, expected);
    drop(buffer);
    hip!(hip, c"hipFree", (u64), memory);

    let buffer = rig
        .try_buffer(raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, raw::IREE_HAL_BUFFER_USAGE_DEFAULT, SIZE)
        .expect("a buffer");
    let cleared = rig.semaphore();
    rig.fill(1, &[], &[(&cleared, 1)], &buffer, (0, SIZE), &[0]).expect("it is submitted");
    wait(&cleared, 1).expect("it is filled");
    let (mut module, mut function) = (null, null);
    hip!(hip, c"hipModuleLoadData", (*mut *mut c_void, *const u8), &raw mut module, GFX1100.as_ptr());
    let name = c"report".as_ptr();
    let get = (&raw mut function, module, name);
    hip!(hip, c"hipModuleGetFunction", (*mut *mut c_void, *mut c_void, *const c_char), get.0, get.1, get.2);
    let (mut address, mut value) = (export(&rig, &buffer), 7_i32);
    let mut arguments = [(&raw mut address).cast::<c_void>(), (&raw mut value).cast()];
    hip!(
        hip,
        c"hipModuleLaunchKernel",
        (
            *mut c_void,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            *mut c_void,
            *mut *mut c_void,
            *mut *mut c_void
        ),
        function,
        3,
        1,
        1,
        1,
        1,
        1,
        0,
        null,
        arguments.as_mut_ptr(),
        std::ptr::null_mut()
    );
    hip!(hip, c"hipDeviceSynchronize", (),);
    // The value and the number of workgroups, of each of three workgroups.
    let words: Vec<_> = contents(&rig, &buffer)[..28].chunks_exact(4).map(|word| word[0]).collect();
    assert_eq!(words, [7, 3, 7, 3, 7, 3, 0]);
}

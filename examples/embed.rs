// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs a function of a compiled module on an AMD GPU, from Rust alone:
//!
//! ```text
//! iree-compile --iree-hal-target-device=amdgpu --iree-rocm-target=gfx1100 examples/embed.mlir -o embed.vmfb
//! cargo run --example embed -- embed.vmfb module.scale_add 4xf32=1,2,3,4 4xf32=10,20,30,40
//! ```
//!
//! A function is named with its module; inputs are written as for `iree-run-module`. Each result is printed on a line.

use std::ffi::CString;
use std::process::ExitCode;

use amdgpu_rs::ffi::{Allocator, Annotate, Counted, HalRef, Result, iree, raw, status, strings};

// References to IREE's objects, released when dropped.
type Device = HalRef<raw::iree_hal_device_t>;
type Session = HalRef<raw::iree_runtime_session_t>;
type BufferView = HalRef<raw::iree_hal_buffer_view_t>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, function, inputs @ ..] = arguments.as_slice() else {
        eprintln!("usage: embed <file.vmfb> <module.function> [<input such as 4xf32=1,2,3,4>...]");
        return ExitCode::from(2);
    };
    match run(module, function, inputs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(status) => {
            eprintln!("{status}");
            ExitCode::FAILURE
        }
    }
}

fn run(module: &str, function: &str, inputs: &[String]) -> Result<()> {
    // From here on IREE knows devices named amdgpu_rs.
    amdgpu_rs::register()?;
    let (device, session) = open("amdgpu_rs").annotate(|| "opening the GPU")?;
    let path = CString::new(module).expect("a program's argument has no NUL");
    // SAFETY: a live session; the path is only read during the call.
    unsafe { iree!(raw::iree_runtime_session_append_bytecode_module_from_file(session.as_ptr(), path.as_ptr())) }
        .annotate(|| format!("loading {module}"))?;

    let mut call = Call::new(&session, function)?;
    for input in inputs {
        call.push(&device, input).annotate(|| format!("reading the input '{input}'"))?;
    }
    for output in call.invoke()? {
        println!("{:?}", read(&device, &output)?);
    }
    Ok(())
}

/// Finds and loads the HSA library, makes the driver's default device and a
/// session, which holds modules and their state.
fn open(driver: &str) -> Result<(Device, Session)> {
    let allocator = Allocator::system().to_raw();
    // SAFETY: all-zero options are valid and are then filled in; objects retain those that they are made of.
    unsafe {
        let mut options = std::mem::zeroed();
        raw::iree_runtime_instance_options_initialize(&raw mut options);
        raw::iree_runtime_instance_options_use_all_available_drivers(&raw mut options);
        let instance = make(|out| raw::iree_runtime_instance_create(&raw const options, allocator, out))?;
        let (instance, driver) = (instance.as_ptr(), strings::view(driver));
        let device = make(|out| raw::iree_runtime_instance_try_create_default_device(instance, driver, out))?;
        let mut options = std::mem::zeroed();
        raw::iree_runtime_session_options_initialize(&raw mut options);
        let session = make(|out| {
            raw::iree_runtime_session_create_with_device(instance, &raw const options, device.as_ptr(), allocator, out)
        })?;
        Ok((device, session))
    }
}

/// A call under preparation: the function and the lists of its inputs and outputs.
struct Call(raw::iree_runtime_call_t);

impl Call {
    fn new(session: &Session, function: &str) -> Result<Self> {
        // SAFETY: a live session, which the call retains, and a place for the call, valid once the status is OK.
        unsafe {
            let mut call = std::mem::zeroed();
            let name = strings::view(function);
            iree!(raw::iree_runtime_call_initialize_by_name(session.as_ptr(), name, &raw mut call))?;
            Ok(Self(call))
        }
    }

    /// Puts the array that `text` describes into memory of the device.
    fn push(&mut self, device: &Device, text: &str) -> Result<()> {
        // SAFETY: live objects; the list of inputs retains the array.
        unsafe {
            let (text, allocator) = (strings::view(text), raw::iree_hal_device_allocator(device.as_ptr()));
            let view = make(|out| raw::iree_hal_buffer_view_parse(text, device.as_ptr(), allocator, out))?;
            iree!(raw::iree_runtime_call_inputs_push_back_buffer_view(&raw mut self.0, view.as_ptr()))
        }
    }

    /// Runs the function and waits for its results.
    fn invoke(&mut self) -> Result<Vec<BufferView>> {
        // SAFETY: a call made by `new`; each output that is popped is owned.
        unsafe {
            iree!(raw::iree_runtime_call_invoke(&raw mut self.0, 0))?;
            let (call, count) = (&raw mut self.0, raw::iree_vm_list_size(self.0.outputs));
            (0..count).map(|_| make(|out| raw::iree_runtime_call_outputs_pop_front_buffer_view(call, out))).collect()
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and not used after.
        unsafe { raw::iree_runtime_call_deinitialize(&raw mut self.0) }
    }
}

/// The elements of an array, copied from the device.
fn read(device: &Device, view: &BufferView) -> Result<Vec<f32>> {
    // SAFETY: live objects; the copy is of no more bytes than the target has.
    unsafe {
        let (view, device) = (view.as_ptr(), device.as_ptr());
        if raw::iree_hal_buffer_view_element_type(view) != raw::IREE_HAL_ELEMENT_TYPE_FLOAT_32 as _ {
            return Err(status!(UNIMPLEMENTED, "only results of f32 are printed"));
        }
        let mut data = vec![0_f32; raw::iree_hal_buffer_view_element_count(view)];
        let (source, target) = (raw::iree_hal_buffer_view_buffer(view), data.as_mut_ptr().cast());
        let (size, forever) = (size_of_val(&*data), raw::iree_infinite_timeout());
        iree!(raw::iree_hal_device_transfer_d2h(device, source, 0, target, size, 0, forever))?;
        Ok(data)
    }
}

/// Calls a function of IREE that makes an object.
///
/// # Safety
/// `create` writes an object and its reference where it is told, or fails.
unsafe fn make<T: Counted>(create: impl FnOnce(*mut *mut T) -> raw::iree_status_t) -> Result<HalRef<T>> {
    let mut object = std::ptr::null_mut();
    // SAFETY: the caller's contract.
    unsafe {
        iree!(create(&raw mut object))?;
        Ok(HalRef::from_owned(object).expect("an object that was made"))
    }
}

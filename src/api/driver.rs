// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The driver object: lists devices and makes them.
//!
//! A driver keeps the HSA runtime, and the agents as found at the first query. It is used for all devices, unless their
//! parameters name another runtime. Devices do not need the driver once they are made.

use core::ffi::{CStr, c_char, c_void};
use std::borrow::Cow;
use std::sync::OnceLock;

use crate::device;
use amdgpu_ffi::{
    Allocator, Annotate, Borrowed, HalObject, HalRef, Header, Out, Result, iree, lists, raw, status, strings, thunk,
    vtable,
};
use amdgpu_gpu::options::Options;
use amdgpu_gpu::topology::Topology;
use amdgpu_hsa::Library;

/// The option that selects the HSA runtime.
const LIBRARY_OPTION: &str = "libhsa_search_path";

/// `iree_hal_driver_t` of this driver.
#[repr(C)]
pub struct Driver {
    header: Header,
    host_allocator: Allocator,
    identifier: String,
    options: Options,
    topology: OnceLock<Topology>,
}

// SAFETY: repr(C), the header is first, VTABLE is used here only.
unsafe impl HalObject for Driver {
    type Raw = raw::iree_hal_driver_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.host_allocator
    }
}

static VTABLE: raw::iree_hal_driver_vtable_t = raw::iree_hal_driver_vtable_t {
    destroy: thunk::destroy::<Driver, _>(),
    query_available_devices: thunk::method(Driver::query_available_devices),
    dump_device_info: thunk::method(Driver::dump_device_info),
    create_device_by_id: thunk::method(Driver::create_device_by_id),
    create_device_by_path: thunk::method(Driver::create_device_by_path),
    ..vtable::empty()
};

impl Driver {
    /// A driver without a loaded runtime.
    ///
    /// # Errors
    /// As for [`Options::verify`].
    pub fn create(identifier: &str, options: Options, host_allocator: Allocator) -> Result<HalRef<Self>> {
        options.verify()?;
        HalRef::new(Self {
            header: Header::new::<Self>(),
            host_allocator,
            identifier: identifier.to_owned(),
            topology: OnceLock::new(),
            options,
        })
    }

    /// The agents of the HSA runtime in the driver's options. The runtime is loaded at the first call.
    ///
    /// # Errors
    /// As for [`Library::load`] and [`Topology::new`]; the next call tries again.
    fn agents(&self) -> Result<&Topology> {
        if let Some(topology) = self.topology.get() {
            return Ok(topology);
        }
        let topology = load_topology(&self.options)?;
        Ok(self.topology.get_or_init(|| topology))
    }

    fn query_available_devices(
        &self,
        host_allocator: Allocator,
        out_count: Out<'_, usize>,
        out_infos: Out<'_, *mut raw::iree_hal_device_info_t>,
    ) -> Result<()> {
        let infos = self.agents()?.device_infos();
        let table_size = infos.len() * size_of::<raw::iree_hal_device_info_t>();
        let text_size: usize = infos.iter().map(|info| info.path.len() + info.name.len()).sum();
        if infos.is_empty() {
            out_count.set(0);
            out_infos.set(core::ptr::null_mut());
            return Ok(());
        }
        // One block, which the caller frees: the table, then the text.
        let block = host_allocator.allocate(table_size + text_size)?;
        let table = block.cast::<raw::iree_hal_device_info_t>();
        let mut used = table_size;
        let mut place = |text: &str| {
            // SAFETY: the texts together are `text_size` bytes, which follow the table in the block.
            let view = unsafe {
                let target = block.add(used);
                target.copy_from_nonoverlapping(core::ptr::NonNull::from(text.as_bytes()).cast(), text.len());
                raw::iree_string_view_t { data: target.as_ptr().cast::<c_char>(), size: text.len() }
            };
            used += text.len();
            view
        };
        for (index, info) in infos.iter().enumerate() {
            let entry = raw::iree_hal_device_info_t {
                device_id: info.id as raw::iree_hal_device_id_t,
                path: place(&info.path),
                name: place(&info.name),
            };
            // SAFETY: the table has an entry for each device.
            unsafe { table.add(index).write(entry) };
        }
        out_count.set(infos.len());
        out_infos.set(table.as_ptr());
        Ok(())
    }

    fn dump_device_info(
        &self,
        device_id: raw::iree_hal_device_id_t,
        builder: *mut raw::iree_string_builder_t,
    ) -> Result<()> {
        let text = self.agents()?.dump(device_id as u64)?;
        // SAFETY: the caller's builder, which copies the text.
        unsafe { iree!(raw::iree_string_builder_append_string(builder, strings::view(&text))) }
    }

    fn create_device_by_id(
        &self,
        device_id: raw::iree_hal_device_id_t,
        parameter_count: usize,
        parameters: *const raw::iree_string_pair_t,
        create_params: *const raw::iree_hal_device_create_params_t,
        host_allocator: Allocator,
        out_device: Out<'_, *mut raw::iree_hal_device_t>,
    ) -> Result<()> {
        // SAFETY: the arguments as IREE passes them.
        let (options, proactor_pool) = unsafe { self.device_arguments(parameters, parameter_count, create_params) }?;
        let selection = self.topology(&options)?.select_mask(device_id as u64)?;
        out_device.give(device::create(&self.identifier, selection, options, proactor_pool, host_allocator)?);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the slot's arguments")]
    fn create_device_by_path(
        &self,
        driver_name: Cow<'_, str>,
        device_path: Cow<'_, str>,
        parameter_count: usize,
        parameters: *const raw::iree_string_pair_t,
        create_params: *const raw::iree_hal_device_create_params_t,
        host_allocator: Allocator,
        out_device: Out<'_, *mut raw::iree_hal_device_t>,
    ) -> Result<()> {
        // SAFETY: the arguments as IREE passes them.
        let (options, proactor_pool) = unsafe { self.device_arguments(parameters, parameter_count, create_params) }?;
        let selection = self.topology(&options)?.select(&device_path)?;
        let identifier = match &*driver_name {
            "" => self.identifier.as_str(),
            name => name,
        };
        out_device.give(device::create(identifier, selection, options, proactor_pool, host_allocator)?);
        Ok(())
    }

    /// The driver's options overridden by a device's parameters, and the proactor pool that every device needs.
    ///
    /// # Safety
    /// Both pointers are null or valid for `'a`, as are the strings.
    unsafe fn device_arguments<'a>(
        &self,
        parameters: *const raw::iree_string_pair_t,
        count: usize,
        create_params: *const raw::iree_hal_device_create_params_t,
    ) -> Result<(Options, Borrowed<'a, raw::iree_async_proactor_pool_t>)> {
        // SAFETY: the caller's contract.
        let pairs = unsafe { pairs(parameters, count) };
        let options = with_pairs(self.options.clone(), &pairs)?;
        // SAFETY: the caller's contract.
        let pool = unsafe { create_params.as_ref() }
            // SAFETY: the pool lives while the call does.
            .and_then(|params| unsafe { Borrowed::from_raw(params.proactor_pool) });
        let pool = pool.ok_or_else(|| {
            status!(
                INVALID_ARGUMENT,
                "a device needs a proactor pool; set iree_hal_device_create_params_t::proactor_pool"
            )
        })?;
        Ok((options, pool))
    }

    /// The agents for a device: the driver's, unless the device's parameters name another HSA runtime.
    fn topology(&self, options: &Options) -> Result<Cow<'_, Topology>> {
        if options.libhsa_search_path == self.options.libhsa_search_path {
            return Ok(Cow::Borrowed(self.agents()?));
        }
        Ok(Cow::Owned(load_topology(options)?))
    }
}

fn load_topology(options: &Options) -> Result<Topology> {
    Topology::new(&Library::load(&options.libhsa_search_path)?)
}

/// The keys and values of C pairs.
///
/// # Safety
/// `pairs` is null or holds `count` pairs of valid views for `'a`.
unsafe fn pairs<'a>(pairs: *const raw::iree_string_pair_t, count: usize) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
    // SAFETY: the caller's contract; both members of each union are views.
    unsafe {
        lists::slice(pairs, count)
            .iter()
            .map(|pair| (strings::text(pair.__bindgen_anon_1.key), strings::text(pair.__bindgen_anon_2.value)))
            .collect()
    }
}

/// Changes options by pairs. Search paths among the pairs are combined, and replace those of `options`.
fn with_pairs(mut options: Options, pairs: &[(Cow<'_, str>, Cow<'_, str>)]) -> Result<Options> {
    if pairs.iter().any(|(key, _)| key == LIBRARY_OPTION) {
        options.libhsa_search_path.clear();
    }
    for (key, value) in pairs {
        options.set(key, value)?;
    }
    options.verify()?;
    Ok(options)
}

/// `iree_hal_amdgpu_rs_driver_create` of `amdgpu_rs/api.h`.
///
/// # Safety
/// As the header says; pointers are valid for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iree_hal_amdgpu_rs_driver_create(
    identifier: raw::iree_string_view_t,
    option_count: usize,
    options: *const raw::iree_string_pair_t,
    host_allocator: raw::iree_allocator_t,
    out_driver: *mut *mut raw::iree_hal_driver_t,
) -> raw::iree_status_t {
    let create = || {
        // SAFETY: the caller's contract.
        let (identifier, pairs, host_allocator) =
            unsafe { (strings::text(identifier), pairs(options, option_count), Allocator::from_raw(host_allocator)) };
        let options =
            with_pairs(Options::default(), &pairs).annotate(|| format!("making the driver '{identifier}'"))?;
        let driver = Driver::create(&identifier, options, host_allocator)?;
        // SAFETY: the caller's place for the result.
        unsafe { out_driver.write(driver.into_raw()) };
        Ok(())
    };
    amdgpu_ffi::status::into_raw(thunk::catch(create).flatten())
}

/// `iree_hal_amdgpu_rs_verify_struct_sizes` of `amdgpu_rs/api.h`.
///
/// # Safety
/// `sizes` holds `count` entries with valid names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iree_hal_amdgpu_rs_verify_struct_sizes(
    count: usize,
    sizes: *const StructSize,
) -> raw::iree_status_t {
    let verify = || {
        // SAFETY: the caller's contract.
        unsafe { lists::slice(sizes, count) }
            .iter()
            // SAFETY: the caller's contract: each entry's name is a NUL-terminated string.
            .try_for_each(|entry| verify_size(unsafe { CStr::from_ptr(entry.name) }, entry.size))
    };
    amdgpu_ffi::status::into_raw(thunk::catch(verify).flatten())
}

/// `iree_hal_amdgpu_rs_struct_size_t` of `amdgpu_rs/api.h`.
#[repr(C)]
pub struct StructSize {
    name: *const c_char,
    size: usize,
}

fn verify_size(name: &CStr, size: usize) -> Result<()> {
    let name = name.to_string_lossy();
    let known = vtable::SIZES.iter().find(|(known, _)| **known == *name);
    match known {
        Some((_, expected)) if *expected == size => Ok(()),
        Some((_, expected)) => Err(status!(
            INCOMPATIBLE,
            "this program's IREE has a {name} of {size} bytes, and amdgpu_rs was built for one of \
             {expected}: build both against the same IREE with the same configuration"
        )),
        None => Err(status!(
            INCOMPATIBLE,
            "amdgpu_rs does not know the struct {name}: its library and registration are of \
             different versions"
        )),
    }
}

#[cfg(test)]
#[path = "driver_test.rs"]
mod tests;

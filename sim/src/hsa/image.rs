// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Images and samplers (`hsa_ext_image.h`), which are not simulated. Each function fails with `ERROR_NOT_INITIALIZED`,
//! as in a ROCR without its image library (`hsa_ext_interface.cpp`, `hsa_ext_null`), and prints its name.

use std::ffi::c_void;

use hsa_abi::{HsaAgent, HsaStatus};

use super::guard;

macro_rules! refused {
    ($($name:ident($($type:ty),*);)*) => {$(
        /// Fails: images are not simulated.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($(_: $type),*) -> HsaStatus {
            guard(|| {
                eprintln!(concat!("hsa-sim: ", stringify!($name), ": images and samplers are not simulated"));
                Err(HsaStatus::ERROR_NOT_INITIALIZED)
            })
        }
    )*};
}

refused! {
    hsa_amd_image_create(HsaAgent, *const c_void, *const c_void, *const c_void, u32, *mut u64);
    hsa_ext_image_create(HsaAgent, *const c_void, *const c_void, u32, *mut u64);
    hsa_ext_image_create_with_layout(HsaAgent, *const c_void, *const c_void, u32, u32, usize, usize, *mut u64);
    hsa_ext_image_data_get_info(HsaAgent, *const c_void, u32, *mut c_void);
    hsa_ext_image_destroy(HsaAgent, u64);
    hsa_ext_image_export(HsaAgent, u64, *mut c_void, usize, usize, *const c_void);
    hsa_ext_image_import(HsaAgent, *const c_void, usize, usize, u64, *const c_void);
    hsa_ext_sampler_create(HsaAgent, *const c_void, *mut u64);
    hsa_ext_sampler_destroy(HsaAgent, u64);
}

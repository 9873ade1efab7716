// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The shared library as clients load it: by name, with a look-up of each function.

use std::ffi::{CStr, CString, c_void};
use std::path::PathBuf;

use hsa_abi::{HsaStatus, pfn};

/// A library that stays loaded.
struct Library(*mut c_void);

impl Library {
    /// The library that cargo built beside this test.
    fn open() -> Self {
        let path: PathBuf = std::env::current_exe().unwrap().with_file_name("libhsa_runtime64.so");
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name is a C string; the library's initialisers have no preconditions.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        // SAFETY: after a failure the message is a C string that stays until the next call.
        assert!(!library.is_null(), "{:?}", unsafe { CStr::from_ptr(libc::dlerror()) });
        Self(library)
    }

    fn find(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).unwrap();
        // SAFETY: the library is loaded and the name a C string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

#[test]
fn every_function_can_be_loaded_by_its_name() {
    let library = Library::open();
    let names: Vec<_> = include_str!("symbols.txt").lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(names.len(), 118);
    let missing: Vec<_> = names.into_iter().filter(|name| library.find(name).is_null()).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    assert!(library.find("hsa_no_such_function").is_null());

    // SAFETY: the functions have these types.
    unsafe {
        let init: pfn::hsa_init = std::mem::transmute(library.find("hsa_init"));
        let shut_down: pfn::hsa_shut_down = std::mem::transmute(library.find("hsa_shut_down"));
        assert_eq!(shut_down(), HsaStatus::ERROR_NOT_INITIALIZED);
        assert_eq!(init(), HsaStatus::SUCCESS);
        assert_eq!(shut_down(), HsaStatus::SUCCESS);
    }
}

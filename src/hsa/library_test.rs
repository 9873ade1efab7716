// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Loading of small libraries made on the spot: missing, broken and of another kind.

use std::path::Path;
use std::slice::from_ref;

use amdgpu_ffi::Code;
use hsa_abi::HsaStatus;

use super::*;
use crate::testing::{Directory, compile};

fn refused(path: &Path) -> Error {
    Library::load(&[path.to_path_buf()]).expect_err("it must be refused")
}

#[test]
fn a_missing_library_says_where_it_was_looked_for() {
    let directory = Directory::new("missing");
    let error = refused(&directory.0);
    assert_eq!(error.code(), Code::NOT_FOUND);
    let text = error.to_string();
    for name in discovery::LIBRARY_NAMES {
        let line = format!("[--amdgpu_rs_libhsa_search_path] {}: no such file", directory.join(name).display());
        assert!(text.contains(&line), "{text}");
    }
    assert!(text.contains("IREE_HAL_AMDGPU_LIBHSA_PATH="), "{text}");
}

#[test]
fn a_name_that_the_loader_does_not_know_gives_the_loaders_words() {
    let text = refused(Path::new("libamdgpu_rs-no-such.so.1")).to_string();
    assert!(text.contains("libamdgpu_rs-no-such.so.1: cannot open shared object file"), "{text}");
}

#[test]
fn what_is_no_library_is_refused() {
    let directory = Directory::new("text");
    let path = directory.join("libhsa-runtime64.so.1");
    std::fs::write(&path, "not an ELF file").expect("the file is written");
    let error = refused(&path);
    assert_eq!(error.code(), Code::NOT_FOUND);
    assert!(
        error.to_string().contains("file too short") || error.to_string().contains("invalid ELF header"),
        "{error}"
    );
}

#[test]
fn a_library_without_some_functions_is_named_with_them() {
    let directory = Directory::new("lacking");
    let path = directory.join("libhsa-runtime64.so.1");
    let missing = ["hsa_amd_memory_pool_allocate", "hsa_queue_create"];
    compile(&path, &missing, "");
    let error = refused(&directory.0);
    assert_eq!(error.code(), Code::INCOMPATIBLE);
    let text = error.to_string();
    let line = format!("{}: it lacks {}", path.display(), missing.join(", "));
    assert!(text.contains(&line), "{text}");
}

#[test]
fn a_place_that_cannot_be_used_does_not_hide_the_next() {
    let directory = Directory::new("next");
    let (lacking, failing) = (directory.join("liblacking.so"), directory.join("libfailing.so"));
    compile(&lacking, &["hsa_init"], "");
    compile(&failing, &[], "unsigned hsa_init(void) { return 0x1008; }\n");
    let error = Library::load(&[lacking, failing.clone()]).expect_err("hsa_init fails");
    assert_eq!(error.status(), Some(HsaStatus::ERROR_OUT_OF_RESOURCES));
    assert_eq!(error.code(), Code::RESOURCE_EXHAUSTED);
    let text = error.to_string();
    assert!(text.contains("hsa_init failed: ERROR_OUT_OF_RESOURCES"), "{text}");
    assert!(text.contains("libfailing.so") && text.contains("/dev/kfd"), "{text}");
}

/// The software GPU says so of a variable that makes no sense, and has no kernel driver to look for.
#[test]
fn only_what_rocr_gives_without_its_kernel_driver_asks_for_it() {
    let directory = Directory::new("refusing");
    let path = directory.join("librefusing.so");
    compile(&path, &[], "unsigned hsa_init(void) { return 0x1001; }\n");
    let text = refused(&path).to_string();
    assert!(text.contains("hsa_init failed: ERROR_INVALID_ARGUMENT") && !text.contains("/dev/kfd"), "{text}");
}

/// A runtime that initialises, counts its references, and answers for the system: HSA `major`.0.
fn answering(major: u16) -> String {
    format!(
        "int references;
         unsigned hsa_init(void) {{ references++; return 0; }}
         unsigned hsa_shut_down(void) {{ references--; return 0; }}
         unsigned hsa_system_get_info(unsigned attribute, void *value) {{
           if (attribute == 0) {{ *(unsigned short *)value = {major}; return 0; }}
           if (attribute == 1) {{ *(unsigned short *)value = 0; return 0; }}
           if (attribute == 3) {{ *(unsigned long *)value = 100000000; return 0; }}
           if (attribute == 5) {{ *(unsigned *)value = 0; return 0; }}
           if (attribute == 6) {{ *(unsigned *)value = 1; return 0; }}
           return 0x1001;
         }}\n"
    )
}

/// The `references` of a library made with [`answering`].
fn references(path: &Path) -> i32 {
    // SAFETY: the library was made here and has no initialisers.
    let library = ManuallyDrop::new(unsafe { libloading::Library::new(path) }.expect("it is loaded"));
    // SAFETY: it exports an int of this name, and stays loaded.
    let symbol = unsafe { library.get::<*const i32>(b"references\0") }.expect("it is exported");
    // SAFETY: it points to an int, which only calls of the test that reads it write.
    unsafe { symbol.read_volatile() }
}

#[test]
fn another_version_of_hsa_is_refused_and_shut_down() {
    let directory = Directory::new("version");
    let path = directory.join("libhsa-runtime64.so.1");
    compile(&path, &[], &answering(2));
    let error = refused(&path);
    assert_eq!(error.code(), Code::INCOMPATIBLE);
    assert!(error.to_string().contains("HSA 2.x") && error.to_string().contains("libhsa-runtime64.so.1"), "{error}");
    assert_eq!(references(&path), 0);
}

#[test]
fn a_runtime_is_initialised_once_for_all_its_users_and_shut_down_after_the_last() {
    let directory = Directory::new("references");
    let path = directory.join("libhsa-runtime64.so.1");
    compile(&path, &[], &answering(1));
    let first = Library::load(from_ref(&path)).expect("it answers");
    assert_eq!(first.path(), path);
    assert_eq!(first.system().timestamp_frequency, 100_000_000);
    assert!(!first.system().svm_supported, "what is not answered is not supported");
    assert!(!first.reports_faults(), "an optional function may be absent");
    let second = Library::load(from_ref(&directory.0)).expect("it answers");
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(references(&path), 1);
    drop((first, second));
    assert_eq!(references(&path), 0);
    let third = Library::load(from_ref(&path)).expect("it answers again");
    assert_eq!(references(&path), 1);
    drop(third);
}

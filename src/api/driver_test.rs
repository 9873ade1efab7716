// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The driver's C entry points, on the runtime of `core/topology_test.c`: two
//! gfx1100 with UUIDs and two gfx942 without, which only answer questions.

use super::*;
use amdgpu_ffi::{Code, Status};
use amdgpu_gpu::options::KNOBS;
use amdgpu_hsa::testing::{Directory, compile};

/// The C file that declares the flags.
const REGISTRATION: &str = include_str!("../../registration/driver_module.c");

/// The C text of the runtime.
const RUNTIME: &str = include_str!("../core/gpu/topology_test.c");

fn pair(key: &str, value: &str) -> raw::iree_string_pair_t {
    raw::iree_string_pair_t {
        __bindgen_anon_1: raw::iree_string_pair_t__bindgen_ty_1 { key: strings::view(key) },
        __bindgen_anon_2: raw::iree_string_pair_t__bindgen_ty_2 { value: strings::view(value) },
    }
}

fn create(options: &[raw::iree_string_pair_t]) -> Result<HalRef<raw::iree_hal_driver_t>> {
    let mut driver = core::ptr::null_mut();
    // SAFETY: valid views, pairs and place; the reference is the caller's.
    unsafe {
        iree!(iree_hal_amdgpu_rs_driver_create(
            strings::view("amdgpu_rs"),
            options.len(),
            options.as_ptr(),
            Allocator::system().to_raw(),
            &raw mut driver,
        ))?;
        Ok(HalRef::from_owned(driver).expect("a driver that was made"))
    }
}

fn refused(options: &[raw::iree_string_pair_t]) -> Status {
    create(options).expect_err("the options are bad")
}

/// A driver on the runtime with the first `gpus` of its GPUs.
fn driver(test: &str, gpus: usize) -> HalRef<raw::iree_hal_driver_t> {
    driver_on(test, &format!("#define GPUS {gpus}\n{RUNTIME}"))
}

/// A driver on the runtime that `source` is the C text of.
fn driver_on(test: &str, source: &str) -> HalRef<raw::iree_hal_driver_t> {
    let directory = Directory::new(test);
    let library = directory.join("libhsa-runtime64.so.1");
    compile(&library, &[], source);
    let library = library.to_str().expect("a path in UTF-8");
    let driver = create(&[pair(LIBRARY_OPTION, library)]).expect("good options");
    // Loads it, before the file goes with its directory.
    list(&driver).expect("the runtime answers");
    driver
}

/// Id, path and name of each device.
fn list(driver: &HalRef<raw::iree_hal_driver_t>) -> Result<Vec<(raw::iree_hal_device_id_t, String, String)>> {
    let (mut count, mut infos) = (usize::MAX, core::ptr::dangling_mut());
    // SAFETY: a live driver and places; the list lives until it is freed, and is one block with its texts.
    unsafe {
        iree!(raw::iree_hal_driver_query_available_devices(
            driver.as_ptr(),
            Allocator::system().to_raw(),
            &raw mut count,
            &raw mut infos,
        ))?;
        let text = |view| strings::text(view).into_owned();
        let devices = lists::slice(infos, count);
        let devices = devices.iter().map(|info| (info.device_id, text(info.path), text(info.name))).collect();
        raw::iree_allocator_free(Allocator::system().to_raw(), infos.cast());
        Ok(devices)
    }
}

/// Why a device is not made.
fn no_device(driver: &HalRef<raw::iree_hal_driver_t>, uri: &str) -> Status {
    let mut pool = core::ptr::null_mut();
    // SAFETY: a pool with its defaults, released below, and valid arguments.
    unsafe {
        iree!(raw::iree_async_proactor_pool_create(
            1,
            core::ptr::null(),
            raw::iree_async_proactor_pool_options_default(),
            Allocator::system().to_raw(),
            &raw mut pool,
        ))
        .expect("a proactor pool");
        let mut params = raw::iree_hal_device_create_params_default();
        params.proactor_pool = pool;
        let mut device = core::ptr::null_mut();
        let result = iree!(raw::iree_hal_driver_create_device_by_uri(
            driver.as_ptr(),
            strings::view(uri),
            &raw const params,
            Allocator::system().to_raw(),
            &raw mut device,
        ));
        raw::iree_async_proactor_pool_release(pool);
        result.expect_err("no such device")
    }
}

#[test]
fn unknown_options_are_errors_that_list_the_known() {
    let status = refused(&[pair("command_bufer_mode", "aql")]);
    assert_eq!(status.code(), Code::INVALID_ARGUMENT);
    let text = status.to_string();
    assert!(text.contains("force_wait_barrier_defer"), "{text}");
    assert!(text.contains("making the driver 'amdgpu_rs'"), "{text}");
}

#[test]
fn a_runtime_that_is_not_there_is_named() {
    let driver = create(&[pair("libhsa_search_path", "/nowhere/at/all")]).unwrap();
    for status in [list(&driver).unwrap_err(), no_device(&driver, "amdgpu_rs://0")] {
        assert_eq!(status.code(), Code::NOT_FOUND);
        assert!(status.to_string().contains("/nowhere/at/all"), "{status}");
    }
}

#[test]
fn a_device_on_another_runtime_does_not_need_the_drivers() {
    let driver = create(&[pair(LIBRARY_OPTION, "/nowhere/at/all")]).unwrap();
    let directory = Directory::new("another-runtime");
    let library = directory.join("libhsa-runtime64.so.1");
    compile(&library, &[], &format!("#define GPUS 1\n{RUNTIME}"));
    let status = no_device(&driver, &format!("amdgpu_rs://9?{LIBRARY_OPTION}={}", library.display()));
    assert!(status.to_string().contains("visible GPUs"), "{status}");
}

#[test]
fn a_devices_search_paths_replace_the_drivers() {
    let pairs = |paths: &[&'static str]| -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        paths.iter().map(|path| (LIBRARY_OPTION.into(), (*path).into())).collect()
    };
    let driver = with_pairs(Options::default(), &pairs(&["/a", "/b"])).unwrap();
    assert_eq!(driver.libhsa_search_path.len(), 2);
    let device = with_pairs(driver.clone(), &pairs(&["/c"])).unwrap();
    assert_eq!(device.libhsa_search_path, [std::path::PathBuf::from("/c")]);
    let device = with_pairs(driver.clone(), &[]).unwrap();
    assert_eq!(device, driver);
}

#[test]
fn struct_sizes_must_agree() {
    let check = |name: &CStr, size| {
        let entry = StructSize { name: name.as_ptr(), size };
        // SAFETY: one entry with a literal name.
        unsafe { iree!(iree_hal_amdgpu_rs_verify_struct_sizes(1, &raw const entry)) }
    };
    check(c"iree_hal_device_vtable_t", size_of::<raw::iree_hal_device_vtable_t>()).unwrap();
    let status = check(c"iree_hal_device_vtable_t", 8).unwrap_err();
    assert_eq!(status.code(), Code::INCOMPATIBLE);
    assert!(status.to_string().contains("8 bytes"), "{status}");
    let status = check(c"iree_hal_no_such_t", 8).unwrap_err();
    assert!(status.to_string().contains("iree_hal_no_such_t"), "{status}");
}

#[test]
fn every_checked_struct_is_known() {
    for name in REGISTRATION
        .lines()
        .filter_map(|line| line.trim().strip_prefix("AMDGPU_RS_SIZE("))
        .filter_map(|rest| rest.strip_suffix("),"))
    {
        assert!(vtable::SIZES.iter().any(|(known, _)| *known == name), "{name}");
    }
}

#[test]
fn flags_and_options_are_the_same() {
    let flags: Vec<&str> = REGISTRATION
        .lines()
        .filter_map(|line| line.trim().strip_prefix("X("))
        .filter(|rest| !rest.starts_with("key"))
        .filter_map(|rest| rest.split(',').next())
        .chain([LIBRARY_OPTION])
        .collect();
    assert!(REGISTRATION.contains("IREE_FLAG_LIST(string, amdgpu_rs_libhsa_search_path,"));
    for knob in KNOBS {
        assert!(flags.contains(&knob.key), "no flag for {}", knob.key);
    }
    // Words and switches have their defaults beside them.
    for line in REGISTRATION.lines().filter_map(|line| line.trim().strip_prefix("X(")) {
        let fields: Vec<_> =
            line.trim_end_matches('\\').split(',').map(|field| field.trim().trim_matches('"')).collect();
        let [key, default, ..] = fields[..] else { continue };
        if let Some(knob) = KNOBS.iter().find(|knob| knob.key == key).filter(|_| !default.is_empty()) {
            assert_eq!(default, knob.default(), "{key}");
        }
    }
    assert_eq!(flags.len(), KNOBS.len(), "{flags:?}");
}

#[test]
fn devices_are_listed_in_one_block() {
    let listed = list(&driver("listed", 2)).unwrap();
    assert_eq!(listed.len(), 3, "{listed:?}");
    assert_eq!((listed[0].0, listed[0].1.as_str()), (0, ""));
    assert_eq!((listed[1].0, listed[1].1.as_str()), (1, "GPU-00000000000000aa"));
    assert_eq!((listed[2].0, listed[2].1.as_str()), (2, "GPU-00000000000000bb"));
    assert!(listed.iter().all(|(_, _, name)| !name.is_empty()));
}

#[test]
fn no_gpu_is_an_empty_list() {
    let driver = driver("empty", 0);
    assert_eq!(list(&driver).unwrap(), []);
    assert_eq!(no_device(&driver, "amdgpu_rs").code(), Code::NOT_FOUND);
}

#[test]
fn a_dump_goes_to_the_builder() {
    let driver = driver("driver-dump", 2);
    // SAFETY: the builder is initialised before its use and freed after.
    let text = unsafe {
        let mut builder = core::mem::MaybeUninit::<raw::iree_string_builder_t>::uninit();
        let builder = builder.as_mut_ptr();
        raw::iree_string_builder_initialize(Allocator::system().to_raw(), builder);
        iree!(raw::iree_hal_driver_dump_device_info(driver.as_ptr(), 2, builder)).expect("a dump");
        let text = strings::text(raw::iree_string_builder_view(builder)).into_owned();
        raw::iree_string_builder_deinitialize(builder);
        text
    };
    assert!(text.contains("GPU-00000000000000bb"), "{text}");
    assert!(!text.contains("GPU-00000000000000aa"), "{text}");
    assert!(text.ends_with('\n'), "{text:?}");
}

#[test]
fn devices_that_are_not_there_are_refused() {
    let driver = driver("absent", 4);
    let cases = [
        ("amdgpu_rs://9", Code::NOT_FOUND, "visible GPUs"),
        ("amdgpu_rs://GPU-beef", Code::NOT_FOUND, "GPU-beef"),
        ("amdgpu_rs://first", Code::INVALID_ARGUMENT, "'first'"),
        ("amdgpu_rs://0,2", Code::INCOMPATIBLE, "--device=amdgpu_rs://2"),
    ];
    for (uri, code, text) in cases {
        let status = no_device(&driver, uri);
        assert_eq!(status.code(), code, "{uri}: {status}");
        assert!(status.to_string().contains(text), "{uri}: {status}");
    }
}

#[test]
fn a_gpu_without_a_code_object_of_the_device_library_is_refused() {
    let source = RUNTIME.replace("--gfx1100", "--gfx1310").replace("--gfx11-generic", "--gfx13-generic");
    let driver = driver_on("code-object", &source);
    let status = no_device(&driver, "amdgpu_rs://0");
    assert_eq!(status.code(), Code::INCOMPATIBLE);
    let text = status.to_string();
    let embedded: Vec<_> = device_binaries::CODE_OBJECTS.iter().map(|code_object| code_object.target).collect();
    assert!(text.contains("no code object for `amdgcn-amd-amdhsa--gfx1310`"), "{text}");
    assert!(text.contains(&format!("(embedded: {})", embedded.join(", "))), "{text}");
    assert!(text.contains("it knows gfx9 to gfx12.5"), "{text}");
}

#[test]
fn parameters_of_a_uri_are_options() {
    let driver = driver("uri", 1);
    let cases = [
        ("amdgpu_rs://0?color=red", Code::INVALID_ARGUMENT, "queue_placement"),
        ("amdgpu_rs://0?queue_placement=device", Code::UNIMPLEMENTED, "queue_placement=device"),
        ("amdgpu_rs://0?libhsa_search_path=/nowhere", Code::NOT_FOUND, "/nowhere"),
        ("amdgpu_rs://0?aql_queue_capacity=3", Code::OUT_OF_RANGE, "power of two"),
    ];
    for (uri, code, text) in cases {
        let status = no_device(&driver, uri);
        assert_eq!(status.code(), code, "{uri}: {status}");
        assert!(status.to_string().contains(text), "{uri}: {status}");
    }
}

#[test]
fn a_device_needs_a_proactor_pool() {
    let driver = driver("proactor", 1);
    let mut device = core::ptr::null_mut();
    // SAFETY: parameters that name no pool, and valid other arguments.
    let status = unsafe {
        let params = raw::iree_hal_device_create_params_default();
        iree!(raw::iree_hal_driver_create_device_by_id(
            driver.as_ptr(),
            1,
            0,
            core::ptr::null(),
            &raw const params,
            Allocator::system().to_raw(),
            &raw mut device,
        ))
    }
    .expect_err("no pool");
    assert_eq!(status.code(), Code::INVALID_ARGUMENT);
    assert!(status.to_string().contains("proactor pool"), "{status}");
}

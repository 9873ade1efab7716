// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Executables: the formats they are prepared from, the GPUs they run on, and the code they share.

#[path = "support/sink.rs"]
mod sink;
mod support;

use amdgpu_rs::ffi::{Code, HalRef, QUEUE_AFFINITY_ANY, Result, iree, raw, strings};
use raw::iree_hal_profile_executable_code_object_load_record_t as LoadRecord;
use sink::Sink;
use support::{BufferRef, ExecutableRef, Rig, own_time, passes_alone, wait};

/// `report` and others; `testdata/kernels.c` says how it was built.
const KERNELS: &[u8] = include_bytes!("testdata/kernels.gfx1100.co");

/// `add`, which has a variable, and others; `testdata/scenario.c` says how it was built.
const SCENARIO: &[u8] = include_bytes!("testdata/scenario.gfx1100.co");

/// The executable of `models/vector_add.mlir` for IREE's target `hip`:
/// `iree-compile --iree-hal-target-device=hip --iree-rocm-target=gfx1100 models/vector_add.mlir -o vector_add.vmfb`,
/// and `unzip -p vector_add.vmfb vector_add_dispatch_0_rocm_hsaco_fb.fb`.
const VECTOR_ADD_HIP: &[u8] = include_bytes!("testdata/vector_add.gfx1100.hip1");

fn cache(rig: &Rig) -> HalRef<raw::iree_hal_executable_cache_t> {
    let mut cache = std::ptr::null_mut();
    // SAFETY: a live device and a place for the result.
    unsafe {
        let device = rig.device.as_ptr();
        iree!(raw::iree_hal_executable_cache_create(device, strings::view("test"), &raw mut cache)).unwrap();
        HalRef::from_owned(cache).expect("a cache that was made")
    }
}

fn prepare(rig: &Rig, format: &str, affinity: u64, data: &[u8]) -> Result<ExecutableRef> {
    let mut executable = std::ptr::null_mut();
    // SAFETY: all-zero are parameters without constants; live objects and spans.
    unsafe {
        let mut params: raw::iree_hal_executable_params_t = std::mem::zeroed();
        params.queue_affinity = affinity;
        params.executable_format = strings::view(format);
        params.executable_data = raw::iree_const_byte_span_t { data: data.as_ptr(), data_length: data.len() };
        let (cache, params) = (cache(rig), &raw const params);
        iree!(raw::iree_hal_executable_cache_prepare_executable(cache.as_ptr(), params, &raw mut executable))?;
        Ok(HalRef::from_owned(executable).expect("an executable that was made"))
    }
}

/// Queries a device as a compiled module does before it brings code.
fn query(rig: &Rig, category: &str, key: &str) -> i64 {
    let mut value = -1;
    let (category, key) = (strings::view(category), strings::view(key));
    // SAFETY: a live device and a place for the result.
    unsafe { iree!(raw::iree_hal_device_query_i64(rig.device.as_ptr(), category, key, &raw mut value)) }.unwrap();
    value
}

#[test]
fn an_executable_is_of_the_format_that_its_caller_says() {
    let rig = Rig::new();
    for (format, data, expected) in [
        ("gfx1100", KERNELS, None),
        ("amdgcn-amd-amdhsa--gfx1100", KERNELS, None),
        ("gfx11-generic", KERNELS, None),
        ("rocm-hsaco-fb", VECTOR_ADD_HIP, None),
        ("gfx942", KERNELS, Some("compiled for gfx942")),
        ("rocm-hsaco-fb", KERNELS, Some("a bare code object, which is none of format 'rocm-hsaco-fb'")),
        ("gfx1100", VECTOR_ADD_HIP, Some("a HIP1 flatbuffer, which is none of format 'gfx1100'")),
        ("vulkan-spirv-fb", KERNELS, Some("executables of format 'vulkan-spirv-fb' are for other drivers")),
        ("", KERNELS, Some("executables of format ''")),
    ] {
        let status = prepare(&rig, format, 0, data).map(drop).err();
        let text = status.as_ref().map(ToString::to_string).unwrap_or_default();
        assert_eq!(status.is_some(), expected.is_some(), "{format}: {text}");
        if let (Some(status), Some(expected)) = (status, expected) {
            assert_eq!(status.code(), Code::INCOMPATIBLE, "{text}");
            assert!(text.contains(expected), "{text}");
        }
        // A cache and a module ask of the format alone.
        let runs = ["gfx1100", "amdgcn-amd-amdhsa--gfx1100", "gfx11-generic", "rocm-hsaco-fb"].contains(&format);
        // SAFETY: a live cache.
        let can = unsafe {
            raw::iree_hal_executable_cache_can_prepare_format(cache(&rig).as_ptr(), 0, strings::view(format))
        };
        assert_eq!((can, query(&rig, "hal.executable.format", format)), (runs, runs.into()), "{format}");
    }
}

/// A device keeps nothing of the questions.
#[test]
fn questions_about_formats_cost_the_same_however_many_there_are() {
    let rig = Rig::new();
    let ask = || {
        let begin = own_time();
        for index in 0..4_000 {
            assert_eq!(query(&rig, "hal.executable.format", &format!("gfx{}", 900 + index % 7)), 0);
        }
        own_time() - begin
    };
    let times: Vec<_> = (0..10).map(|_| ask()).collect();
    // 18 times as long as the second when each question was compared with those before it.
    assert!(times[9] < 6.0 * times[1], "CPU time of ten times 4,000 questions: {times:?} s");
}

/// Runs `add` of an executable on a queue: `target` becomes `source` plus the executable's addend.
fn add(rig: &Rig, queue: u64, executable: &ExecutableRef, [target, source]: [&BufferRef; 2]) -> Result<u32> {
    let done = rig.semaphore();
    rig.dispatch(queue, &[], &[(&done, 1)], (executable, "add"), &100_u32.to_le_bytes(), &[target, source])?;
    wait(&done, 1)?;
    Ok(u32::from_le_bytes(rig.read(target, 0, 4).try_into().unwrap()))
}

#[test]
fn an_executable_is_on_the_gpus_of_its_affinity() {
    passes_alone("an_executable_is_on_the_gpus_of_its_affinity", "gfx1100,gfx1100", || {
        // Two queues for each GPU.
        let rig = Rig::open("0,1", &[]).unwrap();
        let buffers = [rig.buffer(4), rig.buffer(4)];
        rig.write(&buffers[1], 0, &3_u32.to_le_bytes());
        let buffers = buffers.each_ref();
        for (affinity, runs) in
            [(1, [true, false]), (0b1100, [false, true]), (QUEUE_AFFINITY_ANY, [true; 2]), (0, [true; 2])]
        {
            let executable = prepare(&rig, "gfx1100", affinity, SCENARIO).unwrap();
            for (queue, runs) in [0b1, 0b10, 0b100, 0b1000].into_iter().zip([runs[0], runs[0], runs[1], runs[1]]) {
                match add(&rig, queue, &executable, buffers) {
                    Ok(sum) => assert!(runs && sum > 3, "{affinity:#x} on {queue:#x}"),
                    Err(status) => {
                        assert_eq!(status.code(), Code::FAILED_PRECONDITION, "{status}");
                        assert!(!runs && status.to_string().contains("prepared with a queue affinity for"), "{status}");
                    }
                }
            }
        }
        let status = prepare(&rig, "gfx1100", 0b1_0000, SCENARIO).map(drop).expect_err("there is no such queue");
        assert_eq!(status.code(), Code::INVALID_ARGUMENT, "{status}");
    });
}

/// Load addresses on the GPU, executable by executable.
fn loads(rig: &Rig, prepare: impl FnOnce() -> Vec<ExecutableRef>) -> Vec<i64> {
    let sink = Sink::new();
    sink.begin(rig, raw::IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_METADATA).unwrap();
    let executables = prepare();
    sink::end(rig).unwrap();
    drop(executables);
    let loads = sink.records::<LoadRecord>("executable-code-object-loads");
    loads.iter().map(|load| load.load_delta).collect()
}

#[test]
fn executables_of_the_same_bytes_are_loaded_once() {
    let rig = Rig::new();
    let prepare_some = || {
        std::thread::scope(|scope| {
            let prepare = || (0..10).map(|_| rig.executable(KERNELS).unwrap()).collect::<Vec<_>>();
            let threads = [(); 4].map(|()| scope.spawn(prepare));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        })
    };
    let first = loads(&rig, prepare_some);
    assert_eq!(first.len(), 40);
    assert!(first.iter().all(|place| *place == first[0]), "{first:?}");
    // The code is loaded again after the last executable is gone, and stays while one is left.
    let kept = rig.executable(KERNELS).unwrap();
    drop(prepare_some());
    let (target, done) = (rig.buffer(8), rig.semaphore());
    rig.dispatch(1, &[], &[(&done, 1)], (&kept, "report"), &7_u32.to_le_bytes(), &[&target]).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(rig.read(&target, 0, 8), [7, 0, 0, 0, 1, 0, 0, 0]);
    // Other bytes are another code object.
    let others = loads(&rig, || vec![rig.executable(KERNELS).unwrap(), rig.executable(VECTOR_ADD_HIP).unwrap()]);
    assert!(others.len() == 3 && others[0] == others[1] && others[1] != others[2], "{others:?}");
}

#[test]
fn executables_with_variables_have_their_own() {
    let rig = Rig::new();
    let places = loads(&rig, || vec![rig.executable(SCENARIO).unwrap(), rig.executable(SCENARIO).unwrap()]);
    assert!(places.len() == 2 && places[0] != places[1], "{places:?}");
    let executables = [rig.executable(SCENARIO).unwrap(), rig.executable(SCENARIO).unwrap()];
    let buffers = [rig.buffer(4), rig.buffer(4)];
    rig.write(&buffers[1], 0, &3_u32.to_le_bytes());
    let before = add(&rig, 1, &executables[0], buffers.each_ref()).unwrap();
    let mut global = std::ptr::null_mut();
    // SAFETY: a live executable; the result is owned.
    let global = unsafe {
        let (executable, name) = (executables[1].as_ptr(), strings::view("summand"));
        iree!(raw::iree_hal_executable_lookup_global_by_name(executable, name, 1, &raw mut global)).unwrap();
        BufferRef::from_owned(global).expect("a variable's buffer")
    };
    let done = rig.semaphore();
    rig.update(1, &[], &[(&done, 1)], &5000_u32.to_le_bytes(), &global).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(add(&rig, 1, &executables[0], buffers.each_ref()).unwrap(), before);
    assert_eq!(add(&rig, 1, &executables[1], buffers.each_ref()).unwrap(), 5103);
}

#[test]
fn modules_for_hip_find_the_device_and_run() {
    let rig = Rig::new();
    assert_eq!(["hip", "amdgpu", "cuda"].map(|id| query(&rig, "hal.device.id", id)), [1, 1, 0]);
    let without = Rig::with(&[("hip_device_id", "false")]);
    assert_eq!(["hip", "amdgpu"].map(|id| query(&without, "hal.device.id", id)), [0, 1]);
    let executable = rig.executable(VECTOR_ADD_HIP).unwrap();
    let buffers = [(); 3].map(|()| rig.buffer(4000));
    let values = |scale: f32| -> Vec<u8> { (0..1000).flat_map(|i| (scale * i as f32).to_le_bytes()).collect() };
    rig.write(&buffers[0], 0, &values(1.0));
    rig.write(&buffers[1], 0, &values(0.5));
    let bindings = buffers.each_ref().map(|buffer| support::recording::direct(buffer, 0, 4000));
    let done = rig.semaphore();
    let kernel = (&executable, "vector_add_dispatch_0_elementwise_1000_f32");
    // Of 32 work-items, each of which adds one element.
    rig.dispatch_with(1, &[], &[(&done, 1)], kernel, support::workgroups(32), &[], &bindings, 0).unwrap();
    wait(&done, 1).unwrap();
    let sums = rig.read(&buffers[2], 0, 4000);
    let wrong = sums.chunks_exact(4).zip(values(1.5).chunks_exact(4)).position(|(sum, right)| sum != right);
    assert_eq!(wrong, None, "an element");
}

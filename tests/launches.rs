// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Limits of launches: workgroups, LDS and kernel arguments that a GPU or a kernel does not take are refused by name at
//! the call, and the device goes on.

#[path = "support/compile.rs"]
mod compile;
mod support;

use amdgpu_rs::ffi::{Code, Result, WHOLE_BUFFER, raw};
use compile::{Nothing, c};
use support::recording::{Mode, Recording, direct};
use support::{BufferRef, ExecutableRef, Rig, wait, workgroups};

/// One workgroup of this size, with so much LDS.
fn config(workgroup_size: [u32; 3], dynamic_lds: u32) -> raw::iree_hal_dispatch_config_t {
    let mut config = workgroups(1);
    config.workgroup_size = workgroup_size;
    config.dynamic_workgroup_local_memory = dynamic_lds;
    config
}

/// A buffer that the device reads workgroup counts from.
fn counts(rig: &Rig, counts: [u32; 3]) -> BufferRef {
    let usage = raw::IREE_HAL_BUFFER_USAGE_DEFAULT | raw::IREE_HAL_BUFFER_USAGE_DISPATCH_INDIRECT_PARAMETERS;
    let buffer = rig.buffer_for(usage, 12);
    rig.write(&buffer, 0, counts.map(u32::to_le_bytes).as_flattened());
    buffer
}

const INDIRECT: u32 = raw::IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_PARAMETERS;

/// Launches in each way that there is, by itself or recorded, with counts of the host or of the device.
fn launch_in_each_way(
    rig: &Rig,
    kernel: (&ExecutableRef, &str),
    config: raw::iree_hal_dispatch_config_t,
    bindings: &[&BufferRef],
    mut check: impl FnMut(Result<()>),
) {
    let counts = counts(rig, config.workgroup_count);
    let bindings: Vec<_> = bindings.iter().map(|buffer| direct(buffer, 0, WHOLE_BUFFER)).collect();
    for flags in [0, INDIRECT] {
        let mut config = config;
        config.workgroup_count_ref = direct(&counts, 0, 12);
        let done = rig.semaphore();
        let direct = rig.dispatch_with(1, &[], &[(&done, 1)], kernel, config, &[], &bindings, flags);
        check(direct.and_then(|()| wait(&done, 1)));
        for mode in [Mode::OneShot, Mode::Reusable] {
            let recording = Recording::begin(rig, mode, 0);
            let recorded = recording.dispatch(kernel, config, &[], &bindings, flags);
            check(recorded.and_then(|()| {
                recording.end();
                recording.run(rig)
            }));
        }
    }
}

/// A launch is refused with `texts`, in each way.
fn check_refused(rig: &Rig, kernel: (&ExecutableRef, &str), config: raw::iree_hal_dispatch_config_t, texts: &[&str]) {
    launch_in_each_way(rig, kernel, config, &[], |launched| {
        let status = launched.expect_err("it is too large");
        assert_eq!(status.code(), Code::INVALID_ARGUMENT, "{status}");
        let text = status.to_string();
        assert!(texts.iter().all(|expected| text.contains(expected)), "{text}");
    });
    // The device is none the worse for it.
    let done = rig.semaphore();
    rig.dispatch(1, &[], &[(&done, 1)], kernel, &[], &[]).map_or_else(|_| (), |()| wait(&done, 1).unwrap());
    let buffer = rig.buffer(4);
    rig.fill(1, &[], &[(&done, 2)], &buffer, (0, 4), &[7]).unwrap();
    wait(&done, 2).unwrap();
    assert_eq!(rig.read(&buffer, 0, 4), [7; 4]);
}

#[test]
fn workgroups_larger_than_the_gpus_are_refused() {
    for mode in ["aql", "pm4"] {
        let rig = Rig::with(&[("command_buffer_mode", mode)]);
        let nothing = rig.executable(&Nothing::default().assemble()).unwrap();
        let kernel = (&nothing, "nothing");
        for (size, limit) in [
            ([1024, 2, 1], "2048 work-items, and GPU 0 (gfx1100) has at most 1024"),
            ([2048, 1, 1], "exceeds the [1024, 1024, 1024] work-items that GPU 0 (gfx1100)"),
            ([65_536, 65_536, 65_536], "exceeds the [1024, 1024, 1024]"),
        ] {
            check_refused(&rig, kernel, config(size, 0), &["'nothing'", limit]);
        }
        check_refused(&rig, kernel, config([1, 0, 1], 0), &["workgroup size [1, 0, 1] of 'nothing' is out of range"]);
        launch_in_each_way(&rig, kernel, config([32, 32, 1], 0), &[], |launched| launched.unwrap());
    }
}

#[test]
fn workgroups_larger_than_a_kernel_was_compiled_for_are_refused() {
    let rig = Rig::new();
    let nothing = rig.executable(&Nothing { name: "small", most: 64, ..Nothing::default() }.assemble()).unwrap();
    let kernel = (&nothing, "small");
    check_refused(&rig, kernel, config([65, 1, 1], 0), &["65 work-items", "'small' was compiled for at most 64"]);
    launch_in_each_way(&rig, kernel, config([8, 8, 1], 0), &[], |launched| launched.unwrap());
}

#[test]
fn a_kernel_whose_own_workgroup_is_too_large_is_refused_when_it_is_loaded() {
    let rig = Rig::new();
    let metadata = "    .reqd_workgroup_size: [2048, 1, 1]";
    let status = rig.executable(&Nothing { most: 2048, metadata, ..Nothing::default() }.assemble());
    let status = status.map(drop).expect_err("it never runs");
    assert_eq!(status.code(), Code::INVALID_ARGUMENT, "{status}");
    let text = status.to_string();
    assert!(text.contains("[2048, 1, 1] of 'nothing'") && text.contains("GPU 0 (gfx1100)"), "{text}");
}

#[test]
fn lds_that_a_gpu_does_not_have_is_refused() {
    for mode in ["aql", "pm4"] {
        let rig = Rig::with(&[("command_buffer_mode", mode)]);
        let nothing = rig.executable(&Nothing { lds: 512, ..Nothing::default() }.assemble()).unwrap();
        let kernel = (&nothing, "nothing");
        let gpu = "GPU 0 (gfx1100) has 65536 for one";
        let lds = "1049088 bytes of LDS (512 of the kernel's own, 1048576 dynamic)";
        check_refused(&rig, kernel, config([0; 3], 1 << 20), &["'nothing'", lds, gpu]);
        check_refused(&rig, kernel, config([0; 3], u32::MAX), &["'nothing'", "4294967807 bytes", gpu]);
        launch_in_each_way(&rig, kernel, config([0; 3], 65_024), &[], |launched| launched.unwrap());
        // All of it the kernel's own.
        let large = rig.executable(&Nothing { name: "large", lds: 66_304, ..Nothing::default() }.assemble()).unwrap();
        let lds = "'large' takes 66304 bytes of LDS (66304 of the kernel's own, 0 dynamic)";
        check_refused(&rig, (&large, "large"), config([0; 3], 0), &[lds, gpu]);
    }
}

#[test]
fn kernel_arguments_of_any_size_cost_nothing_before_they_are_refused() {
    let rig = Rig::new();
    let huge = rig.executable(&Nothing { kernargs: 1 << 30, ..Nothing::default() }.assemble()).unwrap();
    launch_in_each_way(&rig, (&huge, "nothing"), workgroups(1), &[], |launched| {
        let status = launched.expect_err("it is too large");
        assert_eq!(status.code(), Code::RESOURCE_EXHAUSTED, "{status}");
        let text = status.to_string();
        assert!(text.contains("'nothing' has 1073741824 bytes of kernel arguments"), "{text}");
    });
}

/// The words that a kernel with one binding, of `length` words, leaves there, launched in each way.
fn words(rig: &Rig, code: &[u8], name: &str, config: raw::iree_hal_dispatch_config_t, length: usize) -> Vec<Vec<u32>> {
    let executable = rig.executable(code).unwrap();
    let target = rig.buffer(4 * length);
    let mut found = Vec::new();
    launch_in_each_way(rig, (&executable, name), config, &[&target], |launched| {
        launched.unwrap();
        let bytes = rig.read(&target, 0, 4 * length);
        found.push(bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect());
        rig.write(&target, 0, &vec![0xaa; 4 * length]);
    });
    found
}

/// Stores the first words of the hidden arguments.
const HIDDEN: &str = "KERNEL void hidden(GLOBAL unsigned* target) {
  const CONSTANT unsigned* hidden = (const CONSTANT unsigned*)__builtin_amdgcn_implicitarg_ptr();
  if (__builtin_amdgcn_workgroup_id_x() + __builtin_amdgcn_workitem_id_x() == 0)
    for (int i = 0; i < COUNT; ++i) target[i] = hidden[i];
}";

#[test]
fn hidden_arguments_are_those_of_the_code_objects_version() {
    let rig = Rig::new();
    let mut config = config([32, 2, 1], 0);
    config.workgroup_count = [3, 1, 2];
    for level in ["-O0", "-O2"] {
        let code = |version, count| c(HIDDEN, &[level, version, count]);
        // Three offsets of the grid, of 64 bits each.
        let four = words(&rig, &code("-mcode-object-version=4", "-DCOUNT=6"), "hidden", config, 6);
        assert_eq!(four, vec![vec![0; 6]; 6], "{level}");
        // Counts, sizes, remainders, a hole, offsets, dimensions.
        let five = words(&rig, &code("-mcode-object-version=5", "-DCOUNT=17"), "hidden", config, 17);
        let expected = [3, 1, 2, 32 | 2 << 16, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(five, vec![expected.to_vec(); 6], "{level}");
    }
}

#[test]
fn dynamic_lds_is_told_to_kernels_that_ask() {
    let source = "extern __attribute__((address_space(3))) int shared[];
    KERNEL void size(GLOBAL unsigned* target) {
      const CONSTANT unsigned* hidden = (const CONSTANT unsigned*)__builtin_amdgcn_implicitarg_ptr();
      shared[0] = 1;
      *target = hidden[30];
    }";
    let rig = Rig::new();
    let code = c(source, &["-O2", "-mcode-object-version=5"]);
    assert_eq!(words(&rig, &code, "size", config([1; 3], 4096), 1), vec![vec![4096]; 6]);
}

#[test]
fn an_argument_that_nobody_provides_is_refused_by_its_name() {
    let rig = Rig::new();
    for kind in ["hidden_hostcall_buffer", "hidden_heap_v1", "hidden_queue_ptr", "hidden_printf_buffer"] {
        let metadata = format!("    .args:\n      - {{.offset: 0, .size: 8, .value_kind: {kind}}}");
        let code = Nothing { kernargs: 8, metadata: &metadata, ..Nothing::default() }.assemble();
        let nothing = rig.executable(&code).unwrap();
        launch_in_each_way(&rig, (&nothing, "nothing"), workgroups(1), &[], |launched| {
            let status = launched.expect_err("it is not provided");
            assert_eq!(status.code(), Code::UNIMPLEMENTED, "{status}");
            let text = status.to_string();
            assert!(text.contains(&format!("'nothing' reads the argument {kind}")), "{text}");
        });
        // A caller that passes all arguments has passed it.
        let (done, flags) = (rig.semaphore(), raw::IREE_HAL_DISPATCH_FLAG_CUSTOM_DIRECT_ARGUMENTS);
        let kernel = (&nothing, "nothing");
        rig.dispatch_with(1, &[], &[(&done, 1)], kernel, workgroups(1), &[0; 8], &[], flags).unwrap();
        wait(&done, 1).unwrap();
    }
}

#[test]
fn workgroup_counts_apart_are_filled_in_by_the_host_only() {
    let metadata = "    .args:
      - {.offset: 0, .size: 4, .value_kind: hidden_block_count_z}
      - {.offset: 8, .size: 4, .value_kind: hidden_block_count_x}";
    let rig = Rig::new();
    let code = Nothing { kernargs: 16, metadata, ..Nothing::default() }.assemble();
    let nothing = rig.executable(&code).unwrap();
    let mut results = Vec::new();
    launch_in_each_way(&rig, (&nothing, "nothing"), workgroups(1), &[], |launched| {
        results.push(launched.map_err(|status| status.code()));
    });
    let refused = Err(Code::UNIMPLEMENTED);
    assert_eq!(results, [Ok(()), Ok(()), Ok(()), refused, refused, refused]);
}

#[test]
fn a_kernel_whose_stack_grows_has_one() {
    // Calls of unknown depth, each with some words of its own.
    let source = "__attribute__((noinline)) int sum(int n) {
      volatile int words[8];
      words[n & 7] = n;
      return n == 0 ? 0 : words[n & 7] + sum(n - 1);
    }
    KERNEL void sums(GLOBAL int* target) { *target = sum(100); }";
    let rig = Rig::new();
    let code = c(source, &["-O1", "-fno-optimize-sibling-calls", "-mcode-object-version=5"]);
    assert_eq!(words(&rig, &code, "sums", config([1; 3], 0), 1), vec![vec![5050]; 6]);
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! IREE's CMake builds with this driver plugged in.

use std::fs;
use std::path::PathBuf;
use std::thread;

use super::{Build, hsa_headers, python, sysroot, tree};
use crate::error::{Context, Error, Result};
use crate::flavor::Flavor;
use crate::layout::Layout;
use crate::steps::{Step, Steps};

/// IREE's tools to build.
pub const TOOLS: &[&str] = &[
    "iree-run-module",
    "iree-check-module",
    "iree-benchmark-module",
    "iree-dump-module",
    "iree-profile",
    "iree-run-replay",
    "iree-benchmark-replay",
    "iree-dump-replay",
];

/// Configures if necessary, and builds. A change of the target rebuilds the kernels of the conformance tests only, and
/// nothing in a build without them.
///
/// # Errors
/// When CMake or the build fails.
pub fn ensure(layout: &Layout, steps: &Steps, build: Build) -> Result<()> {
    let source = tree::cmake_source(layout)?;
    let mut arguments = arguments(layout, &source.display().to_string());
    let mut name = "Configuring IREE".to_owned();
    if let Build::Cts(target) | Build::ToolsAndCts(target) = build {
        arguments.push(format!("-DIREE_ROCM_TEST_TARGET_CHIP={target}"));
        name = format!("Configuring IREE and its conformance tests for {target}");
    }
    let stamp = layout.cmake().join("configured-with.txt");
    let wanted: String = arguments.iter().map(|argument| format!("{argument}\n")).collect();
    let is_current = fs::read_to_string(&stamp).is_ok_and(|text| text.starts_with(&wanted));
    if !is_current {
        steps.step(&name, |step| {
            let mut cmake = layout.command(layout.venv_program("cmake"));
            cmake.args(&arguments);
            step.run(cmake)?;
            fs::write(&stamp, &wanted).context(|| format!("writing {}", stamp.display()))
        })?;
    }
    if let Build::Tools | Build::ToolsAndCts(_) | Build::Replay = build {
        steps.step("IREE's tools with this driver", |step| ninja(layout, step, TOOLS))?;
    }
    if let Build::Cts(_) | Build::ToolsAndCts(_) = build {
        let cts = below(layout, cts_folder(layout).join("all"))?;
        steps.step("IREE's conformance tests", |step| ninja(layout, step, &[&cts]))?;
    }
    if let Build::Bench = build {
        let program = below(layout, bench_program(layout))?;
        steps.step("The benchmark", |step| ninja(layout, step, &[&program]))?;
    }
    if let Build::Probes = build {
        let program = below(layout, probes_program(layout))?;
        steps.step("The probes", |step| ninja(layout, step, &[&program]))?;
    }
    if let Build::Replay = build {
        let program = below(layout, replay_program(layout))?;
        steps.step("The replay tool that writes results", |step| ninja(layout, step, &[&program]))?;
    }
    if let Build::Python = build {
        steps.step("IREE's Python bindings with this driver", |step| ninja(layout, step, &[PYTHON_MODULE]))?;
    }
    if let Build::Trace = build {
        let program = below(layout, capture_program(layout))?;
        steps
            .step("IREE's tool and what reads its trace", |step| ninja(layout, step, &["iree-run-module", &program]))?;
    }
    Ok(())
}

/// CMake's name of the extension module.
const PYTHON_MODULE: &str = "iree_runtime_bindings_python_PyExtRt";

/// Path of `iree-run-replay`, which also writes the final contents of buffers; see `tests/replay`.
pub fn replay_program(layout: &Layout) -> PathBuf {
    layout.cmake().join("runtime/plugins/hal/drivers/amdgpu_rs/tests/replay/run-replay-outputs")
}

/// Path of the program that reads the trace of another program; see `tests/trace`.
pub fn capture_program(layout: &Layout) -> PathBuf {
    layout.cmake().join("runtime/plugins/hal/drivers/amdgpu_rs/tests/trace/capture")
}

/// Path of the benchmark.
pub fn bench_program(layout: &Layout) -> PathBuf {
    layout.cmake().join("runtime/plugins/hal/drivers/amdgpu_rs/benches/submit")
}

/// Path of the probes of `tests/probes`.
pub fn probes_program(layout: &Layout) -> PathBuf {
    layout.cmake().join("runtime/plugins/hal/drivers/amdgpu_rs/tests/probes/probes")
}

/// Folder of the conformance-test programs, of the C driver or of this driver. IREE's CMake functions put an external
/// driver's products below `runtime/plugins`.
pub fn cts_folder(layout: &Layout) -> PathBuf {
    layout.cmake().join(match layout.flavor {
        Flavor::BesideC => "runtime/src/iree/hal/drivers/amdgpu/cts",
        Flavor::Plain | Flavor::Sanitized(_) | Flavor::Portable | Flavor::Python | Flavor::Traced => {
            "runtime/plugins/hal/drivers/amdgpu_rs/cts"
        }
    })
}

/// Path of the driver's library that IREE's build links.
pub fn driver_library(layout: &Layout) -> PathBuf {
    layout.cmake().join("runtime/plugins/hal/drivers/amdgpu_rs/cargo/release/libamdgpu_rs.a")
}

/// Ninja target of a product: its path below the build folder.
fn below(layout: &Layout, product: PathBuf) -> Result<String> {
    let path = product.strip_prefix(layout.cmake()).map_err(|error| Error::setup(error.to_string()))?;
    Ok(path.display().to_string())
}

fn ninja(layout: &Layout, step: &Step, targets: &[&str]) -> Result<()> {
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut ninja = layout.command("ninja");
    ninja.arg("-C").arg(layout.cmake()).arg(format!("-j{jobs}")).args(targets);
    step.run(ninja)
}

fn arguments(layout: &Layout, source: &str) -> Vec<String> {
    let build = &layout.build.display();
    let mut arguments: Vec<String> = ["-G", "Ninja", "-S", source, "-B"].map(Into::into).to_vec();
    arguments.push(layout.cmake().display().to_string());
    let cache = [
        "CMAKE_BUILD_TYPE=Release".to_owned(),
        "CMAKE_C_COMPILER=clang-22".to_owned(),
        "CMAKE_CXX_COMPILER=clang++-22".to_owned(),
        // Google Benchmark 1.9.1 makes errors of warnings that this newer clang has.
        "CMAKE_CXX_FLAGS=-Wno-c2y-extensions".to_owned(),
        "IREE_ENABLE_LLD=ON".to_owned(),
        "IREE_BUILD_COMPILER=OFF".to_owned(),
        "IREE_BUILD_TESTS=ON".to_owned(),
        "IREE_BUILD_SAMPLES=OFF".to_owned(),
        "IREE_BUILD_BINDINGS_TFLITE=OFF".to_owned(),
        "IREE_BUILD_BINDINGS_TFLITE_JAVA=OFF".to_owned(),
        "IREE_ENABLE_LIBBACKTRACE=OFF".to_owned(),
        "IREE_ERROR_ON_MISSING_SUBMODULES=OFF".to_owned(),
        "IREE_HAL_DRIVER_DEFAULTS=OFF".to_owned(),
        // The CPU reference, in the same tool.
        "IREE_HAL_DRIVER_LOCAL_SYNC=ON".to_owned(),
        format!("Python3_EXECUTABLE={build}/venv/bin/python3"),
        format!("IREE_HOST_BIN_DIR={}", layout.host_tools().display()),
        format!("IREE_CMAKE_PLUGIN_PATHS={}", layout.root.display()),
        "IREE_EXTERNAL_HAL_DRIVERS=amdgpu_rs".to_owned(),
    ];
    arguments.extend(cache.iter().map(|item| format!("-D{item}")));
    match layout.flavor {
        Flavor::Plain => {}
        Flavor::BesideC => {
            arguments.push("-DIREE_HAL_DRIVER_AMDGPU=ON".to_owned());
            arguments.push("-DIREE_HAL_AMDGPU_DEVICE_BINARY_BUILD_MODE=prebuilt".to_owned());
            if !tree::has_hsa_headers(layout) {
                arguments.push(format!("-DCMAKE_C_FLAGS={}", hsa_headers::C_FLAGS));
            }
        }
        Flavor::Portable => {
            arguments.push(format!("-DCMAKE_SYSROOT={}", sysroot::folder(layout).display()));
            arguments.push("-DCMAKE_EXE_LINKER_FLAGS=-static-libstdc++".to_owned());
        }
        Flavor::Python => {
            arguments.push("-DIREE_BUILD_PYTHON_BINDINGS=ON".to_owned());
            // The bindings' tests ask for pyright.
            arguments.push("-DIREE_BUILD_TESTS=OFF".to_owned());
            // PyPI's nanobind instead of a clone.
            arguments.push("-DFETCHCONTENT_TRY_FIND_PACKAGE_MODE=ALWAYS".to_owned());
            arguments.push(format!("-Dnanobind_DIR={}", python::nanobind(layout).join("cmake").display()));
        }
        Flavor::Traced => {
            arguments.push("-DIREE_ENABLE_RUNTIME_TRACING=ON".to_owned());
            arguments.push("-DIREE_TRACING_PROVIDER=tracy".to_owned());
        }
        Flavor::Sanitized(sanitizer) => {
            arguments.push(format!("-D{}=ON", sanitizer.iree_option()));
            // Reports name lines.
            arguments.push("-DCMAKE_C_FLAGS=-gline-tables-only -fno-omit-frame-pointer".to_owned());
        }
    }
    arguments
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kernels that tests compile or assemble with clang 22 from their text.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The first lines of C kernels.
pub const C: &str = "#define GLOBAL __attribute__((address_space(1)))
#define CONSTANT __attribute__((address_space(4)))
#define KERNEL __attribute__((amdgpu_kernel, visibility(\"protected\")))
";

/// The code object that clang makes of `source`, in `language` (`c`, `assembler`), for the processor `cpu`.
pub fn compile(cpu: &str, language: &str, source: &str, options: &[&str]) -> Vec<u8> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("{}-{}.co", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new("clang-22");
    command.args([
        "-target",
        "amdgcn-amd-amdhsa",
        &format!("-mcpu={cpu}"),
        "-nogpulib",
        "-fuse-ld=lld",
        "-Wno-unused-command-line-argument",
    ]);
    command.args(options).args(["-x", language, "-", "-o"]).arg(&path).stdin(Stdio::piped());
    let mut child = command.spawn().expect("clang-22, of the package of that name");
    child.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("clang reads its source");
    assert!(child.wait().expect("it ends").success(), "{command:?} of:\n{source}");
    let bytes = std::fs::read(&path).expect("clang has written it");
    std::fs::remove_file(&path).expect("it is there");
    bytes
}

/// Kernels for gfx1100 in C.
pub fn c(source: &str, options: &[&str]) -> Vec<u8> {
    compile("gfx1100", "c", &format!("{C}{source}"), &[&["-std=c23"], options].concat())
}

/// A kernel for gfx1100 that does nothing. Its other properties are those of most kernels.
#[derive(Clone, Copy)]
pub struct Nothing<'a> {
    pub name: &'a str,
    /// Bytes of LDS.
    pub lds: u32,
    /// Bytes of kernel arguments.
    pub kernargs: u32,
    /// Most work-items of a workgroup.
    pub most: u32,
    /// Further lines of its metadata, each with its indentation of four.
    pub metadata: &'a str,
}

impl Default for Nothing<'_> {
    fn default() -> Self {
        Self { name: "nothing", lds: 0, kernargs: 0, most: 1024, metadata: "" }
    }
}

impl Nothing<'_> {
    /// Code object of the kernel.
    pub fn assemble(self) -> Vec<u8> {
        let Self { name, lds, kernargs, most, metadata } = self;
        let source = format!(
            ".text
.globl {name}
.p2align 8
.type {name},@function
{name}:
  s_endpgm
.size {name}, .-{name}
.rodata
.p2align 6
.amdhsa_kernel {name}
 .amdhsa_group_segment_fixed_size {lds}
 .amdhsa_user_sgpr_kernarg_segment_ptr 1
 .amdhsa_kernarg_size {kernargs}
 .amdhsa_next_free_vgpr 1
 .amdhsa_next_free_sgpr 1
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx1100
amdhsa.kernels:
  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: {kernargs}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 1
    .vgpr_count: 1
    .max_flat_workgroup_size: {most}
{metadata}
...
.end_amdgpu_metadata
"
        );
        compile("gfx1100", "assembler", &source, &["-mcode-object-version=5"])
    }
}

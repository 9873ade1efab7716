// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Gives the shared library the name that programs look for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhsa-amd-aqlprofile64.so.1");
}

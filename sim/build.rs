// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Gives the shared library the name that HSA programs are linked against.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhsa-runtime64.so.1");
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! IREE's C runtime, for programs without a CMake project.
//!
//! The driver is a static library whose IREE symbols are resolved when IREE links its tools. A program made by cargo
//! has no such link; this crate has CMake build the runtime and links it. It holds no Rust: the bindings are the
//! driver's, made with the definitions that this build reports.

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Code: the loader of code objects, executables, and kernels that another runtime loaded.

pub mod executable;
pub mod foreign;
pub mod kernel;
pub mod loader;
pub mod source;

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The driver's own logic, in layers that import downward only, from the GPUs at the bottom to the logical device at
//! the top (`docs/design/architecture.md`).

pub mod gpu;
pub mod memory;
pub mod operations;
pub mod profile;
pub mod program;
pub mod queue;

pub mod collectives;
pub mod device;
pub mod executable;

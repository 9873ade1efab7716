// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs kernels of code objects on the software GPU, with checks: a tool for authors of kernels and of compilers.
//! `docs/sim/checks.md` shows its use. The program's [`command`] and the Python package `amdgpu_sim` are its users.
//!
//! Modules name only those before them: [`number`], [`arguments`], [`code`], [`kernargs`], [`printf`],
//! [`hostcall`], [`gpu`], [`dump`], [`paths`], [`command`].

pub mod arguments;
pub mod code;
pub mod command;
pub mod dump;
pub mod gpu;
pub mod hostcall;
pub mod kernargs;
pub mod number;
pub mod paths;
pub mod printf;

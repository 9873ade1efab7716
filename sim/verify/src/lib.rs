// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Verification of the software GPU: random kernels against compilers ([`kernels`]), coverage of instruction sets
//! ([`isa`]), and models' kernels without an instruction, which its checks must find ([`mutations`]). `cargo xtask
//! kernels`, `isa` and `check-mutations` run them.

pub mod isa;
pub mod kernels;
pub mod mutations;

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Verification of the software GPU against compilers: random kernels ([`kernels`]) and coverage of instruction sets
//! ([`isa`]). `cargo xtask kernels` and `cargo xtask isa` run them.

pub mod isa;
pub mod kernels;

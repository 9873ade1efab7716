// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host code made at run time: an encoder of the x86-64 instructions that templates of GPU instructions need
//! ([`Assembler`]), and memory that is first written and then executed ([`Code`]). Other hosts have neither.
//!
//! The encoder knows a few forms, not instructions: a vector operation is its opcode ([`Vector`]), which is the same in
//! the encodings for 256 and 512 bits. Tests compare its output with iced-x86's decoder.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod assembler;
mod code;

pub use assembler::{Assembler, Condition, Gpr, Jump, Mask, Mem, Rm, Scalar, Shift, Vector, Width, vector};
pub use code::Code;

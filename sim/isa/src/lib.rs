// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! AMDGPU machine code: instruction tables, decoder, disassembler.
//!
//! [`decode()`] turns dwords into an [`Inst`]; `Inst` displays itself in LLVM's assembler syntax. Everything an op is on each target
//! stands in one row of `table.rs`.

mod decode;
mod display;
mod immediate;
mod inst;
mod names;
mod op;
mod table;

pub use decode::{DecodeError, DecodeFault, decode};
pub use inst::{Dpp, Format, Inst, Matrix, Mem, Operand, Sdwa, Select, Unused};
pub use op::{Encoding, Op, OpInfo, Target, Targets, Ty};

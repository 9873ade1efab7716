// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! AMDGPU machine code: instruction tables, decoder, disassembler.
//!
//! [`decode()`] turns dwords into an [`Inst`]; `Inst` displays itself in LLVM's assembler syntax. Everything an op is
//! on each target stands in one row of `table.rs`.

mod bits;
mod constant;
mod decode;
mod display;
mod encoding;
mod error;
mod flags;
mod inst;
mod names;
mod op;
mod table;
mod target;

pub use decode::decode;
pub use encoding::{Encoding, Format, Ty};
pub use error::{DecodeError, DecodeFault};
pub use flags::Flags;
pub use inst::{Dpp, Inst, Matrix, Mem, Operand, Sdwa, Select, Unused};
pub use op::{Op, OpInfo};
pub use target::{Target, Targets};

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A debugger for kernels on the software GPU. A [`Debugger`] decides where waves stop; its user gives text commands
//! ([`console`]).
//!
//! Modules name only those before them: [`code`], [`values`], [`breakpoint`], [`session`], [`views`], [`console`].

pub mod breakpoint;
pub mod code;
pub mod console;
pub mod session;
pub mod values;
pub mod views;

pub use code::{Code, Instruction, Position};
pub use session::{Debugger, Dispatch};

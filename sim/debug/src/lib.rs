// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A debugger for kernels on the software GPU. A [`Debugger`] decides where waves stop; its user gives text commands
//! ([`console`]), or is an editor that speaks the Debug Adapter Protocol ([`dap`]).
//!
//! Modules name only those before them: [`code`], [`values`], [`breakpoint`], [`session`], [`views`], [`console`],
//! [`dap`].

pub mod breakpoint;
pub mod code;
pub mod console;
pub mod dap;
pub mod session;
pub mod values;
pub mod views;

pub use code::{Code, Instruction, Position};
pub use session::{Debugger, Dispatch};

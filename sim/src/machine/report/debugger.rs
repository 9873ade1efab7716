// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The debugger of `HSA_SIM_DEBUG`: which one is requested, and the kernels that it sees.

use std::io;
use std::path::PathBuf;

use sim_debug::{Code, Debugger, Instruction, Position, console};

use crate::machine::code::kernel::Kernel;

/// User of the debugger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Commands from standard input.
    Console,
    /// Commands from a file.
    Script(PathBuf),
}

impl Asked {
    /// Parses `console` or `script:FILE`. The error lists the accepted values.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "console" => Ok(Self::Console),
            Some(("script", path)) if !path.is_empty() => Ok(Self::Script(path.into())),
            _ => Err("expected console or script:FILE".into()),
        }
    }

    /// Opens the debugger.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(&self) -> io::Result<Debugger> {
        match self {
            Self::Console => Ok(console::on_terminal()),
            Self::Script(path) => console::by_script(path).map_err(|error| {
                io::Error::new(error.kind(), format!("HSA_SIM_DEBUG=script:{}: {error}", path.display()))
            }),
        }
    }
}

/// The instructions of a kernel as a debugger sees them.
pub fn code(kernel: &Kernel, decoded: &sim_wave::Kernel) -> Code {
    let mut lines = decoded.listing();
    // With jumps to registers, the second halves of instructions are decoded, too.
    let mut end = 0;
    lines.retain(|line| {
        let is_outside = line.offset >= end;
        if is_outside {
            end = line.offset + decoded.size(line.offset);
        }
        is_outside
    });
    let positions = match &kernel.sources {
        Some(sources) => sources.positions(lines.iter().map(|line| line.pc)),
        None => vec![None; lines.len()],
    };
    let instruction = |(line, position): (sim_wave::Line, Option<(String, u32)>)| Instruction {
        pc: line.pc,
        offset: line.offset,
        text: line.text,
        position: position.map(|(file, line)| Position { file: file.into(), line }),
    };
    let instructions = lines.into_iter().zip(positions).map(instruction).collect();
    Code { name: kernel.name.clone(), entry: kernel.entry(), instructions }
}

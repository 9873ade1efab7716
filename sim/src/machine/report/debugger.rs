// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Kernels as the debugger of `HSA_SIM_DEBUG` sees them.

use sim_debug::{Code, Instruction, Position};

use crate::machine::code::kernel::Kernel;

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

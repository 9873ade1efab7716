// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Errors of the decoder.

use std::fmt;

use crate::encoding::Format;
use crate::names;
use crate::op::Op;
use crate::target::Target;

/// Why dwords are not an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeFault {
    /// No encoding of the target has these leading bits, or one that is graphics-only.
    Encoding,
    /// The encoding is known, the opcode in it is not.
    Opcode {
        /// The encoding.
        format: Format,
        /// The opcode.
        code: u16,
    },
    /// An operand field holds a value that names nothing.
    Operand {
        /// The op.
        op: Op,
        /// The field's value.
        code: u16,
    },
    /// The instruction goes on beyond the end of the code.
    Truncated,
}

/// Dwords that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The target whose table was used.
    pub target: Target,
    /// The dwords at the failing instruction, at most three.
    pub words: Vec<u32>,
    /// Byte offset of the first of them in the code, as told by [`DecodeError::at`]; 0 before.
    pub offset: u64,
    /// The fault.
    pub fault: DecodeFault,
}

impl DecodeError {
    /// Returns the error, placed at byte `offset` of the code.
    pub fn at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Describes the fault, with the mnemonic if there is one.
    pub fn reason(&self) -> String {
        let target = self.target;
        match (self.fault, self.mnemonic()) {
            (DecodeFault::Encoding, None) => format!("no {target:?} instruction encoding matches"),
            (DecodeFault::Encoding, Some(name)) => format!("{name} of {target:?} is not decoded"),
            (DecodeFault::Opcode { format, code }, None) => {
                format!("unknown {format:?} opcode {code:#x} for {target:?}")
            }
            (DecodeFault::Opcode { format, code }, Some(name)) => {
                format!("{name} of {target:?} ({format:?} opcode {code:#x}) is not decoded")
            }
            (DecodeFault::Operand { op, code }, _) => {
                format!("operand code {code} of {} is reserved or not known", op.name_on(target))
            }
            (DecodeFault::Truncated, _) => "the code ends within an instruction".to_owned(),
        }
    }

    /// LLVM's mnemonic of the instruction, where the opcode tells it. Without a mnemonic there is no such instruction.
    pub fn mnemonic(&self) -> Option<&'static str> {
        match self.fault {
            DecodeFault::Operand { op, .. } => Some(op.name_on(self.target)),
            DecodeFault::Opcode { format, code } => names::of_opcode(self.target, format, code),
            DecodeFault::Encoding => names::of_graphics(self.target, *self.words.first()?),
            DecodeFault::Truncated => None,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {:#x}: words", self.reason(), self.offset)?;
        self.words.iter().try_for_each(|word| write!(f, " {word:08x}"))
    }
}

impl std::error::Error for DecodeError {}

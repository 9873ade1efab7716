// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! LLVM's assembler syntax for [`Inst`].

use std::fmt::{self, Display, Formatter};

use crate::encoding::Format;
use crate::inst::Inst;
use memory::{buffer, ds, flat, smem, tensor};
use scalar::scalar;
use vector::{scales, vector, vopd};

mod immediate;
mod memory;
mod operand;
mod scalar;
mod vector;

impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.format {
            Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp => scalar(self, f),
            Format::Smem => smem(self, f),
            Format::Vopd | Format::Vopd3 => vopd(self, f),
            Format::Vop3p if self.op.loads_scales() => scales(self, f),
            Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3sd | Format::Vop3p => {
                vector(self, f)
            }
            Format::Ds => ds(self, f),
            Format::Mubuf | Format::Mtbuf => buffer(self, f),
            Format::Flat | Format::Global | Format::Scratch => flat(self, f),
            Format::Vimage => tensor(self, f),
        }
    }
}

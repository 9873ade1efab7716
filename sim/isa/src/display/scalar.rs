// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! SOP1, SOP2, SOPC, SOPK and SOPP.

use std::fmt::{self, Formatter, Write};

use super::immediate;
use super::operand::List;
use crate::inst::Inst;
use crate::op::Op;

pub(super) fn scalar(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    f.write_str(inst.op.name_on(inst.target))?;
    let mut list = List::new(f, inst);
    // `s_setreg*` name the hardware register before the source.
    if matches!(inst.op, Op::SSetregB32 | Op::SSetregImm32B32) {
        list.item(immediate::Text(inst))?;
        return list.operand(inst.src[0], info.src[0]);
    }
    list.operand(inst.dst, info.dst)?;
    for (operand, ty) in inst.src.iter().zip(info.src) {
        list.operand(*operand, *ty)?;
    }
    let mut text = String::new();
    write!(text, "{}", immediate::Text(inst))?;
    if text.is_empty() { Ok(()) } else { list.item(text) }
}

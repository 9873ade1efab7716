// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Text of the 16-bit immediates of SOPK and SOPP, and of `ds_swizzle` patterns.

use std::fmt::{self, Display, Formatter};

use crate::encoding::Format;
use crate::flags::Flags;
use crate::inst::Inst;
use crate::op::Op;

/// The immediate of an instruction; empty where it has none.
pub(crate) struct Text<'a>(pub &'a Inst);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let inst = self.0;
        let value = inst.simm as u16;
        match inst.op {
            Op::SEndpgm if value == 0 => Ok(()),
            Op::SBarrier | Op::SCodeEnd | Op::SWakeup | Op::SIcacheInv | Op::SEndpgmSaved | Op::STtracedata => Ok(()),
            Op::SWaitIdle | Op::SEndpgmOrderedPsDone | Op::SBarrierLeave => Ok(()),
            Op::SSetGprIdxOff => Ok(()),
            Op::SSetGprIdxOn | Op::SSetGprIdxMode => gpr_idx(value, f),
            Op::SWaitcnt if inst.target.is_gfx9() => {
                waitcnt([value & 0xf | value >> 10 & 0x30, value >> 4 & 7, value >> 8 & 0xf], 0xf, f)
            }
            Op::SWaitcnt if inst.target.is_before_gfx11() => {
                waitcnt([value & 0xf | value >> 10 & 0x30, value >> 4 & 7, value >> 8 & 0x3f], 0x3f, f)
            }
            Op::SWaitcnt => waitcnt([value >> 10, value & 7, value >> 4 & 0x3f], 0x3f, f),
            Op::SDelayAlu => delay_alu(value, f),
            Op::SSendmsgRtnB32 | Op::SSendmsgRtnB64 => write!(f, "{value}"),
            Op::SGetregB32 | Op::SSetregB32 | Op::SSetregImm32B32 => {
                write!(f, "hwreg({}, {}, {})", value & 0x3f, value >> 6 & 0x1f, (value >> 11) + 1)
            }
            op if op.has(Flags::BRANCH) => write!(f, "{value}"),
            _ if inst.format == Format::Sopk => write!(f, "{value:#x}"),
            op if op.has(Flags::HEX) => write!(f, "{value:#x}"),
            Op::SEndpgm => write!(f, "{value}"),
            _ if inst.format == Format::Sopp && value > 64 => write!(f, "{value:#x}"),
            _ if inst.format == Format::Sopp => write!(f, "{value}"),
            _ => Ok(()),
        }
    }
}

/// RDNA3 ISA, S_WAITCNT: expcnt in bits 0..3, lgkmcnt in 4..10, vmcnt in 10..16. Vega ISA: vmcnt in bits 0..4 and
/// 14..16, expcnt in 4..7, lgkmcnt in 8..12 (RDNA2 ISA: 8..14). A counter at its maximum is not waited for.
fn waitcnt([vmcnt, expcnt, lgkmcnt]: [u16; 3], most_lgkmcnt: u16, f: &mut Formatter<'_>) -> fmt::Result {
    let counters = [("vmcnt", vmcnt, 0x3f), ("expcnt", expcnt, 7), ("lgkmcnt", lgkmcnt, most_lgkmcnt)];
    let waits_for_none = counters.iter().all(|(_, count, most)| count == most);
    let mut separator = "";
    for (name, count, most) in counters {
        if count != most || waits_for_none {
            write!(f, "{separator}{name}({count})")?;
            separator = " ";
        }
    }
    Ok(())
}

/// Vega ISA, S_SET_GPR_IDX_ON: which operands are indexed.
fn gpr_idx(value: u16, f: &mut Formatter<'_>) -> fmt::Result {
    let names = ["SRC0", "SRC1", "SRC2", "DST"];
    if value > 0xf {
        return write!(f, "{value:#x}");
    }
    let named: Vec<_> = (0..4).filter(|at| value >> at & 1 != 0).map(|at| names[at]).collect();
    write!(f, "gpr_idx({})", named.join(","))
}

/// RDNA3 ISA, S_DELAY_ALU: id 0 in bits 0..4, skip in 4..7, id 1 in 7..11.
fn delay_alu(value: u16, f: &mut Formatter<'_>) -> fmt::Result {
    let (first, skip, second) = (value & 0xf, value >> 4 & 7, value >> 7 & 0xf);
    if value == 0 {
        return f.write_str("0");
    }
    let mut separator = "";
    if first != 0 {
        write!(f, "instid0({})", Dependency(first))?;
        separator = " | ";
    }
    if skip != 0 {
        let name = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"].get(usize::from(skip));
        let name = name.unwrap_or(&"/* invalid instskip value */");
        write!(f, "{separator}instskip({name})")?;
        separator = " | ";
    }
    if second != 0 {
        write!(f, "{separator}instid1({})", Dependency(second))?;
    }
    Ok(())
}

/// Dependency that `s_delay_alu` waits for.
struct Dependency(u16);

impl Display for Dependency {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("NO_DEP"),
            n @ 1..=4 => write!(f, "VALU_DEP_{n}"),
            n @ 5..=7 => write!(f, "TRANS32_DEP_{}", n - 4),
            8 => f.write_str("FMA_ACCUM_CYCLE_1"),
            n @ 9..=11 => write!(f, "SALU_CYCLE_{}", n - 8),
            _ => f.write_str("/* invalid instid value */"),
        }
    }
}

/// RDNA3 ISA, DS_SWIZZLE_B32: bit 15 set is a quad permutation, else AND, OR and XOR masks of five bits.
pub(crate) fn swizzle(offset: u16, f: &mut Formatter<'_>) -> fmt::Result {
    if offset == 0 { Ok(()) } else { write!(f, " offset:{offset}") }
}

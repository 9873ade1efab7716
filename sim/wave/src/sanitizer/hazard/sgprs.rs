// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Scalar registers of gfx12 that vector arithmetic has read, and that are written and read again: the second read may
//! get the old value (LLVM's `AMDGPUWaitSGPRHazards.cpp`, whose state of a block this keeps for a wave).

use super::facts::{AluCounter, Facts, Kind, Regs};
use super::look::Hazard;
use crate::hardware::slot;
use sim_isa::Op;

const COUNT: usize = slot::NULL;
/// Bits of VCC.
const VCC: u128 = 3 << slot::VCC;

/// History of a wave's scalar registers.
#[derive(Clone)]
pub(crate) struct Sgprs {
    /// Pairs that vector arithmetic has read.
    tracked: u64,
    /// Registers whose value may be outstanding, from scalar arithmetic and from vector arithmetic.
    scalar: u128,
    vector: u128,
    /// The instructions that wrote them last.
    writers: [u32; COUNT],
    /// `ds_nop` in a row.
    nops: u8,
}

impl Sgprs {
    pub const NEW: Sgprs = Sgprs { tracked: 0, scalar: 0, vector: 0, writers: [0; COUNT], nops: 0 };

    /// Adds the history of another path to the same place. True if that is more. Successive `ds_nop` are not counted
    /// across it.
    pub fn join(&mut self, other: &Sgprs) -> bool {
        let before = (self.tracked, self.scalar, self.vector);
        let new = (other.scalar | other.vector) & !(self.scalar | self.vector);
        for slot in (0..COUNT).filter(|slot| new >> slot & 1 != 0) {
            self.writers[slot] = other.writers[slot];
        }
        self.tracked |= other.tracked;
        self.scalar |= other.scalar;
        self.vector |= other.vector;
        self.nops = 0;
        before != (self.tracked, self.scalar, self.vector)
    }

    /// Checks an instruction that a wave reaches: finds its read of a register that it must wait for.
    pub fn step(&mut self, number: u32, facts: &Facts, wave64: bool) -> Option<Hazard> {
        if facts.op == Op::DsNop {
            self.nops += 1;
            if self.nops >= if wave64 { 8 } else { 4 } {
                self.tracked = 0;
            }
            return None;
        }
        self.nops = 0;
        let kind = facts.kind;
        if kind.contains(Kind::SMEM) || kind.contains(Kind::VMEM) && !kind.contains(Kind::FLAT_ENCODED) {
            (self.scalar, self.vector) = (0, 0);
            return None;
        }
        if facts.op == Op::SWaitcntDepctr {
            if facts.waits_for(AluCounter::VaVcc) {
                self.vector &= !VCC;
            }
            if facts.waits_for(AluCounter::VaSdst) {
                self.vector &= VCC;
            }
            if facts.waits_for(AluCounter::SaSdst) {
                self.scalar = 0;
            }
            return None;
        }
        if !kind.intersects(Kind::VALU | Kind::SALU) {
            return None;
        }
        let is_vector = kind.contains(Kind::VALU);
        let mut found = None;
        let implied = kind.contains(Kind::DIV_FMAS).then_some(Regs::VCC);
        for regs in facts.reads().chain(implied) {
            for slot in regs.named() {
                let bit = 1u128 << slot;
                if self.tracked >> (slot / 2) & 1 == 0 {
                    if is_vector {
                        self.tracked |= 1 << (slot / 2);
                    }
                    continue;
                }
                if !is_vector {
                    // Scalar arithmetic waits for vector arithmetic by itself.
                    self.vector &= if VCC & bit != 0 { !VCC } else { VCC };
                }
                let (by, wait) = match (self.scalar & bit != 0, self.vector & bit != 0) {
                    (true, _) => ("scalar", "sa_sdst"),
                    (false, true) if VCC & bit != 0 => ("vector", "va_vcc"),
                    (false, true) => ("vector", "va_sdst"),
                    (false, false) => continue,
                };
                let what = format!(
                    "{} was read by vector arithmetic before, is written by {by} arithmetic and read again: s_wait_alu \
                     depctr_{wait}(0) is needed between the two",
                    regs.name()
                );
                found = found.or(Some(Hazard { what, other: self.writers[slot] }));
            }
        }
        if found.is_some() {
            (self.scalar, self.vector) = (0, 0);
        }
        for slot in facts.writes().flat_map(Regs::named) {
            if self.tracked >> (slot / 2) & 1 != 0 {
                let (set, other) =
                    if is_vector { (&mut self.vector, &mut self.scalar) } else { (&mut self.scalar, &mut self.vector) };
                *set |= 1 << slot;
                *other &= !(1 << slot);
                self.writers[slot] = number;
            }
        }
        found
    }
}

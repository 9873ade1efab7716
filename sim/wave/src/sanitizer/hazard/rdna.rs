// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hazards of gfx10 and later. They need instructions that wait for outstanding work; no count of wait states helps.

use super::Rule;
use super::facts::{AluCounter, Facts, Kind, Regs};
use super::look::{Hazard, Look};
use crate::hardware::slot;
use sim_isa::{Flags, Op, Target};

/// Distance of rules that no number of wait states satisfies.
const ANY: u8 = u8::MAX;

const GFX1010: &[Target] = &[Target::Gfx1010];
const GFX11: &[Target] = &[Target::Gfx11, Target::Gfx1150];
const GFX1250: &[Target] = &[Target::Gfx1250];

/// Rules from LLVM's features; gfx1030 to gfx1036 have none of these. `Look::since` goes back at most as far as
/// the window of a wave does, where LLVM goes back to the beginning.
pub(super) const RULES: &[Rule] = &[
    // `fixVMEMtoScalarWriteHazards`.
    Rule {
        on: GFX1010,
        earlier: Kind::VMEM.union(Kind::LDS),
        later: Kind::SALU.union(Kind::SMEM),
        within: ANY,
        look: memory_before_scalar_write,
    },
    // `fixSMEMtoVectorWriteHazards`.
    Rule { on: GFX1010, earlier: Kind::SMEM, later: Kind::VALU, within: ANY, look: scalar_memory_before_vector_write },
    // `fixVcmpxExecWARHazard`.
    Rule {
        on: GFX1010,
        earlier: Kind::READS_EXEC,
        later: Kind::WRITES_EXEC,
        within: ANY,
        look: exec_before_vector_write,
    },
    // `fixLdsBranchVmemWARHazard`.
    Rule {
        on: GFX1010,
        earlier: Kind::BRANCH,
        later: Kind::VMEM.union(Kind::LDS),
        within: ANY,
        look: lds_branch_memory,
    },
    // `checkFPAtomicToDenormModeHazard` is about a mode that kernels do not set between atomics: it is not here.
    // `fixVcmpxPermlaneHazards`.
    Rule {
        on: &[Target::Gfx1010, Target::Gfx11, Target::Gfx1150, Target::Gfx1200, Target::Gfx1250],
        earlier: Kind::CMPX,
        later: Kind::PERMLANE,
        within: ANY,
        look: compare_before_permlane,
    },
    // `fixVALUTransUseHazard`, which RDNA3.5 does not need.
    Rule { on: &[Target::Gfx11], earlier: Kind::TRANS, later: Kind::VALU, within: ANY, look: transcendental },
    // `fixWMMAHazards`.
    Rule {
        on: &[Target::Gfx11, Target::Gfx1150, Target::Gfx1200],
        earlier: Kind::WMMA,
        later: Kind::WMMA,
        within: ANY,
        look: matrices,
    },
    // `fixVALUTransCoexecutionHazards`.
    Rule { on: GFX1250, earlier: Kind::TRANS, later: Kind::VALU, within: ANY, look: beside_transcendental },
    // `fixWMMACoexecutionHazards`.
    Rule { on: GFX1250, earlier: Kind::XDL, later: Kind::VALU, within: ANY, look: beside_matrix },
    // `fixSetRegMode` of LLVM 23.
    Rule { on: GFX1250, earlier: Kind::VALU, later: Kind::SETREG, within: ANY, look: mode },
    // `fixDsAtomicAsyncBarrierArriveB64`.
    Rule {
        on: GFX1250,
        earlier: Kind::VMEM.union(Kind::LDS),
        later: Kind::VMEM.union(Kind::LDS),
        within: ANY,
        look: arrival,
    },
    // X_CNT of `SIInsertWaitcnts.cpp`.
    Rule {
        on: GFX1250,
        earlier: Kind::VMEM.union(Kind::SMEM),
        later: Kind::VALU.union(Kind::SALU).union(Kind::SMEM).union(Kind::LDS),
        within: ANY,
        look: translation,
    },
    // `fixScratchBaseForwardingHazard`.
    Rule {
        on: GFX1250,
        earlier: Kind::VALU.union(Kind::SALU),
        later: Kind::VALU.union(Kind::SALU),
        within: ANY,
        look: scratch_base,
    },
];

/// Rules for waves of 64 lanes.
pub(super) const WIDE_RULES: &[Rule] = &[
    // `fixVALUPartialForwardingHazard`.
    Rule { on: GFX11, earlier: Kind::SALU, later: Kind::VALU, within: ANY, look: partial_forwarding },
    // `fixVALUMaskWriteHazard`.
    Rule { on: GFX11, earlier: Kind::MASKED, later: Kind::SALU.union(Kind::VALU), within: ANY, look: mask_write },
];

fn is_vector(facts: &Facts) -> bool {
    facts.kind.contains(Kind::VALU)
}

fn is_memory(facts: &Facts) -> bool {
    facts.kind.intersects(Kind::VMEM | Kind::LDS)
}

/// True for an op that separates two vector ops of gfx1250: another vector op, and a transfer between memory and LDS,
/// which LLVM's `SIInstrInfo::isVALU` counts as one.
fn separates(facts: &Facts) -> bool {
    is_vector(facts)
        || facts.kind.contains(Kind::VMEM) && facts.op.has(Flags::ASYNC)
        || matches!(facts.op, Op::TensorLoadToLds | Op::TensorStoreFromLds)
}

/// Counts EXEC only as a named destination: LLVM checks explicit ones, and puts `s_and_saveexec` behind memory
/// accesses.
fn memory_before_scalar_write(look: &Look) -> Option<Hazard> {
    look.this.writes().filter(|regs| regs.is_scalar()).find_map(|regs| {
        let reads = |facts: &Facts| is_memory(facts) && (facts.reads_any_of(regs) || regs.overlaps(Regs::EXEC));
        let ends = |facts: &Facts| {
            is_vector(facts) || facts.op == Op::SWaitcnt && facts.simm == 0 || facts.waits_for(AluCounter::VmVsrc)
        };
        let other = look.since(reads, ends)?;
        let what = format!(
            "{} is read by a memory access and overwritten: vector arithmetic or s_waitcnt_depctr vm_vsrc(0) is needed \
             between the two",
            regs.name()
        );
        Some(Hazard { what, other })
    })
}

fn scalar_memory_before_vector_write(look: &Look) -> Option<Hazard> {
    look.this.writes().filter(|regs| regs.is_scalar()).find_map(|regs| {
        let reads = |facts: &Facts| facts.kind.contains(Kind::SMEM) && facts.reads_any_of(regs);
        let ends = |facts: &Facts| match facts.op {
            Op::SWaitcntVscnt | Op::SWaitcntVmcnt | Op::SWaitcntExpcnt => false,
            Op::SWaitcntLgkmcnt => facts.simm == 0,
            Op::SWaitcnt => facts.simm >> 8 & 63 == 0,
            _ => facts.kind.contains(Kind::SALU) && !facts.kind.contains(Kind::CONTROL),
        };
        let other = look.since(reads, ends)?;
        let what = format!(
            "{} is read by a scalar load and overwritten by vector arithmetic: scalar arithmetic or s_waitcnt \
             lgkmcnt(0) is needed between the two",
            regs.name()
        );
        Some(Hazard { what, other })
    })
}

fn exec_before_vector_write(look: &Look) -> Option<Hazard> {
    if !is_vector(look.this) {
        return None;
    }
    let reads = |facts: &Facts| !is_vector(facts) && facts.kind.contains(Kind::READS_EXEC);
    let ends = |facts: &Facts| {
        is_vector(facts) && facts.writes().any(|regs| regs.is_scalar()) || facts.waits_for(AluCounter::SaSdst)
    };
    let other = look.since(reads, ends)?;
    let what =
        "exec is read and overwritten by vector arithmetic: s_waitcnt_depctr sa_sdst(0) is needed between the two";
    Some(Hazard { what: what.to_owned(), other })
}

/// An access to LDS and one to memory, or the other way around, with a branch between. Flat accesses are neither.
fn lds_branch_memory(look: &Look) -> Option<Hazard> {
    let of = |facts: &Facts| match facts.kind {
        kind if kind.contains(Kind::LDS) => Some(true),
        kind if kind.contains(Kind::VMEM) && !kind.contains(Kind::FLAT) => Some(false),
        _ => None,
    };
    let this = of(look.this)?;
    let mut has_branched = false;
    for (other, facts) in look.back() {
        if facts.op == Op::SWaitcntVscnt && facts.simm == 0 {
            return None;
        }
        match of(facts) {
            Some(kind) if has_branched && kind != this => {
                let what = "LDS and memory are accessed on the two sides of a branch: s_waitcnt_vscnt null, 0x0 is \
                            needed between the two";
                return Some(Hazard { what: what.to_owned(), other });
            }
            Some(_) => return None,
            None => has_branched |= facts.kind.contains(Kind::BRANCH),
        }
    }
    None
}

fn compare_before_permlane(look: &Look) -> Option<Hazard> {
    // v_nop does not get as far.
    let ends = |facts: &Facts| is_vector(facts) && !facts.kind.contains(Kind::NOP);
    let other = look.since(|facts| is_vector(facts) && facts.kind.contains(Kind::CMPX), ends)?;
    let what = "exec is written by v_cmpx before a permutation: vector arithmetic other than v_nop is needed between \
                the two";
    Some(Hazard { what: what.to_owned(), other })
}

fn transcendental(look: &Look) -> Option<Hazard> {
    let (mut vectors, mut transcendentals) = (0, 0);
    for (other, facts) in look.back() {
        if vectors > 5 || transcendentals > 1 || is_memory(facts) || facts.waits_for(AluCounter::VaVdst) {
            return None;
        }
        if facts.kind.contains(Kind::TRANS) {
            let read = look.this.reads().find(|regs| regs.is_vector() && facts.writes_any_of(*regs));
            if let Some(regs) = read {
                let what = format!(
                    "{} is written by a transcendental and read: s_waitcnt_depctr va_vdst(0) is needed between the \
                     two, or six vector ops",
                    regs.name()
                );
                return Some(Hazard { what, other });
            }
            transcendentals += 1;
        }
        vectors += u32::from(is_vector(facts));
    }
    None
}

/// Of two registers one is written, then EXEC, then the other, and both are read. At most two vector
/// ops may be between the writes, and at most four behind them.
fn partial_forwarding(look: &Look) -> Option<Hazard> {
    let sources: Vec<Regs> = look.this.reads().filter(|regs| regs.is_vector()).collect();
    if !is_vector(look.this) || sources.iter().all(|regs| *regs == sources[0]) {
        return None;
    }
    let mut vectors = 0;
    // Which were written, with how many vector ops behind.
    let mut written: Vec<(Regs, u32)> = Vec::new();
    let mut exec = None;
    for (other, facts) in look.back() {
        if vectors > 8 || is_memory(facts) || facts.waits_for(AluCounter::VaVdst) {
            return None;
        }
        if is_vector(facts) {
            for regs in &sources {
                if !written.iter().any(|(known, _)| known == regs) && facts.writes_any_of(*regs) {
                    written.push((*regs, vectors));
                    let after =
                        written.iter().map(|(_, at)| *at).filter(|at| exec.is_some_and(|exec| *at < exec)).min();
                    if let (Some(exec), Some(after)) = (exec, after)
                        && vectors >= exec
                    {
                        let between = (exec - after - 1) + (vectors - exec);
                        let what = format!(
                            "{} is written before exec is, and is read with a register that was written after: \
                             s_waitcnt_depctr va_vdst(0) is needed in front of this",
                            regs.name()
                        );
                        return (after <= 4 && between <= 2).then_some(Hazard { what, other });
                    }
                }
            }
            vectors += 1;
        } else if facts.kind.contains(Kind::SALU | Kind::WRITES_EXEC) && exec.is_none() && !written.is_empty() {
            exec = Some(vectors);
        }
        if vectors > 4 && written.is_empty() {
            return None;
        }
    }
    None
}

/// A mask of lanes is read by vector arithmetic, overwritten by scalar arithmetic, and read.
fn mask_write(look: &Look) -> Option<Hazard> {
    let named = |regs: &Regs| regs.named().next().is_some();
    look.this.reads().filter(named).find_map(|regs| {
        let mut writer = None;
        for (number, facts) in look.back() {
            match writer {
                None if facts.waits_for(AluCounter::SaSdst) => return None,
                None if facts.writes_any_of(regs) => {
                    let is_scalar = facts.kind.contains(Kind::SALU);
                    is_scalar.then_some(())?;
                    writer = Some(number);
                }
                None => {}
                Some(_) if facts.waits_for(AluCounter::SaSdst) => return None,
                Some(other) if facts.mask().is_some_and(|mask| mask.overlaps(regs)) => {
                    let what = format!(
                        "{} was a mask of lanes of vector arithmetic, is overwritten by scalar arithmetic and read: \
                         s_waitcnt_depctr sa_sdst(0) is needed between the two",
                        regs.name()
                    );
                    return Some(Hazard { what, other });
                }
                // A read of another mask, or of a constant, ends the hazard.
                Some(_) if is_vector(facts) && (facts.has_literal || facts.reads().any(|read| named(&read))) => {
                    return None;
                }
                Some(_) => {}
            }
        }
        None
    })
}

/// A matrix op's result is a factor, or the index, of the next.
fn matrices(look: &Look) -> Option<Hazard> {
    let (other, facts) = look.back().find(|(_, facts)| is_vector(facts))?;
    let written = facts.dst().filter(|_| facts.kind.contains(Kind::WMMA))?;
    let has_index = look.this.op.has(Flags::SPARSE);
    let read =
        (0..if has_index { 3 } else { 2 }).filter_map(|at| look.this.src(at)).find(|regs| regs.overlaps(written))?;
    let what = format!(
        "{} is written by a matrix op and is a factor of the next: v_nop or other vector arithmetic is needed between \
         the two",
        read.name()
    );
    Some(Hazard { what, other })
}

/// Another op runs beside a preceding transcendental op.
fn beside_transcendental(look: &Look) -> Option<Hazard> {
    if look.this.kind.intersects(Kind::TRANS | Kind::NOP) {
        return None;
    }
    let (other, facts) = look.back().find(|(_, facts)| separates(facts))?;
    if !facts.kind.contains(Kind::TRANS) {
        return None;
    }
    let vector = |regs: &Regs| regs.is_vector();
    let read = look.this.reads().filter(vector).find(|regs| facts.writes_any_of(*regs));
    let written = || look.this.writes().filter(vector).find(|regs| facts.reads_any_of(*regs));
    let regs = read.or_else(written)?;
    let what = format!(
        "{} is a register of a transcendental in front of this: v_nop or other vector arithmetic is needed between the \
         two",
        regs.name()
    );
    Some(Hazard { what, other })
}

/// Vector arithmetic or a matrix op runs beside an earlier matrix op, and reads or overwrites registers of that. The
/// number of vector ops needed between the two is half the first one's passes, and one more before a matrix op.
fn beside_matrix(look: &Look) -> Option<Hazard> {
    let this = look.this.matrix();
    let is_matrix = this.kind.contains(Kind::XDL);
    if this.kind.contains(Kind::WMMA) && !is_matrix {
        return None;
    }
    let index = |facts: &Facts| facts.src(2).filter(|_| facts.op.has(Flags::SPARSE));
    let factors = |facts: &Facts| [facts.src(0), facts.src(1), index(facts)].into_iter().flatten();
    let mut vectors = 0;
    for (other, facts) in look.back().map(|(other, facts)| (other, facts.matrix())) {
        if facts.kind.contains(Kind::XDL) {
            let needed = facts.passes / 2 + u8::from(is_matrix);
            let result = facts.dst()?;
            let touched = match is_matrix {
                true => factors(this).find(|regs| regs.overlaps(result)),
                false => this
                    .reads()
                    .find(|regs| regs.overlaps(result))
                    .or_else(|| this.writes().find(|regs| factors(facts).chain([result]).any(|of| regs.overlaps(of)))),
            };
            if let Some(regs) = touched.filter(|_| vectors < needed) {
                let what = format!(
                    "{} is a register of a matrix op in front of this: {needed} vector ops, v_nop or others, are \
                     needed between the two, and there are {vectors}",
                    regs.name()
                );
                return Some(Hazard { what, other });
            }
        }
        vectors += u8::from(separates(facts));
        // No rule needs more.
        if vectors > 8 {
            return None;
        }
    }
    None
}

/// `s_setreg` of bit 0 of MODE alone, behind vector arithmetic. LLVM compares the whole immediate with the register's
/// number, so it needs nothing before an `s_setreg` of other fields, as its own code and Triton's have.
fn mode(look: &Look) -> Option<Hazard> {
    const BIT_0_OF_MODE: u16 = 1;
    if look.this.simm != BIT_0_OF_MODE {
        return None;
    }
    let mut vectors = look.back().filter(|(_, facts)| is_vector(facts)).take(2);
    let (other, _) = vectors.find(|(_, facts)| !facts.kind.contains(Kind::NOP))?;
    let what = "MODE is set behind vector arithmetic: two v_nop are needed in front of s_setreg";
    Some(Hazard { what: what.to_owned(), other })
}

/// An arrival at a barrier behind asynchronous loads, beside another access of memory or LDS.
fn arrival(look: &Look) -> Option<Hazard> {
    let arrives = |facts: &Facts| facts.op == Op::DsAtomicAsyncBarrierArriveB64;
    let waits = |facts: &Facts| facts.waits_for(AluCounter::VmVsrc);
    let other = match arrives(look.this) {
        true => look.since(is_memory, waits)?,
        false => look.since(arrives, |facts| waits(facts) || is_memory(facts) && !arrives(facts))?,
    };
    let what = "ds_atomic_async_barrier_arrive_b64 is beside another access: s_wait_alu depctr_vm_vsrc(0) is needed \
                between the two";
    Some(Hazard { what: what.to_owned(), other })
}

/// A register that a memory access reads is overwritten while the access may have to be made again, as its address is
/// not translated yet. Addresses of vector memory are translated in order, and before its data come back; so are those
/// of scalar memory before the last of its data. Vector memory waits for scalar memory, and the other way around.
/// Branches, barriers and `s_setreg` wait for all. Transfers between memory and LDS are left out, as LLVM's
/// `SIInstrInfo::mayAccessVMEMThroughFlat` does: they do not use the counter of loads. Vector registers are left out in
/// code that sets SCHED_MODE, of which LLVM waits for reads alone (`vm_vsrc`).
fn translation(look: &Look) -> Option<Hazard> {
    let is_register = |regs: &Regs| match regs.is_scalar() {
        true => regs.named().any(|slot| slot < slot::SGPRS),
        false => !look.is_expert,
    };
    let written: Vec<Regs> = look.this.writes().filter(is_register).collect();
    if written.is_empty() {
        return None;
    }
    // How many more accesses of each kind may be under way; the accesses of vector memory so far.
    let [mut translations, mut loads, mut stores] = [u32::MAX; 3];
    let (mut is_scalar_done, mut vectors) = (false, 0);
    let mut is_scalar = None;
    for (other, facts) in look.back() {
        let most = |shift: u16| u32::from(facts.simm >> shift & 63);
        match facts.op {
            Op::SWaitXcnt => {
                translations = translations.min(most(0));
                is_scalar_done |= most(0) == 0;
            }
            Op::SWaitKmcnt => is_scalar_done |= most(0) == 0,
            Op::SWaitLoadcnt => loads = loads.min(most(0)),
            Op::SWaitStorecnt => stores = stores.min(most(0)),
            Op::SWaitLoadcntDscnt => loads = loads.min(most(8)),
            Op::SWaitStorecntDscnt => stores = stores.min(most(8)),
            Op::SWaitIdle => return None,
            Op::SSwappcB64 | Op::SSetpcB64 | Op::SCallB64 => return None,
            // These complete outstanding accesses in LLVM 23 (`isXcntDrain`); LLVM 22 knows it of branches alone.
            _ if facts.kind.intersects(Kind::BRANCH | Kind::SETREG) || facts.op.has(Flags::BARRIER) => return None,
            op if op.has(Flags::NOP) || op.has(Flags::ASYNC) => continue,
            _ => {}
        }
        if !facts.kind.intersects(Kind::VMEM | Kind::SMEM) {
            continue;
        }
        let of_scalars = facts.kind.contains(Kind::SMEM);
        if *is_scalar.get_or_insert(of_scalars) != of_scalars
            || of_scalars && is_scalar_done
            || !of_scalars && look.this.kind.contains(Kind::SMEM)
        {
            return None;
        }
        if !of_scalars {
            let counter = if facts.dst().is_some() { &mut loads } else { &mut stores };
            if translations == 0 || *counter == 0 {
                return None;
            }
            *counter = counter.saturating_sub(1);
            translations = translations.saturating_sub(1);
        }
        if let Some(regs) = written.iter().find(|regs| facts.reads_any_of(**regs)) {
            let what = format!(
                "{} is read by a memory access that may have to be made again, and overwritten: s_wait_xcnt {:#x} is \
                 needed between the two",
                regs.name(),
                if of_scalars { 0 } else { vectors }
            );
            return Some(Hazard { what, other });
        }
        vectors += 1;
    }
    None
}

/// The base of scratch is read when s102 or s103, which it is, were written fewer than ten writes of scalar registers
/// before.
fn scratch_base(look: &Look) -> Option<Hazard> {
    let regs = look.this.scratch_base?;
    let mut writes = 0;
    for (other, facts) in look.back() {
        let waits = facts.waits_for(AluCounter::SaSdst) && facts.waits_for(AluCounter::VaSdst);
        if writes >= 10 || waits {
            return None;
        }
        if facts.writes_any_of(regs) {
            let what = "the base of scratch is written and read: s_wait_alu depctr_sa_sdst(0) depctr_va_sdst(0) is \
                        needed between the two";
            return Some(Hazard { what: what.to_owned(), other });
        }
        writes += u32::from(facts.writes().any(Regs::is_scalar));
    }
    None
}

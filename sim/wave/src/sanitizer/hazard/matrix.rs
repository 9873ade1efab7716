// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Wait states around matrix ops of CDNA ("Dependency Resolution: Required Independent Instructions" of the CDNA
//! documents; LLVM's `checkMAIHazards90A`, `checkMAIVALUHazards`, and for gfx908 `checkMAIHazards908`,
//! `checkMAILdStHazards`).

use super::Rule;
use super::facts::{Facts, Kind, Regs};
use super::look::{Hazard, Look};
use sim_isa::Op;
use sim_isa::Target::{self, Gfx90a, Gfx908, Gfx942, Gfx950};

const UNIFIED: &[Target] = &[Gfx90a, Gfx942, Gfx950];
const MEMORY: Kind = Kind::VMEM.union(Kind::LDS);

pub(super) const RULES: &[Rule] = &[
    Rule { on: &[Gfx908, Gfx90a, Gfx942, Gfx950], earlier: Kind::VALU, later: Kind::MFMA, within: 4, look: exec },
    Rule { on: UNIFIED, earlier: Kind::VALU, later: Kind::MFMA, within: 2, look: vector_for_matrix },
    Rule { on: UNIFIED, earlier: Kind::MFMA, later: Kind::MFMA, within: 20, look: matrix_for_matrix },
    Rule { on: UNIFIED, earlier: Kind::MFMA, later: Kind::VALU.union(MEMORY), within: 20, look: result_read },
    Rule { on: UNIFIED, earlier: Kind::MFMA, later: Kind::VALU.union(MEMORY), within: 20, look: result_overwritten },
    Rule { on: UNIFIED, earlier: Kind::MFMA, later: Kind::VALU.union(MEMORY), within: 15, look: addend_overwritten },
    Rule { on: UNIFIED, earlier: Kind::DOT, later: Kind::VALU.union(MEMORY), within: 3, look: dot },
    Rule { on: UNIFIED, earlier: Kind::DGEMM, later: Kind::FMA_F64, within: 2, look: fma_behind_dgemm },
    Rule { on: &[Gfx90a], earlier: Kind::DGEMM, later: MEMORY, within: 2, look: dgemm_before_memory },
    Rule { on: &[Gfx908], earlier: Kind::VALU, later: Kind::VALU, within: 2, look: vector_for_matrix_908 },
    Rule { on: &[Gfx908], earlier: Kind::VALU, later: Kind::VALU, within: 18, look: accumulation_908 },
    Rule { on: &[Gfx908], earlier: Kind::MFMA, later: Kind::VALU, within: 13, look: addend_overwritten_908 },
    Rule { on: &[Gfx908], earlier: Kind::VALU, later: MEMORY, within: 2, look: memory_908 },
];

/// The registers of A, B and an index, and those that are added to.
fn sources(facts: &Facts) -> ([Option<Regs>; 3], Option<Regs>) {
    let (a, b, c) = (facts.src(0), facts.src(1), facts.src(2));
    if facts.kind.contains(Kind::SPARSE) { ([a, b, c], facts.dst()) } else { ([a, b, None], c) }
}

fn is_plain_vector(facts: &Facts) -> bool {
    facts.kind.contains(Kind::VALU) && !facts.kind.contains(Kind::MFMA)
}

fn writes(facts: &Facts, regs: Regs) -> bool {
    facts.kind.contains(Kind::MFMA) && facts.dst().is_some_and(|dst| dst.overlaps(regs))
}

fn exec(look: &Look) -> Option<Hazard> {
    let is = |facts: &Facts| is_plain_vector(facts) && facts.writes_any_of(Regs::EXEC);
    look.wait_states(4, "exec is written by vector arithmetic before a matrix op", is)
}

fn vector_for_matrix(look: &Look) -> Option<Hazard> {
    look.this.reads().find_map(|regs| {
        let is = |facts: &Facts| is_plain_vector(facts) && !facts.kind.contains(Kind::DOT) && facts.writes_any_of(regs);
        look.wait_states(2, &format!("{} is written by vector arithmetic and read by a matrix op", regs.name()), is)
    })
}

/// Wait states between two matrix ops, of which the second adds to the first one's result.
fn for_addend(look: &Look, first: &Facts, is_same: bool) -> u8 {
    let (this, gfx942) = (look.this, look.target.is_cdna3_or_later());
    let is_dgemm = |facts: &Facts| facts.kind.contains(Kind::DGEMM);
    if !is_dgemm(this) && !gfx942 && is_dgemm(first) {
        return 0;
    }
    if is_same {
        let both_4x4 = this.op == first.op && is_dgemm(first) && first.passes == 4;
        return if both_4x4 {
            4
        } else if gfx942 && first.passes == 2 {
            2
        } else {
            0
        };
    }
    if is_dgemm(first) {
        let needed = match first.passes {
            4 => 4,
            _ if look.target == Gfx950 => 17,
            _ => 9,
        };
        return if this.kind.contains(Kind::XDL) { 0 } else { needed };
    }
    if gfx942 {
        return match first.kind.contains(Kind::XDL) {
            true => first.passes + 1 + u8::from(look.target == Gfx950),
            false if this.kind.contains(Kind::XDL) => 0,
            false => first.passes,
        };
    }
    first.passes + u8::from(is_dgemm(this))
}

/// Wait states before an op multiplies the result of the other.
fn for_factor(look: &Look, first: &Facts) -> u8 {
    match first.kind {
        kind if kind.contains(Kind::DGEMM) => match first.passes {
            4 => 6,
            _ if look.target == Gfx950 => 19,
            _ => 11,
        },
        kind if look.target.is_cdna3_or_later() && !kind.contains(Kind::XDL) => first.passes + 2,
        _ => first.passes + 3 + u8::from(look.target == Gfx950 && first.passes != 2),
    }
}

fn matrix_for_matrix(look: &Look) -> Option<Hazard> {
    let (factors, addend) = sources(look.this);
    let finding = |regs: Regs, (other, states): (u32, u8), needed: u8| {
        let what = format!("{} is written by a matrix op and read by the next", regs.name());
        (states < needed).then(|| Look::too_few(needed, states, &what, other))
    };
    let factor = |regs: Regs| {
        let (other, first, states) = look.nearest(20, |facts| writes(facts, regs))?;
        finding(regs, (other, states), for_factor(look, first))
    };
    // Each register counts for its last writer. LLVM up to 23 looks at the nearest writer alone, and AMD's rocRoller
    // (`XDLWrite90a`, `XDLWrite94x`) needs nothing once matrix ops have written the whole addend. LLVM 24 counts a
    // writer of a part even before a later writer of the whole: docs/sim/checks.md, "hazard".
    let addend_of = |regs: Regs| {
        let mut covered = 0;
        let writers = look.within(20).filter(|(_, facts, _)| writes(facts, regs));
        let mut last = writers.filter(|(_, first, _)| {
            let written = first.dst().map_or(0, |dst| dst.part_of(regs));
            let is_last = written & !covered != 0;
            covered |= written;
            is_last
        });
        last.find_map(|(other, first, states)| {
            finding(regs, (other, states), for_addend(look, first, first.dst() == Some(regs)))
        })
    };
    factors.into_iter().flatten().find_map(factor).or_else(|| addend_of(addend?))
}

fn result_read(look: &Look) -> Option<Hazard> {
    if look.this.kind.contains(Kind::MFMA) {
        return None;
    }
    let is_memory = look.this.kind.intersects(MEMORY);
    look.this.reads().find_map(|regs| {
        let (other, first, states) = look.nearest(20, |facts| writes(facts, regs))?;
        let needed = match (first.kind.contains(Kind::DGEMM), first.passes == 4) {
            (true, true) => {
                if is_memory {
                    9
                } else {
                    6
                }
            }
            (true, false) if is_memory => 18,
            _ => for_factor(look, first),
        };
        let what = format!("{} is written by a matrix op and read", regs.name());
        (states < needed).then(|| Look::too_few(needed, states, &what, other))
    })
}

fn result_overwritten(look: &Look) -> Option<Hazard> {
    if look.this.kind.contains(Kind::MFMA) {
        return None;
    }
    look.this.writes().find_map(|regs| {
        let (other, first, states) = look.nearest(20, |facts| writes(facts, regs))?;
        let is_long = first.kind.contains(Kind::DGEMM) && first.passes != 4;
        let needed = if is_long { 11 } else { for_factor(look, first) };
        let what = format!("{} is written by a matrix op and overwritten", regs.name());
        (states < needed).then(|| Look::too_few(needed, states, &what, other))
    })
}

fn addend_overwritten(look: &Look) -> Option<Hazard> {
    if look.this.kind.contains(Kind::MFMA) {
        return None;
    }
    look.this.writes().find_map(|regs| {
        let is = |facts: &Facts| {
            let does = facts.kind.contains(Kind::MFMA) && !facts.kind.contains(Kind::DGEMM);
            let waits = look.target.is_cdna3_or_later() && !facts.kind.contains(Kind::XDL);
            does && !waits && sources(facts).1.is_some_and(|addend| addend.overlaps(regs))
        };
        let (other, first, states) = look.nearest(15, is)?;
        let needed = first.passes - 1;
        let what = format!("{} is added to by a matrix op and overwritten", regs.name());
        (states < needed).then(|| Look::too_few(needed, states, &what, other))
    })
}

fn dot(look: &Look) -> Option<Hazard> {
    let this = look.this;
    if this.kind.contains(Kind::MFMA) {
        return None;
    }
    let nearest = |regs: Regs| {
        look.nearest(3, |facts| facts.kind.contains(Kind::DOT) && facts.dst().is_some_and(|dst| dst.overlaps(regs)))
    };
    let finding = |(other, _, states): (u32, &Facts, u8), regs: Regs, does: &str| {
        let what = format!("{} is written by a dot product and {does} by another op", regs.name());
        Look::too_few(3, states, &what, other)
    };
    // The same op may add to it at once.
    let addend = if this.kind.contains(Kind::DOT) { this.src(2).or(this.dst()) } else { None };
    let read = this.reads().find_map(|regs| {
        let found = nearest(regs)?;
        (found.1.op != this.op || addend != Some(regs)).then(|| finding(found, regs, "read"))
    });
    read.or_else(|| {
        this.writes().find_map(|regs| {
            let found = nearest(regs)?;
            (found.1.op != this.op).then(|| finding(found, regs, "overwritten"))
        })
    })
}

fn fma_behind_dgemm(look: &Look) -> Option<Hazard> {
    look.wait_states(2, "v_fma_f64 is behind a matrix op of f64", |facts| facts.kind.contains(Kind::DGEMM))
}

/// gfx90a does not wait by itself for a vector op whose result memory reads, if a matrix op of f64 is between.
fn dgemm_before_memory(look: &Look) -> Option<Hazard> {
    look.this.reads().filter(|regs| !regs.is_scalar()).find_map(|regs| {
        let mut states = 0;
        let mut is_behind = false;
        for (other, facts) in look.back() {
            if states >= 2 {
                return None;
            }
            is_behind |= facts.kind.contains(Kind::DGEMM);
            if is_behind && facts.kind.contains(Kind::VALU) && facts.writes_any_of(regs) {
                let what = format!("{} is written, and read by a memory access behind a matrix op of f64", regs.name());
                return Some(Look::too_few(2, states, &what, other));
            }
            states += facts.states;
        }
        None
    })
}

fn vector_for_matrix_908(look: &Look) -> Option<Hazard> {
    let this = look.this;
    if !this.kind.contains(Kind::MFMA) && this.op != Op::VAccvgprWriteB32 {
        return None;
    }
    let what = "is written by vector arithmetic and read by a matrix op";
    look.written(2, Kind::VALU, what, Regs::is_vector)
}

/// Accumulation registers, which a matrix op or `v_accvgpr_write` has written, and this reads or overwrites.
fn accumulation_908(look: &Look) -> Option<Hazard> {
    let this = look.this;
    let (is_read, is_write) = (this.op == Op::VAccvgprReadB32, this.op == Op::VAccvgprWriteB32);
    let of_moves = |passes: u8, needed: [u8; 3]| match passes {
        2 => needed[0],
        8 => needed[1],
        _ => needed[2],
    };
    let addend = this.src(2).filter(|_| this.kind.contains(Kind::MFMA));
    let written = this.writes().filter(|_| is_write);
    this.reads().chain(written).filter(|regs| regs.is_accumulation()).find_map(|regs| {
        let by_matrix = look.nearest(18, |facts| writes(facts, regs) && facts.dst() != Some(regs));
        let of_matrix = by_matrix.and_then(|(other, first, states)| {
            let needed = match () {
                () if is_read => of_moves(first.passes, [4, 10, 18]),
                () if is_write => of_moves(first.passes, [1, 7, 15]),
                () if addend == Some(regs) => 2,
                () => 4,
            };
            let what = format!("{} is written by a matrix op and used", regs.name());
            (states < needed).then(|| Look::too_few(needed, states, &what, other))
        });
        of_matrix.or_else(|| {
            let needed = if addend == Some(regs) { 1 } else { 3 };
            let is = |facts: &Facts| facts.op == Op::VAccvgprWriteB32 && facts.writes_any_of(regs);
            let what = format!("{} is written by v_accvgpr_write_b32 and read", regs.name());
            if is_write { None } else { look.wait_states(needed, &what, is) }
        })
    })
}

fn addend_overwritten_908(look: &Look) -> Option<Hazard> {
    let dst = look.this.dst().filter(|_| look.this.op == Op::VAccvgprWriteB32)?;
    let is = |facts: &Facts| facts.kind.contains(Kind::MFMA) && facts.src(2).is_some_and(|addend| addend.overlaps(dst));
    let (other, first, states) = look.nearest(13, is)?;
    let needed = match first.passes {
        2 => 0,
        8 => 5,
        _ => 13,
    };
    let what = format!("{} is added to by a matrix op and overwritten", dst.name());
    (states < needed).then(|| Look::too_few(needed, states, &what, other))
}

fn memory_908(look: &Look) -> Option<Hazard> {
    look.this.reads().filter(|regs| regs.is_vector()).find_map(|regs| {
        let is = |facts: &Facts| facts.op == Op::VAccvgprReadB32 && facts.writes_any_of(regs);
        let what = format!("{} is written by v_accvgpr_read_b32 and read by a memory access", regs.name());
        look.wait_states(2, &what, is).or_else(|| {
            // A move to or from accumulation registers right in front of the access, and the writer of its register
            // just before that.
            let mut back = look.back();
            let is_move = |facts: &Facts| matches!(facts.op, Op::VAccvgprReadB32 | Op::VAccvgprWriteB32);
            back.next().filter(|(_, facts)| is_move(facts))?;
            let (other, _) = back.take(1).find(|(_, facts)| {
                facts.kind.contains(Kind::VALU)
                    && !facts.kind.contains(Kind::MFMA)
                    && !is_move(facts)
                    && facts.writes_any_of(regs)
            })?;
            let what = format!("{} is written, and read by a memory access behind v_accvgpr_*", regs.name());
            Some(Look::too_few(1, 0, &what, other))
        })
    })
}

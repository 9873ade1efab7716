// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Wait states of GFX9 ("Manually Inserted Wait States" of the Vega and CDNA documents), matrices aside.

use super::Rule;
use super::facts::{Facts, Kind, Regs};
use super::look::{Hazard, Look};
use sim_isa::Target::{self, Gfx90a, Gfx900, Gfx906, Gfx908, Gfx942, Gfx950};

const GFX9: &[Target] = &[Gfx900, Gfx906, Gfx908, Gfx90a, Gfx942, Gfx950];
const GFX942: &[Target] = &[Gfx942, Gfx950];

pub(super) const RULES: &[Rule] = &[
    // LLVM's `checkVMEMHazards`.
    Rule { on: GFX9, earlier: Kind::VALU, later: Kind::VMEM, within: 5, look: scalar_for_memory },
    // `checkDPPHazards`.
    Rule { on: GFX9, earlier: Kind::VALU, later: Kind::DPP, within: 5, look: dpp },
    // `checkDivFMasHazards`.
    Rule { on: GFX9, earlier: Kind::VALU, later: Kind::DIV_FMAS, within: 4, look: div_fmas },
    // `checkRWLaneHazards`.
    Rule { on: GFX9, earlier: Kind::VALU, later: Kind::LANE, within: 4, look: lane_select },
    // `checkGetRegHazards`, `checkSetRegHazards`.
    Rule {
        on: GFX9,
        earlier: Kind::SETREG,
        later: Kind::GETREG.union(Kind::SETREG),
        within: 2,
        look: hardware_register,
    },
    // `checkVALUHazards`, `createsVALUHazard`.
    Rule { on: GFX9, earlier: Kind::WIDE_STORE, later: Kind::VALU, within: 2, look: stored_data },
    // `checkReadM0Hazards`.
    Rule { on: GFX9, earlier: Kind::SALU, later: Kind::READS_M0, within: 1, look: m0 },
    // `checkVALUHazards`: `hasTransForwardingHazard`, `hasDstSelForwardingHazard`, `hasVDecCoExecHazard`.
    Rule { on: GFX942, earlier: Kind::TRANS, later: Kind::VALU, within: 1, look: transcendental },
    Rule { on: GFX942, earlier: Kind::PARTIAL, later: Kind::VALU, within: 1, look: partial },
    Rule { on: GFX942, earlier: Kind::VALU, later: Kind::VALU, within: 2, look: scalar_for_vector },
    Rule { on: GFX942, earlier: Kind::VALU, later: Kind::LANE.union(Kind::READ_LANE), within: 4, look: lanes },
    // `checkPermlaneHazards`.
    Rule { on: &[Gfx950], earlier: Kind::VALU, later: Kind::PERMLANE, within: 4, look: exchange },
];

fn scalar_for_memory(look: &Look) -> Option<Hazard> {
    look.written(5, Kind::VALU, "is written by vector arithmetic and read by a memory access", Regs::is_scalar)
}

fn dpp(look: &Look) -> Option<Hazard> {
    let exec = |facts: &Facts| facts.kind.contains(Kind::VALU) && facts.writes_any_of(Regs::EXEC);
    look.written(2, Kind::VALU, "is written by vector arithmetic and read with DPP", Regs::is_vector)
        .or_else(|| look.wait_states(5, "exec is written by vector arithmetic before DPP", exec))
}

fn div_fmas(look: &Look) -> Option<Hazard> {
    let vcc = |facts: &Facts| facts.kind.contains(Kind::VALU) && facts.writes_any_of(Regs::VCC);
    look.wait_states(4, "vcc is written by vector arithmetic and read by v_div_fmas", vcc)
}

fn lane_select(look: &Look) -> Option<Hazard> {
    let select = look.this.src(1).filter(|select| select.is_scalar())?;
    let what = format!("{} is written by vector arithmetic and selects a lane", select.name());
    look.wait_states(4, &what, |facts| facts.kind.contains(Kind::VALU) && facts.writes_any_of(select))
}

fn hardware_register(look: &Look) -> Option<Hazard> {
    let number = look.this.simm & 63;
    let what = format!("hardware register {number} is set, and set or read again");
    look.wait_states(2, &what, |facts| facts.kind.contains(Kind::SETREG) && facts.simm & 63 == number)
}

fn stored_data(look: &Look) -> Option<Hazard> {
    let needed = |facts: &Facts| match look.target.is_cdna3_or_later() {
        // LLVM 23 and later, which say that it was seen on gfx950.
        true if facts.is_buffer_with_offset() => 1,
        true => 2,
        false => 1,
    };
    look.this.writes().filter(|regs| !regs.is_scalar()).find_map(|written| {
        let stores = |facts: &Facts| {
            facts.kind.contains(Kind::WIDE_STORE) && facts.src(1).is_some_and(|data| data.overlaps(written))
        };
        let what = format!("{} is stored with others, more than 64 bits at once, and overwritten", written.name());
        let (other, facts, states) = look.nearest(2, stores)?;
        let needed = needed(facts);
        (states < needed).then(|| Look::too_few(needed, states, &what, other))
    })
}

fn m0(look: &Look) -> Option<Hazard> {
    let writes = |facts: &Facts| facts.kind.contains(Kind::SALU) && facts.writes_any_of(Regs::M0);
    look.wait_states(1, "m0 is written, and read where nothing waits for it", writes)
}

fn transcendental(look: &Look) -> Option<Hazard> {
    let is = !look.this.kind.contains(Kind::TRANS);
    is.then(|| look.written(1, Kind::TRANS, "is written by a transcendental and read by another op", |_| true))?
}

fn partial(look: &Look) -> Option<Hazard> {
    look.written(1, Kind::PARTIAL, "is written in part, with bits moved, and read", |_| true)
}

fn scalar_for_vector(look: &Look) -> Option<Hazard> {
    let what = "is written by vector arithmetic and read by vector arithmetic";
    let vcc = |facts: &Facts| facts.kind.contains(Kind::VALU) && facts.writes_any_of(Regs::VCC);
    // EXEC is no operand of arithmetic.
    look.written(2, Kind::VALU, what, |regs| regs.is_scalar() && !regs.overlaps(Regs::EXEC)).or_else(|| {
        let implied = look.this.kind.contains(Kind::DIV_FMAS);
        implied.then(|| look.wait_states(2, &format!("vcc {what}"), vcc))?
    })
}

/// `v_permlane16_swap_b32` and `v_permlane32_swap_b32`.
fn exchange(look: &Look) -> Option<Hazard> {
    let cmpx = |facts: &Facts| facts.kind.contains(Kind::CMPX);
    look.this
        .reads()
        .chain(look.this.writes())
        .find_map(|regs| {
            let is = |facts: &Facts| facts.kind.contains(Kind::VALU) && facts.writes_any_of(regs);
            let what = format!("{} is written by vector arithmetic and exchanged with other lanes", regs.name());
            look.wait_states(2, &what, is)
        })
        .or_else(|| look.wait_states(4, "exec is written by v_cmpx before lanes are exchanged", cmpx))
}

fn lanes(look: &Look) -> Option<Hazard> {
    let exec = |facts: &Facts| facts.kind.contains(Kind::VALU) && facts.writes_any_of(Regs::EXEC);
    let reads = look.this.kind.contains(Kind::READ_LANE);
    let vector = |regs: Regs| reads && !regs.is_scalar();
    look.written(1, Kind::VALU, "is written by vector arithmetic and read from one lane", vector)
        .or_else(|| look.wait_states(4, "exec is written by vector arithmetic before one lane is accessed", exec))
}

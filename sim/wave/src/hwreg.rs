// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hardware registers, which `s_getreg` and `s_setreg` name: the registers of each target and their simulated fields.
//!
//! Numbers and names are LLVM's (`AMDGPU::Hwreg`). Fields are those of AMD's ISA documents and of ROCdbgapi's
//! `architecture.cpp`. A register or field that is not simulated is refused by its name.

use crate::fault::FaultKind;
use crate::hardware::{PRIVATE_APERTURE, SHARED_APERTURE, mode};
use crate::micro_op::Stop;
use crate::operand::Upper;
use crate::wave::{Group, Wave};
use sim_isa::{Inst, Op, Operand, Target};

/// A field of a register: the number, the first bit and the width in the immediate of `s_getreg` and `s_setreg`.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub register: u16,
    pub first: u32,
    pub width: u32,
}

impl Field {
    pub fn of(simm: i16) -> Self {
        let simm = simm as u16;
        Self { register: simm & 0x3f, first: u32::from(simm >> 6 & 0x1f), width: u32::from(simm >> 11) + 1 }
    }

    fn mask(self) -> u32 {
        u32::MAX >> (32 - self.width)
    }

    /// Returns true if the field lies within these bits.
    fn is_within(self, first: u32, width: u32) -> bool {
        self.first >= first && self.first + self.width <= first + width
    }
}

/// The simulated value behind a hardware register.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    /// [`Wave::mode`].
    Mode,
    /// SCC in bit 0, EXECZ in bit 9, VCCZ in bit 10.
    Status,
    /// The upper parts of the apertures' addresses.
    Apertures,
    /// The wave's number in its lowest four or five bits. All waves run on one compute unit of one die.
    Wave(u32),
    /// Queue, pipe, engine and workgroup on the compute unit: all are the first.
    Zero,
    /// Where scratch is. It can be written, and stays where it is.
    Scratch,
    /// [`Wave::sched_mode`].
    SchedMode,
    /// The kind of cluster in bits 6 to 9; there are none.
    Cluster,
    /// Instructions that the wave has executed stand for cycles: so many bits of them, from this one on.
    Cycles(u32, u32),
    /// Not simulated.
    Nothing,
}

/// Number of a register, LLVM's name without `HW_REG_`, and its fields.
type Row = (u16, &'static str, Content);

/// Registers of all targets before gfx12.
const COMMON: [Row; 7] = [
    (1, "MODE", Content::Mode),
    (2, "STATUS", Content::Status),
    (3, "TRAPSTS", Content::Nothing),
    (5, "GPR_ALLOC", Content::Nothing),
    (6, "LDS_ALLOC", Content::Nothing),
    (7, "IB_STS", Content::Nothing),
    (15, "SH_MEM_BASES", Content::Apertures),
];

/// Further registers of GFX9 and gfx10: the trap handler's.
const TRAP_HANDLER: [Row; 4] = [
    (16, "TBA_LO", Content::Nothing),
    (17, "TBA_HI", Content::Nothing),
    (18, "TMA_LO", Content::Nothing),
    (19, "TMA_HI", Content::Nothing),
];

const GFX9: [Row; 1] = [(4, "HW_ID", Content::Wave(0xf))];

const GFX942: [Row; 5] = [
    (20, "XCC_ID", Content::Zero),
    (21, "SQ_PERF_SNAPSHOT_DATA", Content::Nothing),
    (22, "SQ_PERF_SNAPSHOT_DATA1", Content::Nothing),
    (23, "SQ_PERF_SNAPSHOT_PC_LO", Content::Nothing),
    (24, "SQ_PERF_SNAPSHOT_PC_HI", Content::Nothing),
];

/// Registers of gfx10 and gfx11.
const RDNA: [Row; 2] = [(23, "HW_ID1", Content::Wave(0x1f)), (24, "HW_ID2", Content::Zero)];

const GFX10: [Row; 3] = [
    (20, "FLAT_SCR_LO", Content::Scratch),
    (21, "FLAT_SCR_HI", Content::Scratch),
    (25, "POPS_PACKER", Content::Nothing),
];

const GFX1010: [Row; 1] = [(22, "XNACK_MASK", Content::Nothing)];

/// Registers of gfx1030 and gfx11.
const CYCLES: [Row; 1] = [(29, "SHADER_CYCLES", Content::Cycles(0, 20))];

const GFX11: [Row; 5] = [
    (18, "PERF_SNAPSHOT_PC_LO", Content::Nothing),
    (19, "PERF_SNAPSHOT_PC_HI", Content::Nothing),
    (20, "FLAT_SCR_LO", Content::Nothing),
    (21, "FLAT_SCR_HI", Content::Nothing),
    (27, "PERF_SNAPSHOT_DATA", Content::Nothing),
];

const GFX12: [Row; 23] = [
    (1, "WAVE_MODE", Content::Mode),
    (2, "WAVE_STATUS", Content::Nothing),
    (4, "WAVE_STATE_PRIV", Content::Nothing),
    (5, "WAVE_GPR_ALLOC", Content::Nothing),
    (6, "WAVE_LDS_ALLOC", Content::Nothing),
    (7, "IB_STS", Content::Nothing),
    (10, "PERF_SNAPSHOT_DATA", Content::Nothing),
    (11, "PERF_SNAPSHOT_PC_LO", Content::Nothing),
    (12, "PERF_SNAPSHOT_PC_HI", Content::Nothing),
    (15, "PERF_SNAPSHOT_DATA1", Content::Nothing),
    (16, "PERF_SNAPSHOT_DATA2", Content::Nothing),
    (17, "WAVE_EXCP_FLAG_PRIV", Content::Nothing),
    (18, "WAVE_EXCP_FLAG_USER", Content::Nothing),
    (19, "WAVE_TRAP_CTRL", Content::Nothing),
    (20, "WAVE_SCRATCH_BASE_LO", Content::Nothing),
    (21, "WAVE_SCRATCH_BASE_HI", Content::Nothing),
    (23, "WAVE_HW_ID1", Content::Wave(0x1f)),
    (24, "WAVE_HW_ID2", Content::Zero),
    (26, "WAVE_SCHED_MODE", Content::SchedMode),
    (29, "SHADER_CYCLES_LO", Content::Cycles(0, 32)),
    (30, "SHADER_CYCLES_HI", Content::Cycles(32, 32)),
    (31, "WAVE_DVGPR_ALLOC_LO", Content::Nothing),
    (32, "WAVE_DVGPR_ALLOC_HI", Content::Nothing),
];

const GFX1250: [Row; 3] = [
    (28, "IB_STS2", Content::Cluster),
    (33, "XNACK_STATE_PRIV", Content::Nothing),
    (34, "XNACK_MASK", Content::Nothing),
];

/// The registers of a target.
fn rows(target: Target) -> impl Iterator<Item = &'static Row> {
    let lists: &[&[Row]] = match target {
        Target::Gfx900 | Target::Gfx906 | Target::Gfx908 | Target::Gfx90a => &[&COMMON, &TRAP_HANDLER, &GFX9],
        Target::Gfx942 | Target::Gfx950 => &[&COMMON, &TRAP_HANDLER, &GFX9, &GFX942],
        Target::Gfx1010 => &[&COMMON, &TRAP_HANDLER, &RDNA, &GFX10, &GFX1010],
        Target::Gfx1030 => &[&COMMON, &TRAP_HANDLER, &RDNA, &GFX10, &CYCLES],
        Target::Gfx11 | Target::Gfx1150 => &[&COMMON, &RDNA, &GFX11, &CYCLES],
        Target::Gfx1200 => &[&GFX12],
        Target::Gfx1250 => &[&GFX12, &GFX1250],
    };
    lists.iter().flat_map(|list| list.iter())
}

/// The name that a target has for a hardware register, without `HW_REG_`; `None` if it has none of that number.
pub fn hardware_register(target: Target, number: u16) -> Option<&'static str> {
    find(target, number).map(|(name, _)| name)
}

fn find(target: Target, number: u16) -> Option<(&'static str, Content)> {
    rows(target).find(|row| row.0 == number).map(|&(_, name, content)| (name, content))
}

/// Refuses registers and fields of `s_getreg` and `s_setreg` that are not simulated.
///
/// Of gfx1250's MODE bits 12 to 19 have upper parts of register numbers, which [`upper_by_setreg`] follows; kernels
/// begin with writing bit 25, how memory accesses are repeated after page faults (there are none).
pub(crate) fn check(inst: &Inst) -> Result<(), FaultKind> {
    let writes = match inst.op {
        Op::SGetregB32 => false,
        Op::SSetregB32 | Op::SSetregImm32B32 => true,
        _ => return Ok(()),
    };
    let (target, field) = (inst.target, Field::of(inst.simm));
    let Some((name, content)) = find(target, field.register) else {
        return refused(format!("hardware register {}, which {target:?} does not have", field.register));
    };
    let is_known = match content {
        Content::Mode if target == Target::Gfx1250 => {
            field.is_within(0, 8) || field.is_within(23, 1) || field.is_within(25, 1)
        }
        Content::Mode => true,
        Content::SchedMode => field.is_within(0, 2),
        Content::Scratch => writes,
        Content::Cluster => !writes && field.is_within(6, 4),
        Content::Nothing => false,
        _ => !writes,
    };
    if is_known {
        return Ok(());
    }
    let (does, last) = (if writes { "writing" } else { "reading" }, field.first + field.width - 1);
    refused(format!("{does} bits {} to {last} of hardware register HW_REG_{name}", field.first))
}

/// The upper parts of register numbers that an instruction sets beside the field that it names: on gfx1250 each
/// `s_setreg_imm32_b32` of MODE writes bits 12 to 19 from its constant, whatever the field is. There the destination's
/// come first, in `s_set_vgpr_msb` last (LLVM, `AMDGPULowerVGPREncoding::handleSetregMode`).
pub(crate) fn upper_by_setreg(inst: &Inst) -> Option<Upper> {
    let is_mode = Field::of(inst.simm).register == 1 && inst.op == Op::SSetregImm32B32;
    match inst.src[0] {
        Operand::Literal(value) if is_mode && inst.target == Target::Gfx1250 => {
            Some(Upper(((value >> 12) as u8).rotate_right(2)))
        }
        _ => None,
    }
}

fn refused(what: String) -> Result<(), FaultKind> {
    Err(FaultKind::NotImplemented(what))
}

/// The value of a field that [`check`] has let through.
pub(crate) fn read<const L: usize>(wave: &Wave<L>, group: &Group<'_>, field: Field) -> u32 {
    let value = match find(group.target, field.register).map_or(Content::Nothing, |(_, content)| content) {
        Content::Mode => wave.mode,
        Content::Status => u32::from(wave.scc) | u32::from(wave.exec() == 0) << 9 | u32::from(wave.vcc() == 0) << 10,
        Content::Apertures => PRIVATE_APERTURE >> 16 | SHARED_APERTURE,
        Content::Wave(mask) => wave.index & mask,
        Content::SchedMode => wave.sched_mode,
        Content::Cycles(first, width) => (wave.count >> first) as u32 & u32::MAX >> (32 - width),
        Content::Zero | Content::Scratch | Content::Cluster | Content::Nothing => 0,
    };
    value >> field.first & field.mask()
}

/// Writes a field that [`check`] has let through.
pub(crate) fn write<const L: usize>(
    wave: &mut Wave<L>,
    group: &Group<'_>,
    field: Field,
    value: u32,
) -> Result<(), Stop> {
    let mask = field.mask() << field.first;
    let changed = |old: u32| old & !mask | value << field.first & mask;
    match find(group.target, field.register).map_or(Content::Nothing, |(_, content)| content) {
        Content::Mode => {
            let new = changed(wave.mode);
            if new & mode::ROUND != 0 {
                let what = "rounding other than to nearest even".to_owned();
                return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
            }
            wave.set_mode(new);
        }
        Content::SchedMode => wave.sched_mode = changed(wave.sched_mode),
        _ => {}
    }
    Ok(())
}

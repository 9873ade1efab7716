// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cache operations of instructions, from the code sequences of LLVM's memory model for each generation (AMDGPUUsage,
//! "Memory Model GFX6-GFX9", "GFX90A", "GFX942", "GFX10-GFX11" and "GFX12").
//!
//! From gfx10 on there is a cache for each compute unit, and one for each shader array. In WGP mode a workgroup uses
//! two compute units. The names of gfx12's scopes suggest that it has an array cache, too: data that is invalidated for
//! `SCOPE_SE` may still be older than data that is invalidated for `SCOPE_DEV`.

use crate::memory::{Control, Path};
use sim_isa::{Flags, Format, Inst, Op, Target};

/// `SCOPE_CU`, `SCOPE_SE`, `SCOPE_DEV` and `SCOPE_SYS` of gfx12.
pub(crate) const UNIT: u8 = 0;
pub(crate) const ARRAY: u8 = 1;
pub(crate) const DEVICE: u8 = 2;
const SYSTEM: u8 = 3;

/// The caches that may serve an instruction.
pub(crate) fn path(inst: &Inst, target: Target) -> Path {
    let mem = inst.mem;
    let (stores, is_atomic) = (inst.op.has(Flags::STORE), inst.op.has(Flags::ATOMIC));
    let bypasses = if target.is_gfx12() {
        mem.scope >= DEVICE
    } else if target.is_cdna3_or_later() {
        mem.scc
    } else if matches!(target, Target::Gfx1010 | Target::Gfx1030) && inst.format != Format::Smem {
        mem.glc && mem.dlc
    } else {
        mem.glc
    };
    if inst.format == Format::Smem {
        // Scalar stores are written back at once.
        return if bypasses || stores || is_atomic { Path::Shared } else { Path::Scalar };
    }
    let of_array = if target.is_gfx12() { mem.scope >= ARRAY } else { !target.is_gfx9() && mem.glc };
    let bypasses_unit = of_array && !stores;
    match bypasses || is_atomic {
        true => Path::Shared,
        false if bypasses_unit => Path::Array,
        false => Path::Vector,
    }
}

/// Adds the cache operations of an instruction without other effects.
pub(crate) fn add(control: &mut Control, inst: &Inst, target: Target) {
    let mem = inst.mem;
    let (array, device, system) = (mem.scope >= ARRAY, mem.scope >= DEVICE, mem.scope == SYSTEM);
    match inst.op {
        Op::BufferWbinvl1 | Op::BufferWbinvl1Vol => (control.invalidate_vector, control.write_back) = (true, true),
        Op::BufferGl0Inv => control.invalidate_vector = true,
        Op::BufferGl1Inv | Op::SGl1Inv => control.invalidate_array = true,
        Op::BufferInvl2 => control.invalidate_shared = true,
        Op::BufferInv => {
            control.invalidate_vector |= mem.glc || mem.scc;
            control.invalidate_shared |= mem.glc && mem.scc;
        }
        Op::BufferWbl2 => {
            control.write_back = true;
            control.write_back_die |= mem.scc;
            // gfx90a has it for system scope alone.
            control.write_back_shared |= target == Target::Gfx90a || mem.glc && mem.scc;
        }
        Op::SDcacheInv | Op::SDcacheInvVol => control.invalidate_scalar = true,
        Op::GlobalInv | Op::GlobalWb | Op::GlobalWbinv => {
            let (writes, reads) = (inst.op != Op::GlobalInv, inst.op != Op::GlobalWb);
            control.write_back |= writes && array;
            control.write_back_shared |= writes && system;
            control.invalidate_vector |= reads && array;
            control.invalidate_array |= reads && device;
            control.invalidate_shared |= reads && system;
        }
        _ => control.write_back |= waits_for_stores(inst, target),
    }
}

/// True if all stores are complete after it. gfx9 counts stores with the loads.
fn waits_for_stores(inst: &Inst, target: Target) -> bool {
    let simm = inst.simm as u16;
    match inst.op {
        Op::SWaitcnt => target.is_gfx9() && simm & 0xc00f == 0,
        Op::SWaitcntVscnt | Op::SWaitStorecnt => simm == 0,
        Op::SWaitStorecntDscnt => simm >> 8 & 0x3f == 0,
        Op::SWaitIdle => true,
        _ => false,
    }
}

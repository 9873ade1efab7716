// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Occupancy: the number of workgroups of a kernel that a GPU holds at the same time. These may wait for each other.

use hsa_abi::KernelDispatchPacket;
use sim_isa::Target;

use crate::machine::product::gpu::Gpu;

/// Resources that a workgroup takes.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Lanes of a wave.
    pub lanes: u32,
    /// Vector registers of each lane, including accumulation registers.
    pub registers: u32,
    /// True if its waves run on both compute units of a WGP.
    pub has_two_units: bool,
}

/// Vector registers of a SIMD unit's lanes, for waves of this size, and the granule of their allocation (LLVM,
/// `AMDGPU::IsaInfo::getTotalNumVGPRs` and `getVGPRAllocGranule`).
fn registers(target: Target, name: &str, lanes: u32) -> (u32, u32) {
    let (total, granule) = match target {
        Target::Gfx900 | Target::Gfx906 | Target::Gfx908 => return (256, 4),
        Target::Gfx90a | Target::Gfx942 | Target::Gfx950 => return (512, 8),
        Target::Gfx1010 => (1024, 8),
        Target::Gfx1030 | Target::Gfx1250 => (1024, 16),
        // LLVM's feature `1_5xVGPRs` is not theirs.
        _ if matches!(name, "gfx1102" | "gfx1103" | "gfx1150" | "gfx1152") => (1024, 16),
        Target::Gfx11 | Target::Gfx1150 | Target::Gfx1200 => (1536, 24),
    };
    // Waves of 64 lanes take two of each.
    if lanes == 32 { (total, granule) } else { (total / 2, granule / 2) }
}

/// Bytes of the blocks in which a unit's LDS is allocated (`getLDSAllocGranule` of LLVM 24's `TargetParser`;
/// AMDGPUUsage, `GRANULATED_LDS_SIZE`). gfx10.3, gfx11 and gfx12.0 allocate in twice the unit in which registers are
/// counted.
fn lds_granule(target: Target) -> u32 {
    match target {
        Target::Gfx950 => 1280,
        Target::Gfx1250 => 2048,
        Target::Gfx1030 | Target::Gfx11 | Target::Gfx1150 | Target::Gfx1200 => 1024,
        _ => 512,
    }
}

/// Number of workgroups of a dispatch that fit on the GPU together, at least one. Assumes that no other dispatch runs.
pub fn resident(gpu: &Gpu, target: Target, packet: &KernelDispatchPacket, demand: Demand) -> u64 {
    let items: u32 = packet.workgroup_size.iter().map(|&size| u32::from(size)).product();
    let waves = items.div_ceil(demand.lanes).max(1);
    let together = if demand.has_two_units { 2 } else { 1 };
    let (total, granule) = registers(target, gpu.target.name, demand.lanes);
    let by_registers = total / demand.registers.max(1).next_multiple_of(granule);
    let slots = together * gpu.target.simds * by_registers.clamp(1, gpu.target.waves_per_simd);
    let by_waves = slots / waves;
    // A workgroup of several waves takes one of so many barriers.
    let by_barriers = if waves > 1 { 16 * together } else { u32::MAX };
    let lds = packet.group_segment_size.next_multiple_of(lds_granule(target));
    let by_lds = (together * sim_wave::lds_bytes(target)).checked_div(lds).unwrap_or(u32::MAX);
    let each = by_waves.min(by_barriers).min(by_lds).max(1);
    u64::from((gpu.compute_units / together).max(1)) * u64::from(each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::product::gpu;

    fn workgroups(agents: &str, (size, lds): (u16, u32), demand: Demand) -> u64 {
        let gpu = gpu::parse(agents).unwrap().remove(0);
        // SAFETY: all-zero is a valid packet.
        let blank: KernelDispatchPacket = unsafe { std::mem::zeroed() };
        let packet = KernelDispatchPacket { workgroup_size: [size, 1, 1], group_segment_size: lds, ..blank };
        resident(&gpu, Target::from_processor(gpu.target.name).unwrap(), &packet, demand)
    }

    #[test]
    fn units_waves_registers_barriers_and_lds_are_limits() {
        let few = Demand { lanes: 32, registers: 24, has_two_units: false };
        // 2 SIMD units of 16 waves each.
        assert_eq!(workgroups("gfx1100:cus=4", (256, 0), few), 4 * 4);
        assert_eq!(workgroups("gfx1100:cus=4", (64, 0), few), 4 * 16);
        assert_eq!(workgroups("gfx1100:cus=4", (32, 0), few), 4 * 32);
        assert_eq!(workgroups("gfx1100:cus=4", (256, 20 << 10), few), 4 * 3);
        assert_eq!(workgroups("gfx1100:cus=4", (256, 64 << 10), Demand { has_two_units: true, ..few }), 2 * 2);
        // 1536 of 256, in steps of 24: 5 waves on each unit.
        assert_eq!(workgroups("gfx1100:cus=4", (256, 0), Demand { registers: 256, ..few }), 4);
        assert_eq!(workgroups("gfx1100:cus=4", (32, 0), Demand { registers: 256, ..few }), 4 * 10);
        // Most smaller GPUs have 1024.
        assert_eq!(workgroups("gfx1151:cus=4", (32, 0), Demand { registers: 256, ..few }), 4 * 10);
        assert_eq!(workgroups("gfx1150:cus=4", (32, 0), Demand { registers: 256, ..few }), 4 * 8);
        let gfx9 = Demand { lanes: 64, registers: 128, has_two_units: false };
        assert_eq!(workgroups("gfx942:cus=10", (256, 0), gfx9), 10 * 4);
        assert_eq!(workgroups("gfx906:cus=10", (256, 0), gfx9), 10 * 2);
        // 160 KiB are 128 blocks of 1280 bytes: 16 of them fit 8 times, 17 of them 7 times.
        let wide = |lds| workgroups("gfx950:cus=1", (64, lds), Demand { registers: 8, ..gfx9 });
        assert_eq!((wide(16 * 1280), wide(16 * 1280 + 1)), (8, 7));
        // A workgroup that one unit could not hold runs alone on it.
        assert_eq!(workgroups("gfx906:cus=10", (1024, 0), Demand { registers: 256, ..gfx9 }), 10);
    }
}
